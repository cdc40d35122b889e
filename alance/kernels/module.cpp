// alance._kernels: the inner loops of the format.
//
// A kernel knows one part of the format: the layout of values, levels and chunks in pages (codecs,
// rows of pages, full-zip rows), or an index's codes and lists. A few files also know the parts
// around pages: footers and tables of contents (rows/footer.hpp, rows/file_ends.cpp; written by
// encode/container.cpp and encode/small_file.cpp), zone maps (encode/zones.cpp), column metadata and
// manifests by their field numbers (rows/column_metadata.cpp, table/manifest_fragments.cpp,
// table/schema_fields.cpp, over base/proto_wire.hpp). Python decides which page, file or version is
// read, and what is requested from a store.
//
// A kernel is pure: bytes and arrays in, arrays out. The exceptions are io/pieces.cpp, which reads
// files for `alance.io` and does not interpret them, and io/folders.cpp, which lists folders and
// starts the write-back of files.
//
// Each register_* function is in the file of its loops. Every function checks the bounds of all its
// buffers before its loop, releases the GIL for long loops, and raises ValueError (`corrupt` in
// base/bounds.hpp) on bytes that contradict themselves.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

// Classes come before those that derive from them: Source in pieces.
#define ALANCE_KERNELS(X)                                                                          \
  X(pieces)                                                                                        \
  X(row_table) X(bitmaps) X(bitpacking) X(bloom) X(clusters) X(coalesce) X(column_metadata)        \
      X(digests) X(encode_bitpacking) X(encode_streams) X(encode_lz4) X(encode_distinct)           \
          X(encode_fsst) X(container) X(zones) X(encode_pages) X(file_ends) X(floats) X(fm_index)  \
              X(folders) X(fsst) X(graph) X(graph_build) X(held) X(json_find) X(jsonb) X(keys)     \
                  X(lz4) X(manifest_fragments) X(masks) X(memory) X(new_pages) X(pages_chunks)     \
                      X(pages_levels) X(pairs) X(patterns) X(row_batch) X(row_lookup) X(row_order) \
                          X(schema_fields) X(small_file) X(strings) X(text_index) X(text_postings) \
                              X(text_search) X(text_split) X(text_tokens) X(text_transducer)       \
                                  X(utf8) X(vector_codes) X(vector_encode) X(vector_products)      \
                                      X(vectors)

#define ALANCE_DECLARE(name) void register_##name(nb::module_& m);
ALANCE_KERNELS(ALANCE_DECLARE)

NB_MODULE(_alance_kernels, m) {
#ifdef NDEBUG
  // Daemon threads that the exiting interpreter ends never free their objects, so a warning of them
  // would say nothing of a leak.
  nb::set_leak_warnings(false);
#endif
  m.attr("INTERFACE") = ALANCE_INTERFACE;
#define ALANCE_REGISTER(name) register_##name(m);
  ALANCE_KERNELS(ALANCE_REGISTER)
}
