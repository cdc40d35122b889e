"""Random deletes and updates, by alance and pylance in turn, against a plain model of rows."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from tests.changing.both_ways import latest, read

FIRST = 12  # rows of the first version
PREDICATES = {
    "id < {n}": lambda row, n: row["id"] < n,
    "id % 3 = {n} % 3": lambda row, n: row["id"] % 3 == n % 3,
    "id in ({n}, {n} + 4)": lambda row, n: row["id"] in (n, n + 4),
    "v > {n}": lambda row, n: row["v"] is not None and row["v"] > n,
    "v is null": lambda row, _: row["v"] is None,
    "s.a >= {n} or id = 2": lambda row, n: row["s"]["a"] >= n or row["id"] == 2,
    "v = {n} and true": lambda row, n: row["v"] == n,
    "false": lambda *_: False,
    "true": lambda *_: True,
}
UPDATES: dict[str, Any] = {
    "v + 1": lambda row: None if row["v"] is None else row["v"] + 1,
    "id": lambda row: row["id"],
    "null": lambda _: None,
    "s.a * 2": lambda row: row["s"]["a"] * 2,
}
STEP = st.tuples(
    st.sampled_from(["delete", "update", "update", "insert", "compact"]),
    st.booleans(),  # by alance
    st.sampled_from(list(PREDICATES)),
    st.integers(0, FIRST + 4),
    st.sampled_from(list(UPDATES)),
)


@dataclass
class Model:
    """Expected content of the table: rows in order, with their origin."""

    stable: bool
    rows: list[dict[str, Any]] = field(default_factory=list)
    version: int = 0
    next_id: int = 0

    def insert(self, count: int) -> pa.Table:
        self.version += 1
        values = [
            {"id": n, "v": None if n % 5 == 4 else n, "s": {"a": n % 7}}
            for n in range(self.next_id, self.next_id + count)
        ]
        self.rows += [{**row, "created": self.version, "updated": self.version} for row in values]
        self.next_id += count
        schema = pa.schema(
            [("id", pa.int64()), ("v", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]
        )
        return pa.Table.from_pylist(values, schema)

    def split(self, predicate: str, n: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        match = PREDICATES[predicate]
        hit = [row for row in self.rows if match(row, n)]
        return hit, [row for row in self.rows if not match(row, n)]

    def delete(self, predicate: str, n: int) -> int:
        self.version += 1
        hit, self.rows = self.split(predicate, n)
        return len(hit)

    def update(self, predicate: str, n: int, value: str) -> int:
        self.version += 1
        hit, retained = self.split(predicate, n)
        moved = [{**row, "v": UPDATES[value](row), "updated": self.version} for row in hit]
        self.rows = retained + moved
        return len(hit)

    def check(self, path: Path) -> None:
        rows = read(path).to_pylist()
        assert [(r["id"], r["v"], r["s"]) for r in rows] == [
            (r["id"], r["v"], r["s"]) for r in self.rows
        ]
        assert latest(path).version == self.version
        if self.stable:
            assert [r["_rowid"] for r in rows] == [r["id"] for r in self.rows]
            origins = [
                (r["_row_created_at_version"], r["_row_last_updated_at_version"]) for r in rows
            ]
            assert origins == [(r["created"], r["updated"]) for r in self.rows]


async def run(path: Path, model: Model, steps: list[Any], v2_names: bool) -> None:
    lance.write_dataset(
        model.insert(FIRST),
        str(path),
        max_rows_per_file=4,
        enable_stable_row_ids=model.stable,
        enable_v2_manifest_paths=v2_names,
        data_storage_version="2.1",
    )
    for name, by_us, predicate, n, value in steps:
        where = predicate.format(n=n)
        ours = await alance.dataset(str(path))
        theirs = lance.dataset(str(path))
        if name == "insert":
            rows = model.insert(3)
            await ours.insert(rows) if by_us else theirs.insert(rows)
        elif name == "compact":
            if theirs.optimize.compact_files().fragments_removed:
                model.version = theirs.version
        elif name == "delete":
            count = model.delete(predicate, n)
            message = (await ours.delete(where)).summary if by_us else theirs.delete(where)
            assert message == {"num_deleted_rows": count}
        else:
            count = model.update(predicate, n, value)
            if by_us:
                num_updated = (await ours.update({"v": value}, where)).summary.num_updated_rows
            else:
                num_updated = theirs.update({"v": value}, where)["num_rows_updated"]
            assert num_updated == count
        if name != "compact":
            model.check(path)
    model.check(path)
    ours = await alance.dataset(str(path))
    table = await ours.to_table(with_row_id=True)
    assert table.to_pylist() == read(path).select(table.column_names).to_pylist()


@settings(max_examples=25)
@given(st.booleans(), st.booleans(), st.lists(STEP, min_size=1, max_size=8))
def test_steps_against_a_model(stable: bool, v2_names: bool, steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "t.lance", Model(stable), steps, v2_names))
