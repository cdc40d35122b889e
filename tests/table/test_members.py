"""Reading some members of structs, which keep their parents: what engines prune columns to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance import ScanOptions
from alance.distributed import (
    field_ids,
    fragments_of,
    member_paths,
    plan_splits,
    read_split,
    version_record,
)
from alance.format.types import leaf_type

if TYPE_CHECKING:
    from pathlib import Path

INNER = pa.struct([("p", pa.string()), ("q", pa.list_(pa.int32())), ("a.b", pa.int8())])
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "s": pa.struct([("x", pa.int64()), ("inner", INNER), ("wide", pa.binary(3))]),
        "items": pa.list_(pa.struct([("x", pa.int16()), ("inner", INNER)])),
        "entries": pa.map_(pa.string(), pa.struct([("u", pa.int64()), ("v", pa.int64())])),
    }
)


def inner(number: int) -> dict[str, object] | None:
    if number % 5 == 0:
        return None
    return {"p": None if number % 3 == 0 else f"p{number}", "q": [number, None], "a.b": number % 7}


def rows(count: int) -> pa.Table:
    several = range(count)
    return pa.table(
        {
            "id": several,
            "s": [
                None if n % 4 == 3 else {"x": n, "inner": inner(n), "wide": b"abc"} for n in several
            ],
            "items": [
                None if n % 6 == 5 else [{"x": m, "inner": inner(m)} for m in range(n % 4)]
                for n in several
            ],
            "entries": [[("k", {"u": n, "v": -n})] for n in several],
        },
        schema=SCHEMA,
    )


@st.composite
def pruned(draw: st.DrawFn, kind: pa.DataType) -> pa.DataType:
    """A type without some members of its structs."""
    if pa.types.is_struct(kind):
        places = st.sets(st.integers(0, kind.num_fields - 1), min_size=1)
        members = [kind.field(place) for place in sorted(draw(places))]
        return pa.struct([field.with_type(draw(pruned(field.type))) for field in members])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(draw(pruned(kind.value_type))))
    return kind


@st.composite
def pruned_schemas(draw: st.DrawFn) -> pa.Schema:
    names = draw(st.lists(st.sampled_from(SCHEMA.names), unique=True, min_size=1))
    return pa.schema([SCHEMA.field(n).with_type(draw(pruned(SCHEMA.field(n).type))) for n in names])


async def read(
    dataset: alance.Dataset, pruned_schema: pa.Schema, filter: str | None = None
) -> pa.Table:
    paths = member_paths(dataset.schema, pruned_schema)
    options = ScanOptions(filter=filter)
    splits = plan_splits(fragments_of(dataset), field_ids(dataset, paths), split_bytes=1)
    record = version_record(dataset)
    batches = [
        batch
        for split in splits
        async for batch in read_split(record, dataset.uri, split, paths, options, flat=False)
    ]
    return pa.Table.from_batches(batches)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(pruned_schema=pruned_schemas(), is_filtered=st.booleans())
async def test_members_are_those_of_a_read_of_everything(
    tmp_path: Path, pruned_schema: pa.Schema, is_filtered: bool
) -> None:
    uri = str(tmp_path / "t")
    if not (tmp_path / "t").exists():
        await alance.write_dataset(rows(100), uri, data_storage_version="2.2", max_rows_per_file=60)
    dataset = await alance.dataset(uri)
    filter = "s.x > 10 AND id < 90" if is_filtered else None
    whole = await dataset.to_table(pruned_schema.names, filter=filter)
    got = await read(dataset, pruned_schema, filter)
    assert got.equals(whole.cast(got.schema))
    for field, pruned_field in zip(got.schema, pruned_schema, strict=True):
        is_used = is_filtered and field.name == "s"  # by the filter, which needs another member
        assert is_used or field.type == pruned_field.type


async def test_other_members_are_not_read(tmp_path: Path) -> None:
    member = pa.array([b"x" * 3000 for _ in range(400)])
    table = pa.table({"s": pa.StructArray.from_arrays([pa.array(range(400)), member], ["x", "y"])})
    dataset = await alance.write_dataset(table, str(tmp_path / "t"))
    retained = pa.schema({"s": pa.struct([("x", pa.int64())])})
    assert member_paths(dataset.schema, retained) == ["s.x"]
    assert len(field_ids(dataset, ["s.x"]) or ()) == 2  # the struct itself and the member
    assert (await read(dataset, retained)).column("s").to_pylist()[-1] == {"x": 399}


@pytest.mark.filterwarnings("ignore:file version 2.3")
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
async def test_members_of_packed_structs_are_read_by_name(tmp_path: Path, version: str) -> None:
    several = pa.array(range(9), pa.int32()), pa.array(range(10, 19), pa.int64())
    packed = pa.field(
        "p", pa.struct([("a", pa.int32()), ("b", pa.int64())]), metadata={"packed": "true"}
    )
    values = pa.StructArray.from_arrays(several, fields=[*packed.type])
    outer = pa.StructArray.from_arrays(
        [values, several[1]], fields=[packed, pa.field("x", pa.int64())]
    )
    schema = pa.schema([packed, pa.field("s", outer.type)])
    table = pa.table([values, outer], schema)
    dataset = await alance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    for name, first in (("p.a", 0), ("p.b", 10), ("s.p.b", 10)):
        scan = await dataset.to_table([name], filter="p.b > 12")
        assert scan[name].to_pylist() == [*range(first + 3, first + 9)]
    taken = await dataset.take([8, 1], ["p.b", "s.p.a", "s.x"])
    rows = [{"p": {"b": n + 10}, "s": {"p": {"a": n}, "x": n + 10}} for n in (8, 1)]
    assert taken.to_pylist() == rows
    assert (await dataset.take([], ["p.b", "s.p.a", "s.x"])).schema == taken.schema


def test_paths_of_odd_names_and_of_whole_structs() -> None:
    retained = SCHEMA.field("s").type
    assert member_paths(SCHEMA, pa.schema({"s": retained, "_rowid": pa.uint64()})) == [
        "s",
        "_rowid",
    ]
    odd = pa.schema({"s": pa.struct([("inner", pa.struct([("a.b", pa.int8())]))])})
    assert member_paths(SCHEMA, odd) == ["s.inner.`a.b`"]
    blob = pa.field("y", pa.large_binary(), metadata={b"lance-encoding:blob": b"true"})
    table = pa.schema({"s": pa.struct([pa.field("x", pa.int64()), blob])})
    assert member_paths(table, pa.schema({"s": pa.struct([("x", pa.int64())])})) == ["s"]


# Arrow takes time by the square of the levels, of structs the most.
@pytest.mark.parametrize(("kind", "levels"), [("struct", 300), ("list", 1000), ("vector", 1000)])
async def test_types_of_hundreds_of_levels_are_refused(
    tmp_path: Path, kind: str, levels: int
) -> None:
    wrapped = {
        "struct": lambda inner: pa.struct([("a", inner)]),
        "list": pa.list_,
        "vector": lambda inner: pa.list_(inner, 1),
    }[kind]
    deep = pa.int64()
    for _ in range(levels):
        deep = wrapped(deep)
    rows = pa.schema([("deep", deep)]).empty_table()
    with pytest.raises(alance.InvalidInputError, match="more than 200 levels deep"):
        await alance.write_dataset(rows, tmp_path / "t")


def test_a_table_with_a_type_of_ten_thousand_levels_is_refused() -> None:
    with pytest.raises(alance.UnsupportedError, match="too many levels"):
        leaf_type("fixed_size_list:" * 10_000 + "int64" + ":1" * 10_000)
