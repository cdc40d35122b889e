"""Asyncio, object-store-native access to Lance tables.

dataset = await alance.dataset("s3://bucket/table")
rows = await dataset.take([7, 42])
async for batch in dataset.to_batches(filter="price > 10"):
    ...
"""

from alance import operations, optimize
from alance.datasets import Dataset, dataset
from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    CommitConflictError,
    CommitStateUnknownError,
    CorruptFileError,
    ForkedError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StoreError,
    UnsupportedError,
)
from alance.file_version import FileVersion
from alance.file_writing import FileWriter
from alance.files import FileReader
from alance.fragment import DatasetFragment
from alance.ingesting import Sink, ingest
from alance.io.store_report import StoreReport
from alance.ops.blob_arrow import blob_field
from alance.ops.blob_files import BlobOptions
from alance.ops.blobs import BlobFile
from alance.ops.check_store import check_store
from alance.ops.data_files import Progress
from alance.ops.delta import DatasetDelta
from alance.ops.drop import drop
from alance.ops.ingest_options import IngestMetrics
from alance.ops.options import ScanOptions
from alance.ops.refs import Branches, Tags
from alance.optimize import Compaction
from alance.scanner import Scanner
from alance.session import Session
from alance.udf import BatchUdf, batch_udf
from alance.verbs.merging import MergeInsert
from alance.versioning.dynamodb_store import DynamoDbStore
from alance.versioning.sqlite_store import SqliteStore
from alance.viz.recorder import Recorder, trace
from alance.writing import commit, write_dataset, write_fragments

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "AlanceError",
    "AlreadyExistsError",
    "BatchUdf",
    "BlobFile",
    "BlobOptions",
    "Branches",
    "CommitConflictError",
    "CommitStateUnknownError",
    "Compaction",
    "CorruptFileError",
    "Dataset",
    "DatasetDelta",
    "DatasetFragment",
    "DynamoDbStore",
    "FileReader",
    "FileVersion",
    "FileWriter",
    "ForkedError",
    "IngestMetrics",
    "InvalidInputError",
    "MergeInsert",
    "NotFoundError",
    "Progress",
    "Recorder",
    "RetryableConflictError",
    "ScanOptions",
    "Scanner",
    "Session",
    "Sink",
    "SqliteStore",
    "StoreError",
    "StoreReport",
    "Tags",
    "UnsupportedError",
    "__version__",
    "batch_udf",
    "blob_field",
    "check_store",
    "commit",
    "dataset",
    "drop",
    "ingest",
    "operations",
    "optimize",
    "trace",
    "write_dataset",
    "write_fragments",
]
