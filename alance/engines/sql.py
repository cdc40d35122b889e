"""SQL by DuckDB: a query runs in its own thread, and reads datasets by scans.

Rows are read on demand. A query can read only the passed tables: files, extensions and Python
variables are inaccessible, unless settings allow them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from alance.base.extras import missing

try:
    import duckdb
except ImportError as error:
    raise missing("SQL is run by DuckDB", "sql") from error

from alance.base.checks import check_text
from alance.engines.arrow import ArrowDataset, describe_columns
from alance.engines.bridge import Bridge
from alance.engines.duckdb_plan import pushed
from alance.errors import AlanceError, InvalidInputError
from alance.io.loop import lifecycle
from alance.io.loop.generators import outermost
from alance.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from alance.datasets import Dataset
    from alance.ops.version.conditions import Params

T = TypeVar("T")

SQL_BATCH_ROWS: Final = 64 << 10
TABLE: Final = "dataset"  # name of the dataset itself in queries
AGAIN_S: Final = 0.05  # between interrupts: DuckDB ignores them before the query runs
CLOSED: Final = {"enable_external_access": False, "python_enable_replacements": False}
BOUNDS: Final = frozenset({"memory_limit", "threads"})  # settings that reused databases may have
MOST_IDLE: Final = 4  # idle databases; each has its own threads, and a few MB
# Concurrent queries of a loop: the threads of more queries would starve the loop of the
# interpreter.
QUERIES_OF_A_LOOP: Final = 8

# Semaphores of `_turns`, one per event loop. The key is the loop's own session, which is dropped
# when the loop ends.
_waiting: Final[WeakKeyDictionary[Session, asyncio.Semaphore]] = WeakKeyDictionary()


@outermost
async def sql_batches(
    dataset: Dataset,
    query: str,
    params: Params,
    tables: Mapping[str, object] | None,
    settings: Mapping[str, object] | None,
) -> AsyncIterator[pa.RecordBatch]:
    """Stream the result of a query; a result without rows is one empty batch.

    See `Dataset.sql_batches`.
    """
    _check(query, params, tables, settings)
    bridge = Bridge(is_off_loop=True)
    kind = type(dataset.pinned())
    await describe_columns(
        table for table in (dataset, *(tables or {}).values()) if isinstance(table, kind)
    )
    sources = _sources(dataset, tables or {}, bridge)
    config: dict[str, Any] = {**CLOSED, **(settings or {})}
    with _Query(bridge) as running:
        try:
            await running.run(partial(running.connect, config))
            schema = await running.run(partial(running.begin, query, params, sources))
            batch = await running.run(running.following)
            yield pa.RecordBatch.from_pylist([], schema) if batch is None else batch
            while batch is not None:
                batch = await running.run(running.following)
                if batch is not None:
                    yield batch
        except (duckdb.Error, pa.ArrowException, OSError, ValueError) as error:
            if bridge.error is not None:
                raise bridge.error from error
            if isinstance(error, AlanceError):
                raise
            raise InvalidInputError(
                f"sql: {_single_line(error)}{_hint(error, query, sources)}"
            ) from error


async def sql_table(
    dataset: Dataset,
    query: str,
    params: Params,
    tables: Mapping[str, object] | None,
    settings: Mapping[str, object] | None,
) -> pa.Table:
    """Run a query, and return its result in memory; see `Dataset.sql`."""
    async with _turns():
        batches = [batch async for batch in sql_batches(dataset, query, params, tables, settings)]
    return pa.Table.from_batches(batches)


def _turns() -> asyncio.Semaphore:
    """Return the semaphore that limits the running queries of this event loop.

    Streams do not use it, because a caller may leave them half read while it starts other queries.
    """
    return _waiting.setdefault(Session.of_loop(), asyncio.Semaphore(QUERIES_OF_A_LOOP))


def _check(query: object, params: object, tables: object, settings: object) -> None:
    if not isinstance(query, str):
        raise InvalidInputError(f"sql: {type(query).__name__}, expected a text")
    for name, value in (("tables", tables), ("settings", settings)):
        if not isinstance(value, Mapping | None):
            raise InvalidInputError(f"{name}: {type(value).__name__}, expected a mapping")
    if isinstance(params, str) or not isinstance(params, Sequence | Mapping | None):
        raise InvalidInputError(
            f"params: {type(params).__name__}, expected a sequence of values, or a mapping"
        )


def _sources(dataset: Dataset, tables: Mapping[str, object], bridge: Bridge) -> dict[str, object]:
    """Return tables by name, in the form that DuckDB takes."""
    if TABLE in tables:
        raise InvalidInputError(f"tables: {TABLE!r} is the name of the dataset itself")
    kind = type(dataset.pinned())
    return {
        name: ArrowDataset(table, bridge) if isinstance(table, kind) else table
        for name, table in {TABLE: dataset, **tables}.items()
    }


def _single_line(error: Exception) -> str:
    """Return the text of an error on one line, without the query's lines that DuckDB adds."""
    text = str(error).partition("\n\nLINE ")[0]
    return " ".join(text.replace('Did you mean "sqlite_master"?', "").split())


