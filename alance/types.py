"""Types of arguments and results of public functions, for annotations and `isinstance`.

Classes that users call are in `alance`; operations of transactions are in `alance.operations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.base.deferred import lazy

if TYPE_CHECKING:
    from alance.base.progress import OnProgress
    from alance.catalogs.backend import Place, TableName
    from alance.file.open.describe import ColumnDescription, FileDescription, PageDescription
    from alance.file_session import ListResult
    from alance.format.field import Field
    from alance.format.index.text.analyzer import Token
    from alance.format.index.text.params import (
        Granularity,
        Language,
        TokenArguments,
        Tokenizer,
    )
    from alance.format.proto.file_pb2 import Field as FieldMessage
    from alance.format.proto.table_pb2 import DataFragment, IndexMetadata
    from alance.format.table.fragment import DataFile, DeletionFile, Fragment
    from alance.format.table.refs import BranchContents, TagContents
    from alance.format.table.transaction import Transaction
    from alance.io.caches.cache import CacheStats
    from alance.io.events.trace import RequestEvent, Totals
    from alance.io.opening.credentials import OptionsProvider, Provider, StorageOptions
    from alance.io.stores.store_report import Purpose, StoreCheck
    from alance.ops.changes.follow import Change, FollowArguments
    from alance.ops.cleanup.policy import (
        AutoCleanupConfig,
        CleanupArguments,
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
        PolicyArguments,
    )
    from alance.ops.columns.alter import Alteration
    from alance.ops.columns.sources import Transforms
    from alance.ops.index.listing import (
        IndexDescription,
        IndexSegmentDescription,
        IndexStatistics,
        ListedIndex,
        PartitionStatistics,
        SegmentStatistics,
    )
    from alance.ops.index.new import NewIndex
    from alance.ops.index.texts.new import NewTextIndex, TextIndexArguments, TextIndexKind
    from alance.ops.index.values.options import (
        IndexConfig,
        JsonIndexKind,
        ScalarIndexKind,
        ValueIndexArguments,
        ValueOptions,
    )
    from alance.ops.index.vectors.new import (
        IndexArguments,
        NewVectorIndex,
        ScalarIndexArguments,
        VectorIndexArguments,
        VectorIndexKind,
    )
    from alance.ops.maintain.background import MaintenanceMetrics
    from alance.ops.maintain.health import IndexHealth, TableHealth
    from alance.ops.maintain.lease import LastRun
    from alance.ops.maintain.policy import MaintenanceArguments
    from alance.ops.maintain.run import MaintenanceReport, MaintenanceStep
    from alance.ops.read.explain import Explanation
    from alance.ops.read.keys import KeyColumn, Missing
    from alance.ops.read.options import (
        BlobHandling,
        BlobMode,
        FragmentPandasArguments,
        FragmentScanArguments,
        FrameArguments,
        OrderBy,
        PandasArguments,
        ScanArguments,
    )
    from alance.ops.read.scan_stats import ScanStatistics, ScanStatsCallback
    from alance.ops.read.stats import DatasetStats
    from alance.ops.rows.update import Updates
    from alance.ops.search.options import Metric, SearchArguments
    from alance.ops.search.text.fusion import Combine
    from alance.ops.search.text.query import Occur, Operator
    from alance.ops.search.text.search_options import HybridArguments, TextSearchArguments
    from alance.ops.upkeep.compact_plan import (
        CompactionArguments,
        CompactionMode,
        ResolvedCompactionOptions,
    )
    from alance.ops.version.conditions import Params
    from alance.ops.version.opening import Reference
    from alance.ops.version.options import CommitArguments
    from alance.ops.version.projection import Columns
    from alance.ops.version.summary import ChangeSummary
    from alance.ops.write.options import FragmentWriteProgress, Mode, WriteProgress
    from alance.ops.write.sources import Data
    from alance.session import OpenArguments, StoreArguments, TableArguments
    from alance.verbs.maintenance import Maintenance
    from alance.versioning.external_store import Entry, ExternalStore
    from alance.versioning.load import VersionInfo
    from alance.versioning.lock import CommitLock
    from alance.writing import BulkCommitResult, FragmentArguments

_TYPE_PLACES: Final = {
    "Alteration": "alance.ops.columns.alter",
    "AutoCleanupConfig": "alance.ops.cleanup.policy",
    "BlobHandling": "alance.ops.read.options",
    "BlobMode": "alance.ops.read.options",
    "BranchContents": "alance.format.table.refs",
    "BulkCommitResult": "alance.writing",
    "CacheStats": "alance.io.caches.cache",
    "Change": "alance.ops.changes.follow",
    "ChangeSummary": "alance.ops.version.summary",
    "CleanupArguments": "alance.ops.cleanup.policy",
    "CleanupCandidateFile": "alance.ops.cleanup.policy",
    "CleanupExplanation": "alance.ops.cleanup.policy",
    "CleanupReferencedBranch": "alance.ops.cleanup.policy",
    "CleanupStats": "alance.ops.cleanup.policy",
    "ColumnDescription": "alance.file.open.describe",
    "Columns": "alance.ops.version.projection",
    "Combine": "alance.ops.search.text.fusion",
    "CommitArguments": "alance.ops.version.options",
    "CommitLock": "alance.versioning.lock",
    "CompactionArguments": "alance.ops.upkeep.compact_plan",
    "CompactionMode": "alance.ops.upkeep.compact_plan",
    "Data": "alance.ops.write.sources",
    "DataFile": "alance.format.table.fragment",
    "DataFragment": "alance.format.proto.table_pb2",
    "DatasetStats": "alance.ops.read.stats",
    "DeletionFile": "alance.format.table.fragment",
    "Entry": "alance.versioning.external_store",
    "Explanation": "alance.ops.read.explain",
    "ExternalStore": "alance.versioning.external_store",
    "Field": "alance.format.field",
    "FieldMessage": "alance.format.proto.file_pb2:Field",
    "FileDescription": "alance.file.open.describe",
    "FollowArguments": "alance.ops.changes.follow",
    "Fragment": "alance.format.table.fragment",
    "FragmentArguments": "alance.writing",
    "FragmentPandasArguments": "alance.ops.read.options",
    "FragmentScanArguments": "alance.ops.read.options",
    "FragmentWriteProgress": "alance.ops.write.options",
    "FrameArguments": "alance.ops.read.options",
    "Granularity": "alance.format.index.text.params",
    "HybridArguments": "alance.ops.search.text.search_options",
    "IndexArguments": "alance.ops.index.vectors.new",
    "IndexConfig": "alance.ops.index.values.options",
    "IndexDescription": "alance.ops.index.listing",
    "IndexHealth": "alance.ops.maintain.health",
    "IndexMetadata": "alance.format.proto.table_pb2",
    "IndexSegmentDescription": "alance.ops.index.listing",
    "IndexStatistics": "alance.ops.index.listing",
    "JsonIndexKind": "alance.ops.index.values.options",
    "KeyColumn": "alance.ops.read.keys",
    "Language": "alance.format.index.text.params",
    "LastRun": "alance.ops.maintain.lease",
    "ListResult": "alance.file_session",
    "ListedIndex": "alance.ops.index.listing",
    "Maintenance": "alance.verbs.maintenance",
    "MaintenanceArguments": "alance.ops.maintain.policy",
    "MaintenanceMetrics": "alance.ops.maintain.background",
    "MaintenanceReport": "alance.ops.maintain.run",
    "MaintenanceStep": "alance.ops.maintain.run",
    "Metric": "alance.ops.search.options",
    "Missing": "alance.ops.read.keys",
    "Mode": "alance.ops.write.options",
    "NewIndex": "alance.ops.index.new",
    "NewTextIndex": "alance.ops.index.texts.new",
    "NewVectorIndex": "alance.ops.index.vectors.new",
    "Occur": "alance.ops.search.text.query",
    "OnProgress": "alance.base.progress",
    "OpenArguments": "alance.session",
    "Operator": "alance.ops.search.text.query",
    "OptionsProvider": "alance.io.opening.credentials",
    "OrderBy": "alance.ops.read.options",
    "PageDescription": "alance.file.open.describe",
    "PandasArguments": "alance.ops.read.options",
    "Params": "alance.ops.version.conditions",
    "PartitionStatistics": "alance.ops.index.listing",
    "Place": "alance.catalogs.backend",
    "PolicyArguments": "alance.ops.cleanup.policy",
    "Provider": "alance.io.opening.credentials",
    "Purpose": "alance.io.stores.store_report",
    "Reference": "alance.ops.version.opening",
    "RequestEvent": "alance.io.events.trace",
    "ResolvedCompactionOptions": "alance.ops.upkeep.compact_plan",
    "ScalarIndexArguments": "alance.ops.index.vectors.new",
    "ScalarIndexKind": "alance.ops.index.values.options",
    "ScanArguments": "alance.ops.read.options",
    "ScanStatistics": "alance.ops.read.scan_stats",
    "ScanStatsCallback": "alance.ops.read.scan_stats",
    "SearchArguments": "alance.ops.search.options",
    "SegmentStatistics": "alance.ops.index.listing",
    "StorageOptions": "alance.io.opening.credentials",
    "StoreArguments": "alance.session",
    "StoreCheck": "alance.io.stores.store_report",
    "TableArguments": "alance.session",
    "TableHealth": "alance.ops.maintain.health",
    "TableName": "alance.catalogs.backend",
    "TagContents": "alance.format.table.refs",
    "TextIndexArguments": "alance.ops.index.texts.new",
    "TextIndexKind": "alance.ops.index.texts.new",
    "TextSearchArguments": "alance.ops.search.text.search_options",
    "Token": "alance.format.index.text.analyzer",
    "TokenArguments": "alance.format.index.text.params",
    "Tokenizer": "alance.format.index.text.params",
    "Totals": "alance.io.events.trace",
    "Transaction": "alance.format.table.transaction",
    "Transforms": "alance.ops.columns.sources",
    "Updates": "alance.ops.rows.update",
    "ValueIndexArguments": "alance.ops.index.values.options",
    "ValueOptions": "alance.ops.index.values.options",
    "VectorIndexArguments": "alance.ops.index.vectors.new",
    "VectorIndexKind": "alance.ops.index.vectors.new",
    "VersionInfo": "alance.versioning.load",
    "WriteProgress": "alance.ops.write.options",
}

__all__ = [
    "Alteration",
    "AutoCleanupConfig",
    "BlobHandling",
    "BlobMode",
    "BranchContents",
    "BulkCommitResult",
    "CacheStats",
    "Change",
    "ChangeSummary",
    "CleanupArguments",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnDescription",
    "Columns",
    "Combine",
    "CommitArguments",
    "CommitLock",
    "CompactionArguments",
    "CompactionMode",
    "Data",
    "DataFile",
    "DataFragment",
    "DatasetStats",
    "DeletionFile",
    "Entry",
    "Explanation",
    "ExternalStore",
    "Field",
    "FieldMessage",
    "FileDescription",
    "FollowArguments",
    "Fragment",
    "FragmentArguments",
    "FragmentPandasArguments",
    "FragmentScanArguments",
    "FragmentWriteProgress",
    "FrameArguments",
    "Granularity",
    "HybridArguments",
    "IndexArguments",
    "IndexConfig",
    "IndexDescription",
    "IndexHealth",
    "IndexMetadata",
    "IndexSegmentDescription",
    "IndexStatistics",
    "JsonIndexKind",
    "KeyColumn",
    "Language",
    "LastRun",
    "ListResult",
    "ListedIndex",
    "Maintenance",
    "MaintenanceArguments",
    "MaintenanceMetrics",
    "MaintenanceReport",
    "MaintenanceStep",
    "Metric",
    "Missing",
    "Mode",
    "NewIndex",
    "NewTextIndex",
    "NewVectorIndex",
    "Occur",
    "OnProgress",
    "OpenArguments",
    "Operator",
    "OptionsProvider",
    "OrderBy",
    "PageDescription",
    "PandasArguments",
    "Params",
    "PartitionStatistics",
    "Place",
    "PolicyArguments",
    "Provider",
    "Purpose",
    "Reference",
    "RequestEvent",
    "ResolvedCompactionOptions",
    "ScalarIndexArguments",
    "ScalarIndexKind",
    "ScanArguments",
    "ScanStatistics",
    "ScanStatsCallback",
    "SearchArguments",
    "SegmentStatistics",
    "StorageOptions",
    "StoreArguments",
    "StoreCheck",
    "TableArguments",
    "TableHealth",
    "TableName",
    "TagContents",
    "TextIndexArguments",
    "TextIndexKind",
    "TextSearchArguments",
    "Token",
    "TokenArguments",
    "Tokenizer",
    "Totals",
    "Transaction",
    "Transforms",
    "Updates",
    "ValueIndexArguments",
    "ValueOptions",
    "VectorIndexArguments",
    "VectorIndexKind",
    "VersionInfo",
    "WriteProgress",
]

if not TYPE_CHECKING:  # otherwise any name would type-check
    __getattr__, __dir__ = lazy(__name__, _TYPE_PLACES)
