"""Error for a missing attribute of a dataset, with a hint if pylance has an attribute of that
name.
"""

from __future__ import annotations

from typing import Final

# As docs/from-pylance.md has them; `tests/test_from_pylance.py` compares the two.
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


def no_attribute(kind: type, name: str) -> AttributeError:
    """Return the error for an attribute that datasets lack."""
    hint = ""
    if name in COUNTERPARTS:
        hint = f"; its counterpart is `{COUNTERPARTS[name]}`, see docs/from-pylance.md"
    return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}")
