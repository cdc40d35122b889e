"""Speed of a store, estimated from its requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.io.reading.speed import (
    BANDWIDTH,
    BURST_BYTES,
    LATENCY_S,
    MAX_BANDWIDTH,
    REQUEST_S,
    Burst,
    Rate,
    Speed,
)
from alance.io.stores.profile import S3

if TYPE_CHECKING:
    from alance.testing.lab import Lab

MIB = 1 << 20


def test_of_an_unknown_store_something_usual_is_assumed() -> None:
    speed = Speed()
    assert (speed.latency, speed.bandwidth) == (LATENCY_S, BANDWIDTH)


def test_the_first_calls_tell_at_once() -> None:
    speed = Speed()
    speed.note(100, 0.2, 0)
    assert speed.latency == 0.2
    speed.note(8 * MIB, 1.2, speed.landed)
    assert speed.bandwidth == pytest.approx(8 * MIB)


def test_fast_calls_count_and_slow_ones_are_believed_by_and_by() -> None:
    speed = Speed()
    speed.note(100, 0.01, 0)
    speed.note(100, 0.5, 0)
    assert speed.latency < 0.011
    for _ in range(200):
        speed.note(100, 0.5, 0)
    assert speed.latency == pytest.approx(0.5, rel=0.01)
    speed.note(100, 0.02, 0)
    assert speed.latency == 0.02


def test_what_lands_meanwhile_counts_for_the_bandwidth() -> None:
    speed = Speed()
    speed.note(100, 0.1, 0)
    before = speed.landed
    for _ in range(9):
        speed.note(MIB // 2, 0.3, before)
    speed.note(MIB, 1.1, before)
    assert speed.bandwidth == pytest.approx(5.5 * MIB)


def test_no_store_is_faster_than_any_seen() -> None:
    speed = Speed()
    speed.note(64 * MIB, 0.0, 0)
    assert speed.bandwidth == MAX_BANDWIDTH
    for _ in range(200):
        speed.note(MIB, 1 + speed.latency, speed.landed)
    assert speed.bandwidth == pytest.approx(MIB, rel=0.01)


async def test_a_session_learns_the_latency_of_its_store(lineitem_lab: Lab) -> None:
    lineitem_lab.config(latency_ms=60)
    async with alance.Session() as session:
        dataset = await alance.dataset(
            "s3://lab/lineitem.lance",
            storage_options=lineitem_lab.lance_options(),
            session=session,
        )
        await dataset.take([1])
        root = dataset._snapshot.table.root  # of this very store: others may have its URL
        assert session.engine.scheduler.speed(root).latency >= 0.06


LATENCY = 0.03


def burst(num_requests: int, request_bytes: int, seconds: float, *, retries: int = 0) -> Burst:
    """Requests that were all asked for before the first answer; seconds without the latency."""
    requests = Burst(1.0)
    for _ in range(num_requests):
        requests.ask(is_take=True)
    for number in range(num_requests):
        now = 1 + LATENCY + seconds * (number + 1) / num_requests
        requests.land(1, request_bytes, now, retries=retries)
    return requests


def rate_after(*bursts: Burst) -> Rate:
    rate = Rate()
    for requests in bursts:
        rate.note(requests, LATENCY)
    return rate


def test_a_gap_is_what_comes_in_the_time_of_a_request() -> None:
    assert rate_after().gap(S3.take_gap) == S3.take_gap  # nothing is known yet
    slow = rate_after(burst(100, MIB // 8, 0.125))  # 100 MiB a second
    assert slow.bandwidth == pytest.approx(100 * MIB)
    assert slow.gap(S3.take_gap) == int(REQUEST_S * slow.bandwidth)
    assert slow.gap(1000) == 1000
    assert rate_after(burst(100, MIB // 8, 0.01)).gap(S3.take_gap) == S3.take_gap
    assert rate_after(burst(100, MIB // 8, 1000.0)).gap(S3.take_gap) == 16384


def test_small_requests_tell_that_a_store_is_faster_but_not_that_it_is_slower() -> None:
    large = burst(100, MIB // 8, 0.25)  # 50 MiB a second
    assert rate_after(burst(1000, MIB // 64, 1.0)).bandwidth == 0
    assert rate_after(large, burst(1000, MIB // 64, 1.0)).bandwidth == pytest.approx(50 * MIB)
    assert rate_after(large, burst(1000, MIB // 64, 0.2)).bandwidth == pytest.approx(78.125 * MIB)
    assert rate_after(large, burst(100, MIB // 8, 0.625)).bandwidth == pytest.approx(35 * MIB)


def test_what_does_not_wait_for_the_store_alone_tells_nothing() -> None:
    after_an_answer, scan = burst(100, MIB // 8, 0.625), burst(100, MIB // 8, 0.625)
    after_an_answer.ask(is_take=True)
    scan.ask(is_take=False)
    few_bytes, retried = burst(10, MIB // 8, 9.0), burst(100, MIB // 8, 0.625, retries=1)
    assert rate_after(after_an_answer, scan, few_bytes, retried).bandwidth == 0


async def test_takes_read_less_over_gaps_where_bytes_are_slow(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alance.io.reading.speed.BURST_BYTES", BURST_BYTES)
    monkeypatch.setattr(
        "alance.io.reading.speed._RATES", WeakKeyDictionary()
    )  # others learn nothing of it
    rows, every = 1 << 20, 1 << 13  # of 8 bytes, incompressible: 64 KiB apart
    values = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, rows)
    path = Path(lab.root) / "lab" / "gaps.lance"
    await alance.write_dataset(pa.table({"v": values}), str(path))
    lab.rescan()
    lab.config(latency_ms=30, total_mbps=20)
    num_bytes = []
    async with alance.Session() as outer:
        retained = await open_gaps(lab, path, outer)  # so that its store stays
        for first in (17, 4113):
            picked = np.arange(first, rows, every)
            async with alance.Session() as session:
                dataset = await open_gaps(lab, path, session)
                with lab.recording() as seen:
                    taken = await dataset.take(picked.tolist())
            num_bytes.append(seen.summary()["get_bytes"])
            assert taken["v"].to_numpy().tolist() == values[picked].tolist()
        assert await retained.count_rows() == rows
    assert num_bytes[1] < num_bytes[0] / 4


async def open_gaps(lab: Lab, path: Path, session: alance.Session) -> alance.Dataset:
    options = lab.lance_options()
    return await alance.dataset(f"s3://lab/{path.name}", storage_options=options, session=session)
