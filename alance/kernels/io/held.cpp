// Bytes of files in memory: the results of requests, in buffers at any positions.
#include "io/held.hpp"

#include <nanobind/stl/vector.h>

#include "base/owned.hpp"
#include "io/source.hpp"

namespace alance {
namespace {

// Concatenate pieces of held files; the pieces of file f end at number `ends[f]`.
nb::object gather(const std::vector<const HeldFile*>& files, const std::vector<int64_t>& ends,
                  const In<int64_t>& starts, const In<int64_t>& stops) {
  const int64_t count = static_cast<int64_t>(starts.size());
  if (static_cast<int64_t>(stops.size()) != count) corrupt("held bytes: starts and stops differ");
  if (ends.size() != files.size() || (ends.empty() ? 0 : ends.back()) != count)
    corrupt("held bytes: ends of files");
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i)
    if (stops.data()[i] < starts.data()[i] ||
        __builtin_add_overflow(total, stops.data()[i] - starts.data()[i], &total))
      corrupt("held bytes: a piece that is none");
  for (size_t file = 0; file < ends.size(); ++file)
    if (ends[file] < (file ? ends[file - 1] : 0)) corrupt("held bytes: ends of files");
  Owned<uint8_t> bytes(total);
  bool are_held = true;
  {
    nb::gil_scoped_release release;
    uint8_t* out = bytes.data();
    int64_t i = 0;
    for (size_t file = 0; file < files.size(); ++file)
      for (; are_held && i < ends[file]; ++i) {
        are_held = files[file]->copy(starts.data()[i], stops.data()[i], out);
        out += stops.data()[i] - starts.data()[i];
      }
  }
  if (!are_held) corrupt("held bytes: a piece is not held");
  return nb::cast(bytes.numpy());
}

// Source that reads held files; for one thread.
class HeldSource : public Source {
 public:
  explicit HeldSource(std::vector<nb::object> files) : owners_(std::move(files)) {
    for (const nb::object& file : owners_) files_.push_back(nb::cast<const HeldFile*>(file));
  }

  const uint8_t* view(const Piece& piece) override {
    if (piece.table >= files_.size() || piece.stop < piece.start) return nullptr;
    return files_[piece.table]->view(piece.start, piece.stop);
  }

  HeldBytes hold(const Piece& piece) override {
    if (piece.table >= files_.size() || piece.stop < piece.start) return {};
    return files_[piece.table]->hold(piece.start, piece.stop);
  }

  bool copy(const Piece* pieces, size_t count, int64_t num_bytes, uint8_t* out) override {
    const uint8_t* end = out + num_bytes;
    for (const Piece* piece = pieces; piece != pieces + count; ++piece) {
      if (piece->table >= files_.size() || piece->stop < piece->start || piece->stop - piece->start > end - out)
        corrupt("held bytes: a piece that is none");
      if (!files_[piece->table]->copy(piece->start, piece->stop, out)) return false;
      out += piece->stop - piece->start;
    }
    return true;
  }

 private:
  std::vector<nb::object> owners_;  // keep the HeldFile objects alive
  std::vector<const HeldFile*> files_;
};

}  // namespace
}  // namespace alance

void register_held(nanobind::module_& m) {
  using namespace alance;
  nb::class_<HeldFile>(m, "HeldFile")
      .def(nb::init<const std::vector<int64_t>&, std::vector<Bytes>>(), nb::arg("begins"),
           nb::arg("buffers"))
      .def(
          "cut",
          [](nb::handle self, int64_t start, int64_t stop) {
            const uint8_t* bytes = start < stop ? nb::cast<const HeldFile&>(self).view(start, stop) : nullptr;
            if (bytes == nullptr && start != stop)
              corrupt("bytes " + std::to_string(start) + " to " + std::to_string(stop) + " are not held");
            return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(
                bytes, {static_cast<size_t>(stop - start)}, self);
          },
          nb::arg("start"), nb::arg("stop"))
      .def("add", &HeldFile::add, nb::arg("begin"), nb::arg("buffer"), nb::arg("kept_bytes") = 0)
      .def("add_pieces", &HeldFile::add_pieces, nb::arg("starts"), nb::arg("stops"),
           nb::arg("buffer"));
  nb::class_<HeldSource, Source>(m, "HeldSource")
      .def(nb::init<std::vector<nb::object>>(), nb::arg("files"));
  m.def("gather", &alance::gather, nb::arg("files"), nb::arg("ends"), nb::arg("starts"),
        nb::arg("stops"));
}
