"""Verbs that look after a table's files, and what is told of it: configuration and metadata."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from alance.deferred import Deferred
from alance.io.generators import outermost
from alance.ops.version.options import CommitOptions
from alance.optimize import Optimize
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import timedelta
    from typing import Self, Unpack

    import pyarrow as pa

    from alance.datasets import Dataset
    from alance.format.table.fragment import DatasetBasePath
    from alance.ops.cleanup import cleanup, tracked
    from alance.ops.cleanup import policy as cleanup_policy
    from alance.ops.cleanup.policy import CleanupExplanation, CleanupStats, PolicyArguments
    from alance.ops.read import managed
    from alance.ops.upkeep import config, place, validate
    from alance.ops.version.options import CommitArguments
    from alance.ops.write import bases
else:
    bases = Deferred("alance.ops.write.bases")
    cleanup = Deferred("alance.ops.cleanup.cleanup")
    cleanup_policy = Deferred("alance.ops.cleanup.policy")
    tracked = Deferred("alance.ops.cleanup.tracked")
    managed = Deferred("alance.ops.read.managed")
    config = Deferred("alance.ops.upkeep.config")
    place = Deferred("alance.ops.upkeep.place")
    validate = Deferred("alance.ops.upkeep.validate")

SHOWN_FILES: Final = 1000


class UpkeepVerbs(Handle):
    """Compaction, cleanup, validation."""

    __slots__ = ()

    @property
    def optimize(self) -> Optimize:
        """Compaction: `await dataset.optimize.compact_files()`."""
        return Optimize(cast("Dataset", self))

    async def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_rate_limit: int | None = None,
        delete_concurrency: int | None = None,
        dry_run: bool = False,
        **others: Unpack[PolicyArguments],
    ) -> CleanupStats:
        """Remove old versions, and the files that no version needs any more.

        What is given counts together: a version goes if it matches all of it. The latest version
        stays, those that are tagged, and those that branches were made from; files stay that any
        version needs, of branches below and detached ones too. Versions that shallow clones
        read stay, too: alance notes its clones by tags; for a clone that pylance made, tag the
        version. Files that no version names may belong to a writer at work: they go when they are
        seven days old. Unfinished multipart uploads are not seen; let a lifecycle rule of the
        bucket end them.

        Cost: a LIST of each folder; a GET for each version of the table and of the branches
        below; three more LISTs; the deletions, where the store can a thousand a request. Where rows
        name objects that the table keeps (managed blobs), a LIST of `_blobs`, and a scan of the
        descriptions in each fragment of these versions, once.

        Args:
            older_than: age of versions by the time in their manifest; two weeks where neither
                this nor another condition is given.
            retain_versions: the last so many stay.
            older_than_version: versions before this one.
            versions: only these numbers.
            delete_unverified: files of no version go whatever their age. Only where nobody else
                writes to the table: what others are writing would go, too.
            error_if_tagged_old_versions: False: tagged versions that match stay without an error.
            delete_rate_limit: files deleted a second, at most.
            delete_concurrency: requests for deletion at once; 4 by default.
            dry_run: count only.

        Raises:
            InvalidInputError: tags name versions that match, or an argument out of its range.
            CorruptFileError, UnsupportedError: a manifest cannot be read; nothing is removed.
            StoreError: the store failed. No version is without its files.
        """
        if dry_run:
            explained = self.explain_cleanup_old_versions(older_than, retain_versions, **others)
            return (await explained).stats
        await self._load(cleanup, cleanup_policy, managed)
        snapshot = self._snapshot
        return await cleanup.cleanup(
            snapshot.engine,
            snapshot.table,
            cleanup_policy.CleanupPolicy(
                older_than=older_than, retain_versions=retain_versions, **others
            ),
            objects=managed.ObjectReader(snapshot.session, snapshot.table),
            delete_rate_limit=delete_rate_limit,
            delete_concurrency=delete_concurrency,
        )

    async def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        include_files: bool = False,
        max_files: int = SHOWN_FILES,
        **others: Unpack[PolicyArguments],
    ) -> CleanupExplanation:
        """What `cleanup_old_versions` would remove, and why other versions stay.

        Cost: a LIST of each folder of the table, and a GET for each version of it and of its
        branches.

        Args:
            include_files: list the files, too.
            max_files: so many of them.
            others: those of `cleanup_old_versions`.

        Raises:
            InvalidInputError: tags name versions that match.
            CorruptFileError, UnsupportedError: a manifest that cannot be read.
            StoreError: the store failed.
        """
        await self._load(cleanup, cleanup_policy, managed)
        snapshot = self._snapshot
        return await cleanup.explain(
            snapshot.engine,
            snapshot.table,
            cleanup_policy.CleanupPolicy(
                older_than=older_than, retain_versions=retain_versions, **others
            ),
            objects=managed.ObjectReader(snapshot.session, snapshot.table),
            include_files=include_files,
            max_files=max_files,
        )

    @outermost
    async def tracked_files(
        self,
        *,
        min_version: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """The files that the versions of this branch name, a batch a version, the newest first.

        Columns: `version` (int64); `base_uri`, where the file is; `path` below it; `type`:
        `manifest`, `data file`, `deletion file`, `transaction file` or `index file`. A file stands
        beside each version that names it. Blobs beside a data file are not named by versions.

        Cost: a LIST, and a GET for each version, 16 at once; a LIST for each segment of an index
        whose record names no files, as those of old writers.

        Args:
            min_version: leave out versions before this one.
            progress: told how many manifests were read, and how many there are.

        Raises:
            InvalidInputError: a negative `min_version`.
            NotFoundError: the table is gone.
            CorruptFileError, UnsupportedError: a manifest that cannot be read.
        """
        await self._load(tracked)
        snapshot = self._snapshot
        files = tracked.tracked_files(snapshot.engine, snapshot.table, min_version, progress)
        async with aclosing(files) as batches:
            async for batch in batches:
                yield batch

    @outermost
    async def all_files(self) -> AsyncIterator[pa.RecordBatch]:
        """The files below this branch's folder, whether a version names them or not.

        Columns: `base_uri`, `path` below it, `size_bytes` (int64), `last_modified` (UTC, to the
        microsecond). Files of other branches are in the folder of the main one; files at other
        base paths are left out.

        Cost: a LIST of the folder, a request for each 1 000 files.

        Raises:
            StoreError: the store failed.
        """
        await self._load(tracked)
        snapshot = self._snapshot
        async with aclosing(tracked.all_files(snapshot.engine, snapshot.table)) as batches:
            async for batch in batches:
                yield batch

    async def validate(self) -> None:
        """Check that this version is what the format says.

        Looked at are: fields, fragments and their ids; of each data file that it is there, its
        size, footer and version, and the rows of its columns; deletion files, their rows and
        counts; row ids and versions of rows, their numbers and that no two live rows share an id;
        indices, what they cover, and the sizes of their files; the objects that hold blobs of live
        rows. Other values are not read, nor are rows of a MemWAL, for which a warning is logged.

        Cost: one GET a data file (two where a footer is larger than 64 KiB), one a deletion file,
        a HEAD an index file, or a LIST for a segment whose files are not listed; a scan of the
        descriptions of blobs, and a HEAD or LIST for their objects. Only that scan uses caches.

        Raises:
            CorruptFileError: with all findings, one a line.
            StoreError: the store failed.
        """
        await self._load(validate)
        await validate.validate(self._snapshot)

    async def migrate_manifest_paths_v2(self) -> None:
        """Rename the manifests of this branch to names by which one LIST finds the latest.

        Not while others use the table: until it is done, the table has names of both kinds, and
        opening its latest version fails. An interrupted call is finished by calling again, on
        this dataset or one opened by the number of a version. Without V1 names nothing is done.

        Cost: a LIST, and two requests for each version.

        Raises:
            UnsupportedError: a table whose versions an external store keeps.
            StoreError: the store failed; call again.
        """
        await self._load(place)
        await place.migrate_manifest_paths_v2(self._snapshot.engine, self._snapshot.table)


class MetadataVerbs(Handle):
    """Configuration; metadata of the table, of its schema, of fields.

    In all of them a value of None deletes its key, and `replace` empties the map first. Others
    may change other keys at the same time; of two that change one key, and of two that change the
    schema's metadata or that of one field, the later one gets a CommitConflictError. Cost: two
    rounds of requests.
    """

    __slots__ = ()

    async def update_config(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the table's configuration.

        Raises:
            InvalidInputError: keys or values that are no text.
            CommitConflictError: another commit has changed one of the keys.
        """
        return await self._updated("config_updates", values, replace, commit)

    async def delete_config_keys(self, keys: Sequence[str]) -> Self:
        """Delete keys of the table's configuration; those that are not there are no error."""
        await self._load(config)
        return await self.update_config(config.deleted(keys))

    async def update_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the table's own metadata, which is free for users.

        Raises:
            InvalidInputError: keys or values that are no text.
            CommitConflictError: another commit has changed one of the keys.
        """
        return await self._updated("table_metadata_updates", values, replace, commit)

    async def update_schema_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the metadata of the schema.

        Raises:
            InvalidInputError: keys or values that are no text.
            CommitConflictError: another commit has changed the schema's metadata.
        """
        return await self._updated("schema_metadata_updates", values, replace, commit)

    @property
    def base_paths(self) -> dict[int, DatasetBasePath]:
        """The folders elsewhere that may hold data files of the table, by id."""
        return dict(self._snapshot.manifest.base_paths)

    async def add_bases(
        self, new_bases: Iterable[DatasetBasePath], **commit: Unpack[CommitArguments]
    ) -> Self:
        """Name folders elsewhere to which data files may go: `target_bases` of writes.

        Cost: a commit. The folders are not looked at, and hold nothing until files go there.

        Args:
            new_bases: local paths become absolute; an id of 0 is given.

        Raises:
            InvalidInputError: a name, path or id that is there already, a path within the table's
                folder, or one of no store that is known.
            CommitConflictError: a concurrent commit has added such a one.
        """
        await self._load(bases)
        return self._on(await bases.add_bases(self._snapshot, new_bases, CommitOptions(**commit)))

    async def _updated(
        self,
        kind: config.Kind,
        values: Mapping[str, str | None],
        replace: bool,
        commit: CommitArguments,
    ) -> Self:
        await self._load(config)
        options = CommitOptions(**commit)
        after = await config.update(self._snapshot, kind, values, options, replace=replace)
        return self._on(after)

    async def update_field_metadata(
        self,
        fields: Mapping[str, Mapping[str, str | None]],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the metadata of fields.

        Args:
            fields: values by the field's name or path (`a.b`).
            replace: of each field named, the metadata is emptied first; others keep theirs.

        Raises:
            InvalidInputError: no such field; keys or values that are no text; a field of a
                primary or clustering key would change its role.
            CommitConflictError: another commit has changed one of the fields' metadata.
        """
        await self._load(config)
        options = CommitOptions(**commit)
        after = await config.update_field_metadata(self._snapshot, fields, options, replace=replace)
        return self._on(after)
