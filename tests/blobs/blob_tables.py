"""Tables with blobs that both writers make, and what is compared of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from lance import Blob, DatasetBasePath, blob_array, blob_field

import alance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SMALL = blob_field("b", inline_size_threshold=10, dedicated_size_threshold=100)
OBJECT = b"0123456789" * 100


def table_of(values: Sequence[Any], field: pa.Field = SMALL) -> pa.Table:
    """Rows with an id and a blob."""
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table([pa.array(range(len(values)), pa.int64()), blob_array(list(values))], schema)


def elsewhere(folder: Path) -> tuple[str, DatasetBasePath]:
    """The URI of an object outside of all tables, and its base path."""
    place = folder / "elsewhere"
    place.mkdir(exist_ok=True)
    (place / "e.bin").write_bytes(OBJECT)
    return f"file://{place}/e.bin", DatasetBasePath(f"file://{place}", name="elsewhere")


def all_kinds(folder: Path, uri: str, *, lists: bool = False) -> Any:
    """A table of pylance with blobs of every kind, in structs (and lists), in three fragments."""
    where, base = elsewhere(folder)
    plain = blob_array([b"a" * 5, b"b" * 50, b"c" * 200, None, where, Blob.from_uri(where, 10, 20)])
    inside = blob_array([b"n1", b"N" * 50, None, b"M" * 300, b"", b"k" * 77])
    struct = pa.StructArray.from_arrays(
        [inside, pa.array(range(6))],
        fields=[SMALL, pa.field("n", pa.int64())],
        mask=pa.array([False] * 5 + [True]),
    )
    arrays, fields = [plain, struct], [SMALL, pa.field("x", struct.type)]
    if lists:
        listed = blob_array([b"l1", b"L" * 50, None, b"Q" * 300, b"", b"k" * 77])
        arrays.append(pa.ListArray.from_arrays(pa.array([0, 1, 3, 3, 4, 6, 6], pa.int32()), listed))
        fields.append(pa.field("l", arrays[-1].type))
    schema = pa.schema([pa.field("id", pa.int64()), *fields])
    data = pa.table([pa.array(range(6), pa.int64()), *arrays], schema)
    return lance.write_dataset(
        data, folder / uri, data_storage_version="2.2", initial_bases=[base], max_rows_per_file=2
    )


def files_of(folder: Path) -> list[Path]:
    """All files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def plain(value: Any) -> Any:
    """Rows as lists, without the places of empty blobs: they have none."""
    if isinstance(value, dict):
        by_name = {name: plain(item) for name, item in value.items()}
        if by_name.get("kind") == 0 and by_name["size"] == 0:
            by_name["position"] = 0
        return by_name
    return [plain(item) for item in value] if isinstance(value, list) else value


def contents(path: Path, column: str = "b") -> list[bytes | None]:
    """All blobs of a column, read by pylance."""
    table = lance.dataset(path)
    table.validate()
    rows = range(table.count_rows())
    return [item for _, item in table.read_blobs(column, indices=rows)]


async def check_equal(ours: Path, theirs: Path, *columns: str) -> None:
    """Check that both tables have the same rows, descriptions, blobs, fields and files."""
    rows = [plain(lance.dataset(path).to_table().to_pylist()) for path in (ours, theirs)]
    assert rows[0] == rows[1]
    for column in columns:
        assert contents(ours, column) == contents(theirs, column)
    messages = [(await alance.dataset(path))._snapshot.manifest.message for path in (ours, theirs)]
    assert list(messages[0].fields) == list(messages[1].fields)
    assert list(messages[0].base_paths) == list(messages[1].base_paths)
    shapes = [
        [
            (
                fragment.physical_rows,
                [(list(f.fields), list(f.column_indices)) for f in fragment.files],
            )
            for fragment in manifest.fragments
        ]
        for manifest in messages
    ]
    assert shapes[0] == shapes[1]
    sizes = [
        sorted(file.stat().st_size for file in files_of(path) if file.suffix == ".blob")
        for path in (ours, theirs)
    ]
    assert sizes[0] == sizes[1]
