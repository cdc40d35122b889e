"""Changes of columns one after the other, by alance and pylance in turn, against a plain model."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from tests.changing.both_ways import latest

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTHS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 62}


@dataclass
class Model:
    """The live rows of a table: a list of dictionaries, and the types of its columns."""

    types: dict[str, pa.DataType]
    rows: list[dict[str, Any]]
    names: int = 0
    log: list[str] = field(default_factory=list)

    def new_name(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def whole(self) -> list[str]:
        """Columns of whole numbers but the key."""
        return [n for n, t in self.types.items() if pa.types.is_integer(t) and n != "k"]

    def structs(self) -> list[str]:
        return [n for n, t in self.types.items() if pa.types.is_struct(t)]

    def table(self) -> pa.Table:
        schema = pa.schema(list(self.types.items()))
        return pa.Table.from_pylist(self.rows, schema)


class Pair:
    """The table, and which of the two writers is at work."""

    def __init__(self, path: Path, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.path = str(path)
        self.draw = draw
        self.model = Model({}, [])

    async def change(self, name: str, *args: Any, theirs: Any = None) -> None:
        """By either of the two."""
        if self.draw(st.booleans()):
            self.model.log.append(f"alance {name} {args}")
            await getattr(await alance.dataset(self.path), name)(*args)
        else:
            self.model.log.append(f"pylance {name} {args}")
            getattr(lance.dataset(self.path), name)(*(theirs or args))

    def new_rows(self, count: int) -> list[dict[str, Any]]:
        model = self.model
        first = max((row["k"] for row in model.rows), default=-1) + 1 + model.names
        model.names += count
        return [
            {name: self.value(first + n, arrow) for name, arrow in model.types.items()}
            | {"k": first + n}
            for n in range(count)
        ]

    def value(self, seed: int, arrow: pa.DataType) -> Any:
        if seed % 4 == 3:
            return None
        if pa.types.is_integer(arrow):
            return seed % 100
        if pa.types.is_struct(arrow):
            return {item.name: self.value(seed + 1, item.type) for item in arrow}
        if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
            return [self.value(seed + n, arrow.value_type) for n in range(seed % 3)]
        return f"t{seed}"

    # What can be done.

    async def append(self) -> None:
        new = self.new_rows(self.draw(st.integers(1, 5)))
        data = pa.Table.from_pylist(new, pa.schema(list(self.model.types.items())))
        await self.change("insert", data)
        self.model.rows += new

    async def delete(self) -> None:
        keys = [row["k"] for row in self.model.rows]
        gone = self.draw(st.lists(st.sampled_from(keys), max_size=4, unique=True)) if keys else []
        if gone and len(gone) < len(keys):
            await self.change("delete", f"k in ({', '.join(map(str, gone))})")
            self.model.rows = [row for row in self.model.rows if row["k"] not in gone]

    async def add_sql(self) -> None:
        name = self.model.new_name()
        await self.change("add_columns", {name: "k + 1"})
        self.model.types[name] = pa.int64()
        for row in self.model.rows:
            row[name] = row["k"] + 1

    async def add_function(self) -> None:
        name = self.model.new_name()
        inner = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])

        def compute(keys: list[int]) -> list[Any]:
            return [None if k % 3 == 0 else {"a": k, "b": [str(k)] * (k % 3)} for k in keys]

        def function(batch: pa.RecordBatch) -> pa.RecordBatch:
            values = compute(batch["k"].to_pylist())
            return pa.record_batch({name: pa.array(values, inner)})

        output = pa.schema([(name, inner)])
        await self.change(
            "add_columns",
            alance.batch_udf(output)(function),
            theirs=[lance.batch_udf(output)(function)],
        )
        self.model.types[name] = inner
        values = compute([row["k"] for row in self.model.rows])
        for item, value in zip(self.model.rows, values, strict=True):
            item[name] = value

    async def add_rows(self) -> None:
        name = self.model.new_name()
        values = [self.value(n, pa.large_list(pa.int32())) for n in range(len(self.model.rows))]
        await self.change(
            "add_columns", pa.table({name: pa.array(values, pa.large_list(pa.int32()))})
        )
        self.model.types[name] = pa.large_list(pa.int32())
        for item, value in zip(self.model.rows, values, strict=True):
            item[name] = value

    async def add_nulls(self) -> None:
        name = self.model.new_name()
        arrow = self.draw(st.sampled_from([pa.string(), pa.int16(), pa.struct([("x", pa.int8())])]))
        await self.change("add_columns", pa.field(name, arrow))
        self.model.types[name] = arrow
        for row in self.model.rows:
            row[name] = None

    async def merge(self) -> None:
        name = self.model.new_name()
        keys = [row["k"] for row in self.model.rows][::2]
        data = pa.table(
            {"j": pa.array(keys, pa.int64()), name: pa.array([f"m{k}" for k in keys], pa.string())}
        )
        await self.change("merge", data, "k", "j")
        self.model.types[name] = pa.string()
        for item in self.model.rows:
            item[name] = f"m{item['k']}" if item["k"] in keys else None

    async def rename(self) -> None:
        names = [name for name in self.model.types if name != "k"]
        if names:
            old, new = self.draw(st.sampled_from(names)), self.model.new_name()
            await self.change("alter_columns", {"path": old, "name": new})
            self.model.types = {(new if n == old else n): t for n, t in self.model.types.items()}
            self.model.rows = [
                {(new if n == old else n): v for n, v in row.items()} for row in self.model.rows
            ]

    async def cast(self) -> None:
        if names := self.model.whole():
            name = self.draw(st.sampled_from(names))
            arrow = self.draw(st.sampled_from(list(WIDTHS)))
            values = [row[name] for row in self.model.rows if row[name] is not None]
            if arrow != self.model.types[name] and all(v >> WIDTHS[arrow] == 0 for v in values):
                await self.change("alter_columns", {"path": name, "data_type": arrow})
                self.model.types[name] = arrow

    async def cast_below(self) -> None:
        for name in self.model.structs():
            arrow = self.model.types[name]
            index = arrow.get_field_index("a")
            if index >= 0:
                values = [row[name]["a"] for row in self.model.rows if row[name] is not None]
                if all(v is None or v < 128 for v in values):
                    new = pa.int32() if arrow.field(index).type == pa.int64() else pa.int64()
                    await self.change("alter_columns", {"path": f"{name}.a", "data_type": new})
                    fields = [arrow.field(n) for n in range(arrow.num_fields)]
                    fields[index] = fields[index].with_type(new)
                    self.model.types[name] = pa.struct(fields)
                return

    async def drop(self) -> None:
        names = [name for name in self.model.types if name != "k"]
        if names:
            gone = self.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
            await self.change("drop_columns", gone)
            for name in gone:
                del self.model.types[name]
            for row in self.model.rows:
                for name in gone:
                    del row[name]

    async def drop_below(self) -> None:
        for name in self.model.structs():
            arrow = self.model.types[name]
            if arrow.num_fields > 1:
                gone = arrow.field(0).name
                await self.change("drop_columns", [f"{name}.{gone}"])
                self.model.types[name] = pa.struct(
                    [arrow.field(n) for n in range(1, arrow.num_fields)]
                )
                for row in self.model.rows:
                    if row[name] is not None:
                        row[name] = {n: v for n, v in row[name].items() if n != gone}
                return

    async def replace(self) -> None:
        if (names := self.model.whole()) and self.model.rows:
            name = self.draw(st.sampled_from(names))
            dataset = await alance.dataset(self.path)
            self.model.log.append(f"alance replace {name}")
            await dataset.replace_columns({name: "k % 50"})
            for row in self.model.rows:
                row[name] = row["k"] % 50

    async def compact(self) -> None:
        self.model.log.append("pylance compact")
        lance.dataset(self.path).optimize.compact_files(target_rows_per_fragment=12)

    async def check(self) -> None:
        expected = self.model.table()
        ours = await (await alance.dataset(self.path)).to_table()
        theirs = lance.dataset(self.path)
        theirs.validate()
        assert [item.name for item in ours.schema] == expected.schema.names, self.model.log
        assert ours.schema.types == expected.schema.types, self.model.log
        assert ours.to_pylist() == expected.to_pylist(), self.model.log
        assert theirs.to_table().to_pylist() == expected.to_pylist(), self.model.log
        manifest = latest(Path(self.path))
        ids = [item.id for item in manifest.message.fields]
        assert len(set(ids)) == len(ids)
        for fragment in manifest.fragments:
            held = [item for file in fragment.message.files for item in file.fields if item >= 0]
            assert len(set(held)) == len(held)


STEPS = [
    *("append", "delete", "add_sql", "add_function", "add_rows", "add_nulls", "merge"),
    *("rename", "cast", "cast_below", "drop", "drop_below", "replace", "compact"),
]


async def run(
    path: Path,
    draw: Callable[[st.SearchStrategy[Any]], Any],
    steps: list[str],
    options: dict[str, Any],
) -> None:
    pair = Pair(path, draw)
    pair.model.types = {"k": pa.int64(), "v": pa.int32(), "t": pa.string()}
    pair.model.rows = pair.new_rows(9)
    lance.write_dataset(pair.model.table(), str(path), max_rows_per_file=4, **options)
    for step in steps:
        await getattr(pair, step)()
        await pair.check()


@settings(max_examples=12)
@given(
    st.data(),
    st.lists(st.sampled_from(STEPS), min_size=4, max_size=12),
    st.sampled_from(["2.1", "2.2"]),
    st.booleans(),
)
def test_any_sequence_of_changes_follows_the_model(
    data: st.DataObject, steps: list[str], version: str, stable: bool
) -> None:
    options = {"data_storage_version": version, "enable_stable_row_ids": stable}
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "t", data.draw, steps, options))
