"""The blocking face: the same names as `alance`, without `await`.

Made by `python -m tools.stubs`.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self, overload

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
    BlobHandling,
    BlobMode,
    BranchContents,
    BulkCommitResult,
    Change,
    ChangeSummary,
    CleanupExplanation,
    CleanupStats,
    Columns,
    Combine,
    CommitLock,
    CompactionMode,
    Data,
    DataFragment,
    DatasetStats,
    Explanation,
    ExternalStore,
    Field,
    FieldMessage,
    FileDescription,
    Fragment,
    Granularity,
    IndexConfig,
    IndexDescription,
    IndexStatistics,
    JsonIndexKind,
    KeyColumn,
    Language,
    ListedIndex,
    ListResult,
    MaintenanceMetrics,
    MaintenanceReport,
    Metric,
    Missing,
    Mode,
    NewIndex,
    NewTextIndex,
    NewVectorIndex,
    OnProgress,
    OrderBy,
    Params,
    Place,
    Reference,
    ResolvedCompactionOptions,
    ScalarIndexKind,
    ScanStatsCallback,
    StorageOptions,
    TableHealth,
    TableName,
    TagContents,
    TextIndexArguments,
    TextIndexKind,
    Tokenizer,
    Transaction,
    Transforms,
    Updates,
    ValueIndexArguments,
    ValueOptions,
    VectorIndexArguments,
    VectorIndexKind,
    VersionInfo,
    WriteProgress,
)

class Dataset:
    def sql(
        self,
        query: str,
        *,
        params: Params = None,
        tables: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> pa.Table: ...
    def sql_batches(
        self,
        query: str,
        *,
        params: Params = None,
        tables: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Iterator[pa.RecordBatch]: ...
    def to_arrow_dataset(self) -> pa.dataset.Dataset: ...
    def to_polars_lazy(self) -> pl.LazyFrame: ...
    def get(
        self,
        key: object,
        column: KeyColumn = None,
        columns: Columns = None,
    ) -> dict[str, Any] | None: ...
    def get_arrow(
        self,
        key: object,
        column: KeyColumn = None,
        columns: Columns = None,
    ) -> pa.Table | None: ...
    def get_many(
        self,
        keys: Iterable[object],
        column: KeyColumn = None,
        columns: Columns = None,
        *,
        missing: Missing = "error",
    ) -> pa.Table: ...
    def explain_get(
        self,
        key: object,
        column: KeyColumn = None,
        columns: Columns = None,
    ) -> Explanation: ...
    def nearest(
        self,
        column: str,
        query: object,
        k: int = 10,
        *,
        metric: Metric | None = None,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        prefilter: bool = True,
        distance_range: tuple[float | None, float | None] | None = None,
        use_index: bool = True,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        ef: int | None = None,
        fast_search: bool = False,
        fragments: Collection[int] | None = None,
        use_scalar_index: bool = True,
    ) -> pa.Table: ...
    def nearest_many(
        self,
        column: str,
        queries: Sequence[object] | object,
        k: int = 10,
        *,
        metric: Metric | None = None,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        prefilter: bool = True,
        distance_range: tuple[float | None, float | None] | None = None,
        use_index: bool = True,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        ef: int | None = None,
        fast_search: bool = False,
        fragments: Collection[int] | None = None,
        use_scalar_index: bool = True,
    ) -> pa.Table: ...
    def search_text(
        self,
        query: str | TextQuery,
        k: int = 10,
        *,
        on: str | Sequence[str] | None = None,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        prefilter: bool = True,
        use_index: bool = True,
        fast_search: bool = False,
        fragments: Collection[int] | None = None,
        use_scalar_index: bool = True,
    ) -> pa.Table: ...
    def search(
        self,
        text: str | TextQuery,
        vector: object,
        k: int = 10,
        *,
        combine: Combine = "rrf",
        metric: Metric | None = None,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        prefilter: bool = True,
        distance_range: tuple[float | None, float | None] | None = None,
        use_index: bool = True,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        ef: int | None = None,
        fast_search: bool = False,
        fragments: Collection[int] | None = None,
        use_scalar_index: bool = True,
        on: str | Sequence[str] | None = None,
        vector_column: str | None = None,
        candidates: int | None = None,
    ) -> pa.Table: ...
    def explain_search(
        self,
        text: str | TextQuery,
        vector: object,
        k: int = 10,
        *,
        combine: Combine = "rrf",
        metric: Metric | None = None,
        columns: Columns = None,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        prefilter: bool = True,
        distance_range: tuple[float | None, float | None] | None = None,
        use_index: bool = True,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        ef: int | None = None,
        fast_search: bool = False,
        fragments: Collection[int] | None = None,
        use_scalar_index: bool = True,
        on: str | Sequence[str] | None = None,
        vector_column: str | None = None,
        candidates: int | None = None,
    ) -> Explanation: ...
    def take_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = None,
        row_ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
        buffer_size: int = 524288,
    ) -> list[BlobFile | None]: ...
    def read_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = None,
        row_ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
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
        index_type: ScalarIndexKind | TextIndexKind | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        progress: OnProgress | None = None,
        path: str = ...,
        target_index_type: JsonIndexKind = "BTREE",
        rows_per_zone: int = 8192,
        number_of_items: int = 8192,
        probability: float = 0.00057,
        memory_bytes: int = 268435456,
        base_tokenizer: Tokenizer = "simple",
        language: Language = "English",
        max_token_length: int | None = 40,
        lower_case: bool = True,
        stem: bool = True,
        remove_stop_words: bool = True,
        custom_stop_words: Sequence[str] | None = None,
        ascii_folding: bool = True,
        min_ngram_length: int = 3,
        max_ngram_length: int = 3,
        prefix_only: bool = False,
        with_position: bool = False,
        document_granularity: Granularity = "row",
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def create_index(
        self,
        column: str,
        index_type: VectorIndexKind | TextIndexKind,
        name: str | None = None,
        metric: Metric = "l2",
        *,
        replace: bool = False,
        progress: OnProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
        num_partitions: int | None = None,
        target_partition_size: int | None = None,
        num_sub_vectors: int | None = None,
        num_bits: int | None = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        min_gain: float = 0.0005,
        ivf_centroids: object | None = None,
        pq_codebook: object | None = None,
        memory_bytes: int = 268435456,
        m: int = 20,
        ef_construction: int = 150,
        max_level: int = 7,
        base_tokenizer: Tokenizer = "simple",
        language: Language = "English",
        max_token_length: int | None = 40,
        lower_case: bool = True,
        stem: bool = True,
        remove_stop_words: bool = True,
        custom_stop_words: Sequence[str] | None = None,
        ascii_folding: bool = True,
        min_ngram_length: int = 3,
        max_ngram_length: int = 3,
        prefix_only: bool = False,
        with_position: bool = False,
        document_granularity: Granularity = "row",
    ) -> Self: ...
    def drop_index(
        self,
        name: str,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def list_indices(self) -> list[ListedIndex]: ...
    def describe_indices(self) -> list[IndexDescription]: ...
    def index_statistics(self, name: str) -> IndexStatistics: ...
    def centroids(
        self,
        *,
        index_name: str | None = None,
        column: str | None = None,
    ) -> pa.FixedSizeListArray: ...
    def remap_row_addrs(self, addrs: object) -> pa.Array | None: ...
    def prewarm_index(
        self,
        name: str,
        *,
        with_position: bool = False,
        index_segments: Iterable[str] | None = None,
    ) -> None: ...
    def maintain(
        self,
        policy: MaintenancePolicy | None = None,
        *,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> MaintenanceReport: ...
    def maintaining(
        self,
        policy: MaintenancePolicy | None = None,
        *,
        interval: float = 60.0,
    ) -> Maintenance: ...
    def health(self, *, reclaimable: bool = False) -> TableHealth: ...
    @property
    def optimize(self) -> Optimize: ...
    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_rate_limit: int | None = None,
        delete_concurrency: int | None = None,
        dry_run: bool = False,
        progress: OnProgress | None = None,
        older_than_version: int | None = None,
        versions: Collection[int] | None = None,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
    ) -> CleanupStats: ...
    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        include_files: bool = False,
        max_files: int = 1000,
        older_than_version: int | None = None,
        versions: Collection[int] | None = None,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
    ) -> CleanupExplanation: ...
    def tracked_files(
        self,
        *,
        min_version: int | None = None,
        progress: OnProgress | None = None,
    ) -> Iterator[pa.RecordBatch]: ...
    def all_files(self) -> Iterator[pa.RecordBatch]: ...
    def validate(self) -> None: ...
    def migrate_manifest_paths_v2(self) -> None: ...
    def follow(
        self,
        since: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        before: bool = False,
        batch_size: int = 8192,
        wait: bool = True,
        max_interval: float = 10.0,
    ) -> Iterator[Change]: ...
    @property
    def tags(self) -> Tags: ...
    @property
    def branches(self) -> Branches: ...
    def versions(self) -> list[VersionInfo]: ...
    def latest_version(self) -> int: ...
    def checkout_version(self, version: Reference) -> Self: ...
    def checkout_latest(self) -> Self: ...
    def checkout_branch(self, branch: str | None, version: int | None = None) -> Self: ...
    def read_transaction(self, version: int | None = None) -> Transaction | None: ...
    def get_transactions(self, recent: int = 10) -> list[Transaction | None]: ...
    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta: ...
    def restore(
        self,
        version: Reference | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def create_branch(
        self,
        name: str,
        reference: Reference | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Self: ...
    def shallow_clone(
        self,
        target_uri: str | os.PathLike[str],
        reference: Reference | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        note_at_source: bool = True,
        store: object | None = None,
        storage_options: StorageOptions | None = None,
    ) -> Self: ...
    def deep_clone(
        self,
        target_uri: str | os.PathLike[str],
        reference: Reference | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        store: object | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: OnProgress | None = None,
    ) -> Self: ...
    def update_config(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def delete_config_keys(self, keys: Sequence[str]) -> Self: ...
    def update_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def update_schema_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    @property
    def base_paths(self) -> dict[int, DatasetBasePath]: ...
    def add_bases(
        self,
        new_bases: Iterable[DatasetBasePath],
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def update_field_metadata(
        self,
        fields: Mapping[str, Mapping[str, str | None]],
        *,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        progress: OnProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def alter_columns(
        self,
        *alterations: Alteration,
        progress: OnProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def drop_columns(
        self,
        columns: Sequence[str],
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def merge(
        self,
        data: Data,
        left_on: str,
        right_on: str | None = None,
        *,
        progress: OnProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def replace_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        progress: OnProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def insert(
        self,
        data: Data,
        *,
        mode: Literal["append", "overwrite"] = "append",
        max_rows_per_file: int = 1048576,
        max_bytes_per_file: int = 96636764160,
        progress: WriteProgress | None = None,
        blobs: BlobOptions | None = None,
        target_bases: Iterable[str] | None = None,
        target_all_bases: bool | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        params: Params = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def update(
        self,
        updates: Updates,
        where: str | pc.Expression | None = None,
        *,
        params: Params = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Self: ...
    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsert: ...
    def upsert(
        self,
        data: Data,
        on: str | Iterable[str] | None = None,
        *,
        schema: pa.Schema | None = None,
        memory_bytes: int = 268435456,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
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
    def pinned(self) -> Dataset: ...
    @property
    def session(self) -> Session: ...
    @property
    def fragments(self) -> tuple[DatasetFragment, ...]: ...
    def fragment(self, fragment_id: int) -> DatasetFragment: ...
    def take(self, indices: object, columns: Columns = None) -> pa.Table: ...
    def explain_take(self, indices: object, columns: Columns = None) -> Explanation: ...
    def take_rows(self, row_ids: object, columns: Columns = None) -> pa.Table: ...
    def take_addresses(self, addresses: object, columns: Columns = None) -> pa.Table: ...
    def new_file_session(self) -> FileSession: ...
    def scanner(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        fragments: Collection[int] | None = None,
    ) -> Scanner: ...
    def to_batches(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        fragments: Collection[int] | None = None,
    ) -> Iterator[pa.RecordBatch]: ...
    def to_table(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        fragments: Collection[int] | None = None,
    ) -> pa.Table: ...
    def to_pandas(
        self,
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        fragments: Collection[int] | None = None,
        categories: Sequence[str] | None = None,
        coerce_temporal_nanoseconds: bool = False,
        date_as_object: bool = True,
        deduplicate_objects: bool = True,
        ignore_metadata: bool = False,
        integer_object_nulls: bool = False,
        maps_as_pydicts: Literal["lossy", "strict"] | None = None,
        memory_pool: pa.MemoryPool | None = None,
        safe: bool = True,
        self_destruct: bool = False,
        split_blocks: bool = False,
        strings_to_categorical: bool = False,
        timestamp_as_object: bool = False,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
        use_threads: bool = True,
        zero_copy_only: bool = False,
    ) -> pd.DataFrame: ...
    def to_polars(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        fragments: Collection[int] | None = None,
    ) -> pl.DataFrame: ...
    def stats(self, *, small_rows: int = 1024, with_column_bytes: bool = False) -> DatasetStats: ...
    def count_rows(
        self,
        filter: str | pc.Expression | None = None,
        *,
        params: Params = None,
    ) -> int: ...
    def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Columns = None,
        *,
        memory_bytes: int = 268435456,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        fragments: Collection[int] | None = None,
    ) -> pa.Table: ...
    def head(self, num_rows: int = 5, columns: Columns = None) -> pa.Table: ...
    def sample(
        self,
        num_rows: int,
        columns: Columns = None,
        *,
        seed: int | None = None,
    ) -> pa.Table: ...
    def to_reader(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        fragments: Collection[int] | None = None,
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
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
    ) -> Iterator[pa.RecordBatch]: ...
    def get_updated_rows(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
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
        filter: str | pc.Expression | None = None,
        *,
        params: Params = None,
    ) -> int: ...
    def take(self, indices: object, columns: Columns = None) -> pa.Table: ...
    def scanner(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
    ) -> Scanner: ...
    def to_batches(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
    ) -> Iterator[pa.RecordBatch]: ...
    def to_table(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
    ) -> pa.Table: ...
    def to_pandas(
        self,
        columns: Columns = None,
        *,
        blob_mode: BlobMode = "lazy",
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
        categories: Sequence[str] | None = None,
        coerce_temporal_nanoseconds: bool = False,
        date_as_object: bool = True,
        deduplicate_objects: bool = True,
        ignore_metadata: bool = False,
        integer_object_nulls: bool = False,
        maps_as_pydicts: Literal["lossy", "strict"] | None = None,
        memory_pool: pa.MemoryPool | None = None,
        safe: bool = True,
        self_destruct: bool = False,
        split_blocks: bool = False,
        strings_to_categorical: bool = False,
        timestamp_as_object: bool = False,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
        use_threads: bool = True,
        zero_copy_only: bool = False,
    ) -> pd.DataFrame: ...
    def head(self, num_rows: int = 5, columns: Columns = None) -> pa.Table: ...
    def validate(self) -> None: ...
    @classmethod
    def create(
        cls,
        dataset_uri: str | os.PathLike[str],
        data: Data,
        fragment_id: int | None = None,
        *,
        mode: Mode = "append",
        schema: pa.Schema | None = None,
        data_storage_version: str | FileVersion | None = None,
        progress: WriteProgress | None = None,
        blobs: BlobOptions | None = None,
        storage_options: StorageOptions | None = None,
        session: Session | None = None,
        store: object | None = None,
    ) -> DataFragment: ...
    @classmethod
    def create_from_file(
        cls,
        filename: str,
        dataset: Dataset,
        fragment_id: int = 0,
    ) -> DataFragment: ...
    def delete(
        self,
        predicate: str | pc.Expression,
        *,
        params: Params = None,
    ) -> DataFragment | None: ...
    def delete_rows(self, offsets: object) -> DataFragment | None: ...
    def add_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]: ...
    def merge_columns(
        self,
        value_func: Transforms,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]: ...
    def merge(
        self,
        data: Data,
        left_on: str,
        right_on: str | None = None,
    ) -> tuple[DataFragment, tuple[FieldMessage, ...]]: ...
    def replace_columns(
        self,
        transforms: Transforms,
        *,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> DataReplacementGroup: ...
    def update_columns(
        self,
        data: Data,
        left_on: str = "_rowid",
        right_on: str | None = None,
    ) -> tuple[DataFragment, tuple[int, ...], bytes]: ...
    def to_reader(
        self,
        columns: Columns = None,
        *,
        filter: str | pc.Expression | None = None,
        params: Params = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
        scan_in_order: bool = True,
        batch_readahead: int | None = None,
        io_buffer_bytes: int | None = None,
        late_materialization: bool | None = None,
        include_deleted_rows: bool = False,
        order_by: OrderBy | None = None,
        use_scalar_index: bool = True,
        use_stats: bool = True,
        blob_handling: BlobHandling = "blobs_descriptions",
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool = False,
        fast_search: bool = False,
        scan_stats_callback: ScanStatsCallback | None = None,
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
        blob_mode: BlobMode = "lazy",
        categories: Sequence[str] | None = None,
        coerce_temporal_nanoseconds: bool = False,
        date_as_object: bool = True,
        deduplicate_objects: bool = True,
        ignore_metadata: bool = False,
        integer_object_nulls: bool = False,
        maps_as_pydicts: Literal["lossy", "strict"] | None = None,
        memory_pool: pa.MemoryPool | None = None,
        safe: bool = True,
        self_destruct: bool = False,
        split_blocks: bool = False,
        strings_to_categorical: bool = False,
        timestamp_as_object: bool = False,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
        use_threads: bool = True,
        zero_copy_only: bool = False,
    ) -> pd.DataFrame: ...
    def to_polars(self) -> pl.DataFrame: ...
    def count_rows(self) -> int: ...
    def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Columns = None,
        *,
        memory_bytes: int = 268435456,
    ) -> pa.Table: ...
    def explain_plan(self, verbose: bool = False) -> str: ...
    def analyze_plan(self, count_rows: bool = False) -> str: ...
    def explain(self) -> Explanation: ...
    def to_reader(self: object) -> pa.RecordBatchReader: ...
    def __arrow_c_stream__(self, requested_schema: object | None = ...) -> object: ...
    def __len__(self) -> int: ...

class FileReader:
    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        storage_options: StorageOptions | None = None,
        session: Session | None = None,
        store: object | None = None,
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
    def take(self, rows: object, columns: Sequence[str] | None = None) -> pa.Table: ...
    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]: ...
    def to_table(
        self,
        columns: Sequence[str] | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
    ) -> pa.Table: ...

class FileSession:
    @classmethod
    def open(
        cls,
        base_path: str | os.PathLike[str],
        *,
        storage_options: StorageOptions | None = None,
        session: Session | None = None,
        store: object | None = None,
    ) -> FileSession: ...
    def open_reader(self, path: str, columns: Sequence[str] | None = None) -> FileReader: ...
    def open_writer(
        self,
        path: str,
        schema: pa.Schema | None = None,
        *,
        version: str | FileVersion = "stable",
        page_bytes: int = 8388608,
        buffer_bytes: int = 41943040,
    ) -> FileWriter: ...
    def open_packed_blob_writer(self, path: str, blob_id: int) -> PackedBlobWriter: ...
    def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter: ...
    def contains(self, path: str) -> bool: ...
    def list(self, path: str | None = None) -> Sequence[str]: ...
    def list_with_delimiter(self, path: str | None = None) -> ListResult: ...
    def read_range(self, path: str, offset: int, length: int) -> bytes: ...
    def delete_file(self, path: str) -> None: ...
    def upload_file(self, local_path: str | os.PathLike[str], remote_path: str) -> None: ...
    def download_file(self, remote_path: str, local_path: str | os.PathLike[str]) -> None: ...

class FileWriter:
    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        version: str | FileVersion = "stable",
        page_bytes: int = 8388608,
        buffer_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        session: Session | None = None,
        store: object | None = None,
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
    def write(
        self,
        data: Data,
        *,
        token: str | None = None,
        sequence: int | None = None,
    ) -> bool: ...
    def upsert(
        self,
        data: Data,
        *,
        token: str | None = None,
        sequence: int | None = None,
    ) -> bool: ...
    def delete(
        self,
        keys: Data,
        *,
        token: str | None = None,
        sequence: int | None = None,
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
    def seek(self, offset: int, whence: int = 0) -> int: ...
    def read(self, num_bytes: int = -1) -> bytes: ...
    def readall(self) -> bytes: ...
    def read_range(self, offset: int, length: int) -> bytes: ...
    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]: ...
    def chunks(self, num_bytes: int = 1048576) -> Iterator[bytes]: ...
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
        order: Literal["asc", "desc"] = "desc",
    ) -> Sequence[tuple[str, TagContents]]: ...
    def get(self, name: str) -> TagContents: ...
    def get_version(self, name: str) -> int: ...
    def create(
        self,
        name: str,
        reference: Reference | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> None: ...
    def update(self, name: str, reference: Reference | None = None) -> None: ...
    def delete(self, name: str) -> None: ...
    def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None: ...

class Branches:
    def list(self) -> dict[str, BranchContents]: ...
    def list_ordered(
        self,
        order: Literal["asc", "desc"] = "desc",
    ) -> Sequence[tuple[str, BranchContents]]: ...
    def get(self, name: str) -> BranchContents | None: ...
    def create(
        self,
        name: str,
        reference: Reference | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> None: ...
    def delete(self, name: str, *, force: bool = False) -> None: ...
    def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None: ...

class Catalog:
    @property
    def uri(self) -> str: ...
    def list_tables(
        self,
        namespace: TableName = (),
        *,
        include_declared: bool = True,
    ) -> list[str]: ...
    def list_namespaces(self, parent: TableName = ()) -> list[str]: ...
    def create_namespace(
        self,
        namespace: TableName,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> None: ...
    def describe_namespace(self, namespace: TableName) -> dict[str, str]: ...
    def update_namespace(
        self,
        namespace: TableName,
        properties: Mapping[str, str | None],
        *,
        replace: bool = False,
    ) -> dict[str, str]: ...
    def drop_namespace(self, namespace: TableName) -> None: ...
    def create_table(
        self,
        table: TableName,
        data: Data | None = None,
        *,
        mode: Literal["create", "overwrite", "append"] = "create",
        exist_ok: bool = False,
        schema: pa.Schema | None = None,
        stable_row_ids: bool = False,
        data_storage_version: str | FileVersion | None = None,
        max_rows_per_file: int = 1048576,
        progress: WriteProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Dataset: ...
    def open_table(
        self,
        table: TableName,
        *,
        version: int | str | None = None,
        follow: float | None = None,
        rests: bool = True,
    ) -> Dataset: ...
    def table_exists(self, table: TableName) -> bool: ...
    def place(self, table: TableName) -> Place: ...
    def rename_table(self, table: TableName, new: TableName) -> None: ...
    def drop_table(self, table: TableName) -> None: ...
    def register_table(self, table: TableName, location: str | os.PathLike[str]) -> None: ...
    def deregister_table(self, table: TableName) -> str | None: ...
    def __getitem__(self, table: TableName) -> Dataset: ...
    def __contains__(self, table: TableName) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class MergeInsert:
    def when_matched_update_all(
        self,
        condition: str | None = None,
        *,
        params: Params = None,
    ) -> MergeInsert: ...
    def when_matched_delete(self) -> MergeInsert: ...
    def when_matched_fail(self) -> MergeInsert: ...
    def when_not_matched_insert_all(self) -> MergeInsert: ...
    def when_not_matched_by_source_delete(
        self,
        expr: str | None = None,
        *,
        params: Params = None,
    ) -> MergeInsert: ...
    def conflict_retries(self, max_retries: int) -> MergeInsert: ...
    def retry_timeout(self, timeout: timedelta | float) -> MergeInsert: ...
    def target_bases(self, bases: Iterable[str]) -> MergeInsert: ...
    def target_all_bases(self, include_primary: bool = True) -> MergeInsert: ...
    def data_storage_version(self, version: FileVersion | str) -> MergeInsert: ...
    def use_index(self, use_index: bool) -> MergeInsert: ...
    def write_mode(
        self,
        mode: Literal["auto", "rewrite_rows", "rewrite_columns"],
    ) -> MergeInsert: ...
    def memory_budget(self, num_bytes: int) -> MergeInsert: ...
    def commit_options(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> MergeInsert: ...
    def explain(self, schema: pa.Schema | None = None) -> Explanation: ...
    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str: ...
    def analyze_plan(self, data: Data, *, schema: pa.Schema | None = None) -> str: ...
    def execute(self, data: Data, *, schema: pa.Schema | None = None) -> Dataset: ...
    def execute_uncommitted(
        self,
        data: Data,
        *,
        schema: pa.Schema | None = None,
    ) -> tuple[Operation, Mapping[str, int]]: ...

class Optimize:
    def compact_files(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
        progress: OnProgress | None = None,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        io_buffer_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Collection[int] = (),
        data_storage_version: str | None = None,
        compaction_mode: CompactionMode | None = None,
        defer_index_remap: bool | None = None,
        uncover_indices: bool = False,
    ) -> Dataset: ...
    def auto_compact(
        self,
        *,
        min_fragments: int = 32,
        interval: float = 60.0,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        io_buffer_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Collection[int] = (),
        data_storage_version: str | None = None,
        compaction_mode: CompactionMode | None = None,
        defer_index_remap: bool | None = None,
        uncover_indices: bool = False,
    ) -> AutoCompaction: ...
    def enable_auto_cleanup(
        self,
        auto_cleanup_config: AutoCleanupConfig,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Dataset: ...
    def disable_auto_cleanup(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
    ) -> Dataset: ...
    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Collection[str] | None = None,
        retrain: bool = False,
        progress: OnProgress | None = None,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
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
    def plan(
        cls,
        dataset: Dataset,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        io_buffer_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Collection[int] = (),
        data_storage_version: str | None = None,
        compaction_mode: CompactionMode | None = None,
        defer_index_remap: bool | None = None,
        uncover_indices: bool = False,
    ) -> CompactionPlan: ...
    @classmethod
    def execute(
        cls,
        dataset: Dataset,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        io_buffer_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Collection[int] = (),
        data_storage_version: str | None = None,
        compaction_mode: CompactionMode | None = None,
        defer_index_remap: bool | None = None,
        uncover_indices: bool = False,
    ) -> Dataset: ...
    @classmethod
    def commit(
        cls,
        dataset: Dataset,
        results: Sequence[RewriteResult],
        *,
        uncover_indices: bool = False,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
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
        index_type: VectorIndexKind | ScalarIndexKind | TextIndexKind,
        name: str | None = None,
        *,
        replace: bool = True,
        task_bytes: int = 67108864,
        max_tasks: int = 512,
        memory_bytes: int = 268435456,
        done: Sequence[IndexPart] = (),
        metric: Metric = "l2",
        vectors: VectorIndexArguments | None = None,
        texts: TextIndexArguments | None = None,
        values: ValueIndexArguments | None = None,
    ) -> IndexPlan: ...
    @classmethod
    def ranges(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        parts: Sequence[IndexPart],
        *,
        range_bytes: int = 268435456,
        memory_bytes: int = 268435456,
    ) -> list[IndexRange]: ...
    @classmethod
    def merge(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        parts: Sequence[IndexPart],
        pages: Sequence[IndexPages] = (),
        *,
        memory_bytes: int = 268435456,
        on_rows: Callable[[int], Any] | None = None,
    ) -> IndexSegment: ...
    @classmethod
    def commit(
        cls,
        dataset: Dataset,
        plan: IndexPlan,
        segment: IndexSegment,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = 100,
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

def check_store(
    uri: str | os.PathLike[str],
    *,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
) -> StoreReport: ...
def commit(
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
    max_retries: int = 100,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    manifest_store: ExternalStore | None = None,
    commit_lock: CommitLock | None = None,
) -> Dataset: ...
def commit_batch(
    dataset_or_uri: Dataset | str | os.PathLike[str],
    transactions: Iterable[Transaction],
    *,
    detached: bool = False,
    commit_timeout: timedelta | float | None = None,
    properties: Mapping[str, str] | None = None,
    message: str | None = None,
    max_retries: int = 100,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    manifest_store: ExternalStore | None = None,
    commit_lock: CommitLock | None = None,
) -> BulkCommitResult: ...
def dataset(
    uri: str | os.PathLike[str],
    *,
    version: int | str | None = None,
    asof: datetime | str | None = None,
    follow: float | None = None,
    rests: bool = True,
    default_scan_options: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    manifest_store: ExternalStore | None = None,
    commit_lock: CommitLock | None = None,
) -> Dataset: ...
def connect(
    uri: str | os.PathLike[str] | object,
    *,
    headers: Mapping[str, str] | None = None,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
) -> Catalog: ...
def drop(
    uri: str | os.PathLike[str],
    *,
    ignore_missing: bool = False,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    manifest_store: ExternalStore | None = None,
    commit_lock: CommitLock | None = None,
) -> None: ...
def ingest(
    uri: str | os.PathLike[str],
    schema: pa.Schema | None = None,
    *,
    on: str | Sequence[str] | None = None,
    kind: str | None = None,
    envelope: Literal["debezium"] | None = None,
    max_buffer_bytes: int = 67108864,
    max_rows_per_file: int = 1048576,
    max_bytes_per_file: int = 96636764160,
    max_file_age: float | None = None,
    commit_interval: float | None = 10.0,
    commit_rows: int | None = None,
    commit_bytes: int | None = None,
    producer: str | None = None,
    history: int = 100,
    data_storage_version: str | FileVersion | None = None,
    stable_row_ids: bool = False,
    properties: Mapping[str, str] | None = None,
    blobs: BlobOptions | None = None,
    auto_compact: int | None = None,
    maintain: MaintenancePolicy | bool = False,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
) -> Sink: ...
def repair(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = True,
    restore: bool = False,
    drop_lost_rows: bool = False,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    manifest_store: ExternalStore | None = None,
    commit_lock: CommitLock | None = None,
) -> RepairReport: ...
def warm_up(*, session: Session | None = None) -> None: ...
def write_dataset(
    data: Data,
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "create",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1048576,
    max_bytes_per_file: int = 96636764160,
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
    max_retries: int = 100,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    manifest_store: ExternalStore | None = None,
    commit_lock: CommitLock | None = None,
) -> Dataset: ...
@overload
def write_fragments(
    data: Data,
    dataset_or_uri: Dataset | str | os.PathLike[str],
    *,
    return_transaction: Literal[False] = False,
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    mode: Mode = "append",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1048576,
    max_bytes_per_file: int = 96636764160,
    data_storage_version: str | FileVersion | None = None,
    progress: WriteProgress | None = None,
    blobs: BlobOptions | None = None,
    statistics: bool = True,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
) -> list[DataFragment]: ...
@overload
def write_fragments(
    data: Data,
    dataset_or_uri: Dataset | str | os.PathLike[str],
    *,
    return_transaction: Literal[True],
    storage_options: StorageOptions | None = None,
    session: Session | None = None,
    store: object | None = None,
    mode: Mode = "append",
    schema: pa.Schema | None = None,
    max_rows_per_file: int = 1048576,
    max_bytes_per_file: int = 96636764160,
    data_storage_version: str | FileVersion | None = None,
    progress: WriteProgress | None = None,
    blobs: BlobOptions | None = None,
    statistics: bool = True,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
) -> Transaction: ...