def _hint(error: Exception, query: str, sources: Mapping[str, object]) -> str:
    """Return a hint for a query that failed: its tables, or another call; empty without a hint."""
    verb = query.split(maxsplit=1)[0].lower() if query.strip() else ""
    if verb in _CHANGES:
        return f"; `sql` only reads: write {_CHANGES[verb]}"
    if isinstance(error, duckdb.ParserException) and "select" not in query.lower():
        return "; a query begins with SELECT; for a condition alone write to_table(filter=)"
    if not isinstance(error, duckdb.CatalogException) or "Table with name" not in str(error):
        return ""
    others = [name for name in sources if name != TABLE]
    more = f", and by `tables` {', '.join(others)}" if others else ""
    return f"; this dataset is the table `{TABLE}`{more}"


# Statements that change rows, with the methods that do.
_CHANGES: Final = {
    "alter": "alter_columns, add_columns or drop_columns",
    "create": "create_index, or alance.write_dataset",
    "delete": "delete(predicate)",
    "drop": "alance.drop(uri)",
    "insert": "insert(rows)",
    "merge": "merge_insert(on)",
    "truncate": "delete('true')",
    "update": "update(updates, where)",
}


def _with_json(arrow: pa.DataType, type_: Any) -> pa.DataType:
    """Return a column's Arrow type, with the JSON type where DuckDB returns plain strings for JSON.

    Args:
        arrow: the type in DuckDB's result.
        type_: DuckDB's own type of the column.
    """
    if str(type_) == "JSON":
        return pa.json_()
    if not pa.types.is_nested(arrow) or type_.id not in ("struct", "list", "map"):
        return arrow
    types = dict(type_.children)
    if type_.id == "map":
        key, item = _with_json(arrow.key_type, types["key"]), arrow.item_type
        return pa.map_(key, arrow.item_field.with_type(_with_json(item, types["value"])))
    if type_.id == "list":
        item = arrow.value_field
        return pa.list_(item.with_type(_with_json(item.type, types["child"])))
    members = [arrow.field(number) for number in range(arrow.num_fields)]
    return pa.struct(
        [member.with_type(_with_json(member.type, types[member.name])) for member in members]
    )


class _Databases:
    """Pool of databases in memory; a database serves one query at a time.

    To create one costs 17 ms of processor time, more than most queries. A query has a connection
    with names of its own, and a query of SELECT statements alone leaves its database unchanged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[Mapping[str, Any], duckdb.DuckDBPyConnection]] = []
        lifecycle.on_fork(self)

    def borrow(self, config: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
        """Return a database with these settings that no other query uses."""
        with self._lock:
            for number, (settings, database) in enumerate(self._idle):
                if settings == config:
                    del self._idle[number]
                    return database
        return duckdb.connect(config=dict(config))

    def give_back(self, config: Mapping[str, Any], database: duckdb.DuckDBPyConnection) -> None:
        """Return an unchanged database to the pool; close it if the pool is full."""
        is_closed = config.items() >= CLOSED.items() and config.keys() <= CLOSED.keys() | BOUNDS
        with self._lock:
            if is_closed and len(self._idle) < MOST_IDLE:
                self._idle.append((config, database))
                return
        database.close()

    def after_fork(self) -> None:
        """Forget the databases, which would wait for the parent's threads."""
        self._lock = threading.Lock()
        lifecycle.inherit(self._idle)
        self._idle = []


