// Values at a path inside JSON text or JSONB: the text and the kind of each.
//
// JSON text is expected as `jsonb_to_text` writes it; spaces between tokens are skipped. Values
// beside the path are skipped without a check of their grammar.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/lists.hpp"
#include "json/jsonb_entries.hpp"

namespace alance {
namespace {

enum Kind : uint8_t { kNothing, kNull, kBoolean, kNumber, kText, kArray, kObject };

constexpr int64_t kNoIndex = -1, kLast = -2;
constexpr int64_t kAllItems = INT64_MIN, kAllMembers = INT64_MIN + 1;
constexpr size_t kMostValues = 1 << 24;  // of one row
constexpr const char* kInText = ": JSON: ";  // before the message of an error

struct Step {
  std::string_view name;  // of a member, if has_name
  bool has_name;
  bool is_other;  // alternative to the step before: its values follow those of that step
  int64_t index;  // of an item; kNoIndex: no item; kLast - n: n-th before the last

  // Position among `count` items; outside [0, count) if there is no such item.
  int64_t place(int64_t count) const { return index <= kLast ? count - 1 - (kLast - index) : index; }
};

// Form of the result: several values as an array; the first value; always an array.
enum Answer : int { kWhole, kFirst, kEach };

// Append the content of a text in quotes, unescaped.
void unquote(std::string_view quoted, std::string& out) {
  const char *at = quoted.data() + 1, *const end = quoted.data() + quoted.size() - 1;
  while (at < end) {
    if (*at != '\\')
      out += *at++;
    else
      jsonb::unescape(++at, end, false, out);
  }
}

bool is_key(std::string_view quoted, std::string_view name) {
  if (quoted.find('\\') == std::string_view::npos)
    return quoted.substr(1, quoted.size() - 2) == name;
  std::string key;
  unquote(quoted, key);
  return key == name;
}

// Scanner of one text; throws std::invalid_argument if it ends too early or has no value.
class Scanner : jsonb::Tokens {
 public:
  using Tokens::Tokens;

  // Text of the next value, with its quotes and brackets.
  std::string_view value() {
    const char first = peek();
    const char* start = at_;
    if (first == '"') {
      string();
    } else if (first == '{' || first == '[') {
      int64_t open = 0;
      do {
        const char next = peek();
        if (next == '"') {
          string();
          continue;
        }
        open += (next == '{' || next == '[') - (next == '}' || next == ']');
        ++at_;
      } while (open > 0);
    } else {
      while (at_ < end_ && !std::strchr(",:]} \n\t\r", *at_)) ++at_;
      if (at_ == start) corrupt("expected a value, found '", *at_, "'");
    }
    return {start, static_cast<size_t>(at_ - start)};
  }

  // Call `visit` with each member's key, as written, and value, until it returns true.
  template <typename Visit>
  void members(Visit visit) {
    each('{', '}', [&] {
      if (peek() != '"') corrupt("a key that is no text");
      const std::string_view key = value();
      expect(':');
      return visit(key, value());
    });
  }

  // Call `visit` with the value of the first member of this name.
  template <typename Visit>
  void member(std::string_view name, Visit visit) {
    members([&](std::string_view key, std::string_view value) {
      if (!is_key(key, name)) return false;
      visit(value);
      return true;
    });
  }

  template <typename Visit>
  void items(Visit visit) {
    each('[', ']', [&] { return visit(value()); });
  }

