"""Cases: each does the same work with alance, pylance and, if Vortex supports it, Vortex."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import vortex
import vortex.expr as ve

import alance
from benchmarks.data import PIECE_ROWS, near_directions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import numpy.typing as npt


@dataclass(frozen=True)
class Opened:
    """A table, opened by all libraries, and the storage options with which it was opened.

    Attributes:
        open_vortex: opens the Vortex file again, without any cached metadata or segments.
        number: number of the round; each round requests other rows and uses other queries.
    """

    uri: str
    ours: alance.Dataset
    theirs: lance.LanceDataset
    options: dict[str, str] | None
    count: int
    vortex: vortex.VortexFile
    open_vortex: Callable[[], vortex.VortexFile]
    number: int = 0


@dataclass(frozen=True)
class Case:
    """Work that all sides do.

    Attributes:
        target: intended ratio of wall times, alance to pylance; None: no target.
        vortex: the same work with Vortex; None: Vortex does not support it.
        mbps: MB/s of all connections of the lab together; 0: no limit.
        calls: number of calls of a crowd of callers, whose work returns `Waits`; 0 for other work.
        is_cached: True if alance keeps the bytes that it reads for later rounds (takes of a store).
            Only then does Vortex, too.
    """

    name: str
    table: str
    ours: Callable[[Opened], Awaitable[Any]]
    theirs: Callable[[Opened], Any]
    target: float | None
    remote: bool = False
    vortex: Callable[[Opened], Any] | None = None
    mbps: int = 0
    calls: int = 0
    is_cached: bool = False

    @property
    def label(self) -> str:
        """Name of the case: place, table and work."""
        lab = f"lab {self.mbps} MB/s" if self.mbps else "lab"
        return f"{lab if self.remote else 'local'} {self.table} {self.name}"


def rows(opened: Opened, count: int) -> list[int]:
    """Return random row numbers, the same for all sides of a round."""
    rng = np.random.default_rng((count, opened.number))
    return rng.integers(0, opened.count, count).tolist()


async def scan(opened: Opened, **options: Any) -> int:
    """Scan and drop the batches; return the number of rows."""
    total = 0
    async for batch in opened.ours.to_batches(**options):
        total += batch.num_rows
    return total


def their_scan(opened: Opened, **options: Any) -> int:
    """Do the work of `scan` with pylance."""
    return sum(batch.num_rows for batch in opened.theirs.scanner(**options).to_batches())


def vortex_scan(
    opened: Opened, columns: list[str] | None = None, condition: ve.Expr | None = None
) -> int:
    """Do the work of `scan` with Vortex, to the same Arrow types."""
    schema = opened.theirs.schema
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    reader = opened.vortex.to_arrow(columns, expr=condition, schema=schema)
    return sum(batch.num_rows for batch in reader)


def scans(
    name: str,
    table: str,
    target: float | None,
    *,
    remote: bool = False,
    condition: ve.Expr | None = None,
    **options: Any,
) -> Case:
    """Return the case of a scan; `condition` is the filter as an expression of Vortex."""
    return Case(
        name,
        table,
        lambda opened: scan(opened, **options),
        lambda opened: their_scan(opened, **options),
        target,
        remote,
        lambda opened: vortex_scan(opened, options.get("columns"), condition),
    )


def long_filters(name: str, table: str, text: str, columns: list[str]) -> Case:
    """Return the case of a scan with a filter of many values."""
    return Case(
        name,
        table,
        lambda opened: scan(opened, filter=text, columns=columns),
        lambda opened: their_scan(opened, filter=text, columns=columns),
        None,
    )


def vortex_rows(
    opened: Opened,
    file: vortex.VortexFile,
    picked: npt.ArrayLike,
    columns: list[str] | None,
) -> pa.Table:
    """Take rows with Vortex, in the order of `picked`.

    Vortex itself takes only ascending row numbers without duplicates.
    """
    distinct, back = np.unique(np.asarray(picked, np.uint64), return_inverse=True)
    schema = opened.theirs.schema
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    indices = vortex.array(pa.array(distinct))
    return file.to_arrow(columns, indices=indices, schema=schema).read_all().take(back)


def takes(
    name: str,
    table: str,
    count: int,
    target: float | None,
    columns: list[str] | None = None,
    *,
    remote: bool = False,
    again: bool = False,
) -> Case:
    """Return the case of a take of random rows by an open handle.

    Each round takes other rows; with `again`, all rounds take the same rows.
    """

    def first(opened: Opened) -> Opened:
        return replace(opened, number=0) if again else opened

    return Case(
        name,
        table,
        lambda opened: opened.ours.take(rows(first(opened), count), columns),
        lambda opened: opened.theirs.take(rows(first(opened), count), columns),
        target,
        remote,
        lambda opened: vortex_rows(opened, opened.vortex, rows(first(opened), count), columns),
        is_cached=remote,
    )


async def cold_take(opened: Opened, count: int, columns: list[str] | None = None) -> pa.Table:
    """Open the table in a new session without cached metadata, and take rows."""
    async with alance.Session() as session:
        dataset = await alance.dataset(opened.uri, storage_options=opened.options, session=session)
        return await dataset.take(rows(opened, count), columns)


def their_cold_take(opened: Opened, count: int, columns: list[str] | None = None) -> pa.Table:
    """Do the work of `cold_take` with pylance."""
    session = lance.Session()
    dataset = lance.dataset(opened.uri, storage_options=opened.options, session=session)
    return dataset.take(rows(opened, count), columns)


def cold(
    name: str,
    table: str,
    count: int,
    target: float | None,
    columns: list[str] | None = None,
    *,
    remote: bool = False,
) -> Case:
    """Return the case of opening a table and taking rows."""
    return Case(
        name,
        table,
        lambda opened: cold_take(opened, count, columns),
        lambda opened: their_cold_take(opened, count, columns),
        target,
        remote,
        lambda opened: vortex_rows(opened, opened.open_vortex(), rows(opened, count), columns),
        is_cached=remote,
    )


def queries(opened: Opened) -> npt.NDArray[np.float32]:
    """Return twenty query vectors, the same for all sides of a round."""
    return near_directions(20, seed=600 + opened.number)


async def searches(opened: Opened, **options: Any) -> None:
    """Run twenty searches, one after the other, on an open handle."""
    for query in queries(opened):
        await opened.ours.nearest("vec", query, 10, columns=["id"], **options)


def their_searches(opened: Opened, **options: Any) -> None:
    """Do the work of `searches` with pylance."""
    for query in queries(opened):
        nearest = {"column": "vec", "q": query, "k": 10, **options}
        opened.theirs.to_table(columns=["id", "_distance"], nearest=nearest)


def search(
    name: str,
    target: float | None,
    *,
    table: str = "vectors",
    remote: bool = False,
    **options: Any,
) -> Case:
    """Return the case of twenty vector searches, with other queries in each round."""
    return Case(
        f"20 searches, {name}",
        table,
        lambda opened: searches(opened, **options),
        lambda opened: their_searches(opened, **options),
        target,
        remote,
    )


async def count(opened: Opened, condition: str, *, is_new: bool) -> int:
    """Count the rows that match a filter, by the open handle or in a new session."""
    if not is_new:
        return await opened.ours.count_rows(condition)
    async with alance.Session() as session:
        dataset = await alance.dataset(opened.uri, storage_options=opened.options, session=session)
        return await dataset.count_rows(condition)


async def look_up(opened: Opened, condition: str, *, is_new: bool) -> pa.Table:
    """Read all columns of the rows that match a filter, by the open handle or in a new session."""
    if not is_new:
        return await opened.ours.to_table(filter=condition)
    async with alance.Session() as session:
        dataset = await alance.dataset(opened.uri, storage_options=opened.options, session=session)
        return await dataset.to_table(filter=condition)


def their_handle(opened: Opened, *, is_new: bool) -> lance.LanceDataset:
    """Return pylance's open handle, or a new handle in a new session."""
    if not is_new:
        return opened.theirs
    return lance.dataset(opened.uri, storage_options=opened.options, session=lance.Session())


