"""The types of what public functions take and give, for annotations and `isinstance`.

What users call and make is in `alance`; operations of transactions are in `alance.operations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.deferred import lazy

if TYPE_CHECKING:
    from alance.format.field import Field as Field
    from alance.format.proto.table_pb2 import DataFragment as DataFragment
    from alance.format.proto.table_pb2 import IndexMetadata as IndexMetadata
    from alance.format.table.fragment import DataFile as DataFile
    from alance.format.table.fragment import DeletionFile as DeletionFile
    from alance.format.table.fragment import Fragment as Fragment
    from alance.format.table.refs import BranchContents as BranchContents
    from alance.format.table.refs import TagContents as TagContents
    from alance.format.table.transaction import Transaction as Transaction
    from alance.ops.columns.alter import Alteration as Alteration
    from alance.ops.columns.sources import Transforms as Transforms
    from alance.ops.index.new import NewIndex as NewIndex
    from alance.ops.read.explain import Explanation as Explanation
    from alance.ops.read.options import BlobHandling as BlobHandling
    from alance.ops.read.options import FragmentScanArguments as FragmentScanArguments
    from alance.ops.read.options import ScanArguments as ScanArguments
    from alance.ops.rows.assign import Updates as Updates
    from alance.ops.upkeep.cleanup_policy import CleanupCandidateFile as CleanupCandidateFile
    from alance.ops.upkeep.cleanup_policy import CleanupExplanation as CleanupExplanation
    from alance.ops.upkeep.cleanup_policy import CleanupReferencedBranch as CleanupReferencedBranch
    from alance.ops.upkeep.cleanup_policy import CleanupStats as CleanupStats
    from alance.ops.upkeep.compact_plan import CompactionArguments as CompactionArguments
    from alance.ops.upkeep.compact_plan import CompactionMode as CompactionMode
    from alance.ops.version.commit_options import CommitArguments as CommitArguments
    from alance.ops.version.opening import Reference as Reference
    from alance.ops.version.projection import Columns as Columns
    from alance.ops.write.options import Mode as Mode
    from alance.ops.write.sources import Data as Data
    from alance.versioning.external_store import ExternalStore as ExternalStore
    from alance.versioning.load import VersionInfo as VersionInfo
    from alance.versioning.lock import CommitLock as CommitLock

_PLACES: Final = {
    "Alteration": "alance.ops.columns.alter",
    "BlobHandling": "alance.ops.read.options",
    "BranchContents": "alance.format.table.refs",
    "CleanupCandidateFile": "alance.ops.upkeep.cleanup_policy",
    "CleanupExplanation": "alance.ops.upkeep.cleanup_policy",
    "CleanupReferencedBranch": "alance.ops.upkeep.cleanup_policy",
    "CleanupStats": "alance.ops.upkeep.cleanup_policy",
    "Columns": "alance.ops.version.projection",
    "CommitArguments": "alance.ops.version.commit_options",
    "CommitLock": "alance.versioning.lock",
    "CompactionArguments": "alance.ops.upkeep.compact_plan",
    "CompactionMode": "alance.ops.upkeep.compact_plan",
    "Data": "alance.ops.write.sources",
    "DataFile": "alance.format.table.fragment",
    "DataFragment": "alance.format.proto.table_pb2",
    "DeletionFile": "alance.format.table.fragment",
    "Explanation": "alance.ops.read.explain",
    "ExternalStore": "alance.versioning.external_store",
    "Field": "alance.format.field",
    "FieldMessage": "alance.format.proto.file_pb2:Field",
    "Fragment": "alance.format.table.fragment",
    "FragmentScanArguments": "alance.ops.read.options",
    "IndexMetadata": "alance.format.proto.table_pb2",
    "Mode": "alance.ops.write.options",
    "NewIndex": "alance.ops.index.new",
    "Reference": "alance.ops.version.opening",
    "ResolvedCompactionOptions": "alance.ops.upkeep.compact_plan:Resolved",
    "ScanArguments": "alance.ops.read.options",
    "TagContents": "alance.format.table.refs",
    "Transaction": "alance.format.table.transaction",
    "Transforms": "alance.ops.columns.sources",
    "Updates": "alance.ops.rows.assign",
    "VersionInfo": "alance.versioning.load",
}

__all__ = tuple(_PLACES)
__getattr__, __dir__ = lazy(__name__, _PLACES)
