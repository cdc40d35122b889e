"""Metadata that claims more than there is, or is more than it can be: refused before it costs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import alance
from alance.errors import CommitConflictError, CorruptFileError, InvalidInputError
from alance.io.opening.registry import StoreRegistry
from alance.io.stores.store import MAX_METADATA_BYTES

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"a": range(10)})
TERABYTE = 1 << 40
LIMITED = """
import asyncio, resource, sys
import alance
limit = 3 << 30  # of addresses, most of which threads and libraries reserve
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
async def main():
    {act}
try:
    asyncio.run(main())
except alance.AlanceError as error:
    print(type(error).__name__, str(error))
"""


def run_limited(act: str) -> str:
    """Run a read that has to fail in a process with little memory, and return its output."""
    program = LIMITED.format(act=textwrap.indent(act, "    ").lstrip())
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_at(file: Path, place: int, content: bytes) -> None:
    with open(file, "r+b") as out:
        out.seek(place)
        out.write(content)


async def make(folder: Path) -> alance.Dataset:
    dataset = await alance.write_dataset(ROWS, folder / "t")
    await dataset.tags.create("tag", 1)
    await dataset.create_branch("branch")
    return await dataset.delete("a = 3")


@pytest.mark.parametrize("keep_end", [False, True])
@pytest.mark.parametrize(
    ("names", "act"),
    [
        ("_versions/*", "await alance.dataset({uri!r})"),
        ("_refs/tags/*", "await alance.dataset({uri!r}, version='tag')"),
        ("_refs/branches/*", "await (await alance.dataset({uri!r})).branches.list()"),
        ("_deletions/*", "await (await alance.dataset({uri!r})).to_table()"),
        ("_versions/*", "await alance.dataset({uri!r}, version=2)"),
    ],
)
async def test_a_sparse_file_of_a_terabyte_is_refused_unread(
    tmp_path: Path, names: str, act: str, keep_end: bool
) -> None:
    await make(tmp_path)
    for file in (tmp_path / "t").glob(names):
        content = file.read_bytes()
        os.truncate(file, TERABYTE)
        if keep_end:
            write_at(file, TERABYTE - len(content), content)
    message = run_limited(act.format(uri=str(tmp_path / "t")))
    assert message.startswith("CorruptFileError")
    assert f"{TERABYTE} bytes; no object of metadata has more than {MAX_METADATA_BYTES}" in message


async def test_a_sparse_data_file_that_claims_a_large_buffer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, TERABYTE)
    act = f"""\
from alance.io.opening.registry import StoreRegistry
store, path = StoreRegistry().open({str(path)!r})
await store.get_ranges(path, [(0, {TERABYTE} - 8)])"""
    message = run_limited(act)
    assert message.startswith("StoreError")
    assert f"no memory for {TERABYTE - 8} bytes of {TERABYTE}" in message


async def test_an_object_at_the_limit_is_not_refused_for_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alance.io.stores.store.MAX_METADATA_BYTES", 100)
    for size in (100, 101):
        (tmp_path / "file").write_bytes(bytes(size))
        store, path = StoreRegistry().open(tmp_path / "file")
        if size == 100:
            assert len(await store.get(path)) == size
            continue
        with pytest.raises(CorruptFileError, match="101 bytes"):
            await store.get(path)


@pytest.mark.parametrize(
    "field",
    [
        pa.field("a", pa.int64(), metadata={b"\xff": b"x"}),
        pa.field("a", pa.int64(), metadata={b"x": b"\xff"}),
        pa.field("a", pa.int64(), metadata={b"ARROW:extension:name": b"\xff"}),
    ],
)
async def test_metadata_of_fields_that_is_no_text_is_refused(
    tmp_path: Path, field: pa.Field
) -> None:
    table = pa.table([range(3)], pa.schema([field]))
    with pytest.raises(InvalidInputError, match=r"metadata of field 'a'.*no UTF-8"):
        await alance.write_dataset(table, tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("metadata", [{b"\xff": b"x"}, {b"x": b"\xff"}])
async def test_metadata_of_schemas_that_is_no_text_is_refused(
    tmp_path: Path, metadata: dict[bytes, bytes]
) -> None:
    table = ROWS.replace_schema_metadata(metadata)
    with pytest.raises(InvalidInputError, match=r"metadata of the schema.*no UTF-8"):
        await alance.write_dataset(table, tmp_path / "t")


async def test_refs_that_are_no_text_are_refused(tmp_path: Path) -> None:
    dataset = await make(tmp_path)
    for file in (tmp_path / "t" / "_refs").rglob("*.json"):
        file.write_bytes(file.read_bytes().replace(b"version", b"versi\xffn"))
    with pytest.raises(CorruptFileError):
        await dataset.tags.list()
    with pytest.raises(CorruptFileError):
        await dataset.branches.list()


@pytest.mark.parametrize("text", [b"a", b"int64", b"key", b"value", b".lance", b"0a"])
async def test_manifests_with_texts_that_are_no_utf_8_are_refused_or_read(
    tmp_path: Path, text: bytes
) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    dataset = await dataset.update_config({"key": "value"})
    (name,) = (path for path in (tmp_path / "t" / "_versions").glob("*") if path.stem.endswith("3"))
    content = name.read_bytes()
    name.write_bytes(content.replace(text, b"\xff" * len(text)))
    try:
        reopened = await alance.dataset(tmp_path / "t")
        await reopened.to_table()
    except alance.AlanceError:
        pass


async def test_an_error_names_few_of_many_keys(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "table")
    values = {f"key{number}": "x" for number in range(5000)}
    await dataset.update_config(values)
    with pytest.raises(CommitConflictError, match=r"'key1001'.* and 4,992 more") as caught:
        await dataset.update_config(dict.fromkeys(values, "y"))
    assert len(str(caught.value)) < 400