_databases: Final = _Databases()


class _Query:
    """A query and its thread, in which all its calls of DuckDB run.

    A query that is closed early is interrupted; its end is not awaited.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._pool = ThreadPoolExecutor(1, "alance-sql")
        self._under_way: Future[Any] | None = None
        self._config: Mapping[str, Any] = {}
        self._database: Any = None
        self._connection: Any = None
        self._reader: pa.RecordBatchReader | None = None
        self._schema: pa.Schema | None = None  # schema of the result; None: that of the reader
        self._changes_nothing = False
        self._has_ended = False  # True if the query has ended without an error
        self._closing = threading.Lock()
        self._is_closed = threading.Event()

    def __enter__(self) -> _Query:
        return self

    def __exit__(self, *_: object) -> None:
        self._bridge.stop()
        if self._connection is not None:
            self._connection.interrupt()
        is_running = self._under_way is not None and not self._under_way.done()
        self._pool.submit(self._close)
        self._pool.shutdown(wait=False)
        if is_running:
            threading.Thread(target=self._interrupt, name="alance-sql-end", daemon=True).start()

    async def run(self, work: Callable[[], T]) -> T:
        """Run a call in the query's thread, after all earlier calls; return its result."""
        under_way = self._under_way = self._pool.submit(work)
        return await asyncio.wrap_future(under_way)

    def connect(self, config: Mapping[str, Any]) -> None:
        """Open a connection to a database in memory."""
        self._config = config
        self._database = _databases.borrow(config)
        self._connection = self._database.cursor()

    def begin(self, query: str, params: Params, sources: Mapping[str, object]) -> pa.Schema:
        """Start the query; return the schema of its result."""
        tables = [source for source in sources.values() if isinstance(source, ArrowDataset)]
        for name, source in sources.items():
            try:
                self._connection.register(name, source)
            except (duckdb.Error, TypeError) as error:
                raise InvalidInputError(f"tables: {name!r}: {_single_line(error)}") from error
        check_text("query", query)
        statements = self._connection.extract_statements(query)
        self._changes_nothing = all(
            statement.type is duckdb.StatementType.SELECT for statement in statements
        )
        request = pushed(self._connection, statements, params)
        for table in tables:  # a limit or count is known only if one table is scanned
            table.limit, table.counts = request.limit, request.counts
        relation = self._connection.sql(query, params=params)
        if relation is None:
            raise InvalidInputError("sql: an empty text; expected a query")
        self._reader = relation.to_arrow_reader(SQL_BATCH_ROWS)
        fields = zip(self._reader.schema, relation.types, strict=True)
        schema = pa.schema(
            [field.with_type(_with_json(field.type, type_)) for field, type_ in fields]
        )
        self._schema = None if schema == self._reader.schema else schema
        return schema

    def following(self) -> pa.RecordBatch | None:
        """Return the next batch; None at the end."""
        assert self._reader is not None
        batch = next(self._reader, None)
        self._has_ended = batch is None
        return batch if batch is None or self._schema is None else batch.cast(self._schema)

    def _interrupt(self) -> None:
        """Interrupt the query until its thread ends, because it may not have begun yet."""
        while True:
            with self._closing:
                if self._is_closed.is_set():
                    return
                if self._connection is not None:
                    self._connection.interrupt()
            self._is_closed.wait(AGAIN_S)

    def _close(self) -> None:
        with self._closing:
            self._is_closed.set()
        if self._reader is not None:
            self._reader.close()
        if self._connection is not None:
            self._connection.close()
        if self._database is not None:
            if self._has_ended and self._changes_nothing:
                _databases.give_back(self._config, self._database)
            else:
                self._database.close()
