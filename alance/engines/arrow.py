"""Datasets as pyarrow datasets, for engines that read those."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs

from alance.engines.bridge import Bridge
from alance.errors import UnsupportedError
from alance.ops.version.first_use import of_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.compute as pc

    from alance.datasets import Dataset
    from alance.scanner import Scanner

COUNTED_ROWS: Final = 64 << 10  # rows per batch of nulls, which is returned repeatedly
# Path of a file for Arrow's own scanner, which must never be used. Reading fails, because no file
# can be below this path.
UNREADABLE_PATH: Final = (
    "/dev/null/an ArrowDataset is read by its own `scanner` and `to_batches` alone"
)


async def describe_columns(datasets: Iterable[Dataset]) -> None:
    """Make the Arrow schemas of datasets, in a thread if they have many columns."""
    for dataset in datasets:
        snapshot = dataset._snapshot
        scanner = dataset.scanner()
        await of_fields(
            snapshot.engine,
            snapshot.schema.num_fields,
            partial(getattr, scanner, "projected_schema"),
        )


class ArrowScanner:
    """Scan with the interface of `pyarrow.dataset.Scanner`; each call runs the scan again."""

    def __init__(self, scanner: Scanner, bridge: Bridge) -> None:
        self._scanner = scanner
        self._bridge = bridge

    @property
    def projected_schema(self) -> pa.Schema:
        """Schema of the batches."""

        async def schema() -> pa.Schema:
            await self._scanner._load()
            return self._scanner.projected_schema

        return self._bridge.run(schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream, which reads them on demand."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches."""
        return self._bridge.iterate(self._scanner)

    def to_table(self) -> pa.Table:
        """Read all rows into memory."""
        return self._bridge.run(self._scanner.to_table)

    def count_rows(self) -> int:
        """Count the rows."""
        return self._bridge.run(self._scanner.count_rows)


class CountingScanner(ArrowScanner):
    """Scan for a query that only counts rows: all values are null."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield nulls for all rows, which `count_rows` counts; values are not read."""
        schema, remaining = self.projected_schema, self.count_rows()
        size = min(remaining, COUNTED_ROWS)
        nulls = [pa.nulls(size, field.type) for field in schema]
        fields = [pa.field(field.name, field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(nulls, schema=pa.schema(fields))
        while remaining:
            yield batch.slice(0, remaining)
            remaining -= min(remaining, size)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream."""
        fields = [pa.field(field.name, field.type) for field in self.projected_schema]
        return pa.RecordBatchReader.from_batches(pa.schema(fields), self.to_batches())


class ArrowDataset(pads.UnionDataset):  # type: ignore[misc]
    """Dataset for readers of a `pyarrow.dataset.Dataset`: DuckDB, Polars, DataFusion and others.

    Requested columns and filters become a scan, and nothing else is read. Filters are pyarrow
    expressions, and use statistics and indices; blobs are returned as their bytes. Calls block the
    calling thread, which must not be the event loop's. Created by `Dataset.to_arrow_dataset`.

    Attributes:
        limit: maximum number of rows per scan; None for all. For callers that know a limit which
            the engine does not pass.
        counts: True if only the number of rows matters; values are then null, and are not read.
    """

    def __init__(self, dataset: Dataset, bridge: Bridge | None = None) -> None:
        self.limit: int | None = None
        self.counts = False
        self._dataset = dataset.pinned()
        self._bridge = bridge or Bridge()
        self._schema = self._scan().projected_schema
        fragment = pads.IpcFileFormat().make_fragment(UNREADABLE_PATH, fs.LocalFileSystem())
        files = pads.FileSystemDataset([fragment], self._schema, fragment.format)
        super().__init__(self._schema, [files])

    def __repr__(self) -> str:
        return f"ArrowDataset({self._dataset.uri!r}, version={self._dataset.version})"

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("an ArrowDataset is of one event loop: open the table there instead")

    @property
    def schema(self) -> pa.Schema:
        """Schema of all columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> ArrowScanner:
        """Return a scan; further options of pyarrow, which only tune reading, are ignored."""
        scanner = self._scan(columns, filter, batch_size=batch_size, limit=self.limit)
        return (CountingScanner if self.counts else ArrowScanner)(scanner, self._bridge)

    def to_table(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> pa.Table:
        """Read all rows into memory; see `scanner`."""
        return self.scanner(columns, filter, batch_size).to_table()

    def to_batches(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches of a scan; see `scanner`."""
        return self.scanner(columns, filter, batch_size).to_batches()

    def count_rows(self, filter: pc.Expression | str | None = None, **_: object) -> int:
        """Count the rows for which a filter is true."""
        return self.scanner(None, filter).count_rows()

    def head(
        self,
        num_rows: int,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        **_: object,
    ) -> pa.Table:
        """Read the first rows."""
        return ArrowScanner(self._scan(columns, filter, limit=num_rows), self._bridge).to_table()

    def take(
        self, indices: object, columns: Sequence[str] | Mapping[str, str] | None = None, **_: object
    ) -> pa.Table:
        """Read rows by position; blobs are returned as position and size."""
        return self._bridge.run(lambda: self._dataset.take(indices, columns))

    def get_fragments(self, filter: object = None) -> Iterator[ArrowFragment]:
        """Return one fragment with all rows, whose scan reads concurrently."""
        return iter([ArrowFragment(self)])

    def _scan(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        *,
        batch_size: int | None = None,
        limit: int | None = None,
    ) -> Scanner:
        return self._dataset.scanner(
            columns,
            filter=filter,
            batch_size=batch_size,
            limit=limit,
            blob_handling="all_binary",
        )

    def _refuse(self, name: str) -> NoReturn:
        raise UnsupportedError(
            f"ArrowDataset.{name}: not what it is for; use `scanner`, or read it `to_table` first"
        )

    @property
    def children(self) -> NoReturn:
        """Raise an error: a table does not consist of other datasets."""
        self._refuse("children")

    def filter(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: filters are passed to scans."""
        self._refuse("filter")

    def replace_schema(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: a version has a fixed schema."""
        self._refuse("replace_schema")

    def sort_by(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: `Dataset.scanner(order_by=)` sorts."""
        self._refuse("sort_by")

    def join(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: joins are left to engines."""
        self._refuse("join")

    def join_asof(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: joins are left to engines."""
        self._refuse("join_asof")


class ArrowFragment:
    """All rows of a dataset, with the interface of `pyarrow.dataset.Fragment`."""

    def __init__(self, dataset: ArrowDataset) -> None:
        self._dataset = dataset

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> ArrowScanner:
        """Return a scan; `schema` is ignored."""
        return self._dataset.scanner(columns, filter, batch_size)
