"""Searches for near vectors: alance, pylance and LanceDB on one table, faiss on its vectors."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, Protocol

import lance
import numpy as np
import numpy.typing as npt

from benchmarks.data import FOLDER, VECTOR_INDICES
from benchmarks.sides import Ours, Theirs, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from alance.testing.lab import Lab

Vector = npt.NDArray[np.float32]
Vectors = npt.NDArray[np.float32]  # of shape (queries, dimension)

K: Final = 10
SIDES: Final = ("alance", "pylance", "lancedb", "faiss")
_faiss: dict[str, Faiss] = {}  # by the table: trained once


class Searcher(Protocol):
    """Protocol of one side."""

    async def ask(self, query: Vector, **options: Any) -> set[int]:
        """Return the ids of the rows that a search finds; options are named as in pylance."""
        ...

    async def crowd(self, queries: Sequence[Vector], callers: int, **options: Any) -> None:
        """Run all queries by `callers` concurrent callers."""
        ...


class Alance(Ours[Vector]):
    """Searches by alance."""

    async def ask(self, query: Vector, **options: Any) -> set[int]:
        """Return the ids of the rows that a search finds."""
        rows = await self.dataset.nearest("vec", query, K, columns=["id"], **options)
        return set(rows["id"].to_pylist())


class Pylance(Theirs[Vector]):
    """Searches by pylance."""

    def find(self, query: Vector, **options: Any) -> set[int]:
        """Return the ids of the rows that a search finds."""
        nearest = {"column": "vec", "q": query, "k": K, **options}
        rows = self.dataset.to_table(["id", "_distance"], nearest=nearest)
        return set(rows["id"].to_pylist())

    async def ask(self, query: Vector, **options: Any) -> set[int]:
        """Search in a thread; return the ids of the rows."""
        return await asyncio.to_thread(self.find, query, **options)


class LanceDB(Ours[Vector]):
    """Searches by LanceDB, whose crowds are tasks, too; its dataset is a table of a database."""

    dataset: Any

    async def ask(self, query: Vector, **options: Any) -> set[int]:
        """Return the ids of the rows that a search finds."""
        search = self.dataset.query().nearest_to(query).column("vec").limit(K)
        search = search.nprobes(options["nprobes"]).select(["id", "_distance"])
        if options.get("refine_factor"):
            search = search.refine_factor(options["refine_factor"])
        return set((await search.to_arrow())["id"].to_pylist())


class Faiss(Theirs[Vector]):
    """Searches of an IVF_PQ in memory, by faiss."""

    dataset: Any

    def __init__(self, path: Path, nlist: int, codes: int) -> None:
        import faiss

        self._ids, self._values = values_of(path)
        dim = self._values.shape[1]
        self._index = faiss.IndexIVFPQ(faiss.IndexFlatL2(dim), dim, nlist, codes, 8)
        self._index.train(self._values[:: max(1, len(self._values) // (256 * nlist))])
        self._index.add(self._values)

    def find(self, query: Vector, **options: Any) -> set[int]:
        """Return the ids of the rows that a search finds."""
        self._index.nprobe = options["nprobes"]
        count = K * (options.get("refine_factor") or 1)
        places = self._index.search(query[None], count)[1][0]
        places = places[places >= 0]
        if count > K:
            far = ((self._values[places] - query) ** 2).sum(axis=1)
            places = places[np.argsort(far)[:K]]
        return set(self._ids[places].tolist())

    async def ask(self, query: Vector, **options: Any) -> set[int]:
        """Search in the calling thread; return the ids of the rows."""
        return self.find(query, **options)


def values_of(path: Path) -> tuple[npt.NDArray[np.int64], Vectors]:
    """Return the ids and the vectors of a table."""
    rows = lance.dataset(str(path)).to_table(["id", "vec"])
    values = np.concatenate([chunk.flatten().to_numpy() for chunk in rows["vec"].chunks])
    return rows["id"].to_numpy(), values.reshape(len(rows), -1)


def dimension(path: Path) -> int:
    """Return the dimension of the vectors of a table."""
    return int(lance.dataset(str(path)).schema.field("vec").type.list_size)


def truth(path: Path, queries: Vectors) -> list[set[int]]:
    """Return the ids of the nearest rows of each query, by comparing all vectors."""
    ids, values = values_of(path)
    squares = (values**2).sum(axis=1)
    return [
        set(ids[np.argpartition(squares - 2 * values @ query, K)[:K]].tolist()) for query in queries
    ]


@contextlib.asynccontextmanager
async def searchers(path: Path, lab: Lab | None) -> AsyncIterator[dict[str, Searcher]]:
    """Open all sides by name, each in its own session; faiss only for local tables."""
    import lancedb

    folder, options = str(path.parent), None
    if lab is not None:
        folder, options = f"s3://{FOLDER.name}", lab.lance_options()
    database = await lancedb.connect_async(folder, storage_options=options)
    async with opened(f"{folder}/{path.name}", options, Alance, Pylance) as sides:
        others = {"lancedb": LanceDB(await database.open_table(path.stem))}
        if lab is None:
            others["faiss"] = _trained(path)
        yield {**sides, **others}


def _trained(path: Path) -> Faiss:
    if str(path) not in _faiss:
        sizes = VECTOR_INDICES[path.stem.partition("-")[0]][1]
        _faiss.clear()  # one table's vectors at a time
        _faiss[str(path)] = Faiss(path, sizes["num_partitions"], sizes["num_sub_vectors"])
    return _faiss[str(path)]
