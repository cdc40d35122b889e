"""Tables put on the lab, opened there, and read beside pylance."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance

import alance

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from alance.testing.lab import Lab, Recording


def serve(lab: Lab, path: Path) -> str:
    """Put a table on the lab, if it is not there yet, and let it tell rounds; the table's URI."""
    target = on_disk(lab, path.name)
    if not target.exists():
        shutil.copytree(path, target)
        lab.rescan()
    lab.config(waits_for=os.getpid())
    return f"s3://lab/{path.name}"


def on_disk(lab: Lab, name: str) -> Path:
    """The folder of a table on the lab."""
    return Path(lab.root) / "lab" / name


def data_bytes(lab: Lab, name: str) -> int:
    """Return the total bytes of the data files of a table on the lab."""
    return sum(path.stat().st_size for path in (on_disk(lab, name) / "data").iterdir())


@asynccontextmanager
async def opened_on(lab: Lab, uri: str, **limits: Any) -> AsyncIterator[alance.Dataset]:
    """A table that is on the lab, in a session of its own with these limits."""
    async with alance.Session(**limits) as session:
        yield await alance.dataset(uri, storage_options=lab.lance_options(), session=session)


@asynccontextmanager
async def served(lab: Lab, path: Path) -> AsyncIterator[alance.Dataset]:
    """A table put on the lab, which tells rounds, in a session of its own."""
    async with opened_on(lab, serve(lab, path)) as dataset:
        yield dataset


def by_pylance(lab: Lab, uri: str) -> lance.LanceDataset:
    """The table as pylance opens it."""
    return lance.dataset(uri, storage_options=lab.lance_options())


def num_requests(seen: Recording) -> int:
    """Count the requests that the client sent to the store."""
    return len([record for record in seen.records if "op" in record])


def drawn_rows(column: str, num_rows: int) -> list[int]:
    """30 rows, others for each column."""
    return sorted(random.Random(column).sample(range(num_rows), 30))


async def check_take(
    lab: Lab,
    dataset: alance.Dataset,
    uri: str,
    rows: Sequence[int],
    column: str,
    *,
    warm: Sequence[int],
) -> int:
    """Pylance's rows, by no more requests than its own; gives the rounds.

    Args:
        warm: rows that both take before.
    """
    theirs = by_pylance(lab, uri)
    await dataset.take(list(warm), [column])
    theirs.take(list(warm), columns=[column])
    with lab.recording() as seen:
        ours = await dataset.take(rows, [column])
    with lab.recording() as their_seen:
        table = theirs.take(list(rows), columns=[column])
    assert ours.column(0).to_pylist() == table.column(0).to_pylist()
    assert num_requests(seen) <= num_requests(their_seen)
    return seen.rounds


async def check_scan(lab: Lab, dataset: alance.Dataset, name: str, num_rows: int) -> None:
    """A scan gives all rows, and reads about the bytes of the files."""
    total = data_bytes(lab, name)
    with alance.trace() as recorder:
        table = await dataset.to_table()
    assert table.num_rows == num_rows
    assert recorder.num_bytes < 1.2 * total


def rule_name(rule: dict[str, Any]) -> str:
    """The name of a rule of the lab's weather, for a test's."""
    return f"{rule['action']}{rule.get('status', '')}"
