"""Tables that are written once, opened from wherever they lie."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pytest
from obstore.store import MemoryStore

import alance
from tests.parity.stored import Stored, Writer
from tests.parity.tables import write_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from lance import LanceDataset

    from alance.testing.lab import Lab


class Tables:
    """Tables as pylance wrote them, on the lab's disk: there they are local, too."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._memories: dict[str, MemoryStore] = {}
        self._stored: dict[str, Stored] = {}

    def path(self, version: str, size: str, history: str) -> Path:
        """The folder of a table, which is written when first asked for."""
        path = Path(self.lab.root) / "lab" / f"parity {version} {size} {history}.lance"
        if not path.exists():
            write_table(path, version, size, history)
            self.lab.rescan()
        return path

    def copy(self, path: Path, target: Path) -> Path:
        """A copy of a table, to change."""
        shutil.copytree(path, target)
        return target

    def theirs(self, path: Path) -> LanceDataset:
        """The table as pylance opens it."""
        return lance.dataset(path)

    async def stored(self, case: Mapping[str, str]) -> Stored:
        """A table with its model, which is written when first asked for."""
        names = [case[name] for name in ("version", "kind", "shape", "history", "writer")]
        name = f"stored {' '.join(names)}.lance"
        if name not in self._stored:
            path = Path(self.lab.root) / "lab" / name
            self._stored[name] = await Writer(path, dict(case)).write()
            self.lab.rescan()
        return self._stored[name]

    async def file(
        self, table: Path, place: str, path: str, session: alance.Session
    ) -> alance.FileReader:
        """A data file, by its path in a table, as alance opens it there."""
        if place == "local":
            return await alance.FileReader.open(table / path, session=session)
        if place == "lab":
            options = self.lab.lance_options()
            uri = f"s3://lab/{table.name}/{path}"
            return await alance.FileReader.open(uri, storage_options=options, session=session)
        return await alance.FileReader.open(f"t/{path}", store=self._memory(table), session=session)

    @asynccontextmanager
    async def ours(self, path: Path, place: str) -> AsyncIterator[alance.Dataset]:
        """The table as alance opens it there, in a session that knows nothing."""
        async with alance.Session() as session:
            if place == "local":
                yield await alance.dataset(path, session=session)
            elif place == "lab":
                options = self.lab.lance_options()
                uri = f"s3://lab/{path.name}"
                yield await alance.dataset(uri, storage_options=options, session=session)
            else:
                yield await alance.dataset("t", store=self._memory(path), session=session)

    def _memory(self, path: Path) -> MemoryStore:
        if path.name not in self._memories:
            store = self._memories[path.name] = MemoryStore()
            for file in path.rglob("*"):
                if file.is_file():
                    store.put(f"t/{file.relative_to(path)}", file.read_bytes())
        return self._memories[path.name]


@pytest.fixture(scope="session")
def _tables(lab_server: Lab) -> Tables:
    return Tables(lab_server)


@pytest.fixture
def tables(lab: Lab, _tables: Tables) -> Tables:
    """Tables on the lab, in fine weather."""
    return _tables
