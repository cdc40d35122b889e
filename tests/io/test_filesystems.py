"""Tables in file systems of fsspec, which are read only."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.http import HTTPFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import alance
from alance import sync
from alance.errors import (
    AccessError,
    AlanceError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    TableNotFoundError,
    UnsupportedError,
)
from alance.io.opening.registry import StoreRegistry
from tests.io.web_files import WebFiles, serving_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.io.cloud.filesystem import FileSystemStore

NUM_ROWS = 3000
WIDE = "x" * 400


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `t.lance`, which has two versions of two files, and a tag."""
    folder = tmp_path_factory.mktemp("written")
    rows = pa.table({"id": range(NUM_ROWS), "name": [f"{i}{WIDE}" for i in range(NUM_ROWS)]})
    dataset = sync.write_dataset(rows.slice(0, 1000), folder / "t.lance")
    dataset.insert(rows.slice(1000))
    dataset.tags.create("first", 1)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(written / "t.lance", tmp_path / "t.lance")
    return tmp_path


@pytest.fixture
def web(folder: Path) -> Iterator[WebFiles]:
    with serving_files(folder) as server:
        yield server


def copied_to_memory(folder: Path) -> MemoryFileSystem:
    files = MemoryFileSystem()
    with suppress(FileNotFoundError):
        files.rm(str(folder), recursive=True)
    files.put(str(folder / "t.lance"), f"{folder}/t.lance", recursive=True)
    return files


def zipped(folder: Path, kind: str) -> fsspec.AbstractFileSystem:
    name = str(folder.parent / f"{folder.name}-archive")
    path = shutil.make_archive(name, kind, folder, "t.lance")
    return fsspec.filesystem(kind, fo=path)


@pytest.fixture(params=["memory", "local", "dir", "zip", "tar", "http"])
def place(request: pytest.FixtureRequest, folder: Path) -> tuple[fsspec.AbstractFileSystem, str]:
    """A file system of each kind, and the path of the table in it."""
    match request.param:
        case "memory":
            return copied_to_memory(folder), f"{folder}/t.lance"
        case "local":
            return LocalFileSystem(), f"{folder}/t.lance"
        case "dir":
            return DirFileSystem(str(folder), LocalFileSystem()), "t.lance"
        case "http":
            web: WebFiles = request.getfixturevalue("web")
            return HTTPFileSystem(), f"{web.url}/t.lance"
    return zipped(folder, request.param), "t.lance"


async def test_a_table_is_read_from_any_file_system(
    place: tuple[fsspec.AbstractFileSystem, str],
) -> None:
    files, path = place
    dataset = await alance.dataset(path, store=files)
    assert dataset.version == 2
    assert (await dataset.to_table(columns=["id"]))["id"].to_pylist() == [*range(NUM_ROWS)]
    taken = await dataset.take([0, 999, 1000, 2999])
    assert taken["name"].to_pylist() == [f"{i}{WIDE}" for i in (0, 999, 1000, 2999)]
    assert await dataset.count_rows(filter="id >= 1500") == 1500
    assert [version.version for version in await dataset.versions()] == [1, 2]
    first = await alance.dataset(path, store=files, version="first")
    assert await first.count_rows() == 1000


async def test_what_is_missing_is_an_error_of_ours(
    place: tuple[fsspec.AbstractFileSystem, str],
) -> None:
    files, path = place
    with pytest.raises(TableNotFoundError):
        await alance.dataset(path + "-absent", store=files)
    store, inside = StoreRegistry().open(path, store=files)
    absent = f"{inside}/absent"
    for work in (
        lambda: store.size(absent),
        lambda: store.get(absent),
        lambda: store.get_ranges(absent, [(0, 5)]),
        lambda: store.get_ranges(absent, [(0, 5), (7, 9)]),
        lambda: store.get_tail(absent, 5),
    ):
        with pytest.raises(NotFoundError) as missing:
            await work()
        assert str(missing.value) == f"{store.root}{absent}: no such object"
    assert await store.list_level(f"{inside}/absent") == ([], [])
    assert [entry async for entry in store.list(f"{inside}/absent")] == []