def indexed(
    name: str, condition: str, target: float, *, counts: bool = False, table: str = "indexed"
) -> list[Case]:
    """Return the cases of a filter that indices answer: by the open handle and by a new one."""

    def case(where: str, is_new: bool) -> Case:
        def theirs(opened: Opened) -> object:
            dataset = their_handle(opened, is_new=is_new)
            if counts:
                return dataset.count_rows(condition)
            return dataset.to_table(filter=condition)

        ours = count if counts else look_up
        return Case(
            f"{name}{where}",
            table,
            lambda opened: ours(opened, condition, is_new=is_new),
            theirs,
            target,
        )

    return [case("", False), case(", new handle", True)]


async def take_of_each(opened: Opened) -> None:
    """Take a row of each fragment, in a new session without cached metadata."""
    async with alance.Session() as session:
        dataset = await alance.dataset(opened.uri, session=session)
        await dataset.take(range(37, opened.count, PIECE_ROWS))


def their_take_of_each(opened: Opened) -> None:
    """Do the work of `take_of_each` with pylance."""
    their_handle(opened, is_new=True).take([*range(37, opened.count, PIECE_ROWS)])


def day(year: int, month: int, number: int) -> ve.Expr:
    """Return a date as a literal of Vortex."""
    return ve.literal(vortex.date("days"), date(year, month, number))


