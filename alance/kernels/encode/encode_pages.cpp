// Pages of many leaf columns in one call, without the GIL.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "encode/encode_page.hpp"
#include "codecs/spans.hpp"

namespace alance::pages {
namespace {

// Owner of the arrays that the inputs of a call view.
class Group {
 public:
  View bytes(nb::handle array) {
    return numbers<uint8_t>(array);
  }
  template <typename T>
  std::span<const T> numbers(nb::handle array) {
    const auto view = std::make_shared<In<T>>(nb::cast<In<T>>(array, false));
    arrays_.push_back(view);
    return {view->data(), view->size()};
  }

  // Values by the name of their form: bits and bytes of fixed-width values; offsets and bytes of
  // strings; dimension, validity or None, and items of lists; children of structs; nulls.
  Values values(nb::handle item) {
    const auto parts = nb::cast<nb::tuple>(item);
    const auto count = nb::cast<int64_t>(parts[0]);
    if (count < 0) corrupt("pages: a negative number of values");
    const auto form = nb::cast<std::string>(parts[1]);
    if (form == "fixed") return {count, fixed(count, parts[2], parts[3])};
    if (form == "strings") return {count, strings(count, parts[2], parts[3])};
    if (form == "lists") return {count, lists(count, parts)};
    if (form == "structs") return {count, structs(count, parts[2])};
    if (form == "nulls") return {count, NullsIn{}};
    return {count, OthersIn{}};
  }

 private:
  FixedIn fixed(int64_t count, nb::handle bits_, nb::handle data_) {
    const auto bits = nb::cast<int64_t>(bits_);
    const View data = bytes(data_);
    if (bits < 1) corrupt("pages: values of ", bits, " bits");
    const int64_t expected = bytes_of_bits(product(count, bits, "pages"));
    if (std::ssize(data) < expected)
      corrupt("pages: ", data.size(), " bytes of values, expected ", expected);
    return {bits, data.first(static_cast<size_t>(expected))};
  }

  StringsView strings(int64_t count, nb::handle offsets, nb::handle data) {
    size_t num = 0;
    StringsView view{4, nullptr, {}};
    if (nb::isinstance<In<int32_t>>(offsets)) {
      const auto ends = numbers<int32_t>(offsets);
      num = ends.size();
      view = {4, ends.data(), bytes(data)};
    } else {
      const auto ends = numbers<int64_t>(offsets);
      num = ends.size();
      view = {8, ends.data(), bytes(data)};
    }
    if (static_cast<int64_t>(num) != count + 1) corrupt("pages: offsets of other strings");
    return view;
  }

  ListsIn lists(int64_t count, const nb::tuple& parts) {
    const auto dimension = nb::cast<int64_t>(parts[2]);
    ListsIn lists{dimension, {}, {values(parts[4])}};
    const int64_t num_items = product(count, dimension, "pages");
    if (dimension < 1 || lists.items[0].count != num_items) corrupt("pages: items of other lists");
    if (!parts[3].is_none()) {
      const View validity = bytes(parts[3]);
      const auto num_bytes = static_cast<size_t>(bytes_of_bits(num_items));
      if (validity.size() < num_bytes) corrupt("pages: validity of fewer items");
      lists.validity = validity.first(num_bytes);
    }
    return lists;
  }

  StructsIn structs(int64_t count, nb::handle children) {
    StructsIn structs;
    for (nb::handle child : nb::cast<nb::list>(children)) {
      structs.children.push_back(values(child));
      if (structs.children.back().count != count) corrupt("pages: children of other structs");
    }
    return structs;
  }

  std::vector<std::shared_ptr<void>> arrays_;
};

Options options_of(nb::handle item) {
  const auto parts = nb::cast<nb::tuple>(item);
  Options options;
  options.compression = static_cast<Compression>(nb::cast<int>(parts[0]));
  options.level = nb::cast<std::optional<int32_t>>(parts[1]);
  options.most_runs = nb::cast<std::optional<double>>(parts[2]);
  options.split = static_cast<Split>(nb::cast<int>(parts[3]));
  options.chunk_bytes = nb::cast<int64_t>(parts[4]);
  options.dict_divisor = nb::cast<int64_t>(parts[5]);
  options.dict_size_ratio = nb::cast<double>(parts[6]);
  options.dict_max_bytes = nb::cast<std::optional<int64_t>>(parts[7]);
  options.dict_values = static_cast<Compression>(nb::cast<int>(parts[8]));
  options.dict_level = nb::cast<std::optional<int32_t>>(parts[9]);
  if (options.dict_divisor < 1 || options.chunk_bytes < 1) corrupt("pages: options");
  return options;
}

// (layers, rep, definition, values, items, options, minor, mode, zip_bits)
Input input_of(nb::handle item, Group& group) {
  const auto parts = nb::cast<nb::tuple>(item);
  Input input;
  for (nb::handle layer : nb::cast<nb::tuple>(parts[0]))
    input.levels.layers.push_back(nb::cast<uint8_t>(layer));
  if (!parts[1].is_none()) input.levels.rep = group.numbers<uint16_t>(parts[1]);
  if (!parts[2].is_none()) input.levels.definition = group.numbers<uint16_t>(parts[2]);
  input.values = group.values(parts[3]);
  if (!parts[4].is_none()) input.items = group.values(parts[4]);
  input.options = options_of(parts[5]);
  input.minor = nb::cast<int>(parts[6]);
  input.mode = static_cast<Mode>(nb::cast<int>(parts[7]));
  input.zip_bits = nb::cast<int64_t>(parts[8]);
  return input;
}

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// (layout, buffers, search) of a page, (layout, number of bytes) if its only buffer is the values,
// (value or None,) of a sparse constant, or number of a reason.
nb::object result_of(Result& result) {
  if (const auto* reason = std::get_if<NoPage>(&result)) return nb::cast(static_cast<int>(*reason));
  if (const auto* constant = std::get_if<SparseConstant>(&result))
    return nb::make_tuple(constant->value ? nb::object(bytes_of(*constant->value)) : nb::none());
  auto& page = std::get<Page>(result);
  if (!page.rows.empty()) return nb::make_tuple(bytes_of(page.layout), page.rows.size());
  const nb::tuple search = nb::tuple(nb::cast(search_of(page)));
  nb::list buffers;
  for (auto& buffer : page.buffers) buffers.append(buffer.numpy());
  return nb::make_tuple(bytes_of(page.layout), nb::tuple(buffers), search);
}

// Encode all inputs, in order. `zstd` is called with bytes and a level.
nb::list encode_pages(const nb::list& items, const nb::callable& zstd) {
  Group group;
  std::vector<Input> inputs;
  for (nb::handle item : items) inputs.push_back(input_of(item, group));
  const Zstd frame = zstd_of(zstd);
  std::vector<Result> results;
  {
    nb::gil_scoped_release release;
    for (const Input& input : inputs) results.push_back(page_of(input, frame));
  }
  nb::list all;
  for (Result& result : results) all.append(result_of(result));
  return all;
}

}  // namespace

Zstd zstd_of(nb::callable frame) {
  return [frame = std::move(frame)](View data, int32_t level) {
    nb::gil_scoped_acquire acquire;
    const auto packed = nb::cast<nb::bytes>(
        frame(nb::bytes(reinterpret_cast<const char*>(data.data()), data.size()), level));
    return std::string(packed.c_str(), packed.size());
  };
}

}  // namespace alance::pages

void register_encode_pages(nanobind::module_& m) {
  using namespace alance;
  m.def("encode_pages", &pages::encode_pages, "inputs"_a, "zstd"_a);
}
