"""Tables of 0.1 beside files of other versions: refused, rewritten, or made right."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.proto import table_pb2
from alance.format.table.flags import settle_file_version

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ROWS = pa.table({"x": list(range(50)), "few": pa.array(["a", "b"] * 25).dictionary_encode()})


@pytest.mark.parametrize(("old", "new"), [("0.1", "2.2"), ("2.0", "0.1")])
async def test_files_are_not_mixed(old: str, new: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await alance.write_dataset(ROWS, uri, data_storage_version=old)
    with pytest.raises(InvalidInputError, match=r"0\.1 is not mixed"):
        await alance.write_dataset(ROWS, uri, mode="append", data_storage_version=new)
    with pytest.raises(OSError, match="cannot be mixed"):
        lance.write_dataset(ROWS, uri, mode="append", data_storage_version=new)
    assert await (await alance.dataset(uri)).count_rows() == 50
    dataset = await alance.write_dataset(ROWS, uri, mode="overwrite", data_storage_version=new)
    assert dataset.data_storage_version is FileVersion.parse(new)
    assert lance.dataset(uri).to_table().to_pylist() == ROWS.to_pylist()


async def test_compaction_does_not_go_back(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=20)
    with pytest.raises(InvalidInputError, match=r"the table has 2\.2"):
        await dataset.optimize.compact_files(data_storage_version="legacy")


@pytest.mark.parametrize("target", [10, 60, None])
@pytest.mark.parametrize("new", ["2.0", "2.2"])
async def test_compaction_rewrites_all_files(new: str, target: int | None, tmp_path: Path) -> None:
    """Whatever their sizes, and with no version in between that mixes them."""
    uri = str(tmp_path / "t")
    await alance.write_dataset(ROWS, uri, data_storage_version="0.1", max_rows_per_file=20)
    dataset = await alance.write_dataset(ROWS, uri, mode="append")
    options = {} if target is None else {"target_rows_per_fragment": target}
    await dataset.optimize.compact_files(data_storage_version=new, **options)
    dataset = await alance.dataset(uri)
    assert dataset.data_storage_version is FileVersion.parse(new)
    assert (await dataset.to_table()).to_pylist() == [*ROWS.to_pylist(), *ROWS.to_pylist()]
    theirs = lance.dataset(uri)
    assert theirs.data_storage_version == new
    assert theirs.to_table().to_pylist() == [*ROWS.to_pylist(), *ROWS.to_pylist()]


MORE = pa.table({"x": [5, 7, 999], "few": pa.array(["a", "a", "b"]).dictionary_encode()})
CHANGES: dict[str, Callable[[alance.Dataset], Awaitable[object]]] = {
    "merge_insert": lambda dataset: (
        dataset.merge_insert("x")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(MORE)
    ),
    "update": lambda dataset: dataset.update({"few": "'b'"}, where="x < 10"),
    "rename": lambda dataset: dataset.alter_columns({"path": "x", "name": "y"}),
    "cast": lambda dataset: dataset.alter_columns({"path": "x", "data_type": pa.int32()}),
    "drop": lambda dataset: dataset.drop_columns(["x"]),
    "add": lambda dataset: dataset.add_columns({"y": "x * 2"}),
    "add_nulls": lambda dataset: dataset.add_columns(pa.schema([("n", pa.string())])),
    "add_dictionary": lambda dataset: dataset.add_columns(
        pa.record_batch({"other": pa.array(["q", "r"] * 25).dictionary_encode()})
    ),
    "merge": lambda dataset: dataset.merge(pa.table({"x": [1, 2], "s": ["a", "b"]}), "x"),
    "compact": lambda dataset: dataset.optimize.compact_files(),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_changes_write_files_of_the_same_version(name: str, tmp_path: Path) -> None:
    """New files are of 0.1, and pylance reads what we read."""
    uri = str(tmp_path / "t")
    await alance.write_dataset(ROWS, uri, data_storage_version="0.1", max_rows_per_file=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        await CHANGES[name](await alance.dataset(uri))
    dataset, theirs = await alance.dataset(uri), lance.dataset(uri)
    table = await dataset.to_table()
    assert table.num_rows >= 50
    assert table.to_pylist() == theirs.to_table().to_pylist()
    files = [file for fragment in theirs.get_fragments() for file in fragment.data_files()]
    assert {(file.file_major_version, file.file_minor_version) for file in files} == {(0, 2)}


def manifest(default: str, *numbers: tuple[int, int]) -> table_pb2.Manifest:
    result = table_pb2.Manifest()
    result.data_format.version = default
    for major, minor in numbers:
        file = result.fragments.add().files.add()
        file.file_major_version, file.file_minor_version = major, minor
    return result


@pytest.mark.parametrize(
    ("default", "numbers", "settled"),
    [
        ("0.1", [(0, 0), (0, 2)], "0.1"),
        ("0.1", [(0, 3), (2, 0)], "2.0"),  # noted by 0.16 for files of 2.0
        ("0.1", [], "0.1"),
        ("", [], ""),
        ("", [(0, 0)], ""),
        ("2.1", [(2, 1), (2, 2)], "2.1"),
        ("0.1", [(0, 0), (2, 0)], None),
        ("2.0", [(0, 2)], None),
    ],
)
def test_the_default_is_that_of_the_files(
    default: str, numbers: list[tuple[int, int]], settled: str | None
) -> None:
    message = manifest(default, *numbers)
    if settled is None:
        with pytest.raises(InvalidInputError, match="not mixed"):
            settle_file_version(message, message.fragments)
        return
    settle_file_version(message, message.fragments)
    assert message.data_format.version == settled
