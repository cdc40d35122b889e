"""The verbs that make a new version, by what they change: one-line calls into `ops`."""

from alance.verbs.columns import ColumnVerbs
from alance.verbs.indices import IndexVerbs
from alance.verbs.rows import RowVerbs
from alance.verbs.upkeep import MetadataVerbs, UpkeepVerbs
from alance.verbs.versions import VersionVerbs

__all__ = ["Verbs"]


class Verbs(RowVerbs, ColumnVerbs, MetadataVerbs, VersionVerbs, UpkeepVerbs, IndexVerbs):
    """What changes a dataset: each verb gives the dataset of the version that it made.

    The version is that of this handle with the change, on top of whatever others have committed
    meanwhile; where that cannot be, there is a `CommitConflictError`, and a
    `RetryableConflictError` where the same call on the latest version may succeed.
    """

    __slots__ = ()
