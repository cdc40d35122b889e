"""Methods of `Dataset` grouped by subject (rows, columns, indices, versions, upkeep, search).

Each method calls a function of `ops`, which it imports at its first use; no logic belongs here. May
import `ops` and below (layer 8 of docs/architecture.md).
"""

from alance.verbs.changes import ChangeVerbs
from alance.verbs.columns import ColumnVerbs
from alance.verbs.indices import IndexVerbs
from alance.verbs.maintenance import MaintenanceVerbs
from alance.verbs.rows import RowVerbs
from alance.verbs.upkeep import MetadataVerbs, UpkeepVerbs
from alance.verbs.versions import VersionVerbs

__all__ = ["Verbs"]


class Verbs(
    RowVerbs,
    ColumnVerbs,
    MetadataVerbs,
    VersionVerbs,
    ChangeVerbs,
    UpkeepVerbs,
    MaintenanceVerbs,
    IndexVerbs,
):
    """Methods that change a dataset; each returns the dataset of the version that it commits.

    The change is computed from this handle's version, and is committed on top of later versions of
    other writers. If it conflicts with them, the method raises a `CommitConflictError`, or a
    `RetryableConflictError` if the same call on the latest version may succeed.
    """

    __slots__ = ()