PERCENT: Final = "l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-26'"
VORTEX_PERCENT: Final = ve.and_(
    ve.gt_eq(ve.column("l_shipdate"), day(1994, 1, 1)),
    ve.lt(ve.column("l_shipdate"), day(1994, 1, 26)),
)
LIMIT_MBPS: Final = 200
KEY: Final = "l_orderkey = 2998466"
VORTEX_KEY: Final = ve.eq(ve.column("l_orderkey"), ve.literal(vortex.int_(64), 2998466))
THREE: Final = ["l_orderkey", "l_extendedprice", "l_shipdate"]
LISTS: Final = ["tags", "scores"]
TENTH: Final = [f"c{number:04}" for number in range(0, 2000, 200)]
BOTS: Final = ve.eq(ve.column("bot"), ve.literal(vortex.bool_(), True))
LABEL: Final = ve.eq(ve.column("label"), ve.literal(vortex.int_(32), 7))

IDS: Final = " OR ".join(f"id = {37 * number}" for number in range(50))
PAIRS: Final = " OR ".join(
    f"(id = {37 * number} AND name = 'name {37 * number:06}')" for number in range(50)
)
KEYS: Final = " OR ".join(f"l_orderkey = {1500 * number}" for number in range(4000))
LIST: Final = f"l_orderkey IN ({', '.join(str(15 * number) for number in range(400_000))})"

ORDERS: Final = f"l_orderkey IN ({', '.join(str(59_999 * number) for number in range(1, 101))})"

