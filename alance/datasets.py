"""`dataset()` and `Dataset`: properties, and one-line calls into the verbs of `ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from alance.deferred import Deferred
from alance.fragment import DatasetFragment
from alance.ops.read import count
from alance.ops.read.options import ScanOptions, checked_defaults
from alance.ops.read.take import sample, take, take_addresses, take_rows
from alance.ops.version import opening
from alance.ops.version.options import BLOB_BYTES, GROUP_BYTES, SMALL_ROWS
from alance.scanner import Framed, Scanner
from alance.session import Session
from alance.verbs import Verbs
from alance.verbs.engines import EngineVerbs
from alance.verbs.keys import KeyVerbs
from alance.verbs.searching import SearchVerbs

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime
    from typing import Unpack

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from alance import file_session
    from alance.file_session import FileSession
    from alance.file_version import FileVersion
    from alance.format.field import Field
    from alance.ops.read import blobs, explain, managed, stats
    from alance.ops.read.blobs import BlobFile
    from alance.ops.read.explain import Explanation
    from alance.ops.read.managed import ObjectReader
    from alance.ops.read.options import BlobMode, PandasArguments, ScanArguments
    from alance.ops.read.stats import DatasetStats
    from alance.ops.version.conditions import Params
    from alance.ops.version.projection import Columns
    from alance.session import TableArguments
    from alance.versioning.table import Table
else:
    file_session = Deferred("alance.file_session")
    blobs = Deferred("alance.ops.read.blobs")
    explain = Deferred("alance.ops.read.explain")
    managed = Deferred("alance.ops.read.managed")
    stats = Deferred("alance.ops.read.stats")


async def dataset(
    uri: str | os.PathLike[str],
    *,
    version: int | str | None = None,
    asof: datetime | str | None = None,
    default_scan_options: Mapping[str, Any] | None = None,
    **place: Unpack[TableArguments],
) -> Dataset:
    """Open a dataset at its latest version, or the one asked for.

    Cost: one LIST and one GET; a version by number one GET; by tag one more; `asof` reads all
    manifests at once.

    Args:
        uri: `s3://`, `gs://`, `az://`, `http(s)://`, `file://`, `memory://` or a path; with
            `store`, a path inside it; or `s3+ddb://bucket/path?ddbTableName=table`, where
            DynamoDB keeps the versions.
        version: a number or a tag.
        asof: the latest version made strictly before this time (ISO 8601 text or datetime;
            without zone: UTC).
        store: an obstore store to use instead of opening one.
        storage_options: as Lance and object_store know them (`aws_access_key_id`, `endpoint`, ...);
            or a provider of credentials that expire, alone or as `credentials` among them: a
            function without arguments, async or not (docs/stores.md).
        session: shared scheduler, cache and limits; by default the event loop's own.
        manifest_store: keeps the versions, where the store of objects cannot create one only if
            it is absent: an `ExternalStore`, such as `SqliteStore` and `DynamoDbStore`. All
            writers of the table must use it.
        commit_lock: for the same purpose: called with the version to be made, it gives a context
            manager, async or not, that is held meanwhile.
        default_scan_options: `columns` and fields of `ScanOptions` that `scanner`, `to_table` and
            what else scans take where they are not given them; `schema` is that of such a scan.
            Takes, counts and scans of a single fragment do not ask them. Other versions that the
            dataset gives keep them.

    Raises:
        NotFoundError: no dataset there, or no such version or tag.
        UnsupportedError: the table uses a feature that this alance does not know.
        InvalidInputError: a bad URI or option.
    """
    defaults = checked_defaults(default_scan_options)
    snapshot = await opening.open_snapshot(uri, version=version, asof=asof, **place)
    opened = Dataset(snapshot, defaults)
    if defaults:
        await opened.scanner()._load()  # what `schema` parses with
    return opened


async def _object_reader(session: Session, table: Table) -> ObjectReader:
    await session.engine.pool.load(managed)
    return managed.ObjectReader(session, table)


Session._object_reader = _object_reader


class Dataset(Verbs, SearchVerbs, KeyVerbs, EngineVerbs, Framed):
    """One version of a dataset: an immutable snapshot, safe to share among tasks of its loop."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, version={self.version})"

    def _repr_html_(self) -> str:
        return stats.html(self._snapshot)

    @property
    def uri(self) -> str:
        """Where the dataset is, without credentials."""
        return self._snapshot.uri

    @property
    def version(self) -> int:
        """The number of this version."""
        return self._snapshot.manifest.version

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; of what is scanned by default, with `default_scan_options`."""
        if self._scan_defaults:
            return self.scanner().projected_schema
        return self._snapshot.schema.to_arrow()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The top-level fields with their ids."""
        return self._snapshot.schema.fields

    @property
    def data_storage_version(self) -> FileVersion:
        """The file version of new data."""
        return self._snapshot.manifest.data_storage_version

    @property
    def config(self) -> dict[str, str]:
        """The table's configuration."""
        return dict(self._snapshot.manifest.config)

    @property
    def metadata(self) -> dict[str, str]:
        """The table's own metadata, free for users."""
        return dict(self._snapshot.manifest.table_metadata)

    @property
    def timestamp(self) -> datetime | None:
        """When this version was committed, UTC."""
        return self._snapshot.manifest.timestamp

    @property
    def branch(self) -> str | None:
        """The branch of this version; None on main."""
        return self._snapshot.manifest.branch

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether row ids survive updates and compaction."""
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def summary(self) -> Mapping[str, Any]:
        """What the call did that returned this dataset, such as `num_deleted_rows`; else empty."""
        return self._snapshot.summary

    @property
    def session(self) -> Session:
        """The session that this dataset reads through."""
        return self._snapshot.session

    @property
    def fragments(self) -> tuple[DatasetFragment, ...]:
        """The fragments, in row order."""
        snapshot = self._snapshot
        return tuple(
            DatasetFragment(snapshot, position) for position in range(len(snapshot.handles))
        )

    def fragment(self, fragment_id: int) -> DatasetFragment:
        """A fragment by id.

        Raises:
            NotFoundError: no such fragment in this version.
        """
        return DatasetFragment(self._snapshot, self._snapshot.position_of(fragment_id))

    async def take(self, indices: object, columns: Columns = None) -> pa.Table:
        """Rows by position, in the order asked for, repeated as asked.

        Cost: one round of requests when warm (two for full-zip strings whose index is not cached).

        Args:
            indices: positions from 0; a list, numpy or Arrow array of integers.
            columns: names, paths (`a.b` keeps its parent) or output name -> SQL expression.

        Raises:
            InvalidInputError: a position beyond the end, or an unknown column.
        """
        return await take(self._snapshot, indices, columns)

    async def explain_take(self, indices: object, columns: Columns = None) -> Explanation:
        """The requests, bytes, rounds and pages that `take` would cost. `print` shows it as text.

        Cost: footers, page tables and deletions that are not known yet are read; nothing is kept.

        Raises:
            InvalidInputError: a position that is not there, or an unknown column.
        """
        await self._load(explain)
        return await explain.explain_take(self._snapshot, indices, columns)

    async def take_rows(self, row_ids: object, columns: Columns = None) -> pa.Table:
        """Rows by row id (`_rowid`), in the order asked for.

        Raises:
            NotFoundError: a row id that no live row has.
        """
        return await take_rows(self._snapshot, row_ids, columns)

    async def take_addresses(self, addresses: object, columns: Columns = None) -> pa.Table:
        """Rows by address (`_rowaddr`), in the order asked for.

        Raises:
            NotFoundError: no such fragment or row, or it is deleted.
        """
        return await take_addresses(self._snapshot, addresses, columns)

    async def take_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = None,
        row_ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
        buffer_size: int = BLOB_BYTES,
    ) -> list[BlobFile | None]:
        """The blobs of a blob column as file-like objects, in the order asked for; None for nulls.

        Cost: as `take` of the column; each blob's bytes are read when asked for.

        Args:
            column: name, or dotted path of a blob inside of structs.
            buffer_size: bytes that a read of fewer fetches, for those that follow.
        """
        await self._load(blobs)
        return await blobs.take_blobs(
            self._snapshot,
            column,
            indices=indices,
            row_ids=row_ids,
            addresses=addresses,
            buffer_size=buffer_size,
        )

    async def read_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = None,
        row_ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """The addresses and the whole blobs of rows, in the order asked for; None for nulls.

        Cost: as `take` of the column, and one round for the bytes; near ones share a request.
        """
        await self._load(blobs)
        return await blobs.read_blobs(
            self._snapshot, column, indices=indices, row_ids=row_ids, addresses=addresses
        )

    async def read_blob_ranges(
        self,
        column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
    ) -> list[tuple[int, int, bytes | None]]:
        """Parts of the blobs of many rows: number of the request, address of the row, bytes.

        In the order of the requests; None for null blobs, whatever part of them is asked for.

        Cost: as `take` of the column, and one round for the bytes; near ones share a request.
        Memory: the bytes asked for.

        Args:
            column: name, or dotted path of a blob inside of structs.
            requests: row, offset in its blob, length in bytes; a row may stand in several.
            selector: what rows are: stable row ids, addresses, or positions in the table.

        Raises:
            InvalidInputError: no blob column, an unknown selector, or bytes that a blob has not.
            NotFoundError: a row that is not there.
        """
        await self._load(blobs)
        return await blobs.read_blob_ranges(self._snapshot, column, requests, selector)

    def new_file_session(self) -> FileSession:
        """The files of this branch's folder, by their paths in it. Sends no request."""
        table = self._snapshot.table
        return file_session.FileSession(self._snapshot.session, table.store, table.key)

    def scanner(self, columns: Columns = None, **options: Unpack[ScanArguments]) -> Scanner:
        """A scan to be run, counted or explained; options are the fields of `ScanOptions`."""
        settings: dict[str, Any] = {**self._scan_defaults, **options}
        usual = settings.pop("columns", None)
        return Scanner(
            self._snapshot, usual if columns is None else columns, ScanOptions(**settings)
        )

    def to_batches(
        self,
        columns: Columns = None,
        **options: Unpack[ScanArguments],
    ) -> AsyncIterator[pa.RecordBatch]:
        """Scan as a stream of batches; options are the fields of `ScanOptions`."""
        return self.scanner(columns, **options).to_batches()

    async def to_table(self, columns: Columns = None, **options: Unpack[ScanArguments]) -> pa.Table:
        """Scan into memory; options are the fields of `ScanOptions`."""
        return await self.scanner(columns, **options).to_table()

    async def to_pandas(
        self,
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        **options: Unpack[PandasArguments],
    ) -> pd.DataFrame:
        """Scan into a DataFrame of pandas, which has to be installed; see `Scanner.to_pandas`.

        Args:
            columns: names or paths, or SQL expressions by name; None: all.
            blob_mode: `lazy` gives blobs as files, `bytes` as bytes, `descriptions` as what
                `to_table` gives.
            options: the fields of `ScanOptions`, and the arguments of pyarrow's `Table.to_pandas`.
        """
        return await self._frame(lambda file: file, columns, blob_mode=blob_mode, **options)

    async def to_polars(
        self, columns: Columns = None, **options: Unpack[ScanArguments]
    ) -> pl.DataFrame:
        """Scan into a DataFrame of Polars, which has to be installed; see `Scanner.to_polars`."""
        return await self.scanner(columns, **options).to_polars()

    async def stats(
        self, *, small_rows: int = SMALL_ROWS, with_column_bytes: bool = False
    ) -> DatasetStats:
        """What the version consists of: rows, deleted rows, fragments, files, bytes, indices.

        Cost: nothing is read but what the manifest does not tell: a HEAD for a file whose size it
        lacks, as those of old releases do, a GET for a deletion file of unknown count.
        The bytes of columns take a GET for each data file that is not open, two where it has
        hundreds of columns.

        Args:
            small_rows: fragments of fewer rows are counted as small.
            with_column_bytes: also tell the bytes of each column.
        """
        await self._load(stats)
        return await stats.dataset_stats(
            self._snapshot, small_rows, with_column_bytes=with_column_bytes
        )

    async def count_rows(
        self, filter: str | pc.Expression | None = None, *, params: Params = None
    ) -> int:
        """The number of rows, or of those for which the filter is true.

        Cost: without a filter nothing is read (deletion files of unknown count apart).

        Args:
            params: values for the `?` of the filter's text, in their order, or by name for `:name`.
        """
        options = ScanOptions(filter=filter, params=params)
        return await count.count_scanned(self._snapshot, options)

    async def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Columns = None,
        *,
        memory_bytes: int = GROUP_BYTES,
        **options: Unpack[ScanArguments],
    ) -> pa.Table:
        """Aggregates of the rows of a scan, or of each group of them; see `Scanner.aggregate`.

            await dataset.aggregate({"n": "count(*)", "total": "sum(price)"}, ["kind"])

        Args:
            options: the fields of `ScanOptions`, such as `filter`.
        """
        scanner = self.scanner(**options)
        return await scanner.aggregate(aggregates, group_by, memory_bytes=memory_bytes)

    async def head(self, num_rows: int, columns: Columns = None) -> pa.Table:
        """The first rows."""
        return await self.to_table(columns, limit=num_rows)

    async def sample(
        self, num_rows: int, columns: Columns = None, *, seed: int | None = None
    ) -> pa.Table:
        """Different rows drawn at random, in dataset order.

        Raises:
            InvalidInputError: more rows than there are.
        """
        await self._load("numpy.random")
        return await sample(self._snapshot, num_rows, columns, seed=seed)
