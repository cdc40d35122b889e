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
    "close": "nothing: a dataset holds no file open; `await session.aclose()` ends a session",
    "column_names": "schema.names",
    "columns": "schema.names",
    "compact": "optimize.compact_files()",
    "count": "count_rows()",
    "describe": "aggregate(columns) or to_pandas().describe()",
    "drop_duplicates": "to_pandas().drop_duplicates()",
    "dropna": 'delete("column IS NULL")',
    "dtypes": "schema.types",
    "fts": "search_text(query)",
    "groupby": "aggregate(columns, group_by=)",
    "history": "versions()",
    "iloc": "take(positions)",
    "info": "schema and stats()",
    "iterrows": "to_batches()",
    "itertuples": "to_batches()",
    "limit": "to_table(limit=)",
    "loc": "get_many(keys, column)",
    "map": "add_columns(function, read_columns=)",
    "num_rows": "count_rows()",
    "nunique": "to_pandas().nunique()",
    "order_by": "to_table(order_by=)",
    "query": "to_table(filter=) or sql(query)",
    "random_split": "alance.torch, or take of a share of shuffled positions",
    "read": "to_table()",
    "refresh": "checkout_latest()",
    "reload": "checkout_latest()",
    "rename": 'alter_columns({"path": name, "name": new_name})',
    "rename_columns": 'alter_columns({"path": name, "name": new_name})',
    "select": "to_table(columns=)",
    "shape": "count_rows() and schema",
    "shuffle": "sample(num_rows), or alance.torch for training",
    "tail": "to_table(offset=, limit=)",
    "to_csv": "to_pandas().to_csv(path)",
    "to_df": "to_pandas()",
    "to_dict": "to_table().to_pydict()",
    "to_json": "to_pandas().to_json(path)",
    "to_list": "to_table().to_pylist()",
    "to_numpy": "to_pandas().to_numpy()",
    "to_parquet": "to_table() and pyarrow.parquet.write_table",
    "to_pydict": "to_table().to_pydict()",
    "to_pylist": "to_table().to_pylist()",
    "to_torch": "alance.torch.IterableDataset(dataset, batch_size)",
    "train_test_split": "alance.torch, or take of a share of shuffled positions",
    "unique": "aggregate(columns, group_by=)",
    "vacuum": "cleanup_old_versions()",
    "value_counts": 'aggregate({"n": "count(*)"}, group_by=)',
    "vector_search": "nearest(column, query)",
    "where": "to_table(filter=)",
    "with_format": "alance.torch or to_pandas()",
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