async def test_objects_are_listed_and_read_as_on_the_disk(
    place: tuple[fsspec.AbstractFileSystem, str], folder: Path
) -> None:
    files, path = place
    store, inside = StoreRegistry().open(path, store=files)
    local, table = StoreRegistry().open(folder / "t.lance")
    listed = [(entry.path, entry.num_bytes) async for entry in store.list(inside)]
    expected = [(entry.path, entry.num_bytes) async for entry in local.list(table)]
    assert listed == [(inside + path.removeprefix(table), size) for path, size in expected]
    later = [entry.path async for entry in store.list(inside, start_after=listed[0][0])]
    assert later == [name for name, _ in listed[1:]]
    folders, objects = await store.list_level(inside)
    names = sorted(child.name for child in (folder / "t.lance").iterdir())
    assert (folders, objects) == ([f"{inside}/{name}" for name in names], [])
    data, size = next(pair for pair in listed if pair[0].endswith(".lance"))
    content = (folder / "t.lance" / data.removeprefix(inside).strip("/")).read_bytes()
    spans = [(5, 9), (0, 1), (7, 7), (size - 3, size)]
    assert [*await store.get_ranges(data, spans)] == [content[begin:end] for begin, end in spans]
    assert await store.get_tail(data, 11) == (content[-11:], size)
    assert await store.get(data) == content
    with pytest.raises(AlanceError, match=r"ends|beyond"):
        await store.get_ranges(data, [(size - 3, size + 2)])


async def test_each_write_is_refused_with_what_to_write_instead(
    place: tuple[fsspec.AbstractFileSystem, str],
) -> None:
    files, path = place
    dataset = await alance.dataset(path, store=files)
    for work in (
        lambda: dataset.insert({"id": [1], "name": ["a"]}),
        lambda: dataset.delete("id = 1"),
        lambda: dataset.tags.create("second", 2),
        lambda: dataset.create_scalar_index("id", "BTREE"),
        lambda: alance.write_dataset({"id": [1]}, path + "-new", store=files),
    ):
        with pytest.raises(UnsupportedError, match=r"read only here; to write, open the table by"):
            await work()
    assert (await alance.dataset(path, store=files)).version == 2


async def test_new_versions_are_seen_in_spite_of_cached_listings(
    place: tuple[fsspec.AbstractFileSystem, str], folder: Path
) -> None:
    files, path = place
    if "zip" in files.protocol or "tar" in files.protocol:
        return  # an archive is read once
    dataset = await alance.dataset(path, store=files)
    files.ls(path)
    local = await alance.dataset(folder / "t.lance")
    await local.insert({"id": [-1], "name": ["new"]})
    if isinstance(files, MemoryFileSystem):
        copied_to_memory(folder)
    assert (await dataset.checkout_latest()).version == 3
    latest = await alance.dataset(path, store=files)
    assert (await latest.to_table(filter="id = -1"))["name"].to_pylist() == ["new"]


async def test_names_are_quoted_for_web_servers_alone(
    place: tuple[fsspec.AbstractFileSystem, str], folder: Path
) -> None:
    """The file of a branch `a/b` is `a%2Fb.json`."""
    files, path = place
    branch = await (await alance.dataset(folder / "t.lance")).create_branch("a/b")
    await branch.insert({"id": [-1], "name": ["new"]})
    odd = f"%41 #?+ü~{'%2F' * 2}"
    shutil.copytree(folder / "t.lance", folder / "odd" / odd)
    if isinstance(files, MemoryFileSystem):
        copied_to_memory(folder)
        files.put(str(folder / "odd"), f"{folder}/odd", recursive=True)
    if "zip" in files.protocol or "tar" in files.protocol:
        return
    parent = path.removesuffix("t.lance") + "odd/"
    is_web = isinstance(files, HTTPFileSystem)
    for table in (path, parent + (quote(odd) if is_web else odd)):
        dataset = await alance.dataset(table, store=files)
        assert [*await dataset.branches.list()] == ["a/b"]
        assert await (await dataset.checkout_branch("a/b")).count_rows() == NUM_ROWS + 1
    if is_web:
        within = DirFileSystem(path, files)
        assert [*await (await alance.dataset("", store=within)).branches.list()] == ["a/b"]


