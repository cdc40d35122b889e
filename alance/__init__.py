"""Asyncio, object-store-native access to Lance tables.

dataset = await alance.dataset("s3://bucket/table")
rows = await dataset.take([7, 42])
async for batch in dataset.to_batches(filter="price > 10"):
    ...
"""

from typing import TYPE_CHECKING, Final

from alance._version import __version__
from alance.base.deferred import lazy
from alance.datasets import Dataset, dataset
from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    BatchTooLargeError,
    BucketNotFoundError,
    ColumnNotFoundError,
    CommitConflictError,
    CommitStateUnknownError,
    CorruptFileError,
    ForkedError,
    InvalidInputError,
    MissingPackageError,
    NotFoundError,
    RetryableConflictError,
    RowNotFoundError,
    StoreError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from alance.file_version import FileVersion
from alance.fragment import DatasetFragment
from alance.ops.read.options import ColumnOrdering, ScanOptions
from alance.scanner import Scanner
from alance.session import Session

if TYPE_CHECKING:
    from alance import distributed, indexing, observe, operations, optimize
    from alance import types as types
    from alance.base.progress import Progress
    from alance.catalogs import Catalog, connect
    from alance.file_session import FileSession
    from alance.files import FileReader, FileWriter
    from alance.format.index.text.analyzer import tokenize
    from alance.format.table.fragment import DatasetBasePath
    from alance.indexing import IndexBuild
    from alance.ingesting import Sink, ingest
    from alance.io.stores.store_report import StoreReport
    from alance.ops.blobs.arrow import Blob, blob_array, blob_field
    from alance.ops.blobs.files import BlobOptions
    from alance.ops.blobs.writers import (
        BlobDescriptor,
        BlobDescriptorArrayBuilder,
        DedicatedBlobWriter,
        PackedBlobWriter,
    )
    from alance.ops.maintain.policy import MaintenancePolicy
    from alance.ops.read.blobs import BlobFile
    from alance.ops.read.delta import DatasetDelta
    from alance.ops.refs.refs import Branches, Tags
    from alance.ops.search.text.query import (
        BooleanQuery,
        BoostQuery,
        CombinedFieldsQuery,
        MatchQuery,
        MultiMatchQuery,
        PhraseQuery,
        TextQuery,
    )
    from alance.ops.upkeep.place import check_store, drop
    from alance.ops.upkeep.repair import RepairReport, repair
    from alance.ops.write.ingest_options import IngestMetrics
    from alance.optimize import Compaction
    from alance.udf import BatchUdf, batch_udf
    from alance.verbs.maintenance import Maintenance
    from alance.verbs.rows import MergeInsert
    from alance.versioning.dynamodb_store import DynamoDbStore
    from alance.versioning.sqlite_store import SqliteStore
    from alance.viz.page import Recorder, trace
    from alance.warming import warm_up
    from alance.writing import commit, commit_batch, write_dataset, write_fragments

