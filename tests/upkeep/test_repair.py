"""repair: damaged tables of pylance are mended in a new version, which pylance reads as before."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import sync
from alance.command import main
from alance.errors import CorruptFileError, RetryableConflictError
from alance.format.proto import table_pb2
from alance.format.table.roaring import roaring_bytes
from alance.ops.upkeep import repair as module
from tests.upkeep.edited import edit, lose_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Change: TypeAlias = Callable[[table_pb2.Manifest, list[table_pb2.IndexMetadata]], object]

ROWS = pa.table({"id": range(100), "name": [f"name {n % 7}" for n in range(100)]})
OTHER = uuid.UUID(int=0)  # of a second segment, whose files are there
LIVE = [n for n in range(100) if n not in (3, 44)]
BROKEN = Path(__file__).parents[1] / "golden" / "v0_1" / "broken"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four fragments, of which two have deleted rows, and an index."""
    path = tmp_path_factory.mktemp("sound") / "t"
    dataset = lance.write_dataset(ROWS, path, max_rows_per_file=25)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id in (3, 44)")
    (own,) = (path / "_indices").iterdir()
    shutil.copytree(own, path / "_indices" / str(OTHER))
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "t")


def objects(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def ids(path: Path) -> list[int]:
    """By pylance: a scan of all rows, which finds each by its value as well."""
    dataset = lance.dataset(path)
    listed = dataset.to_table(["id"])["id"].to_pylist()
    for number in (0, 3, 30, 44, 99):
        assert dataset.count_rows(f"id = {number}") == listed.count(number)
    return sorted(listed)


def latest(path: Path) -> Path:
    return min((path / "_versions").glob("*.manifest"))


def segment(indices: list[table_pb2.IndexMetadata]) -> table_pb2.IndexMetadata:
    """A second segment of the index, which covers what the first one does."""
    other = table_pb2.IndexMetadata()
    other.CopyFrom(indices[0])
    other.uuid.uuid = OTHER.bytes
    other.files.clear()
    return other


def repeat_ids(message: table_pb2.Manifest) -> None:
    message.fragments[3].id = message.fragments[0].id


CHANGES: dict[str, Change] = {
    "fragment 2: physical_rows 7 -> 25": lambda message, _: setattr(
        message.fragments[2], "physical_rows", 7
    ),
    "fragment 0: deleted rows 9 -> 1": lambda message, _: setattr(
        message.fragments[0].deletion_file, "num_deleted_rows", 9
    ),
    "fragment 3: bytes of": lambda message, _: setattr(
        message.fragments[3].files[0], "file_size_bytes", 12
    ),
    "fragment 0: a second one of that id becomes 4": lambda message, _: repeat_ids(message),
    "highest fragment id 1 -> 3": lambda message, _: setattr(message, "max_fragment_id", 1),
    "a segment no longer covers [0, 1, 2, 3], another one does": lambda _, indices: indices.append(
        segment(indices)
    ),
    "another one has its UUID": lambda _, indices: indices.append(indices[0]),
    "no longer covers fragments [77]": lambda _, indices: setattr(
        indices[0], "fragment_bitmap", roaring_bytes(np.array([0, 1, 2, 3, 77]))
    ),
    "a segment is left out, fields [55]": lambda _, indices: indices[0].fields.append(55),
    "a segment is left out, its files": lambda _, indices: setattr(
        indices[0].files[0], "path", "gone.lance"
    ),
    "a segment is left out, its files are": lambda _, indices: lose_files(indices[0]),
    "of version 99 -> 3": lambda _, indices: setattr(indices[0], "dataset_version", 99),
}


@pytest.mark.parametrize("remedy", CHANGES)
async def test_what_contradicts_the_files_is_mended_in_a_new_version(
    path: Path, remedy: str
) -> None:
    edit(path, CHANGES[remedy])
    before = objects(path)
    report = await alance.repair(path)
    assert any(remedy in text for text in report.remedies), report
    assert (report.left, report.new_version) == ((), None)
    assert objects(path) == before
    done = await alance.repair(path, dry_run=False)
    assert (done.remedies, done.new_version) == (report.remedies, 4)
    assert before.items() <= objects(path).items(), "nothing is written over or deleted"
    assert ids(path) == LIVE
    lance.dataset(path).validate()
    dataset = await alance.dataset(path)
    await dataset.validate()
    assert (await dataset.to_table(["id"], filter="id >= 98"))["id"].to_pylist() == [98, 99]
    again = await alance.repair(path, dry_run=False)
    assert (again.remedies, again.left, again.new_version) == ((), (), None)
    lance.dataset(path).delete("id = 98")  # both go on from there
    await (await dataset.checkout_latest()).delete("id = 99")
    assert ids(path) == LIVE[:-2]


TOGETHER = [
    ("fragment 2: physical_rows 7 -> 25", "fragment 0: deleted rows 9 -> 1", "of version 99 -> 3"),
    ("fragment 0: a second one of that id becomes 4", "another one has its UUID"),
    ("highest fragment id 1 -> 3", "no longer covers fragments [77]", "fragment 3: bytes of"),
    ("a segment is left out, its files", "fragment 0: a second one of that id becomes 4"),
]


@pytest.mark.parametrize("remedies", TOGETHER)
@pytest.mark.parametrize("stable", [False, True])
async def test_several_damages_are_mended_together_and_no_row_is_lost(
    tmp_path: Path, remedies: tuple[str, ...], stable: bool
) -> None:
    path = tmp_path / "t"
    theirs = lance.write_dataset(ROWS, path, max_rows_per_file=25, enable_stable_row_ids=stable)
    theirs.create_scalar_index("id", "BTREE")
    theirs.delete("id in (3, 44)")
    for name in remedies:
        edit(path, CHANGES[name])
    before = objects(path)
    done = await alance.repair(path, dry_run=False)
    assert (done.left, done.new_version) == ((), 4)
    assert before.items() <= objects(path).items()
    assert ids(path) == LIVE
    await (await alance.dataset(path)).validate()
    again = await alance.repair(path, dry_run=False)
    assert (again.remedies, again.new_version) == ((), None)


@pytest.mark.parametrize("content", [b"", b"junk", None])
async def test_a_manifest_that_cannot_be_read_is_passed_over(
    path: Path, content: bytes | None
) -> None:
    file = latest(path)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises((OSError, ValueError)):
        lance.dataset(path)
    with pytest.raises(CorruptFileError):
        await alance.dataset(path)
    report = await alance.repair(path)
    assert (report.version, report.unreadable, report.restored) == (3, (3,), 2)
    done = await alance.repair(path, dry_run=False)
    assert (done.new_version, done.left) == (4, ())
    assert ids(path) == list(range(100))
    dataset = await alance.dataset(path)
    await dataset.validate()
    assert (await dataset.delete("id < 50")).version == 5
    assert lance.dataset(path).count_rows() == 50


async def test_lost_files_are_not_mended_and_a_whole_version_is_named(path: Path) -> None:
    before = set((path / "data").iterdir())
    dataset = lance.write_dataset(ROWS.slice(0, 5), path, mode="append")
    (new,) = set((path / "data").iterdir()) - before
    new.unlink()
    report = await alance.repair(path, dry_run=False)
    assert (report.remedies, report.new_version, report.good_version) == ((), None, 3)
    assert "fragment 4" in report.left[0]
    assert lance.dataset(path).version == dataset.version == 4
    done = await alance.repair(path, dry_run=False, restore=True)
    assert (done.restored, done.new_version, done.left) == (3, 5, ())
    assert ids(path) == LIVE


@pytest.mark.parametrize("damage", ["missing", "cut"])
async def test_rows_of_lost_files_are_dropped_on_request_alone(
    damage: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = (
        path / "data" / fragment.data_files()[0].path
        for fragment in lance.dataset(path).get_fragments()
        if fragment.fragment_id == 2
    )
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-20])
    report = await alance.repair(path)
    assert (dict(report.lost_rows), report.remedies, report.new_version) == ({2: 25}, (), None)
    assert "the 25 rows of fragment 2 are lost; --drop-lost-rows" in str(report)
    command = ["repair", str(path), "--yes", "--drop-lost-rows"]
    assert await asyncio.to_thread(main, command) == 0
    assert "fragment 2: dropped, a data file of it is lost" in capsys.readouterr().out
    mended = await alance.dataset(path)
    await mended.validate()
    remaining = [n for n in LIVE if not 50 <= n < 75]
    assert (await mended.to_table(["id"]))["id"].to_pylist() == remaining
    assert await mended.count_rows("id = 60") == 0
    assert ids(path) == remaining
    assert (await mended.delete("id < 50")).version == 5
    assert lance.dataset(path).count_rows() == 25


