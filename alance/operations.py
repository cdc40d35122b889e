"""Operations of transactions, for commits of distributed writers by `alance.commit`.

Fragments, fields and files are protobuf messages of the format, as from `write_fragments`, so that
parts that this release does not know are preserved.
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
