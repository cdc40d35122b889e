"""Planning: the same tasks as pylance's, whatever the fragments are; and what always holds."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.optimize import Compaction as TheirCompaction

import alance
from alance import sync
from alance.ops.upkeep.compact_plan import Candidates, CompactionOptions, grouped, within
from alance.optimize import Compaction


@dataclass(frozen=True)
class Drawn:
    """A table, by the rows and deleted rows of its fragments, and how it is compacted."""

    fragments: list[tuple[int, int]]
    options: dict[str, object]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=9))
    fragments = [(size, draw(st.integers(0, size - 1))) for size in sizes]
    options: dict[str, object] = {"target_rows_per_fragment": draw(st.integers(1, 20))}
    if draw(st.booleans()):
        options["materialize_deletions_threshold"] = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    if draw(st.booleans()):
        options["materialize_deletions"] = draw(st.booleans())
    if draw(st.booleans()):
        options["max_source_fragments"] = draw(st.integers(1, 6))
    if draw(st.booleans()):
        options["max_source_rows"] = draw(st.integers(1, 40))
    if draw(st.booleans()):
        options["max_source_bytes"] = draw(st.integers(500, 4000))
    if draw(st.booleans()):
        options["excluded_fragment_ids"] = draw(st.lists(st.integers(0, 9), max_size=3))
    return Drawn(fragments, options)


def make(path: Path, fragments: list[tuple[int, int]]) -> None:
    start, gone = 0, []
    for size, deleted in fragments:
        data = pa.table({"a": range(start, start + size)})
        lance.write_dataset(data, path, mode="append" if start else "create")
        gone += range(start, start + deleted)
        start += size
    if gone:
        lance.dataset(path).delete(f"a in ({', '.join(map(str, gone))})")


@settings(max_examples=40)
@given(drawn())
def test_the_tasks_of_pylance(table: Drawn) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.lance"
        make(path, table.fragments)
        theirs = TheirCompaction.plan(lance.dataset(path), table.options)
        ours = sync.Compaction.plan(sync.dataset(path), **table.options)
        assert [[fragment.id for fragment in task.fragments] for task in ours.tasks] == [
            [fragment.id for fragment in task.fragments] for task in theirs.tasks
        ]
        before = lance.dataset(path).to_table().sort_by("a")
        done = [task.execute(sync.dataset(path)) for task in ours.tasks]
        theirs_done = [task.execute(lance.dataset(path)) for task in theirs.tasks]
        assert [
            [new_fragment.physical_rows for new_fragment in result.new_fragments] for result in done
        ] == [
            [new_fragment.physical_rows for new_fragment in result.new_fragments]
            for result in theirs_done
        ]
        sync.Compaction.commit(sync.dataset(path), done)
        lance.dataset(path).validate()
        assert lance.dataset(path).to_table().sort_by("a").equals(before)


def candidates() -> st.SearchStrategy[Candidates]:
    fragment = st.tuples(st.integers(1, 30), st.integers(1, 1000), st.booleans())

    def as_arrays(runs: list[list[tuple[int, int, bool]]]) -> Candidates:
        fragments = [fragment for run in runs for fragment in run]
        ends = np.cumsum([len(run) for run in runs]).tolist()
        bounds = [(end - len(run), end) for run, end in zip(runs, ends, strict=True)]
        rows, sizes, alone = zip(*fragments, strict=True) if fragments else ((), (), ())
        return Candidates(
            np.array(rows, np.int64), np.array(sizes, np.int64), np.array(alone, np.bool_), bounds
        )

    return st.lists(st.lists(fragment, min_size=1, max_size=12), max_size=6).map(as_arrays)


@given(candidates(), st.integers(1, 60), st.integers(1, 20), st.integers(1, 200))
def test_what_always_holds(drawn: Candidates, target: int, most: int, most_rows: int) -> None:
    groups = grouped(drawn, target)
    positions = [number for group in groups for number in range(*group)]
    assert positions == sorted(set(positions)), "in order, each once"
    remaining = set(range(len(drawn.num_rows))) - set(positions)
    assert not drawn.alone[sorted(remaining)].any(), (
        "what is to be rewritten for itself is rewritten"
    )
    for start, stop in groups:
        ((first, last),) = [run for run in drawn.runs if run[0] <= start and stop <= run[1]]
        assert stop - start > 1 or drawn.alone[start]
        rows, whole = drawn.num_rows[start:stop].sum(), drawn.num_rows[first:last].sum()
        assert rows >= min(target, whole) or last - first > stop - start
    options = CompactionOptions(max_source_fragments=most, max_source_rows=most_rows)
    retained = within(groups, drawn, options)
    assert retained == groups[: len(retained)]
    assert sum(stop - start for start, stop in retained) <= most
    assert sum(drawn.num_rows[start:stop].sum() for start, stop in retained) <= most_rows


async def test_index_coverage_parts_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    make(path, [(3, 0)] * 3)
    lance.dataset(path).create_scalar_index("a", "BTREE")
    for start in (9, 12):
        lance.write_dataset(pa.table({"a": range(start, start + 3)}), path, mode="append")
    theirs = TheirCompaction.plan(lance.dataset(path), {})
    ours = await Compaction.plan(await alance.dataset(path))
    values = [[fragment.id for fragment in task.fragments] for task in ours.tasks]
    assert values == [[fragment.id for fragment in task.fragments] for task in theirs.tasks]
    assert values == [[0, 1, 2], [3, 4]]
