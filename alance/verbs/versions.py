"""Methods for the versions of a dataset: list, open, name, compare, restore, branch and clone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.base.deferred import Deferred
from alance.base.progress import Reporting
from alance.ops.version import opening
from alance.ops.version.options import CommitOptions
from alance.verbs.base import Handle

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Self, Unpack

    from alance.base.progress import OnProgress
    from alance.format.table.transaction import Transaction
    from alance.io.opening.credentials import StorageOptions
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
    """Open, compare, restore, tag and clone versions; create branches."""

    __slots__ = ()

    @property
    def tags(self) -> Tags:
        """Tags of the dataset: `await dataset.tags.create("monday", 3)`."""
        return refs.Tags(self._snapshot)

    @property
    def branches(self) -> Branches:
        """Branches of the dataset; `checkout_branch` opens one."""
        return refs.Branches(self._snapshot)

    async def versions(self) -> list[VersionInfo]:
        """List all versions, oldest first.

        Cost: one LIST, and concurrent GETs of all manifests that are not cached.

        Example:

            dataset = await dataset.delete("id >= 90")
            print([version.version for version in await dataset.versions()])  # [1, 2]

        Raises:
            NotFoundError: the dataset has been removed.
            CorruptFileError, UnsupportedError: a manifest cannot be read.
        """
        return await opening.versions(self._snapshot)

    async def latest_version(self) -> int:
        """Return the number of the latest version on this branch.

        Cost: one LIST.

        Raises:
            NotFoundError: the dataset has been removed.
        """
        return await opening.latest_version(self._snapshot)

    async def checkout_version(self, version: Reference) -> Self:
        """Open another version.

        Cost: one GET (two if the manifest has a V1 name), or no request for this dataset's own
        number; one more GET for a tag or a branch, and a LIST for the latest version of a branch.

        Example:

            first = await dataset.checkout_version(1)
            assert first.version == 1

        Args:
            version: a number on this branch, a tag, or a pair of branch and number, such as
                `("dev", 3)`; in the pair, None stands for the main branch and for the latest
                version.

        Raises:
            NotFoundError: there is no such version, tag or branch.
            InvalidInputError: the reference has another form.
            UnsupportedError: the version uses a feature that this release of alance does not know.
        """
        snapshot = await opening.checkout(self._snapshot, version)
        return self._on(snapshot)

    async def checkout_latest(self) -> Self:
        """Open the latest version on this branch; return this dataset itself if it is the latest.

        Cost: a LIST, and a GET for a version that is not cached.

        Raises:
            NotFoundError: the dataset has been removed.
            UnsupportedError: the version uses a feature that this release of alance does not know.
        """
        latest = await opening.checkout(self._snapshot, None)
        return self._on(latest)

    async def checkout_branch(self, branch: str | None, version: int | None = None) -> Self:
        """Open a version of another branch; by default the latest one.

        Cost: one GET for the branch's record (not for the main branch); one LIST, and a GET for a
        version that is not cached. With a number, one GET instead (two for a V1 name).

        Args:
            branch: name; None or `main`: the main branch.
            version: number on that branch; None: the latest.

        Raises:
            NotFoundError: no such branch, or no such version on it.
            InvalidInputError: the name or number has the wrong type.
            UnsupportedError: the version uses a feature that this release of alance does not know.
        """
        snapshot = await opening.checkout_branch(self._snapshot, branch, version)
        return self._on(snapshot)

    async def read_transaction(self, version: int | None = None) -> Transaction | None:
        """Return the transaction of a version.

        Cost: no request if the manifest contains the transaction, as most do, else one GET; one
        more GET for another version (two for a V1 name).

        Args:
            version: number of a version on this branch; None for this version.

        Returns:
            The transaction; None if the version has none on record.

        Raises:
            NotFoundError: no such version.
            InvalidInputError: `version` is not a number.
        """
        return await opening.read_transaction(self._snapshot, version)

    async def get_transactions(self, recent: int = 10) -> list[Transaction | None]:
        """Return the transactions of this version and the versions before it, newest first.

        Cost: one LIST, and the GETs of the other versions' manifests, 64 at a time; one more GET
        for each transaction that is not in its manifest.

        Args:
            recent: maximum number of versions.

        Returns:
            A list with None for each version without a transaction on record.

        Raises:
            InvalidInputError: the number of versions is negative.
            NotFoundError: the dataset, or one of the versions, has been removed meanwhile.
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
        """Compare two versions: changed rows, and transactions. Sends no request.

        Args:
            compared_against: number of the older version; the newer one is that of the dataset.
            begin_version, end_version: instead of `compared_against`: the older and the newer
                version.

        Raises:
            InvalidInputError: neither or both forms are used, or the versions do not ascend or are
                later than this dataset.
        """
        return delta.delta(self._snapshot, compared_against, begin_version, end_version)

    async def restore(
        self,
        version: Reference | None = None,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Commit the rows, schema and configuration of an old version as a new version.

        Ids of rows, fields and fragments that later versions have used are not reused.

        Cost: a LIST, and a GET for the latest version unless it is cached; a GET for the restored
        version (two for a tag); then two rounds.

        Example:

            dataset = await (await dataset.delete("true")).restore(1)
            assert await dataset.count_rows() == 100

        Args:
            version: a number on this branch, or a tag of it; None: this version.
            commit: see `alance.types.CommitArguments`.

        Raises:
            NotFoundError: there is no such version or tag.
            InvalidInputError: the version is of another branch, or differs in a property that
                cannot change, such as stable row ids.
            CommitConflictError: the schema was changed meanwhile, or the table was deleted and
                written anew.
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
        """Create a branch and open it; later changes of one branch do not affect the other.

        No data is copied. A cancelled call still makes the branch.

        Cost: as `Branches.create`.

        Example:

            dev = await dataset.create_branch("dev")
            dev = await dev.delete("id < 50")
            assert (await dev.count_rows(), await dataset.count_rows()) == (50, 100)

        Args:
            name: letters, digits, `.`, `-` and `_`, in segments between `/`.
            reference: a number on this branch, a tag, or a pair of branch (None: main) and number
                (None: the latest); None: this version.
            metadata: texts by key, stored with the branch.

        Raises:
            AlreadyExistsError: the branch already exists, or its folder has versions.
            NotFoundError: no such version, tag or branch.
            InvalidInputError: an invalid name for a branch, a detached version, or metadata that is
                not text.
            CommitConflictError: `reference` is None, and the table was deleted and written anew.
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
        """Create a new table from a version without copying its data, and open it.

        The clone reads files in this dataset's folder. A tag `clone-...` of this dataset protects
        the version, so that neither cleanup nor `drop` removes the files; its metadata has the URI
        of the clone. Delete the tag after deleting the clone. New files of the clone are in its own
        folder.

        Cost: a GET for a version other than this one; a LIST and two PUTs; two GETs of the
        manifest and a PUT at the source.

        Args:
            target_uri: path or URI of the new table.
            reference: a number on this branch, a tag, or a pair of branch (None: main) and number
                (None: the latest); None: this version.
            properties, message: texts by key, and a commit message, recorded in the transaction.
            note_at_source: False to create no tag, for a source that cannot be written to. The
                clone then becomes unreadable if the version is removed there.
            store, storage_options: store of the target; default: that of this dataset, if it is of
                the same kind.

        Raises:
            AlreadyExistsError: the target already has a table.
            NotFoundError: there is no such version, tag or branch.
            InvalidInputError: a bad URI or option, a detached version, or a reference of another
                form.
            UnsupportedError: the files of this dataset have no URI.
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
        progress: OnProgress | None = None,
    ) -> Self:
        """Copy a version to another place, possibly in another store, and open it there.

        Data, deletion and index files are copied unchanged; then the version is committed with the
        same number. The new table is independent of this one. Other versions, tags and branches are
        not copied. A call that fails or is cancelled leaves files but no table; a repeated call
        copies the missing files.

        Cost: within a store a COPY per file, by the store itself; otherwise a GET per 8 MiB and an
        upload per file, within the session's budget of bytes; a HEAD for each file whose size the
        manifest lacks, as of deletion files. At the target a LIST of its versions and of five
        folders, and two PUTs at the end; a GET for a version other than this one.

        Args:
            target_uri: path or URI of the new table.
            reference: a number on this branch, a tag, or a pair of branch (None: main) and number
                (None: the latest); None: this version.
            properties, message: texts by key, and a commit message, recorded in the transaction.
            store, storage_options: store of the target; default: that of this dataset, if it is of
                the same kind.
            progress: called with a `Progress` of the files; True: a bar (docs/progress.md).

        Raises:
            AlreadyExistsError: the target already has a table, or another file with the same name.
            NotFoundError: there is no such version, tag or branch, or one of its files is missing.
            InvalidInputError: a bad URI or option, a detached version, or a reference of another
                form.
            UnsupportedError: the version has data overlays; or the target has no URI, and rows name
                objects below base paths.
            StoreError: a store failed.
        """
        await self._load(clone)
        with Reporting(progress):
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
