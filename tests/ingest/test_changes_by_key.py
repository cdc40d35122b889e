"""Streams of changes by key: rows to upsert, keys to delete, feeds of both."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.errors import CommitConflictError, InvalidInputError, UnsupportedError
from alance.ops.merge import insert, stream
from tests.changing.test_merge_by_index import noted_lookups

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
FEED = pa.schema([*SCHEMA, ("kind", pa.string())])
ROW = pa.struct(list(SCHEMA))
EVENTS = pa.schema([("op", pa.string()), ("before", ROW), ("after", ROW)])
Model = dict[int, str]


def rows(values: Mapping[int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"id": key, "text": text} for key, text in values.items()], schema=SCHEMA
    )


def keys(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64())})


def contents(path: Path) -> Model:
    """The table as pylance reads it, in which each key is once."""
    table = lance.dataset(str(path))
    table.validate()  # type: ignore[no-untyped-call]
    read = table.to_table().to_pylist()
    assert len({row["id"] for row in read}) == len(read)
    return {row["id"]: row["text"] for row in read}


async def test_rows_are_upserted_and_deleted_by_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA, on="id", commit_interval=None) as sink:
        assert await sink.upsert(rows({1: "a", 2: "b", 3: "c"}))
        assert await sink.flush() == 2
        await sink.write(rows({2: "B", 4: "d"}))  # without `kind` the rows are upserted
        await sink.delete(keys(3, 77))
        await sink.delete({"id": [1], "other": ["ignored"]})
        await sink.upsert([{"text": "again", "id": 1}])
        assert contents(path) == {1: "a", 2: "b", 3: "c"}
        assert await sink.flush() == 3
        assert contents(path) == {1: "again", 2: "B", 4: "d"}
        assert sink.dataset is not None
        assert dict(sink.dataset.summary) == {
            "num_inserted_rows": 1, "num_updated_rows": 2, "num_deleted_rows": 1,
        }  # fmt: skip
    metrics = sink.metrics
    assert (metrics.num_rows, metrics.committed_rows, metrics.buffered_bytes) == (9, 9, 0)
    assert (metrics.num_commits, metrics.last_version) == (2, 3)


async def test_the_last_change_of_a_key_wins(tmp_path: Path) -> None:
    path = tmp_path / "t"
    feed = [
        {"id": 1, "text": "a", "kind": "insert"},
        {"id": 2, "text": "b", "kind": "INSERT"},
        {"id": 1, "text": None, "kind": "delete"},
        {"id": 2, "text": "c", "kind": "update"},
        {"id": 3, "text": None, "kind": "delete"},
        {"id": 3, "text": "d", "kind": "upsert"},
        {"id": 2, "text": "e", "kind": "update"},
    ]
    async with alance.ingest(path, SCHEMA, on="id", kind="kind") as sink:
        await sink.write(pa.Table.from_pylist(feed, FEED))
    assert contents(path) == {2: "e", 3: "d"}
    async with alance.ingest(path, on="id", kind="kind") as sink:
        for row in reversed(feed):  # one by one, in one commit
            await sink.write(pa.RecordBatch.from_pylist([row], FEED))
    assert contents(path) == {1: "a", 2: "b"}
    assert sink.metrics.num_commits == 1
    await (await alance.dataset(path)).delete("true")
    async with alance.ingest(path, on="id", kind="kind") as sink:
        await sink.write([{"id": 9, "kind": "delete"}])  # without the other columns
        encoded = pa.array(["delete", "upsert", "upsert"]).dictionary_encode()[1:]
        await sink.write(pa.table({"kind": encoded, "text": ["x", "y"], "id": [5, 6]}))
        views = pa.array(["upsert", "delete"], pa.string_view())
        await sink.write(pa.table({"kind": views, "text": ["z", None], "id": [7, 6]}))
    assert contents(path) == {5: "x", 7: "z"}


async def test_change_events_of_debezium(tmp_path: Path) -> None:
    path = tmp_path / "t"
    a, b, c, moved = (
        {"id": key, "text": text} for key, text in ((1, "a"), (1, "b"), (2, "c"), (7, "m"))
    )
    events: list[dict[str, Any]] = [
        {"op": "r", "before": None, "after": a},
        {"op": "c", "before": None, "after": c},
        {"op": "u", "before": a, "after": b},
        {"op": "d", "before": {"id": 2, "text": None}, "after": None},
        {"op": None, "before": None, "after": None},  # a tombstone
    ]
    async with alance.ingest(path, SCHEMA, on="id", envelope="debezium") as sink:
        await sink.write(pa.Table.from_pylist(events, EVENTS))
        await sink.flush()
        assert contents(path) == {1: "b"}
        # an update of the key: the row of the former key goes
        await sink.write(pa.Table.from_pylist([{"op": "u", "before": b, "after": moved}], EVENTS))
        await sink.write([{"op": "u", "after": {"id": 8, "text": "no before"}, "ts_ms": 3}])
    assert contents(path) == {7: "m", 8: "no before"}
    async with alance.ingest(tmp_path / "new", on="id", envelope="debezium") as sink:
        await sink.write([{"op": "c", "after": a, "source": {"lsn": 3}}])
    assert contents(tmp_path / "new") == {1: "a"}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"op": "t", "before": a, "after": a}, "'t' in row 0"),
        ({"op": None, "before": a, "after": a}, "None in row 0"),
        ({"op": "u", "before": a, "after": None}, "'after': null in event 0"),
        ({"op": "d", "before": None, "after": a}, "'before': null in event 0"),
        ({"op": "d", "before": {"id": None}, "after": a}, "'id': null in row 0"),
    ]
    for event, message in bad:
        with pytest.raises(InvalidInputError, match=message):
            async with alance.ingest(path, on="id", envelope="debezium") as sink:
                await sink.write(pa.Table.from_pylist([event], EVENTS))
    assert contents(path) == {7: "m", 8: "no before"}


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("seed", range(6))
async def test_the_table_is_a_dictionary(tmp_path: Path, seed: int, stable: bool) -> None:
    """Random feeds in random batches and commits, with other changes between, and restarts."""
    chance, path, model = random.Random(seed), tmp_path / "t", Model()
    form = chance.choice(["kind", "debezium", "calls"])
    options: dict[str, Any] = {
        "kind": {"kind": "kind"}, "debezium": {"envelope": "debezium"}, "calls": {},
    }[form]  # fmt: skip
    for run in range(4):
        sink = alance.ingest(
            path, SCHEMA, on="id", commit_interval=None, stable_row_ids=stable, **options
        )
        async with sink:
            for number in range(chance.randint(2, 12)):
                changes = [
                    (
                        chance.randint(0, 60),
                        None if chance.random() < 0.4 else f"{run} {number} {n}",
                    )
                    for n in range(chance.randint(0, 30))
                ]
                await write(sink, form, changes, model)
                for key, text in changes:
                    if text is None:
                        model.pop(key, None)
                    else:
                        model[key] = text
                if chance.random() < 0.3:
                    await sink.flush()
                    assert contents(path) == model
                if chance.random() < 0.1:
                    await sink.flush()
                    lance.dataset(str(path)).optimize.compact_files()
        assert contents(path) == model
        dataset = await alance.dataset(path)
        if run == 1:
            await dataset.create_scalar_index("id", "BTREE")


async def write(
    sink: alance.Sink, form: str, changes: list[tuple[int, str | None]], model: Model
) -> None:
    if form == "calls":
        for key, text in changes:
            if text is None:
                await sink.delete(keys(key))
            else:
                await sink.upsert(rows({key: text}))
    elif form == "kind":
        feed = [
            {"id": key, "text": text, "kind": "delete" if text is None else "upsert"}
            for key, text in changes
        ]
        await sink.write(pa.Table.from_pylist(feed, FEED))
    else:
        mapping = dict(model)
        events: list[dict[str, Any]] = []
        for key, text in changes:
            before: dict[str, Any] = {"id": key, "text": mapping.get(key)}
            if text is None:
                events.append({"op": "d", "before": before, "after": None})
                mapping.pop(key, None)
            else:
                operation = "u" if key in mapping else "c"
                image = before if key in mapping else None
                after = {"id": key, "text": text}
                events.append({"op": operation, "before": image, "after": after})
                mapping[key] = text
        await sink.write(pa.Table.from_pylist(events, EVENTS))


@pytest.mark.parametrize("shares_session", [True, False])
async def test_concurrent_sinks_lose_no_change(tmp_path: Path, shares_session: bool) -> None:
    """Each sink changes keys of its own and keys that all share; of these any order is right."""
    path, count = tmp_path / "t", 3
    await alance.write_dataset(rows(dict.fromkeys(range(0, 40, 2), "old")), path)
    written: list[list[Model]] = [[] for _ in range(count)]

    async def work(number: int) -> None:
        session = alance.Session.of_loop() if shares_session else alance.Session()
        chance = random.Random(number)
        try:
            sink = alance.ingest(path, on="id", session=session, commit_interval=None)
            async with sink:
                for turn in range(6):
                    own = {1000 * (number + 1) + n: f"{number} {turn}" for n in range(turn + 1)}
                    shared = {chance.randint(0, 40): f"{number} {turn}" for _ in range(4)}
                    await sink.upsert(rows({**own, **shared}))
                    gone = 1000 * (number + 1) + turn
                    await sink.delete(keys(gone))
                    await sink.flush()
                    written[number].append({**own, **shared})
        finally:
            if not shares_session:
                await session.aclose()

    await asyncio.gather(*map(work, range(count)))
    table = contents(path)
    for number in range(count):
        own = {key: text for key, text in table.items() if key // 1000 == number + 1}
        assert own == {1000 * (number + 1) + n: f"{number} 5" for n in range(5)}
    for key in range(41):
        last = [
            [change[key] for change in written[number] if key in change][-1:]
            for number in range(count)
        ]
        candidates = {text for texts in last for text in texts}
        old = {"old"} if key % 2 == 0 and key < 40 else {None}
        assert table.get(key) in (candidates or old)


async def test_a_change_is_made_on_what_others_had_committed(tmp_path: Path) -> None:
    """A sink's own last version is old; the changes of others count, pylance's too."""
    path = tmp_path / "t"
    await alance.write_dataset(rows({1: "a"}), path)
    async with (
        alance.ingest(path, on="id", commit_interval=None) as first,
        alance.ingest(path, on="id", commit_interval=None) as second,
    ):
        await first.upsert(rows({2: "first"}))
        await first.flush()
        await second.delete(keys(2))  # the other sink's row
        await second.flush()
        assert contents(path) == {1: "a"}
        await (await alance.dataset(path)).insert(rows({3: "plain"}))
        await first.upsert(rows({3: "merged"}))
        await first.flush()
        assert contents(path) == {1: "a", 3: "merged"}
        lance.dataset(str(path)).insert(pa.Table.from_batches([rows({4: "pylance"})]))
        lance.dataset(str(path)).delete("id = 1")
        await second.upsert(rows({1: "new", 4: "merged"}))
        await second.flush()
    assert contents(path) == {1: "new", 3: "merged", 4: "merged"}


async def test_keys_of_several_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = pa.schema([("tenant", pa.string()), ("id", pa.float64()), ("x", pa.int64())])
    table = pa.table({"tenant": ["a", "b", "a"], "id": [1.0, 1.0, 0.0], "x": [1, 2, 3]}, schema)
    async with alance.ingest(path, schema, on=["tenant", "id"]) as sink:
        await sink.upsert(table)
        await sink.upsert(pa.table({"tenant": ["a"], "id": [-0.0], "x": [4]}, schema))
        await sink.delete({"tenant": ["b"], "id": [1]})
    read = lance.dataset(str(path)).to_table().to_pylist()
    assert sorted(row["x"] for row in read) == [1, 4]


@pytest.mark.parametrize("source", ["producer", "sequence", "token"])
async def test_changes_are_made_exactly_once(tmp_path: Path, source: str) -> None:
    """A producer that sends all again after a crash changes nothing twice, and forgets nothing."""
    path, model = tmp_path / "t", Model()
    chance = random.Random(3)
    feed = [
        (chance.randint(0, 20), None if chance.random() < 0.4 else str(number))
        for number in range(60)
    ]
    sent = 0

    async def send(stop: int, last: int | None = None) -> int:
        nonlocal sent
        producer = None if source == "token" else "p"
        sink = alance.ingest(path, SCHEMA, on="id", producer=producer, commit_interval=None)
        async with sink:
            first = sink.last_sequence if source == "producer" else 0
            for number, (key, text) in enumerate(feed[first:stop], first + 1):
                name: dict[str, Any] = {}
                if source != "producer":
                    name[source] = number if source == "sequence" else f"t{number}"
                if text is None:
                    sent += await sink.delete(keys(key), **name)
                else:
                    sent += await sink.upsert(rows({key: text}), **name)
                if number % 7 == 0:
                    await sink.flush()
                if number == last:
                    raise RuntimeError("crash")
            return sink.metrics.num_skipped
        raise AssertionError

    with pytest.raises(RuntimeError):
        await send(60, last=24)  # of which 21 are committed
    before = sent
    skipped = await send(60)
    assert sent - before == 39
    assert skipped == (0 if source == "producer" else 21)
    for key, text in feed:
        if text is None:
            model.pop(key, None)
        else:
            model[key] = text
    assert contents(path) == model


async def test_of_two_sinks_with_the_same_changes_one_fails(tmp_path: Path) -> None:
    """Also if others' versions lie between, which the merge is repeated for."""
    path = tmp_path / "t"
    await alance.write_dataset(rows({1: "a", 2: "b"}), path)

    async def work(text: str, **name: Any) -> None:
        producer = "p" if "sequence" in name else None
        async with (
            alance.Session() as session,
            alance.ingest(path, on="id", producer=producer, session=session) as sink,
        ):
            await sink.upsert(rows({1: text}), **name)
            for number in range(3):
                lance.dataset(str(path)).delete(f"id = {number + 2}")
                await (await alance.dataset(path)).upsert(rows({number + 3: "x"}), "id")

    for name in ({"token": "t"}, {"sequence": 5}):
        ended = await asyncio.gather(
            *(work(text, **name) for text in "xyz"), return_exceptions=True
        )
        kinds = sorted(type(error).__name__ for error in ended)
        assert kinds == ["CommitConflictError", "CommitConflictError", "NoneType"]


