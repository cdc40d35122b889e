"""The plugin that makes tests fail which stand on chance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHANCE = """
import asyncio

async def test_it_is_asked_before_it_is_done():
    done, begun = [], asyncio.Event()

    async def work():
        begun.set()
        await asyncio.sleep(0)
        done.append(1)

    task = asyncio.create_task(work())
    await begun.wait()
    assert not done
    await task

async def test_a_thread_is_done_soon():
    done = []
    waiting = [asyncio.ensure_future(asyncio.to_thread(done.append, 1)) for _ in range(60)]
    await asyncio.sleep(0.05)
    assert len(done) == 60
    await asyncio.gather(*waiting)

async def test_it_waits_for_what_it_counts():
    done = []
    await asyncio.gather(*(asyncio.to_thread(done.append, 1) for _ in range(20)))
    assert len(done) == 20
"""


@pytest.mark.parametrize(
    ("mode", "failing"),
    [("quiet", "test_it_is_asked_before_it_is_done"), ("slow", "test_a_thread_is_done_soon")],
)
def test_a_test_that_stands_on_chance_fails(tmp_path: Path, mode: str, failing: str) -> None:
    (tmp_path / "test_chance.py").write_text(CHANCE)
    plugins = ["-p", "tests.reference.chaos", "-p", "no:cacheprovider"]
    options = ["-o", "asyncio_mode=auto", "-q", "-k", f"{failing} or waits_for"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, f"--rootdir={tmp_path}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CHAOS": mode},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    failures = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert len(failures) == 1, done.stdout
    assert failing in failures[0]
    assert "1 failed, 1 passed" in done.stdout
