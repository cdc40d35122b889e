// alance._kernels: the inner loops of the format.
//
// A kernel knows one part of the format: the layout of values, levels and chunks in pages (codecs,
// rows of pages, full-zip rows), or an index's codes and lists. A few files also know the parts
// around pages: footers and tables of contents (rows/footer.hpp, rows/file_ends.cpp; written by
// encode/container.cpp and encode/small_file.cpp), zone maps (encode/zones.cpp), column metadata and
// manifests by their field numbers (rows/column_metadata.cpp, table/manifest_fragments.cpp,
// table/manifest_totals.cpp, table/schema_fields.cpp, over base/proto_wire.hpp). Python decides which
// page, file or version is read, and what is requested from a store.
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

void register_bitpacking(nb::module_& m);
void register_blake(nb::module_& m);
void register_bloom(nb::module_& m);
void register_coalesce(nb::module_& m);
void register_digests(nb::module_& m);
void register_distances(nb::module_& m);
void register_folders(nb::module_& m);
void register_fsst(nb::module_& m);
void register_lz4(nb::module_& m);
void register_strings(nb::module_& m);
void register_column_metadata(nb::module_& m);
void register_new_pages(nb::module_& m);
void register_masks(nb::module_& m);
void register_memory(nb::module_& m);
void register_patterns(nb::module_& m);
void register_pieces(nb::module_& m);
void register_held(nb::module_& m);
void register_floats(nb::module_& m);
void register_row_order(nb::module_& m);
void register_row_lookup(nb::module_& m);
void register_row_sets(nb::module_& m);
void register_bitmaps(nb::module_& m);
void register_row_table(nb::module_& m);
void register_row_batch(nb::module_& m);
void register_place_rows(nb::module_& m);
void register_utf8(nb::module_& m);
void register_jsonb(nb::module_& m);
void register_json_find(nb::module_& m);
void register_pages_levels(nb::module_& m);
void register_pages_chunks(nb::module_& m);
void register_encode(nb::module_& m);
void register_encode_jsonb(nb::module_& m);
void register_item_sets(nb::module_& m);
void register_keys(nb::module_& m);
void register_keys_joined(nb::module_& m);
void register_file_ends(nb::module_& m);
void register_small_file(nb::module_& m);
void register_schema_fields(nb::module_& m);
void register_manifest_fragments(nb::module_& m);
void register_manifest_totals(nb::module_& m);
void register_vector_products(nb::module_& m);
void register_vectors(nb::module_& m);
void register_graph(nb::module_& m);
void register_graph_build(nb::module_& m);
void register_graph_rows(nb::module_& m);
void register_vector_codes(nb::module_& m);
void register_vector_bits(nb::module_& m);
void register_points(nb::module_& m);
void register_clusters(nb::module_& m);
void register_vector_encode(nb::module_& m);
void register_vector_encode_bits(nb::module_& m);
void register_fm_index(nb::module_& m);
void register_ngrams(nb::module_& m);
void register_text_split(nb::module_& m);
void register_text_tokens(nb::module_& m);
void register_text_transducer(nb::module_& m);
void register_text_postings(nb::module_& m);
void register_text_search(nb::module_& m);
void register_text_index(nb::module_& m);

NB_MODULE(_alance_kernels, m) {
#ifdef NDEBUG
  // Daemon threads that the exiting interpreter ends never free their objects, so a warning of them
  // would say nothing of a leak.
  nb::set_leak_warnings(false);
#endif
  m.attr("INTERFACE") = ALANCE_INTERFACE;
  register_bitpacking(m);
  register_blake(m);
  register_bloom(m);
  register_coalesce(m);
  register_digests(m);
  register_distances(m);
  register_folders(m);
  register_fsst(m);
  register_lz4(m);
  register_strings(m);
  register_masks(m);
  register_memory(m);
  register_patterns(m);
  register_pieces(m);
  register_held(m);  // after pieces: HeldSource derives from Source
  register_floats(m);
  register_row_order(m);
  register_row_lookup(m);
  register_row_sets(m);
  register_bitmaps(m);
  register_row_table(m);
  register_column_metadata(m);  // after row_table: ColumnPages derives from RowTable
  register_new_pages(m);
  register_row_batch(m);
  register_place_rows(m);
  register_utf8(m);
  register_jsonb(m);
  register_json_find(m);
  register_pages_levels(m);
  register_pages_chunks(m);
  register_encode(m);
  register_encode_jsonb(m);
  register_item_sets(m);
  register_keys(m);
  register_keys_joined(m);
  register_file_ends(m);
  register_small_file(m);
  register_schema_fields(m);
  register_manifest_fragments(m);
  register_manifest_totals(m);
  register_graph(m);
  register_graph_rows(m);
  register_graph_build(m);
  register_vector_products(m);
  register_vectors(m);
  register_vector_codes(m);
  register_vector_bits(m);
  register_points(m);
  register_clusters(m);
  register_vector_encode(m);
  register_vector_encode_bits(m);
  register_fm_index(m);
  register_ngrams(m);
  register_text_split(m);
  register_text_tokens(m);
  register_text_transducer(m);
  register_text_postings(m);
  register_text_search(m);
  register_text_index(m);
}
