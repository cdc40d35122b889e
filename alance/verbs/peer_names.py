"""Error for a missing attribute of a dataset, with a hint if pylance or LanceDB has it."""

from __future__ import annotations

from typing import Final

from alance.base.checks import did_you_mean

# As in docs/from-pylance.md; `tests/test_from_pylance.py` compares the two.
COUNTERPARTS: Final = {
    "commit": "alance.commit",
    "commit_batch": "alance.commit_batch",
    "commit_existing_index_segments": "IndexBuild.commit",
    "create_index_uncommitted": "indexing.IndexTask.execute",
    "drop": "alance.drop",
    "filter": "to_table(filter=)",
    "fragment_ids": "fragments",
    "from_pydantic_model": "alance.write_dataset",
    "get_fragment": "fragment",
    "get_fragments": "fragments",
    "get_ivf_model": "centroids(index_name=)",
    "get_version": "version",
    "has_index": "list_indices",
    "io_stats_incremental": "alance.trace",
    "io_stats_snapshot": "alance.trace",
    "lance_schema": "fields",
    "max_field_id": "fields",
    "merge_existing_index_segments": "IndexBuild.merge",
    "merge_index_metadata": "IndexBuild.merge",
    "replace_field_metadata": "update_field_metadata(replace=)",
    "replace_schema_metadata": "update_schema_metadata(replace=)",
    "schema_metadata": "schema",
    "slice": "to_table(offset=, limit=)",
    "sort_by": "to_table(order_by=)",
    "truncate_table": "delete",
    "version_refs": "versions",
}
# As in docs/from-lancedb.md; `tests/test_from_lancedb.py` compares the two.
OF_LANCEDB: Final = {
    "add": "insert",
    "blob_columns": "take_blobs",
    "checkout": "checkout_version",
    "checkpoint_lsm": "ingest",
    "close_lsm_writers": "ingest",
    "compact_files": "optimize",
    "compact_lsm": "ingest",
    "create": "Catalog.open_table",
    "create_fts_index": "create_index",
    "create_index_async": "create_index",
    "current_branch": "branch",
    "fetch_blob_files": "take_blobs",
    "fetch_blob_ranges": "take_blobs",
    "fetch_blobs": "take_blobs",
    "flush_lsm": "ingest",
    "from_inner": "Catalog.open_table",
    "get_lsm_stats": "ingest",
    "get_lsm_write_spec": "ingest",
    "id": "uri",
    "index_stats": "index_statistics",
    "initial_storage_options": "Catalog.place",
    "latest_storage_options": "Catalog.place",
    "list_versions": "versions",
    "migrate_v2_manifest_paths": "migrate_manifest_paths_v2",
    "name": "uri",
    "namespace": "uri",
    "open": "Catalog.open_table",
    "set_lsm_write_spec": "ingest",
    "set_unenforced_primary_key": "update_field_metadata",
    "take_offsets": "take",
    "take_row_ids": "take_rows",
    "to_arrow": "to_table",
    "to_lance": "uri",
    "tokenize": "tokenize",
    "unset_lsm_write_spec": "ingest",
    "uses_v2_manifest_paths": "migrate_manifest_paths_v2",
    "wait_for_index": "create_index",
}

# Names of pandas, pyarrow and builders of queries, with what to write instead.
OF_OTHERS: Final = {
    "append": "insert(data)",
    "columns": "schema.names",
    "column_names": "schema.names",
    "compact": "optimize.compact_files()",
    "count": "count_rows()",
    "fts": "search_text(query)",
    "limit": "to_table(limit=)",
    "num_rows": "count_rows()",
    "order_by": "to_table(order_by=)",
    "query": "to_table(filter=) or sql(query)",
    "read": "to_table()",
    "select": "to_table(columns=)",
    "shape": "count_rows() and schema",
    "to_list": "to_table().to_pylist()",
    "to_pydict": "to_table().to_pydict()",
    "to_pylist": "to_table().to_pylist()",
    "vector_search": "nearest(column, query)",
    "where": "to_table(filter=)",
    "write": "insert(data)",
}


def no_attribute(kind: type, name: str) -> AttributeError:
    """Return the error for an attribute that datasets lack."""
    hint = ""
    for counterparts, page in ((COUNTERPARTS, "from-pylance"), (OF_LANCEDB, "from-lancedb")):
        if name in counterparts:
            hint = f"; its counterpart is `{counterparts[name]}`, see docs/{page}.md"
    if not hint and name in OF_OTHERS:
        hint = f"; write {OF_OTHERS[name]}"
    elif not hint and not name.startswith("_"):
        hint = did_you_mean(name, [member for member in dir(kind) if member[0] != "_"])
    return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}")
