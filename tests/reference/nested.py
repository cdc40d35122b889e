"""Random types inside of each other, their values, and the ways to read a table of them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import alance


def random_type(rng: random.Random, depth: int, leaves: Sequence[pa.DataType]) -> pa.DataType:
    """One of `leaves`, in up to `depth` lists and structs."""
    kind = rng.randrange(4) if depth else 0
    if kind == 1:
        return pa.list_(random_type(rng, depth - 1, leaves))
    if kind == 2:
        return pa.large_list(random_type(rng, depth - 1, leaves))
    if kind == 3:
        names = "abc"[: rng.randint(1, 3)]
        return pa.struct([(name, random_type(rng, depth - 1, leaves)) for name in names])
    return rng.choice(leaves)


def is_list(arrow: pa.DataType) -> bool:
    """True for lists of variable length."""
    return pa.types.is_list(arrow) or pa.types.is_large_list(arrow)


def random_lists(
    rng: random.Random, arrow: pa.DataType, mask: Sequence[bool], items: Callable[[int], pa.Array]
) -> pa.Array:
    """Lists of up to five items, null where the mask says so; `items` makes as many as asked."""
    sizes = [0 if absent else rng.choice([0, 1, 2, 5]) for absent in mask]
    values = items(sum(sizes))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    kind = pa.LargeListArray if pa.types.is_large_list(arrow) else pa.ListArray
    width = pa.int64() if pa.types.is_large_list(arrow) else pa.int32()
    valid = None if not any(mask) else pa.array(np.array(mask))
    return kind.from_arrays(pa.array(offsets, width), values, mask=valid)


def value(arrow: pa.DataType, number: int) -> object:
    """A value of a type that is no list, by a number below 100; never an empty string."""
    text = "é" * (number % 4) + str(number)
    if pa.types.is_null(arrow):
        return None
    if pa.types.is_boolean(arrow):
        return number < 50
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return text
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return text.encode()
    return b"%03d" % number if pa.types.is_fixed_size_binary(arrow) else number


def around(rng: random.Random, array: pa.Array) -> pa.Array:
    """A struct that has the array twice, or lists of its values; some null, over values too."""
    share = rng.choice([0, 0.2])
    if rng.random() < 0.5:
        mask = pa.array([rng.random() < share for _ in range(len(array))], pa.bool_())
        return pa.StructArray.from_arrays([array, array], ["a", "b"], mask=mask)
    sizes = rng.choice([[0, 0, 1, 2, 9], [1], [1, 2, 3], [*[0] * 30, 1, 50]])
    offsets = [0]
    while offsets[-1] < len(array) and len(offsets) < 2000:
        offsets.append(min(len(array), offsets[-1] + rng.choice(sizes)))
    mask = pa.array([rng.random() < share for _ in offsets[1:]], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array, mask=mask)


def in_pieces(rng: random.Random, array: pa.Array) -> list[pa.Array]:
    """The array cut into up to three."""
    step = -(-len(array) // rng.choice([1, 2, 3]))
    return [array.slice(start, step) for start in range(0, len(array), step)]


def whole(part: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """The same rows in arrays of their own: pylance fails on slices of some nested arrays."""
    return part.take(list(range(part.num_rows)))


async def check_reads(dataset: alance.Dataset, want: pa.Table, seed: int) -> None:
    """The table has these rows, by whichever way they are read; the column `number` is filtered."""
    rng, count = random.Random(seed), want.num_rows
    table = await dataset.to_table()
    table.validate(full=True)
    assert table.to_pylist() == want.to_pylist()
    rows = rng.choices(range(count), k=12)
    assert (await dataset.take(rows)).to_pylist() == want.take(rows).to_pylist()
    start = rng.randrange(count)
    part = await dataset.to_table(offset=start, limit=7, batch_size=3)
    assert part.to_pylist() == want.slice(start, 7).to_pylist()
    result = await dataset.to_table(filter=f"number % 5 = 1 and number >= {start}")
    assert result.to_pylist() == [
        row for row in want.to_pylist() if row["number"] % 5 == 1 and row["number"] >= start
    ]
