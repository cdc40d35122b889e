"""Tables with an index that carries values of other columns (feature flag 128) are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.format.table.flags import COVERING_INDEX
from tests.upkeep.test_validate import edit

if TYPE_CHECKING:
    from pathlib import Path

    from alance.format.proto import table_pb2


def rows(*numbers: int) -> pa.Table:
    return pa.table({"a": numbers, "b": [-number for number in numbers], "c": [0] * len(numbers)})


def make(path: Path, *, is_there: bool) -> None:
    """Two fragments, an index of `a` that says to carry `b`; or only the flag says so."""
    lance.write_dataset(rows(1, 2, 3, 4), path, max_rows_per_file=2)
    lance.dataset(path).create_scalar_index("a", "BTREE")

    def carry(message: table_pb2.Manifest, indices: list[table_pb2.IndexMetadata]) -> None:
        message.reader_feature_flags |= COVERING_INDEX
        message.writer_feature_flags |= COVERING_INDEX
        if is_there:
            indices[0].fields.append(1)
            indices[0].covering_fields.append(1)

    edit(path, carry)


def flags_and_indices(
    dataset: alance.Dataset,
) -> tuple[int, int, list[tuple[list[int], list[int]]]]:
    manifest = dataset._snapshot.manifest
    head = manifest.head
    indices = [(list(index.fields), list(index.covering_fields)) for index in manifest.indices]
    return head.reader_feature_flags, head.writer_feature_flags, indices


@pytest.mark.parametrize("is_there", [True, False])
async def test_the_flag_is_kept_as_long_as_there_is_such_an_index(
    tmp_path: Path, is_there: bool
) -> None:
    """As by pylance, commit by commit."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        make(path, is_there=is_there)
    dataset = await (await alance.dataset(ours)).insert(rows(5))
    lance.write_dataset(rows(5), theirs, mode="append")
    assert flags_and_indices(dataset) == flags_and_indices(await alance.dataset(theirs))
    dataset = await dataset.delete("a = 1")
    lance.dataset(theirs).delete("a = 1")
    assert flags_and_indices(dataset) == flags_and_indices(await alance.dataset(theirs))
    assert bool(flags_and_indices(dataset)[0] & COVERING_INDEX) is is_there
    for path in (ours, theirs):
        table = lance.dataset(path).to_table(filter="a >= 4")
        assert sorted(table["a"].to_pylist()) == [4, 5]
    assert (await dataset.to_table(filter="a = 4"))["b"].to_pylist() == [-4]


async def test_changes_of_carried_values_take_fragments_out_of_the_index(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path, is_there=True)
    dataset = await alance.dataset(path)
    dataset = await dataset.replace_columns({"c": "a"})
    (index,) = dataset.list_indices()
    assert index["fragment_ids"] == {0, 1}
    dataset = await dataset.replace_columns({"b": "a * 10"})
    (index,) = dataset.list_indices()
    assert index["fragment_ids"] == set()
    assert lance.dataset(path).to_table(filter="a = 3")["b"].to_pylist() == [30]
    dataset = await dataset.optimize.compact_files() and await dataset.checkout_latest()
    assert lance.dataset(path).to_table(filter="a = 3")["b"].to_pylist() == [30]
    dataset = await dataset.drop_columns(["b"])
    assert flags_and_indices(dataset) == (0, 0, [])
