"""Structs without fields inside any other type: every file version, both writers, every verb."""

from __future__ import annotations

import functools
import random
import uuid
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from alance.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[[random.Random], Any]

pytestmark = pytest.mark.filterwarnings("ignore:file version 2.3 is unstable")

EMPTY = pa.struct([])
VERSIONS = ["2.0", "2.1", "2.2", "2.3"]
NULLS_IN_OLD = "null structs"  # what files before 2.3 refuse, in the words of the message
REFUSALS = {"2.0": NULLS_IN_OLD, "2.2": "fixed-size lists of structs together with lists"}


@st.composite
def nested_types(
    draw: st.DrawFn, version: str, *, fixed_lists: bool, depth: int = 0
) -> pa.DataType:
    """A type that has a struct without fields somewhere."""
    kinds = ["empty", "empty", "struct", "list", "large_list"]
    if version >= "2.2":
        kinds += ["map", "fixed"] if fixed_lists else ["map"]
    kind = draw(st.sampled_from(kinds if depth < 3 else ["empty"]))
    if kind == "empty":
        return EMPTY
    inner = nested_types(version, fixed_lists=fixed_lists, depth=depth + 1)
    if kind == "struct":
        others = st.sampled_from([pa.int8(), pa.string(), pa.list_(pa.int16())])
        members = draw(st.lists(st.one_of(inner, others), min_size=1, max_size=3))
        place = draw(st.integers(0, len(members)))
        members.insert(place, draw(inner))
        return pa.struct([(f"m{number}", member) for number, member in enumerate(members)])
    item = draw(inner)
    if kind == "map":
        return pa.map_(pa.string(), item)
    if kind == "fixed":
        return pa.list_(pa.struct([("x", item), ("y", pa.int8())]), 2)
    return (pa.list_ if kind == "list" else pa.large_list)(item)


def value(rng: random.Random, arrow: pa.DataType, share: float, *, empty_nulls: bool) -> Any:
    """A value of a type; nulls at every level, of structs without fields only if asked for."""
    inside = functools.partial(value, rng, share=share, empty_nulls=empty_nulls)
    if rng.random() < share and (empty_nulls or arrow != EMPTY):
        return None
    if pa.types.is_struct(arrow):
        return {member.name: inside(arrow=member.type) for member in arrow}
    if pa.types.is_map(arrow):
        return [(key, inside(arrow=arrow.item_type)) for key in "abc"[: rng.randrange(4)]]
    if pa.types.is_fixed_size_list(arrow):
        return [inside(arrow=arrow.value_type) for _ in range(arrow.list_size)]
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return [inside(arrow=arrow.value_type) for _ in range(rng.choice([0, 1, 2, 5]))]
    return "é" * rng.randrange(3) if pa.types.is_string(arrow) else rng.randrange(9)


@st.composite
def tables(
    draw: st.DrawFn, version: str, *, empty_nulls: bool, fixed_lists: bool = False
) -> pa.Table:
    """Rows of such a type between two other columns.

    pylance panics when it writes lists inside fixed-size lists, so its tests have none of these.
    """
    arrow = draw(nested_types(version, fixed_lists=fixed_lists))
    rng = random.Random(draw(st.integers(0, 999)))
    count = draw(st.sampled_from([1, 3, 8, 70]))
    share = draw(st.sampled_from([0.0, 0.0, 0.2, 0.9]))
    rows = [value(rng, arrow, share, empty_nulls=empty_nulls) for _ in range(count)]
    columns = {"i": pa.array(range(count), pa.int64()), "c": pa.array(rows, arrow)}
    columns["z"] = pa.array([f"row {number}" for number in range(count)])
    return pa.table(columns)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=15)
