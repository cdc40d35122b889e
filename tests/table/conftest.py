"""Tables with a history, as pylance writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from alance.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from alance.io.trace import Recorder


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    """A session of the test's own: nothing is cached."""
    async with Session() as made:
        yield made


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"a": range(start, stop), "b": [str(n) for n in range(start, stop)]})


@dataclass(frozen=True)
class History:
    """A dataset: version 1 rows 0-9, 2 rows 10-14 more, 3 without row 3, 4 without column b."""

    path: str
    lance: lance.LanceDataset

    def at(self, version: int) -> lance.LanceDataset:
        return self.lance.checkout_version(version)


def make_history(folder: Path, **options: object) -> History:
    path = str(folder / "t.lance")
    lance.write_dataset(numbers(0, 10), path, commit_message="first", **options)  # type: ignore[arg-type]
    lance.write_dataset(numbers(10, 15), path, mode="append", **options)  # type: ignore[arg-type]
    lance.dataset(path).delete("a = 3")
    lance.dataset(path).drop_columns(["b"])
    return History(path, lance.dataset(path))


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return make_history(tmp_path_factory.mktemp("history"))


def asked(recorder: Recorder) -> list[str]:
    """The kinds of the requests: `get` for whole objects, ranges and tails."""
    return kinds(event.kind for event in recorder.events)


def kinds(found: Iterable[str]) -> list[str]:
    return sorted("get" if kind == "tail" else kind for kind in found)
