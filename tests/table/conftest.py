"""Tables with a history, as pylance writes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pytest

from alance.format.table.manifest import (
    MANIFEST_FOOTER,
    MANIFEST_MAGIC,
    SECTION_LENGTH,
    parse_manifest,
)
from alance.session import Session
from tests.reference.shapes import numbers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from lance import LanceDataset

    from alance.format.proto import table_pb2
    from alance.io.events.trace import RequestRecorder


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    """A session of the test's own: nothing is cached."""
    async with Session() as result:
        yield result


@dataclass(frozen=True)
class History:
    """A dataset: version 1 rows 0-9, 2 rows 10-14 more, 3 without row 3, 4 without column b."""

    path: str
    lance: LanceDataset

    def at(self, version: int) -> LanceDataset:
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


def request_kinds(recorder: RequestRecorder) -> list[str]:
    """The kinds of the requests: `get` for whole objects, ranges and tails."""
    return kinds(event.kind for event in recorder.events)


def kinds(names: Iterable[str]) -> list[str]:
    return sorted("get" if kind == "tail" else kind for kind in names)


def edit_manifest(path: str, edit: Callable[[table_pb2.Manifest], None]) -> None:
    """Change the latest manifest (V2 names) of a dataset in place; its other sections go."""
    file = min((Path(path) / "_versions").glob("*.manifest"))
    message = parse_manifest(memoryview(file.read_bytes()), "m").message
    message.ClearField("transaction_section")
    message.ClearField("index_section")
    edit(message)
    content = message.SerializeToString()
    file.write_bytes(
        SECTION_LENGTH.pack(len(content)) + content + MANIFEST_FOOTER.pack(0, 0, 2, MANIFEST_MAGIC)
    )
