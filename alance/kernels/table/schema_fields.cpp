// Fields of a table's schema from the manifest's bytes, without an object for each field.
//
// Unusual fields are left to the protobuf parser, whose errors are precise. Unusual are: nested
// fields, ids used twice, and text that is not UTF-8.
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/arrow_c.hpp"
#include "base/proto_wire.hpp"
#include "base/hashes.hpp"
#include "base/utf8.hpp"

namespace alance {
namespace {

constexpr int64_t kIsNullable = 2;  // flag of the Arrow C data interface

// Arrow fields that their owner exported; released with this.
class ExportedFields {
 public:
  explicit ExportedFields(const nb::list& fields) : all_(fields.size()) {
    for (size_t i = 0; i < all_.size(); ++i)
      fields[i].attr("_export_to_c")(reinterpret_cast<uintptr_t>(&all_[i]));
  }
  ExportedFields(const ExportedFields&) = delete;
  ExportedFields& operator=(const ExportedFields&) = delete;
  ~ExportedFields() {
    for (ArrowSchema& field : all_)
      if (field.release) field.release(&field);
  }
  const ArrowSchema& operator[](size_t number) const { return all_[number]; }
  size_t size() const { return all_.size(); }

 private:
  std::vector<ArrowSchema> all_;
};

class SchemaFields {
 public:
  // Read the fields; false if they need the protobuf parser.
  bool parse(std::string_view manifest) {
    ProtoWire message(manifest);
    while (message.next()) {
      if (message.field != kFields && message.field != kMetadata) {
        message.skip();
        continue;
      }
      if (message.wire != 2) return false;
      const std::string_view part = message.bytes();
      if (!message.ok) return false;
      key_.append(message.whole());
      if (message.field == kFields && !add(part)) return false;
    }
    if (!message.ok) return false;
    std::sort(ids_.begin(), ids_.end());
    return std::adjacent_find(ids_.begin(), ids_.end()) == ids_.end();
  }

  // Fields and metadata of the schema, as they lie in the message.
  nb::bytes key() const { return nb::bytes(key_.data(), key_.size()); }
  size_t count() const { return names_.size(); }
  std::vector<std::string> types() const {
    std::vector<std::string> all(types_.size());
    for (const auto& [type, number] : types_) all[number] = type;
    return all;
  }
  // A nullable field of `kinds` makes all fields of its type nullable.
  nb::object arrow(const nb::list& kinds) const {
    const ExportedFields exported(kinds);
    if (exported.size() != types_.size()) corrupt("schema: one Arrow field a type");
    const auto forget = [](ArrowSchema* field) { field->release = nullptr; };
    std::vector<ArrowSchema> fields(names_.size());
    std::vector<ArrowSchema*> children(names_.size());
    for (size_t i = 0; i < names_.size(); ++i) {
      // The importer reads the fields and releases the root alone.
      fields[i] = exported[type_of_[i]];
      fields[i].name = names_[i].c_str();
      if (nullable_[i]) fields[i].flags |= kIsNullable;
      fields[i].release = forget;
      children[i] = &fields[i];
    }
    ArrowSchema root{"+s",    "",     nullptr, 0, std::ssize(children), children.data(),
                     nullptr, forget, nullptr};
    return nb::module_::import_("pyarrow").attr("Schema").attr("_import_from_c")(
        reinterpret_cast<uintptr_t>(&root));
  }
  const std::vector<uint32_t>& marked() const { return marked_; }
  // Number of the first field of a name, or -1.
  int64_t find(const std::string& name) {
    if (by_name_.empty())
      for (size_t i = 0; i < names_.size(); ++i)
        by_name_.emplace(names_[i], static_cast<int64_t>(i));
    const auto place = by_name_.find(name);
    return place == by_name_.end() ? -1 : place->second;
  }

 private:
  static constexpr uint32_t kFields = 1, kMetadata = 5;
  static constexpr uint32_t kName = 2, kId = 3, kParent = 4, kType = 5, kNullable = 6,
                            kDictionary = 8, kOfField = 10;

  bool add(std::string_view content) {
    ProtoWire field(content);
    std::string_view name, type;
    uint64_t id = 0, parent = 0;
    bool is_nullable = false, is_marked = false;
    while (field.next()) {
      const bool is_part = field.field == kName || field.field == kType || field.field == kOfField;
      const bool is_number =
          field.field == kId || field.field == kParent || field.field == kNullable;
      if (field.field == kDictionary || (is_part && field.wire != 2) ||
          (is_number && field.wire != 0))
        return false;
      switch (field.field) {
        case kName: name = field.bytes(); break;
        case kType: type = field.bytes(); break;
        case kId: id = field.varint(); break;
        case kParent: parent = field.varint(); break;
        case kNullable: is_nullable = field.varint() != 0; break;
        case kOfField:
          is_marked = true;
          if (!is_utf8_entry(field.bytes())) return false;
          break;
        default: field.skip();
      }
    }
    if (!field.ok || id > INT32_MAX || parent != UINT64_MAX || !is_utf8(name)) return false;
    if (name.find('\0') != name.npos) return false;  // it ends a name in Arrow's C interface
    ids_.push_back(id);
    if (is_marked) marked_.push_back(static_cast<uint32_t>(names_.size()));
    names_.emplace_back(name);
    nullable_.push_back(is_nullable);
    const auto place = types_.emplace(std::string(type), types_.size()).first;
    type_of_.push_back(static_cast<uint32_t>(place->second));
    return true;
  }

  // True if key and value of a metadata entry are UTF-8.
  static bool is_utf8_entry(std::string_view content) {
    ProtoWire entry(content);
    while (entry.next()) {
      if (entry.wire != 2) return false;
      const std::string_view part = entry.bytes();
      if (entry.ok && !is_utf8(part)) return false;
    }
    return entry.ok;
  }

  std::string key_;
  std::vector<uint64_t> ids_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t, TextHash> types_;
  std::vector<uint32_t> type_of_, marked_;
  std::vector<bool> nullable_;
  std::unordered_map<std::string_view, int64_t, TextHash> by_name_;
};

// Top-level fields of a manifest's schema; None if they need the protobuf parser.
std::unique_ptr<SchemaFields> schema_fields(nb::bytes manifest) {
  auto fields = std::make_unique<SchemaFields>();
  const std::string_view content(manifest.c_str(), manifest.size());
  if (!fields->parse(content)) return nullptr;
  return fields;
}

}  // namespace
}  // namespace alance

void register_schema_fields(nanobind::module_& m) {
  using namespace alance;
  nb::class_<SchemaFields>(m, "SchemaFields")
      .def("__len__", &SchemaFields::count)
      .def_prop_ro("key", &SchemaFields::key)
      .def_prop_ro("types", &SchemaFields::types)
      .def("arrow", &SchemaFields::arrow, "kinds"_a)
      .def_prop_ro("marked", &SchemaFields::marked)
      .def("find", &SchemaFields::find, "name"_a);
  m.def("schema_fields", &schema_fields, "manifest"_a);
}
