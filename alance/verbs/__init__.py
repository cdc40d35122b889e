"""Methods of `Dataset` grouped by subject (rows, columns, indices, versions, upkeep, search).

Each method is a one-line call into `ops`, which it imports on first use; no logic belongs here. May
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
    """Methods that change a dataset; each returns the dataset of the version that it makes.

    The new version is this handle's version with the change, on top of whatever others have
    committed since. If that is impossible, the method raises a `CommitConflictError`, or a
    `RetryableConflictError` if the same call on the latest version may succeed.
    """

    __slots__ = ()
