"""Uploads to a server that fails, in both dialects, at every step and cancelled at every turn."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from alance.errors import AlanceError, StoreError
from alance.io.disk import upload_local
from alance.io.loop.background import Background
from alance.io.opening.registry import StoreRegistry
from alance.io.stores import upload
from tests.io.conftest import Place
from tests.reference.served import rule_name
from tests.reference.waiting import landed, until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.testing.lab import Lab

PART = 64 << 10
CONTENT = np.random.default_rng(8).bytes(PART * 7 + 100)
DONE_NOT: list[dict[str, Any]] = [
    {"action": "status", "status": 500},
    {"action": "status", "status": 503},
    {"action": "status", "status": 429},
    {"action": "reset"},
    {"action": "stall"},
]
DONE_AND_LOST: list[dict[str, Any]] = [
    {"action": "apply_status", "status": 500},
    {"action": "apply_reset"},
    {"action": "apply_stall"},
]
# More of the same kinds, and an answer that comes when nobody waits any more.
OTHERS: list[dict[str, Any]] = [
    *({"action": action, "status": 408} for action in ("status", "apply_status")),
    *({"action": action, "status": 502} for action in ("status", "apply_status")),
    *({"action": action, "status": 504} for action in ("status", "apply_status")),
    {"action": "apply_status", "status": 429},
    {"action": "apply_status", "status": 503},
    {"action": "slow", "delay_ms": 800},
]
_numbers = itertools.count(1)


def open_place(lab: Lab, scheme: str, **options: str) -> Place:
    arguments = lab.lance_options() if scheme == "s3" else lab.gcs_options()
    arguments |= options
    uri = f"{scheme}://lab/upload-faults-{next(_numbers)}"
    place = Place(*StoreRegistry().open(uri, storage_options=arguments))
    small: Any = replace(place.store.profile, part_bytes=PART, upload_buffer_bytes=5 * PART)
    place.store.profile = small
    return place


def patience(rule: Mapping[str, Any]) -> dict[str, str]:
    """Return the time limit of answers: short if a rule withholds some of them for good.

    Else a server that is late on a busy machine would be one more fault: what it did is not known.
    """
    is_short = rule.get("action", "").endswith(("stall", "slow"))
    return {"read_timeout": "300ms" if is_short else "60s"}


@pytest.fixture(params=["s3", "gs"])
def remote(request: pytest.FixtureRequest, lab: Lab) -> Place:
    rule = request.node.callspec.params.get("rule", {})
    return open_place(lab, request.param, **patience(rule))


CANCELLED_UPLOADS = Background()  # of uploads that were cancelled


async def send(place: Place, content: bytes = CONTENT) -> int:
    view = memoryview(content)
    async with place.store.open_upload(place.path("a")) as sink:
        sink.background = CANCELLED_UPLOADS
        for start in range(0, len(content), PART):
            await sink.write(view[start : start + PART])
        return await sink.finish()


async def object_sizes(place: Place) -> list[int]:
    """Sizes of the objects, when what was cancelled has ended."""
    assert await CANCELLED_UPLOADS.settled(60.0) == 0
    return [meta.num_bytes async for meta in place.store.list(place.folder)]


@pytest.mark.parametrize("step", ["MPCREATE", "PART", "MPCOMPLETE"])
@pytest.mark.parametrize("rule", [*DONE_NOT, *DONE_AND_LOST, *OTHERS], ids=rule_name)
async def test_each_step_is_survived(
    lab: Lab, remote: Place, rule: dict[str, Any], step: str
) -> None:
    before = lab.stats()["uploads"]
    lab.config(faults=[{"op": step, "times": 1, **rule}])
    with lab.recording() as seen:
        assert await send(remote) == len(CONTENT)
    assert sum("fault" in record for record in seen.records) == 1
    assert await remote.store.get(remote.path("a")) == CONTENT
    # Nobody was told the name of an upload whose beginning was not answered.
    may_land = rule["action"].startswith(("apply", "slow"))
    await landed(lab)
    assert lab.stats()["uploads"] - before == int(step == "MPCREATE" and may_land)


@pytest.mark.parametrize("skip", [0, 7])
@pytest.mark.parametrize("rule", [DONE_NOT[0], *DONE_AND_LOST], ids=rule_name)
async def test_each_part_is_sent_again(
    lab: Lab, remote: Place, rule: dict[str, Any], skip: int
) -> None:
    before = lab.stats()["uploads"]
    lab.config(faults=[{"op": "PART", "skip": skip, "times": 2, **rule}])
    assert await send(remote) == len(CONTENT)
    assert await remote.store.get(remote.path("a")) == CONTENT
    assert lab.stats()["uploads"] == before


@pytest.mark.parametrize("scheme", ["s3", "gs"])
@pytest.mark.parametrize("step", ["MPCREATE", "PART", "MPCOMPLETE", "PUT"])
@pytest.mark.parametrize("rule", [*DONE_NOT, {"action": "status", "status": 403}], ids=rule_name)
async def test_what_lasts_is_told_and_nothing_is_left(
    lab: Lab, scheme: str, rule: dict[str, Any], step: str
) -> None:
    retries = {"client_max_retries": "1", "download_retry_count": "1"}
    place = open_place(lab, scheme, **retries, **patience(rule))
    before = lab.stats()["uploads"]
    lab.config(faults=[{"op": step, **rule}])
    with pytest.raises(AlanceError):
        await send(place, CONTENT[:PART] if step == "PUT" else CONTENT)
    lab.calm()
    assert await object_sizes(place) == []
    assert lab.stats()["uploads"] == before


@pytest.mark.parametrize("skip", [0, 3, 7])
async def test_a_part_that_fails_for_good_ends_the_upload(
    lab: Lab, remote: Place, skip: int
) -> None:
    before = lab.stats()["uploads"]
    lab.config(faults=[{"op": "PART", "skip": skip, "action": "status", "status": 400}])
    with pytest.raises(AlanceError):
        await send(remote)
    assert await object_sizes(remote) == []
    assert lab.stats()["uploads"] == before


@pytest.mark.parametrize("rule", [*DONE_NOT, *DONE_AND_LOST], ids=rule_name)
async def test_an_abort_is_tried_again(lab: Lab, remote: Place, rule: dict[str, Any]) -> None:
    before = lab.stats()["uploads"]
    lab.config(faults=[{"op": "MPABORT", "times": 1, **rule}])
    lasts = "gs" in remote.store.root[:2] and rule["action"].endswith(("reset", "stall"))
    with pytest.raises(StoreError) if lasts else nullcontext():
        async with remote.store.open_upload(remote.path("a")) as sink:
            await sink.write(CONTENT)
    assert await object_sizes(remote) == []
    orphans = int(lasts and rule in DONE_NOT)  # GCS is not asked twice
    assert lab.stats()["uploads"] - before == orphans


@pytest.mark.parametrize("rule", DONE_AND_LOST, ids=rule_name)
async def test_every_answer_to_the_end_is_lost(
    lab: Lab, remote: Place, rule: dict[str, Any]
) -> None:
    """The object is looked for, and found."""
    lab.config(faults=[{"op": "MPCOMPLETE", **rule}])
    assert await send(remote) == len(CONTENT)
    assert await object_sizes(remote) == [len(CONTENT)]


async def test_writing_waits_while_parts_are_under_way(
    lab: Lab, remote: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "COPIED_WRITE_BYTES", PART)
    lab.config(faults=[{"op": "PART", "action": "late"}])  # until there are no faults
    with lab.recording() as seen:
        async with remote.store.open_upload(remote.path("a")) as sink:

            async def write() -> None:
                for start in range(0, len(CONTENT), PART):
                    await sink.write(CONTENT[start : start + PART])
                    assert sink.held_bytes <= 5 * PART

            writing = asyncio.create_task(write())
            await until(lambda: sink.held_bytes > 3 * PART and lab.stats()["in_flight"] >= 3)
            await turns(20)
            assert not writing.done()
            lab.calm()
            await writing
            assert 3 * PART < sink.peak_bytes <= 5 * PART
            await sink.finish()
    assert seen.summary()["peak_in_flight"] == 3
    assert sink.held_bytes == 0


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
async def test_cancelled_at_any_moment(lab: Lab, scheme: str) -> None:
    """After each number of milliseconds until the upload is through."""
    lab.config(latency_ms=2)
    before = lab.stats()["uploads"]
    for count in itertools.count():
        # An answer that is given up may have been a success: of such, files stay.
        place = open_place(lab, scheme, **patience({}))
        task = asyncio.create_task(send(place))
        await turns(count)
        task.cancel()
        if count % 2:  # a second time, while it is cleaning up
            await asyncio.sleep(0)
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            assert await object_sizes(place) == []
        else:
            assert await object_sizes(place) == [len(CONTENT)]
            break
        assert lab.stats()["uploads"] == before
    assert lab.stats()["uploads"] == before
    assert count > 5, "some moments are before its end"


async def test_cancelled_in_the_turn_in_which_it_ends(lab: Lab, remote: Place) -> None:
    lab.config(latency_ms=100)
    async with remote.store.open_upload(remote.path("a")) as sink:
        await sink.write(CONTENT)
        publishing = asyncio.create_task(sink._publish())
        while not sink._is_closed:  # noqa: ASYNC110 - no turn may pass unseen
            await asyncio.sleep(0)
        sink._call.add_done_callback(lambda _: publishing.cancel())
        with pytest.raises(asyncio.CancelledError):
            await publishing
    assert await object_sizes(remote) == []


async def test_cancelled_while_a_step_is_not_answered(lab: Lab, remote: Place) -> None:
    before = lab.stats()["uploads"]
    for step in ("MPCREATE", "PART", "MPCOMPLETE"):
        lab.config(faults=[{"op": step, "action": "late", "times": 1}])
        task = asyncio.create_task(send(remote))
        while not lab.stats()["in_flight"]:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0)
        lab.calm()  # it is done and answered now
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await object_sizes(remote) == []
        assert lab.stats()["uploads"] == before


async def test_local_files_cancelled_at_any_turn(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_local, "WRITE_JOB_BYTES", PART)
    monkeypatch.setattr(upload, "COPIED_WRITE_BYTES", PART // 4)
    count = 0
    while True:
        folder = tmp_path / str(count)
        place = Place(*StoreRegistry().open(folder))
        task = asyncio.create_task(send(place))
        for _ in range(count):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            assert await CANCELLED_UPLOADS.settled(60.0) == 0
            assert not any(path.is_file() for path in folder.rglob("*"))
        else:
            assert await object_sizes(place) == [len(CONTENT)]
            break
        count += 1 + count // 16  # turns pass while a thread writes: there are hundreds
