// Arrays as the Arrow C data interface hands them on: columns of one record batch.
//
// Source: arrow.apache.org/docs/format/CDataInterface.html
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "owned.hpp"

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

// The buffers of a column: validity (null: all are valid), values; or validity, offsets, bytes.
struct Column {
  int64_t num_rows = 0, num_nulls = 0;
  std::vector<const void*> buffers;
};

// Columns of a batch and the memory that they lie in, which goes when the batch does.
class Batch {
 public:
  explicit Batch(int64_t num_rows) : num_rows_(num_rows) {}

  // Keeps memory as long as the batch, and gives where it begins.
  template <typename T>
  T* keep(Owned<T> memory) {
    T* data = memory.data();
    kept_.push_back(std::make_shared<Owned<T>>(std::move(memory)));
    return data;
  }

  void add(Column column) { columns_.push_back(std::move(column)); }

  // Gives all away as a struct array; who imports it releases it, in any thread.
  static ArrowArray exported(std::unique_ptr<Batch> batch) {
    Batch& self = *batch;
    self.children_.resize(self.columns_.size());
    self.pointers_.resize(self.columns_.size());
    for (size_t i = 0; i < self.columns_.size(); ++i) {
      Column& column = self.columns_[i];
      const auto num_buffers = static_cast<int64_t>(column.buffers.size());
      self.children_[i] = {column.num_rows, column.num_nulls, 0, num_buffers, 0,
                           column.buffers.data(), nullptr, nullptr, &release_child, nullptr};
      self.pointers_[i] = &self.children_[i];
    }
    return {self.num_rows_,
            0,
            0,
            1,
            static_cast<int64_t>(self.columns_.size()),
            self.none_,
            self.pointers_.data(),
            nullptr,
            &release_batch,
            batch.release()};
  }

 private:
  static void release_child(ArrowArray* array) { array->release = nullptr; }
  static void release_batch(ArrowArray* array) {
    delete static_cast<Batch*>(array->private_data);
    array->release = nullptr;
  }

  int64_t num_rows_;
  std::vector<Column> columns_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<ArrowArray> children_;
  std::vector<ArrowArray*> pointers_;
  const void* none_[1] = {nullptr};
};

// A batch that waits for `RecordBatch._import_from_c`, and goes with its owner if that never comes.
class Exported {
 public:
  Exported() = default;
  Exported(const Exported&) = delete;
  ~Exported() {
    if (array_.release != nullptr) array_.release(&array_);
  }

  // Where the array is; 0: there is none, or it has been imported.
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
