"""Any schema, any data: hypothesis makes both, pylance writes, both read the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import alance
from tests.reference import types
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from pathlib import Path

LEAVES: dict[pa.DataType, types.Make] = {
    pa.int8(): lambda rng: rng.randrange(-128, 128),
    pa.int64(): types.integers(64, signed=True),
    pa.uint16(): lambda rng: rng.randrange(4),
    pa.bool_(): types.flag,
    pa.float32(): types.single,
    pa.float64(): types.number,
    pa.string(): types.text,
    pa.large_binary(): types.binary,
    pa.binary(3): lambda rng: rng.randbytes(3),
    pa.date32(): types.TYPES["date32"][1],
    pa.timestamp("us", "UTC"): types.when,
    pa.decimal128(12, 3): types.amounts(12, 3),
    pa.list_(pa.float32(), 3): types.vectors(types.single, 3),
    pa.dictionary(pa.int16(), pa.string()): types.few,
}


@st.composite
def fields(draw: st.DrawFn, depth: int = 0) -> tuple[pa.DataType, types.Make]:
    """An Arrow type, and a maker of its values with nulls at every level."""
    kind = draw(st.integers(0, 9 if depth < 3 else 6))
    if kind <= 6:
        return draw(st.sampled_from(list(LEAVES.items())))
    nulls = draw(st.sampled_from([0.0, 0.3]))
    if kind <= 8:
        arrow, make = draw(fields(depth + 1))
        longest = draw(st.sampled_from([2, 5, 40]))
        return draw(st.sampled_from([pa.list_, pa.large_list]))(arrow), types.lists(
            make, longest, nulls
        )
    children = {f"f{n}": draw(fields(depth + 1)) for n in range(draw(st.integers(1, 3)))}
    arrow = pa.struct([(name, child) for name, (child, _) in children.items()])
    return arrow, types.structs(nulls, **{name: make for name, (_, make) in children.items()})


METADATA = st.sampled_from(
    [
        {},
        {},
        {"lance-encoding:compression": "zstd"},
        {"lance-encoding:compression": "lz4"},
        {"lance-encoding:structural-encoding": "fullzip"},
        {"lance-encoding:structural-encoding": "miniblock"},
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of a few columns and up to some thousand rows."""
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    count = draw(st.sampled_from([1, 2, 17, 300, 2500]))
    arrays, schema = [], []
    for number in range(draw(st.integers(1, 3))):
        arrow, make = draw(fields())
        nulls = draw(st.sampled_from([0.0, 0.2, 0.95]))
        values = [None if rng.random() < nulls else make(rng) for _ in range(count)]
        arrays.append(pa.array(values, arrow))
        schema.append(pa.field(f"c{number}", arrow, metadata=draw(METADATA) or None))
    return pa.table(arrays, schema=pa.schema(schema))


async def compare(path: Path, table: pa.Table, version: str, pieces: int) -> None:
    uri = str(path)
    step = -(-table.num_rows // pieces)
    try:
        for start in range(0, table.num_rows, step):
            rows = pa.array(range(start, min(table.num_rows, start + step)))
            lance.write_dataset(table.take(rows), uri, mode="append", data_storage_version=version)
        theirs = lance.dataset(uri).to_table()
    except (OSError, ValueError, RuntimeError):
        assume(False)  # what pylance itself cannot write or read
    ours = await alance.dataset(uri)
    assert_equal_rows(await ours.to_table(), theirs)
    rng = random.Random(table.num_rows)
    rows = [rng.randrange(table.num_rows) for _ in range(12)]
    fresh = await alance.dataset(uri, session=alance.Session())
    result = await fresh.take(rows)
    assert repr(result.to_pylist()) == repr(theirs.take(rows).to_pylist())
    assert repr((await ours.take(rows)).to_pylist()) == repr(result.to_pylist())
    start, limit = table.num_rows // 3, table.num_rows // 2
    part = await fresh.to_table(offset=start, limit=limit, batch_size=100)
    assert repr(part.to_pylist()) == repr(theirs.slice(start, limit).to_pylist())
    await fresh.session.aclose()


@settings(max_examples=60)
@given(table=tables(), version=st.sampled_from(["2.1", "2.2"]), pieces=st.integers(1, 3))
async def test_any_table_of_pylance_is_read_equal(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, version: str, pieces: int
) -> None:
    await compare(tmp_path_factory.mktemp("any") / "table", table, version, pieces)


@pytest.mark.soak
@settings(max_examples=3000)
@given(table=tables(), version=st.sampled_from(["2.1", "2.2"]), pieces=st.integers(1, 3))
async def test_any_table_for_long(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, version: str, pieces: int
) -> None:
    await compare(tmp_path_factory.mktemp("any") / "table", table, version, pieces)
