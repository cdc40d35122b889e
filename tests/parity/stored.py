"""Tables that either writer stores, each beside a plain model of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa

import alance
from alance import operations
from tests.parity.columns import columns
from tests.reference.compare import assert_equal_rows
from tests.reference.shapes import table_of_all_shapes

if TYPE_CHECKING:
    from pathlib import Path


# Rows of each file: small ones are read whole, large ones have several pages a column; a page of
# long ones is read in parts.
FILES: Final = {
    "small": (120, 100, 80),
    "large": (1500, 300),
    "many": (7,) * 24,
    "long": (36_000, 4000),
}
HISTORIES: Final = ("plain", "deleted", "widened", "indexed")
NUM_ADDED: Final = 40
UNREADABLE: Final = {("no members", history) for history in HISTORIES} | {("deep", "widened")}
LETTERS: Final = np.array(list("abcdefghij"))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a fragment as it was written, and which of them are not deleted."""

    table: pa.Table
    alive: np.ndarray


@dataclass(frozen=True, slots=True)
class Stored:
    """A table on disk, and what it has to give.

    Attributes:
        rows: in the order of the table.
        addresses: of the rows.
        files: each data file by its path in the table, with the rows that it has.
        number: the name of the column that is renamed in some tables.
        blobs: the bytes of the rows' blobs, whose descriptions `rows` has.
    """

    path: Path
    rows: pa.Table
    addresses: np.ndarray
    files: dict[str, pa.Table]
    number: str
    blobs: list[bytes | None] | None

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The columns that filters ask for."""
        return {name: self.rows[name].to_numpy() for name in ("key", "team", self.number)}


def first_rows(kind: str, version: str, shape: str) -> pa.Table:
    """Return the first rows of a table: keys in no order, and the columns of a kind."""
    count = sum(FILES[shape])
    rng = np.random.default_rng(count)
    several = {
        "key": pa.array(rng.permutation(count), pa.int64()),
        "team": pa.array(rng.integers(0, 9, count), pa.int32()),
        "number": pa.array(np.arange(count), pa.int64()),
        "label": pa.array(LETTERS[rng.integers(0, 10, count)].tolist()),
        "dropped": pa.array(np.arange(count) % 100, pa.int8()),
    }
    table = pa.table(several)
    for field, column in zip(*_columns_of(kind, version, count), strict=True):
        table = table.append_column(field, column)
    return table


def _columns_of(kind: str, version: str, count: int) -> tuple[list[pa.Field], list[Any]]:
    if kind == "long":
        shapes = _long_columns(count)
        shapes = shapes.drop_columns(["gaps"]) if version == "0.1" else shapes
        return list(shapes.schema), shapes.columns
    table = columns(kind, version, count)
    return list(table.schema), table.columns


@lru_cache(maxsize=1)
def _long_columns(count: int) -> pa.Table:
    return table_of_all_shapes(count).drop_columns(["number"])


def own(table: pa.Table, start: int, count: int) -> pa.Table:
    """Some rows in arrays of their own: pylance fails on slices of some nested ones."""
    return table.slice(start, count).take(pa.array(range(count)))


class Writer:
    """Writes a table in steps, each with the model beside it."""

    def __init__(self, path: Path, case: dict[str, str]) -> None:
        self.path, self.case = path, case
        self.version, self.by_us = case["version"], case["writer"] == "alance"
        self.fragments: list[Rows] = []
        self.number = "number"

    async def write(self) -> Stored:
        """All steps."""
        table = first_rows(self.case["kind"], self.version, self.case["shape"])
        sizes = FILES[self.case["shape"]]
        await (self._ours if self.by_us else self._theirs)(table, sizes)
        originals = [rows.table for rows in self.fragments]
        await getattr(self, "_" + self.case["history"])()
        return await self._stored(originals)

    async def _stored(self, originals: list[pa.Table]) -> Stored:
        parts = [rows.table.filter(pa.array(rows.alive)) for rows in self.fragments]
        addresses = [
            (number << 32) + np.flatnonzero(rows.alive)
            for number, rows in enumerate(self.fragments)
        ]
        dataset = await alance.dataset(self.path)
        files = {
            f"data/{fragment.metadata.files[0].path}": originals[fragment.fragment_id]
            for fragment in dataset.fragments
            if fragment.fragment_id < len(originals)
        }
        table, blobs = pa.concat_tables(parts), None
        theirs = lance.dataset(self.path)
        if "blob" in table.column_names:
            blobs = _bytes_of(table["blob"])
            shown = theirs.to_table(["blob"])
            place = table.column_names.index("blob")
            table = table.set_column(place, shown.schema.field(0), shown["blob"])
        # pylance panics at the one, and counts nulls of structs wrongly at the other
        if (self.case["kind"], self.case["history"]) not in UNREADABLE:
            assert_equal_rows(theirs.to_table(), table)
        number, all_addresses = self.number, np.concatenate(addresses).astype(np.uint64)
        return Stored(self.path, table, all_addresses, files, number, blobs)

    async def _ours(self, table: pa.Table, sizes: tuple[int, ...]) -> None:
        options: dict[str, Any] = {"data_storage_version": self.version}
        is_paged = self.case["shape"] == "large" and self.version > "0.1"
        if not is_paged or self.case["kind"] == "special":
            await self._in_files(table, sizes, options)
            return
        empty = await alance.write_dataset(table.slice(0, 0), self.path, **options)
        async with empty.new_file_session().open_writer(
            "data/first.lance", table.schema, version=self.version, page_bytes=8192
        ) as writer:
            for start in range(0, sizes[0], 500):  # columns have pages of their own each
                await writer.write(table.slice(start, min(500, sizes[0] - start)))
        fragment = await alance.DatasetFragment.create_from_file("first.lance", empty)
        dataset = await alance.commit(empty, operations.Append((fragment,)))
        await dataset.insert(table.slice(sizes[0]))
        self._note(table, sizes)

    async def _in_files(
        self, table: pa.Table, sizes: tuple[int, ...], options: dict[str, Any]
    ) -> None:
        start, mode = 0, "create"
        if len(set(sizes)) == 1:  # at once
            options["max_rows_per_file"] = sizes[0]
            sizes_at_once = (len(table),)
        else:
            sizes_at_once = sizes
        for count in sizes_at_once:
            part = table.slice(start, count)
            await alance.write_dataset(part, self.path, mode=mode, **options)
            start, mode = start + count, "append"
        self._note(table, sizes)

    async def _theirs(self, table: pa.Table, sizes: tuple[int, ...]) -> None:
        options: dict[str, Any] = {
            "data_storage_version": self.version,
            "max_rows_per_file": max(sizes),
            "max_rows_per_group": 400,
            "data_cache_bytes": 4096 if self.case["shape"] == "large" else None,
        }
        parts = [table] if len(set(sizes)) == 1 else []
        start = 0
        for count in sizes if not parts else ():
            parts.append(own(table, start, count))
            start += count
        for place, part in enumerate(parts):
            step = 400 if len(sizes) < 4 else max(sizes)
            pieces = [own(part, at, min(step, len(part) - at)) for at in range(0, len(part), step)]
            mode = "append" if place else "create"
            lance.write_dataset(pa.concat_tables(pieces), self.path, mode=mode, **options)
        self._note(table, sizes)

    def _note(self, table: pa.Table, sizes: tuple[int, ...]) -> None:
        start = 0
        for count in sizes:
            self.fragments.append(Rows(table.slice(start, count), np.ones(count, bool)))
            start += count

    async def _plain(self) -> None:
        """Nothing more."""

    async def _deleted(self) -> None:
        """Rows here and there, neighbours, and all of a fragment."""
        await self._delete("key % 7 = 3", lambda rows: rows["key"] % 7 == 3)
        last = sum(len(rows.alive) for rows in self.fragments)
        low, high = last // 3, last // 3 + 30
        await self._delete(
            f"number >= {low} and number < {high}",
            lambda rows: (rows["number"] >= low) & (rows["number"] < high),
        )
        size = len(self.fragments[0].alive) if len(self.fragments) > 2 else 0
        await self._delete(f"number < {size}", lambda rows: rows["number"] < size)

    async def _delete(self, condition: str, is_deleted: Any) -> None:
        if self.by_us:
            await (await alance.dataset(self.path)).delete(condition)
        else:
            lance.dataset(self.path).delete(condition)
        for rows in self.fragments:
            numbers = {name: rows.table[name].to_numpy() for name in ("key", "number")}
            rows.alive[is_deleted(numbers)] = False

    async def _widened(self) -> None:
        """Columns in files of their own, a dropped one, a renamed one, and rows without some."""
        added = {"twice": "key * 2", "shout": "upper(label)"}
        renamed = {"path": "number", "name": "renamed"}
        if self.by_us:
            dataset = await alance.dataset(self.path)
            dataset = await dataset.add_columns(added)
            dataset = await dataset.drop_columns(["dropped"])
            dataset = await dataset.alter_columns(renamed)
            await dataset.add_columns(_lists_of, read_columns=["key"])
        else:
            theirs = lance.dataset(self.path)
            theirs.add_columns(added)
            theirs.drop_columns(["dropped"])
            theirs.alter_columns(renamed)
            theirs.add_columns(_lists_of, read_columns=["key"])
        self.number = "renamed"
        self.fragments = [Rows(_widen(rows.table), rows.alive) for rows in self.fragments]
        table = self.fragments[0].table
        more = _renumbered(own(table, 0, min(NUM_ADDED, len(table))), "renamed")
        if self.version > "0.1":  # whose files have all columns
            names = more.column_names
            rest = ["key", "team", "renamed", *names[6::2]]
            if self.version == "2.0":  # which has no null structs
                structs = {name for name in names if "struct" in str(more.schema.field(name).type)}
                rest += sorted(structs.difference(rest))
            await self._append(more.select(rest[::-1]))
            nulls = [pa.nulls(len(more), field.type) for field in more.schema]
            full = [
                more[name] if name in rest else pa.chunked_array([column])
                for name, column in zip(names, nulls, strict=True)
            ]
            self.fragments[-1] = Rows(pa.table(full, more.schema), np.ones(len(more), bool))
        await self._delete_renamed()

    async def _delete_renamed(self) -> None:
        if self.by_us:
            await (await alance.dataset(self.path)).delete("key % 10 = 1")
        else:
            lance.dataset(self.path).delete("key % 10 = 1")
        for rows in self.fragments:
            rows.alive[rows.table["key"].to_numpy() % 10 == 1] = False

    async def _append(self, rows: pa.Table) -> None:
        if self.by_us:
            await (await alance.dataset(self.path)).insert(rows)
        else:
            lance.write_dataset(rows, self.path, mode="append")
        self.fragments.append(Rows(rows, np.ones(len(rows), bool)))

    async def _indexed(self) -> None:
        """An index of the keys of most rows, some of which are gone."""
        if self.by_us:
            await (await alance.dataset(self.path)).create_scalar_index("key", "BTREE")
        else:
            lance.dataset(self.path).create_scalar_index("key", "BTREE")
        await self._delete("key % 10 = 7", lambda rows: rows["key"] % 10 == 7)
        table = self.fragments[0].table
        await self._append(_renumbered(own(table, 0, min(NUM_ADDED, len(table))), "number"))


def _bytes_of(column: pa.ChunkedArray) -> list[bytes | None]:
    """The values of a column of blobs that is to be written."""
    values = column.to_pylist()
    return [value["data"] if isinstance(value, dict) else value for value in values]


def _lists_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A column of lists, some of them empty, made of the keys."""
    lists = [[key, key + 1][: key % 3] for key in batch["key"].to_pylist()]
    return pa.record_batch({"parts": pa.array(lists, pa.list_(pa.int64()))})


def _widen(table: pa.Table) -> pa.Table:
    """Apply the steps of `_widened` to rows."""
    names = ["renamed" if name == "number" else name for name in table.column_names]
    table = table.rename_columns(names).drop_columns(["dropped"])
    keys = table["key"].to_numpy()
    table = table.append_column("twice", pa.array(keys * 2))
    table = table.append_column("shout", pa.array([t.upper() for t in table["label"].to_pylist()]))
    lists = [_lists_of(batch)["parts"] for batch in table.select(["key"]).to_batches()]
    return table.append_column("parts", pa.chunked_array(lists, pa.list_(pa.int64())))


def _renumbered(table: pa.Table, number: str) -> pa.Table:
    """Rows with keys and numbers that no other row has."""
    for name in ("key", number):
        place = table.column_names.index(name)
        numbers = pa.array(range(10**6, 10**6 + len(table)), pa.int64())
        table = table.set_column(place, table.schema.field(place), numbers)
    return table
