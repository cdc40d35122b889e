"""Random changes in place of a table with indices: every search agrees with a model of the rows.

A segment of an index keeps the rows of fragments whose values were changed in place, and its bitmap
loses these fragments. Both writers change, extend and move such segments in turn; after each step
searches by each kind of index are compared with a plain model of the rows.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import alance
from alance.format.table.indices import FRAGMENT_REUSE
from alance.ops.index.values import carried as carried_values
from tests.stateful.in_place import KEY, OurChanges, TheirChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from alance import Dataset

NEAREST: Final = 4
FRAGMENT_ROWS: Final = 7
TARGET_ROWS: Final = 18
LABELS: Final = "labels"
VECTOR: Final = pa.list_(pa.float32(), 2)
TYPES: Final = {
    KEY: pa.int64(),
    "value": pa.int64(),
    "text": pa.string(),
    LABELS: pa.list_(pa.string()),
    "vector": VECTOR,
}
VALUE_KINDS: Final = [
    ("value", "BTREE"),
    ("value", "BITMAP"),
    ("value", "ZONEMAP"),
    ("value", "BLOOMFILTER"),
    ("text", "NGRAM"),
    ("text", "BITMAP"),
    ("text", "INVERTED"),
    (LABELS, "LABEL_LIST"),
]
VECTOR_KINDS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("IVF_FLAT", {}),
    ("IVF_SQ", {}),
    ("IVF_PQ", {"num_sub_vectors": 2, "num_bits": 4}),
    ("IVF_HNSW_SQ", {}),
]
CHANGED: Final = st.sets(
    st.sampled_from(["value", "text", LABELS, "vector"]), min_size=1, max_size=3
)
NUMBERS: Final = st.integers(0, 9)
WHO: Final = st.booleans()
Row = dict[str, Any]


def row_of(key: int, number: int) -> Row:
    """A row whose values are derived from a number."""
    return {
        KEY: key,
        "value": None if number == 9 else number,
        "text": None if number == 8 else f"word{number % 4} own{number}",
        LABELS: [f"l{number % 3}", f"m{number}"],
        "vector": [float(number), float(key % 8)],
    }


def has_word(row: Row, word: str) -> bool:
    return word in (row["text"] or "").split()


FILTERS: Final[dict[str, Callable[[Row], bool]]] = {
    "value = 4": lambda row: row["value"] == 4,
    "value >= 2 AND value < 6": lambda row: row["value"] is not None and 2 <= row["value"] < 6,
    "value IS NULL": lambda row: row["value"] is None,
    "value IN (1, 7) OR text = 'word1 own5'": lambda row: (
        row["value"] in (1, 7) or row["text"] == "word1 own5"
    ),
    "contains(text, 'own3')": lambda row: "own3" in (row["text"] or ""),
    "array_has_any(labels, ['l1', 'm6'])": lambda row: bool({"l1", "m6"} & {*row[LABELS]}),
}


class InPlaceMachine(RuleBasedStateMachine):
    """A table whose fragments are changed in place, and the rows that it should have, by key."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.uri = f"{self.folder}/table"
        self.runner = asyncio.Runner()
        self.session = self.runner.run(self._open_session())
        self.ours = OurChanges(self.runner, self.session, self.uri)
        self.theirs = TheirChanges(self.uri, self.ours)
        self.rows: dict[int, Row] = {}
        self.stable = False
        self.is_wide = True
        self.next_key = 0

    @staticmethod
    async def _open_session() -> alance.Session:
        return alance.Session()

    def teardown(self) -> None:
        self.runner.run(self.session.aclose())
        self.runner.close()
        shutil.rmtree(self.folder)

    def by(self, is_ours: bool) -> OurChanges | TheirChanges:
        return self.ours if is_ours else self.theirs

    def table(self, rows: Iterable[Row], names: Iterable[str] = TYPES) -> pa.Table:
        types = {**TYPES, "value": pa.int64() if self.is_wide else pa.int32()}
        schema = pa.schema([(name, types[name]) for name in names])
        return pa.Table.from_pylist(list(rows), schema)

    def new_rows(self, numbers: list[int]) -> list[Row]:
        keys = range(self.next_key, self.next_key + len(numbers))
        self.next_key = keys.stop
        return [row_of(key, number) for key, number in zip(keys, numbers, strict=True)]

    def changed_rows(self, low: int, size: int, number: int, names: set[str]) -> list[Row]:
        """New values of some columns for up to `size` rows whose keys are at least `low`."""
        keys = [key for key in sorted(self.rows) if key >= low % self.next_key][:size]
        rows = [row_of(key, (number + key) % 10) for key in keys]
        return [{name: row[name] for name in (KEY, *sorted(names))} for row in rows]

    def take_over(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows[row[KEY]].update(row)

    def fragments(self) -> dict[int, list[int]]:
        """The keys of each fragment's rows."""

        async def work(dataset: Dataset) -> dict[int, list[int]]:
            rows = await dataset.to_table([KEY, "_rowaddr"])
            keys: dict[int, list[int]] = {}
            for row in rows.to_pylist():
                keys.setdefault(row["_rowaddr"] >> 32, []).append(row[KEY])
            return keys

        return self.ours.do(work)

    def fragments_with_file_of(self, name: str) -> list[int]:
        """Fragments with a data file that holds this column alone."""
        dataset = lance.dataset(self.uri)
        fields = {field.name(): field for field in dataset.lance_schema.fields()}
        return [
            fragment.fragment_id
            for fragment in dataset.get_fragments()
            if any(file.fields == [fields[name].id()] for file in fragment.data_files())
        ]

    @initialize(numbers=st.lists(NUMBERS, min_size=20, max_size=24), stable=st.booleans())
    def create(self, numbers: list[int], stable: bool) -> None:
        self.stable = stable
        rows = self.new_rows(numbers)
        self.rows = {row[KEY]: row for row in rows}
        self.runner.run(
            alance.write_dataset(
                self.table(rows),
                self.uri,
                stable_row_ids=stable,
                max_rows_per_file=FRAGMENT_ROWS,
                session=self.session,
            )
        )

    @rule(
        low=st.integers(0, 99),
        size=st.integers(1, 9),
        number=NUMBERS,
        names=CHANGED,
        is_ours=WHO,
    )
    def merge(self, low: int, size: int, number: int, names: set[str], is_ours: bool) -> None:
        rows = self.changed_rows(low, size, number, names)
        if rows:
            self.by(is_ours).merge(self.table(rows, rows[0]))
            self.take_over(rows)

    @rule(place=st.integers(0, 9), number=NUMBERS, names=CHANGED, is_ours=WHO)
    def update_fragment(self, place: int, number: int, names: set[str], is_ours: bool) -> None:
        fragments = self.fragments()
        if not fragments:
            return
        fragment = sorted(fragments)[place % len(fragments)]
        keys = fragments[fragment][::2]
        rows = [row for row in self.changed_rows(0, 999, number, names) if row[KEY] in keys]
        self.by(is_ours).update_fragment(fragment, self.table(rows, rows[0]))
        self.take_over(rows)

    @rule(
        place=st.integers(0, 9),
        number=NUMBERS,
        name=st.sampled_from(["value", "text", "vector"]),
        is_ours=WHO,
    )
    def replace_file(self, place: int, number: int, name: str, is_ours: bool) -> None:
        choice = self.fragments_with_file_of(name)
        if choice:
            fragment = choice[place % len(choice)]
            keys = self.fragments()[fragment]
            rows = [{KEY: key, name: row_of(key, (number + key) % 10)[name]} for key in keys]
            self.by(is_ours).replace_file(fragment, self.table(rows, [name]))
            self.take_over(rows)

    @rule(numbers=st.lists(NUMBERS, min_size=1, max_size=8), is_ours=WHO)
    def append(self, numbers: list[int], is_ours: bool) -> None:
        rows = self.new_rows(numbers)
        self.by(is_ours).append(self.table(rows))
        self.rows |= {row[KEY]: row for row in rows}

    @rule(low=st.integers(0, 40), size=st.integers(1, 5), is_ours=WHO)
    def delete(self, low: int, size: int, is_ours: bool) -> None:
        self.by(is_ours).delete(f"key >= {low} AND key < {low + size}")
        self.rows = {key: row for key, row in self.rows.items() if not low <= key < low + size}

    @rule(number=NUMBERS, is_ours=WHO)
    def update(self, number: int, is_ours: bool) -> None:
        updates = {"value": f"{(number + 1) % 8}", "text": f"'word2 own{number}'"}
        self.by(is_ours).update(updates, f"value = {number}")
        for row in self.rows.values():
            if row["value"] == number:
                row["value"], row["text"] = (number + 1) % 8, f"word2 own{number}"

    @rule(is_ours=WHO, number=st.integers(0, 3))
    def drop_and_add(self, is_ours: bool, number: int) -> None:
        """Move the column to files of its own, which can be replaced."""
        self.by(is_ours).drop_column("value")
        self.by(not is_ours).add_column("value", f"(key + {number}) % 8")
        self.is_wide = True
        for key, row in self.rows.items():
            row["value"] = (key + number) % 8
        order = list(TYPES)
        names = lance.dataset(self.uri).schema.names
        assert sorted(names) == sorted(order)

    @rule(is_ours=WHO)
    def cast(self, is_ours: bool) -> None:
        """Cast a column after dropping its indices, which would hold values of the old type."""
        self.is_wide = not self.is_wide
        indices = lance.dataset(self.uri).describe_indices()
        for name in sorted({index.name for index in indices if "value" in index.field_names}):
            self.by(is_ours).drop_index(name)
        self.by(is_ours).cast("value", pa.int64() if self.is_wide else pa.int32())

    def catch_up(self) -> None:
        """Bring indices up to date before a new one is built, if a compaction deferred them."""
        self.ours.optimize({"index_names": []})

    @rule(kind=st.sampled_from(VALUE_KINDS), is_ours=WHO)
    def index_values(self, kind: tuple[str, str], is_ours: bool) -> None:
        column, index_type = kind
        options = {"name": f"{column}_{index_type}", "replace": True}
        self.catch_up()
        self.by(is_ours).index_values(column, index_type, options)

    @rule(kind=st.sampled_from(VECTOR_KINDS))
    def index_vectors(self, kind: tuple[str, dict[str, Any]]) -> None:
        self.catch_up()
        if len(self.rows) >= 18:
            options = {"name": "vectors", "replace": True, "num_partitions": 2, **kind[1]}
            self.ours.index("vector", kind[0], options)

    @rule(column=st.sampled_from(["value", "text", "vector"]))
    def index_in_parts(self, column: str) -> None:
        kind = {"value": "BTREE", "text": "INVERTED", "vector": "IVF_FLAT"}[column]

        async def work(dataset: Dataset) -> None:
            build = alance.IndexBuild
            entries: dict[str, Any] = {"name": f"{column}_parts"}
            if column == "vector":
                entries["vectors"] = {"num_partitions": 2}
            plan = await build.plan(dataset, column, kind, task_bytes=1, **entries)
            parts = [await task.execute(dataset) for task in plan.tasks]
            await build.commit(dataset, plan, await build.merge(dataset, plan, parts))

        self.catch_up()
        if len(self.rows) >= 18:
            self.ours.do(work)

    @rule(merged=st.sampled_from([None, 0, 1, 10]), retrain=st.booleans(), is_ours=WHO)
    def optimize(self, merged: int | None, retrain: bool, is_ours: bool) -> None:
        options: dict[str, Any] = {} if merged is None else {"num_indices_to_merge": merged}
        if not is_ours:
            indices = lance.dataset(self.uri).describe_indices()
            options["index_names"] = sorted({index.name for index in indices} - {FRAGMENT_REUSE})
        if retrain and is_ours and merged is None:
            options["retrain"] = True
        self.by(is_ours).optimize(options)

    @rule(is_ours=WHO, is_late=st.booleans())
    def compact(self, is_ours: bool, is_late: bool) -> None:
        options = {
            "target_rows_per_fragment": TARGET_ROWS,
            "materialize_deletions_threshold": 0.0,
            "defer_index_remap": is_late and not self.stable,
        }
        self.by(is_ours).compact(options)

    @rule(is_ours=WHO)
    def clean_up(self, is_ours: bool) -> None:
        if is_ours:
            self.ours.do(lambda dataset: dataset.cleanup_old_versions(timedelta(0)))
        else:
            lance.dataset(self.uri).cleanup_old_versions(timedelta(0))

    @invariant()
    def searches_agree(self) -> None:
        if self.next_key:
            self.ours.do(self._ask)

    async def _ask(self, dataset: Dataset) -> None:
        rows = (await dataset.to_table([*TYPES])).to_pylist()
        assert {row[KEY]: row for row in rows} == self.rows
        assert len(rows) == len(self.rows)
        for condition, holds in FILTERS.items():
            expected = sorted(key for key, row in self.rows.items() if holds(row))
            table = await dataset.to_table([KEY], filter=condition)
            assert sorted(table[KEY].to_pylist()) == expected, condition
            assert await dataset.count_rows(condition) == len(expected), condition
        addresses = await dataset.to_table([KEY, "_rowaddr"])
        numbers = np.array(addresses["_rowaddr"].to_pylist(), np.int64) >> 32
        by_key = dict(zip(addresses[KEY].to_pylist(), numbers.tolist(), strict=True))
        chosen = {*list(dict.fromkeys(numbers.tolist()))[::2]}
        names = {index["name"] for index in dataset.list_indices()}
        if names & {"text_INVERTED", "text_parts"}:
            await self._ask_words(dataset)
        for condition, fragments in (
            (None, None),
            ("value < 5", None),
            (None, chosen),
        ):
            rest = [
                row
                for key, row in self.rows.items()
                if (not condition or (row["value"] is not None and row["value"] < 5))
                and (fragments is None or by_key[key] in fragments)
            ]
            entries: dict[str, Any] = {"filter": condition, "fragments": fragments}
            await self._ask_vectors(dataset, rest, entries)

    async def _ask_words(self, dataset: Dataset) -> None:
        for word in ("word2", "own5"):
            expected = sorted(key for key, row in self.rows.items() if has_word(row, word))
            table = await dataset.search_text(word, 1000, columns=[KEY])
            assert sorted(table[KEY].to_pylist()) == expected, word
            if expected:
                table = await dataset.search_text(
                    word, 1000, columns=[KEY], filter="value < 5", prefilter=True
                )
                few = [key for key in expected if (self.rows[key]["value"] or 0) < 5]
                few = [key for key in few if self.rows[key]["value"] is not None]
                assert sorted(table[KEY].to_pylist()) == few, word

    async def _ask_vectors(
        self, dataset: Dataset, rows: list[Row], arguments: dict[str, Any]
    ) -> None:
        for query in ([3.25, 2.5], [8.0, 7.0]):
            distances = {
                row[KEY]: sum((a - b) ** 2 for a, b in zip(row["vector"], query, strict=True))
                for row in rows
            }
            table = await dataset.nearest(
                "vector",
                query,
                NEAREST,
                columns=[KEY],
                nprobes=99,
                refine_factor=200,
                prefilter=True,
                **arguments,
            )
            assert table["_distance"].to_pylist() == sorted(distances.values())[:NEAREST]
            keys = table[KEY].to_pylist()
            assert len({*keys}) == len(keys)
            assert [distances[key] for key in keys] == table["_distance"].to_pylist()


@pytest.mark.parametrize("runs", [8, pytest.param(400, marks=pytest.mark.soak)])
def test_indices_follow_changes_in_place(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Segments of few rows would be built again from the column, and nothing would be carried over.
    monkeypatch.setattr(carried_values, "RESCANNED_ROWS", 0)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        InPlaceMachine, settings=settings(max_examples=runs, stateful_step_count=16)
    )