async def test_the_same_changes_by_another_sink_are_seen_when_a_merge_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come between the versions that the commit has seen and the one it is repeated on."""
    path = tmp_path / "t"
    await alance.write_dataset(rows({1: "a", 2: "b"}), path)
    attempt, newest = insert.attempt, stream._newest
    num_attempts = num_looks = 0

    async def overtaken(*arguments: Any) -> Any:
        nonlocal num_attempts
        num_attempts += 1
        change = await attempt(*arguments)
        if num_attempts == 1:
            await (await alance.dataset(path)).delete("id = 1")
        return change

    async def preceded(notes: Any, base: Any) -> Any:
        nonlocal num_looks
        num_looks += 1
        if num_looks == 2:
            async with alance.Session() as session, alance.ingest(path, session=session) as other:
                await other.write(rows({5: "first"}), token="t")
        return await newest(notes, base)

    monkeypatch.setattr(insert, "attempt", overtaken)
    monkeypatch.setattr(stream, "_newest", preceded)
    with pytest.raises(CommitConflictError, match="token 't' already"):
        async with alance.ingest(path, on="id") as sink:
            await sink.upsert(rows({1: "second"}), token="t")
    assert (num_attempts, num_looks) == (1, 2)
    assert contents(path) == {2: "b", 5: "first"}


async def test_a_few_changes_of_a_large_table_are_found_by_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(rows({n: str(n) for n in range(5000)}), path)
    await dataset.create_scalar_index("id", "BTREE")
    looked_up = noted_lookups(monkeypatch, fewest_rows=100)
    async with alance.ingest(path, on="id", commit_interval=None) as sink:
        await sink.upsert(rows({3: "new", 9000: "new"}))
        await sink.delete(keys(4, 4999))
        await sink.flush()
        await sink.upsert(rows({9000: "newer", 4: "back"}))
    assert looked_up == [True, True]
    table = contents(path)
    assert len(table) == 5000
    assert (table[3], table[4], table[9000]) == ("new", "back", "newer")


async def test_changes_in_memory_are_bounded(tmp_path: Path) -> None:
    """The buffer makes commits as soon as it is full, though no time and no size is set."""
    path, budget = tmp_path / "t", 64 << 10
    sink = alance.ingest(path, SCHEMA, on="id", max_buffer_bytes=budget, commit_interval=None)
    peak = 0
    async with sink:
        for number in range(60):
            await sink.upsert(
                rows(dict.fromkeys(range(number, number + 40), f"{number} {'x' * 100}"))
            )
            peak = max(peak, sink.metrics.buffered_bytes)
        assert sink.metrics.num_waits > 0
        large = rows(dict.fromkeys(range(200), "y" * 1000))  # alone larger than the buffer
        await sink.upsert(large, token="large")
        await sink.delete(keys(0))
    assert peak <= budget // 2
    assert sink.metrics.num_commits > 5
    table = contents(path)
    assert len(table) == 199
    assert table[98] == "y" * 1000


async def test_a_sink_of_changes_is_maintained(tmp_path: Path) -> None:
    path = tmp_path / "t"
    policy = alance.MaintenancePolicy(min_small_fragments=4)
    sink = alance.ingest(path, SCHEMA, on="id", maintain=policy, commit_interval=None)
    async with sink:
        for number in range(40):
            await sink.upsert(rows({number: "a", number + 1: "b", 1000: str(number)}))
            await sink.delete(keys(number - 3))
            await sink.flush()
    assert sink.maintenance is not None
    assert sink.maintenance.num_steps > 0
    assert contents(path) == {
        **dict.fromkeys(range(37, 40), "a"), 40: "b", 1000: "39",
    }  # fmt: skip


async def test_an_error_leaves_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "t"

    async def work() -> None:
        async with alance.ingest(path, SCHEMA, on="id", commit_interval=None) as sink:
            await sink.upsert(rows({1: "a"}))
            await sink.flush()
            await sink.upsert(rows({2: "b"}))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await work()
    assert contents(path) == {1: "a"}
    assert len(list((path / "data").iterdir())) == 1


async def test_others_that_change_the_columns_end_the_sink(tmp_path: Path) -> None:
    path = tmp_path / "t"

    async def work() -> None:
        async with alance.ingest(path, SCHEMA, on="id") as sink:
            await sink.upsert(rows({1: "a"}))
            await sink.flush()
            await (await alance.dataset(path)).add_columns({"more": "id + 1"})
            await sink.upsert(rows({2: "b"}))

    with pytest.raises(CommitConflictError, match="other columns"):
        await work()
    assert contents(path) == {1: "a"}


async def test_what_does_not_fit_is_refused_before_it_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA, on="id", kind="kind") as sink:
        await sink.upsert(rows({1: "a"}))
        for call, message in (
            (sink.upsert({"text": ["x"]}), "on: column 'id' is not among"),
            (sink.upsert([{"id": None, "text": "x"}]), "'id': null in row 0"),
            (sink.upsert([{"id": 1, "text": "x", "y": 1}]), "column 'y'"),
            (sink.upsert([{"id": "x", "text": "x"}]), "column 'id'"),
            (sink.delete({"text": ["a"]}), "on: column 'id' is not among"),
            (sink.delete({"id": [1, None]}), "'id': null in row 1"),
            (sink.write(rows({1: "b"})), "kind: column 'kind' is not among"),
            (sink.write([{"id": 1, "text": "b", "kind": "replace"}]), "'replace' in row 0; exp"),
            (sink.write([{"id": 1, "text": "b", "kind": None}]), "None in row 0"),
            (sink.write([{"id": 1, "text": "b", "kind": 1}]), "'kind': int64, expected texts"),
            (sink.write([{"text": "b", "kind": "insert"}]), "on: column 'id' is not among"),
            (sink.upsert(rows({1: "b"}), token=3), "token=3"),  # type: ignore[arg-type]
            (sink.upsert(rows({1: "b"}), sequence=3), "without `producer`"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                await call
    assert contents(path) == {1: "a"}
    async with alance.ingest(path) as sink:
        for call in (sink.upsert(rows({1: "b"})), sink.delete(keys(1))):
            with pytest.raises(InvalidInputError, match="open it with `on`"):
                await call
    async with alance.ingest(tmp_path / "none", on="id") as sink:
        with pytest.raises(InvalidInputError, match="no table yet"):
            await sink.delete(keys(1))
    bad_options: list[tuple[dict[str, Any], str]] = [
        ({"on": []}, "on="),
        ({"on": "id", "kind": ""}, "kind="),
        ({"on": "id", "envelope": "maxwell"}, "envelope="),
        ({"on": "id", "kind": "k", "envelope": "debezium"}, "one of them"),
        ({"kind": "k"}, "expected `on`"),
        ({"on": "id", "max_file_age": 3.0}, "max_file_age"),
    ]
    for options, message in bad_options:
        with pytest.raises(InvalidInputError, match=message):
            alance.ingest(path, **options)
    bad_options = [
        ({"on": "other"}, "key column 'other'"),
        ({"on": "id", "kind": "text"}, "the table has a column"),
    ]
    for options, message in bad_options:
        with pytest.raises(InvalidInputError, match=message):
            async with alance.ingest(path, **options):
                pass
    lists = pa.schema([("l", pa.list_(pa.int64()))])
    with pytest.raises(UnsupportedError):
        async with alance.ingest(tmp_path / "lists", lists, on="l"):
            pass
    assert not (tmp_path / "lists").exists()


async def test_changes_of_one_table_feed_another(tmp_path: Path) -> None:
    """Changes from `follow` can be written as they come."""
    start = rows(dict.fromkeys(range(9), "a"))
    dataset = await alance.write_dataset(start, tmp_path / "a", stable_row_ids=True)
    token = "snapshot"
    async with alance.ingest(tmp_path / "b", SCHEMA, on="id") as sink:
        for step in range(4):
            async for change in dataset.follow(token, before=True, wait=False):
                token = change.token
                if change.rows is not None:
                    part = change.rows.drop_columns(["_rowid"])
                    await (sink.delete if change.kind == "delete" else sink.upsert)(part)
            if step < 3:
                dataset = await dataset.upsert(rows({step: "b", 100 + step: "c"}), "id")
                dataset = await dataset.delete(f"id = {step + 4}")
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


def test_the_blocking_face_has_them(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with alance.sync.ingest(path, SCHEMA, on="id") as sink:
        assert sink.upsert(rows({1: "a", 2: "b"}))
        assert sink.delete(keys(1))
        assert sink.flush() == 2
    assert contents(path) == {2: "b"}
