"""Versions of a dataset: looking at them, going to them, naming them, going back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.deferred import Deferred
from alance.ops.version import opening
from alance.ops.version.options import CommitOptions
from alance.verbs.base import Handle

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Self, Unpack

    from alance.format.table.transaction import Transaction
    from alance.io.credentials import StorageOptions
    from alance.ops.read import delta
    from alance.ops.read.delta import DatasetDelta
    from alance.ops.refs import clone, refs
    from alance.ops.refs import write as refs_write
    from alance.ops.refs.refs import Branches, Tags
    from alance.ops.version import restore
    from alance.ops.version.opening import Reference
    from alance.ops.version.options import CommitArguments
    from alance.versioning.load import VersionInfo
else:
    clone = Deferred("alance.ops.refs.clone")
    delta = Deferred("alance.ops.read.delta")
    refs = Deferred("alance.ops.refs.refs")
    refs_write = Deferred("alance.ops.refs.write")
    restore = Deferred("alance.ops.version.restore")


class VersionVerbs(Handle):
    """Versions, tags, branches and clones."""

    __slots__ = ()

    @property
    def tags(self) -> Tags:
        """The tags of the dataset."""
        return refs.Tags(self._snapshot)

    @property
    def branches(self) -> Branches:
        """The branches of the dataset; `checkout_branch` opens one."""
        return refs.Branches(self._snapshot)

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
        snapshot = await opening.checkout(self._snapshot, version)
        return self._on(snapshot)

    async def checkout_latest(self) -> Self:
        """The latest version on this branch; this very dataset if it is. Cost: a LIST, a GET."""
        latest = await opening.checkout(self._snapshot, None)
        return self._on(latest)

    async def checkout_branch(self, branch: str | None, version: int | None = None) -> Self:
        """A version of another branch, the latest by default; None or `main`: the main branch.

        Cost: one GET for the branch's record, one LIST and one GET; by number without the LIST.

        Raises:
            NotFoundError: no such branch, or no such version on it.
        """
        snapshot = await opening.checkout_branch(self._snapshot, branch, version)
        return self._on(snapshot)

    async def read_transaction(self, version: int | None = None) -> Transaction | None:
        """The transaction that made a version (this one by default); None where none was kept."""
        return await opening.read_transaction(self._snapshot, version)

    async def get_transactions(self, recent: int = 10) -> list[Transaction | None]:
        """The transactions of this version and those before it, newest first.

        Cost: one LIST, and all manifests at once; None where a version kept none.
        """
        await self._load(delta)
        return await delta.recent_transactions(self._snapshot, recent)

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """What changed between two versions: rows inserted, updated and deleted, transactions.

        Args:
            compared_against: the changes after this version up to that of the dataset; or
            begin_version, end_version: after the one, up to the other.

        Raises:
            InvalidInputError: neither or both of these; versions that do not ascend, or later
                ones than this dataset is.
        """
        return delta.delta(self._snapshot, compared_against, begin_version, end_version)

    async def restore(
        self,
        version: Reference | None = None,
        **commit: Unpack[CommitArguments],
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
        await self._load(restore)
        options = CommitOptions(**commit)
        return self._on(await restore.restore(self._snapshot, version, options))

    async def create_branch(
        self,
        name: str,
        reference: Reference | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a branch and open it; what is inserted into it the main branch does not see.

        No data is copied. Cost: a HEAD and a GET of the manifest; PUTs of the branch's record, of
        the transaction and of the manifest, and a LIST. A cancelled call still makes the branch.

        Args:
            name: letters, digits, `.`, `-` and `_`, in segments between `/`.
            reference: a number on this branch, a tag, or a branch (None: main) and a number
                (None: the latest); None: this very version.

        Raises:
            AlreadyExistsError: there is such a branch, or its folder has versions.
            NotFoundError: no such version, tag or branch.
            InvalidInputError: no branch can have this name; a detached version.
        """
        await self._load(refs_write)
        options = CommitOptions()
        after = await refs_write.create_branch(self._snapshot, name, reference, options, metadata)
        return self._on(after)

    async def shallow_clone(
        self,
        target_uri: str | os.PathLike[str],
        reference: Reference | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        note_at_source: bool = True,
        store: object | None = None,
        storage_options: StorageOptions | None = None,
    ) -> Self:
        """Make a new table of a version without copying its data, and open it.

        The clone reads files in this dataset's folder. A tag `clone-...` there keeps the version,
        so that neither cleanup nor `drop` removes the files. The tag's metadata has the URI of the
        clone: delete the tag once the clone is gone. New files of the clone lie in its own folder.

        Cost: a GET for a version that is not this one; a LIST and two PUTs; at the source two HEADs
        and a PUT.

        Args:
            target_uri: path or URI of the new table.
            reference: a number on this branch, a tag, or a branch (None: main) and a number
                (None: the latest); None: this very version.
            note_at_source: False puts no tag, for a source that cannot be written to. The clone
                then breaks when the version is removed there.
            store, storage_options: of the target; by default those of this dataset, where the
                kind of store is the same.

        Raises:
            AlreadyExistsError: there is a table at the target.
            NotFoundError: no such version, tag or branch.
            UnsupportedError: no URI names the files of this dataset.
            AccessError: the source refuses the PUT of the tag.
        """
        await self._load(clone)
        target = await clone.clone(
            self._snapshot,
            target_uri,
            reference,
            CommitOptions(properties, message),
            is_shallow=True,
            is_noted=note_at_source,
            store=store,
            storage_options=storage_options,
        )
        return type(self)(target)

    async def deep_clone(
        self,
        target_uri: str | os.PathLike[str],
        reference: Reference | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        store: object | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Copy a version to another place, which may be in another store, and open it there.

        Its data, deletion and index files are copied as they are, then it is committed under its
        number: the new table needs nothing of this one. Other versions, tags and branches are not
        copied. A call that fails or is cancelled leaves files and no table; the same call copies
        what is missing.

        Cost: within a store a COPY for each file, by the store itself; else a GET for each 8 MiB
        and an upload for each file, under the session's budget of bytes. A LIST of three folders
        of the target; a GET for a version that is not this one; a LIST and two PUTs at the end.

        Args:
            target_uri: path or URI of the new table.
            reference: a number on this branch, a tag, or a branch (None: main) and a number
                (None: the latest); None: this very version.
            store, storage_options: of the target; by default those of this dataset, where the
                kind of store is the same.

        Raises:
            AlreadyExistsError: there is a table at the target, or another file of a name.
            NotFoundError: no such version, tag or branch; a file of it is missing.
            UnsupportedError: data overlays, and blobs below base paths.
            StoreError: a store failed.
        """
        await self._load(clone)
        target = await clone.clone(
            self._snapshot,
            target_uri,
            reference,
            CommitOptions(properties, message),
            is_shallow=False,
            store=store,
            storage_options=storage_options,
        )
        return type(self)(target)
