"""Sinks of a session that change one table by key: their commits share merges."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError, CommitConflictError, InvalidInputError, StoreError
from alance.io.loop import background
from alance.ops.merge import stream
from alance.versioning.manifest_store import ConditionalManifests

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from pathlib import Path

    from alance.testing.lab import Lab

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("x", pa.int64()),
        pa.field("y", pa.string()),
        pa.field("z", pa.int64()),
    ]
)
Model = dict[int, dict[str, Any]]
_numbers = itertools.count()


def read(uri: Path | str, **options: Any) -> Model:
    """The table as pylance reads it, in which each key is once."""
    table = lance.dataset(str(uri), **options)
    table.validate()  # type: ignore[no-untyped-call]
    rows = table.to_table().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


async def opened(
    stack: AsyncExitStack, uri: Path | str, count: int, **options: Any
) -> list[alance.Sink]:
    """Open sinks in the session of the loop."""
    await alance.write_dataset(
        SCHEMA.empty_table(), uri, storage_options=options.get("storage_options")
    )
    return [
        await stack.enter_async_context(
            alance.ingest(
                uri, on="id", commit_interval=None, **{"producer": f"p{number}", **options}
            )
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_each_sink_has_its_rows_in_few_versions(tmp_path: Path, seed: int) -> None:
    """Each changes keys of its own, any columns of them; after its flush all of that is there."""
    path, count, turns, chance = tmp_path / "t", 6, 5, random.Random(seed)
    model: Model = {}

    async def change(sink: alance.Sink, number: int) -> None:
        for _ in range(chance.randint(1, 5)):
            key = 100 * number + chance.randint(0, 8)
            if chance.random() < 0.3:
                await sink.delete({"id": [key]})
                model.pop(key, None)
                continue
            row: dict[str, Any] = {"x": chance.randint(0, 9), "y": str(number), "z": None}
            row = {name: row[name] for name in chance.sample([*row], chance.randint(0, 3))}
            await sink.upsert(pa.Table.from_pylist([{"id": key, **row}]))
            model[key] = {**dict.fromkeys(SCHEMA.names), **model.get(key, {}), **row, "id": key}
        version = await sink.flush()
        own = lance.dataset(str(path), version=version).to_table().to_pylist()
        expected = {key: row for key, row in model.items() if key // 100 == number}
        assert {row["id"]: row for row in own if row["id"] // 100 == number} == expected

    async with AsyncExitStack() as stack:
        sinks = await opened(stack, path, count)
        for _ in range(turns):
            await asyncio.gather(*(change(sink, number) for number, sink in enumerate(sinks)))
    assert read(path) == model
    assert [sink.metrics.num_commits for sink in sinks] == [turns] * count
    assert lance.dataset(str(path)).version <= 1 + 3 * turns  # of 1 + 6 * turns, each its own
    # Each sink's numbers are in the table.
    for number, sink in enumerate(sinks):
        async with alance.ingest(path, on="id", producer=f"p{number}") as again:
            assert again.last_sequence == sink.last_sequence > 0


async def test_flushes_at_the_same_time_cost_a_single_merge(lab: Lab) -> None:
    """As many requests as the same rows by a single sink."""
    uris = [f"s3://lab/shared-{next(_numbers)}.lance" for _ in range(2)]
    options = lab.lance_options()
    num_requests = []
    for uri, count in zip(uris, (1, 4), strict=True):
        async with AsyncExitStack() as stack:
            sinks = await opened(stack, uri, count, storage_options=options)
            for turn in range(2):
                for number in range(4):
                    sink = sinks[number % count]
                    await sink.upsert([{"id": number, "x": turn}, {"id": 10 + number, "z": turn}])
                with lab.recording() as requests:
                    await asyncio.gather(*(sink.flush() for sink in sinks))
            num_requests.append(len(requests.records))
            assert sum(sink.metrics.num_files for sink in sinks) == 2
        assert lance.dataset(uri, storage_options=options).version == 3
    assert num_requests[0] == num_requests[1]


async def test_a_flush_reads_nothing_that_an_earlier_one_has_written(lab: Lab) -> None:
    """Except the keys of its rows: not the version, and no deletion file."""
    uri, options = f"s3://lab/shared-{next(_numbers)}.lance", lab.lance_options()
    async with AsyncExitStack() as stack:
        (sink,) = await opened(stack, uri, 1, storage_options=options, producer=None)
        for turn in range(4):
            await sink.upsert([{"id": number, "x": turn} for number in (0, turn, 10 + turn)])
            with lab.recording() as requests:
                await sink.flush()
    reads = [record for record in requests.records if record["m"] == "GET"]
    assert [record["op"] for record in reads].count("LIST") == 2
    folders = {record["key"].split("/")[1] for record in reads if record["op"] != "LIST"}
    assert folders == {"data"}
    assert any("_deletions/" in record["key"] for record in requests.records)


async def test_sinks_with_other_keys_or_properties_commit_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with AsyncExitStack() as stack:
        (first,) = await opened(stack, path, 1)
        others = [
            await stack.enter_async_context(alance.ingest(path, commit_interval=None, **options))
            for options in (
                {"on": "id", "properties": {"job": "b"}},
                {"on": ["id", "x"]},
                {"on": "id", "max_rows_per_file": 100},
            )
        ]
        for number, sink in enumerate([first, *others]):
            await sink.upsert([{"id": number, "x": 0}])
        await asyncio.gather(*(sink.flush() for sink in (first, *others)))
    assert sorted(read(path)) == [0, 1, 2, 3]
    versions = [sink.metrics.last_version for sink in (first, *others)]
    assert len(set(versions)) == 4
    assert others[0].dataset is not None
    assert others[0].dataset.version == versions[1]


async def failures(sinks: list[alance.Sink]) -> list[type[BaseException] | None]:
    """Flush all sinks at the same time; return the kinds of their errors."""
    ended = await asyncio.gather(*(sink.flush() for sink in sinks), return_exceptions=True)
    return [type(error) if isinstance(error, BaseException) else None for error in ended]


async def ended(stack: AsyncExitStack) -> None:
    """Leave the blocks of sinks, some of which have failed."""
    with suppress(AlanceError):
        await stack.aclose()


@pytest.mark.parametrize("fault", ["token", "sequence", "value"])
async def test_a_sink_that_fails_takes_no_other_with_it(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "t"
    schema = pa.schema([*SCHEMA, pa.field("n", pa.int64(), nullable=False)])
    await alance.write_dataset(schema.empty_table(), path)
    stack = AsyncExitStack()
    sinks = [
        await stack.enter_async_context(
            alance.ingest(path, on="id", commit_interval=None, producer=f"p{number}")
        )
        for number in range(3)
    ]
    names: dict[str, Any] = {"token": {"token": "t"}, "sequence": {"sequence": 5}, "value": {}}
    for number, sink in enumerate(sinks):
        is_bad = number == 1
        row = {"id": number, "n": None if is_bad and fault == "value" else 0}
        await sink.upsert(pa.Table.from_pylist([row]), **(names[fault] if is_bad else {}))
    if fault != "value":  # somebody else commits the same
        async with (
            alance.Session() as session,
            alance.ingest(path, on="id", producer="p1", session=session) as other,
        ):
            await other.upsert([{"id": 9, "n": 1}], **names[fault])
    refusal = InvalidInputError if fault == "value" else CommitConflictError
    assert await failures(sinks) == [None, refusal, None]
    await sinks[2].upsert([{"id": 2, "x": 7, "n": 1}])  # the others go on
    await sinks[0].delete({"id": [0]})
    assert await failures([sinks[0], sinks[2]]) == [None, None]
    await ended(stack)
    rows = read(path)
    assert {key: row["x"] for key, row in rows.items()} == (
        {2: 7} if fault == "value" else {2: 7, 9: None}
    )


async def test_two_sinks_with_the_same_token_are_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "t"
    stack = AsyncExitStack()
    sinks = await opened(stack, path, 3)
    for number, sink in enumerate(sinks):
        await sink.upsert([{"id": number}], token="t" if number else None)
    assert await failures(sinks) == [None, None, CommitConflictError]
    await ended(stack)
    assert sorted(read(path)) == [0, 1]


class Awaits:
    """Counts the awaits of a coroutine function, and acts at that of a number."""

    def __init__(self, number: int, act: Callable[[], object], function: Any) -> None:
        self.number = number
        self.act = act
        self.function = function
        self.count = 0

    async def call(self, *arguments: Any, **named: Any) -> Any:
        return await _Watched(self, self.function(*arguments, **named))


class _Watched:
    def __init__(self, awaits: Awaits, call: Coroutine[Any, Any, Any]) -> None:
        self.awaits = awaits
        self.steps = call.__await__()

    def __await__(self) -> Generator[Any, Any, Any]:
        awaits = self.awaits
        step: Callable[[Any], Any] = self.steps.send
        value: BaseException | None = None
        while True:
            try:
                future = step(value)
            except StopIteration as end:
                return end.value
            if awaits.count == awaits.number:
                awaits.act()
            awaits.count += 1
            try:
                yield future
                step, value = self.steps.send, None
            except BaseException as error:
                step, value = self.steps.throw, error


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("whom", [[1], [0, 1, 2]])
async def test_a_cancelled_sink_takes_no_rows_of_another(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch, whom: list[int], is_remote: bool
) -> None:
    """At any await of a merge; its own changes are there as a whole, or none, and no more files.

    The files of a version whose put was dropped stay, as it may take effect later.
    """
    monkeypatch.setattr(background, "CANCEL_GRACE_S", 20.0)  # a busy machine may be slow
    merge_chunks, create, puts = stream.merge_chunks, ConditionalManifests.create, list[str]()

    async def noted(self: ConditionalManifests, *arguments: Any, **named: Any) -> Any:
        puts.append(uri)
        return await create(self, *arguments, **named)

    monkeypatch.setattr(ConditionalManifests, "create", noted)
    options = lab.lance_options() if is_remote else None
    folder = f"s3://lab/cancelled-{next(_numbers)}" if is_remote else str(tmp_path)
    tasks: list[asyncio.Task[None]] = []
    ready, all_ready, go = list[int](), asyncio.Event(), asyncio.Event()

    async def work(uri: str, number: int) -> None:
        sink = alance.ingest(
            uri, on="id", producer=f"p{number}", commit_interval=None, storage_options=options
        )
        async with sink:
            await sink.upsert({"id": [number], "x": [1]})
            await sink.upsert({"id": [number, 9], "z": [2, 2]})
            await sink.delete({"id": [10 + number]})
            ready.append(number)
            if len(ready) == 3:
                all_ready.set()
            await go.wait()

    for step in itertools.count():
        uri = f"{folder}/{step}"
        start = pa.Table.from_pylist([{"id": 10 + number} for number in range(3)], SCHEMA)
        await alance.write_dataset(start, uri, storage_options=options)
        puts.clear()
        ready, all_ready, go = list[int](), asyncio.Event(), asyncio.Event()
        awaits = Awaits(step, lambda: [tasks[number].cancel() for number in whom], merge_chunks)
        monkeypatch.setattr(stream, "merge_chunks", awaits.call)
        tasks[:] = [asyncio.create_task(work(uri, number)) for number in range(3)]
        await all_ready.wait()
        go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [results[number] for number in {0, 1, 2} - set(whom)] == [None] * (3 - len(whom))
        assert await alance.Session.of_loop().settled() == 0
        rows = read(uri, storage_options=options)
        changed = [number for number in range(3) if number in rows]
        assert set(changed) >= {0, 1, 2} - set(whom)
        assert {key: (row["x"], row["z"]) for key, row in rows.items()} == {
            **dict.fromkeys(changed, (1, 2)),
            **({9: (None, 2)} if changed else {}),
            **{10 + number: (None, None) for number in range(3) if number not in changed},
        }
        latest = lance.dataset(uri, storage_options=options).version
        assert latest == (2 if changed else 1)
        files = await alance.FileSession.open(uri, storage_options=options).list("data")
        assert len(files) == 2 if changed else len(files) <= 1 + (is_remote and uri in puts)
        if awaits.count <= step:
            break
    assert step > 2


async def test_a_cancelled_sink_leaves_a_merge_that_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows never become visible, and the others' are committed."""
    path = tmp_path / "t"
    merge_chunks, begun, goes_on = stream.merge_chunks, asyncio.Event(), asyncio.Event()

    async def held(*arguments: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await merge_chunks(*arguments)

    async with AsyncExitStack() as stack:
        first, second, third = await opened(stack, path, 3)
        monkeypatch.setattr(stream, "merge_chunks", held)
        await first.upsert([{"id": 1}])
        flushes = [asyncio.create_task(first.flush())]
        await begun.wait()
        await second.upsert([{"id": 2}])
        await third.upsert([{"id": 3}])
        flushes += [asyncio.create_task(sink.flush()) for sink in (second, third)]
        for _ in range(5):
            await asyncio.sleep(0)
        await second.abort()
        goes_on.set()
        assert await flushes[0] == 2
        assert await flushes[2] == 3
        with pytest.raises(InvalidInputError, match="aborted"):
            await flushes[1]
    assert sorted(read(path)) == [1, 3]


async def test_the_merge_of_an_aborted_sink_is_pending_until_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If others share it, it goes on; `settled` waits, so that the table then tells its outcome."""
    monkeypatch.setattr(background, "LOCAL_GRACE_S", 0.05)
    path, session = tmp_path / "t", alance.Session.of_loop()
    merge_chunks, begun, goes_on = stream.merge_chunks, asyncio.Event(), asyncio.Event()

    async def held(*arguments: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await merge_chunks(*arguments)

    async with AsyncExitStack() as stack:
        first, second = await opened(stack, path, 2)
        monkeypatch.setattr(stream, "merge_chunks", held)
        await first.upsert([{"id": 1}])
        await second.upsert([{"id": 2}])
        flushes = [asyncio.create_task(sink.flush()) for sink in (first, second)]
        await begun.wait()
        await first.abort()
        with pytest.raises(InvalidInputError, match="aborted"):
            await flushes[0]
        assert await session.settled(0.2) == 1
        assert read(path) == {}
        goes_on.set()
        assert await session.settled() == 0
        assert sorted(read(path)) == [1, 2]
        assert await flushes[1] == 2


@pytest.mark.parametrize("action", ["apply_reset", "apply_status", "reset", "status"])
@pytest.mark.parametrize("key", ["_versions/", "_deletions/", "/data/"])
async def test_lost_answers_lose_and_double_no_sink(lab: Lab, action: str, key: str) -> None:
    """A put without an answer; a refused one may end sinks, each of which goes on by another."""
    options = {**lab.lance_options(), "client_max_retries": "1", "read_timeout": "500ms"}
    uri = f"s3://lab/shared-{next(_numbers)}.lance"
    stack = AsyncExitStack()
    sinks = await opened(stack, uri, 3, storage_options=options)
    for turn in range(3):
        if turn == 1:
            status = 403 if action == "status" else 500
            rule = {"action": action, "method": "PUT", "key": key, "times": 1, "status": status}
            lab.config(faults=[rule])
        for number, sink in enumerate(sinks):
            await sink.upsert([{"id": number, "x": turn}, {"id": 10 + turn, "z": turn}])
            await sink.delete({"id": [100 + number]})
        errors = await failures(sinks)
        if action == "status" and turn == 1:
            assert set(errors) <= {None, StoreError}
            break
        assert errors == [None] * 3
    await ended(stack)
    lab.calm()
    for number in range(3):  # sends all again
        async with alance.ingest(
            uri, on="id", producer=f"p{number}", storage_options=options
        ) as sink:
            if action != "status":
                assert sink.last_sequence == 6
            for turn in range(3):
                sent = [{"id": number, "x": turn}, {"id": 10 + turn, "z": turn}]
                await sink.upsert(sent, sequence=2 * turn + 1)
                await sink.delete({"id": [100 + number]}, sequence=2 * turn + 2)
    rows = read(uri, storage_options=lab.lance_options())
    assert {key: (row["x"], row["z"]) for key, row in rows.items()} == {
        **dict.fromkeys(range(3), (2, None)), **{10 + turn: (None, turn) for turn in range(3)},
    }  # fmt: skip
