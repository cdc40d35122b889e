"""Stable row ids of new fragments, for custom transactions that move rows."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.numbers import as_numbers, to_arrow
from alance.format.proto.table_pb2 import DataFragment
from alance.format.table.row_ids import num_row_ids, parse_row_ids, row_ids_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from alance.base.arrays import UInt64s

NO_ROW: Final = (1 << 64) - 1


def with_row_ids(
    fragment: DataFragment, row_ids: range | pa.Array | pa.ChunkedArray | Iterable[int]
) -> DataFragment:
    """Return a new fragment whose first rows, which are rewritten rows, keep their existing ids.

    The commit assigns new ids to the remaining rows. Use it for `operations.Update`, which must
    also remove these rows from their old fragments: this is not checked. Only the commit can assign
    ids of new rows, since the manifest counts them.

    Args:
        fragment: fragment from `alance.write_fragments`; it is not changed.
        row_ids: ids in row order; at most as many as rows.

    Raises:
        InvalidInputError: the ids are negative, not integers, repeated, too large, or more than the
            rows.
    """
    if not isinstance(row_ids, range):
        row_ids = _numbers(row_ids)
    if len(row_ids) > fragment.physical_rows:
        raise InvalidInputError(
            f"row ids: {len(row_ids)} of them, the fragment has {fragment.physical_rows} rows"
        )
    ids = _numbers(row_ids)  # a range, which may be huge, is expanded only here
    if (ids == NO_ROW).any():
        raise InvalidInputError(f"row ids: {NO_ROW}: stands for no row, expected a smaller one")
    if len(np.unique(ids)) < len(ids):
        raise InvalidInputError("row ids: some are there twice")
    numbered = DataFragment()
    numbered.CopyFrom(fragment)
    numbered.inline_row_ids = row_ids_bytes(ids)
    return numbered


def row_ids_of(fragment: DataFragment) -> pa.UInt64Array:
    """Return the stable ids of a fragment's rows, in row order, including deleted rows.

    Args:
        fragment: record of the fragment.

    Raises:
        InvalidInputError: the fragment has no ids.
        UnsupportedError: the ids are not in the manifest; scan the fragment's `_rowid` instead.
        CorruptFileError: the bytes are not row ids.
    """
    kind = fragment.WhichOneof("row_id_sequence")
    if kind is None:
        raise InvalidInputError(f"fragment {fragment.id}: has no stable row ids")
    if kind != "inline_row_ids":
        raise UnsupportedError(f"fragment {fragment.id}: its row ids are not in the manifest")
    content = fragment.inline_row_ids
    return to_arrow(parse_row_ids(content, num_row_ids(content)))


def _numbers(row_ids: Any) -> UInt64s:
    """Convert ids to an array.

    Raises:
        InvalidInputError: an id is negative or not an integer.
    """
    array = _array(row_ids)
    if array is not None and array.min(initial=0) >= 0:
        return array.astype(np.uint64, copy=False)
    is_arrow = isinstance(row_ids, pa.Array | pa.ChunkedArray)
    try:
        listed = row_ids.to_pylist() if is_arrow else list(row_ids)
    except TypeError as error:
        raise InvalidInputError(f"row ids: {error}") from error
    if all(map(_is_integer, set(map(type, listed)))):  # Arrow would convert 1.5 to 1
        with suppress(OverflowError):
            return as_numbers(pa.array(listed, pa.uint64()))
    wrong = next(
        row_id for row_id in listed if not (_is_integer(type(row_id)) and 0 <= row_id < 1 << 64)
    )
    raise InvalidInputError(f"row ids: {wrong!r}: expected an integer from 0")


def _array(row_ids: Any) -> npt.NDArray[np.integer[Any]] | None:
    """Return ids as an integer array; None if each id has to be checked."""
    array = row_ids
    if isinstance(array, range):
        array = np.arange(array.start, array.stop, array.step)  # becomes floats above 63 bits
    elif isinstance(array, pa.Array | pa.ChunkedArray):
        is_plain = pa.types.is_integer(array.type) and not array.null_count
        array = as_numbers(array) if is_plain else None
    is_integers = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"
    return array if is_integers else None


def _is_integer(kind: type) -> bool:
    return issubclass(kind, int | np.integer) and kind is not bool
