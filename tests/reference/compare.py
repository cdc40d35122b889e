"""Comparison of two tables: schema with metadata, rows in order, NaN equal to itself."""

from __future__ import annotations

import pyarrow as pa

# A null among blobs of 2.0 files, as pylance shows it; docs/blobs.md says that alance gives null.
NULL_BLOB = {"position": 1, "size": 0}


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values without dictionaries: equal ones may have their items in another order."""
    arrow = plain_type(column.type)
    return column if arrow == column.type else column.cast(arrow)


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """The type of values that have no dictionary."""
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(plain_type(arrow.value_type)))
    return arrow


def assert_equal_values(ours: pa.Table, expected: pa.Table) -> None:
    """Fail where values differ as Python shows them: zeros have signs, NaN is equal to itself.

    Types may differ. Lists of Python objects are made only where Arrow does not see it.
    """
    assert ours.column_names == expected.column_names
    for name, own, other in zip(ours.column_names, ours.columns, expected.columns, strict=True):
        if has_floats(other.type) or not own.equals(other):
            assert repr(own.to_pylist()) == repr(other.to_pylist()), name


def has_floats(arrow: pa.DataType) -> bool:
    """True if values, or parts of them, are floats: for Arrow, 0.0 equals -0.0."""
    parts = [arrow.field(number).type for number in range(arrow.num_fields)]
    return pa.types.is_floating(arrow) or any(map(has_floats, parts))


def assert_equal_rows(ours: pa.Table, theirs: pa.Table) -> None:
    """Fail with the first difference."""
    ours.validate(full=True)
    assert ours.schema.equals(theirs.schema, check_metadata=True), (ours.schema, theirs.schema)
    assert ours.num_rows == theirs.num_rows
    for name, item, other in zip(theirs.column_names, ours.columns, theirs.columns, strict=True):
        if not plain(item).equals(plain(other)):
            for row, (actual, expected) in enumerate(
                zip(item.to_pylist(), other.to_pylist(), strict=True)
            ):
                if actual is None and expected == NULL_BLOB:
                    continue
                assert repr(actual) == repr(expected), f"row {row} of {name}"
