"""Stable row ids of new fragments: those of rows that a transaction made by hand moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.numbers import to_arrow
from alance.format.proto.table_pb2 import DataFragment
from alance.format.table.row_ids import num_row_ids, parse_row_ids
from alance.format.table.row_ids_encode import row_ids_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable


def with_row_ids(
    fragment: DataFragment, row_ids: range | pa.Array | pa.ChunkedArray | Iterable[int]
) -> DataFragment:
    """A new fragment whose first rows have ids that are there already: rows that were rewritten.

    The commit gives new ids to the rows behind them. For `operations.Update`, which has to remove
    these rows from the fragments that they were in: nobody checks that. Ids of new rows come from
    the commit alone, as they are counted in the manifest.

    Args:
        fragment: of `alance.write_fragments`; it stays as it is.
        row_ids: in the order of the rows; at most as many as rows.

    Raises:
        InvalidInputError: ids that are no integers from 0, too many, or one of them twice.
    """
    values = row_ids.combine_chunks() if isinstance(row_ids, pa.ChunkedArray) else row_ids
    listed = values.to_pylist() if isinstance(values, pa.Array) else values
    try:
        ids = np.fromiter((_checked(row_id) for row_id in listed), np.uint64)
    except (TypeError, OverflowError) as error:
        raise InvalidInputError(f"row ids: {error}") from error
    if len(ids) > fragment.physical_rows:
        raise InvalidInputError(
            f"row ids: {len(ids)} of them, the fragment has {fragment.physical_rows} rows"
        )
    if len(np.unique(ids)) < len(ids):
        raise InvalidInputError("row ids: some are there twice")
    numbered = DataFragment()
    numbered.CopyFrom(fragment)
    numbered.inline_row_ids = row_ids_bytes(ids)
    return numbered


def row_ids_of(fragment: DataFragment) -> pa.UInt64Array:
    """The stable ids of a fragment's rows, in their order; deleted rows have theirs, too.

    Raises:
        InvalidInputError: a fragment without ids.
        UnsupportedError: ids in a file of their own: scan the fragment's `_rowid`.
        CorruptFileError: what is there are no ids.
    """
    kind = fragment.WhichOneof("row_id_sequence")
    if kind is None:
        raise InvalidInputError(f"fragment {fragment.id}: has no stable row ids")
    if kind != "inline_row_ids":
        raise UnsupportedError(f"fragment {fragment.id}: its row ids are not in the manifest")
    content = fragment.inline_row_ids
    return to_arrow(parse_row_ids(content, num_row_ids(content)))


def _checked(row_id: object) -> int:
    if isinstance(row_id, bool) or not isinstance(row_id, int | np.integer) or row_id < 0:
        raise TypeError(f"{row_id!r}: expected an integer from 0")
    return int(row_id)
