// Pages of many leaf columns in one call, without the GIL.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "encode/encode_page.hpp"
#include "codecs/spans.hpp"

namespace alance::pages {
namespace {

template <typename T>
std::span<const T> numbers(nb::handle array, Arrays& arrays) {
  const auto view = std::make_shared<In<T>>(nb::cast<In<T>>(array, false));
  arrays.push_back(view);
  return {view->data(), view->size()};
}

FixedIn fixed(int64_t count, const nb::tuple& parts, Arrays& arrays) {
  const auto bits = nb::cast<int64_t>(parts[2]);
  const View data = numbers<uint8_t>(parts[3], arrays);
  if (bits < 1) corrupt("pages: values of ", bits, " bits");
  const int64_t expected = bytes_of_bits(product(count, bits, "pages"));
  if (std::ssize(data) < expected)
    corrupt("pages: ", data.size(), " bytes of values, expected ", expected);
  return {bits, data.first(static_cast<size_t>(expected))};
}

StringsView strings(int64_t count, const nb::tuple& parts, Arrays& arrays) {
  const auto view = [&](auto offset) {
    const auto ends = numbers<decltype(offset)>(parts[2], arrays);
    if (std::ssize(ends) != count + 1) corrupt("pages: offsets of other strings");
    return StringsView{sizeof(offset), ends.data(), numbers<uint8_t>(parts[3], arrays)};
  };
  return nb::isinstance<In<int32_t>>(parts[2]) ? view(int32_t{}) : view(int64_t{});
}

ListsIn lists(int64_t count, const nb::tuple& parts, Arrays& arrays) {
  const auto dimension = nb::cast<int64_t>(parts[2]);
  ListsIn lists{dimension, {}, {values_of(parts[4], arrays)}};
  const int64_t num_items = product(count, dimension, "pages");
  if (dimension < 1 || lists.items[0].count != num_items) corrupt("pages: items of other lists");
  if (!parts[3].is_none()) {
    const View validity = numbers<uint8_t>(parts[3], arrays);
    const auto num_bytes = static_cast<size_t>(bytes_of_bits(num_items));
    if (validity.size() < num_bytes) corrupt("pages: validity of fewer items");
    lists.validity = validity.first(num_bytes);
  }
  return lists;
}

StructsIn structs(int64_t count, const nb::tuple& parts, Arrays& arrays) {
  StructsIn structs;
  for (nb::handle child : nb::cast<nb::list>(parts[2])) {
    structs.children.push_back(values_of(child, arrays));
    if (structs.children.back().count != count) corrupt("pages: children of other structs");
  }
  return structs;
}

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
Input input_of(nb::handle item, Arrays& arrays) {
  const auto parts = nb::cast<nb::tuple>(item);
  Input input;
  for (nb::handle layer : nb::cast<nb::tuple>(parts[0]))
    input.levels.layers.push_back(nb::cast<uint8_t>(layer));
  if (!parts[1].is_none()) input.levels.rep = numbers<uint16_t>(parts[1], arrays);
  if (!parts[2].is_none()) input.levels.definition = numbers<uint16_t>(parts[2], arrays);
  input.values = values_of(parts[3], arrays);
  if (!parts[4].is_none()) input.items = values_of(parts[4], arrays);
  input.options = options_of(parts[5]);
  input.minor = nb::cast<int>(parts[6]);
  input.mode = static_cast<Mode>(nb::cast<int>(parts[7]));
  input.zip_bits = nb::cast<int64_t>(parts[8]);
  return input;
}

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// (layout, buffers, search) of a page, (value or None,) of a sparse constant, or number of a reason.
// Buffers that are views keep the input alive.
nb::object result_of(Result& result, nb::handle input) {
  if (const auto* reason = std::get_if<NoPage>(&result)) return nb::cast(static_cast<int>(*reason));
  if (const auto* constant = std::get_if<SparseConstant>(&result))
    return nb::make_tuple(constant->value ? nb::object(bytes_of(*constant->value)) : nb::none());
  auto& page = std::get<Page>(result);
  const nb::tuple search = nb::tuple(nb::cast(search_of(page)));
  nb::list buffers;
  for (Buffer& buffer : page.buffers) buffers.append(buffer.numpy(input));
  return nb::make_tuple(bytes_of(page.layout), nb::tuple(buffers), search);
}

// Encode all inputs, in order. `zstd` is called with bytes and a level.
nb::list encode_pages(const nb::list& items, const nb::callable& zstd) {
  Arrays arrays;
  std::vector<Input> inputs;
  for (nb::handle item : items) inputs.push_back(input_of(item, arrays));
  const Compress frame = compress_of(zstd);
  std::vector<Result> results;
  {
    nb::gil_scoped_release release;
    for (const Input& input : inputs) results.push_back(page_of(input, frame));
  }
  nb::list all;
  for (size_t i = 0; i < results.size(); ++i) all.append(result_of(results[i], items[i]));
  return all;
}

}  // namespace

Values values_of(nb::handle item, Arrays& arrays) {
  const auto parts = nb::cast<nb::tuple>(item);
  const auto count = nb::cast<int64_t>(parts[0]);
  if (count < 0) corrupt("pages: a negative number of values");
  const auto form = nb::cast<std::string>(parts[1]);
  if (form == "fixed") return {count, fixed(count, parts, arrays)};
  if (form == "strings") return {count, strings(count, parts, arrays)};
  if (form == "lists") return {count, lists(count, parts, arrays)};
  if (form == "structs") return {count, structs(count, parts, arrays)};
  if (form == "nulls") return {count, NullsIn{}};
  return {count, OthersIn{}};
}

Compress compress_of(nb::callable function) {
  return [function = std::move(function)](View data, int32_t level) {
    nb::gil_scoped_acquire acquire;
    const auto packed = nb::cast<nb::bytes>(
        function(nb::bytes(reinterpret_cast<const char*>(data.data()), data.size()), level));
    return std::string(packed.c_str(), packed.size());
  };
}

}  // namespace alance::pages

void register_encode_pages(nanobind::module_& m) {
  using namespace alance;
  m.def("encode_pages", &pages::encode_pages, "inputs"_a, "zstd"_a);
}
