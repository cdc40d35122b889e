"""The operations of a transaction, for `alance.commit`: what distributed writers did.

Fragments, fields and files in them are protobuf messages of the format (`write_fragments` gives
fragments), so that whatever this alance does not know of them is kept.
"""

from alance.format.table.operations import (
    Append,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
)
from alance.format.table.operations_meta import (
    Clone,
    CreateIndex,
    DataOverlay,
    ReserveFragments,
    Restore,
    Unknown,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
    UpdateMemWalState,
)

__all__ = [
    "Append",
    "Clone",
    "CreateIndex",
    "DataOverlay",
    "DataReplacement",
    "DataReplacementGroup",
    "Delete",
    "Merge",
    "Operation",
    "Overwrite",
    "Project",
    "ReserveFragments",
    "Restore",
    "Rewrite",
    "RewriteGroup",
    "RewrittenIndex",
    "Unknown",
    "Update",
    "UpdateBases",
    "UpdateConfig",
    "UpdateMap",
    "UpdateMemWalState",
]
