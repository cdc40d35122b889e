"""Versions of a dataset: looking at them, going to them, naming them, going back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.ops import opening
from alance.ops.commits import CommitOptions
from alance.ops.refs import Branches, Tags
from alance.ops.restore import restore
from alance.verbs.base import Handle
from alance.versioning.commit import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from alance.format.table.transaction import Transaction
    from alance.ops.opening import Reference
    from alance.versioning.load import VersionInfo


class VersionVerbs(Handle):
    """Versions, tags, branches and clones."""

    __slots__ = ()

    @property
    def tags(self) -> Tags:
        """The tags of the dataset."""
        return Tags(self._snapshot)

    @property
    def branches(self) -> Branches:
        """The branches of the dataset; `checkout_branch` opens one."""
        return Branches(self._snapshot)

    async def versions(self) -> list[VersionInfo]:
        """All versions, oldest first. Cost: one LIST and all manifests at once."""
        return await opening.versions(self._snapshot)

    async def latest_version(self) -> int:
        """The number of the latest version on this branch. Cost: one LIST."""
        return await opening.latest_version(self._snapshot)

    async def checkout_version(self, version: Reference) -> Self:
        """Another version. Cost: one GET; for a tag or a branch one more.

        Args:
            version: a number on this branch, a tag, or a branch and a number: `("dev", 3)`; None
                for the main branch, None for the latest version of a branch.

        Raises:
            NotFoundError: no such version, tag or branch.
        """
        found = await opening.checkout(self._snapshot, version)
        return self if found is self._snapshot else type(self)(found)

    async def checkout_latest(self) -> Self:
        """The latest version on this branch; this very dataset if it is. Cost: a LIST, a GET."""
        latest = await opening.checkout(self._snapshot, None)
        return self if latest is self._snapshot else type(self)(latest)

    async def checkout_branch(self, branch: str | None, version: int | None = None) -> Self:
        """A version of another branch, the latest by default; None or `main`: the main branch.

        Cost: one GET for the branch's record, one LIST and one GET; by number without the LIST.

        Raises:
            NotFoundError: no such branch, or no such version on it.
        """
        found = await opening.checkout_branch(self._snapshot, branch, version)
        return self if found is self._snapshot else type(self)(found)

    async def read_transaction(self, version: int | None = None) -> Transaction | None:
        """The transaction that made a version (this one by default); None where none was kept."""
        return await opening.read_transaction(self._snapshot, version)

    async def restore(
        self,
        version: Reference | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> Self:
        """Make a version the newest one: its rows, schema and configuration under a new number.

        Row, field and fragment ids that were given since are not given again.

        Cost: a LIST and a GET for the latest version; a GET for another version than this one;
        then two rounds.

        Args:
            version: a number on this branch, or a tag of it; None: this very version.

        Raises:
            NotFoundError: no such version or tag.
            InvalidInputError: a version of another branch, or one that differs in what cannot
                be changed, such as stable row ids.
            CommitConflictError: the schema was changed meanwhile.
        """
        options = CommitOptions(properties, message, max_retries)
        return type(self)(await restore(self._snapshot, version, options))
