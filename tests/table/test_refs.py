"""Tags, branches, clones and base paths of datasets that pylance wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pytest

from alance.errors import CorruptFileError, NotFoundError
from alance.io.events.trace import trace
from alance.ops.refs.refs import Branches, Tags
from alance.ops.version import opening
from alance.ops.version.opening import checkout_branch, open_snapshot
from tests.reference.shapes import numbers
from tests.table.conftest import History, edit_manifest, make_history, request_kinds

if TYPE_CHECKING:
    from alance.format.proto import table_pb2
    from alance.session import Session


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Branch `b1` from version 2 (3 rows more), `feat/x` from `b1` (4 rows more), and tags."""
    history = make_history(tmp_path_factory.mktemp("branched"))
    history.lance.tags.create("two", 2)
    first = history.lance.create_branch("b1", 2)
    first.insert(numbers(100, 103))
    second = first.create_branch("feat/x", 3)
    second.insert(numbers(200, 204))
    history.lance.tags.create("there", ("b1", 3))
    return history


async def test_tags_are_read_as_pylance_wrote_them(branched: History, session: Session) -> None:
    snapshot = await open_snapshot(branched.path, session=session)
    with trace() as recorder:
        items = await Tags(snapshot).list()
    assert request_kinds(recorder) == ["get", "get", "list"]
    assert {name: (tag.branch, tag.version) for name, tag in items.items()} == {
        "there": ("b1", 3),
        "two": (None, 2),
    }
    with trace() as recorder:
        assert await Tags(snapshot).get_version("two") == 2
    assert request_kinds(recorder) == ["get"]
    assert (await Tags(snapshot).get("there")).branch == "b1"


async def test_versions_by_tag(branched: History, session: Session) -> None:
    with trace() as recorder:
        second = await open_snapshot(branched.path, version="two", session=session)
    assert request_kinds(recorder) == ["get", "get"]
    assert (second.version, second.table.branch) == (2, None)
    present = await opening.checkout(second, "there")
    assert (present.version, present.manifest.branch, present.table.branch) == (3, "b1", "b1")
    assert (await present.live_counts()).tolist() == [10, 5, 3]
    # Tags belong to the dataset, whatever branch one is on.
    assert (await opening.checkout(present, "two")).table.branch is None


@pytest.mark.parametrize("name", ["none", "../two", "", "b1/x", "two.json"])
async def test_no_such_tag(branched: History, session: Session, name: str) -> None:
    with pytest.raises(NotFoundError, match="no tag"):
        await open_snapshot(branched.path, version=name, session=session)
    snapshot = await open_snapshot(branched.path, session=session)
    with pytest.raises(NotFoundError, match="no tag"):
        await Tags(snapshot).get_version(name)


async def test_a_tag_whose_version_is_gone(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)
    history.lance.tags.create("t", 2)
    (Path(history.path) / "_versions" / "18446744073709551613.manifest").unlink()
    with pytest.raises(NotFoundError, match="no version 2") as caught:
        await open_snapshot(history.path, version="t", session=session)
    assert caught.value.__notes__ == ["which tag 't' names"]


async def test_a_table_without_references_lists_none(history: History, session: Session) -> None:
    snapshot = await open_snapshot(history.path, session=session)
    assert await Tags(snapshot).list() == {}
    assert await Branches(snapshot).list() == {}


async def test_branches_are_read_as_pylance_wrote_them(branched: History, session: Session) -> None:
    main = await open_snapshot(branched.path, session=session)
    items = await Branches(main).list()
    assert {name: (item.parent_branch, item.parent_version) for name, item in items.items()} == {
        "b1": (None, 2),
        "feat/x": ("b1", 3),
    }
    assert await Branches(main).get("main") is None
    with trace() as recorder:
        nested = await checkout_branch(main, "feat/x")
    assert request_kinds(recorder) == ["get", "get", "list"]
    assert (nested.version, nested.manifest.branch) == (4, "feat/x")
    assert (await nested.live_counts()).tolist() == [10, 5, 3, 4]
    assert [version.version for version in await opening.versions(nested)] == [3, 4]
    assert await opening.latest_version(nested) == 4
    sources = [handle.sources[0].location for handle in nested.handles]
    folders = [Path(source.removeprefix("file://")).parent for source in sources]
    top = Path(branched.path)
    assert folders == [top / "data"] * 2 + [top / "tree/b1/data", top / "tree/feat/x/data"]
    with trace() as recorder:
        earlier = await checkout_branch(main, "b1", 2)
    assert request_kinds(recorder) == ["get", "get"]
    assert earlier.version == 2
    assert (await checkout_branch(nested, "main")).version == 4
    assert (await checkout_branch(nested, None)).table == main.table


