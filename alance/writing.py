"""Writing tables: `write_dataset`, and its two halves for distributed writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from alance.datasets import Dataset
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.ops import write
from alance.ops.data_files import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, Limits
from alance.ops.write import WriteOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from alance.ops.data_files import Progress
    from alance.ops.sources import Data
    from alance.session import Session

MAX_RETRIES: Final = 20
Mode: TypeAlias = Literal["create", "append", "overwrite"]


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
    properties: Mapping[str, str] | None = None,
    message: str | None = None,
    progress: Callable[[Progress], object] | None = None,
    max_retries: int = MAX_RETRIES,
    store: object | None = None,
    storage_options: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> Dataset:
    """Write rows as a new table, behind those of a table, or in their place.

    Cost: a LIST and a GET to look for the table; the data, in multipart uploads; beside its last
    object the transaction's file and a LIST; then the manifest, put if absent.

    An error or a cancellation leaves the table as it was, and removes the data files.

    Args:
        data: a Table, RecordBatch, reader, pyarrow Dataset or Scanner, anything with the Arrow
            stream protocol (pandas, polars, DuckDB), or an iterable or async iterable of Tables
            or RecordBatches. Streams are never held as a whole.
        uri: as of `dataset`.
        mode: `create`: there must be no table; `append`: rows are cast to the table's schema,
            columns that they lack are null; `overwrite`: rows and schema are replaced, older
            versions stay. The latter two create a table where there is none.
        schema: of the rows, where iterables are empty or batches are to be cast.
        max_rows_per_file: a file is cut there.
        max_bytes_per_file: a file ends behind the batch that reaches it.
        data_storage_version: "2.1" or "2.2" of new files; None: that of the table, of a new one 2.2.
        stable_row_ids: of a new table: rows get ids that compaction and updates keep.
        v2_manifest_paths: of a new table: names by which one LIST finds the latest version.
        properties: noted in the transaction.
        message: a commit message.
        progress: called with a `Progress` after each batch.
        max_retries: attempts of the commit after the first, where others were first.

    Raises:
        AlreadyExistsError: there is a table, and the mode is `create`.
        InvalidInputError: data of another kind, or that does not fit the schema.
        UnsupportedError: a type, file version or table feature that is not written.
        CommitConflictError: a concurrent commit rules this one out.
        CommitStateUnknownError: whether the commit landed could not be found out.
        StoreError: the store failed.
    """
    options = _options(
        max_rows_per_file,
        max_bytes_per_file,
        data_storage_version,
        stable_row_ids=stable_row_ids,
        v2_manifest_paths=v2_manifest_paths,
        properties=properties,
        message=message,
        progress=progress,
        max_retries=max_retries,
    )
    return Dataset(
        await write.write(
            uri,
            data,
            mode,
            schema=schema,
            options=options,
            store=store,
            storage_options=storage_options,
            session=session,
        )
    )


def _options(
    max_rows_per_file: int,
    max_bytes_per_file: int,
    data_storage_version: str | FileVersion | None,
    *,
    stable_row_ids: bool = False,
    v2_manifest_paths: bool = True,
    properties: Mapping[str, str] | None = None,
    message: str | None = None,
    progress: Callable[[Progress], object] | None = None,
    max_retries: int = MAX_RETRIES,
) -> WriteOptions:
    if not isinstance(max_retries, int) or max_retries < 0:
        raise InvalidInputError(f"max_retries={max_retries!r}: expected 0 or more")
    version = data_storage_version
    if isinstance(version, str) and not isinstance(version, FileVersion):
        version = FileVersion.parse(version)
    return WriteOptions(
        limits=Limits(max_rows_per_file, max_bytes_per_file),
        data_storage_version=version,
        stable_row_ids=stable_row_ids,
        v2_manifest_paths=v2_manifest_paths,
        properties=properties,
        message=message,
        on_progress=progress,
        max_retries=max_retries,
    )
