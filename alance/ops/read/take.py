"""Takes: rows by position, row id or address, in the requested order."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.checks import await_hint, check_type
from alance.errors import BatchTooLargeError, InvalidInputError, RowNotFoundError
from alance.file.batches import empty_batch, in_order, one_batch
from alance.format.numbers import as_numbers, distinct
from alance.io.reading.joined import Joint
from alance.ops.read.physical_rows import (
    FEW_CALLERS,
    ROUND_WORTH_ROWS,
    PhysicalRows,
    prepare_take,
    read_rows,
)
from alance.ops.read.rows import with_meta
from alance.ops.version.first_use import COMPUTE_MODULE, load_readers, parsed
from alance.ops.version.projection import plain_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Int64s
    from alance.format.schema import Schema
    from alance.ops.version.projection import Columns, Projection
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

JOINT_ROWS: Final = 1 << 18  # maximum rows of takes that are read together
_DELETED: Final = attrgetter("deleted")
FEW_FRAGMENTS: Final = 256  # maximum fragments whose handles the event loop creates, 5 us each
OUTPUT_WORK: Final = 512  # work per output column, as bytes to decode: 15 us
UNDER_WAY: Final = 8  # maximum concurrent takes of a kind; later callers share the next one


async def take(snapshot: Snapshot, indices: object, columns: Columns = None) -> pa.Table:
    """Return rows by position in the dataset, in the requested order; a row may occur repeatedly.

    Cost: one round of requests with warm caches (two for full-zip strings whose index is not
    cached), and one hop to the pool. With cold caches, also a round for footers and a round for
    deletion vectors.

    Raises:
        InvalidInputError: a position is negative or beyond the last row.
    """
    positions = as_positions(indices, "indices")
    firsts = await snapshot.first_rows()
    if len(positions) and positions.max() >= firsts[-1]:
        raise InvalidInputError(f"index {positions.max()}: the dataset has {firsts[-1]} rows")
    return await _take_joined(
        snapshot, positions, lambda rows: by_position(rows, firsts), columns, live=True
    )


async def take_addresses(
    snapshot: Snapshot, addresses: object, columns: Columns = None
) -> pa.Table:
    """Return rows by address (fragment id << 32 | row offset), in the requested order.

    Raises:
        NotFoundError: the fragment does not exist, or the row is deleted or beyond the fragment's
            end.
    """
    rows = as_positions(addresses, "addresses")
    fragments, offsets = await snapshot.locate_addresses(rows)
    return await take_located(snapshot, fragments, offsets, columns, live=False)


async def take_rows(snapshot: Snapshot, row_ids: object, columns: Columns = None) -> pa.Table:
    """Return rows by row id (stable if the table has stable row ids), in the requested order.

    Raises:
        RowNotFoundError: a row id has no live row.
    """
    ids = as_positions(row_ids, "row_ids")
    addresses = await snapshot.addresses_of(ids)
    fragments, offsets = await snapshot.locate_addresses(addresses)
    return await take_located(snapshot, fragments, offsets, columns, live=False)


async def flat_rows(
    snapshot: Snapshot,
    rows: npt.NDArray[np.integer[Any]],
    projection: Projection,
    *,
    by_address: bool = False,
) -> pa.RecordBatch:
    """Return rows by row id or address in one batch, with the columns of a scan.

    Raises:
        NotFoundError: a row does not exist.
    """
    needed = list(dict.fromkeys([*projection.fields, *projection.meta]))
    taking = take_addresses if by_address else take_rows
    batch = batch_of(await taking(snapshot, rows, needed))
    work: float = 0 if projection.is_plain else OUTPUT_WORK * len(projection.outputs) + batch.nbytes
    if projection.is_computed:
        work = math.inf
    return await snapshot.engine.decode(lambda: projection.apply(batch), work)


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """Return the rows of a table in one batch.

    Raises:
        BatchTooLargeError: strings have more bytes than a batch can hold.
    """
    batches = table.to_batches()
    return one_batch(batches) if batches else empty_batch(table.schema)


async def take_located(
    snapshot: Snapshot, fragments: Int64s, offsets: Int64s, columns: Columns, *, live: bool
) -> pa.Table:
    """Return rows by fragment and offset.

    Args:
        fragments: positions of the fragments in the snapshot.
        live: True if `offsets` only count live rows; False if they are physical offsets, of rows
            that must not be deleted.
    """
    keys = fragments << 32 | offsets
    return await _take_joined(snapshot, keys, by_key, columns, live=live)


async def _take_joined(
    snapshot: Snapshot,
    keys: Int64s,
    placing: Callable[[Int64s], Placed],
    columns: Columns,
    *,
    live: bool,
) -> pa.Table:
    """Return the rows of a caller; concurrent callers share a take.

    On a local store, callers share a take only if there are many, so that a single caller does not
    wait for others.

    Args:
        placing: function that groups rows, given by their keys, by fragment.
        live: as for `take_located`.
    """

    async def answer(requests: Sequence[Int64s]) -> Sequence[pa.Table]:
        try:
            return await together(requests)
        except BatchTooLargeError:
            if len(requests) == 1 and len(requests[0]) == 1:
                raise
        if len(requests) > 1:
            return [(await answer([own]))[0] for own in requests]
        # Split the rows into chunks of a table, so that each chunk is small enough for Arrow.
        halves = [(await answer([half]))[0] for half in np.array_split(requests[0], 2)]
        return [pa.concat_tables(halves)]

    async def together(requests: Sequence[Int64s]) -> Sequence[pa.Table]:
        rows = requests[0] if len(requests) == 1 else np.concatenate(requests)
        placed = await snapshot.engine.decode(partial(placing, rows), rows.nbytes)
        counts = [len(own) for own in requests]
        return await _take_placed(snapshot, placed, columns, counts, live=live)

    async def answer_in_turn(requests: Sequence[Int64s]) -> Sequence[pa.Table]:
        await snapshot.engine.pool.share_turn()
        return await answer(requests)

    names = plain_names(columns)
    if (columns is None or names is not None) and (
        snapshot.is_remote or len(keys) <= ROUND_WORTH_ROWS
    ):
        # Use an object per event loop, because callers wait on their own loop.
        key = Joint, asyncio.get_running_loop(), placing is by_key, live, names
        joint: Joint[Int64s, pa.Table] = snapshot.remember(
            key, lambda: Joint(JOINT_ROWS, UNDER_WAY)
        )
        if snapshot.is_remote or joint.is_crowd or snapshot.engine.pool.is_crowded:
            return await joint.ask(keys, len(keys), answer_in_turn)
    (table,) = await answer([keys])
    return table


def _handles_at(snapshot: Snapshot, positions: Sequence[int]) -> list[FragmentHandle]:
    """Return fragments by position, with the locations of their files. CPU work."""
    handles = snapshot.handles.at(positions)
    for handle in handles:
        assert handle.identity is not None
    return handles


async def _take_placed(
    snapshot: Snapshot, placed: Placed, columns: Columns, counts: Sequence[int], *, live: bool
) -> list[pa.Table]:
    """Return a table for each caller; see `take_located`.

    Args:
        counts: number of rows of each caller.
    """
    await load_readers(snapshot, columns)
    choice = await parsed(snapshot, columns, partial(snapshot.taken_columns, columns))
    projection, schema = choice.projection, choice.schema
    positions, rows, cuts, places = placed
    if not positions:
        return [pa.Table.from_batches([_nothing(projection, schema)])] * len(counts)
    if len(positions) <= FEW_FRAGMENTS:
        handles = snapshot.handles.at(positions)
    else:
        handles = await snapshot.engine.pool.run(partial(_handles_at, snapshot, positions))
    await snapshot.recall(handles)
    await prepare_take(snapshot, handles, schema)
    if projection.meta:
        await snapshot.load_meta(handles, projection.meta)
    physical_rows = PhysicalRows(handles, rows, cuts[1:])
    if not live:
        for handle, own_rows in physical_rows.by_fragment():
            _check_live(handle, own_rows)
    elif any(map(_DELETED, handles)):
        physical = [handle.physical(own_rows) for handle, own_rows in physical_rows.by_fragment()]
        physical_rows = physical_rows._replace(offsets=np.concatenate(physical))

    # Decode rows directly in the requested order, unless meta columns or several callers first need
    # the order of the fragments.
    order, places_of = (
        (places, None) if len(counts) == 1 and not projection.meta else (None, places)
    )

    def finish(batch: pa.RecordBatch) -> list[pa.Table]:
        if projection.meta:
            batch = with_meta(batch, physical_rows, projection.meta)
        batch = projection.apply(batch)
        if len(counts) == 1:
            return [pa.Table.from_batches([in_order(batch, places_of)])]
        # Copy each caller's rows, so that they do not keep those of other callers in memory.
        rows = np.arange(batch.num_rows) if places_of is None else places_of
        parts = np.split(rows, np.cumsum(counts)[:-1])
        return [pa.Table.from_batches([in_order(batch, part)]) for part in parts]

    module = None if places is None and len(counts) == 1 else COMPUTE_MODULE
    is_quick = places_of is None or len(places_of) <= FEW_CALLERS * len(rows)
    return await read_rows(
        snapshot,
        physical_rows,
        choice,
        finish,
        order=order,
        callers=len(counts),
        module=module,
        is_quick=is_quick,
    )


def _check_live(handle: FragmentHandle, rows: Int64s) -> None:
    beyond = rows[rows >= handle.num_physical_rows]
    if len(beyond):
        raise RowNotFoundError(
            f"row offset {beyond[0]} in fragment {handle.id}: "
            f"it has {handle.num_physical_rows} rows",
            (beyond | handle.id << 32).tolist(),
        )
    live = handle.live_of(rows)
    if len(live) < len(rows):
        gone = np.setdiff1d(rows, live)
        raise RowNotFoundError(
            f"row offset {gone[0]} in fragment {handle.id}: the row is deleted",
            (gone | handle.id << 32).tolist(),
        )


def _nothing(projection: Projection, schema: Schema) -> pa.RecordBatch:
    """Return the output batch of a take without rows."""
    batch = empty_batch(schema.read_arrow())
    for name in projection.meta:
        batch = batch.append_column(name, pa.nulls(0, pa.uint64()))
    return projection.apply(batch)


async def sample(
    snapshot: Snapshot, num_rows: int, columns: Columns = None, *, seed: int | None = None
) -> pa.Table:
    """Return distinct random rows, in dataset order.

    Raises:
        InvalidInputError: `num_rows` is negative, or exceeds the number of rows.
    """
    return await take(snapshot, await drawn(snapshot, num_rows, seed), columns)


async def drawn(snapshot: Snapshot, num_rows: int, seed: int | None) -> Int64s:
    """Return the positions of the rows for `sample`, ascending."""
    check_type("num_rows", num_rows, int | np.integer, "an integer")
    total = await snapshot.num_live()
    if not 0 <= num_rows <= total:
        raise InvalidInputError(f"sample of {num_rows} rows: the dataset has {total}")

    def draw() -> Int64s:
        return np.sort(np.random.default_rng(seed).choice(total, num_rows, replace=False))

    # If many are drawn, numpy shuffles all positions.
    return await snapshot.engine.decode(draw, 8 * min(total, 50 * int(num_rows)))


def as_positions(values: object, what: str) -> Int64s:
    """Convert a list, numpy array or Arrow array to non-negative integers; shape (n,).

    Raises:
        InvalidInputError: the values are not such integers.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            raise InvalidInputError(f"{what}: {values.null_count} of them are null")
        if len(values) and not pa.types.is_integer(values.type):
            raise InvalidInputError(f"{what}: expected integers, got {values.type}")
        values = as_numbers(values) if len(values) else []
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{what}: {error}") from error
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise _not_positions(values, array, what)
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidInputError(
            f"{what}: {array.min()} is negative; the last row is `count_rows() - 1`"
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"{what}: {array.max()} is out of range")
    return array.astype(np.int64, copy=False)


