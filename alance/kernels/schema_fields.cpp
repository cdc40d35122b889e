// The fields of a table's schema from the message of its manifest, without one object a field.
//
// What is unusual is left to the parser of messages, which knows what to say of it: fields below
// others, ids that are used twice, text that is no UTF-8.
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "proto_wire.hpp"
#include "utf8.hpp"

namespace alance {
namespace {

bool is_text(std::string_view part) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(part.data());
  return is_utf8(bytes, bytes + part.size());
}

class SchemaFields {
 public:
  // False where the fields must be looked at with more care.
  bool parse(std::string_view manifest) {
    ProtoWire message(manifest);
    while (message.next()) {
      const uint8_t* begin = message.position();
      if (message.field != FIELDS && message.field != METADATA) {
        message.skip();
        continue;
      }
      if (message.wire != 2) return false;
      const std::string_view part = message.bytes();
      if (!message.ok) return false;
      key_ += static_cast<char>(message.field);
      key_.append(reinterpret_cast<const char*>(begin),
                  static_cast<size_t>(message.position() - begin));
      if (message.field == FIELDS && !add(part)) return false;
    }
    if (!message.ok) return false;
    std::sort(ids_.begin(), ids_.end());
    return std::adjacent_find(ids_.begin(), ids_.end()) == ids_.end();
  }

  // The fields and the metadata of the schema, as they lie in the message.
  nb::bytes key() const { return nb::bytes(key_.data(), key_.size()); }
  size_t count() const { return names_.size(); }
  std::vector<std::string> types() const {
    std::vector<std::string> all(types_.size());
    for (const auto& [type, number] : types_) all[number] = type;
    return all;
  }
  const std::vector<std::string>& names() const { return names_; }
  // Of each field the number of its type, and whether it may be null.
  const std::vector<uint32_t>& type_numbers() const { return type_of_; }
  const std::vector<bool>& nullable() const { return nullable_; }
  // The numbers of the fields that have metadata.
  const std::vector<uint32_t>& marked() const { return marked_; }
  // The number of the first field of a name; -1: none has it.
  int64_t find(const std::string& name) {
    if (by_name_.empty())
      for (size_t i = 0; i < names_.size(); ++i)
        by_name_.emplace(names_[i], static_cast<int64_t>(i));
    const auto place = by_name_.find(name);
    return place == by_name_.end() ? -1 : place->second;
  }

 private:
  static constexpr uint32_t FIELDS = 1, METADATA = 5;
  static constexpr uint32_t NAME = 2, ID = 3, PARENT = 4, TYPE = 5, NULLABLE = 6,
                            DICTIONARY = 8, OF_FIELD = 10;

  bool add(std::string_view content) {
    ProtoWire field(content);
    std::string_view name, type;
    uint64_t id = 0, parent = 0;
    bool is_nullable = false, is_marked = false;
    while (field.next()) {
      const bool is_part = field.field == NAME || field.field == TYPE || field.field == OF_FIELD;
      const bool is_number = field.field == ID || field.field == PARENT || field.field == NULLABLE;
      if (field.field == DICTIONARY || (is_part && field.wire != 2) || (is_number && field.wire != 0))
        return false;
      switch (field.field) {
        case NAME: name = field.bytes(); break;
        case TYPE: type = field.bytes(); break;
        case ID: id = field.varint(); break;
        case PARENT: parent = field.varint(); break;
        case NULLABLE: is_nullable = field.varint() != 0; break;
        case OF_FIELD:
          is_marked = true;
          if (!is_text_of_entry(field.bytes())) return false;
          break;
        default: field.skip();
      }
    }
    if (!field.ok || id > INT32_MAX || parent != UINT64_MAX || !is_text(name)) return false;
    ids_.push_back(id);
    if (is_marked) marked_.push_back(static_cast<uint32_t>(names_.size()));
    names_.emplace_back(name);
    nullable_.push_back(is_nullable);
    const auto place = types_.emplace(std::string(type), types_.size()).first;
    type_of_.push_back(static_cast<uint32_t>(place->second));
    return true;
  }

  // Whether the value of an entry of metadata is UTF-8; its key was looked at.
  static bool is_text_of_entry(std::string_view content) {
    ProtoWire entry(content);
    while (entry.next()) {
      if (entry.wire != 2) return false;
      const std::string_view part = entry.bytes();
      if (entry.ok && !is_text(part)) return false;
    }
    return entry.ok;
  }

  std::string key_;
  std::vector<uint64_t> ids_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> types_;
  std::vector<uint32_t> type_of_, marked_;
  std::vector<bool> nullable_;
  std::unordered_map<std::string_view, int64_t> by_name_;
};

// The top-level fields of a manifest's schema; None where they must be looked at with more care.
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
      .def_prop_ro("names", &SchemaFields::names)
      .def_prop_ro("type_numbers", &SchemaFields::type_numbers)
      .def_prop_ro("nullable", &SchemaFields::nullable)
      .def_prop_ro("marked", &SchemaFields::marked)
      .def("find", &SchemaFields::find, nb::arg("name"));
  m.def("schema_fields", &schema_fields, nb::arg("manifest"));
}
