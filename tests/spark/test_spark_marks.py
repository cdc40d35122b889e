"""Marks of commits on the driver: how long they tell, and that they go. Without a session."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest

from alance.spark import committing as marks

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clock:
    result = Clock()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(marks, "time", result)
    return result


def files(folder: Path) -> list[str]:
    return sorted(name for _, _, names in os.walk(folder) for name in names)


def test_a_mark_tells_of_a_commit_that_was_begun(clock: Clock) -> None:
    assert not marks.may_be_committed("a")
    marks.begin_commit("a")
    clock.now += 3600
    assert marks.may_be_committed("a")
    marks.not_committed("a")
    assert not marks.may_be_committed("a")


def test_a_mark_outlives_its_success_by_minutes(clock: Clock, tmp_path: Path) -> None:
    marks.begin_commit("a")
    clock.now += 3600
    marks.committed("a")
    clock.now += 600
    assert marks.may_be_committed("a")
    clock.now += 1800
    assert not marks.may_be_committed("a")
    marks.begin_commit("b")
    assert files(tmp_path) == ["b"]


def test_marks_are_those_of_the_last_minutes_and_of_killed_commits(
    clock: Clock, tmp_path: Path
) -> None:
    marks.begin_commit("killed")
    for number in range(1000):
        marks.begin_commit(f"job {number}")
        marks.committed(f"job {number}")
        clock.now += 60
    assert len(files(tmp_path)) <= 1 + 40
    assert marks.may_be_committed("killed")
    clock.now += 86400
    marks.begin_commit("last")
    assert files(tmp_path) == ["last"]


def test_a_commit_looks_at_no_other_mark(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        marks.begin_commit(f"killed {number}")
    seen: list[str] = []
    real = os.stat

    def stat(path: str | Path, *more: object, **options: object) -> os.stat_result:
        seen.append(str(path))
        return real(path, *more, **options)

    monkeypatch.setattr(os, "stat", stat)
    marks.begin_commit("new")
    marks.committed("new")
    assert not any("killed" in path for path in seen)
