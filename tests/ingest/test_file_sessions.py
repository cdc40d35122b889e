"""Sessions of single files beside pylance's: names, bytes and Lance files, written by either."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileSession

import alance
import alance.sync
from alance import FileSession, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = pa.table({"a": list(range(1000)), "b": [f"text {n % 7}" for n in range(1000)]})
NAMES = ["x.bin", "day/a.bin", "day/name +&.bin", "day/deep/er/b.bin", "dayly/c.bin"]


@dataclass
class Place:
    """A folder as both see it."""

    uri: str
    options: dict[str, str]
    ours: FileSession
    theirs: LanceFileSession


@pytest.fixture(params=["local", "s3"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        uri, options = str(tmp_path / "files"), {}
    else:
        lab: Lab = request.getfixturevalue("lab")
        uri, options = f"s3://lab/sessions-{uuid4().hex}", lab.lance_options()
    ours = FileSession.open(uri, storage_options=options)
    return Place(uri, options, ours, LanceFileSession(uri, options))


async def test_names_are_listed_as_by_pylance(place: Place, tmp_path: Path) -> None:
    assert await place.ours.list() == place.theirs.list() == []
    source = tmp_path / "source.bin"
    source.write_bytes(b"content")
    for number, name in enumerate(NAMES):
        if number % 2:
            place.theirs.upload_file(source, name)
        else:
            await place.ours.upload_file(source, name)
    assert await place.ours.list() == sorted(NAMES)
    for folder in (None, "day", "day/", "day/deep", "da", "nothing"):
        assert await place.ours.list(folder) == sorted(place.theirs.list(folder))
        level, theirs = await place.ours.list_with_delimiter(folder), None
        theirs = place.theirs.list_with_delimiter(folder)
        assert level.common_prefixes == sorted(theirs.common_prefixes)
        assert level.objects == sorted(theirs.objects)
    for name in [*NAMES, "day", "x", "day/deep/er", "nothing/at/all"]:
        assert await place.ours.contains(name) == place.theirs.contains(name) == (name in NAMES)


async def test_files_go_up_and_down_as_with_pylance(place: Place, tmp_path: Path) -> None:
    contents = {"empty": b"", "small": b"0123456789", "large": os.urandom((8 << 20) + 12_345)}
    for name, content in contents.items():
        source, here, present = (tmp_path / f"{name}.{kind}" for kind in ("up", "ours", "theirs"))
        source.write_bytes(content)
        await place.ours.upload_file(source, f"ours/{name}")
        place.theirs.upload_file(source, f"theirs/{name}")
        place.theirs.download_file(f"ours/{name}", present)
        await place.ours.download_file(f"theirs/{name}", here)
        assert here.read_bytes() == present.read_bytes() == content
        await place.ours.upload_file(tmp_path / "empty.up", f"ours/{name}")
        await place.ours.upload_file(source, f"ours/{name}")  # replaced
        await place.ours.download_file(f"ours/{name}", tmp_path / "new" / "folder" / name)
        assert (tmp_path / "new" / "folder" / name).read_bytes() == content


async def test_ranges_are_those_of_the_file_that_is_there_now(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for content in (b"0123456789", b"abcdefghijk"):
        source.write_bytes(content)
        await place.ours.upload_file(source, "a")
        for offset, length in [(0, 10), (3, 4), (9, 1), (0, 1)]:
            ours = await place.ours.read_range("a", offset, length)
            assert ours == place.theirs.read_range("a", offset, length)
            assert ours == content[offset : offset + length]
        assert await place.ours.read_range("a", 5, 0) == b""
        many = [place.ours.read_range("a", start, 2) for start in range(9)]
        assert b"".join((await asyncio.gather(*many))[::2]) == content[:10]


async def test_what_is_not_there_is_said(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    await place.ours.upload_file(source, "folder/a")
    with pytest.raises(InvalidInputError, match="folder/a"):
        await place.ours.read_range("folder/a", 8, 3)
    with pytest.raises(InvalidInputError, match="folder/a"):
        await place.ours.read_range("folder/a", 100, 1)
    for call in (
        place.ours.read_range("none", 0, 1),
        place.ours.delete_file("none"),
        place.ours.download_file("none", tmp_path / "down"),
        place.ours.open_reader("none.lance"),
        place.ours.upload_file(tmp_path / "nothing", "b"),
        place.ours.upload_file(tmp_path, "b"),
    ):
        with pytest.raises(NotFoundError):
            await call
    assert not (tmp_path / "down").exists()
    for path in ("", "/", "../a", "folder/../a", "folder//a", "./a", "a\0b", None, b"a"):
        with pytest.raises(InvalidInputError, match="path"):
            await place.ours.contains(path)  # type: ignore[arg-type]
    if hasattr(os, "mkfifo"):  # a pipe, whose size says nothing of what it gives
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidInputError, match="a pipe or a device"):
            await place.ours.upload_file(tmp_path / "pipe", "b")
        assert not await place.ours.contains("b")
    with pytest.raises(InvalidInputError, match="offset"):
        await place.ours.read_range("folder/a", -1, 2)
    with pytest.raises(InvalidInputError, match="length"):
        await place.ours.read_range("folder/a", 1, -2)
    await place.ours.delete_file("folder/a")
    assert place.theirs.list() == []
    with pytest.raises(NotFoundError, match="folder/a"):
        await place.ours.delete_file("folder/a")


async def test_lance_files_are_those_of_pylance(place: Place) -> None:
    async with place.ours.open_writer("day/ours.lance", ROWS.schema) as writer:
        await writer.write(ROWS)
    with place.theirs.open_writer("day/theirs.lance") as theirs:
        theirs.write_batch(ROWS)
    for name in ("day/ours.lance", "day/theirs.lance"):
        reader = await place.ours.open_reader(name)
        assert await reader.to_table() == place.theirs.open_reader(name).read_all().to_table()
        part = await place.ours.open_reader(name, ["b"])
        expected = place.theirs.open_reader(name, ["b"]).read_all().to_table()
        assert await part.to_table() == expected == ROWS.select(["b"])
        assert part.schema == expected.schema
        with pytest.raises(InvalidInputError, match="'a'"):
            await part.take([1], ["a"])
    with pytest.raises(InvalidInputError, match="'nope'"):
        await place.ours.open_reader("day/ours.lance", ["nope"])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
@pytest.mark.filterwarnings("ignore:.*2.3.*")
async def test_metadata_and_buffers_are_read_by_pylance(tmp_path: Path, version: str) -> None:
    ours, theirs = FileSession.open(tmp_path), LanceFileSession(str(tmp_path))
    schema = ROWS.schema.with_metadata({"given": "1", "both": "old"})
    async with ours.open_writer("a.lance", schema, version=version) as writer:
        writer.add_schema_metadata("before", "2")
        assert writer.add_global_buffer(b"first") == 1
        await writer.write(ROWS)
        writer.add_schema_metadata("both", "new")
        assert writer.add_global_buffer(bytearray(b"second" * 1000)) == 2
    reader = theirs.open_reader("a.lance")
    expected = {b"given": b"1", b"both": b"new", b"before": b"2"}
    assert reader.metadata().schema.metadata == expected
    assert reader.read_global_buffer(1) == b"first"
    assert reader.read_global_buffer(2) == b"second" * 1000
    assert reader.read_all().to_table().equals(ROWS)
    again = await ours.open_reader("a.lance")
    assert again.schema.metadata == expected
    assert await again.global_buffer(2) == b"second" * 1000
    with theirs.open_writer("b.lance", version=version) as other:
        other.write_batch(ROWS)
        other.add_schema_metadata("k", "v")
        assert other.add_global_buffer(b"of theirs") == 1
    again = await ours.open_reader("b.lance")
    assert again.schema.metadata == {b"k": b"v"}
    assert await again.global_buffer(1) == b"of theirs"


async def test_metadata_and_buffers_that_cannot_be(tmp_path: Path) -> None:
    writer = FileSession.open(tmp_path).open_writer("a.lance", ROWS.schema)
    with pytest.raises(InvalidInputError, match="inside of its"):
        writer.add_schema_metadata("a", "b")
    async with writer:
        with pytest.raises(InvalidInputError, match="expected text"):
            writer.add_schema_metadata("a", 1)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="expected bytes"):
            writer.add_global_buffer("text")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="inside of its"):
        writer.add_global_buffer(b"")
    async with FileSession.open(tmp_path).open_writer("b.lance", ROWS.schema, version="0.1") as old:
        await old.write(ROWS)
        old.add_schema_metadata("a", "b")
        with pytest.raises(alance.UnsupportedError, match=r"0\.1"):
            old.add_global_buffer(b"")
    assert (await alance.FileReader.open(tmp_path / "b.lance")).schema.metadata == {b"a": b"b"}


async def test_the_files_of_a_dataset(place: Place) -> None:
    dataset = await alance.write_dataset(ROWS, place.uri, storage_options=place.options)
    theirs = lance.dataset(place.uri, storage_options=place.options).new_file_session()
    files = dataset.new_file_session()
    assert sorted(theirs.list("data")) == await files.list("data")
    (name,) = await files.list("data")
    assert await (await files.open_reader(name)).to_table() == ROWS
    branch = await dataset.create_branch("dev")
    branch = await branch.insert(ROWS)
    assert len(await branch.new_file_session().list("data")) == 1
    assert await files.list("data") == [name]


async def test_what_an_upload_costs(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    options = lab.lance_options()
    files = FileSession.open(f"s3://lab/session-{uuid4().hex}", storage_options=options)
    costs = {}
    for name, call in {
        "upload": lambda: files.upload_file(source, "a"),
        "contains": lambda: files.contains("a"),
        "range": lambda: files.read_range("a", 2, 3),
        "download": lambda: files.download_file("a", tmp_path / "b"),
        "list": files.list,
        "level": files.list_with_delimiter,
        "delete": lambda: files.delete_file("a"),
    }.items():
        with lab.recording() as seen:
            await call()
        costs[name] = [record["op"] for record in seen.records]
    assert costs == {
        "upload": ["PUT"],
        "contains": ["HEAD"],
        "range": ["GET"],
        "download": ["HEAD", "GET"],
        "list": ["LIST"],
        "level": ["LIST"],
        "delete": ["HEAD", "BULKDELETE"],
    }


def test_the_blocking_face_has_sessions_of_files(tmp_path: Path) -> None:
    files = alance.sync.FileSession.open(tmp_path)
    with files.open_writer("a.lance") as writer:
        writer.write(ROWS)
    assert files.list() == ["a.lance"]
    assert files.open_reader("a.lance", ["a"]).to_table() == ROWS.select(["a"])
    assert files.read_range("a.lance", 0, 0) == b""
    assert files.list_with_delimiter().objects == ["a.lance"]
    files.delete_file("a.lance")
    assert not files.contains("a.lance")
