"""A column of a type that alance cannot hold: it is refused by name, others are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = pa.array([b"", None, b""], pa.binary(0))  # which pylance itself reads in 2.2 alone
IN_STRUCT = pa.StructArray.from_arrays([EMPTY, pa.array([1, 2, 3])], ["e", "n"])
ROWS = [{"i": 0, "z": "a"}, {"i": 1, "z": "b"}, {"i": 2, "z": "c"}]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("values", [EMPTY, IN_STRUCT])
async def test_the_other_columns_are_read(tmp_path: Path, version: Any, values: pa.Array) -> None:
    table = pa.table({"i": range(3), "b": values, "z": ["a", "b", "c"]})
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    dataset = await alance.dataset(tmp_path / "t")
    assert (await dataset.to_table(["i", "z"])).to_pylist() == ROWS
    filtered = await dataset.to_table({"twice": "i * 2"}, filter="z >= 'b'", order_by=["i"])
    assert filtered["twice"].to_pylist() == [2, 4]
    assert (await dataset.take([2, 0], ["z", "i"])).to_pylist() == [
        {"z": "c", "i": 2},
        {"z": "a", "i": 0},
    ]
    assert await dataset.count_rows("i > 0") == 2
    for refused in (dataset.to_table(), dataset.to_table(["b"]), dataset.take([0])):
        with pytest.raises(UnsupportedError, match="fixed_size_binary:0") as caught:
            await refused
        assert "read other columns by name, or drop this one" in caught.value.__notes__[0]
    with pytest.raises(UnsupportedError, match="fixed_size_binary:0"):
        dataset.schema  # noqa: B018
    deleted = await dataset.delete("i = 0")
    assert (await deleted.to_table(["i", "z"])).to_pylist() == ROWS[1:]
    rest = await deleted.drop_columns(["b"])
    assert (await rest.to_table()).to_pylist() == ROWS[1:]
    assert (await (await rest.insert([{"i": 9, "z": "q"}])).count_rows()) == 3


async def test_such_types_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="fixed_size_binary:0"):
        await alance.write_dataset(pa.table({"b": EMPTY}), tmp_path / "t")