@pytest.mark.parametrize("name", ["migrated", "repeated_ids"])
async def test_tables_that_old_releases_broke_are_mended(name: str, tmp_path: Path) -> None:
    path = shutil.copytree(BROKEN / f"{name}.lance", tmp_path / "t")
    rows = await (await alance.dataset(path)).to_table()
    done = await alance.repair(path, dry_run=False)
    assert done.remedies
    assert done.left == ()
    mended = await alance.dataset(path)
    await mended.validate()
    assert (await mended.to_table()).equals(rows)
    theirs = lance.dataset(path)
    assert theirs.to_table().equals(rows)
    if name == "migrated":  # of files whose columns were all dropped pylance always complains
        theirs.validate()


async def test_a_commit_in_between_is_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(path, CHANGES["fragment 2: physical_rows 7 -> 25"])
    commit = module.commit_on

    async def beaten(*arguments: Any, **options: Any) -> Any:
        lance.write_dataset(ROWS.slice(0, 1), path, mode="append")
        return await commit(*arguments, **options)

    monkeypatch.setattr(module, "commit_on", beaten)
    with pytest.raises(RetryableConflictError, match="version 4 was committed meanwhile"):
        await alance.repair(path, dry_run=False)
    monkeypatch.undo()
    done = await alance.repair(path, dry_run=False)
    assert done.new_version == 5
    assert ids(path) == sorted([*LIVE, 0])


async def test_where_there_is_nothing_to_mend_nothing_is_done(path: Path, tmp_path: Path) -> None:
    before = objects(path)
    assert "nothing is wrong" in str(await alance.repair(path, dry_run=False))
    assert objects(path) == before
    with pytest.raises(alance.TableNotFoundError):
        await alance.repair(tmp_path / "none")
    for file in (path / "_versions").iterdir():
        file.write_bytes(b"")
    with pytest.raises(CorruptFileError, match="no manifest of 3 can be read"):
        await alance.repair(path)


def test_the_command_says_what_it_will_do_before_it_does(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(path, CHANGES["fragment 2: physical_rows 7 -> 25"])
    assert main(["repair", str(path)]) == 2
    shown = capsys.readouterr().out
    assert "to be done: fragment 2: physical_rows 7 -> 25" in shown
    assert "--yes" in shown
    assert main(["repair", str(path), "--dry-run", "--yes"]) == 1
    capsys.readouterr()
    assert main(["repair", str(path), "--yes", "--json"]) == 0
    assert '"new_version": 4' in capsys.readouterr().out
    assert main(["repair", str(path)]) == 0
    assert main(["validate", str(path)]) == 0
    assert sync.repair(str(path)).new_version is None
