"""FileReader: one Lance file by itself, without a table around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.file.fragment import FileSource, open_fragment
from alance.file.older import holds_older
from alance.file.open import from_tail, open_file
from alance.file.plain import columns_of
from alance.file.states import ScanStates
from alance.format.container import TAIL_BYTES
from alance.format.schema import Schema
from alance.io.generators import outermost
from alance.ops.read.positions import as_positions
from alance.ops.read.take import in_order
from alance.ops.version.first_use import OLDER_FILES
from alance.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence

    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.file_version import FileVersion
    from alance.format.container import Container
    from alance.format.plans import Plan
    from alance.io.store import Store

BATCH_ROWS = 64 << 10  # rows of a batch at most, where the caller asks for no size


class FileReader:
    """A Lance data file. Immutable; safe to share among tasks."""

    __slots__ = ("_container", "_num_rows", "_schema", "_session", "_source", "_store")

    def __init__(
        self,
        session: Session,
        source: FileSource,
        container: Container,
        schema: Schema,
        num_rows: int,
        store: Store,
    ) -> None:
        self._session = session
        self._store = store  # else the registry may drop it
        self._source = source
        self._container = container
        self._schema = schema
        self._num_rows = num_rows

    def __repr__(self) -> str:
        return f"FileReader({self._source.location!r}, {self.num_rows} rows)"

    @classmethod
    async def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        store: object | None = None,
        storage_options: Mapping[str, str] | None = None,
        session: Session | None = None,
    ) -> FileReader:
        """Open a file by URI or path. Cost: one GET of its last 64 KiB, rarely a second.

        Raises:
            NotFoundError: no such object.
            CorruptFileError: no Lance file.
        """
        session = session or Session.of_loop()
        engine = session.engine
        opened, path = engine.registry.open(uri, storage_options=storage_options, store=store)
        location = opened.root + path
        tail, file_bytes = await engine.scheduler.read_tail(
            location, TAIL_BYTES, reason="open file"
        )

        if holds_older(tail):
            await engine.pool.load(*OLDER_FILES)

        def plan() -> Plan[tuple[Container, Schema, int, dict[int, int]]]:
            container = yield from open_file(location, file_bytes, engine.cache)
            descriptor = yield from container.read_descriptor()
            schema = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
            columns = yield from columns_of(container, schema, engine.cache)
            return container, schema, descriptor.length, columns

        container, schema, num_rows, columns = await engine.drive(
            from_tail(plan(), location, tail, file_bytes - len(tail)), "open file"
        )
        source = FileSource(location, file_bytes, columns)
        return cls(session, source, container, schema, num_rows, opened)

    @property
    def schema(self) -> pa.Schema:
        """The file's own Arrow schema."""
        return self._schema.to_arrow()

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return self._num_rows

    @property
    def version(self) -> FileVersion:
        """The file's format version."""
        return self._container.version

    @property
    def num_global_buffers(self) -> int:
        """Global buffers; number 0 is the schema."""
        return len(self._container.buffers)

    async def global_buffer(self, index: int) -> bytes:
        """The content of a global buffer.

        Raises:
            InvalidInputError: the file has no such buffer.
        """
        if not 0 <= index < self.num_global_buffers:
            raise InvalidInputError(
                f"global buffer {index}: the file has {self.num_global_buffers}"
            )
        plan = self._container.read_buffer(index)
        return bytes(await self._session.engine.drive(plan, "global buffer"))

    async def take(self, rows: object, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by position, in the order asked for. Cost: one round when warm.

        Raises:
            InvalidInputError: a position beyond the end, or an unknown column.
        """
        wanted = as_positions(rows, "rows")
        if len(wanted) and wanted.max() >= self.num_rows:
            raise InvalidInputError(f"row {wanted.max()}: the file has {self.num_rows}")
        unique, places = np.unique(wanted, return_inverse=True)
        engine = self._session.engine

        def plan() -> Plan[FragmentTask]:
            opened = yield from self._open(columns)
            return (yield from opened.take(unique, engine.cache))

        task = await engine.drive(plan(), "take")
        return await engine.decode(
            lambda: in_order(task.decode(), places.reshape(-1)), task.num_bytes
        )

    @outermost
    async def to_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        batch_size: int | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """The rows from `start` to `stop` as batches, one request a column and batch at most."""
        engine = self._session.engine
        stop = self.num_rows if stop is None else stop
        if not 0 <= start <= stop <= self.num_rows:
            raise InvalidInputError(f"rows {start} to {stop}: the file has {self.num_rows}")
        states = ScanStates(engine.cache)
        opened = await engine.drive(self._open(columns), "open columns")
        step = batch_size or BATCH_ROWS
        for first in range(start, stop, step):
            last = min(stop, first + step)
            task = await engine.drive(opened.read(first, last, states), "scan", bulk=True)
            yield await engine.pool.run(task.decode)

    async def to_table(
        self, columns: Sequence[str] | None = None, *, start: int = 0, stop: int | None = None
    ) -> pa.Table:
        """The rows from `start` to `stop` in memory."""
        batches = [batch async for batch in self.to_batches(columns, start=start, stop=stop)]
        schema = pa.schema([field.to_arrow() for field in self._projected(columns).fields])
        return pa.Table.from_batches(batches, schema=schema)

    def _projected(self, columns: Sequence[str] | None) -> Schema:
        return self._schema if columns is None else self._schema.project(columns)

    def _open(self, columns: Sequence[str] | None) -> Plan[OpenFragment]:
        return open_fragment(
            self._projected(columns), [self._source], self.num_rows, self._session.engine.cache
        )
