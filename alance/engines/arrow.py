"""A dataset as a pyarrow dataset, for engines that read these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs

from alance.engines.bridge import Bridge
from alance.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.compute as pc

    from alance.datasets import Dataset
    from alance.scanner import Scanner

COUNTED_ROWS: Final = 64 << 10  # of a batch of nulls, which is given again and again
# What Arrow's own scanner is told to read. It fails there, since no file can be below this one.
NOWHERE: Final = "/dev/null/an ArrowDataset is read by its own `scanner` and `to_batches` alone"


class ArrowScanner:
    """A scan as engines know it from `pyarrow.dataset.Scanner`; each call runs it anew."""

    def __init__(self, scanner: Scanner, bridge: Bridge) -> None:
        self._scanner = scanner
        self._bridge = bridge

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the batches."""

        async def schema() -> pa.Schema:
            await self._scanner._load()
            return self._scanner.projected_schema

        return self._bridge.run(schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream, which reads them on demand."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The batches."""
        return self._bridge.iterate(self._scanner)

    def to_table(self) -> pa.Table:
        """All rows in memory."""
        return self._bridge.run(self._scanner.to_table)

    def count_rows(self) -> int:
        """The number of rows."""
        return self._bridge.run(self._scanner.count_rows)


class CountingScanner(ArrowScanner):
    """A scan of which only the number of rows matters: all values are null."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield as many rows of nulls as the scan has; the cost is that of `count_rows`."""
        schema, left = self.projected_schema, self.count_rows()
        size = min(left, COUNTED_ROWS)
        nulls = [pa.nulls(size, field.type) for field in schema]
        fields = [pa.field(field.name, field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(nulls, schema=pa.schema(fields))
        while left:
            yield batch.slice(0, left)
            left -= min(left, size)

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches as a stream."""
        fields = [pa.field(field.name, field.type) for field in self.projected_schema]
        return pa.RecordBatchReader.from_batches(pa.schema(fields), self.to_batches())


class ArrowDataset(pads.UnionDataset):  # type: ignore[misc]
    """A dataset for what takes a `pyarrow.dataset.Dataset`: DuckDB, Polars, DataFusion and others.

    Columns and filters that they ask for are those of a scan: nothing else is read. Filters are
    pyarrow expressions, and use statistics and indices; blobs are given as their bytes. It blocks
    the calling thread, which must not be the event loop's. Made by `Dataset.to_arrow_dataset`.

    Attributes:
        limit: rows that each scan gives at most; None: all. For who knows more than the engine.
        counts: scans are for their number of rows alone: their values are null, and not read.
    """

    def __init__(self, dataset: Dataset, bridge: Bridge | None = None) -> None:
        self.limit: int | None = None
        self.counts = False
        self._dataset = dataset
        self._bridge = bridge or Bridge()
        self._schema = self._scan().projected_schema
        fragment = pads.IpcFileFormat().make_fragment(NOWHERE, fs.LocalFileSystem())
        files = pads.FileSystemDataset([fragment], self._schema, fragment.format)
        super().__init__(self._schema, [files])

    def __repr__(self) -> str:
        return f"ArrowDataset({self._dataset.uri!r}, version={self._dataset.version})"

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("an ArrowDataset is of one event loop: open the table there instead")

    @property
    def schema(self) -> pa.Schema:
        """The schema of all columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> ArrowScanner:
        """A scan; of other options of pyarrow, which tell how it reads, none is used."""
        scanner = self._scan(columns, filter, batch_size=batch_size, limit=self.limit)
        return (CountingScanner if self.counts else ArrowScanner)(scanner, self._bridge)

    def to_table(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> pa.Table:
        """All rows in memory; see `scanner`."""
        return self.scanner(columns, filter, batch_size).to_table()

    def to_batches(
        self,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        batch_size: int | None = None,
        **_: object,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a scan; see `scanner`."""
        return self.scanner(columns, filter, batch_size).to_batches()

    def count_rows(self, filter: pc.Expression | str | None = None, **_: object) -> int:
        """The number of rows."""
        return self.scanner(None, filter).count_rows()

    def head(
        self,
        num_rows: int,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: pc.Expression | str | None = None,
        **_: object,
    ) -> pa.Table:
        """The first rows."""
        return ArrowScanner(self._scan(columns, filter, limit=num_rows), self._bridge).to_table()

    def take(
        self, indices: object, columns: Sequence[str] | Mapping[str, str] | None = None, **_: object
    ) -> pa.Table:
        """Rows by position; blobs as position and size."""
        return self._bridge.run(lambda: self._dataset.take(indices, columns))

    def get_fragments(self, filter: object = None) -> Iterator[ArrowFragment]:
        """One fragment, which has all rows: a scan reads fragments side by side anyway."""
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
        """Refused: a table consists of no other datasets."""
        self._refuse("children")

    def filter(self, *_: object, **__: object) -> NoReturn:
        """Refused: filters are given to scans."""
        self._refuse("filter")

    def replace_schema(self, *_: object, **__: object) -> NoReturn:
        """Refused: a version has one schema."""
        self._refuse("replace_schema")

    def sort_by(self, *_: object, **__: object) -> NoReturn:
        """Refused: `Dataset.scanner(order_by=)` sorts."""
        self._refuse("sort_by")

    def join(self, *_: object, **__: object) -> NoReturn:
        """Refused: joins are what engines are for."""
        self._refuse("join")

    def join_asof(self, *_: object, **__: object) -> NoReturn:
        """Refused: joins are what engines are for."""
        self._refuse("join_asof")


class ArrowFragment:
    """The rows of a dataset as engines know them from `pyarrow.dataset.Fragment`."""

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
        """A scan; the schema is that of the dataset."""
        return self._dataset.scanner(columns, filter, batch_size)
