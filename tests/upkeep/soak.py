"""Processes that use one table at once: producers, readers, maintenance that is killed, pylance.

    python soak.py FOLDER SEED OPERATIONS SECONDS KILLS

The table is `FOLDER/table`. Each producer and pylance make as many changes as OPERATIONS says, and
go on until SECONDS have passed. What was acknowledged is a line in `FOLDER/<role>.written`, what a
reader was told one in `FOLDER/<role>.read`. Maintenance is killed KILLS times, each time at a turn
of its tasks that the seed chooses, and begun again. The process ends with status 0 if all others
did what they had to.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import pyarrow as pa

import alance
from alance.ops.maintain import lease
from tests.faults.killed import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCERS: Final = 4
READERS: Final = 2
MAINTAINERS: Final = 2
RETAINED: Final = 80  # versions; a reader is never as far behind
MOST_BEHIND: Final = 30  # versions that a reader may be behind before producers wait
KEYS: Final = 1_000_000  # of a producer
BATCH: Final = 10
POLICY: Final = alance.MaintenancePolicy(
    min_small_fragments=6,
    max_unindexed_rows=60,
    max_unindexed_share=None,
    max_index_segments=3,
    older_than=timedelta(0),
    retain_versions=RETAINED,
    min_old_versions=10,
)


def rows(values: dict[int, int]) -> pa.Table:
    """Rows by their keys, with the number of the change that each has."""
    keys = pa.array(list(values), pa.int64())
    texts = [f"k{key}" for key in values]
    return pa.table({"id": keys, "change": pa.array(list(values.values())), "text": texts})


class Place:
    """The files by which the processes know of each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = str(folder / "table")

    def journal(self, name: str) -> TextIO:
        return (self.folder / name).open("a", buffering=1)

    def tell(self, name: str, text: str) -> None:
        """Write a small file at once."""
        written = self.folder / f"{name}.new"
        written.write_text(text)
        written.replace(self.folder / name)

    def ask(self, name: str) -> str | None:
        with suppress(FileNotFoundError):
            return (self.folder / name).read_text()
        return None

    def is_far_ahead(self, version: int) -> bool:
        """True if a reader is too far behind a version."""
        seen = [int(self.ask(f"reader{number}.version") or 0) for number in range(READERS)]
        return version - min(seen) > MOST_BEHIND