async def test_a_take_reads_its_ranges_and_no_more(web: WebFiles) -> None:
    dataset = await alance.dataset(f"{web.url}/t.lance", store=HTTPFileSystem(), version=2)
    web.requests.clear()
    web.num_bytes = 0
    with alance.trace() as recorder:
        await dataset.take([3, 2000], columns=["id"])
    # A footer and a page of each file: the sizes are in the manifest, so there is no HEAD.
    assert {request.partition(" ")[0] for request in web.requests} == {"GET"}
    assert len(web.requests) == recorder.totals.num_requests <= 4
    assert web.num_bytes == recorder.totals.num_bytes < 200_000


async def test_opening_a_web_folder_costs_its_listing_and_two_sizes(web: WebFiles) -> None:
    """Index pages have no sizes: each of the first two versions costs a HEAD."""
    await alance.dataset(f"{web.url}/t.lance", store=HTTPFileSystem())
    listed = [request for request in web.requests if request.endswith("_versions")]
    assert len(listed) == 1
    assert len(web.requests) <= 4


async def test_small_ranges_of_a_file_are_read_by_one_opening(folder: Path) -> None:
    class Counted(LocalFileSystem):
        opened = 0

        def open(self, *arguments: Any, **options: Any) -> Any:
            Counted.opened += 1
            return super().open(*arguments, **options)

    store, inside = StoreRegistry().open(folder / "t.lance", store=Counted())
    data = next(name for name in (await store.list_level(f"{inside}/data"))[1])
    await store.get_ranges(data, [(i, i + 2) for i in range(0, 40, 4)])
    assert Counted.opened == 1


async def test_failures_of_a_server_are_errors_of_ours(web: WebFiles) -> None:
    registry = StoreRegistry()
    store, inside = registry.open(f"{web.url}/t.lance", store=HTTPFileSystem())
    data = next(name for name in (await store.list_level(f"{inside}/data"))[1])
    for status, kind in ((403, AccessError), (401, AccessError), (400, StoreError)):
        web.failing = [status]
        with pytest.raises(kind) as refused:
            await store.get_ranges(data, [(0, 4)])
        assert refused.value.status == status
    web.failing = [503, 503]  # twice, then it works again
    assert len((await store.get_ranges(data, [(0, 4)]))[0]) == 4
    assert web.failing == []


class Hung(LocalFileSystem):
    """A file system whose reads wait until they are released."""

    released = threading.Event()
    entered = threading.Event()
    cachable = False

    def open(self, *arguments: Any, **options: Any) -> Any:
        self.entered.set()
        assert self.released.wait(20)
        return super().open(*arguments, **options)


async def test_a_cancelled_read_frees_its_caller_and_the_loop_never_waits(folder: Path) -> None:
    store, inside = StoreRegistry().open(folder / "t.lance", store=Hung())
    data = next(name for name in (await store.list_level(f"{inside}/data"))[1])
    reading = store.get_ranges(data, [(0, 4)])
    try:
        await asyncio.to_thread(Hung.entered.wait, 20)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    finally:
        Hung.released.set()
    assert len((await store.get_ranges(data, [(0, 4)]))[0]) == 4