@given(data=st.data())
async def test_every_verb_keeps_structs_without_fields(data: st.DataObject, version: str) -> None:
    table = data.draw(tables(version, empty_nulls=version == "2.3", fixed_lists=True))
    half = table.num_rows // 2
    refusal = None
    try:
        dataset = await alance.write_dataset(
            table.slice(0, half + 1), f"memory://{uuid.uuid4()}", data_storage_version=version
        )
        dataset = await dataset.insert(table.slice(half + 1))
    except (InvalidInputError, UnsupportedError) as error:
        refusal = str(error)
    if refusal is not None:
        assert REFUSALS[version] in refusal
        assert version != "2.0" or "None" in str(table["c"].to_pylist())
        return
    rows = table.to_pylist()
    assert (await dataset.to_table()).to_pylist() == rows
    small = [batch async for batch in dataset.to_batches(batch_size=2)]
    assert pa.Table.from_batches(small).to_pylist() == rows
    numbers = [data.draw(st.integers(0, len(rows) - 1)) for _ in range(4)]
    taken = await dataset.take(numbers)
    taken.validate(full=True)
    assert taken.to_pylist() == [rows[number] for number in numbers]
    assert (await dataset.to_table(filter="i >= 1")).to_pylist() == rows[1:]
    present = await dataset.to_table(filter="c IS NOT NULL", columns=["i"])
    assert present["i"].to_pylist() == [row["i"] for row in rows if row["c"] is not None]

    changed = await dataset.update({"z": "'changed'"}, where="i = 0")
    rows[0] = {**rows[0], "z": "changed"}
    assert await by_number(changed) == rows
    newer = pa.table({**{name: table[name][-1:] for name in ("i", "c")}, "z": ["merged"]})
    merge = changed.merge_insert("i").when_matched_update_all().when_not_matched_insert_all()
    await merge.execute(newer)
    rows[-1] = {**rows[-1], "z": "merged"}
    merged = await changed.checkout_latest()
    assert await by_number(merged) == rows
    await merged.optimize.compact_files()
    compacted = await merged.checkout_latest()
    assert len(compacted.fragments) == 1
    assert await by_number(compacted) == rows


async def by_number(dataset: alance.Dataset) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await dataset.to_table()).sort_by("i").to_pylist()
    return rows


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(data=st.data())
async def test_what_pylance_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, version: Any
) -> None:
    table = data.draw(tables(version, empty_nulls=version == "2.3"))
    place = tmp_path_factory.mktemp("pylance") / "t"
    refusal = None
    try:
        lance.write_dataset(table, place, data_storage_version=version)
    except OSError as error:
        refusal = str(error)
    if refusal is not None:
        assert "mpty structs" in refusal or "null value(s)" in refusal
        return
    dataset = await alance.dataset(place)
    assert (await dataset.to_table()).to_pylist() == table.to_pylist()
    last = table.num_rows - 1
    assert (await dataset.take([last, 0])).to_pylist() == table.take([last, 0]).to_pylist()


async def test_fixed_size_lists_that_pylance_writes_are_read(tmp_path: Path) -> None:
    items = pa.struct([("e", EMPTY), ("v", pa.int8())])
    full = [{"e": {}, "v": 1}, {"e": None, "v": None}]
    table = pa.table({"c": pa.array([full, None, [None, full[0]]], pa.list_(items, 2))})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.3")
    dataset = await alance.dataset(tmp_path / "t")
    assert (await dataset.to_table()).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(data=st.data())
async def test_pylance_reads_what_it_reads_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, version: Any
) -> None:
    """pylance cannot read all that it writes of such structs; of the rest, it reads ours too."""
    table = data.draw(tables(version, empty_nulls=False))
    folder = tmp_path_factory.mktemp("both")
    try:
        lance.write_dataset(table, folder / "theirs", data_storage_version=version)
        own = lance.dataset(folder / "theirs").to_table()
    except (OSError, pa.ArrowException):
        return
    if own.to_pylist() != table.to_pylist():
        return
    await alance.write_dataset(table, folder / "ours", data_storage_version=version)
    assert lance.dataset(folder / "ours").to_table() == own


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize(
    ("arrow", "rows"),
    [
        (EMPTY, [{}, None]),
        (pa.struct([("e", EMPTY)]), [{"e": {}}, {"e": None}]),
        (pa.struct([("e", EMPTY), ("v", pa.int8())]), [{"e": None, "v": 1}]),
        (pa.list_(EMPTY), [[{}, None]]),
    ],
)
async def test_nulls_that_a_version_cannot_hold_are_refused(
    tmp_path: Path, version: str, arrow: pa.DataType, rows: list[Any]
) -> None:
    table = pa.table({"c": pa.array(rows, arrow)})
    with pytest.raises(InvalidInputError, match=NULLS_IN_OLD):
        await alance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    await alance.write_dataset(table, tmp_path / "t", data_storage_version="2.3")
    dataset = await alance.dataset(tmp_path / "t")
    assert (await dataset.to_table()).to_pylist() == table.to_pylist()


async def test_files_of_2_0_refuse_null_structs_around_structs_without_fields(
    tmp_path: Path,
) -> None:
    table = pa.table({"c": pa.array([{"e": {}}, None], pa.struct([("e", EMPTY)]))})
    with pytest.raises(InvalidInputError, match=NULLS_IN_OLD):
        await alance.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
