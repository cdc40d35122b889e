"""JSON indices built in parts, each of which knows the types of its own values only."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError
from alance.ops.index.values import runs as index_runs
from tests.indices.index_cases import content
from tests.indices.test_further_written import contents
from tests.indices.test_json_written import CASES, agree, rows

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = [7, 9_007_199_254_740_993, 3, 7, -1]
# Fragments of five rows: the values at `a` of each.
MIXED: dict[str, list[list[Any]]] = {
    "whole numbers, then others": [WHOLE, [0.5, 2, None, 7, 7.0]],
    "none, then whole numbers": [[None] * 5, WHOLE],
    "none, others, whole numbers": [[None] * 5, [1.5, 7.5, 3.5, None, 0.5], WHOLE],
    "texts, none": [["b", "abc", None, "", "b"], [None] * 5],
    "none at all": [[None] * 5, [None] * 5],
    "booleans": [[True, None, False, False, True], [True] * 5],
}
CONDITIONS = {
    "none, then whole numbers": "json_get_int(j, 'a') > 2",
    "texts, none": "json_get_string(j, 'a') = 'b'",
    "none at all": "json_get_string(j, 'a') = 'b'",
    "booleans": "json_get_bool(j, 'a')",
}


def documents(fragments: list[list[Any]]) -> pa.Table:
    values = [value for fragment in fragments for value in fragment]
    texts = ["{}" if value is None else f'{{"a": {_json(value)}}}' for value in values]
    return pa.table({"id": range(len(texts)), "j": pa.array(texts, pa.json_())})


def _json(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


async def in_parts(
    dataset: alance.Dataset, path: str, target: str, *, by_ranges: bool = False
) -> alance.Dataset:
    """The dataset with an index whose tasks and parts other processes got and gave."""
    values: alance.types.ValueIndexArguments = {"path": path, "target_index_type": target}
    plan = await alance.IndexBuild.plan(dataset, "j", "JSON", task_bytes=1, values=values)
    plan = pickle.loads(pickle.dumps(plan))
    assert plan.num_tasks() > 1
    parts = [await task.execute(dataset) for task in reversed(plan.tasks)]
    parts = pickle.loads(pickle.dumps(parts))
    pages = []
    if by_ranges:
        ranges = await alance.IndexBuild.ranges(dataset, plan, parts, range_bytes=1)
        assert len(ranges) > 1
        pages = [await part.execute(dataset) for part in pickle.loads(pickle.dumps(ranges))]
    segment = await alance.IndexBuild.merge(dataset, plan, parts, pages, memory_bytes=1 << 16)
    return await alance.IndexBuild.commit(dataset, plan, segment)


@pytest.mark.parametrize(("target", "path", "conditions"), CASES)
async def test_they_are_those_made_at_once(
    tmp_path: Path, target: str, path: str, conditions: list[str]
) -> None:
    place, message = tmp_path / "t", contents if target in ("NGRAM", "ZONEMAP") else content
    dataset = await alance.write_dataset(rows(0, 300), place, max_rows_per_file=70)
    dataset = await dataset.delete("id % 17 = 3")
    dataset = await dataset.create_scalar_index("j", "JSON", path=path, target_index_type=target)
    (at_once,), expected = dataset._snapshot.manifest.indices, message(place)
    dataset = await in_parts(dataset, path, target)
    (record,) = dataset._snapshot.manifest.indices
    assert message(place) == expected
    assert (record.index_details, record.index_version) == (
        at_once.index_details,
        at_once.index_version,
    )
    await agree(place, conditions)
    assert not list((place / "_indices").glob("*/*.run"))


@pytest.mark.parametrize("target", ["BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize("case", sorted(MIXED))
async def test_types_are_joined_by_the_merge(tmp_path: Path, case: str, target: str) -> None:
    place, message = tmp_path / "t", contents if target == "ZONEMAP" else content
    table = documents(MIXED[case])
    dataset = await alance.write_dataset(table, place, max_rows_per_file=5)
    dataset = await dataset.create_scalar_index("j", "JSON", path="a", target_index_type=target)
    expected = message(place)
    dataset = await in_parts(dataset, "a", target)
    assert message(place) == expected
    await agree(place, [CONDITIONS.get(case, "json_get_float(j, 'a') > 2.5")])


@pytest.mark.parametrize("target", ["BTREE", "BITMAP"])
async def test_ranges_are_of_the_joined_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 100)
    fragments = [[None] * 200, [*range(200)], [number / 4 for number in range(200)]]
    place = tmp_path / "t"
    dataset = await alance.write_dataset(documents(fragments), place, max_rows_per_file=200)
    await in_parts(dataset, "a", target, by_ranges=True)
    await agree(place, ["json_get_float(j, 'a') = 7.0", "json_get_float(j, 'a') < 20.25"])
    theirs = lance.dataset(place)
    condition = "json_get_float(j, 'a') = 7.0"
    assert theirs.to_table(filter=condition)["id"].to_pylist() == [207, 428]
    assert "ScalarIndexQuery" in theirs.scanner(filter=condition).explain_plan()


async def test_parts_of_several_types_are_refused(tmp_path: Path) -> None:
    fragments = [["a"] * 5, [True] * 5]
    dataset = await alance.write_dataset(documents(fragments), tmp_path / "t", max_rows_per_file=5)
    plan = await alance.IndexBuild.plan(dataset, "j", "JSON", task_bytes=1, values={"path": "a"})
    parts = [await task.execute(dataset) for task in plan.tasks]
    for merging in (alance.IndexBuild.ranges, alance.IndexBuild.merge):
        with pytest.raises(InvalidInputError, match="one type, found string and bool"):
            await merging(dataset, plan, parts)
    grams: alance.types.ValueIndexArguments = {"path": "a", "target_index_type": "NGRAM"}
    plan = await alance.IndexBuild.plan(dataset, "j", "JSON", task_bytes=1, values=grams)
    await plan.tasks[0].execute(dataset)
    with pytest.raises(InvalidInputError, match="of type bool: no NGram index"):
        await plan.tasks[1].execute(dataset)
    await alance.IndexBuild.discard(dataset, parts)
    assert {path.name for path in (tmp_path / "t" / "_indices").rglob("*.lance")} == set()
