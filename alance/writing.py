"""Writing of tables: `write_dataset`, and its two steps for distributed writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, overload

from alance.base.calls import public
from alance.base.deferred import Deferred
from alance.datasets import Dataset
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.ops.blobs.files import BlobOptions
from alance.ops.version.options import (
    MAX_BYTES_PER_FILE,
    MAX_ROWS_PER_FILE,
    BaseOptions,
    CommitOptions,
)
from alance.ops.write.options import Limits, WriteOptions
from alance.session import Session, StoreArguments, table_at
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from datetime import timedelta
    from typing import Unpack

    import pyarrow as pa

    from alance.format.proto.table_pb2 import DataFragment
    from alance.format.table import transaction as transactions
    from alance.format.table.fragment import DatasetBasePath
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.operations import Operation
    from alance.ops.cleanup import policy as cleanup_policy
    from alance.ops.cleanup.policy import AutoCleanupConfig
    from alance.ops.write import write as writer
    from alance.ops.write.options import Mode, WriteProgress
    from alance.ops.write.sources import Data
    from alance.session import TableArguments
    from alance.versioning import outcome
    from alance.versioning.table import Table
else:
    cleanup_policy = Deferred("alance.ops.cleanup.policy")
    outcome = Deferred("alance.versioning.outcome")
    transactions = Deferred("alance.format.table.transaction")
    writer = Deferred("alance.ops.write.write")


@public
async def write_dataset(
    data: Data,
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "create",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    data_storage_version: str | FileVersion | None = None,
    stable_row_ids: bool = False,
    v2_manifest_paths: bool = True,
    progress: WriteProgress | None = None,
    blobs: BlobOptions | None = None,
    statistics: bool = True,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
    properties: Mapping[str, str] | None = None,
    message: str | None = None,
    max_retries: int = MAX_RETRIES,
    **place: Unpack[TableArguments],
) -> Dataset:
    """Write rows as a new table, append them to a table, or replace its rows.

    After an error or a cancellation the table is unchanged, and the data files are removed. Two
    cases may leave a new version: a CommitStateUnknownError, and a cancellation during the PUT of
    the manifest.

    Cost: a LIST to find the table, and a GET of its latest version if that is not cached; an upload
    of each data file; together with the last of them, a PUT of the transaction and a LIST; then a
    PUT of the manifest. A Table of up to 8 MiB is usually appended without the second LIST. If the
    session appended in the last two seconds, the first LIST and the GET are omitted instead. The
    first commit of a process to a bucket of a server other than S3, GCS and Azure themselves tests
    its conditional PUTs: one PUT more, or two and a DELETE if the commit has no transaction object.

    Example:

        dataset = await alance.write_dataset({"id": [1, 2], "name": ["a", "b"]}, "people")
        dataset = await alance.write_dataset({"id": [3]}, "people", mode="append")
        assert await dataset.count_rows() == 3

    Args:
        data: a Table, RecordBatch, reader, a Dataset or Scanner of alance or pyarrow, anything with
            the Arrow stream protocol (pandas, polars, DuckDB), a list of dicts or pydantic models,
            a dict of lists or arrays, or an iterable or async iterable of Tables or RecordBatches.
            A numpy array of two dimensions is a column of vectors. Without `schema`, so are lists
            of floats of equal length, from Python or pandas, in a column `vector` or `embedding`;
            they become float32. Streams are never held in memory as a whole.
        uri: path or URI of the table; see `dataset`.
        mode: `create`: the table must not exist; `append`: rows are cast to the table's schema, and
            columns that they lack are null; `overwrite`: rows and schema are replaced, but older
            versions remain. `append` and `overwrite` create the table if it does not exist.
        schema: schema to which batches are cast; required for iterables that may be empty; None:
            that of the data.
        max_rows_per_file: number of rows after which a new file begins.
        max_bytes_per_file: a file ends after the batch that reaches this size.
        data_storage_version: "0.1", "2.0", "2.1" or "2.2" of new files; None: the version of the
            table, or 2.2. "2.3" is unstable: it is written with a warning, and later releases may
            not read it.
        stable_row_ids: (new tables) rows get ids that compaction and updates keep.
        v2_manifest_paths: (new tables) True to name manifests so that one LIST finds the latest
            version; False for the names of old releases.
        progress: called with a `Progress` of the rows; True: a bar (docs/progress.md). Or an object
            with pylance's `begin` and `complete`, which are called for each fragment
            (`types.FragmentWriteProgress`).
        blobs: options of blobs of version 2; see `BlobOptions`.
        statistics: True to write statistics of zones of rows into files of 2.1 and 2.2, by which
            filters skip zones (docs/statistics.md); takes about 5 % of the time of writing.
        auto_cleanup_options: (new tables) options of cleanups after commits by all writers, such as
            `{"interval": 20, "older_than_seconds": 86400}`, or with `retain_versions`. They are
            stored in the table's configuration, where they can be changed. None: no cleanups.
        initial_bases: (new tables) folders outside the table's folder that may contain its data
            files.
        target_bases: names or paths of the table's base paths to which new data files are written
            in turn; the table's own URI stands for its folder. None: only the table's folder. See
            docs/bases.md.
        target_all_bases: True to write new data files in turn to the table's folder and all base
            paths; False to exclude the table's folder; None: as `target_bases`.
        properties: texts by key, recorded in the transaction.
        message: a commit message, recorded in the transaction.
        max_retries: number of further attempts of the commit if other commits are first.
        place: `store`, `storage_options`, `session`, `manifest_store` and `commit_lock`, as for
            `dataset`.

    Raises:
        AlreadyExistsError: the table exists, and the mode is `create`.
        InvalidInputError: the data is of an unknown kind or does not fit the schema; or a base path
            is not one of the table's, or is another table's folder.
        AccessError: there are no credentials for a base path (docs/security.md).
        UnsupportedError: alance does not write a type, file version or table feature.
        CommitConflictError: a concurrent commit rules this one out.
        CommitStateUnknownError: it is unknown whether the version was committed.
        StoreError: the store failed.
    """
    session = place.get("session") or Session.of_loop()
    config: dict[str, str] = {}
    if auto_cleanup_options is not None:
        await session.engine.pool.load(cleanup_policy)
        config = cleanup_policy.configured(auto_cleanup_options)
    options = WriteOptions(
        limits=Limits(max_rows_per_file, max_bytes_per_file, statistics, blobs or BlobOptions()),
        data_storage_version=FileVersion.of(data_storage_version),
        stable_row_ids=stable_row_ids,
        v2_manifest_paths=v2_manifest_paths,
        config=config,
        progress=progress,
        commit=CommitOptions(properties, message, max_retries),
        bases=BaseOptions.of(initial_bases, target_bases, target_all_bases),
    )
    await session.engine.pool.load(writer)
    with options.reporting():
        return Dataset(
            await writer.write(
                uri,
                data,
                mode,
                schema=schema,
                options=options,
                **place,
            )
        )


class FragmentArguments(StoreArguments, total=False):
    """Keyword arguments of `write_fragments`; see `write_dataset`."""

    mode: Mode
    schema: pa.Schema | None
    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: str | FileVersion | None
    progress: WriteProgress | None
    blobs: BlobOptions | None
    statistics: bool
    initial_bases: Iterable[DatasetBasePath] | None
    target_bases: Iterable[str] | None
    target_all_bases: bool | None


@overload
async def write_fragments(
    data: Data,
    dataset_or_uri: Dataset | str | os.PathLike[str],
    *,
    return_transaction: Literal[False] = False,
    **arguments: Unpack[FragmentArguments],
) -> list[DataFragment]: ...
@overload
async def write_fragments(
    data: Data,
    dataset_or_uri: Dataset | str | os.PathLike[str],
    *,
    return_transaction: Literal[True],
    **arguments: Unpack[FragmentArguments],
) -> Transaction: ...
@public
async def write_fragments(
    data: Data,
    dataset_or_uri: Dataset | str | os.PathLike[str],
    *,
    return_transaction: bool = False,
    mode: Mode = "append",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    data_storage_version: str | FileVersion | None = None,
    progress: WriteProgress | None = None,
    blobs: BlobOptions | None = None,
    statistics: bool = True,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
    **place: Unpack[StoreArguments],
) -> list[DataFragment] | Transaction:
    """Write rows to data files without a commit. Many writers can do this for one `commit`.

    Cost: uploads of the data. By URI also a LIST to find the table, and a GET of its latest version
    if that is not cached; mode `overwrite` needs these only with `return_transaction`, or if files
    are written to existing base paths.

    Args:
        data: as for `write_dataset`.
        dataset_or_uri: the table, as an open dataset or a URI.
        return_transaction: True to return a transaction, for `commit` and `commit_batch`.
        mode: `append`: rows are cast to the table's schema and get its field ids; if the table does
            not exist, and in the other modes, rows keep their own schema. `create`: the table must
            not exist.
        schema, max_rows_per_file, max_bytes_per_file, data_storage_version: as for `write_dataset`.
        progress, blobs, statistics, target_bases, target_all_bases: as for `write_dataset`.
        initial_bases: (new tables) base paths with ids, as for `write_dataset`. The `Overwrite` to
            commit must list them, too, as protobuf messages; a returned transaction does.
        place: `store`, `storage_options` and `session`, as for `dataset`; only by URI.

    Returns:
        Fragments for `operations.Append` or `operations.Overwrite`, as protobuf messages; or the
        transaction with this operation. Both can be pickled. The rows are not part of the table
        until they are committed. Cleanup removes files that are never committed.

    Raises:
        AlreadyExistsError: the table exists, and the mode is `create`.
        InvalidInputError, AccessError, UnsupportedError, StoreError: as from `write_dataset`.
    """
    options = WriteOptions(
        limits=Limits(max_rows_per_file, max_bytes_per_file, statistics, blobs or BlobOptions()),
        data_storage_version=FileVersion.of(data_storage_version),
        progress=progress,
        bases=BaseOptions.of(initial_bases, target_bases, target_all_bases),
    )
    session, table, base = _place(dataset_or_uri, **place)
    has_targets = options.bases.has_targets and not options.bases.initial_bases
    await session.engine.pool.load(writer)
    with options.reporting():
        change, version = await writer.write_fragments(
            session,
            table,
            base,
            data,
            mode,
            schema=schema,
            options=options,
            looks=mode != "overwrite" or return_transaction or has_targets,
        )
    if return_transaction:
        return transactions.Transaction.of(change, read_version=version)
    return list(change.fragments)


@public
async def commit(
    dataset_or_uri: Dataset | str | os.PathLike[str],
    operation: Operation | Transaction,
    *,
    read_version: int | None = None,
    detached: bool = False,
    data_storage_version: str | FileVersion | None = None,
    stable_row_ids: bool = False,
    commit_timeout: timedelta | float | None = None,
    properties: Mapping[str, str] | None = None,
    message: str | None = None,
    max_retries: int = MAX_RETRIES,
    **place: Unpack[TableArguments],
) -> Dataset:
    """Commit an operation (see `alance.operations`) as the next version of a table.

    Cost: a GET of the version from which the operation was computed, then two rounds; by URI
    without `read_version` also a LIST. Each version committed since then costs a GET.

    Args:
        dataset_or_uri: the table, as an open dataset or a URI.
        operation: an operation, or a transaction as from `write_fragments`. A transaction that is
            already committed is not committed again: its version is returned, if that still exists.
        read_version: the version from which the operation was computed; None: that of the dataset,
            or the latest at the URI. Not allowed for a transaction, which has its own.
        detached: True to commit a version outside the table's history, with a random number.
        commit_timeout: timedelta or seconds, greater than 0, after which the commit with all its
            attempts is cancelled, as by `asyncio.timeout`; None: no attempt begins after a minute.
        data_storage_version, stable_row_ids: for a new table; as for `write_dataset`.
        properties, message, max_retries: as for `write_dataset`.
        place: `store`, `storage_options`, `session`, `manifest_store` and `commit_lock`, as for
            `dataset`; only by URI.

    Raises:
        NotFoundError: there is no such version.
        AlreadyExistsError: `read_version` is 0, and the table exists.
        InvalidInputError: the operation does not fit the version, or an argument is out of range.
        CommitConflictError: a concurrent commit rules this one out.
        CommitStateUnknownError: it is unknown whether the version was committed, possibly because
            of `commit_timeout`.
        StoreError: the store failed; or `commit_timeout` is over, and no version was committed.
    """
    options = WriteOptions(
        data_storage_version=FileVersion.of(data_storage_version),
        stable_row_ids=stable_row_ids,
        commit=CommitOptions(properties, message, max_retries),
    )
    session, table, base = _place(dataset_or_uri, **place)
    await session.engine.pool.load(writer, outcome)
    async with outcome.within(commit_timeout, table.uri):
        return Dataset(
            await writer.commit_operation(
                session,
                table,
                operation,
                read_version=read_version,
                usual_version=None if base is None else base.version,
                detached=detached,
                options=options,
            )
        )


class BulkCommitResult(TypedDict):
    """Result of `commit_batch`.

    Attributes:
        dataset: the new version.
        merged: the transaction of the new version.
    """

    dataset: Dataset
    merged: Transaction


@public
async def commit_batch(
    dataset_or_uri: Dataset | str | os.PathLike[str],
    transactions: Iterable[Transaction],
    *,
    detached: bool = False,
    commit_timeout: timedelta | float | None = None,
    properties: Mapping[str, str] | None = None,
    message: str | None = None,
    max_retries: int = MAX_RETRIES,
    **place: Unpack[TableArguments],
) -> BulkCommitResult:
    """Commit the appends of many writers as one version of a table, in the order of the argument.

    Cost: a GET of the oldest version from which a transaction was computed, then two rounds. Each
    version committed since then costs a GET.

    Args:
        dataset_or_uri: the table, as an open dataset or a URI.
        transactions: appends, as from `write_fragments` with `return_transaction`. They may be
            computed from different versions of the table.
        detached, commit_timeout, properties, message, max_retries, place: as for `commit`.

    Raises:
        InvalidInputError: there are no transactions, or one is not an append or is repeated.
        RetryableConflictError: a newer version already contains some of them.
        NotFoundError, CommitConflictError, CommitStateUnknownError, StoreError: as from `commit`.
    """
    options = WriteOptions(commit=CommitOptions(properties, message, max_retries))
    session, table, _ = _place(dataset_or_uri, **place)
    await session.engine.pool.load(writer, outcome)
    async with outcome.within(commit_timeout, table.uri):
        snapshot, whole = await writer.commit_batch(
            session, table, tuple(transactions), detached=detached, options=options
        )
    return {"dataset": Dataset(snapshot), "merged": whole}


def _place(
    dataset_or_uri: Dataset | str | os.PathLike[str], **place: Unpack[TableArguments]
) -> tuple[Session, Table, Manifest | None]:
    """Return the session, the table and the manifest; the manifest is None for a URI."""
    if isinstance(dataset_or_uri, Dataset):
        if any(option is not None for option in place.values()):
            raise InvalidInputError(
                "store, storage_options, session, manifest_store, commit_lock: a dataset has its "
                "own"
            )
        snapshot = dataset_or_uri._snapshot
        return snapshot.session, snapshot.table, snapshot.manifest
    return *table_at(dataset_or_uri, **place), None
