"""Random changes of a table with indices: what is found by them is what the rows say.

The rules of `test_machine` go on, by alance and by pylance in turn; others build indices and bring
them up to date. After each step filters, words and vectors are asked by index, by scan and of the
plain model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import lance
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

import alance
from tests.stateful.test_machine import BASE, WHO, Row, TableMachine, run
from tests.stateful.writers import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance import Dataset

NEAREST: Final = 5
SCALARS: Final = [
    ("key", "BTREE"),
    ("value", "BTREE"),
    ("value", "BITMAP"),
    ("value", "ZONEMAP"),
    ("value", "BLOOMFILTER"),
    ("text", "BTREE"),
    ("text", "BITMAP"),
    ("text", "NGRAM"),
    ("text", "INVERTED"),
]
FILTERS: Final[dict[str, Callable[[Row], bool | None]]] = {
    "key = 7": lambda row: row["key"] == 7,
    "key >= 20 AND value < 2": lambda row: (
        row["key"] >= 20 and row["value"] is not None and row["value"] < 2
    ),
    "value = 2": lambda row: row["value"] == 2,
    "value IS NULL OR key < 9": lambda row: row["value"] is None or row["key"] < 9,
    "NOT (value IN (1, 2))": lambda row: row["value"] not in (None, 1, 2),
    "text = 'new'": lambda row: row["text"] == "new",
    "text IN ('a', 'it''s') AND value > -3": lambda row: (
        row["text"] in ("a", "it's") and row["value"] is not None and row["value"] > -3
    ),
    "contains(text, 'bee')": lambda row: row["text"] == "bee",
    "text IS NULL": lambda row: row["text"] is None,
}


class IndexedMachine(TableMachine):
    """A table whose columns have indices, one after the other."""

    base: ClassVar = {**BASE, "vector": pa.list_(pa.float32(), 2)}

    def row(self, key: int, value: int | None, text: str | None) -> Row:
        vector = None if value is None else [float(key % 8), float(value)]
        return {**super().row(key, value, text), "vector": vector}

    def do(
        self, is_ours: bool, ours: Callable[[Dataset], Any], theirs: Callable[[Any], Any]
    ) -> None:
        """Let one of the two do what leaves the rows as they are."""
        if is_ours:
            self.runner.run(self._by_us(ours))
        else:
            theirs(lance.dataset(self.uri))

    async def _by_us(self, work: Callable[[Dataset], Any]) -> Any:
        return await work(await alance.dataset(self.uri, session=self.session))

    @rule(kind=st.sampled_from(SCALARS), is_ours=WHO)
    def index_values(self, kind: tuple[str, Any], is_ours: bool) -> None:
        column, index_type = kind
        entries: dict[str, Any] = {"name": f"{column}_{index_type}", "replace": True}
        self.do(
            is_ours,
            lambda dataset: dataset.create_scalar_index(column, index_type, **entries),
            lambda dataset: dataset.create_scalar_index(column, index_type, **entries),
        )

    @precondition(lambda self: sum(row["vector"] is not None for row in self.rows) > 4)
    @rule(index_type=st.sampled_from(["IVF_FLAT", "IVF_SQ"]))
    def index_vectors(self, index_type: str) -> None:
        entries: dict[str, Any] = {"name": "vectors", "replace": True, "num_partitions": 2}
        self.do(True, lambda dataset: dataset.create_index("vector", index_type, **entries), id)

    @rule(merged=st.sampled_from([0, 1, 10]), is_ours=WHO)
    def optimize(self, merged: int, is_ours: bool) -> None:
        entries: dict[str, Any] = {"num_indices_to_merge": merged}
        self.do(
            is_ours,
            lambda dataset: dataset.optimize.optimize_indices(**entries),
            lambda dataset: dataset.optimize.optimize_indices(**entries),
        )

    @precondition(lambda self: not self.stable)
    @rule(is_ours=WHO)
    def compact_and_leave_indices(self, is_ours: bool) -> None:
        entries: dict[str, Any] = {
            "target_rows_per_fragment": SMALL,
            "materialize_deletions_threshold": 0.0,
            "defer_index_remap": True,
        }
        self.do(
            is_ours,
            lambda dataset: dataset.optimize.compact_files(**entries),
            lambda dataset: dataset.optimize.compact_files(**entries),
        )

    @invariant()
    def filters_agree(self) -> None:
        if self.past:
            self.runner.run(self._by_us(self._ask_filters))

    async def _ask_filters(self, dataset: Dataset) -> None:
        for condition, holds in FILTERS.items():
            by_index = await dataset.to_table(["key"], filter=condition)
            scanned = await dataset.to_table(["key"], filter=condition, use_scalar_index=False)
            assert by_index.equals(scanned), condition
            expected = sorted(row["key"] for row in self.rows if holds(row))
            assert sorted(by_index["key"].to_pylist()) == expected, condition
            assert await dataset.count_rows(condition) == len(expected), condition

    @invariant()
    def words_agree(self) -> None:
        if self.past:
            self.runner.run(self._by_us(self._ask_words))

    async def _ask_words(self, dataset: Dataset) -> None:
        if any(index["name"] == "text_INVERTED" for index in dataset.list_indices()):
            for word in ("bee", "new"):
                rows = await dataset.search_text(word, 1000, columns=["key"])
                expected = sorted(row["key"] for row in self.rows if row["text"] == word)
                assert sorted(rows["key"].to_pylist()) == expected, word

    @invariant()
    def vectors_agree(self) -> None:
        if self.past:
            self.runner.run(self._by_us(self._ask_vectors))

    async def _ask_vectors(self, dataset: Dataset) -> None:
        query = [3.25, 0.5]
        distances = {
            row["key"]: sum((a - b) ** 2 for a, b in zip(row["vector"], query, strict=True))
            for row in self.rows
            if row["vector"] is not None
        }
        entries: dict[str, Any] = {"columns": ["key"], "nprobes": 99, "refine_factor": 200}
        for options in (entries, {"columns": ["key"], "use_index": False}):
            rows = await dataset.nearest("vector", query, NEAREST, **options)
            assert rows["_distance"].to_pylist() == sorted(distances.values())[:NEAREST]
            for row in rows.to_pylist():
                assert distances[row["key"]] == row["_distance"]


@pytest.mark.parametrize("runs", [3, pytest.param(400, marks=pytest.mark.soak)])
def test_indices_follow_random_changes(runs: int) -> None:
    run(IndexedMachine, runs, steps=20)
