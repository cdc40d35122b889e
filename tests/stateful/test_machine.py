"""Random changes by alance and pylance in turn, against a plain model of rows.

Each step changes the table by one of the two, and the model; then both read it. A second machine
does so on a server that fails while alance works. `make soak` takes many more steps.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, ClassVar

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import alance
from alance.errors import AlanceError
from tests.stateful.writers import Ours, Theirs, Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.testing.lab import Lab

    Drawn = dict[int, tuple[int | None, str | None]]

KEYS = st.integers(0, 60)
VALUES = st.none() | st.integers(-5, 5)
TEXTS = st.none() | st.sampled_from(["", "a", "bee", "it's"])
ROWS = st.dictionaries(KEYS, st.tuples(VALUES, TEXTS), min_size=1, max_size=12)
BASE = {"key": pa.int64(), "value": pa.int64(), "text": pa.string()}
WHO = st.booleans()
FAULTS: list[dict[str, Any]] = [
    {"op": "PUT", "action": "apply_status", "status": 500, "p": 0.1},
    {"op": "PUT", "action": "apply_reset", "p": 0.1},
    {"op": "PUT", "action": "status", "status": 503, "p": 0.1},
    {"op": "GET", "action": "reset", "p": 0.05},
    {"op": "LIST", "action": "status", "status": 500, "p": 0.1},
]

Row = dict[str, Any]
Columns = dict[str, pa.DataType]


def predicate(low: int, high: int) -> str:
    return f"key >= {low} AND key < {high}"


class TableMachine(RuleBasedStateMachine):
    """A table, and the rows that it should have: by key, in no order.

    Attributes:
        base: the columns that it has from the beginning.
    """

    base: ClassVar[Columns] = BASE

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.uri, self.options = self.place()
        self.runner = asyncio.Runner()
        self.session = self.runner.run(self._open_session())
        self.ours: Writer = Ours(self.runner, self.session, self.uri, self.options)
        self.theirs: Writer = Theirs(self.uri, self.options)
        self.rows: list[Row] = []
        self.columns = dict(self.base)
        self.past: dict[int, tuple[list[Row], Columns]] = {}
        self.stable = False
        self.ids: dict[int, int] = {}
        self.num_names = 0

    @staticmethod
    async def _open_session() -> alance.Session:
        return alance.Session()

    def place(self) -> tuple[str, dict[str, str] | None]:
        return f"{self.folder}/table", None

    def teardown(self) -> None:
        self.runner.run(self.session.aclose())
        self.runner.close()
        shutil.rmtree(self.folder)

    def change(
        self,
        is_ours: bool,
        work: Callable[[Writer], None],
        rows: list[Row],
        columns: Columns | None = None,
    ) -> None:
        """Let one of the two change the table, to these rows."""
        columns = columns or self.columns
        if is_ours:
            if not self.by_us(work, rows, columns):
                return
        else:
            work(self.theirs)
        self.rows, self.columns = rows, columns

    def by_us(self, work: Callable[[Writer], None], rows: list[Row], columns: Columns) -> bool:
        """Let alance change the table; whether it did."""
        work(self.ours)
        return True

    def table(self, rows: list[Row], columns: Columns | None = None) -> pa.Table:
        return pa.Table.from_pylist(rows, pa.schema(list((columns or self.columns).items())))

    def new_rows(self, drawn: Drawn, columns: Columns) -> list[Row]:
        more = dict.fromkeys(name for name in columns if name not in self.base)
        return [{**self.row(key, *drawn[key]), **more} for key in drawn]

    def row(self, key: int, value: int | None, text: str | None) -> Row:
        return {"key": key, "value": value, "text": text}

    def copied(self) -> list[Row]:
        return [dict(row) for row in self.rows]

    def new_name(self) -> str:
        self.num_names += 1
        return f"extra{self.num_names}"

    @initialize(
        rows=ROWS,
        is_ours=WHO,
        stable=st.booleans(),
        v2_names=st.booleans(),
        version=st.sampled_from(["2.1", "2.2"]),
    )
    def create(
        self, rows: Drawn, is_ours: bool, stable: bool, v2_names: bool, version: str
    ) -> None:
        self.rows = self.new_rows(rows, self.base)
        self.stable = stable
        table = self.table(self.rows)
        if is_ours:
            self.runner.run(
                alance.write_dataset(
                    table,
                    self.uri,
                    stable_row_ids=stable,
                    v2_manifest_paths=v2_names,
                    data_storage_version=version,
                    session=self.session,
                    storage_options=self.options,
                )
            )
        else:
            lance.write_dataset(
                table,
                self.uri,
                enable_stable_row_ids=stable,
                enable_v2_manifest_paths=v2_names,
                data_storage_version=version,
                storage_options=self.options,
            )

    @rule(rows=ROWS, is_ours=WHO)
    def append(self, rows: Drawn, is_ours: bool) -> None:
        keys = {row["key"] for row in self.rows}
        new = [row for row in self.new_rows(rows, self.columns) if row["key"] not in keys]
        if new:
            table = self.table(new)
            self.change(is_ours, lambda by: by.append(table), [*self.rows, *new])

    @rule(rows=ROWS, is_ours=WHO)
    def overwrite(self, rows: Drawn, is_ours: bool) -> None:
        new = self.new_rows(rows, self.base)
        table = self.table(new, self.base)
        self.ids.clear()
        self.change(is_ours, lambda by: by.overwrite(table), new, dict(self.base))

    @rule(low=KEYS, size=st.integers(1, 20), is_ours=WHO)
    def delete(self, low: int, size: int, is_ours: bool) -> None:
        rows = [row for row in self.rows if not low <= row["key"] < low + size]
        self.change(is_ours, lambda by: by.delete(predicate(low, low + size)), rows)

    @rule(is_ours=WHO)
    def delete_nulls(self, is_ours: bool) -> None:
        rows = [row for row in self.rows if row["value"] is not None or row["text"] != "bee"]
        self.change(is_ours, lambda by: by.delete("value IS NULL AND text = 'bee'"), rows)

    @rule(low=KEYS, size=st.integers(1, 20), is_ours=WHO)
    def update(self, low: int, size: int, is_ours: bool) -> None:
        rows = self.copied()
        for row in rows:
            if low <= row["key"] < low + size:
                row["value"] = None if row["value"] is None else row["value"] * 2
                row["text"] = "new"
        updates = {"value": "value * 2", "text": "'new'"}
        self.change(is_ours, lambda by: by.update(updates, predicate(low, low + size)), rows)

    @rule(rows=ROWS, is_ours=WHO, verb=st.sampled_from(["upsert", "insert", "update", "replace"]))
    def merge(self, rows: Drawn, is_ours: bool, verb: str) -> None:
        source, merged = self.new_rows(rows, self.columns), self.copied()
        table = self.table(source)
        mapping = {row["key"]: row for row in merged}
        for row in source:
            if row["key"] in mapping:
                if verb != "insert":
                    mapping[row["key"]].update(row)
            elif verb != "update":
                merged.append(row)
        if verb == "replace":
            keys = {row["key"] for row in source}
            merged = [
                row
                for row in merged
                if row["key"] in keys or row["value"] is None or row["value"] >= 0
            ]
        self.change(is_ours, lambda by: by.merge(table, verb), merged)

    @rule(is_ours=WHO)
    def add_column(self, is_ours: bool) -> None:
        if len(self.columns) < 6:
            name = self.new_name()
            rows = [{**row, name: row["key"] * 10} for row in self.rows]
            columns = {**self.columns, name: pa.int64()}
            self.change(is_ours, lambda by: by.add_column(name, "key * 10"), rows, columns)

    @rule(is_ours=WHO)
    def rename(self, is_ours: bool) -> None:
        last = list(self.columns)[-1]
        if last not in self.base:
            name = self.new_name()
            columns = {name if item == last else item: kind for item, kind in self.columns.items()}
            rows = [
                {name if item == last else item: value for item, value in row.items()}
                for row in self.rows
            ]
            self.change(is_ours, lambda by: by.rename(last, name), rows, columns)

    @rule(is_ours=WHO)
    def drop(self, is_ours: bool) -> None:
        extra = [name for name in self.columns if name not in self.base]
        if extra:
            first = extra[0]
            columns = {name: kind for name, kind in self.columns.items() if name != first}
            rows = [{name: row[name] for name in columns} for row in self.rows]
            self.change(is_ours, lambda by: by.drop(first), rows, columns)

    @rule(is_ours=WHO)
    def compact(self, is_ours: bool) -> None:
        self.change(is_ours, lambda by: by.compact(), self.copied())

    @precondition(lambda self: len(self.past) > 3)
    @rule(is_ours=WHO, data=st.data())
    def restore(self, is_ours: bool, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.past)))
        rows, columns = self.past[version]
        self.ids.clear()
        self.change(
            is_ours,
            lambda by: by.restore(version),
            [dict(row) for row in rows],
            dict(columns),
        )

    @invariant()
    def writers_read_equal_rows(self) -> None:
        if not self.rows and not self.past:
            return
        theirs = lance.dataset(self.uri, storage_options=self.options)
        theirs.validate()

        async def read() -> tuple[int, pa.Table]:
            dataset = await alance.dataset(
                self.uri, session=self.session, storage_options=self.options
            )
            return dataset.version, await dataset.to_table([*self.columns, "_rowid"])

        version, result = self.runner.run(read())
        assert version == theirs.version
        ids = result["_rowid"].to_pylist()
        assert theirs.to_table(with_row_id=True)["_rowid"].to_pylist() == ids
        result = result.drop_columns(["_rowid"])
        assert theirs.to_table(columns=list(self.columns)).equals(result)
        assert theirs.schema.names == list(self.columns)
        expected = sorted(self.rows, key=lambda row: row["key"])
        assert result.sort_by("key").to_pylist() == [
            {name: row[name] for name in self.columns} for row in expected
        ]
        self._check_ids(dict(zip(result["key"].to_pylist(), ids, strict=True)))
        self.past[version] = self.copied(), dict(self.columns)

    def _check_ids(self, ids: dict[int, int]) -> None:
        assert len(set(ids.values())) == len(ids)
        if self.stable:
            for key, row_id in self.ids.items():
                assert ids.get(key, row_id) == row_id, f"the row {key} has another id"
            self.ids = ids


class FailingMachine(TableMachine):
    """The same on a store that fails now and then while alance changes the table."""

    lab: Lab
    number = 0

    def place(self) -> tuple[str, dict[str, str] | None]:
        FailingMachine.number += 1
        return f"s3://lab/machine-{self.number}", self.lab.lance_options()

    def by_us(self, work: Callable[[Writer], None], rows: list[Row], columns: Columns) -> bool:
        self.lab.config(faults=FAULTS, seed=len(self.past))
        try:
            work(self.ours)
        except AlanceError:
            self.lab.calm()
            return self._has(rows, columns)
        finally:
            self.lab.calm()
        return True

    def _has(self, rows: list[Row], columns: Columns) -> bool:
        """True if the table has exactly these rows and columns; the invariant checks the rest."""
        table = lance.dataset(self.uri, storage_options=self.options).to_table()
        if table.column_names != list(columns):
            return False
        expected = sorted(rows, key=lambda row: int(row["key"]))
        return bool(
            table.sort_by("key").to_pylist()
            == [{name: row[name] for name in columns} for row in expected]
        )


def run(machine: type[TableMachine], runs: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine, settings=settings(max_examples=runs, stateful_step_count=steps)
    )


@pytest.mark.parametrize("runs", [10, pytest.param(400, marks=pytest.mark.soak)])
def test_random_changes_follow_the_model(runs: int) -> None:
    run(TableMachine, runs, steps=40)


@pytest.mark.parametrize("runs", [4, pytest.param(100, marks=pytest.mark.soak)])
def test_random_changes_under_faults(lab: Lab, runs: int) -> None:
    FailingMachine.lab = lab
    run(FailingMachine, runs, steps=25)
