"""Public classes of a dataset's tags and branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from alance.base.calls import public
from alance.base.checks import check_choice
from alance.base.deferred import Deferred
from alance.base.hints import Uncalled
from alance.format.table.refs import check_branch_name, check_tag_name
from alance.ops.version.options import CommitOptions
from alance.versioning import refs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from alance.format.table.refs import BranchContents, TagContents
    from alance.ops.refs import write as refs_write
    from alance.ops.version.opening import Reference
    from alance.ops.version.snapshot import Snapshot
else:
    refs_write = Deferred("alance.ops.refs.write")

C = TypeVar("C")


class _Refs(Uncalled):
    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._snapshot.uri!r})"

    async def _load(self) -> None:
        await self._snapshot.engine.pool.load(refs_write)


@public
class Tags(_Refs):
    """Tags of a dataset, on all branches. Nothing is cached: each call reads the store."""

    __slots__ = ()

    async def list(self) -> dict[str, TagContents]:
        """Return all tags by name, sorted.

        Cost: one LIST, and a GET for each tag, concurrently.

        Raises:
            CorruptFileError: a tag's JSON contradicts the format.
        """
        return await refs.list_tags(self._snapshot.engine, self._snapshot.table)

    async def list_ordered(
        self, order: Literal["asc", "desc"] = "desc"
    ) -> Sequence[tuple[str, TagContents]]:
        """Return all tags with their names, ordered by version, then by name.

        Cost: as `list`.

        Args:
            order: `asc` or `desc` by version; tags of the same version are always in ascending
                order of names.

        Raises:
            InvalidInputError: an unknown `order`.
            CorruptFileError: a tag's JSON contradicts the format.
        """
        return _ordered(await self.list(), lambda tag: tag.version, order)

    async def get(self, name: str) -> TagContents:
        """Return a tag.

        Cost: one GET.

        Args:
            name: name of the tag.

        Raises:
            NotFoundError: no such tag.
            InvalidInputError: the name is not text.
            CorruptFileError: the tag's JSON contradicts the format.
        """
        return await refs.load_tag(self._snapshot.engine, self._snapshot.table, name)

    async def get_version(self, name: str) -> int:
        """Return the number of the version that a tag names.

        Cost: one GET.

        Args:
            name: name of the tag.

        Raises:
            NotFoundError: no such tag.
            InvalidInputError: the name is not text.
            CorruptFileError: the tag's JSON contradicts the format.
        """
        return (await self.get(name)).version

    async def create(
        self,
        name: str,
        reference: Reference | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Create a tag that names a version. Cleanup retains the version as long as the tag exists.

        Cost: a GET of this version's manifest, or a HEAD of another's (two for a V1 name), and a
        PUT; also a GET for a reference by tag or branch, and a LIST for the latest version of a
        branch.

        Example:

            await dataset.tags.create("before", 1)
            dataset = await dataset.delete("id >= 90")
            before = await dataset.checkout_version("before")
            assert await before.count_rows() == 100

        Args:
            name: letters, digits, `.`, `-` and `_`.
            reference: a number on this branch, a tag, or a pair of branch (None: main) and number
                (None: the latest); None: this version.
            metadata: texts by key, stored with the tag.

        Raises:
            AlreadyExistsError: the tag exists; `update` moves it.
            NotFoundError: no such version, tag or branch.
            InvalidInputError: an invalid name for a tag, a reference of another form, or metadata
                that is not text.
            CommitConflictError: the reference is None, and the table was deleted and created again.
        """
        await self._load()
        await refs_write.create_tag(self._snapshot, name, reference, metadata)

    async def update(self, name: str, reference: Reference | None = None) -> None:
        """Move a tag to another version. If two calls are concurrent, the later PUT wins.

        Cost: a GET, a GET of this version's manifest, or a HEAD of another's (two for a V1 name),
        and a PUT; also a GET for a reference by tag or branch, and a LIST for the latest version of
        a branch.

        Args:
            name: name of the tag.
            reference: as for `create`.

        Raises:
            NotFoundError: no such tag; or no such version, tag or branch to refer to.
            InvalidInputError: an invalid name for a tag, a reference of another form, or a tag that
                records a shallow clone.
            CommitConflictError: as for `create`.
        """
        await self._load()
        await refs_write.update_tag(self._snapshot, name, reference)

    async def delete(self, name: str) -> None:
        """Delete a tag. Its version remains until a cleanup.

        Cost: a GET and a DELETE.

        Args:
            name: name of the tag.

        Raises:
            NotFoundError: no such tag.
            InvalidInputError: an invalid name for a tag.
        """
        await self._load()
        await refs_write.delete_tag(self._snapshot, name)

    async def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Replace all metadata of a tag.

        Cost: a GET and a PUT.

        Args:
            name: name of the tag.
            metadata: texts by key.

        Raises:
            NotFoundError: no such tag.
            InvalidInputError: metadata that is not text, or an invalid name for a tag.
        """
        await self._load()
        location = self._snapshot.table.tag(check_tag_name(name))
        await refs_write.replace_metadata(self._snapshot, location, "tag", name, metadata)


@public
class Branches(_Refs):
    """Branches of a dataset. Nothing is cached: each call reads the store.

    To open a branch, use `Dataset.checkout_branch`.
    """

    __slots__ = ()

    async def list(self) -> dict[str, BranchContents]:
        """Return all branches except main by name, sorted.

        Cost: one LIST, and a GET for each branch, concurrently.

        Raises:
            CorruptFileError: a branch's JSON contradicts the format.
        """
        return await refs.list_branches(self._snapshot.engine, self._snapshot.table)

    async def list_ordered(
        self, order: Literal["asc", "desc"] = "desc"
    ) -> Sequence[tuple[str, BranchContents]]:
        """Return all branches except main with their names, ordered by first version, then by name.

        Cost: as `list`.

        Args:
            order: `asc` or `desc` by first version; branches with the same one are always in
                ascending order of names.

        Raises:
            InvalidInputError: an unknown `order`.
            CorruptFileError: a branch's JSON contradicts the format.
        """
        return _ordered(await self.list(), lambda branch: branch.parent_version, order)

    async def get(self, name: str) -> BranchContents | None:
        """Return a branch; None for `main`, which has no record.

        Cost: one GET; none for `main`.

        Args:
            name: name of the branch.

        Raises:
            NotFoundError: no such branch.
            InvalidInputError: the name is not text.
            CorruptFileError: the branch's JSON contradicts the format.
        """
        return await refs.load_branch(self._snapshot.engine, self._snapshot.table, name)

    async def create(
        self,
        name: str,
        reference: Reference | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Create a branch. Its first version is the given version, under the same number.

        No data is copied. A cancelled call still creates the branch. `Dataset.create_branch` does
        the same and opens the branch.

        Cost: a GET of the manifest, for another version a HEAD and a GET (twice as many for a V1
        name); PUTs of the branch's record, of the transaction and of the manifest, and a LIST. Also
        a GET for a reference by tag or branch, and a LIST for the latest version of a branch.

        Args:
            name: letters, digits, `.`, `-` and `_`, in segments between `/`.
            reference: a number on this branch, a tag, or a pair of branch (None: main) and number
                (None: the latest); None: this version.
            metadata: texts by key, stored with the branch.

        Raises:
            AlreadyExistsError: the branch exists, or its folder has versions.
            NotFoundError: no such version, tag or branch.
            InvalidInputError: an invalid name for a branch, a reference of another form, a detached
                version, or metadata that is not text.
            CommitConflictError: `reference` is None, and the table was deleted and written anew.
        """
        await self._load()
        await refs_write.create_branch(self._snapshot, name, reference, CommitOptions(), metadata)

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a branch with all of its versions and files.

        Cost: LISTs and GETs of all branches and tags, a LIST of the branch's folder, DELETEs.

        Args:
            name: name of the branch.
            force: True to also delete the files of a branch that has no record.

        Raises:
            NotFoundError: no such branch.
            InvalidInputError: an invalid name for a branch, the main branch, or a branch that other
                branches start from or tags name.
        """
        await self._load()
        await refs_write.delete_branch(self._snapshot, name, force=force)

    async def replace_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Replace all metadata of a branch.

        Cost: a GET and a PUT.

        Args:
            name: name of the branch.
            metadata: texts by key.

        Raises:
            NotFoundError: no such branch.
            InvalidInputError: metadata that is not text, or an invalid name for a branch.
        """
        await self._load()
        location = self._snapshot.table.branch_record(check_branch_name(name))
        await refs_write.replace_metadata(self._snapshot, location, "branch", name, metadata)


def _ordered(
    contents: Mapping[str, C], version: Callable[[C], int], order: str
) -> Sequence[tuple[str, C]]:
    check_choice("order", order, ("asc", "desc"))
    by_name = sorted(contents.items())
    return sorted(by_name, key=lambda pair: version(pair[1]), reverse=order == "desc")
