"""Tables that pylance writes: every kind of column, of each file version, small and large, with a
history.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSIONS: Final = ("0.1", "2.0", "2.1", "2.2", "2.3")
SIZES: Final = ("small", "large")
# small: files of a few kilobytes; large: pages of some thousand rows, several a column
ROWS: Final = {"small": 240, "large": 7700}
FILE_ROWS: Final = {"small": 30, "large": 6600}
PAGE_ROWS: Final = {"small": 30, "large": 1100}


@lru_cache(maxsize=4)
def rows(version: str, size: str) -> pa.Table:
    """The rows of a table: `key` is unique and in no order, `group` has nine values."""
    count = ROWS[size]
    rng = np.random.default_rng(count)
    choice = random.Random(count)
    holes = rng.random((20, count)) < 0.12
    words = [f"{'ab' * choice.randrange(1, 9)} {n}" for n in range(count)]
    nested = [[n % 7, None, n][: n % 4] for n in range(count)]
    columns: dict[str, Any] = {
        "key": pa.array(rng.permutation(count), pa.int64()),
        "group": pa.array(rng.integers(0, 9, count), pa.int32()),
        "runs": pa.array(np.arange(count) // 50, pa.int16()),
        "price": pa.array(rng.integers(0, 1 << 40, count) / 100, mask=holes[0]),
        "flag": pa.array(rng.random(count) < 0.5, mask=holes[1]),
        "day": pa.array(rng.integers(0, 20_000, count).astype("int32"), pa.date32()),
        "constant": pa.array([7] * count, pa.int32()),
        "text": pa.array(words, mask=holes[2]),
        "few": pa.array(["red", "green", "a rather long colour name"] * count)[:count],
        "wide": pa.array([word * (8 + n % 20) for n, word in enumerate(words)], mask=holes[3]),
        "vector": _vectors(rng, count, 4),
        "wide_vector": _vectors(rng, count, 64),
        "list": pa.array(nested, pa.list_(pa.int32()), mask=_unless_old(version, holes[4])),
        "texts": pa.array([[words[n]] * (n % 3) for n in range(count)]),
        "lists": pa.array(
            [[part, [], part][: n % 4] for n, part in enumerate(nested)],
            pa.large_list(pa.list_(pa.int32())),
        ),
        "struct": pa.array(
            [{"a": n, "b": word, "in": {"l": [n] * (n % 3)}} for n, word in enumerate(words)],
            pa.struct(
                [
                    ("a", pa.int64()),
                    ("b", pa.string()),
                    ("in", pa.struct([("l", pa.list_(pa.int64()))])),
                ]
            ),
            mask=_unless_old(version, holes[5]),
        ),
        "structs": pa.array([[{"x": n, "y": str(n)}] * (n % 3) for n in range(count)]),
        "packed": pa.StructArray.from_arrays(
            [pa.array(range(count), pa.int32()), pa.array(range(count), pa.int64())], ["x", "y"]
        ),
        "dictionary": pa.array(
            [f"item {n % 5}" for n in range(count)], mask=_unless_old(version, holes[6])
        ).dictionary_encode(),
    }
    fields = [pa.field(name, array.type) for name, array in columns.items()]
    names = list(columns)
    fields[names.index("packed")] = pa.field(
        "packed", columns["packed"].type, metadata={"lance-encoding:packed": "true"}
    )
    table = pa.table(list(columns.values()), pa.schema(fields))
    return _with_blobs(table, version)


def _vectors(rng: np.random.Generator, count: int, dimension: int) -> pa.Array:
    values = rng.random(count * dimension, np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(values), dimension)


def _unless_old(version: str, holes: Any) -> Any:
    """Return `holes`; None for 0.1 and 2.0, which have no nulls of structs (0.1: nor of lists)."""
    return None if version in ("0.1", "2.0") else holes


def _with_blobs(table: pa.Table, version: str) -> pa.Table:
    """The table with a column of blobs, as the file version has them; 0.1 has none."""
    repeats = [90 if n % 100 == 20 else n % 9 for n in range(len(table))]
    values = [None if n % 11 == 3 else b"%d " % n * repeats[n] for n in range(len(table))]
    if version in ("2.0", "2.1"):
        field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        return table.append_column(field, pa.array(values, pa.large_binary()))
    if version in ("2.2", "2.3"):
        field = lance.blob_field("blob", inline_size_threshold=20, dedicated_size_threshold=150)
        return table.append_column(field, lance.blob_array(values))
    return table


def _write(path: Path, version: str, size: str, **options: Any) -> lance.LanceDataset:
    table, step = rows(version, size), PAGE_ROWS[size]
    # In arrays of their own: pylance fails on slices of some nested ones.
    parts = [
        table.take(pa.array(range(start, start + step))) for start in range(0, len(table), step)
    ]
    return lance.write_dataset(
        pa.concat_tables(parts),
        path,
        data_storage_version=version,
        max_rows_per_file=FILE_ROWS[size],
        max_rows_per_group=PAGE_ROWS[size],
        data_cache_bytes=4096 if size == "large" else None,
        **options,
    )


def _plain(path: Path, version: str, size: str) -> None:
    _write(path, version, size)


def _deleted(path: Path, version: str, size: str) -> None:
    """Deletions here and there, of ranges and of a whole fragment; vectors of both kinds."""
    dataset = _write(path, version, size)
    dataset.delete("key % 7 = 3")
    dataset.delete("group = 4 and runs < 140")
    if size == "large":
        dataset.delete("_rowaddr < 6600 and key % 6 != 0")
        suffixes = {file.suffix for file in (path / "_deletions").iterdir()}
        assert suffixes == {".arrow", ".bin"}, "vectors of both kinds"
    else:
        dataset.delete("runs = 1")
        dataset.delete(f"_rowaddr >= {2 << 32} and _rowaddr < {3 << 32}")


def _widened(path: Path, version: str, size: str) -> None:
    """Columns in files of their own, one that is dropped, and rows without some of the columns."""
    dataset = _write(path, version, size)
    dataset.add_columns({"double": "key * 2", "shout": "upper(text)"})
    dataset.delete("key % 10 = 1")
    dataset.add_columns({"again": "key + 1"})
    dataset.drop_columns(["few"])
    if version != "0.1":  # its files have all columns
        more = rows(version, size).drop_columns(["few", "price", "wide", "list", "texts"])
        more = more.take(pa.array(range(40)))
        more = more.set_column(0, "key", pa.array(range(10**6, 10**6 + 40), pa.int64()))
        lance.write_dataset(more, path, mode="append")


def _stable(path: Path, version: str, size: str) -> None:
    """Row ids that updates, deletions and compaction keep."""
    dataset = _write(path, version, size, enable_stable_row_ids=True)
    dataset.update({"price": "price + 1"}, where="key % 9 = 0")
    dataset.delete("key % 5 = 2")
    if size == "small":
        dataset.optimize.compact_files(target_rows_per_fragment=50)
    dataset.update({"text": "'changed'"}, where="key % 13 = 0")


def _indexed(path: Path, version: str, size: str) -> None:
    """A B-tree and a bitmap index of most rows, some of which are gone."""
    dataset = _write(path, version, size)
    dataset.create_scalar_index("key", "BTREE")
    dataset.create_scalar_index("group", "BITMAP")
    dataset.delete("key % 10 = 7")
    more = rows(version, size).slice(0, 40)
    more = more.set_column(0, "key", pa.array(range(10**6, 10**6 + 40), pa.int64()))
    lance.write_dataset(more, path, mode="append")


HISTORIES: Final[dict[str, Callable[[Path, str, str], None]]] = {
    "plain": _plain,
    "deleted": _deleted,
    "widened": _widened,
    "stable row ids": _stable,
    "indexed": _indexed,
}


def write_table(path: Path, version: str, size: str, history: str) -> None:
    """Write a table by pylance."""
    HISTORIES[history](path, version, size)
