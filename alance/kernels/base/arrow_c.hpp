// Arrow C data interface: export of the columns of one record batch.
//
// Source: arrow.apache.org/docs/format/CDataInterface.html
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/owned.hpp"

extern "C" {
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
}

namespace alance::arrow {

// Column with its buffers in Arrow's order: validity (null if all values are valid) and values;
// strings have validity, offsets, bytes; lists validity, offsets; structs validity. `num_nulls` is
// -1 if the nulls are not counted.
struct Column {
  int64_t num_rows = 0, num_nulls = 0;
  std::vector<const void*> buffers;
  std::vector<Column> children{};
  std::vector<Column> dictionary{};  // empty, or the one column that the values index
};

// Columns of a batch and the memory they lie in, which is freed with the batch.
class Batch {
 public:
  explicit Batch(int64_t num_rows) : num_rows_(num_rows) {}

  // Keep memory as long as the batch lives; returns its first element.
  template <typename T>
  T* keep(Owned<T> memory) {
    T* data = memory.data();
    memory_.push_back(std::make_shared<Owned<T>>(std::move(memory)));
    return data;
  }

  void keep(std::shared_ptr<const void> owner) { memory_.push_back(std::move(owner)); }

  void add(Column column) { columns_.push_back(std::move(column)); }

  // Export all columns as one struct array. The consumer releases it, from any thread.
  static ArrowArray exported(std::unique_ptr<Batch> batch) {
    Batch& self = *batch;
    ArrowArray** children = self.arrays_of(self.columns_);
    const int64_t num_columns = std::ssize(self.columns_);
    return {self.num_rows_, 0,        0,       1,              num_columns,
            self.none_,     children, nullptr, &release_batch, batch.release()};
  }

 private:
  // Arrow arrays of columns and, recursively, of their children.
  ArrowArray** arrays_of(std::vector<Column>& columns) {
    std::vector<ArrowArray*>& pointers = pointers_.emplace_back();
    for (Column& column : columns) {
      ArrowArray** children = column.children.empty() ? nullptr : arrays_of(column.children);
      ArrowArray* dictionary = column.dictionary.empty() ? nullptr : arrays_of(column.dictionary)[0];
      arrays_.push_back({column.num_rows, column.num_nulls, 0, std::ssize(column.buffers),
                         std::ssize(column.children), column.buffers.data(), children, dictionary,
                         &release_child, nullptr});
      pointers.push_back(&arrays_.back());
    }
    return pointers.data();
  }
  static void release_child(ArrowArray* array) { array->release = nullptr; }
  static void release_batch(ArrowArray* array) {
    delete static_cast<Batch*>(array->private_data);
    array->release = nullptr;
  }

  int64_t num_rows_;
  std::vector<Column> columns_;
  std::vector<std::shared_ptr<const void>> memory_;
  std::deque<ArrowArray> arrays_;  // a deque: its elements never move
  std::deque<std::vector<ArrowArray*>> pointers_;
  const void* none_[1] = {nullptr};
};

// Batch that waits for `RecordBatch._import_from_c`; freed with its owner if never imported.
class Exported {
 public:
  Exported() = default;
  Exported(const Exported&) = delete;
  ~Exported() {
    if (array_.release != nullptr) array_.release(&array_);
  }

  // Address of the array; 0 if there is none or it was imported.
  uintptr_t address() const {
    return array_.release == nullptr ? 0 : reinterpret_cast<uintptr_t>(&array_);
  }

 protected:
  void give(std::unique_ptr<Batch> batch) {
    if (array_.release != nullptr) array_.release(&array_);
    array_ = Batch::exported(std::move(batch));
  }

 private:
  ArrowArray array_{};
};

}  // namespace alance::arrow