CASES: Final = [
    scans("scan all", "lineitem", 0.5),
    scans("scan 2 columns", "lineitem", 0.5, columns=["l_orderkey", "l_extendedprice"]),
    scans(
        "filter 1 %, 3 columns",
        "lineitem",
        0.4,
        condition=VORTEX_PERCENT,
        columns=THREE,
        filter=PERCENT,
    ),
    *[
        scans(name, written, target, condition=condition, filter=text, columns=columns)
        for written in ("ours", "shipped")
        for name, target, condition, text, columns in (
            ("filter one order key", 0.1 if written == "ours" else None, VORTEX_KEY, KEY, None),
            ("filter 1 %, 3 columns", 0.3, VORTEX_PERCENT, PERCENT, THREE),
        )
    ],
    long_filters("filter of 50 ORs, 300 fragments", "pieces", IDS, ["id"]),
    long_filters("filter of 50 ORs of 2 columns, 300 fragments", "pieces", PAIRS, ["id"]),
    Case(
        "open and take a row of each of 300 fragments",
        "pieces",
        take_of_each,
        their_take_of_each,
        1.0,
    ),
    long_filters("filter of 4 000 ORs", "ours", KEYS, THREE),
    long_filters("filter of 400 000 values after IN", "ours", LIST, THREE),
    takes("take 10 000, all columns", "lineitem", 10_000, 0.2),
    takes("take 10 000, one column", "lineitem", 10_000, 0.2, ["l_extendedprice"]),
    takes("take 100, all columns", "lineitem", 100, 0.4),
    takes("take 1, all columns", "lineitem", 1, 0.8),
    cold("open and take 100, new handle", "lineitem", 100, 0.6),
    *indexed("count by a bitmap index", "l_shipmode = 'AIR'", 0.7, counts=True),
    *indexed(
        "count by a bitmap of row ids", "l_shipmode = 'AIR'", 0.7, counts=True, table="stable"
    ),
    *indexed("rows of one key by a B-tree", KEY, 0.7),
    *indexed("rows of 100 keys by a B-tree", ORDERS, 0.7),
    *indexed("count of a label", "array_has(tags, 'b3e9')", 0.7, counts=True, table="tagged"),
    *indexed("rows of two labels", "array_has_all(tags, ['b3e9', 'ia'])", 0.7, table="tagged"),
    *indexed("rows of a text by n-grams", "contains(url, '/b3e9/77')", 0.7, table="tagged"),
    *indexed("rows of ids by a zone map", "id between 5000 and 5010", 0.7, table="tagged"),
    *indexed("rows of a value by bloom filters", "user = 7", 0.7, table="tagged"),
    scans("scan all", "events", 0.6),
    scans("scan text and tags", "events", None, columns=["text", "tags"]),
    scans(
        "filter 2 %, text, tags, device",
        "events",
        None,
        condition=BOTS,
        columns=["text", "tags", "device"],
        filter="bot = true",
    ),
    takes("take 10 000, all columns", "events", 10_000, None),
    takes("take 100, all columns", "events", 100, 0.55),
    takes("take 1, two columns of lists", "events", 1, 0.7, LISTS),
    takes("take 10 000, two columns of lists", "events", 10_000, 0.7, LISTS),
    scans("scan all", "embeddings", 0.25),
    scans(
        "filter 1 %, vectors",
        "embeddings",
        None,
        condition=LABEL,
        columns=["vector"],
        filter="label = 7",
    ),
    takes("take 100, all columns", "embeddings", 100, 0.55),
    takes("take 10 000, vectors", "embeddings", 10_000, None, ["vector"]),
    scans("scan all, 2 000 columns", "wide", 0.7),
    scans("scan 10 of 2 000 columns", "wide", 0.7, columns=TENTH),
    takes("take 100, 2 000 columns", "wide", 100, 0.7),
    cold("open and take 1, 10 of 2 000 columns", "wide", 1, 1.0, TENTH),
    cold("open and take 1, 2 000 columns", "wide", 1, 1.0),
    scans("scan all, 300 nested columns", "nested", 0.7),
    takes("take 100, 300 nested columns", "nested", 100, 0.7),
    cold("open and take 1, 300 nested columns", "nested", 1, 1.0),
    scans("scan all, 1 000 columns", "integers", 0.7),
    scans("scan all, 3 columns", "narrow", 0.7),
    scans("scan all, 2 000 columns", "wide", 0.7, remote=True),
    search("every vector", None, use_index=False),
    search("IVF_PQ, 10 of 128 partitions", None, nprobes=10),
    search("IVF_PQ, 10 of 128 partitions, refined 10 times", None, nprobes=10, refine_factor=10),
    search("IVF_HNSW_SQ, 2 of 4 partitions, ef 15", None, table="linked", nprobes=2),
    search("IVF_HNSW_SQ, 2 of 4 partitions, ef 100", None, table="linked", nprobes=2, ef=100),
    cold("cold take 1, all columns", "lineitem", 1, 0.85, remote=True),
    cold("cold take 100, all columns", "lineitem", 100, 0.6, remote=True),
    takes("warm take 100, all columns", "lineitem", 100, 0.75, remote=True),
    takes("the same 100 again, all columns", "lineitem", 100, None, remote=True, again=True),
    takes("warm take 100, all columns", "events", 100, 0.55, remote=True),
    takes("warm take 100, all columns", "embeddings", 100, 0.55, remote=True),
    scans("scan all", "lineitem", 0.7, remote=True),
    scans(
        "filter 1 %, 3 columns",
        "lineitem",
        None,
        remote=True,
        condition=VORTEX_PERCENT,
        columns=THREE,
        filter=PERCENT,
    ),
    search("IVF_PQ, 20 of 128 partitions", None, remote=True, nprobes=20),
    *(
        replace(case, mbps=LIMIT_MBPS)
        for case in (
            cold("cold take 100, all columns", "lineitem", 100, None, remote=True),
            scans("scan all", "lineitem", None, remote=True),
            scans("scan 2 columns", "lineitem", None, remote=True, columns=THREE[:2]),
            scans("scan text and tags", "events", None, remote=True, columns=["text", "tags"]),
        )
    ),
]
