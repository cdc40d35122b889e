"""Numbers of requests and rounds on an object store, as the server counts them."""

from __future__ import annotations

import asyncio
import random
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.io.stores.profile import S3
from tests.reference.served import data_bytes, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.testing.lab import Lab, Record, Recording

FILES, ROWS = 6, 60_000  # rows a file


def wide_table(rows: int, seed: int) -> pa.Table:
    """Sixteen columns as lineitem has them: keys, numbers, flags, dates, text."""
    rng = np.random.default_rng(seed)
    words = np.array(["carefully", "final", "deposits", "sleep", "quickly", "ironic", "above"])
    columns: dict[str, pa.Array] = {}
    for number in range(4):
        columns[f"key{number}"] = pa.array(rng.integers(0, 1 << 40, rows))
    for number in range(4):
        cents = rng.integers(0, 10_000_000, rows)
        columns[f"amount{number}"] = pa.array(cents / 100)
    for number in range(3):
        columns[f"day{number}"] = pa.array(rng.integers(8000, 11000, rows).astype("int32"))
    for number in range(3):
        columns[f"flag{number}"] = pa.array(words[rng.integers(0, 4, rows)])
    for number in range(2):
        picked = words[rng.integers(0, len(words), (rows, 5))]
        texts = [f"{' '.join(row)} {n}" for n, row in enumerate(picked)]
        columns[f"text{number}"] = pa.array(texts)
    return pa.table(columns)


@dataclass
class WatchedRequests:
    """Requests of a piece of code, as the server saw them."""

    seen: Recording
    recorder: alance.Recorder

    @property
    def records(self) -> list[Record]:
        return self.seen.records

    @property
    def operations(self) -> list[str]:
        return [str(record["op"]).lower() for record in self.records]

    def __len__(self) -> int:
        return len(self.records)


