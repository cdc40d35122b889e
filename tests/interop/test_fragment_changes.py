"""`DatasetFragment.delete`, `delete_rows`, `validate` and `create`, beside those of pylance."""

from __future__ import annotations

import json
import pickle
import random
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.json_format import MessageToDict
from lance.fragment import FragmentMetadata, LanceFragment

import alance
import alance.sync
from alance.operations import Append, Delete
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from pathlib import Path

    from alance.types import DataFragment

ROWS = pa.table({"id": range(100), "text": [None if n % 3 else str(n) for n in range(100)]})
KINDS = ("array", "bitmap")


async def tables(folder: Path, **options: Any) -> tuple[alance.Dataset, lance.LanceDataset]:
    """The same rows in two tables of three fragments."""
    for name in ("own", "their"):
        await alance.write_dataset(ROWS, folder / name, max_rows_per_file=40, **options)
    return await alance.dataset(folder / "own"), lance.dataset(folder / "their")


def for_pylance(record: DataFragment) -> FragmentMetadata:
    """The same record as an object of pylance."""
    files = [
        {
            "path": file.path,
            "fields": list(file.fields),
            "column_indices": list(file.column_indices),
            "file_major_version": file.file_major_version,
            "file_minor_version": file.file_minor_version,
            "file_size_bytes": file.file_size_bytes,
        }
        for file in record.files
    ]
    deletion = record.deletion_file
    deletion_file = {
        "file_type": KINDS[deletion.file_type],
        "read_version": deletion.read_version,
        "id": deletion.id,
        "num_deleted_rows": deletion.num_deleted_rows,
        "base_id": None,
    }
    return FragmentMetadata.from_json(
        json.dumps(
            {
                "id": record.id,
                "files": files,
                "physical_rows": record.physical_rows,
                "deletion_file": deletion_file if record.HasField("deletion_file") else None,
            }
        )
    )


def assert_alike(record: DataFragment | None, theirs: FragmentMetadata | None) -> None:
    assert (record is None) == (theirs is None)
    if record is None or theirs is None:
        return
    assert (record.id, record.physical_rows) == (theirs.id, theirs.physical_rows)
    assert record.HasField("deletion_file") == (theirs.deletion_file is not None)
    if theirs.deletion_file is not None:
        deletion = record.deletion_file
        assert KINDS[deletion.file_type] == theirs.deletion_file.file_type
        assert deletion.num_deleted_rows == theirs.deletion_file.num_deleted_rows


@pytest.mark.parametrize("predicate", ["id % 7 = 3", "text IS NULL", "id < 40", "id < 0", "true"])
@pytest.mark.parametrize("has_deleted", [False, True])
async def test_deletes_that_are_shared_are_those_of_pylance(
    tmp_path: Path, predicate: str, has_deleted: bool
) -> None:
    ours, theirs = await tables(tmp_path)
    if has_deleted:
        ours = await ours.delete("id % 5 = 0")
        theirs.delete("id % 5 = 0")
    records = [await fragment.delete(predicate) for fragment in ours.fragments]
    expected = [fragment.delete(predicate) for fragment in theirs.get_fragments()]
    for record, other in zip(records, expected, strict=True):
        assert_alike(record, other)
    assert await ours.latest_version() == ours.version  # nothing is committed
    ids = [fragment.fragment_id for fragment in ours.fragments]
    gone = [number for number, record in zip(ids, records, strict=True) if record is None]
    retained = [record for record in records if record is not None]
    operation = lance.LanceOperation.Delete(
        [other for other in expected if other is not None], gone, predicate
    )
    after = lance.LanceDataset.commit(theirs, operation, read_version=theirs.version)
    before = ours.version
    copies = pickle.loads(pickle.dumps(retained))
    ours = await alance.commit(ours, Delete(tuple(copies), tuple(gone), predicate))
    assert_equal_rows(await ours.to_table(), after.to_table())
    assert_equal_rows(lance.dataset(tmp_path / "own").to_table(), after.to_table())
    await ours.validate()

    # Records of alance, committed by pylance.
    uri = str(tmp_path / "own")
    restored = lance.dataset(uri, version=before)
    restored.restore()
    operation = lance.LanceOperation.Delete(
        [for_pylance(item) for item in retained], gone, predicate
    )
    again = lance.LanceDataset.commit(uri, operation, read_version=restored.version)
    assert_equal_rows(again.to_table(), after.to_table())
    assert_equal_rows(await (await alance.dataset(uri)).to_table(), after.to_table())


async def test_rows_by_offset_are_deleted_as_by_pylance(tmp_path: Path) -> None:
    ours, theirs = await tables(tmp_path)
    ours = await ours.delete("id in (41, 42)")
    theirs.delete("id in (41, 42)")
    draw = random.Random(5)
    for offsets in ([], [0], [1, 1, 3], [39], draw.choices(range(40), k=30), list(range(40))):
        record = await ours.fragment(1).delete_rows(offsets)
        assert_alike(record, theirs.get_fragment(1).delete_rows(offsets))
        if record is not None and offsets:
            after = await alance.commit(ours, Delete((record,)), detached=True)
            expected = sorted(set(range(40, 80)) - {40 + row for row in offsets} - {41, 42})
            rows = await after.fragment(1).to_table(["id"])
            assert rows["id"].to_pylist() == expected
    assert await ours.fragment(1).delete_rows(pa.array(range(40))) is None


