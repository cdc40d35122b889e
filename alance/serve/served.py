"""Table of a service: reads a version that follows the table, and adds rows through a sink."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import alance
from alance import InvalidInputError
from alance.serve.json_columns import value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance import Dataset, MaintenancePolicy, Session, Sink
    from alance.types import Data, Maintenance, StorageOptions

NEVER_S: Final = 1e9  # seconds between polls: in practice only reload requests poll


class ServedTable:
    """A table of a service. A request takes `now` once, and uses that version to its end.

    Attributes:
        uri: URI of the table; without secrets once it is open.
        key: key columns separated by commas; None for the table's primary key.
        reclaimable_bytes: bytes that a cleanup would free, by the last count; None if never
            counted.
    """

    def __init__(
        self,
        uri: str,
        session: Session,
        *,
        key: str | None,
        storage_options: StorageOptions | None,
        reload_s: float,
        maintain: MaintenancePolicy | bool,
        maintain_s: float,
    ) -> None:
        self.uri = uri
        self.key = key
        self.reclaimable_bytes: int | None = None
        self._session = session
        self._options = storage_options
        self._reload_s = reload_s
        self._dataset: Dataset | None = None
        self._sink: Sink | None = None
        self._opening = asyncio.Lock()
        self._maintain = maintain
        self._maintain_s = maintain_s
        self._maintenance: Maintenance | None = None
        self._maintainer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the newest version, and begin to follow the table.

        Raises:
            ColumnNotFoundError: the table lacks a key column.
            NotFoundError, StoreError: as `alance.dataset`.
        """
        dataset = await alance.dataset(
            self.uri,
            follow=self._reload_s or NEVER_S,
            rests=False,  # else the first request after a quiet hour would get an old version
            storage_options=self._options,
            session=self._session,
        )
        self.uri = dataset.uri
        if self.key is not None:
            _fields_of(dataset, self.key)
        self._dataset = dataset
        if self._maintain:
            policy = None if self._maintain is True else self._maintain
            self._maintenance = dataset.pinned().maintaining(policy, interval=self._maintain_s)
            self._maintainer = asyncio.create_task(_run_until_cancelled(self._maintenance))

    def stop_maintenance(self) -> None:
        """Begin to stop maintenance: a step under way is dropped, and its files are removed."""
        # A second cancellation would interrupt the removal of files.
        if self._maintainer is not None and not self._maintainer.cancelling():
            self._maintainer.cancel()

    async def close(self) -> None:
        """Stop following the table, and commit the accepted rows."""
        self.stop_maintenance()
        if self._maintainer is not None:
            await asyncio.gather(self._maintainer, return_exceptions=True)
        self._dataset = None
        if self._sink is not None:
            await self._sink.close()

    @property
    def now(self) -> Dataset:
        """The latest version that is known.

        Raises:
            StoreError: the table is not open yet, or no longer open; retryable.
        """
        return self._followed.pinned()

    @property
    def _followed(self) -> Dataset:
        if self._dataset is None:
            raise alance.StoreError(f"table {self.uri!r}: is not open", retryable=True)
        return self._dataset

    async def reload(self) -> int:
        """Serve the newest version; return its number.

        Cost: one LIST, and one GET if there is a newer version; requests that wait at the same time
        share them.
        """
        return (await self._followed.checkout_latest()).version

    async def health(self, *, reclaimable: bool) -> dict[str, Any]:
        """Return the state of the table, and counters of its maintenance by this service.

        Args:
            reclaimable: True to also count the bytes that a cleanup would free, which reads all
                versions.

        Raises:
            NotFoundError, StoreError: as from `Dataset.health`.
        """
        state = await self.now.health(reclaimable=reclaimable)
        if reclaimable:
            self.reclaimable_bytes = state.num_reclaimable_bytes
        metrics = None if self._maintenance is None else self._maintenance.metrics
        if metrics is None:
            return {"health": asdict(state), "maintenance": None}
        report = metrics.last_report
        return {
            "health": asdict(state),
            "maintenance": {
                "num_runs": metrics.num_runs,
                "num_steps": metrics.num_steps,
                "num_conflicts": metrics.num_conflicts,
                "num_failures": metrics.num_failures,
                "last_error": metrics.last_error and str(metrics.last_error),
                "last_steps": [] if report is None else [asdict(step) for step in report.steps],
            },
        }

    def keys_of(self, dataset: Dataset, keys: Sequence[object], column: str | None) -> list[object]:
        """Convert keys to the types of their columns: text is parsed as a number, date, bytes, ...

        Args:
            keys: values; lists of values if the key has several columns.
            column: names separated by commas; None: keys are not converted, but lists of values
                become tuples.

        Raises:
            ColumnNotFoundError: a key column does not exist.
            InvalidInputError: a text is not a value of its column, or a key has not one value per
                column.
        """
        if column is None:
            return [tuple(key) if isinstance(key, list) else key for key in keys]
        fields = _fields_of(dataset, column)
        if len(fields) == 1:
            return [_key(key, fields[0]) for key in keys]
        for key in keys:
            if not isinstance(key, list) or len(key) != len(fields):
                raise InvalidInputError(f"key {key!r}: expected a list of {len(fields)} values")
        return [
            tuple(_key(part, field) for part, field in zip(key, fields, strict=True))
            for key in keys
            if isinstance(key, list)
        ]

    async def append(self, rows: Data, token: str) -> tuple[int, bool]:
        """Add rows, once per token; return after they are committed.

        Callers that wait at the same time share a version.

        Args:
            rows: dictionaries, or an Arrow table.
            token: unique name of these rows.

        Returns:
            The number of a version with the rows, and True if this call added them.

        Raises:
            InvalidInputError: the rows do not fit the table.
            StoreError, CommitConflictError: as from `Sink.write`; send the rows again.
        """
        sink = await self._open_sink()
        try:
            is_new = await sink.write(rows, token=token)
            version = await sink.flush()
        except alance.AlanceError:
            await self._drop(sink)
            raise
        return version, is_new

    async def _open_sink(self) -> Sink:
        async with self._opening:
            if self._sink is None:
                # No commit interval, because each request flushes.
                sink = alance.ingest(
                    self.uri,
                    commit_interval=None,
                    session=self._session,
                    storage_options=self._options,
                )
                self._sink = await sink.__aenter__()
            return self._sink

    async def _drop(self, sink: Sink) -> None:
        """Drop a failed sink, unless a flush succeeds: then only a caller's rows were invalid."""
        with suppress(alance.AlanceError):
            await sink.flush()
            return
        if self._sink is sink:
            self._sink = None
        await sink.abort()


async def _run_until_cancelled(maintenance: Maintenance) -> None:
    async with maintenance:
        await asyncio.Event().wait()


def key_names(column: str) -> list[str]:
    """Split the names of key columns at commas."""
    return [name.strip() for name in column.split(",")]


def _fields_of(dataset: Dataset, column: str) -> list[Any]:
    names = key_names(column)
    for name in names:
        if name not in dataset.schema.names:
            raise alance.ColumnNotFoundError(
                f"key column {name!r}: expected one of {', '.join(dataset.schema.names)}", name
            )
    return [dataset.schema.field(name) for name in names]


def _key(value: object, field: Any) -> object:
    """Convert text, from a path or JSON, to a column's type; return other values as they are."""
    if not isinstance(value, str) or pa.types.is_string(field.type):
        return value
    try:
        key = value_of(value, field)
    except InvalidInputError as error:
        raise InvalidInputError(f"key {value!r}: expected a value of type {field.type}") from error
    # Python's times end at the year 9999 and at microseconds.
    return key if pa.types.is_temporal(field.type) else key.as_py()