# The names above open and read tables. The names below are imported at their first use, together
# with the modules that their functions need: see `alance.base.deferred`.
_PLACES: Final = {
    "distributed": "alance.distributed",
    "BatchUdf": "alance.udf",
    "Blob": "alance.ops.blobs.arrow",
    "BlobDescriptor": "alance.ops.blobs.writers",
    "BlobDescriptorArrayBuilder": "alance.ops.blobs.writers",
    "BlobFile": "alance.ops.read.blobs",
    "BlobOptions": "alance.ops.blobs.files",
    "BooleanQuery": "alance.ops.search.text.query",
    "BoostQuery": "alance.ops.search.text.query",
    "Branches": "alance.ops.refs.refs",
    "CombinedFieldsQuery": "alance.ops.search.text.query",
    "Compaction": "alance.optimize",
    "DatasetBasePath": "alance.format.table.fragment",
    "DatasetDelta": "alance.ops.read.delta",
    "DedicatedBlobWriter": "alance.ops.blobs.writers",
    "DynamoDbStore": "alance.versioning.dynamodb_store",
    "FileReader": "alance.files",
    "FileSession": "alance.file_session",
    "FileWriter": "alance.files",
    "IndexBuild": "alance.indexing",
    "IngestMetrics": "alance.ops.write.ingest_options",
    "Maintenance": "alance.verbs.maintenance",
    "MaintenancePolicy": "alance.ops.maintain.policy",
    "MatchQuery": "alance.ops.search.text.query",
    "MergeInsert": "alance.verbs.rows",
    "MultiMatchQuery": "alance.ops.search.text.query",
    "PackedBlobWriter": "alance.ops.blobs.writers",
    "PhraseQuery": "alance.ops.search.text.query",
    "Progress": "alance.base.progress",
    "Recorder": "alance.viz.page",
    "Sink": "alance.ingesting",
    "SqliteStore": "alance.versioning.sqlite_store",
    "StoreReport": "alance.io.stores.store_report",
    "Tags": "alance.ops.refs.refs",
    "TextQuery": "alance.ops.search.text.query",
    "batch_udf": "alance.udf",
    "blob_array": "alance.ops.blobs.arrow",
    "blob_field": "alance.ops.blobs.arrow",
    "check_store": "alance.ops.upkeep.place",
    "commit": "alance.writing",
    "commit_batch": "alance.writing",
    "Catalog": "alance.catalogs.catalog",
    "connect": "alance.catalogs.catalog",
    "drop": "alance.ops.upkeep.place",
    "repair": "alance.ops.upkeep.repair",
    "RepairReport": "alance.ops.upkeep.repair",
    "indexing": "alance.indexing",
    "ingest": "alance.ingesting",
    "observe": "alance.observe",
    "operations": "alance.operations",
    "optimize": "alance.optimize",
    "tokenize": "alance.format.index.text.analyzer",
    "trace": "alance.viz.page",
    "types": "alance.types",
    "warm_up": "alance.warming",
    "write_dataset": "alance.writing",
    "write_fragments": "alance.writing",
}


__all__ = [
    "AccessError",
    "AlanceError",
    "AlreadyExistsError",
    "BatchTooLargeError",
    "BatchUdf",
    "Blob",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "BlobOptions",
    "BooleanQuery",
    "BoostQuery",
    "Branches",
    "BucketNotFoundError",
    "Catalog",
    "ColumnNotFoundError",
    "ColumnOrdering",
    "CombinedFieldsQuery",
    "CommitConflictError",
    "CommitStateUnknownError",
    "Compaction",
    "CorruptFileError",
    "Dataset",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetFragment",
    "DedicatedBlobWriter",
    "DynamoDbStore",
    "FileReader",
    "FileSession",
    "FileVersion",
    "FileWriter",
    "ForkedError",
    "IndexBuild",
    "IngestMetrics",
    "InvalidInputError",
    "Maintenance",
    "MaintenancePolicy",
    "MatchQuery",
    "MergeInsert",
    "MissingPackageError",
    "MultiMatchQuery",
    "NotFoundError",
    "PackedBlobWriter",
    "PhraseQuery",
    "Progress",
    "Recorder",
    "RepairReport",
    "RetryableConflictError",
    "RowNotFoundError",
    "ScanOptions",
    "Scanner",
    "Session",
    "Sink",
    "SqliteStore",
    "StoreError",
    "StoreReport",
    "TableNotFoundError",
    "Tags",
    "TextQuery",
    "UnsupportedError",
    "VersionNotFoundError",
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "check_store",
    "commit",
    "commit_batch",
    "connect",
    "dataset",
    "distributed",
    "drop",
    "indexing",
    "ingest",
    "observe",
    "operations",
    "optimize",
    "repair",
    "tokenize",
    "trace",
    "warm_up",
    "write_dataset",
    "write_fragments",
]

if not TYPE_CHECKING:  # otherwise any name would type-check
    __getattr__, __dir__ = lazy(__name__, _PLACES)
