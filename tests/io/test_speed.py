"""What a store's requests tell of its speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import alance
from alance.io.speed import BANDWIDTH, LATENCY_S, MOST_BANDWIDTH, Speed

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
    assert speed.bandwidth == MOST_BANDWIDTH
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