FEW_POSITIONS: Final = 1 << 10  # rows; numpy is faster for more rows


class Placed(NamedTuple):
    """Requested rows, grouped by fragment."""

    fragments: list[int]  # positions of the fragments in the version, ascending
    rows: Int64s  # row offsets of all fragments, ascending and unique in each fragment
    cuts: list[int]  # start of each fragment's rows, then the end
    # Index into `rows` of each requested row; None if `rows` has the requested order.
    places: Int64s | None


def by_position(rows: Int64s, firsts: Int64s) -> Placed:
    """Group rows, given by position in the dataset, by fragment.

    Args:
        rows: positions, all below the last of `firsts`; shape (n,).
        firsts: first row of each fragment, then the number of rows.
    """
    if len(rows) <= FEW_POSITIONS:
        return Placed(*_kernels.place_rows(rows, firsts))
    fragments = np.searchsorted(firsts, rows, "right") - 1
    return by_key(fragments << 32 | (rows - firsts[fragments]))


def by_key(keys: Int64s) -> Placed:
    """Group rows, given as fragment position << 32 | offset, by fragment."""
    places = None
    if len(keys) > 1 and not bool((keys[1:] > keys[:-1]).all()):
        keys, places = distinct(keys)
    if len(keys) == 0:
        return Placed([], keys, [0], None)
    positions = keys >> 32
    begins = np.flatnonzero(np.concatenate([[True], positions[1:] != positions[:-1]]))
    cuts = [*begins.tolist(), len(keys)]
    return Placed(positions[begins].tolist(), keys & 0xFFFF_FFFF, cuts, places)


def _not_positions(values: object, array: np.ndarray[Any, Any], what: str) -> InvalidInputError:
    """Return the error for values that are no list of integers."""
    actual = f"got {array.dtype} of shape {array.shape}"
    hint = ""
    if array.ndim == 0:
        actual = f"got {type(values).__name__}, expected a list"
        if isinstance(values, int | np.integer):
            hint = f"; write [{values}]"
        elif isinstance(values, slice):
            hint = f"; write range({values.start or 0}, {values.stop})"
        elif isinstance(values, str):
            hint = "; rows of a key are `get(key, column)`, those of a condition to_table(filter=)"
        else:
            hint = await_hint(values)
    elif array.dtype.kind == "b":
        hint = "; positions of a mask are `numpy.flatnonzero(mask)`"
    elif array.dtype.kind in "US":
        hint = "; rows of keys are `get_many(keys, column)`"
    return InvalidInputError(f"{what}: expected integers in one dimension, {actual}{hint}")