class Server:
    """The lab with a table of six files, and a way to watch it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.uri = "s3://lab/wide.lance"
        self.sessions: list[alance.Session] = []

    async def open(self, **options: object) -> alance.Dataset:
        session = alance.Session()
        self.sessions.append(session)
        return await alance.dataset(
            self.uri,
            storage_options=self.lab.lance_options(),
            session=session,
            **options,  # type: ignore[arg-type]
        )

    async def watch(self, awaitable: object) -> WatchedRequests:
        with self.lab.recording() as seen, alance.trace() as recorder:
            await awaitable  # type: ignore[misc]
        return WatchedRequests(seen, recorder)


@pytest.fixture(scope="module")
def _wide_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "wide.lance"
    for number in range(FILES):
        lance.write_dataset(wide_table(ROWS, number), path, mode="append" if number else "create")
    return path


@pytest.fixture
async def server(lab: Lab, _wide_table: Path) -> AsyncIterator[Server]:
    serve(lab, _wide_table)
    server = Server(lab)
    yield server
    for session in server.sessions:
        await session.aclose()


async def test_opening_costs_a_list_and_a_get(server: Server) -> None:
    requests = await server.watch(server.open())
    assert requests.operations == ["list", "get"]
    assert requests.seen.rounds == 2


async def test_a_named_version_costs_a_get(server: Server) -> None:
    requests = await server.watch(server.open(version=3))
    assert requests.operations == ["get"]


async def test_a_large_manifest_costs_one_get(lab: Lab, tmp_path: Path) -> None:
    uri = str(tmp_path / "many")
    lance.write_dataset(pa.table({"x": range(3000)}), uri, max_rows_per_file=1)
    manifest = max(
        (Path(uri) / "_versions").glob("*.manifest"), key=lambda item: item.stat().st_size
    )
    assert manifest.stat().st_size > 64 << 10
    shutil.copytree(uri, Path(lab.root) / "lab" / "many.lance")
    lab.rescan()
    server = Server(lab)
    server.uri = "s3://lab/many.lance"
    requests = await server.watch(server.open())
    assert requests.operations == ["list", "get"]
    await server.sessions[0].aclose()


async def test_a_cold_take_of_a_row_costs_four_rounds_with_list_and_manifest(
    server: Server,
) -> None:
    async def cold() -> None:
        dataset = await server.open()
        await dataset.take([123_456])

    requests = await server.watch(cold())
    assert requests.operations.count("list") == 1
    assert requests.seen.rounds <= 4
    assert len(requests) <= 3 + 16


async def test_a_warm_take_of_a_row_costs_one_round(server: Server) -> None:
    dataset = await server.open()
    await dataset.take([200_000])
    requests = await server.watch(dataset.take([230_000]))
    assert requests.seen.rounds == 1
    assert len(requests) <= 16


async def test_rows_that_were_read_cost_nothing(server: Server) -> None:
    dataset = await server.open()
    table = await dataset.take([200_000, 7])
    again = await server.watch(dataset.take([7, 200_000]))
    assert len(again) == 0
    assert (await dataset.take([200_000, 7])).equals(table)


async def test_other_columns_of_an_open_handle_cost_one_round(server: Server) -> None:
    dataset = await server.open()
    await dataset.take([7], ["key0", "amount1"])
    requests = await server.watch(dataset.take([7], ["day2", "flag0", "key3"]))
    assert requests.seen.rounds == 1


def spans(request: WatchedRequests) -> set[tuple[str, int, int]]:
    return {(event.location, event.start, event.stop) for event in request.recorder.events}


@pytest.mark.parametrize(("count", "is_guessed"), [(1, True), (5, False)])
async def test_what_is_read_in_vain_saves_a_round_of_few_values_only(
    server: Server, count: int, is_guessed: bool
) -> None:
    rows = [*range(5, 50_000, 11_000)][:count]  # of sixteen columns
    dataset = await server.open()
    cold = await server.watch(dataset.take(rows))
    warm = await server.watch(dataset.take(rows))
    assert cold.seen.rounds == (2 if is_guessed else 3)  # the first one is of a file's end
    assert is_guessed or spans(warm) < spans(cold)


async def test_many_rows_in_one_wave_and_the_fewest_requests(server: Server) -> None:
    rows = sorted(random.Random(4).sample(range(FILES * ROWS), 100))
    dataset = await server.open()
    cold = await server.watch(dataset.take(rows))
    assert cold.seen.rounds <= 3
    others = sorted(random.Random(5).sample(range(FILES * ROWS), 100))
    warm = await server.watch(dataset.take(others))
    assert warm.seen.rounds == 1
    spans: dict[str, list[tuple[int, int]]] = {}
    for event in warm.recorder.events:
        spans.setdefault(event.location, []).append((event.start, event.stop))
    for span in spans.values():
        span.sort()
        for (_, stop), (start, _) in pairwise(span):
            assert start - stop > S3.take_gap, "two requests that one could have served"
    theirs = lance.dataset(server.uri, storage_options=server.lab.lance_options())
    theirs.take(rows)
    with server.lab.recording() as seen:
        theirs.take(others)
    assert len(warm) * 2 <= len([record for record in seen.records if "op" in record])


async def test_concurrent_callers_share_requests(server: Server) -> None:
    dataset = await server.open()
    await dataset.take([0], ["key0"])

    async def many() -> None:
        await asyncio.gather(*(dataset.take([n], ["key0"]) for n in range(64)))

    requests = await server.watch(many())
    assert len(requests) <= 2


async def test_a_scan_reads_ahead_in_large_requests(server: Server) -> None:
    dataset = await server.open()
    total = data_bytes(server.lab, "wide.lance")
    requests = await server.watch(dataset.to_table())
    assert requests.recorder.num_bytes < 1.3 * total
    assert len(requests) <= 12 * FILES


async def test_counting_rows_reads_nothing(server: Server) -> None:
    dataset = await server.open()
    requests = await server.watch(dataset.count_rows())
    assert len(requests) == 0


async def test_checking_out_the_latest_version_again_costs_a_list(server: Server) -> None:
    dataset = await server.open()
    requests = await server.watch(dataset.checkout_latest())
    assert requests.operations == ["list"]