async def test_parameters_and_what_is_refused(tmp_path: Path) -> None:
    ours, theirs = await tables(tmp_path)
    fragment = ours.fragment(0)
    record = await fragment.delete("id < ? OR text = ?", params=[5, "9"])
    assert record is not None
    assert record.deletion_file.num_deleted_rows == 6
    with pytest.raises(ValueError, match="out of range"):
        theirs.get_fragment(0).delete_rows([40])
    with pytest.raises(alance.InvalidInputError, match="row 40, it has 40"):
        await fragment.delete_rows([40])
    for wrong in ([-1], ["a"], [[1]], [1.5]):
        with pytest.raises(alance.InvalidInputError, match="offsets"):
            await fragment.delete_rows(wrong)
    with pytest.raises(alance.InvalidInputError, match="nothing"):
        await fragment.delete("nothing = 1")
    with pytest.raises(alance.InvalidInputError):
        await fragment.delete("id + 1")


async def test_others_deletes_of_the_same_fragment_are_not_lost(tmp_path: Path) -> None:
    ours, _ = await tables(tmp_path)
    first = await ours.fragment(0).delete("id = 1")
    second = await ours.fragment(0).delete("id = 2")
    assert first is not None
    assert second is not None
    await alance.commit(ours, Delete((first,)))
    with pytest.raises(alance.RetryableConflictError):
        await alance.commit(ours, Delete((second,)))


async def test_a_fragment_is_validated_by_itself(tmp_path: Path) -> None:
    ours, _ = await tables(tmp_path)
    ours = await ours.delete("id = 3")
    for fragment in ours.fragments:
        await fragment.validate()
    lance.dataset(tmp_path / "own").get_fragment(0).validate()
    (path,) = [file.path for file in ours.fragment(1).metadata.files]
    (tmp_path / "own" / "data" / path).write_bytes(b"short")
    with pytest.raises(alance.CorruptFileError, match="fragment 1: data file"):
        await ours.fragment(1).validate()
    await ours.fragment(0).validate()
    (deletions,) = (tmp_path / "own" / "_deletions").iterdir()
    deletions.unlink()
    with pytest.raises(alance.CorruptFileError, match="fragment 0: deletion file"):
        await ours.fragment(0).validate()


@pytest.mark.parametrize("exists", [False, True])
async def test_fragments_are_created_as_by_pylance(tmp_path: Path, exists: bool) -> None:
    if exists:
        await tables(tmp_path)
    record = await alance.DatasetFragment.create(str(tmp_path / "own"), ROWS, 7)
    expected = LanceFragment.create(str(tmp_path / "their"), ROWS, 7)
    assert_alike(record, expected)
    assert list(record.files[0].fields) == expected.files[0].fields
    assert (await alance.DatasetFragment.create(tmp_path / "own", ROWS)).id == 0
    if not exists:
        dataset = await alance.commit(
            tmp_path / "own", alance.distributed.new_table(ROWS.schema, [record])
        )
        assert_equal_rows(await dataset.to_table(), ROWS)
        return
    dataset = await alance.dataset(tmp_path / "own")
    dataset = await alance.commit(dataset, Append((record,)))
    assert_equal_rows(await dataset.to_table(), pa.concat_tables([ROWS, ROWS]))
    assert lance.dataset(tmp_path / "own").count_rows() == 200


async def test_a_fragment_is_one_file_whatever_it_holds(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array(np.zeros((1 << 20) + 10, np.int8))})
    record = await alance.DatasetFragment.create(tmp_path / "t", rows)
    assert (record.physical_rows, len(record.files)) == (rows.num_rows, 1)
    with pytest.raises(alance.InvalidInputError, match="0 fragments"):
        await alance.DatasetFragment.create(tmp_path / "t", rows.slice(0, 0))
    with pytest.raises(alance.InvalidInputError, match="fragment_id"):
        await alance.DatasetFragment.create(tmp_path / "t", rows, -1)


def test_fragments_are_changed_without_await(tmp_path: Path) -> None:
    record = alance.sync.DatasetFragment.create(tmp_path / "t", ROWS, mode="create")
    dataset = alance.sync.commit(
        tmp_path / "t", alance.distributed.new_table(ROWS.schema, [record])
    )
    (fragment,) = dataset.fragments
    fragment.validate()
    changed = fragment.delete("id >= 50")
    assert changed is not None
    assert "numDeletedRows" in MessageToDict(changed)["deletionFile"]
    assert len(alance.sync.commit(dataset, Delete((changed,)))) == 50
