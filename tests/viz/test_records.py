"""Facts that a trace has about the requests of real reads."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import alance
from alance.format.plans import joined_spans
from alance.io.events.trace import NamedSpans

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

URI = "s3://lab/lineitem.lance"


async def opened(lab: Lab, session: alance.Session) -> alance.Dataset:
    return await alance.dataset(URI, storage_options=lab.lance_options(), session=session)


async def test_callers_share_requests_and_are_named(lineitem_lab: Lab) -> None:
    async with alance.Session() as session:
        dataset = await opened(lineitem_lab, session)
        with alance.trace() as recorder:
            async with asyncio.TaskGroup() as group:
                for n in range(5):
                    group.create_task(dataset.take([n], ["l_comment"]), name=f"user {n}")
        callers = {f"user {n}" for n in range(5)}
        shared = [item for item in recorder.events if set(item.callers) == callers]
        assert shared
        for event in recorder.events:
            assert event.ok
            assert event.retries == 0
            assert event.queued is None or event.queued <= event.begun <= event.ended
        totals = recorder.totals
        assert totals.num_requests == len(recorder.events)
        assert totals.num_bytes == recorder.num_bytes
        assert totals.hit_rates["search cache"][1] > 0


async def test_requests_name_their_columns(lineitem_lab: Lab) -> None:
    async with alance.Session(block_cache_bytes=0) as session:
        dataset = await opened(lineitem_lab, session)
        await dataset.take([1], ["l_comment", "l_tax"])
        with alance.trace() as recorder:
            await dataset.take([4000], ["l_comment", "l_tax"])
        named = {name for event in recorder.events for name in recorder.columns_of(event)}
        assert named == {"l_comment", "l_tax"}
        with alance.trace() as recorder:
            await dataset.to_table(["l_shipmode"])
        scans = [event for event in recorder.events if "scan" in event.reasons]
        assert {recorder.columns_of(scan) for scan in scans} == {("l_shipmode",)}
        assert recorder.hops
        assert all(hop.queued <= hop.begun <= hop.ended for hop in recorder.hops)


async def test_bytes_that_nobody_asked_for_are_counted(lineitem_lab: Lab) -> None:
    async with alance.Session(block_cache_bytes=0) as session:
        dataset = await opened(lineitem_lab, session)
        rows = [0, 3000]
        await dataset.take(rows, ["l_comment"])
        with alance.trace() as recorder:
            await dataset.take(rows, ["l_comment"])
        assert recorder.events
        for event in recorder.events:
            assert event.num_used + event.num_wasted == event.num_bytes == event.stop - event.start
            assert event.num_used == sum(stop - start for start, stop in event.ranges)
        assert recorder.totals.num_wasted == sum(item.num_wasted for item in recorder.events)


async def test_first_bytes_of_whole_objects_are_noted(lineitem_lab: Lab) -> None:
    async with alance.Session() as session:
        dataset = await opened(lineitem_lab, session)
        with alance.trace() as recorder:
            await dataset.take([14_000], ["l_tax"])
    noted = [event for event in recorder.events if event.first_byte is not None]
    assert noted
    assert all(item.begun <= (item.first_byte or 0) <= item.ended for item in noted)


async def test_retries_are_noted(lineitem_lab: Lab) -> None:
    lineitem_lab.config(
        faults=[{"action": "status", "key": "manifest", "method": "GET", "times": 1}]
    )
    async with alance.Session() as session:
        with alance.trace() as recorder:
            options = lineitem_lab.lance_options() | {"client_max_retries": "0"}  # of obstore
            await alance.dataset(URI, storage_options=options, session=session)
    assert recorder.totals.num_retries == 1
    manifest = next(event for event in recorder.events if "manifest" in event.reasons)
    assert manifest.retries == 1


async def test_local_reads_are_noted(golden: Path) -> None:
    async with alance.Session() as session:
        dataset = await alance.dataset(golden / "lineitem.lance", session=session)
        await dataset.take([1, 2])
        with alance.trace() as recorder:
            await dataset.take([1, 3])
    assert recorder.num_requests
    assert recorder.num_bytes


async def test_an_outer_trace_has_what_an_inner_one_has(lineitem_lab: Lab) -> None:
    async with alance.Session() as session:
        with alance.trace() as outer:
            dataset = await opened(lineitem_lab, session)
            with alance.trace() as inner:
                await dataset.take([7])
    assert inner.events == outer.events[-len(inner.events) :]
    assert outer.num_requests == inner.num_requests + 2


async def test_json_for_other_tools(lineitem_lab: Lab, tmp_path: Path) -> None:
    async with alance.Session() as session:
        with alance.trace() as recorder:
            dataset = await opened(lineitem_lab, session)
            await dataset.to_table(["l_tax"])
    recorder.to_chrome(tmp_path / "trace.json")
    traceEvents = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {item["pid"] for item in traceEvents} == {1, 2}
    assert len(traceEvents) == len(recorder.events) + len(recorder.hops)


def test_spans_are_merged() -> None:
    assert joined_spans([(5, 9), (0, 3), (3, 4), (6, 7)]) == [(0, 4), (5, 9)]
    assert joined_spans([]) == []


def test_places_of_bytes() -> None:
    places = NamedSpans()
    places.add("x", {"a": lambda: [(0, 10), (30, 40)]})
    places.add("x", {"b": lambda: [(10, 30)]})
    places.add("x", {"a": lambda: [(0, 1000)]})  # the first one counts
    assert places.of("x", [(5, 6)]) == ("a",)
    assert places.of("x", [(9, 31)]) == ("a", "b")
    assert places.of("x", [(10, 30)]) == ("b",)
    assert places.of("x", [(35, 50)]) == ()
    assert places.is_behind("x", 50)
    assert places.of("y", [(0, 1)]) == ()
    assert not places.is_behind("y", 1)