def changes(number: int, seed: int, operations: int, end: float) -> Any:
    """Yield the changes of a producer: new keys, or keys that are there with their next change."""
    chance = random.Random(seed * 100 + number)
    last: dict[int, int] = {}
    for count in itertools.count():
        if count >= operations and time.monotonic() >= end:
            return
        if not last or chance.random() < 0.5:
            first = KEYS * number + len(last)
            values = dict.fromkeys(range(first, first + BATCH), 0)
            is_new = True
        else:
            recognized = chance.sample(sorted(last), min(len(last), BATCH // 2))
            values, is_new = {key: last[key] + 1 for key in recognized}, False
        last |= values
        yield values, is_new


async def produce(place: Place, number: int, seed: int, operations: int, end: float) -> None:
    journal = place.journal(f"producer{number}.written")
    dataset = await alance.dataset(place.uri)
    for values, is_new in changes(number, seed, operations, end):
        while place.is_far_ahead(dataset.version):  # noqa: ASYNC110  # other processes
            await asyncio.sleep(0.01)
        while True:
            try:
                if is_new:
                    dataset = await dataset.insert(rows(values))
                else:
                    dataset = await dataset.checkout_latest()
                    merge = dataset.merge_insert("id").when_matched_update_all()
                    await merge.when_not_matched_insert_all().execute(rows(values))
                break
            except alance.CommitConflictError:
                continue  # others were first each time
        print(json.dumps(values), file=journal)
        dataset = await dataset.checkout_latest()


def produce_by_pylance(place: Place, operations: int, end: float) -> None:
    """Append new keys."""
    import lance

    journal, version = place.journal("pylance.written"), 0
    begin = len(Path(journal.name).read_text().splitlines())  # of an earlier process
    for count in itertools.count(begin):
        if count - begin >= operations and time.monotonic() >= end:
            return
        # Its appends are quick: else it would take all turns of the others.
        while place.is_far_ahead(version + MOST_BEHIND // 2):
            time.sleep(0.01)
        first = KEYS * PRODUCERS + count * BATCH
        values = dict.fromkeys(range(first, first + BATCH), 0)
        while True:
            try:
                version = lance.write_dataset(rows(values), place.uri, mode="append").version
                break
            except OSError as error:
                if "Too many concurrent writers" not in str(error):
                    raise
        print(json.dumps(values), file=journal)


async def read(place: Place, number: int, seed: int) -> None:
    """Follow the table, and search the rows of its changes, until all changes were seen."""
    journal, chance = place.journal(f"reader{number}.read"), random.Random(seed + number)
    dataset = await alance.dataset(place.uri)
    token: Any = 0
    seen: dict[int, int] = {}
    while True:
        final = place.ask("final")
        async for change in dataset.follow(token, wait=False, batch_size=7):
            token = change.token
            if change.rows is not None:
                columns = change.rows["id"].to_pylist(), change.rows["change"].to_pylist()
                values = dict(zip(*columns, strict=True))
                print(json.dumps([change.version, change.kind, values]), file=journal)
                seen |= values
            place.tell(f"reader{number}.version", str(change.version - 1))
        if token:
            place.tell(f"reader{number}.version", str(change.version))
        dataset = await dataset.checkout_latest()
        if seen:
            await search(dataset, chance.choice(sorted(seen)), seen)
        if final is not None:
            return
        await asyncio.sleep(0.01)


async def search(dataset: alance.Dataset, key: int, seen: dict[int, int]) -> None:
    """Find a row by its key and by its text.

    Raises:
        AssertionError: it is not there once, or older than the change that was seen.
    """
    by_key = await dataset.to_table(["id", "change"], filter=f"id = {key}")
    assert by_key["id"].to_pylist() == [key], (dataset.version, key, by_key)
    assert by_key["change"][0].as_py() >= seen[key], (dataset.version, key, by_key)
    by_text = await dataset.search_text(f"k{key}", columns=["id"])
    assert by_text["id"].to_pylist() == [key], (dataset.version, key, by_text)


async def maintain(place: Place, turns: int) -> None:
    """Maintain the table until the end, or the turn at which the process kills itself."""
    lease.DURATION = timedelta(seconds=1)  # type: ignore[misc]  # of a killed replica
    Turns.remaining = turns
    asyncio.get_running_loop().set_task_factory(
        lambda loop, coroutine, **more: asyncio.Task(Turns(coroutine), loop=loop, **more)  # type: ignore[arg-type]
    )

    async def work() -> None:
        dataset = await alance.dataset(place.uri)
        journal = place.journal("maintenance")
        while place.ask("final") is None:
            report = await dataset.maintain()
            for step in report.steps:
                print(json.dumps([step.kind, step.outcome, step.error]), file=journal)
            await asyncio.sleep(0.01)

    await asyncio.create_task(work())


def forked(work: Callable[[], object]) -> int:
    """Run work in a child, and return its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main(folder: str, seed: int, operations: int, seconds: float, kills: int) -> int:
    """Run all processes; return 0 if each has done its work."""
    place, chance = Place(Path(folder)), random.Random(seed)
    end = time.monotonic() + seconds
    maintainers: set[int] = set()
    num_killed = 0

    def begin_maintenance() -> None:
        # A step has some hundreds of turns.
        turns = chance.randrange(100, 2500) if num_killed + len(maintainers) < kills else 0
        maintainers.add(forked(lambda: asyncio.run(maintain(place, turns))))

    readers = {
        forked(lambda number=number: asyncio.run(read(place, number, seed)))  # type: ignore[misc]
        for number in range(READERS)
    }
    producers = {
        forked(lambda number=number: asyncio.run(produce(place, number, seed, operations, end)))  # type: ignore[misc]
        for number in range(PRODUCERS)
    } | {forked(lambda: produce_by_pylance(place, operations, end))}
    for _ in range(MAINTAINERS):
        begin_maintenance()
    is_final = False
    try:
        while readers or producers or maintainers:
            child, status = os.wait()
            code = os.waitstatus_to_exitcode(status)
            if child in maintainers:
                maintainers.discard(child)
                if code == -signal.SIGKILL:
                    num_killed += 1
                    if not is_final:
                        begin_maintenance()
                    continue
            readers.discard(child)
            producers.discard(child)
            if code:
                return 1
            if not producers and num_killed >= kills and not is_final:
                is_final = True
                place.tell("final", "")
            elif not producers and not is_final:
                # Work for the maintenance that is yet to be killed.
                producers.add(forked(lambda: produce_by_pylance(place, 10, 0)))
    finally:
        for child in readers | producers | maintainers:
            os.kill(child, signal.SIGKILL)
    place.tell("killed", str(num_killed))
    return 0


if __name__ == "__main__":
    _, folder, seed, operations, seconds, kills = sys.argv
    sys.exit(main(folder, int(seed), int(operations), float(seconds), int(kills)))
