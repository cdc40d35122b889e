"""Files that carry what readers need first near their end: rounds of cold takes."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.requests.test_requests import WatchedRequests, spans, wide_table

if TYPE_CHECKING:
    from alance.testing.lab import Lab

ROWS = 60_000


def rows() -> pa.Table:
    """Mini-blocks with dictionaries and lists, nulls, one constant."""
    table = wide_table(ROWS, 5)
    return (
        table.append_column("list", pa.array([[n, n + 1][: n % 3] for n in range(ROWS)]))
        .append_column("constant", pa.array([7] * ROWS))
        .append_column("some", pa.array([n if n % 3 else None for n in range(ROWS)]))
    )


async def cold_and_warm(
    lab: Lab, uri: str, numbers: list[int]
) -> tuple[WatchedRequests, WatchedRequests, pa.Table]:
    async with alance.Session(block_cache_bytes=0) as session:
        with lab.recording() as seen, alance.trace() as recorder:
            dataset = await alance.dataset(
                uri, storage_options=lab.lance_options(), session=session
            )
            table = await dataset.take(numbers)
        cold = WatchedRequests(seen, recorder)
        with lab.recording() as seen, alance.trace() as recorder:
            assert (await dataset.take(numbers)).equals(table)
        warm = WatchedRequests(seen, recorder)
    return cold, warm, table


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_cold_take_guesses_nothing(
    lab: Lab, version: str, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LIST, manifest, file ends, and then the very ranges that a warm take asks for."""
    lab.config(waits_for=os.getpid())
    if is_busy:  # each job ends the event loop's turn
        monkeypatch.setattr("alance.io.reading.pool.LOOP_TURN_S", 0)
    table, uri = rows(), f"s3://lab/searched-{version}-{is_busy}"
    options = lab.lance_options()
    await alance.write_dataset(
        table,
        uri,
        storage_options=options,
        data_storage_version=version,
        max_rows_per_file=ROWS // 3,
    )
    ordered = sorted(random.Random(3).sample(range(ROWS), 25))
    cold, warm, result = await cold_and_warm(lab, uri, ordered)
    assert result.equals(table.take(ordered))
    assert cold.seen.rounds == 4
    assert warm.seen.rounds == 1
    assert len(warm) == 3  # one for each file: the ranges of all columns are merged
    assert spans(warm) < spans(cold)
    assert cold.operations.count("list") == 1
    assert len(cold) == 1 + 1 + 3 + len(warm)
    theirs = lance.dataset(uri, storage_options=options)
    theirs.validate()
    assert theirs.take(ordered).equals(result)
    assert theirs.to_table().equals(table)
