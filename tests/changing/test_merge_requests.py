"""Requests of merges to an object store: no more than pylance's, in few rounds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from alance.testing.lab import Lab

ROWS = 40_000
CHANGED = 1000


def table(ids: range, text: str) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array([row_id * 0.5 for row_id in ids]),
            "s": pa.array([f"{text} {row_id}" for row_id in ids]),
        }
    )


@pytest.mark.parametrize("columns", [["id", "v", "s"], ["id", "v"]], ids=["all", "some"])
async def test_an_upsert_sends_no_more_requests_than_pylance(lab: Lab, columns: list[str]) -> None:
    options = lab.lance_options()
    base = f"s3://lab/merged-{len(columns)}"
    await alance.write_dataset(table(range(3), ""), f"{base}/probe", storage_options=options)
    for name in ("ours", "theirs"):
        lance.write_dataset(
            table(range(ROWS), "old"),
            f"{base}/{name}",
            storage_options=options,
            max_rows_per_file=ROWS // 4,
        )
    data = table(range(ROWS - CHANGED, ROWS + CHANGED), "new").select(columns)
    lab.config(waits_for=os.getpid())
    dataset = await alance.dataset(f"{base}/ours", storage_options=options)
    with lab.recording() as seen:
        merged = await dataset.upsert(data, "id")
    other = lance.dataset(f"{base}/theirs", storage_options=options).merge_insert("id")
    with lab.recording() as theirs:
        other.when_matched_update_all().when_not_matched_insert_all().execute(data)
    lab.calm()
    assert merged.summary["num_updated_rows"] == merged.summary["num_inserted_rows"] == CHANGED
    assert len(seen.records) <= len(theirs.records)
    # Footers, page tables, pages; what the data lacks; new files and LIST; the manifest.
    assert seen.rounds <= 6 + (len(columns) < 3)
    reopened = lance.dataset(f"{base}/ours", storage_options=options)
    assert reopened.count_rows() == ROWS + CHANGED
    reopened.validate()
