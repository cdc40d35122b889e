// Bytes of files in memory: the results of requests, in buffers at any positions.
#include "io/held.hpp"

#include <nanobind/stl/vector.h>

#include "base/owned.hpp"
#include "io/source.hpp"

namespace alance {
namespace {

Owned<uint8_t> gather(const std::vector<const HeldFile*>& files, const std::vector<int64_t>& ends,
                      const In<int64_t>& starts, const In<int64_t>& stops) {
  const int64_t count = std::ssize(starts);
  if (std::ssize(stops) != count) corrupt("held bytes: starts and stops differ");
  if (ends.size() != files.size() || (ends.empty() ? 0 : ends.back()) != count ||
      !std::is_sorted(ends.begin(), ends.end()) || (count && ends[0] < 0))
    corrupt("held bytes: ends of files");
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i)
    if (stops.data()[i] < starts.data()[i] ||
        __builtin_add_overflow(total, stops.data()[i] - starts.data()[i], &total))
      corrupt("held bytes: a piece that is none");
  Owned<uint8_t> bytes(total);
  uint8_t* out = bytes.data();
  int64_t i = 0;
  for (size_t file = 0; file < files.size(); ++file)
    for (; i < ends[file]; ++i) {
      if (!files[file]->copy(starts.data()[i], stops.data()[i], out))
        corrupt("held bytes: a piece is not held");
      out += stops.data()[i] - starts.data()[i];
    }
  return bytes;
}

// Source that reads held files; for one thread.
class HeldSource : public Source {
 public:
  explicit HeldSource(std::vector<nb::object> files) : owners_(std::move(files)) {
    for (const nb::object& file : owners_) files_.push_back(nb::cast<const HeldFile*>(file));
  }

  const uint8_t* view(const Piece& piece) override {
    return is_piece(piece) ? files_[piece.table]->view(piece.start, piece.stop) : nullptr;
  }

  HeldBytes hold(const Piece& piece) override {
    return is_piece(piece) ? files_[piece.table]->hold(piece.start, piece.stop) : HeldBytes{};
  }

  bool copy(const Piece* pieces, size_t count, int64_t num_bytes, uint8_t* out) override {
    const uint8_t* end = out + num_bytes;
    for (const Piece* piece = pieces; piece != pieces + count; ++piece) {
      if (!is_piece(*piece) || piece->stop - piece->start > end - out)
        corrupt("held bytes: a piece that is none");
      if (!files_[piece->table]->copy(piece->start, piece->stop, out)) return false;
      out += piece->stop - piece->start;
    }
    return true;
  }

 private:
  bool is_piece(const Piece& piece) const {
    return piece.table < files_.size() && piece.start <= piece.stop;
  }

  std::vector<nb::object> owners_;  // keep the HeldFile objects alive
  std::vector<const HeldFile*> files_;
};

}  // namespace
}  // namespace alance

void register_held(nanobind::module_& m) {
  using namespace alance;
  const auto cut = [](nb::handle self, int64_t start, int64_t stop) {
    const uint8_t* bytes =
        start < stop ? nb::cast<const HeldFile&>(self).view(start, stop) : nullptr;
    if (bytes == nullptr && start != stop) corrupt("bytes ", start, " to ", stop, " are not held");
    return Numpy<const uint8_t>(bytes, {static_cast<size_t>(stop - start)}, self);
  };
  nb::class_<HeldFile>(m, "HeldFile")
      .def(nb::init<const std::vector<int64_t>&, std::vector<Bytes>>(), "begins"_a, "buffers"_a)
      .def("cut", cut, "start"_a, "stop"_a)
      .def("add", &HeldFile::add, "begin"_a, "buffer"_a, "block_bytes"_a = 0)
      .def("add_pieces", &HeldFile::add_pieces, "starts"_a, "stops"_a, "buffer"_a);
  nb::class_<HeldSource, Source>(m, "HeldSource")
      .def(nb::init<std::vector<nb::object>>(), "files"_a);
  m.def("gather", &gather, "files"_a, "ends"_a, "starts"_a, "stops"_a, NoGil());
}
