"""`dataset()` and `Dataset`: properties, and methods that call the verbs of `ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.base.calls import public
from alance.base.checks import check_count
from alance.base.deferred import Deferred
from alance.errors import InvalidInputError
from alance.fragment import DatasetFragment
from alance.ops.read.aggregates import count
from alance.ops.read.options import ScanOptions, checked_defaults
from alance.ops.read.take import sample, take, take_addresses, take_rows
from alance.ops.version import opening
from alance.ops.version.options import GROUP_BYTES, SMALL_FRAGMENT_ROWS
from alance.scanner import Framed, Scanner
from alance.session import Session
from alance.verbs import Verbs
from alance.verbs.blobs import BlobVerbs
from alance.verbs.engines import EngineVerbs
from alance.verbs.keys import KeyVerbs
from alance.verbs.searching import SearchVerbs

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping
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
    from alance.ops.read import explain, managed, stats
    from alance.ops.read.explain import Explanation
    from alance.ops.read.managed import ObjectReader
    from alance.ops.read.options import BlobMode, PandasArguments, ScanArguments
    from alance.ops.read.stats import DatasetStats
    from alance.ops.version import following
    from alance.ops.version.conditions import Params
    from alance.ops.version.following import Follower
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.version.summary import ChangeSummary
    from alance.session import TableArguments
    from alance.versioning.table import Table
else:
    file_session = Deferred("alance.file_session")
    explain = Deferred("alance.ops.read.explain")
    managed = Deferred("alance.ops.read.managed")
    stats = Deferred("alance.ops.read.stats")
    following = Deferred("alance.ops.version.following")


@public
async def dataset(
    uri: str | os.PathLike[str],
    *,
    version: int | str | None = None,
    asof: datetime | str | None = None,
    follow: float | None = None,
    rests: bool = True,
    default_scan_options: Mapping[str, Any] | None = None,
    **place: Unpack[TableArguments],
) -> Dataset:
    """Open a dataset at its latest version, at a requested version, or as a handle that follows it.

    Cost: by default one LIST and one GET. A version by number costs one GET (two if its manifest
    has a V1 name), a tag one GET more. `asof` costs one LIST, concurrent GETs of all manifests, and
    a GET of the chosen one. With `follow`, also a LIST per interval, and a GET for each newer
    version.

    Example:

        dataset = await alance.dataset("table", version=1)
        assert await dataset.count_rows() == 100

    Args:
        uri: a path, or a URI such as `s3://bucket/table` (docs/stores.md lists the schemes); with
            `store`, a path inside the store.
        version: a number or a tag; None: the latest version.
        asof: open the latest version committed strictly before this time (ISO 8601 text or
            datetime; without a time zone: UTC).
        follow: seconds that the dataset may be behind the table. The table is polled in the
            background, and each read uses the latest version that is known when it begins; see
            docs/changes.md. Methods that return a dataset return one at a fixed version. None: the
            dataset remains at its version.
        rests: with `follow`: True to pause polling after 12 polls without a read; the next read
            then uses the version known before. False to poll without a pause.
        store: an obstore store to use instead of opening a new one; or a file system of fsspec, to
            read only.
        storage_options: names as in Lance and object_store (`aws_access_key_id`, `endpoint`, ...);
            or a provider of credentials that expire, alone or as `credentials` among the options: a
            function without arguments, async or not (docs/stores.md).
        session: scheduler, caches and limits to share; by default the session of the event loop.
        manifest_store: an `ExternalStore` for the versions, such as `SqliteStore` or
            `DynamoDbStore`, for object stores without conditional puts. All writers of the table
            must use it.
        commit_lock: a lock for the same purpose: a function that is called with the number of the
            new version and returns a context manager, async or not, which is held during the
            commit.
        default_scan_options: `columns` and fields of `ScanOptions` that `scanner`, `to_table` and
            other scans use unless the call sets them; `schema` is then the schema of such a scan.
            Takes, counts and scans of a single fragment ignore them. Versions checked out from the
            dataset inherit them.

    Raises:
        NotFoundError: there is no dataset at `uri`, or no such version or tag.
        UnsupportedError: the table uses a feature that this release of alance does not know.
        InvalidInputError: a bad URI or option.
    """
    defaults = checked_defaults(default_scan_options)
    if not rests and follow is None:
        raise InvalidInputError("rests=False: expected follow=SECONDS beside it")
    if follow is not None:
        if version is not None or asof is not None:
            raise InvalidInputError("follow: expected neither version nor asof beside it")
        opened: Dataset = _FollowingDataset(
            await following.open_follower(uri, follow, rests=rests, **place), defaults
        )
    else:
        snapshot = await opening.open_snapshot(uri, version=version, asof=asof, **place)
        opened = Dataset(snapshot, defaults)
    if defaults:
        await opened.scanner()._load()  # the modules that `schema` needs for parsing
    return opened


async def _object_reader(session: Session, table: Table) -> ObjectReader:
    await session.engine.pool.load(managed)
    return managed.ObjectReader(session, table)


Session._object_reader = _object_reader


@public
class Dataset(Verbs, BlobVerbs, SearchVerbs, KeyVerbs, EngineVerbs, Framed):
    """An immutable snapshot of one version of a dataset, safe to share among tasks of its loop.

    Some errors are raised by all methods that do the same, also where a docstring does not list
    them. A method that sends requests raises a `StoreError` if the store fails, and a
    `CorruptFileError` if a file contradicts the format. A method that takes SQL raises an
    `UnsupportedError` for SQL that alance does not evaluate, such as a subquery.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, version={self.version})"

    def _repr_html_(self) -> str:
        return stats.html(self._snapshot)

    @property
    def uri(self) -> str:
        """URI or path of the dataset, without credentials."""
        return self._snapshot.uri

    @property
    def version(self) -> int:
        """Number of this version."""
        return self._snapshot.manifest.version

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the dataset, or of a default scan if `default_scan_options` are set."""
        if self._scan_defaults:
            return self.scanner().projected_schema
        return self._snapshot.schema.to_arrow()

    @property
    def fields(self) -> tuple[Field, ...]:
        """Top-level fields with their ids."""
        return self._snapshot.schema.fields

    @property
    def data_storage_version(self) -> FileVersion:
        """File version of new data files."""
        return self._snapshot.manifest.data_storage_version

    @property
    def config(self) -> dict[str, str]:
        """Configuration of the table, as a copy."""
        return dict(self._snapshot.manifest.config)

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the table, for users' own entries, as a copy."""
        return dict(self._snapshot.manifest.table_metadata)

    @property
    def timestamp(self) -> datetime | None:
        """Time of the commit of this version, in UTC; None if the manifest has no time."""
        return self._snapshot.manifest.timestamp

    @property
    def branch(self) -> str | None:
        """Name of the branch of this version; None on the main branch."""
        return self._snapshot.manifest.branch

    @property
    def has_stable_row_ids(self) -> bool:
        """True if row ids survive updates and compaction."""
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def summary(self) -> ChangeSummary:
        """Counts of the effects of the call that returned this dataset, such as `num_deleted_rows`.

        Empty if the dataset was opened. docs/versions.md lists the keys.
        """
        return self._snapshot.summary

    @property
    def staleness(self) -> float | None:
        """Seconds since the last successful poll for the latest version began; None without
        `follow`.
        """
        return None

    def pinned(self) -> Dataset:
        """Return a dataset at one version: this dataset, or with `follow` the latest known version.

        Cost: no request.

        Example:

            live = await alance.dataset("table", follow=5.0)
            pinned = live.pinned()  # reads that belong together
            assert (await pinned.take([99]))["id"].to_pylist() == [await pinned.count_rows() - 1]
        """
        return self._on(self._snapshot)

    @property
    def session(self) -> Session:
        """Session with which this dataset reads."""
        return self._snapshot.session

    @property
    def fragments(self) -> tuple[DatasetFragment, ...]:
        """Handles of all fragments, in row order."""
        snapshot = self._snapshot
        return tuple(
            DatasetFragment(snapshot, position) for position in range(len(snapshot.handles))
        )

    def fragment(self, fragment_id: int) -> DatasetFragment:
        """Return the handle of a fragment.

        Cost: no request.

        Args:
            fragment_id: id, not position.

        Raises:
            NotFoundError: no such fragment in this version.
        """
        return DatasetFragment(self._snapshot, self._snapshot.position_of(fragment_id))

    async def take(self, indices: object, columns: Columns = None) -> pa.Table:
        """Read rows by position, in the given order; repeated positions give repeated rows.

        Cost: one round of requests (two for full-zip strings whose index is not cached). Before it
        a round for footers that are not cached, and another for page tables that are not in the
        last 64 KiB of a file.

        Example:

            rows = await dataset.take([7, 3, 7], ["id"])
            assert rows["id"].to_pylist() == [7, 3, 7]

        Args:
            indices: positions from 0; a list, numpy or Arrow array of integers.
            columns: names, paths (`a.b` keeps its parent) or a mapping of output names to SQL
                expressions; None: all columns.

        Raises:
            InvalidInputError: a position beyond the end, or an unknown column.
        """
        return await take(self._snapshot, indices, columns)

    async def explain_take(self, indices: object, columns: Columns = None) -> Explanation:
        """Return the requests, bytes, rounds and pages that `take` would cost. `print` shows them
        as text.

        Cost: reads footers, page tables and deletion files that are not cached; caches nothing.

        Args:
            indices, columns: as for `take`.

        Raises:
            InvalidInputError: a position beyond the end, or an unknown column.
        """
        await self._load(explain)
        return await explain.explain_take(self._snapshot, indices, columns)

    async def take_rows(self, row_ids: object, columns: Columns = None) -> pa.Table:
        """Read rows by row id (`_rowid`), in the given order.

        Cost: as `take`.

        Args:
            row_ids: a list, numpy or Arrow array of integers.
            columns: as for `take`.

        Raises:
            RowNotFoundError: a row id without a live row.
            InvalidInputError: an unknown column, or values that are not row ids.
        """
        return await take_rows(self._snapshot, row_ids, columns)

    async def take_addresses(self, addresses: object, columns: Columns = None) -> pa.Table:
        """Read rows by address (`_rowaddr`), in the given order.

        Cost: as `take`.

        Args:
            addresses: a list, numpy or Arrow array of integers.
            columns: as for `take`.

        Raises:
            RowNotFoundError: no such fragment or row, or a deleted row.
            InvalidInputError: an unknown column, or values that are not addresses.
        """
        return await take_addresses(self._snapshot, addresses, columns)

    def new_file_session(self) -> FileSession:
        """Return a session for single files below this branch's folder. Sends no request."""
        table = self._snapshot.table
        return file_session.FileSession(self._snapshot.session, table.store, table.key)

    def scanner(self, columns: Columns = None, **options: Unpack[ScanArguments]) -> Scanner:
        """Return a scan that can be run, counted or explained. Sends no request.

        Example:

            scan = dataset.scanner(["id"], filter="price > 5", limit=10)
            print(await scan.count_rows())  # 10

        Args:
            columns: as for `take`.
            filter, params: SQL text or a pyarrow expression, and values for its parameters.
            limit, offset, order_by: rows at most, rows to skip, columns to sort by.
            batch_size, batch_size_bytes, strict_batch_size: size of the batches.
            with_row_id, with_row_address, include_deleted_rows: more columns, more rows.
            scan_in_order, batch_readahead, io_buffer_bytes: order of the batches, and read-ahead.
            fragments: ids of the fragments to scan.
            late_materialization, use_scalar_index, use_stats: ways to read less for a filter.
            blob_handling: form of blob columns.
            nearest, full_text_query, prefilter, fast_search: a search instead of a scan.
            scan_stats_callback: called with `ScanStatistics` after the last batch.
            options: all of these; `ScanOptions` has the details.

        Raises:
            InvalidInputError: options that contradict each other or are out of range.
        """
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
        """Scan as a stream of record batches, read ahead of the consumer.

        Cost: as `Scanner.to_batches`.

        Example:

            async for batch in dataset.to_batches(["id"], filter="price > 5"):
                print(batch.num_rows)  # 49

        Args:
            columns, options: as for `scanner`.

        Raises:
            InvalidInputError: an unknown column, a bad filter or option.
            CorruptFileError: files that contradict the format.
            StoreError: the store failed.
        """
        return self.scanner(columns, **options).to_batches()

    async def to_table(self, columns: Columns = None, **options: Unpack[ScanArguments]) -> pa.Table:
        """Scan into memory.

        Cost: as `to_batches`. Memory: the table, and the batches read ahead.

        Example:

            table = await dataset.to_table(["id", "price"], filter="id >= 90", limit=5)
            assert table["id"].to_pylist() == [90, 91, 92, 93, 94]

        Args:
            columns, options: as for `scanner`.

        Raises:
            InvalidInputError, CorruptFileError, StoreError: as from `to_batches`.
        """
        return await self.scanner(columns, **options).to_table()

    async def to_pandas(
        self,
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        **options: Unpack[PandasArguments],
    ) -> pd.DataFrame:
        """Scan into a DataFrame of pandas; see `Scanner.to_pandas`.

        Cost: as `to_table`.

        Args:
            columns: as for `take`.
            blob_mode: `lazy` gives blobs as files, `bytes` as bytes, `descriptions` as the values
                that `to_table` gives.
            options: as for `scanner`, and the arguments of pyarrow's `Table.to_pandas`.

        Raises:
            MissingPackageError: pandas is not installed.
            InvalidInputError, CorruptFileError, StoreError: as from `to_batches`.
        """
        return await self._frame(lambda file: file, columns, blob_mode=blob_mode, **options)

    async def to_polars(
        self, columns: Columns = None, **options: Unpack[ScanArguments]
    ) -> pl.DataFrame:
        """Scan into a DataFrame of Polars; see `Scanner.to_polars`.

        Cost: as `to_table`.

        Args:
            columns, options: as for `scanner`.

        Raises:
            MissingPackageError: Polars is not installed.
            InvalidInputError, CorruptFileError, StoreError: as from `to_batches`.
        """
        return await self.scanner(columns, **options).to_polars()

    async def stats(
        self, *, small_rows: int = SMALL_FRAGMENT_ROWS, with_column_bytes: bool = False
    ) -> DatasetStats:
        """Count the rows, deleted rows, fragments, files, bytes and indices of this version.

        Cost: no request for facts that the manifest records. Manifests of old releases lack some:
        each file of unknown size costs a HEAD, each deletion file of unknown count a GET, and each
        fragment of unknown row count the opening of a file. `with_column_bytes` adds a GET for each
        data file that is not open, two for a file of hundreds of columns.

        Args:
            small_rows: number of rows below which a fragment counts as small.
            with_column_bytes: True to also report the bytes of each column.

        Raises:
            InvalidInputError: a negative `small_rows`.
        """
        await self._load(stats)
        return await stats.dataset_stats(
            self._snapshot, small_rows, with_column_bytes=with_column_bytes
        )

    async def count_rows(
        self, filter: str | pc.Expression | None = None, *, params: Params = None
    ) -> int:
        """Count the rows, or the rows for which a filter is true.

        Cost: without a filter no request, unless the manifest lacks counts, as for `stats`; with a
        filter a scan of its columns, or only an index if that answers the filter.

        Example:

            assert await dataset.count_rows() == 100
            assert await dataset.count_rows("price < ?", params=[5]) == 50

        Args:
            filter: SQL text or a pyarrow expression; None: all rows.
            params: values for the `?` in the filter's text, in order, or a mapping for `:name`.

        Raises:
            InvalidInputError: a bad filter, an unknown column, or wrong parameters.
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
        """Aggregate the rows of a scan, or each group of rows; see `Scanner.aggregate`.

        Cost: as `Scanner.aggregate`. Memory: as there.

        Example:

            totals = await dataset.aggregate({"n": "count(*)"}, ["kind"], filter="id < 6")
            assert totals["n"].to_pylist() == [2, 2, 2]

        Args:
            aggregates: SQL aggregates by the names of the output columns.
            group_by: as `columns` of `take`; None: one group of all rows.
            memory_bytes: maximum bytes of the groups.
            options: as for `scanner`, such as `filter`.

        Raises:
            InvalidInputError, UnsupportedError: as from `Scanner.aggregate`.
        """
        scanner = self.scanner(**options)
        return await scanner.aggregate(aggregates, group_by, memory_bytes=memory_bytes)

    async def head(self, num_rows: int = 5, columns: Columns = None) -> pa.Table:
        """Read the first rows.

        Cost: as `to_table` with a limit.

        Args:
            num_rows: maximum number of rows.
            columns: as for `take`.

        Raises:
            InvalidInputError: a negative number of rows, or an unknown column.
        """
        return await self.to_table(columns, limit=num_rows)

    async def sample(
        self, num_rows: int, columns: Columns = None, *, seed: int | None = None
    ) -> pa.Table:
        """Read distinct rows drawn at random, in dataset order.

        Cost: as `take` of the same number of rows.

        Args:
            num_rows: number of rows.
            columns: as for `take`.
            seed: a number of 0 or more, which returns the same rows of the same version at each
                call; None: a new sample each time.

        Raises:
            InvalidInputError: `num_rows` is negative or larger than the number of rows, a bad
                `seed`, or an unknown column.
        """
        if seed is not None:
            check_count("seed", seed, 0)
        await self._load("numpy.random")
        return await sample(self._snapshot, num_rows, columns, seed=seed)


class _FollowingDataset(Dataset):
    """Dataset of `dataset(uri, follow=...)`: each use reads the latest known version."""

    __slots__ = ("_follower",)

    def __init__(self, follower: Follower, scan_defaults: Mapping[str, Any]) -> None:
        self._follower = follower
        self._scan_defaults = scan_defaults

    def __repr__(self) -> str:
        latest = self._follower.latest
        return f"Dataset({latest.uri!r}, version={latest.version}, staleness={self.staleness:.1f})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self._follower.latest, self._scan_defaults)

    @property
    def _snapshot(self) -> Snapshot:  # type: ignore[override]  # a slot of the base class
        return self._follower.current()

    @property
    def staleness(self) -> float:
        """Seconds since the last successful poll for the latest version began."""
        return self._follower.staleness

    async def checkout_latest(self) -> Dataset:  # type: ignore[override]  # of one version
        """Open the latest version, and move this dataset there. Concurrent callers share a poll."""
        return Dataset(await self._follower.refresh(), self._scan_defaults)

    def _on(self, snapshot: Snapshot) -> Dataset:  # type: ignore[override]  # of one version
        self._follower.tell(snapshot)
        return Dataset(snapshot, self._scan_defaults)