async def test_a_cancelled_request_is_cancelled_in_the_file_systems_loop(web: WebFiles) -> None:
    files = HTTPFileSystem()
    store, inside = StoreRegistry().open(f"{web.url}/t.lance", store=files)
    data = next(name for name in (await store.list_level(f"{inside}/data"))[1])
    web.hung = threading.Event()
    web.requests.clear()
    reading = store.get_ranges(data, [(0, 4)])
    await asyncio.to_thread(web.entered.wait, 20)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    deadline = time.monotonic() + 10
    while any("_cat_file" in repr(task) for task in asyncio.all_tasks(files.loop)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_a_silent_server_is_given_up_in_time(web: WebFiles) -> None:
    web.hung = threading.Event()
    async with alance.Session(timeout=0.3) as session:
        with pytest.raises(StoreError, match=r"no complete answer within 0\.3"):
            await alance.dataset(f"{web.url}/t.lance", store=HTTPFileSystem(), session=session)


async def test_a_file_system_of_the_callers_loop_is_used_in_it(web: WebFiles) -> None:
    files = HTTPFileSystem(asynchronous=True)
    dataset = await alance.dataset(f"{web.url}/t.lance", store=files)
    assert (await dataset.take([5], columns=["id"]))["id"].to_pylist() == [5]
    store, _ = StoreRegistry().open(f"{web.url}/t.lance", store=files)
    await store.list_level("t.lance")

    def elsewhere() -> None:
        asyncio.run(store.list_level("t.lance"))  # type: ignore[arg-type]

    with pytest.raises(InvalidInputError, match="pass one without asynchronous=True"):
        await asyncio.to_thread(elsewhere)
    await (await files.set_session()).close()


@pytest.mark.filterwarnings("ignore:lance is not fork-safe")  # where other tests import it
def test_blocking_calls_and_forked_children_read_as_well(web: WebFiles) -> None:
    files = HTTPFileSystem()
    dataset = sync.dataset(f"{web.url}/t.lance", store=files)
    assert dataset.count_rows() == NUM_ROWS
    child = os.fork()
    if child == 0:  # pragma: no cover
        is_right = False
        try:
            again = sync.dataset(f"{web.url}/t.lance", store=files)
            is_right = again.take([7], columns=["id"])["id"].to_pylist() == [7]
        finally:
            os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
@pytest.mark.parametrize("place", ["tar", "zip"], indirect=True)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_child_opens_archives_again_instead_of_sharing_their_position(
    place: tuple[fsspec.AbstractFileSystem, str], folder: Path, *, is_wrapped: bool
) -> None:
    files, path = place
    passed = DirFileSystem(path, files) if is_wrapped else files
    store, inside = StoreRegistry().open("" if is_wrapped else path, store=passed)
    data = next((folder / path / "data").iterdir())
    name, content = "/".join(filter(None, (inside, "data", data.name))), data.read_bytes()

    async def is_right() -> bool:
        ours, _ = StoreRegistry().open("", store=passed)
        for reader in (store, ours):
            (body,) = await reader.get_ranges(name, [(0, len(content))])
            if body != content:
                return False
        return True

    assert asyncio.run(is_right())
    child = os.fork()
    if child == 0:  # pragma: no cover
        right = False
        try:
            files.fo.close()  # what the parent shares is not used
            right = asyncio.run(is_right())
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
def test_a_child_makes_the_file_system_inside_another_anew(web: WebFiles) -> None:
    files = DirFileSystem(web.url, HTTPFileSystem())
    dataset = sync.dataset("t.lance", store=files)
    assert dataset.take([7], columns=["id"])["id"].to_pylist() == [7]
    child = os.fork()
    if child == 0:  # pragma: no cover
        is_right = False
        try:
            again = sync.dataset("t.lance", store=files)
            is_right = dataset.count_rows(filter="id > 5") == again.count_rows(filter="id > 5")
        finally:
            os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_each_file_system_is_used_itself_though_others_are_equal(
    folder: Path, web: WebFiles
) -> None:
    async def count_rows_by_web() -> int:
        files = HTTPFileSystem(asynchronous=True, skip_instance_cache=True)
        try:
            dataset = await alance.dataset(f"{web.url}/t.lance", store=files)
            return await dataset.count_rows(filter="id >= 0")
        finally:
            await (await files.set_session()).close()

    def count_rows_of_archive() -> int:
        archive = shutil.make_archive(f"{folder}/archive", "zip", folder, "t.lance")
        files = fsspec.filesystem("zip", fo=archive, skip_instance_cache=True)
        return sync.dataset("t.lance", store=files).count_rows()

    assert [asyncio.run(count_rows_by_web()) for _ in range(2)] == [NUM_ROWS, NUM_ROWS]
    assert count_rows_of_archive() == NUM_ROWS
    sync.write_dataset({"id": [1], "name": ["a"]}, folder / "t.lance", mode="append")
    assert count_rows_of_archive() == NUM_ROWS + 1


async def test_urls_with_secrets_are_refused_without_showing_them() -> None:
    for url in (
        "http://me:s3cr3t@a.example/t",
        "http://a.example/t?sig=s3cr3t",
        "http://a.example?sig=s3cr3t",
        "http://a.example/t#s3cr3t",
    ):
        with pytest.raises(InvalidInputError, match=r"'http://a\.example/…': expected") as refused:
            await alance.dataset(url, store=HTTPFileSystem())
        assert "s3cr3t" not in str(refused.value)


async def test_odd_answers_of_a_file_system_are_errors_at_once(folder: Path) -> None:
    class Odd(LocalFileSystem):
        cachable = False
        failure: Exception | None = None

        def find(self, path: str, **options: Any) -> Any:
            if self.failure is not None:
                raise self.failure
            names = [str(file) for file in Path(path).rglob("*.*")]
            return {name: {"name": name} for name in names}  # neither size nor type

        def info(self, path: str, **options: Any) -> Any:
            return {"name": path}

    files = Odd()
    with pytest.raises(UnsupportedError, match="the file system does not tell its size"):
        await alance.dataset(folder / "t.lance", store=files)
    for failure, text in (
        (StopIteration("end"), r"raised StopIteration\('end'\)"),
        (EOFError(), "_versions: EOFError"),
        (KeyError("type"), "_versions: KeyError 'type'"),
    ):
        files.failure = failure
        with pytest.raises(StoreError, match=text):
            await alance.dataset(folder / "t.lance", store=files)


async def test_a_file_system_has_a_store_for_each_of_its_servers(folder: Path) -> None:
    registry = StoreRegistry()
    files = LocalFileSystem()
    first: FileSystemStore = registry.open("/a", store=files)[0]  # type: ignore[assignment]
    assert registry.open("/b", store=files)[0] is first
    web, path = registry.open("http://a.example/t", store=HTTPFileSystem())
    assert (web.root, path) == ("fsspec+http://a.example/", "t")
    other_web, _ = registry.open("http://b.example/t", store=HTTPFileSystem())
    assert other_web.root == "fsspec+http://b.example/"


async def test_a_relative_path_is_that_of_the_file_system(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    dataset = await alance.dataset("t.lance", store=LocalFileSystem())
    assert await dataset.count_rows() == NUM_ROWS
    by_uri = await alance.dataset(f"file://{folder}/t.lance", store=LocalFileSystem())
    assert await by_uri.count_rows() == NUM_ROWS


async def test_a_pickle_has_no_option_of_a_file_system(folder: Path, web: WebFiles) -> None:
    dataset = await alance.dataset(folder / "t.lance", store=LocalFileSystem())
    again = pickle.loads(pickle.dumps(dataset))
    assert await again.count_rows() == NUM_ROWS
    keyed = HTTPFileSystem(client_kwargs={"headers": {"authorization": "s3cr3t"}})
    dataset = await alance.dataset(f"{web.url}/t.lance", store=keyed)
    with pytest.raises(InvalidInputError, match="secrets perhaps; open the table where it is read"):
        pickle.dumps(dataset)


async def test_other_objects_are_refused_by_their_type() -> None:
    with pytest.raises(InvalidInputError, match=r"or a file system of fsspec, found builtins\.int"):
        await alance.dataset("t", store=5)
    with pytest.raises(InvalidInputError, match="has its own already"):
        await alance.dataset("t", store=LocalFileSystem(), storage_options={"region": "x"})


async def test_single_files_are_read_as_well(folder: Path) -> None:
    session = alance.FileSession.open(f"{folder}/t.lance/data", store=LocalFileSystem())
    name = next((folder / "t.lance" / "data").glob("*.lance")).name
    reader = await session.open_reader(name)
    assert reader.num_rows in (1000, 2000)
