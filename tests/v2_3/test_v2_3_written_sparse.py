"""Sparse pages by alance: asked for, and of lists in and around fixed-size lists of structs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

from alance.errors import UnsupportedError
from tests.reference.both_readers import check_written
from tests.reference.types import NOT_BESIDE_OTHERS, TYPES, column
from tests.reference.written import file_bytes
from tests.v2_3.planar import SPARSE, planes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", TYPES)
async def test_sparse_files_of_every_type_are_read_by_both(tmp_path: Path, name: str) -> None:
    columns = {f"c{nulls * 10:g}": column(name, 300, nulls) for nulls in (0.0, 0.3, 0.9, 1.0)}
    for nulls, array in columns.items():
        table = pa.table([array], schema=pa.schema([pa.field(nulls, array.type, metadata=SPARSE)]))
        content = file_bytes(table, "2.3")
        if nulls == "c3" and name != "null":
            assert any(structure == "sparse" for structure, _ in planes(content))
        alone = name in NOT_BESIDE_OTHERS and name.startswith("struct")
        await check_written(tmp_path / "file.lance", table, "2.3", alone=alone)


def lists(rng: random.Random, array: pa.Array) -> pa.Array:
    offsets = [0]
    while offsets[-1] < len(array):
        offsets.append(min(len(array), offsets[-1] + rng.choice([0, 1, 1, 3])))
    mask = pa.array([rng.random() < 0.2 for _ in offsets[1:]], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array, mask=mask)


def vectors(rng: random.Random, array: pa.Array, nulls: float) -> pa.Array:
    """Fixed-size lists of structs with one or two members."""
    dimension = rng.choice([1, 2, 3])
    array = array.slice(0, len(array) // dimension * dimension)
    members = [array] * rng.choice([1, 2])
    if rng.random() < 0.5:
        members.append(pa.array(range(len(array)), pa.int16()))
    mask = pa.array([rng.random() < 0.1 for _ in range(len(array))], pa.bool_())
    names = ["a", "b", "c"][: len(members)]
    structs = pa.StructArray.from_arrays(members, names, mask=mask)
    count = len(array) // dimension
    absent = pa.array([rng.random() < nulls for _ in range(count)], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(structs, dimension, mask=absent)


@pytest.mark.parametrize("seed", range(60))
async def test_lists_and_fixed_size_lists(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    name = rng.choice([item for item in TYPES if item not in NOT_BESIDE_OTHERS])
    array = column(name, rng.choice([60, 400]), rng.choice([0, 0.2, 0.9, 1]), seed)
    nulls = rng.choice([0, 0.3, 1]) if seed % 4 else 0
    kinds = rng.choice(["vl", "lv", "lvl", "vlv", "llv", "vvl", "lvv"])
    for kind in kinds:
        array = lists(rng, array) if kind == "l" else vectors(rng, array, nulls)
    step = -(-len(array) // rng.choice([1, 3]))
    parts = [array.slice(start, step) for start in range(0, len(array), step)]
    table = pa.table({"c": pa.chunked_array(parts)})
    alone = not reads_its_own(tmp_path / "theirs.lance", table)
    page_bytes = rng.choice([8 << 20, 500])
    await check_written(tmp_path / "file.lance", table, "2.3", page_bytes=page_bytes, alone=alone)


def reads_its_own(path: Path, table: pa.Table) -> bool:
    """True if pylance reads its own file: false if members differ in the lists around them."""
    with LanceFileWriter(str(path), table.schema, version="2.3") as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    try:
        LanceFileReader(str(path)).read_all().to_table()
    except pa.ArrowInvalid:
        return False
    return True


async def test_earlier_versions_do_not_have_them() -> None:
    rng = random.Random(1)
    array = lists(rng, vectors(rng, pa.array(range(60)), 0.0))
    for version in ("2.1", "2.2"):
        with pytest.raises(UnsupportedError):
            file_bytes(pa.table({"c": array}), version)
