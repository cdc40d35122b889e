"""The blocking face: the same names as `alance`, without `await`.

Made by `python -m tools.stubs`.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self, Unpack, overload

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from alance import AccessError as AccessError
from alance import AlanceError as AlanceError
from alance import AlreadyExistsError as AlreadyExistsError
from alance import BatchTooLargeError as BatchTooLargeError
from alance import BatchUdf as BatchUdf
from alance import Blob as Blob
from alance import BlobDescriptor as BlobDescriptor
from alance import BlobDescriptorArrayBuilder as BlobDescriptorArrayBuilder
from alance import BlobOptions as BlobOptions
from alance import BooleanQuery as BooleanQuery
from alance import BoostQuery as BoostQuery
from alance import BucketNotFoundError as BucketNotFoundError
from alance import ColumnNotFoundError as ColumnNotFoundError
from alance import ColumnOrdering as ColumnOrdering
from alance import CombinedFieldsQuery as CombinedFieldsQuery
from alance import CommitConflictError as CommitConflictError
from alance import CommitStateUnknownError as CommitStateUnknownError
from alance import CorruptFileError as CorruptFileError
from alance import DatasetBasePath as DatasetBasePath
from alance import DynamoDbStore as DynamoDbStore
from alance import FileVersion as FileVersion
from alance import ForkedError as ForkedError
from alance import IngestMetrics as IngestMetrics
from alance import InvalidInputError as InvalidInputError
from alance import MaintenancePolicy as MaintenancePolicy
from alance import MatchQuery as MatchQuery
from alance import MissingPackageError as MissingPackageError
from alance import MultiMatchQuery as MultiMatchQuery
from alance import NotFoundError as NotFoundError
from alance import PhraseQuery as PhraseQuery
from alance import Progress as Progress
from alance import Recorder as Recorder
from alance import RepairReport as RepairReport
from alance import RetryableConflictError as RetryableConflictError
from alance import RowNotFoundError as RowNotFoundError
from alance import ScanOptions as ScanOptions
from alance import Session as Session
from alance import SqliteStore as SqliteStore
from alance import StoreError as StoreError
from alance import StoreReport as StoreReport
from alance import TableNotFoundError as TableNotFoundError
from alance import TextQuery as TextQuery
from alance import UnsupportedError as UnsupportedError
from alance import VersionNotFoundError as VersionNotFoundError
from alance import __version__ as __version__
from alance import batch_udf as batch_udf
from alance import blob_array as blob_array
from alance import blob_field as blob_field
from alance import distributed as distributed
from alance import indexing as indexing
from alance import observe as observe
from alance import operations as operations
from alance import optimize as optimize
from alance import tokenize as tokenize
from alance import trace as trace
from alance.indexing import IndexPages, IndexPart, IndexSegment
from alance.operations import DataReplacementGroup, Operation
from alance.optimize import AutoCompactionMetrics, RewriteResult
from alance.types import (
    Alteration,
    AutoCleanupConfig,
    BlobMode,
    BranchContents,
    BulkCommitResult,
    Change,
    ChangeSummary,
    CleanupExplanation,
    CleanupStats,
    Columns,
    Combine,
    CommitArguments,
    CompactionArguments,
    Data,
    DataFragment,
    DatasetStats,
    Explanation,
    Field,
    FieldMessage,
    FileDescription,
    FollowArguments,
    Fragment,
    FragmentArguments,
    FragmentPandasArguments,
    FragmentScanArguments,
    FrameArguments,
    HybridArguments,
    IndexArguments,
    IndexConfig,
    IndexDescription,
    KeyColumn,
    ListResult,
    MaintenanceMetrics,
    MaintenanceReport,
    Missing,
    Mode,
    NewIndex,
    NewTextIndex,
    NewVectorIndex,
    OnProgress,
    PandasArguments,
    Params,
    Place,
    PolicyArguments,
    Reference,
    ResolvedCompactionOptions,
    ScalarIndexArguments,
    ScanArguments,
    SearchArguments,
    StorageOptions,
    StoreArguments,
    TableArguments,
    TableHealth,
    TableName,
    TagContents,
    TextIndexArguments,
    TextSearchArguments,
    Transaction,
    Transforms,
    Updates,
    ValueIndexArguments,
    ValueOptions,
    VectorIndexArguments,
    VersionInfo,
    WriteProgress,
)

class Dataset:
    def sql(
        self,
        query: str,
        *,
        params: Params = ...,
        tables: Mapping[str, object] | None = ...,
        settings: Mapping[str, object] | None = ...,
    ) -> pa.Table: ...
    def sql_batches(
        self,
        query: str,
        *,
        params: Params = ...,
        tables: Mapping[str, object] | None = ...,
        settings: Mapping[str, object] | None = ...,
    ) -> Iterator[pa.RecordBatch]: ...
    def to_arrow_dataset(self) -> pa.dataset.Dataset: ...
    def to_polars_lazy(self) -> pl.LazyFrame: ...
    def get(
        self,
        key: object,
        column: KeyColumn = ...,
        columns: Columns = ...,
    ) -> dict[str, Any] | None: ...
    def get_arrow(
        self,
        key: object,
        column: KeyColumn = ...,
        columns: Columns = ...,
    ) -> pa.Table | None: ...
    def get_many(
        self,
        keys: Iterable[object],
        column: KeyColumn = ...,
        columns: Columns = ...,
        *,
        missing: Missing = ...,
    ) -> pa.Table: ...
    def explain_get(
        self,
        key: object,
        column: KeyColumn = ...,
        columns: Columns = ...,
    ) -> Explanation: ...
    def nearest(
        self,
        column: str,
        query: object,
        k: int = ...,
        **options: Unpack[SearchArguments],
    ) -> pa.Table: ...
    def nearest_many(
        self,
        column: str,
        queries: Sequence[object] | object,
        k: int = ...,
        **options: Unpack[SearchArguments],
    ) -> pa.Table: ...
    def search_text(
        self,
        query: str | TextQuery,
        k: int = ...,
        **options: Unpack[TextSearchArguments],
    ) -> pa.Table: ...
    def search(
        self,
        text: str | TextQuery,
        vector: object,
        k: int = ...,
        *,
        combine: Combine = ...,
        **options: Unpack[HybridArguments],
    ) -> pa.Table: ...
    def explain_search(
        self,
        text: str | TextQuery,
        vector: object,
        k: int = ...,
        *,
        combine: Combine = ...,
        **options: Unpack[HybridArguments],
    ) -> Explanation: ...
    def take_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = ...,
        row_ids: Sequence[int] | None = ...,
        addresses: Sequence[int] | None = ...,
        buffer_size: int = ...,
    ) -> list[BlobFile | None]: ...
    def read_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = ...,
        row_ids: Sequence[int] | None = ...,
        addresses: Sequence[int] | None = ...,
    ) -> list[tuple[int, bytes | None]]: ...
    def read_blob_ranges(
        self,
        column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
    ) -> list[tuple[int, int, bytes | None]]: ...
    def create_scalar_index(
        self,
        column: str,
        index_type: str | IndexConfig,
        name: str | None = ...,
        *,
        replace: bool = ...,
        train: bool = ...,
        progress: OnProgress | None = ...,
        **options: Unpack[ScalarIndexArguments],
    ) -> Self: ...
    def create_index(
        self,
        column: str,
        index_type: str,
        name: str | None = ...,
        metric: str = ...,
        *,
        replace: bool = ...,
        progress: OnProgress | None = ...,
        properties: Mapping[str, str] | None = ...,
        message: str | None = ...,
        max_retries: int = ...,
        **options: Unpack[IndexArguments],
    ) -> Self: ...
    def drop_index(self, name: str, **commit: Unpack[CommitArguments]) -> Self: ...
    def list_indices(self) -> list[dict[str, Any]]: ...
    def describe_indices(self) -> list[IndexDescription]: ...
    def index_statistics(self, name: str) -> dict[str, Any]: ...
    def centroids(
        self,
        *,
        index_name: str | None = ...,
        column: str | None = ...,
    ) -> pa.FixedSizeListArray: ...
    def remap_row_addrs(self, addrs: object) -> pa.Array | None: ...
    def prewarm_index(
        self,
        name: str,
        *,
        with_position: bool = ...,
        index_segments: Iterable[str] | None = ...,
    ) -> None: ...
    def maintain(
        self,
        policy: MaintenancePolicy | None = ...,
        *,
        dry_run: bool = ...,
        progress: OnProgress | None = ...,
    ) -> MaintenanceReport: ...
    def maintaining(
        self,
        policy: MaintenancePolicy | None = ...,
        *,
        interval: float = ...,
    ) -> Maintenance: ...
    def health(self, *, reclaimable: bool = ...) -> TableHealth: ...
    @property
    def optimize(self) -> Optimize: ...
    def cleanup_old_versions(
        self,
        older_than: timedelta | None = ...,
        retain_versions: int | None = ...,
        *,
        delete_rate_limit: int | None = ...,
        delete_concurrency: int | None = ...,
        dry_run: bool = ...,
        progress: OnProgress | None = ...,
        **others: Unpack[PolicyArguments],
    ) -> CleanupStats: ...
    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = ...,
        retain_versions: int | None = ...,
        *,
        include_files: bool = ...,
        max_files: int = ...,
        **others: Unpack[PolicyArguments],
    ) -> CleanupExplanation: ...
    def tracked_files(
        self,
        *,
        min_version: int | None = ...,
        progress: OnProgress | None = ...,
    ) -> Iterator[pa.RecordBatch]: ...
    def all_files(self) -> Iterator[pa.RecordBatch]: ...
    def validate(self) -> None: ...
    def migrate_manifest_paths_v2(self) -> None: ...
    def follow(
        self,
        since: int | str | None = ...,
        **options: Unpack[FollowArguments],
    ) -> Iterator[Change]: ...
    @property
    def tags(self) -> Tags: ...
    @property
    def branches(self) -> Branches: ...
    def versions(self) -> list[VersionInfo]: ...
    def latest_version(self) -> int: ...
    def checkout_version(self, version: Reference) -> Self: ...
    def checkout_latest(self) -> Self: ...
    def checkout_branch(self, branch: str | None, version: int | None = ...) -> Self: ...
    def read_transaction(self, version: int | None = ...) -> Transaction | None: ...
    def get_transactions(self, recent: int = ...) -> list[Transaction | None]: ...
    def delta(
        self,
        compared_against: int | None = ...,
        *,
        begin_version: int | None = ...,
        end_version: int | None = ...,
    ) -> DatasetDelta: ...
    def restore(
        self,
        version: Reference | None = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def create_branch(
        self,
        name: str,
        reference: Reference | None = ...,
        *,
        metadata: Mapping[str, str] | None = ...,
    ) -> Self: ...
    def shallow_clone(
        self,
        target_uri: str | os.PathLike[str],
        reference: Reference | None = ...,
        *,
        properties: Mapping[str, str] | None = ...,
        message: str | None = ...,
        note_at_source: bool = ...,
        store: object | None = ...,
        storage_options: StorageOptions | None = ...,
    ) -> Self: ...
    def deep_clone(
        self,
        target_uri: str | os.PathLike[str],
        reference: Reference | None = ...,
        *,
        properties: Mapping[str, str] | None = ...,
        message: str | None = ...,
        store: object | None = ...,
        storage_options: Mapping[str, str] | None = ...,
        progress: OnProgress | None = ...,
    ) -> Self: ...
    def update_config(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def delete_config_keys(self, keys: Sequence[str]) -> Self: ...
    def update_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def update_schema_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    @property
    def base_paths(self) -> dict[int, DatasetBasePath]: ...
    def add_bases(
        self,
        new_bases: Iterable[DatasetBasePath],
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def update_field_metadata(
        self,
        fields: Mapping[str, Mapping[str, str | None]],
        *,
        replace: bool = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = ...,
        batch_size: int | None = ...,
        progress: OnProgress | None = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def alter_columns(
        self,
        *alterations: Alteration,
        progress: OnProgress | None = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def drop_columns(self, columns: Sequence[str], **commit: Unpack[CommitArguments]) -> Self: ...
    def merge(
        self,
        data: Data,
        left_on: str,
        right_on: str | None = ...,
        *,
        progress: OnProgress | None = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def replace_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = ...,
        batch_size: int | None = ...,
        progress: OnProgress | None = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def insert(
        self,
        data: Data,
        *,
        mode: Literal["append", "overwrite"] = ...,
        max_rows_per_file: int = ...,
        max_bytes_per_file: int = ...,
        progress: WriteProgress | None = ...,
        blobs: BlobOptions | None = ...,
        target_bases: Iterable[str] | None = ...,
        target_all_bases: bool | None = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        params: Params = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def update(
        self,
        updates: Updates,
        where: str | pc.Expression | None = ...,
        *,
        params: Params = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    def merge_insert(self, on: str | Iterable[str] | None = ...) -> MergeInsert: ...
    def upsert(
        self,
        data: Data,
        on: str | Iterable[str] | None = ...,
        *,
        schema: pa.Schema | None = ...,
        memory_bytes: int = ...,
        **commit: Unpack[CommitArguments],
    ) -> Self: ...
    @property
    def uri(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def fields(self) -> tuple[Field, ...]: ...
    @property
    def data_storage_version(self) -> FileVersion: ...
    @property
    def config(self) -> dict[str, str]: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    @property
    def timestamp(self) -> datetime | None: ...
    @property
    def branch(self) -> str | None: ...
    @property
    def has_stable_row_ids(self) -> bool: ...
    @property
    def summary(self) -> ChangeSummary: ...
    @property
    def staleness(self) -> float | None: ...
    @property
    def session(self) -> Session: ...
    @property
    def fragments(self) -> tuple[DatasetFragment, ...]: ...
    def fragment(self, fragment_id: int) -> DatasetFragment: ...
    def take(self, indices: object, columns: Columns = ...) -> pa.Table: ...
    def explain_take(self, indices: object, columns: Columns = ...) -> Explanation: ...
    def take_rows(self, row_ids: object, columns: Columns = ...) -> pa.Table: ...
    def take_addresses(self, addresses: object, columns: Columns = ...) -> pa.Table: ...
    def new_file_session(self) -> FileSession: ...
    def scanner(self, columns: Columns = ..., **options: Unpack[ScanArguments]) -> Scanner: ...
    def to_batches(
        self,
        columns: Columns = ...,
        **options: Unpack[ScanArguments],
    ) -> Iterator[pa.RecordBatch]: ...
    def to_table(self, columns: Columns = ..., **options: Unpack[ScanArguments]) -> pa.Table: ...
    def to_pandas(
        self,
        columns: Columns = ...,
        *,
        blob_mode: BlobMode = ...,
        **options: Unpack[PandasArguments],
    ) -> pd.DataFrame: ...
    def to_polars(
        self,
        columns: Columns = ...,
        **options: Unpack[ScanArguments],
    ) -> pl.DataFrame: ...
    def stats(self, *, small_rows: int = ..., with_column_bytes: bool = ...) -> DatasetStats: ...
    def count_rows(
        self,
        filter: str | pc.Expression | None = ...,
        *,
        params: Params = ...,
    ) -> int: ...
    def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Columns = ...,
        *,
        memory_bytes: int = ...,
        **options: Unpack[ScanArguments],
    ) -> pa.Table: ...
    def head(self, num_rows: int, columns: Columns = ...) -> pa.Table: ...
    def sample(
        self,
        num_rows: int,
        columns: Columns = ...,
        *,
        seed: int | None = ...,
    ) -> pa.Table: ...
    def to_reader(
        self, columns: Columns = ..., **options: Unpack[ScanArguments]
    ) -> pa.RecordBatchReader: ...
    def __arrow_c_stream__(self, requested_schema: object | None = ...) -> object: ...
    def __len__(self) -> int: ...

class DatasetDelta:
    @property
    def begin_version(self) -> int: ...
    @property
    def end_version(self) -> int: ...
    def list_transactions(self) -> list[Transaction | None]: ...
    def get_inserted_rows(
        self,
        columns: Sequence[str] | None = ...,
        *,
        batch_size: int | None = ...,
        scan_in_order: bool = ...,
        batch_readahead: int | None = ...,
        io_buffer_bytes: int | None = ...,
    ) -> Iterator[pa.RecordBatch]: ...
    def get_updated_rows(
        self,
        columns: Sequence[str] | None = ...,
        *,
        batch_size: int | None = ...,
        scan_in_order: bool = ...,
        batch_readahead: int | None = ...,
        io_buffer_bytes: int | None = ...,
    ) -> Iterator[pa.RecordBatch]: ...
    def get_deleted_row_ids(self) -> Iterator[pa.RecordBatch]: ...

class DatasetFragment:
    @property
    def fragment_id(self) -> int: ...
    @property
    def metadata(self) -> Fragment: ...
    @property
    def physical_rows(self) -> int: ...
    def count_rows(
        self,
        filter: str | pc.Expression | None = ...,
        *,
        params: Params = ...,
    ) -> int: ...
    def take(self, indices: object, columns: Columns = ...) -> pa.Table: ...
    def scanner(
        self,
        columns: Columns = ...,
        **options: Unpack[FragmentScanArguments],
    ) -> Scanner: ...
    def to_batches(
        self,
        columns: Columns = ...,
        **options: Unpack[FragmentScanArguments],
    ) -> Iterator[pa.RecordBatch]: ...
    def to_table(
        self,
        columns: Columns = ...,
        **options: Unpack[FragmentScanArguments],
    ) -> pa.Table: ...
    def to_pandas(
        self,
        columns: Columns = ...,
        *,
        blob_mode: BlobMode = ...,
        **options: Unpack[FragmentPandasArguments],
    ) -> pd.DataFrame: ...
    def head(self, num_rows: int, columns: Columns = ...) -> pa.Table: ...
    def validate(self) -> None: ...
    @classmethod
    def create(
        cls,
        dataset_uri: str | os.PathLike[str],
        data: Data,
        fragment_id: int | None = ...,
        *,
        mode: Mode = ...,
        schema: pa.Schema | None = ...,
        data_storage_version: str | FileVersion | None = ...,
        progress: WriteProgress | None = ...,
        blobs: BlobOptions | None = ...,
        **place: Unpack[StoreArguments],
    ) -> DataFragment: ...
    @classmethod
    def create_from_file(
        cls,
        filename: str,
        dataset: Dataset,
        fragment_id: int = ...,
    ) -> DataFragment: ...
    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        params: Params = ...,
    ) -> DataFragment | None: ...
    def delete_rows(self, offsets: object) -> DataFragment | None: ...
    def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = ...,
        batch_size: int | None = ...,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]: ...
    def merge_columns(
        self,
        value_func: Transforms,
        columns: Sequence[str] | None = ...,
        *,
        batch_size: int | None = ...,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]: ...
    def merge(
        self,
        data: Data,
        left_on: str,
        right_on: str | None = ...,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]: ...
    def replace_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = ...,
        batch_size: int | None = ...,
    ) -> DataReplacementGroup: ...
    def update_columns(
        self,
        data: Data,
        left_on: str = ...,
        right_on: str | None = ...,
    ) -> tuple[DataFragment, tuple[int, ...], bytes]: ...
    def to_reader(
        self, columns: Columns = ..., **options: Unpack[FragmentScanArguments]
    ) -> pa.RecordBatchReader: ...
    def __arrow_c_stream__(self, requested_schema: object | None = ...) -> object: ...
    def __len__(self) -> int: ...

class Scanner:
    @property
    def projected_schema(self) -> pa.Schema: ...
    def to_batches(self) -> Iterator[pa.RecordBatch]: ...
    def to_table(self) -> pa.Table: ...
    def to_pandas(
        self,
        *,
        blob_mode: BlobMode = ...,
        **options: Unpack[FrameArguments],
    ) -> pd.DataFrame: ...
    def to_polars(self) -> pl.DataFrame: ...
    def count_rows(self) -> int: ...
    def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Columns = ...,
        *,
        memory_bytes: int = ...,
    ) -> pa.Table: ...
    def explain_plan(self, verbose: bool = ...) -> str: ...
    def analyze_plan(self, count_rows: bool = ...) -> str: ...
    def explain(self) -> Explanation: ...
    def to_reader(self) -> pa.RecordBatchReader: ...
    def __arrow_c_stream__(self, requested_schema: object | None = ...) -> object: ...
    def __len__(self) -> int: ...

class FileReader:
    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = ...,
        **place: Unpack[StoreArguments],
    ) -> FileReader: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def version(self) -> FileVersion: ...
    @property
    def num_global_buffers(self) -> int: ...
    def global_buffer(self, index: int) -> bytes: ...
    def describe(self) -> FileDescription: ...
    def take(self, rows: object, columns: Sequence[str] | None = ...) -> pa.Table: ...
    def to_batches(
        self,
        columns: Sequence[str] | None = ...,
        *,
        start: int = ...,
        stop: int | None = ...,
        batch_size: int | None = ...,
    ) -> Iterator[pa.RecordBatch]: ...
    def to_table(
        self,
        columns: Sequence[str] | None = ...,
        *,
        start: int = ...,
        stop: int | None = ...,
    ) -> pa.Table: ...

class FileSession:
    @classmethod
    def open(
        cls,
        base_path: str | os.PathLike[str],
        **place: Unpack[StoreArguments],
    ) -> FileSession: ...
    def open_reader(self, path: str, columns: Sequence[str] | None = ...) -> FileReader: ...
    def open_writer(
        self,
        path: str,
        schema: pa.Schema | None = ...,
        *,
        version: str | FileVersion = ...,
        page_bytes: int = ...,
        buffer_bytes: int = ...,
    ) -> FileWriter: ...
    def open_packed_blob_writer(self, path: str, blob_id: int) -> PackedBlobWriter: ...
    def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter: ...
    def contains(self, path: str) -> bool: ...
    def list(self, path: str | None = ...) -> Sequence[str]: ...
    def list_with_delimiter(self, path: str | None = ...) -> ListResult: ...
    def read_range(self, path: str, offset: int, length: int) -> bytes: ...
    def delete_file(self, path: str) -> None: ...
    def upload_file(self, local_path: str | os.PathLike[str], remote_path: str) -> None: ...
    def download_file(self, remote_path: str, local_path: str | os.PathLike[str]) -> None: ...

class FileWriter:
    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        schema: pa.Schema | None = ...,
        *,
        version: str | FileVersion = ...,
        page_bytes: int = ...,
        buffer_bytes: int | None = ...,
        **place: Unpack[StoreArguments],
    ) -> FileWriter: ...
    @property
    def schema(self) -> pa.Schema | None: ...
    @property
    def version(self) -> FileVersion: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def columns(self) -> dict[int, int]: ...
    def add_schema_metadata(self, key: str, value: str) -> None: ...
    def add_global_buffer(self, data: bytes) -> int: ...
    def write(self, data: Data) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class Sink:
    @property
    def schema(self) -> pa.Schema | None: ...
    @property
    def metrics(self) -> IngestMetrics: ...
    @property
    def compaction(self) -> AutoCompactionMetrics | None: ...
    @property
    def maintenance(self) -> MaintenanceMetrics | None: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def dataset(self) -> Dataset | None: ...
    def write(self, data: Data, *, token: str | None = ..., sequence: int | None = ...) -> bool: ...
    def upsert(
        self,
        data: Data,
        *,
        token: str | None = ...,
        sequence: int | None = ...,
    ) -> bool: ...
    def delete(
        self,
        keys: Data,
        *,
        token: str | None = ...,
        sequence: int | None = ...,
    ) -> bool: ...
    def flush(self) -> int: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class BlobFile:
    @property
    def size(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def readable(self) -> bool: ...
    def seekable(self) -> bool: ...
    def tell(self) -> int: ...
    def seek(self, offset: int, whence: int = ...) -> int: ...
    def read(self, num_bytes: int = ...) -> bytes: ...
    def readall(self) -> bytes: ...
    def read_range(self, offset: int, length: int) -> bytes: ...
    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]: ...
    def chunks(self, num_bytes: int = ...) -> Iterator[bytes]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class DedicatedBlobWriter:
    @property
    def blob_id(self) -> int: ...
    @property
    def path(self) -> str: ...
    def write(self, data: bytes) -> None: ...
    def finish(self) -> BlobDescriptor: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class PackedBlobWriter:
    @property
    def blob_id(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def field(self) -> pa.Field: ...
    def write_blob(self, data: bytes) -> None: ...
    def write_blobs(self, payloads: pa.Array | pa.ChunkedArray) -> None: ...
    def finish(self) -> list[BlobDescriptor]: ...
    def finish_array(self, field_name: str) -> pa.StructArray: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class Tags:
    def list(self) -> dict[str, TagContents]: ...
    def list_ordered(
        self,
        order: Literal["asc", "desc"] = ...,
    ) -> Sequence[tuple[str, TagContents]]: ...
    def get(self, name: str) -> TagContents: ...
    def get_version(self, name: str) -> int: ...
    def create(
        self,
        name: str,
        reference: Reference | None = ...,
        *,
        metadata: Mapping[str, str] | None = ...,
    ) -> None: ...
    def update(self, name: str, reference: Reference | None = ...) -> None: ...
    def delete(self, name: str) -> None: ...
    def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None: ...

class Branches:
    def list(self) -> dict[str, BranchContents]: ...
    def list_ordered(
        self,
        order: Literal["asc", "desc"] = ...,
    ) -> Sequence[tuple[str, BranchContents]]: ...
    def get(self, name: str) -> BranchContents | None: ...
    def create(
        self,
        name: str,
        reference: Reference | None = ...,
        *,
        metadata: Mapping[str, str] | None = ...,
    ) -> None: ...
    def delete(self, name: str, *, force: bool = ...) -> None: ...
    def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None: ...

class Catalog:
    @property
    def uri(self) -> str: ...
    def list_tables(
        self,
        namespace: TableName = ...,
        *,
        include_declared: bool = ...,
    ) -> list[str]: ...
    def list_namespaces(self, parent: TableName = ...) -> list[str]: ...
    def create_namespace(
        self,
        namespace: TableName,
        *,
        properties: Mapping[str, str] | None = ...,
    ) -> None: ...
    def drop_namespace(self, namespace: TableName) -> None: ...
    def create_table(
        self,
        table: TableName,
        data: Data | None = ...,
        *,
        mode: Literal["create", "overwrite", "append"] = ...,
        exist_ok: bool = ...,
        schema: pa.Schema | None = ...,
        stable_row_ids: bool = ...,
        **commit: Unpack[CommitArguments],
    ) -> Dataset: ...
    def open_table(self, table: TableName, *, version: int | str | None = ...) -> Dataset: ...
    def table_exists(self, table: TableName) -> bool: ...
    def place(self, table: TableName) -> Place: ...
    def rename_table(self, table: TableName, new: TableName) -> None: ...
    def drop_table(self, table: TableName) -> None: ...
    def __getitem__(self, table: TableName) -> Dataset: ...
    def __contains__(self, table: TableName) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class MergeInsert:
    def when_matched_update_all(
        self,
        condition: str | None = ...,
        *,
        params: Params = ...,
    ) -> MergeInsert: ...
    def when_matched_delete(self) -> MergeInsert: ...
    def when_matched_fail(self) -> MergeInsert: ...
    def when_not_matched_insert_all(self) -> MergeInsert: ...
    def when_not_matched_by_source_delete(
        self,
        expr: str | None = ...,
        *,
        params: Params = ...,
    ) -> MergeInsert: ...
    def conflict_retries(self, max_retries: int) -> MergeInsert: ...
    def retry_timeout(self, timeout: timedelta | float) -> MergeInsert: ...
    def target_bases(self, bases: Iterable[str]) -> MergeInsert: ...
    def target_all_bases(self, include_primary: bool = ...) -> MergeInsert: ...
    def data_storage_version(self, version: FileVersion | str) -> MergeInsert: ...
    def use_index(self, use_index: bool) -> MergeInsert: ...
    def write_mode(
        self,
        mode: Literal["auto", "rewrite_rows", "rewrite_columns"],
    ) -> MergeInsert: ...
    def memory_budget(self, num_bytes: int) -> MergeInsert: ...
    def commit_options(self, **commit: Unpack[CommitArguments]) -> MergeInsert: ...
    def explain(self, schema: pa.Schema | None = ...) -> Explanation: ...
    def explain_plan(self, schema: pa.Schema | None = ..., verbose: bool = ...) -> str: ...
    def analyze_plan(self, data: Data, *, schema: pa.Schema | None = ...) -> str: ...
    def execute(self, data: Data, *, schema: pa.Schema | None = ...) -> Dataset: ...
    def execute_uncommitted(
        self,
        data: Data,
        *,
        schema: pa.Schema | None = ...,
    ) -> tuple[Operation, Mapping[str, int]]: ...

class Optimize:
    def compact_files(
        self,
        *,
        properties: Mapping[str, str] | None = ...,
        message: str | None = ...,
        max_retries: int = ...,
        progress: OnProgress | None = ...,
        **options: Unpack[CompactionArguments],
    ) -> Dataset: ...
    def auto_compact(
        self,
        *,
        min_fragments: int = ...,
        interval: float = ...,
        **options: Unpack[CompactionArguments],
    ) -> AutoCompaction: ...
    def enable_auto_cleanup(
        self,
        auto_cleanup_config: AutoCleanupConfig,
        **commit: Unpack[CommitArguments],
    ) -> Dataset: ...
    def disable_auto_cleanup(self, **commit: Unpack[CommitArguments]) -> Dataset: ...
    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = ...,
        index_names: Collection[str] | None = ...,
        retrain: bool = ...,
        progress: OnProgress | None = ...,
        **commit: Unpack[CommitArguments],
    ) -> Dataset: ...

class AutoCompaction:
    @property
    def dataset(self) -> Dataset: ...
    @property
    def metrics(self) -> AutoCompactionMetrics | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class Maintenance:
    @property
    def dataset(self) -> Dataset: ...
    @property
    def metrics(self) -> MaintenanceMetrics | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class Compaction:
    @classmethod
    def plan(cls, dataset: Dataset, **options: Unpack[CompactionArguments]) -> CompactionPlan: ...
    @classmethod
    def execute(cls, dataset: Dataset, **options: Unpack[CompactionArguments]) -> Dataset: ...
    @classmethod
    def commit(
        cls,
        dataset: Dataset,
        results: Sequence[RewriteResult],
        *,
        uncover_indices: bool = ...,
        **commit: Unpack[CommitArguments],
    ) -> Dataset: ...

class CompactionPlan:
    def num_tasks(self) -> int: ...
    @property
    def read_version(self) -> int: ...
    @property
    def tasks(self) -> tuple[CompactionTask, ...]: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...

class CompactionTask:
    def execute(self, dataset: Dataset) -> RewriteResult: ...
    @property
    def fragments(self) -> Sequence[DataFragment]: ...
    @property
    def options(self) -> ResolvedCompactionOptions: ...
    @property
    def read_version(self) -> int: ...

class IndexBuild:
    @classmethod
    def plan(
        cls,
        dataset: Dataset,
        column: str,
        index_type: str,
        name: str | None = ...,
        *,
        replace: bool = ...,
        task_bytes: int = ...,
        max_tasks: int = ...,
        memory_bytes: int = ...,
        done: Sequence[IndexPart] = ...,
        metric: str = ...,
        vectors: VectorIndexArguments | None = ...,
        texts: TextIndexArguments | None = ...,
        values: ValueIndexArguments | None = ...,
    ) -> IndexPlan: ...
    @classmethod
    def ranges(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        parts: Sequence[IndexPart],
        *,
        range_bytes: int = ...,
        memory_bytes: int = ...,
    ) -> list[IndexRange]: ...
    @classmethod
    def merge(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        parts: Sequence[IndexPart],
        pages: Sequence[IndexPages] = ...,
        *,
        memory_bytes: int = ...,
        on_rows: Callable[[int], Any] | None = ...,
    ) -> IndexSegment: ...
    @classmethod
    def commit(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        segment: IndexSegment,
        **commit: Unpack[CommitArguments],
    ) -> Dataset: ...
    @classmethod
    def discard(cls, dataset: Dataset, parts: Sequence[IndexPart]) -> None: ...

class IndexPlan:
    def num_tasks(self) -> int: ...
    @property
    def build(self) -> str: ...
    @property
    def new(self) -> NewIndex | NewVectorIndex | NewTextIndex: ...
    @property
    def parts(self) -> tuple[IndexPart, ...]: ...
    @property
    def read_version(self) -> int: ...
    @property
    def tasks(self) -> tuple[IndexTask, ...]: ...

class IndexRange:
    def execute(self, dataset: Dataset) -> IndexPages: ...
    @property
    def column(self) -> str: ...
    @property
    def high(self) -> Any: ...
    @property
    def kind(self) -> str: ...
    @property
    def links(self) -> tuple[int, int, int] | None: ...
    @property
    def low(self) -> Any: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def parts(self) -> tuple[IndexPart, ...]: ...
    @property
    def read_version(self) -> int: ...
    @property
    def segment(self) -> str: ...
    @property
    def type(self) -> pa.DataType: ...

class IndexTask:
    def execute(self, dataset: Dataset) -> IndexPart: ...
    @property
    def build(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def fragments(self) -> tuple[DataFragment, ...]: ...
    @property
    def kind(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def options(self) -> ValueOptions: ...
    @property
    def read_version(self) -> int: ...
    @property
    def texts(self) -> NewTextIndex | None: ...

def check_store(uri: str | os.PathLike[str], **place: Unpack[StoreArguments]) -> StoreReport: ...
def commit(
    dataset_or_uri: Dataset | str | os.PathLike[str],
    operation: Operation | Transaction,
    *,
    read_version: int | None = ...,
    detached: bool = ...,
    data_storage_version: str | FileVersion | None = ...,
    stable_row_ids: bool = ...,
    commit_timeout: timedelta | float | None = ...,
    properties: Mapping[str, str] | None = ...,
    message: str | None = ...,
    max_retries: int = ...,
    **place: Unpack[TableArguments],
) -> Dataset: ...
def commit_batch(
    dataset_or_uri: Dataset | str | os.PathLike[str],
    transactions: Iterable[Transaction],
    *,
    detached: bool = ...,
    commit_timeout: timedelta | float | None = ...,
    properties: Mapping[str, str] | None = ...,
    message: str | None = ...,
    max_retries: int = ...,
    **place: Unpack[TableArguments],
) -> BulkCommitResult: ...
def dataset(
    uri: str | os.PathLike[str],
    *,
    version: int | str | None = ...,
    asof: datetime | str | None = ...,
    follow: float | None = ...,
    default_scan_options: Mapping[str, Any] | None = ...,
    **place: Unpack[TableArguments],
) -> Dataset: ...
def connect(
    uri: str | os.PathLike[str] | object,
    *,
    headers: Mapping[str, str] | None = ...,
    storage_options: StorageOptions | None = ...,
    session: Session | None = ...,
) -> Catalog: ...
def drop(
    uri: str | os.PathLike[str],
    *,
    ignore_missing: bool = ...,
    **place: Unpack[TableArguments],
) -> None: ...
def ingest(
    uri: str | os.PathLike[str],
    schema: pa.Schema | None = ...,
    *,
    on: str | Sequence[str] | None = ...,
    kind: str | None = ...,
    envelope: Literal["debezium"] | None = ...,
    max_buffer_bytes: int = ...,
    max_rows_per_file: int = ...,
    max_bytes_per_file: int = ...,
    max_file_age: float | None = ...,
    commit_interval: float | None = ...,
    commit_rows: int | None = ...,
    commit_bytes: int | None = ...,
    producer: str | None = ...,
    history: int = ...,
    data_storage_version: str | FileVersion | None = ...,
    stable_row_ids: bool = ...,
    properties: Mapping[str, str] | None = ...,
    blobs: BlobOptions | None = ...,
    auto_compact: int | None = ...,
    maintain: MaintenancePolicy | bool = ...,
    **place: Unpack[StoreArguments],
) -> Sink: ...
def repair(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = ...,
    restore: bool = ...,
    drop_lost_rows: bool = ...,
    **place: Unpack[StoreArguments],
) -> RepairReport: ...
def warm_up(*, session: Session | None = ...) -> None: ...
def write_dataset(
    data: Data,
    uri: str | os.PathLike[str],
    *,
    mode: Mode = ...,
    schema: pa.Schema | None = ...,
    max_rows_per_file: int = ...,
    max_bytes_per_file: int = ...,
    data_storage_version: str | FileVersion | None = ...,
    stable_row_ids: bool = ...,
    v2_manifest_paths: bool = ...,
    progress: WriteProgress | None = ...,
    blobs: BlobOptions | None = ...,
    statistics: bool = ...,
    auto_cleanup_options: AutoCleanupConfig | None = ...,
    initial_bases: Iterable[DatasetBasePath] | None = ...,
    target_bases: Iterable[str] | None = ...,
    target_all_bases: bool | None = ...,
    properties: Mapping[str, str] | None = ...,
    message: str | None = ...,
    max_retries: int = ...,
    **place: Unpack[TableArguments],
) -> Dataset: ...
@overload
def write_fragments(
    data: Data,
    dataset_or_uri: Dataset | str | os.PathLike[str],
    *,
    return_transaction: Literal[False] = ...,
    **arguments: Unpack[FragmentArguments],
) -> list[DataFragment]: ...
@overload
def write_fragments(
    data: Data,
    dataset_or_uri: Dataset | str | os.PathLike[str],
    *,
    return_transaction: Literal[True],
    **arguments: Unpack[FragmentArguments],
) -> Transaction: ...
