"""Start of a service: budgets from the environment, and warming up."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path

# Modules that calls load after `warm_up` are told.
CALLS = """
import asyncio, sys
import alance

async def main(uri):
    rows = {"id": list(range(100)), "name": ["some words"] * 100}
    dataset = await alance.write_dataset(rows, uri)
    dataset = await dataset.create_scalar_index("id", "BTREE")

async def serve(uri):
    await alance.warm_up()
    dataset = await alance.dataset(uri)
    before = set(sys.modules)
    assert await dataset.get(7, "id") == {"id": 7, "name": "some words"}
    assert (await dataset.to_table(filter="id < 5 AND name LIKE 's%'")).num_rows == 5
    assert (await dataset.search_text(alance.MatchQuery("words", "name"), k=3)).num_rows == 3
    async with alance.ingest(uri) as sink:
        await sink.write({"id": [100], "name": ["more"]}, token="a")
    dataset = await dataset.checkout_latest()
    assert await dataset.count_rows() == 101
    print(*sorted(set(sys.modules) - before))

asyncio.run((main if sys.argv[1] == "write" else serve)(sys.argv[2]))
"""

BUDGETS = {
    "ALANCE_CACHE_BYTES": ("1MiB", "_cache_bytes", 1 << 20),
    "ALANCE_IO_BUFFER_BYTES": ("64M", "io_buffer_bytes", 64 << 20),
    "ALANCE_BLOCK_CACHE_BYTES": ("0", "_block_cache_bytes", 0),
    "ALANCE_MAX_REQUESTS": ("17", "_max_requests", 17),
    "ALANCE_DECODE_THREADS": ("3", "decode_threads", 3),
}


@pytest.mark.parametrize("variable", BUDGETS)
def test_a_budget_is_taken_from_the_environment_unless_it_is_given(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, attribute, value = BUDGETS[variable]
    monkeypatch.setenv(variable, text)
    assert getattr(alance.Session(), attribute) == value
    name = variable.removeprefix("ALANCE_").lower()
    entries: dict[str, Any] = {name: 5}
    assert getattr(alance.Session(**entries), attribute) == 5


def test_times_and_the_disk_cache_are_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ALANCE_TIMEOUT", "30")
    monkeypatch.setenv("ALANCE_CONNECT_TIMEOUT", "2.5")
    monkeypatch.setenv("ALANCE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ALANCE_CACHE_DIR_BYTES", "2GiB")
    session = alance.Session()
    assert (session._limits.timeout_s, session._limits.connect_s) == (30.0, 2.5)
    assert session._disk is not None


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ALANCE_CACHE_BYTES", "many"),
        ("ALANCE_CACHE_BYTES", "-5"),
        ("ALANCE_MAX_REQUESTS", "1.5"),
        ("ALANCE_MAX_REQUESTS", "0"),
        ("ALANCE_TIMEOUT", "nan"),
        ("ALANCE_TIMEOUT", "1m"),
    ],
)
def test_a_variable_with_another_kind_of_value_is_refused(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(alance.InvalidInputError, match=variable[7:].lower() + "|" + variable):
        alance.Session()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cache_bytes", "1GiB"),
        ("io_buffer_bytes", 1e9),
        ("max_requests", "8"),
        ("decode_threads", 1.5),
        ("timeout", "30"),
        ("cache_dir", 5),
    ],
)
def test_an_argument_with_another_kind_of_value_is_refused(name: str, value: Any) -> None:
    with pytest.raises(alance.InvalidInputError, match=f"{name}={value!r}"):
        alance.Session(**{name: value})


def test_nothing_is_imported_after_the_warm_up(tmp_path: Path) -> None:
    for what in ("write", "serve"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", CALLS, what, tmp_path / "table"],
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


async def test_the_warm_up_starts_the_threads_of_its_session() -> None:
    async with alance.Session(decode_threads=2) as other:
        await other.engine.pool.run(int)  # whose threads are those that the next might have
    async with alance.Session(decode_threads=3) as session:
        before = set(threading.enumerate())  # an `ident` is given again
        await alance.warm_up(session=session)
        started = set(threading.enumerate()) - before
        assert sum(thread.name.startswith("alance-decode") for thread in started) == 3
        await alance.warm_up(session=session)
