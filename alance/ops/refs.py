"""Tags and branches of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.versioning import refs

if TYPE_CHECKING:
    from alance.format.table.refs import BranchContents, TagContents
    from alance.ops.snapshot import Snapshot


class Tags:
    """The tags of a dataset, all of its branches'. Nothing is kept: each call asks the store."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return f"Tags({self._snapshot.uri!r})"

    async def list(self) -> dict[str, TagContents]:
        """All tags by name, sorted. Cost: one LIST, and all tags at once.

        Raises:
            CorruptFileError: a tag's JSON.
        """
        return await refs.list_tags(self._snapshot.engine, self._snapshot.table)

    async def get(self, name: str) -> TagContents:
        """A tag. Cost: one GET.

        Raises:
            NotFoundError: no such tag.
            CorruptFileError: its JSON.
        """
        return await refs.load_tag(self._snapshot.engine, self._snapshot.table, name)

    async def get_version(self, name: str) -> int:
        """The number of the version that a tag names. Cost: one GET.

        Raises:
            NotFoundError: no such tag.
            CorruptFileError: its JSON.
        """
        return (await self.get(name)).version


class Branches:
    """The branches of a dataset. Nothing is kept: each call asks the store.

    To open one, use `Dataset.checkout_branch`.
    """

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return f"Branches({self._snapshot.uri!r})"

    async def list(self) -> dict[str, BranchContents]:
        """All branches but main by name, sorted. Cost: one LIST, and all their records at once.

        Raises:
            CorruptFileError: a branch's JSON.
        """
        return await refs.list_branches(self._snapshot.engine, self._snapshot.table)

    async def get(self, name: str) -> BranchContents | None:
        """A branch; None for main. Cost: one GET.

        Raises:
            NotFoundError: no such branch.
            CorruptFileError: its JSON.
        """
        return await refs.load_branch(self._snapshot.engine, self._snapshot.table, name)
