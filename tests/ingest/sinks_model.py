"""Sinks of changes by key, disturbed at random, against a plain dictionary.

Each producer numbers its calls. A sink that is killed is opened again, and sends what the table has
not. Values are numbers that grow, so that each state of a row tells which changes it has.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa

import alance
from alance.errors import AlanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.testing.lab import Lab

Row = dict[str, Any]
Model = dict[int, Row]

SINKS: Final = 3
STRUCT: Final = pa.struct([("a", pa.int64()), ("b", pa.string())])
OTHERS: Final = ["n0", "n1", "n2"]  # columns of the rows that all sinks change, each its own
COLUMNS: Final = {
    "x": pa.int64(),
    "text": pa.string(),
    "kind": pa.int64(),
    "row": STRUCT,
    **dict.fromkeys(OTHERS, pa.int64()),
}
SHARED: Final = range(6)
FOREIGN: Final = range(900, 906)  # keys of pylance


def own_keys(sink: int) -> range:
    return range(100 * (sink + 1), 100 * (sink + 1) + 12)


NUMBERS: Final = [*SHARED, *FOREIGN, *(key for sink in range(SINKS) for key in own_keys(sink))]
FIRST_DAY: Final = datetime.date(1969, 12, 1)
KEYS: Final[dict[str, tuple[dict[str, pa.DataType], Callable[[int], tuple[Any, ...]]]]] = {
    "int": ({"id": pa.int64()}, lambda number: (number,)),
    "string": ({"id": pa.string()}, lambda number: (f"k{number}" if number else "",)),
    "binary": ({"id": pa.binary()}, lambda number: (b"\0" * number,)),
    "date": ({"id": pa.date32()}, lambda number: (FIRST_DAY + datetime.timedelta(number),)),
    "several": (
        {"id": pa.int64(), "part": pa.string()},
        lambda number: (number // 3, "xyz"[number % 3]),
    ),
}


@dataclass(frozen=True)
class Call:
    """A call of a sink: rows to upsert with some columns, or keys to delete.

    Attributes:
        rows: number of the key and values; None to delete the row.
        members: members of the struct in the rows; None: all.
    """

    rows: list[tuple[int, Row | None]]
    columns: list[str] = field(default_factory=list)
    members: list[str] | None = None

    def apply(self, model: Model) -> list[tuple[int, Row | None]]:
        """Change a model; return the new state of each changed row."""
        states: list[tuple[int, Row | None]] = []
        for key, row in self.rows:
            if row is None:
                if model.pop(key, None) is not None:
                    states.append((key, None))
                continue
            old = model.get(key, dict.fromkeys(COLUMNS))
            model[key] = {**old, **row}
            if self.members is not None:
                members = {**(old["row"] or {}), **row["row"]}
                model[key]["row"] = {name: members.get(name) for name in ("a", "b")}
            states.append((key, model[key]))
        return states


class Sinks:
    """Producers of changes and their sinks, on a session or two.

    Attributes:
        sent: calls of each producer; the sequence number of a call is its place, from 1.
        acknowledged: number of calls of each producer that a flush has confirmed.
    """

    def __init__(self, uri: str, keys: str, seed: int, lab: Lab | None = None) -> None:
        self.uri = uri
        self.chance = random.Random(f"{keys} {seed}")
        self.lab = lab
        self.options = None
        if lab is not None:
            more = {"client_max_retries": "1", "read_timeout": "500ms"}
            self.options = {**lab.lance_options(), **more}
        self.is_stable = self.chance.random() < 0.5
        self.key_types, self.key_of = KEYS[keys]
        self.names = list(self.key_types)
        self.on: str | list[str] = self.names if len(self.names) > 1 else self.names[0]
        self.number = 0
        self.sent: list[list[Call]] = [[] for _ in range(SINKS)]
        self.acknowledged = [0] * SINKS
        self.foreign: Model = {key: dict.fromkeys(COLUMNS) for key in SHARED}
        self.first = 0
        self.sinks: list[alance.Sink] = []
        self.sessions: list[alance.Session] = []

    def table(
        self, rows: Sequence[tuple[int, Row | None]], types: dict[str, pa.DataType]
    ) -> pa.Table:
        columns = {
            name: pa.array([self.key_of(key)[place] for key, _ in rows], self.key_types[name])
            for place, name in enumerate(self.names)
        }
        for name, type_ in types.items():
            columns[name] = pa.array([(row or {})[name] for _, row in rows], type_)
        return pa.table(columns)

    def values(self) -> Row:
        self.number += 1
        text = None if self.number % 7 == 0 else f"w{self.number % 5} common"
        row = {"a": self.number, "b": f"b{self.number}"}
        others = dict.fromkeys(OTHERS, self.number)
        return {"x": self.number, "text": text, "kind": self.number % 3, "row": row, **others}

    def new_call(self, sink: int) -> Call:
        chance = self.chance
        form = chance.choice(["whole", "whole", "some", "some", "delete", "shared", "members"])
        keys = chance.choices(
            SHARED if form == "shared" else own_keys(sink), k=chance.randint(1, 4)
        )
        if form == "delete":
            return Call([(key, None) for key in keys])
        columns, members = list(COLUMNS), None
        if form == "shared":
            columns = [OTHERS[sink]]
        elif form == "some":
            columns = [name for name in COLUMNS if name == "x" or chance.random() < 0.3]
        elif form == "members":
            columns, members = ["x", "row"], [chance.choice("ab")]
        rows: list[tuple[int, Row | None]] = []
        for key in keys:
            row = {name: value for name, value in self.values().items() if name in columns}
            if members is not None:
                row["row"] = {name: row["row"][name] for name in members}
            rows.append((key, row))
        return Call(rows, columns, members)

    async def send(self, sink: int, number: int) -> None:
        call = self.sent[sink][number - 1]
        to, types = self.sinks[sink], {name: COLUMNS[name] for name in call.columns}
        if not types:
            assert await to.delete(self.table(call.rows, {}), sequence=number)
            return
        if call.members is not None:
            types["row"] = pa.struct([STRUCT.field(name) for name in call.members])
        assert await to.upsert(self.table(call.rows, types), sequence=number)

    async def open(self, sink: int) -> None:
        """Open a sink, and send what the table does not have."""
        opened = alance.ingest(
            self.uri,
            on=self.on,
            commit_interval=None,
            producer=f"p{sink}",
            session=self.sessions[sink % len(self.sessions)],
            storage_options=self.options,
        )
        self.sinks[sink] = await opened.__aenter__()
        assert self.acknowledged[sink] <= opened.last_sequence <= len(self.sent[sink])
        for number in range(opened.last_sequence + 1, len(self.sent[sink]) + 1):
            await self.send(sink, number)

    async def again(self, sink: int) -> None:
        await self.sinks[sink].abort()
        for session in self.sessions:
            await session.settled()
        if self.lab is not None:
            self.lab.calm()
        await self.open(sink)

    async def change(self, sink: int) -> None:
        for _ in range(self.chance.randint(0, 4)):
            self.sent[sink].append(self.new_call(sink))
            try:
                await self.send(sink, len(self.sent[sink]))
            except AlanceError:  # of an earlier flush
                assert self.lab is not None
                await self.again(sink)

    async def flush(self, sink: int, how: str = "wait") -> None:
        """Flush, and cancel the call or kill the sink at a turn of the loop that chance chooses."""
        flushed, target = asyncio.create_task(self.sinks[sink].flush()), len(self.sent[sink])
        if how != "wait":
            for _ in range(self.chance.randint(0, 150)):
                await asyncio.sleep(0 if self.chance.random() < 0.8 else 0.001)
        if how == "cancel":
            flushed.cancel()
            with suppress(asyncio.CancelledError, AlanceError):
                await flushed
            return
        if how == "kill":
            await self.sinks[sink].abort()
        try:
            await flushed
            self.acknowledged[sink] = target
        except AlanceError:
            assert how == "kill" or self.lab is not None
        if self.acknowledged[sink] != target or how == "kill":
            await self.again(sink)
            if how == "wait":
                await self.flush(sink)

    def write_by_pylance(self) -> None:
        row, keys = self.values(), self.chance.sample(FOREIGN, 2)
        data = self.table([(key, row) for key in keys], COLUMNS)
        for _ in range(20):
            table = lance.dataset(self.uri)
            merge = table.merge_insert(self.names).when_matched_update_all()
            try:
                merge.when_not_matched_insert_all().execute(data)
            except OSError as error:
                if "onflict" not in str(error):
                    raise
            else:
                self.foreign.update(dict.fromkeys(keys, row))
                return
        raise AssertionError("pylance lost each race")

    async def latest(self) -> alance.Dataset:
        session = self.chance.choice(self.sessions)
        return await alance.dataset(self.uri, session=session, storage_options=self.options)

    async def upkeep(self) -> None:
        dataset = await self.latest()
        policy = alance.MaintenancePolicy(min_small_fragments=2, max_unindexed_rows=1)
        with suppress(AlanceError):  # a conflict
            await dataset.maintain(policy)

    async def run(self, turns: int) -> None:
        """Make changes in turns; then all sinks flush, and the table has exactly their changes."""
        chance = self.chance
        self.sessions = [alance.Session() for _ in range(chance.randint(1, 2))]
        try:
            await self.begin()
            for _ in range(turns):
                for sink in range(SINKS):
                    await self.change(sink)
                if self.lab is not None and chance.random() < 0.6:
                    self.lab.config(faults=[fault(chance)])
                hows = chance.choices(["wait", "wait", "cancel", "kill"], k=SINKS)
                jobs = [self.flush(sink, how) for sink, how in enumerate(hows)]
                if self.lab is None and chance.random() < 0.5:
                    jobs.append(asyncio.to_thread(self.write_by_pylance))
                if chance.random() < 0.3:
                    jobs.append(self.upkeep())
                await asyncio.gather(*jobs)
                if self.lab is not None:
                    self.lab.calm()
            await asyncio.gather(*map(self.flush, range(SINKS)))
            await self.check()
            await self.check_changes()
        finally:
            for sink in self.sinks:
                await sink.abort()
            for session in self.sessions:
                await session.aclose()

    async def begin(self) -> None:
        dataset = await alance.write_dataset(
            self.table([*self.foreign.items()], COLUMNS),
            self.uri,
            stable_row_ids=self.is_stable,
            storage_options=self.options,
        )
        dataset = await dataset.create_scalar_index(self.names[0], "BTREE")
        dataset = await dataset.create_scalar_index("kind", "BITMAP")
        dataset = await dataset.create_scalar_index("text", "INVERTED")
        self.first = dataset.version
        for sink in range(SINKS):
            self.sinks.append(alance.ingest(self.uri))
            await self.open(sink)

    def rows_of(self, rows: Sequence[Row]) -> Model:
        numbers = {self.key_of(number): number for number in NUMBERS}
        model = {
            numbers[tuple(row[name] for name in self.names)]: {name: row[name] for name in COLUMNS}
            for row in rows
        }
        assert len(model) == len(rows)
        return model

    def expected(self) -> Model:
        model = {key: dict(row) for key, row in self.foreign.items()}
        for sink, calls in enumerate(self.sent):
            own = Model()
            for call in calls:
                call.apply(own)
            for key, row in own.items():
                is_shared = key in SHARED
                model[key] = {**model[key], OTHERS[sink]: row[OTHERS[sink]]} if is_shared else row
        return model

    async def check(self) -> None:
        """pylance and alance read the model, whole and by each index."""
        expected = self.expected()
        table = lance.dataset(self.uri, storage_options=self.options)
        table.validate()  # type: ignore[no-untyped-call]
        assert self.rows_of(table.to_table().to_pylist()) == expected
        dataset = await self.latest()
        await dataset.validate()
        for key, row in expected.items():
            value = self.key_of(key)
            read = await dataset.get(value if len(value) > 1 else value[0], self.on)
            assert read is not None
            assert self.rows_of([read]) == {key: row}
        kinds = await dataset.to_table(filter="kind = 1")
        assert self.rows_of(kinds.to_pylist()) == {
            key: row for key, row in expected.items() if row["kind"] == 1
        }
        texts = await dataset.search_text("w1", columns=[*self.names, *COLUMNS], k=1000)
        assert self.rows_of(texts.to_pylist()) == {
            key: row for key, row in expected.items() if "w1" in (row["text"] or "").split()
        }

    async def check_changes(self) -> None:
        """`follow` tells each state of a row at most once, in order, and the last state."""
        start = await (await self.latest()).checkout_version(self.first)
        state = self.rows_of((await start.to_table()).to_pylist())
        states: dict[int, dict[int, Row | None]] = {key: {} for key in NUMBERS}
        dataset = await self.latest()
        async for change in dataset.follow(self.first, wait=False, before=True):
            rows = [] if change.rows is None else change.rows.to_pylist()
            for key, row in self.rows_of(rows).items():
                assert (key in state) is (change.kind != "insert")
                if change.kind == "delete":
                    assert state.pop(key) == row
                else:
                    state[key] = row
                states[key][change.version] = state.get(key)
        assert state == self.expected()
        for sink, calls in enumerate(self.sent):
            model = Model()
            changed: dict[int, list[Row | None]] = {key: [] for key in NUMBERS}
            for call in calls:
                for key, own in call.apply(model):
                    changed[key].append(own)
            for key in own_keys(sink):
                remaining = iter(changed[key])
                assert all(seen in remaining for seen in states[key].values()), key


def fault(chance: random.Random) -> Row:
    """A put that is refused, or whose answer is lost."""
    return {
        "action": chance.choice(["apply_reset", "apply_status", "reset", "status"]),
        "method": "PUT",
        "key": chance.choice(["_versions/", "_deletions/", "/data/", "_transactions/"]),
        "times": chance.choice([1, 1, 2]),
        "status": chance.choice([500, 503, 403]),
        "skip": chance.randint(0, 2),
    }