 private:
  void string() {
    for (++at_; at_ < end_; ++at_) {
      if (*at_ == '\\') {
        ++at_;
      } else if (*at_ == '"') {
        ++at_;
        return;
      }
    }
    corrupt("a text that is not closed");
  }
};

Scanner reader_of(std::string_view value) { return Scanner(value); }
jsonb::Entries reader_of(const jsonb::Entry& value) { return {value.at, value.size}; }

Kind kind_of(std::string_view value) {
  switch (value.empty() ? '\0' : value[0]) {
    case '\0': return kNothing;
    case '{': return kObject;
    case '[': return kArray;
    case '"': return kText;
    case 'n': return kNull;
    case 't': case 'f': return kBoolean;
    default: return kNumber;
  }
}

// Kind of a value for a step: arrays and objects have values below, the others do not differ.
Kind kind_of(const jsonb::Entry& value) {
  if (value.type != jsonb::kContainerEntry) return kNull;
  const uint32_t kind = jsonb::kind_of_container(value.at, value.size);
  return kind == jsonb::kArrays ? kArray : kind == jsonb::kObjects ? kObject : kNull;
}

template <typename Value>
int64_t num_items(const Value& array) {
  int64_t count = 0;
  reader_of(array).items([&](const Value&) { return ++count, false; });
  return count;
}

// Call `visit` with the values one step below: text, or entries of JSONB.
template <typename Value, typename Visit>
void below(const Value& value, const Step& step, Visit visit) {
  const Kind kind = kind_of(value);
  const bool is_all = step.index == kAllItems || step.index == kAllMembers;
  if (step.index == kAllItems && kind != kArray) {
    if (kind != kNothing) visit(value);
  } else if (kind == kObject && is_all) {
    reader_of(value).members([&](const Value&, const Value& member) { return visit(member), false; });
  } else if (kind == kObject && step.has_name) {
    reader_of(value).member(step.name, visit);
  } else if (kind == kArray && step.index != kNoIndex && step.index != kAllMembers) {
    const int64_t place = is_all ? 0 : step.place(step.index <= kLast ? num_items(value) : 0);
    int64_t position = 0;
    reader_of(value).items([&](const Value& item) {
      if (!is_all && position++ != place) return false;
      visit(item);
      return !is_all;
    });
  }
}

// Follow all steps: replace the values by those that the steps lead to.
template <typename Value>
void walk(std::vector<Value>& values, std::vector<Value>& next, const std::vector<Step>& steps) {
  for (size_t i = 0, stop = 0; i < steps.size() && !values.empty(); i = stop) {
    for (stop = i + 1; stop < steps.size() && steps[stop].is_other;) ++stop;
    next.clear();
    for (const Value& value : values)
      for (size_t k = i; k < stop; ++k)
        below(value, steps[k], [&](const Value& other) {
          if (next.size() == kMostValues) corrupt("a path to more than 2^24 values");
          next.push_back(other);
        });
    values.swap(next);
  }
}

// Write the values as `answer` says; `write` appends a value and returns its kind.
template <typename Value, typename Write>
Kind answer_with(const std::vector<Value>& values, int answer, std::string& out, Write write) {
  if (values.empty()) return kNothing;
  if (answer == kFirst || (answer == kWhole && values.size() == 1)) return write(values[0]);
  char before = '[';
  for (const Value& value : values) {
    out += before;
    write(value);
    before = ',';
  }
  out += ']';
  return kArray;
}

using Answered = std::tuple<Owned<int64_t>, Owned<uint8_t>, Owned<uint8_t>>;

// Answers for the rows of a column: text and kind of each. `start(row, values)` appends the value of
// a row, if it has one; `write(value, text)` as in `answer_with`; `before` as in `each_row`.
template <typename Value, typename Start, typename Write>
Answered answers_of(const Strings<int64_t>& strings, const char* before,
                    const std::vector<Step>& steps, int answer, Start start, Write write) {
  Owned<int64_t> stops(strings.count + 1);
  Owned<uint8_t> kinds(strings.count);
  std::string out;
  stops[0] = 0;
  std::vector<Value> current, next;
  jsonb::each_row(strings, before, [&](int64_t row, std::string_view) {
    current.clear();
    start(row, current);
    walk(current, next, steps);
    kinds[row] =
        answer_with(current, answer, out, [&](const Value& value) { return write(value, out); });
    stops[row + 1] = std::ssize(out);
  });
  return {std::move(stops), owned_of(out), std::move(kinds)};
}

std::vector<Step> steps_of(const In<int64_t>& ends, const Bytes& names, const In<int64_t>& indices,
                           const Bytes& has_name) {
  if (ends.size() != indices.size() || ends.size() != has_name.size())
    corrupt("JSON: steps of different counts");
  std::vector<Step> steps;
  int64_t start = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const int64_t stop = ends.data()[i];
    check_ends(start, stop, std::ssize(names), "JSON path");
    const auto name =
        text_of(names).substr(static_cast<size_t>(start), static_cast<size_t>(stop - start));
    const uint8_t flags = has_name.data()[i];
    steps.push_back({name, (flags & 1) != 0, (flags & 2) != 0, indices.data()[i]});
    start = stop;
  }
  return steps;
}

Answered jsonb_find(const In<int64_t>& offsets, const Bytes& data, const Bytes& valid,
                    const In<int64_t>& name_ends, const Bytes& names, const In<int64_t>& indices,
                    const Bytes& has_name, bool plain, int answer) {
  using jsonb::Entry;
  const Strings values(offsets, data, "JSON");
  const Validity is_valid(valid, values.count, "JSONB");
  const auto start = [&](int64_t row, std::vector<Entry>& entries) {
    if (values.size(row) == 0 || !is_valid[row]) return;
    jsonb::Entries whole(values.at(row), values.size(row));
    const bool is_scalar = whole.kind == jsonb::kScalars;
    entries.push_back(is_scalar ? whole.next()
                                : Entry{jsonb::kContainerEntry, values.at(row), values.size(row)});
  };
  const auto write = [&](const Entry& entry, std::string& out) {
    if (plain && entry.type == jsonb::kTextEntry) {
      out.append(entry.text());
      return kText;
    }
    const size_t begin = out.size();
    jsonb::Writer(out).value(entry, 0);
    return kind_of(std::string_view(out).substr(begin));
  };
  Answered answers = answers_of<Entry>(
      values, ": ", steps_of(name_ends, names, indices, has_name), answer, start, write);
  const auto& [stops, content, kinds] = answers;
  if (!are_utf8(stops.data(), values.count, content.data()))
    corrupt("JSONB: text that is no UTF-8");
  return answers;
}

template <typename T>
std::tuple<Owned<T>, int64_t> json_numbers(const In<int64_t>& offsets, const Bytes& data,
                                           const Bytes& kinds) {
  const Strings texts(offsets, data, "JSON");
  if (std::ssize(kinds) != texts.count)
    corrupt("JSON: kinds of ", kinds.size(), " values, there are ", texts.count);
  Owned<T> numbers(texts.count);
  int64_t strange = -1;
  jsonb::each_row(texts, kInText, [&](int64_t row, std::string_view text) {
    numbers[row] = 0;
    const uint8_t kind = kinds.data()[row];
    if (kind <= kNull) return;
    if (kind == kBoolean) {
      numbers[row] = text == "true";
      return;
    }
    if (text.starts_with('+')) text.remove_prefix(1);
    const char* end = text.data() + text.size();
    if constexpr (std::is_same_v<T, int64_t>) {
      const auto [stop, error] = std::from_chars(text.data(), end, numbers[row]);
      const bool is_whole = stop == end && error != std::errc::invalid_argument;
      if (is_whole && error == std::errc()) return;
      const double value = is_whole ? HUGE_VAL : std::round(jsonb::real_of(text).value_or(HUGE_VAL));
      // 2^63 is the first number that does not fit.
      if (std::fabs(value) < 0x1p63)
        numbers[row] = static_cast<int64_t>(value);
      else if (strange < 0)
        strange = row;
    } else if (const auto number = jsonb::real_of(text)) {
      numbers[row] = *number;
    } else if (strange < 0) {
      strange = row;
    }
  });
  return {std::move(numbers), strange};
}

// Empty texts have no value.
Answered json_find(const In<int64_t>& offsets, const Bytes& data, const In<int64_t>& name_ends,
                   const Bytes& names, const In<int64_t>& indices, const Bytes& has_name,
                   bool plain, int answer) {
  const Strings texts(offsets, data, "JSON");
  const auto start = [&](int64_t row, std::vector<std::string_view>& values) {
    if (texts.size(row) != 0) values.push_back(Scanner(texts[row]).value());
  };
  const auto write = [&](std::string_view value, std::string& out) {
    const Kind kind = kind_of(value);
    if (plain && kind == kText)
      unquote(value, out);
    else
      out.append(value);
    return kind;
  };
  return answers_of<std::string_view>(
      texts, kInText, steps_of(name_ends, names, indices, has_name), answer, start, write);
}

Owned<int64_t> json_lengths(const In<int64_t>& offsets, const Bytes& data) {
  const Strings texts(offsets, data, "JSON");
  Owned<int64_t> lengths(texts.count);
  jsonb::each_row(texts, kInText, [&](int64_t row, std::string_view text) {
    lengths[row] = kind_of(text) == kArray ? num_items(text) : 0;
  });
  return lengths;
}

Owned<uint8_t> json_has(const In<int64_t>& offsets, const Bytes& data, const Bytes& item) {
  const Strings texts(offsets, data, "JSON");
  Owned<uint8_t> has_item(texts.count);
  jsonb::each_row(texts, kInText, [&](int64_t row, std::string_view text) {
    has_item[row] = 0;
    if (kind_of(text) != kArray) return;
    Scanner(text).items([&](std::string_view value) {
      if (kind_of(value) == kArray)
        Scanner(value).items([&](std::string_view other) {
          has_item[row] = other == text_of(item);
          return has_item[row] != 0;
        });
      return has_item[row] != 0;
    });
  });
  return has_item;
}

}  // namespace
}  // namespace alance

void register_json_find(nanobind::module_& m) {
  using namespace alance;
  m.def("json_find", &json_find, "offsets"_a.noconvert(), "data"_a, "name_ends"_a.noconvert(),
        "names"_a, "indices"_a.noconvert(), "has_name"_a, "plain"_a, "answer"_a = int{kWhole},
        NoGil());
  m.def("jsonb_find", &jsonb_find, "offsets"_a.noconvert(), "data"_a, "valid"_a,
        "name_ends"_a.noconvert(), "names"_a, "indices"_a.noconvert(), "has_name"_a, "plain"_a,
        "answer"_a = int{kWhole}, NoGil());
  m.def("json_whole", &json_numbers<int64_t>, "offsets"_a.noconvert(), "data"_a, "kinds"_a,
        NoGil());
  m.def("json_real", &json_numbers<double>, "offsets"_a.noconvert(), "data"_a, "kinds"_a, NoGil());
  m.def("json_lengths", &json_lengths, "offsets"_a.noconvert(), "data"_a, NoGil());
  m.def("json_has", &json_has, "offsets"_a.noconvert(), "data"_a, "item"_a, NoGil());
}
