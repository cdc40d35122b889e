"""Whether two tables are the same: schema with metadata, rows in order, NaN equal to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


# A null among blobs of 2.0 files, as pylance shows it; docs/blobs.md says that alance gives null.
NULL_BLOB = {"position": 1, "size": 0}


def assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    """Fail with the first difference."""
    ours.validate(full=True)
    assert ours.schema.equals(theirs.schema, check_metadata=True), (ours.schema, theirs.schema)
    assert ours.num_rows == theirs.num_rows
    for name, one, other in zip(theirs.column_names, ours.columns, theirs.columns, strict=True):
        if not one.equals(other):
            for row, (mine, expected) in enumerate(
                zip(one.to_pylist(), other.to_pylist(), strict=True)
            ):
                if mine is None and expected == NULL_BLOB:
                    continue
                assert repr(mine) == repr(expected), f"row {row} of {name}"