async def test_a_branch_by_the_uri_of_its_folder(branched: History, session: Session) -> None:
    nested = await open_snapshot(branched.path + "/tree/feat/x", session=session)
    assert nested.table.branch == "feat/x"
    assert (await nested.live_counts()).tolist() == [10, 5, 3, 4]
    assert sorted(await Tags(nested).list()) == ["there", "two"]
    assert (await checkout_branch(nested, "main")).table.main_root.endswith("t.lance")


@pytest.mark.parametrize("name", ["none", "../b1", "", "feat"])
async def test_no_such_branch(branched: History, session: Session, name: str) -> None:
    main = await open_snapshot(branched.path, session=session)
    with pytest.raises(NotFoundError, match="no branch"):
        await checkout_branch(main, name)
    with pytest.raises(NotFoundError, match="no version 77"):
        await checkout_branch(main, "b1", 77)


async def test_a_clone_is_read_with_the_files_of_its_source(
    history: History, tmp_path: Path, session: Session
) -> None:
    clone = str(tmp_path / "clone")
    history.at(3).shallow_clone(clone, 3)
    lance.write_dataset(numbers(20, 22), clone, mode="append")
    snapshot = await open_snapshot(clone, session=session)
    await snapshot.prepare(snapshot.handles)
    assert (await snapshot.live_counts()).tolist() == [9, 5, 2]
    assert snapshot.handles[0].deleted is not None
    where = [handle.sources[0].location for handle in snapshot.handles]
    assert where[0].startswith(f"file://{history.path}/data/")
    assert where[2].startswith(f"file://{clone}/data/")


async def test_spoiled_base_paths(history: History, tmp_path: Path, session: Session) -> None:
    clone = str(tmp_path / "clone")
    history.at(3).shallow_clone(clone, 3)

    def unknown(message: table_pb2.Manifest) -> None:
        message.fragments[0].files[0].base_id = 9
        message.fragments[1].deletion_file.base_id = 9

    edit_manifest(clone, unknown)
    snapshot = await open_snapshot(clone, session=session)
    with pytest.raises(CorruptFileError, match="base path 9"):
        assert snapshot.handles[0].sources
    with pytest.raises(CorruptFileError, match="base path 9"):
        await snapshot.handles[1].deletions()

    def strange(message: table_pb2.Manifest) -> None:
        message.fragments[0].files[0].base_id = message.base_paths[0].id
        message.base_paths[0].path = "gopher://host/x"

    edit_manifest(clone, strange)
    snapshot = await open_snapshot(clone, session=session)
    with pytest.raises(CorruptFileError, match="gopher"):
        assert snapshot.handles[0].sources


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "s3://bucket/x"])
async def test_files_outside_of_the_table(tmp_path: Path, session: Session, path: str) -> None:
    history = make_history(tmp_path)

    def leave(message: table_pb2.Manifest) -> None:
        message.fragments[0].files[0].path = path
        message.transaction_file = path

    edit_manifest(history.path, leave)
    snapshot = await open_snapshot(history.path, session=session)
    with pytest.raises(CorruptFileError, match="data file"):
        assert snapshot.handles[0].sources
    with pytest.raises(CorruptFileError, match="transaction file"):
        await opening.read_transaction(snapshot)


async def test_a_base_that_is_no_dataset(tmp_path: Path, session: Session) -> None:
    history = make_history(tmp_path)
    other = tmp_path / "elsewhere"
    shutil.copytree(Path(history.path) / "data", other)

    def rebase(message: table_pb2.Manifest) -> None:
        base = message.base_paths.add()
        base.id, base.path, base.is_dataset_root = 3, str(other), False
        message.reader_feature_flags |= 16
        message.fragments[0].files[0].base_id = 3

    edit_manifest(history.path, rebase)
    snapshot = await open_snapshot(history.path, session=session)
    assert Path(snapshot.handles[0].sources[0].location.removeprefix("file://")).parent == other
