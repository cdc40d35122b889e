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

using Register = void(nb::module_& m);

Register register_bitmaps, register_bitpacking, register_bloom, register_clusters,
    register_coalesce, register_column_metadata, register_digests, register_encode,
    register_file_ends, register_floats, register_fm_index, register_folders, register_fsst,
    register_graph, register_graph_build, register_held, register_json_find, register_jsonb,
    register_keys, register_lz4, register_manifest_fragments, register_masks, register_memory,
    register_new_pages, register_pages_chunks, register_pages_levels,
    register_pairs, register_patterns, register_pieces, register_row_batch, register_row_lookup,
    register_row_order, register_row_table, register_schema_fields, register_small_file,
    register_strings, register_text_index, register_text_postings, register_text_search,
    register_text_split, register_text_tokens, register_text_transducer, register_utf8,
    register_vector_codes, register_vector_encode, register_vector_products, register_vectors;

// Classes come before those that derive from them: Source in pieces, RowTable in row_table.
constexpr Register* kRegister[] = {
    register_pieces, register_row_table, register_bitmaps, register_bitpacking, register_bloom,
    register_clusters, register_coalesce, register_column_metadata, register_digests,
    register_encode, register_file_ends, register_floats, register_fm_index, register_folders,
    register_fsst, register_graph, register_graph_build, register_held, register_json_find,
    register_jsonb, register_keys, register_lz4, register_manifest_fragments, register_masks,
    register_memory, register_new_pages, register_pages_chunks, register_pages_levels,
    register_pairs, register_patterns, register_row_batch, register_row_lookup,
    register_row_order, register_schema_fields, register_small_file, register_strings,
    register_text_index, register_text_postings, register_text_search, register_text_split,
    register_text_tokens, register_text_transducer, register_utf8, register_vector_codes,
    register_vector_encode, register_vector_products, register_vectors};

NB_MODULE(_alance_kernels, m) {
#ifdef NDEBUG
  // Daemon threads that the exiting interpreter ends never free their objects, so a warning of them
  // would say nothing of a leak.
  nb::set_leak_warnings(false);
#endif
  m.attr("INTERFACE") = ALANCE_INTERFACE;
  for (Register* add : kRegister) add(m);
}
