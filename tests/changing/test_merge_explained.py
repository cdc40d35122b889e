"""Explanations of merges, compared with what the merges then do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import sync
from alance.ops.merge import match

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = pa.table(
    {
        "id": range(4000),
        "v": [float(n) for n in range(4000)],
        "text": [f"text {n}" * 20 for n in range(4000)],
    }
)
DATA = pa.table({"id": [3, 70, 9000], "v": [0.5] * 3})


async def new_table(uri: str, **options: Any) -> alance.Dataset:
    return await alance.write_dataset(ROWS, uri, max_rows_per_file=1000, **options)


async def test_clauses_are_told_as_pylance_tells_them(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = await new_table(uri)
    builder = dataset.merge_insert("id").when_matched_update_all("source.v > target.v")
    builder = builder.when_not_matched_insert_all()
    builder = builder.when_not_matched_by_source_delete("v > ?", params=[9])
    text = str(await builder.explain(DATA.schema))
    assert text.splitlines()[:4] == [
        "merge on id, of data with columns id, v",
        "  rows that match are written anew, where source.v > target.v",
        "  rows of the data without a match are inserted",
        "  rows of the table without a match are deleted, where v > ?",
    ]
    assert "  read late, of rows that match: text" in text
    theirs = lance.dataset(uri).merge_insert("id").when_matched_update_all()
    plan = theirs.when_not_matched_insert_all().explain_plan()
    assert "on=[id], when_matched=UpdateAll, when_not_matched=InsertAll" in plan
    whole = await dataset.merge_insert("id").when_matched_update_all().explain()
    assert whole.what[0] == "merge on id, of data with columns id, v, text"
    assert whole.late == ()


async def test_the_plan_says_up_to_how_many_rows_an_index_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "FEWEST_ROWS", 100)
    dataset = await new_table(str(tmp_path / "t"))
    builder = dataset.merge_insert("id").when_matched_update_all()
    assert "index" not in str(await builder.explain(DATA.schema))
    dataset = await dataset.create_scalar_index("id", "BTREE")
    builder = dataset.merge_insert("id").when_matched_update_all()
    line = "  up to 40 rows of data are looked up by the index 'id_idx', beside the rows that it "
    assert line + "lacks; more by a scan:" in str(await builder.explain(DATA.schema))
    assert "index" not in str(await builder.use_index(False).explain(DATA.schema))


@pytest.mark.parametrize(
    ("choose", "line", "late"),
    [
        (lambda m: m.when_matched_delete(), "are deleted", ()),
        (lambda m: m.when_matched_fail(), "are an error", ()),
        (lambda m: m.when_not_matched_insert_all(), "stay", ()),
        (lambda m: m.when_matched_update_all(), "are written anew", ("text",)),
        (
            lambda m: m.when_matched_update_all().write_mode("rewrite_columns"),
            "get new values of v, in new files for their fragments",
            ("v",),
        ),
    ],
)
def test_other_kinds_of_merges(tmp_path: Path, choose: Any, line: str, late: Any) -> None:
    dataset = sync.write_dataset(ROWS, tmp_path / "t")
    explanation = choose(dataset.merge_insert("id")).explain(DATA.schema)
    assert explanation.what[1] == f"  rows that match {line}"
    assert explanation.late == late
    assert bool(explanation.at_most) == bool(late)
    assert sync.dataset(tmp_path / "t").version == 1


async def test_the_requests_told_are_those_of_the_scan(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "FILTERED_ROWS", 1 << 20)  # few keys would read few zones
    uri, options = "s3://lab/merge-explained", lab.lance_options()
    await new_table(uri, storage_options=options)
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        builder = dataset.merge_insert("id").when_matched_update_all()
        explanation = await builder.explain(DATA.schema)
        assert explanation.first == ("id",)
        assert explanation.num_rows == 4000
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        with alance.trace() as scanned:
            await dataset.to_table(["id"], with_row_address=True)
        assert explanation.num_requests == scanned.num_requests
        assert explanation.num_bytes == scanned.num_bytes
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        builder = dataset.merge_insert("id").when_matched_update_all()
        with alance.trace() as merged:
            after = await builder.execute(DATA)
        assert after.summary["num_updated_rows"] == 2
    data = [event for event in merged.events if event.kind == "get" and "/data/" in event.location]
    assert explanation.num_bytes <= sum(event.num_bytes for event in data)
    most = explanation.num_bytes + sum(step.num_bytes for step in explanation.at_most)
    assert sum(event.num_bytes for event in data) <= most


async def test_merges_that_cannot_be_made_are_not_explained(tmp_path: Path) -> None:
    dataset = await new_table(str(tmp_path / "t"))
    for builder, message in (
        (dataset.merge_insert("id"), "nothing to do"),
        (dataset.merge_insert("q").when_matched_delete(), "key column 'q'"),
        (dataset.merge_insert("text").when_matched_update_all(), "the data has no such column"),
    ):
        with pytest.raises(alance.InvalidInputError, match=message):
            await builder.explain(DATA.schema)
