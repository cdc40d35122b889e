"""Methods that maintain a table's files, configuration and metadata."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from alance.base.deferred import Deferred
from alance.base.progress import Reporting
from alance.io.loop.generators import outermost
from alance.ops.version.options import CommitOptions
from alance.optimize import Optimize
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from datetime import timedelta
    from typing import Self, Unpack

    import pyarrow as pa

    from alance.base.progress import OnProgress
    from alance.datasets import Dataset
    from alance.format.table.fragment import DatasetBasePath
    from alance.ops.cleanup import cleanup, tracked
    from alance.ops.cleanup import policy as cleanup_policy
    from alance.ops.cleanup.policy import CleanupExplanation, CleanupStats, PolicyArguments
    from alance.ops.maintain import policy as rules
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
    rules = Deferred("alance.ops.maintain.policy")
    config = Deferred("alance.ops.upkeep.config")
    place = Deferred("alance.ops.upkeep.place")
    validate = Deferred("alance.ops.upkeep.validate")

SHOWN_FILES: Final = 1000  # default number of files in an explanation of a cleanup


class UpkeepVerbs(Handle):
    """Compact, clean up and validate."""

    __slots__ = ()

    @property
    def optimize(self) -> Optimize:
        """Compaction and upkeep of indices: `await dataset.optimize.compact_files()`."""
        return Optimize(cast("Dataset", self))

    async def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_rate_limit: int | None = None,
        delete_concurrency: int | None = None,
        dry_run: bool = False,
        progress: OnProgress | None = None,
        **others: Unpack[PolicyArguments],
    ) -> CleanupStats:
        """Remove old versions and the files that no version needs.

        A version is removed if it matches all conditions that are set. The latest version is
        retained, as are tagged versions and versions from which branches begin. Files are retained
        if any version needs them, including versions of branches and detached ones. Versions that
        shallow clones read are retained as well: alance records its clones by tags; for a clone by
        pylance, tag the version. A file that no version names may belong to a running writer: it is
        removed when it is seven days old. Unfinished multipart uploads are not listed; remove them
        by a lifecycle rule of the bucket.

        Cost: a LIST of each folder; a GET for each version of the table and of its branches, and
        for each tag and branch; the deletions, a thousand per request if the store can; between the
        deletions three more LISTs, and the tags and branches again. If rows name objects that the
        table owns (managed blobs), a LIST of `_blobs`, and a scan of the descriptions in each
        fragment of these versions, once.

        Example:

            from datetime import timedelta

            stats = await dataset.cleanup_old_versions(timedelta(days=7))
            assert stats.old_versions == 0

        Args:
            older_than: minimum age of a removed version, by the time in its manifest; two weeks if
                no condition is set.
            retain_versions: number of the latest versions to retain.
            older_than_version: remove only versions before this number.
            versions: remove only these numbers.
            delete_unverified: also remove files of no version that are younger than seven days.
                Only safe while nobody else writes to the table: files of running writers would go
                as well.
            error_if_tagged_old_versions: False to retain tagged versions that match; True to raise
                an error for them (the default).
            delete_rate_limit: maximum number of files deleted per second; None: no limit.
            delete_concurrency: maximum number of concurrent deletions; None: 4.
            dry_run: True to count without deleting.
            progress: called with a `Progress` of each stage; True: a bar (docs/progress.md).

        Raises:
            InvalidInputError: tagged versions match, or an argument is out of range.
            CorruptFileError, UnsupportedError: a manifest cannot be read; nothing is removed.
            StoreError: the store failed. Every remaining version still has its files.
        """
        if dry_run:
            explained = self.explain_cleanup_old_versions(older_than, retain_versions, **others)
            return (await explained).stats
        await self._load(cleanup, cleanup_policy, managed)
        snapshot = self._snapshot
        with Reporting(progress):
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
        """Return the files that `cleanup_old_versions` would remove, and why it retains versions.

        Cost: as `cleanup_old_versions`, without the deletions and the requests between them.

        Args:
            older_than, retain_versions, others: as for `cleanup_old_versions`.
            include_files: True to list the files as well.
            max_files: maximum number of listed files.

        Raises:
            InvalidInputError: tagged versions match, or an argument is out of range.
            CorruptFileError, UnsupportedError: a manifest cannot be read.
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
        progress: OnProgress | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """List the files that this branch's versions name, a batch per version, newest first.

        Columns: `version` (int64); `base_uri`, the folder of the file; `path` below it; `type`:
        `manifest`, `data file`, `deletion file`, `transaction file` or `index file`. A file appears
        once for each version that names it. Versions do not name blobs beside a data file.

        Cost: a LIST, and a GET for each version that is not cached, 16 at a time; a LIST for each
        index segment whose record does not name its files (old writers).

        Args:
            min_version: leave out versions before this one.
            progress: called with a `Progress` of the manifests; True: a bar (docs/progress.md).

        Raises:
            InvalidInputError: a negative `min_version`.
            NotFoundError: the table has been removed.
            CorruptFileError, UnsupportedError: a manifest cannot be read.
        """
        await self._load(tracked)
        snapshot = self._snapshot
        files = tracked.tracked_files(snapshot.engine, snapshot.table, min_version, progress)
        async with aclosing(files) as batches:
            async for batch in batches:
                yield batch

    @outermost
    async def all_files(self) -> AsyncIterator[pa.RecordBatch]:
        """List all files below this branch's folder, named by a version or not.

        Columns: `base_uri`, `path` below it, `size_bytes` (int64), `last_modified` (UTC, to the
        microsecond). The folder of the main branch also contains the files of other branches; files
        at other base paths are omitted.

        Cost: a LIST of the folder, with one request per 1 000 files.

        Raises:
            StoreError: the store failed.
        """
        await self._load(tracked)
        snapshot = self._snapshot
        async with aclosing(tracked.all_files(snapshot.engine, snapshot.table)) as batches:
            async for batch in batches:
                yield batch

    async def validate(self) -> None:
        """Check this version against the format.

        The checks are: fields, fragments and their ids; existence, size, footer, version and row
        counts of each data file; deletion files, their rows and counts; numbers of row ids and row
        versions, and that live rows have distinct ids; indices, their coverage and the sizes of
        their files; the objects with blobs of live rows. Other values are not read, nor are rows of
        a MemWAL, for which a warning is logged.

        Cost: one GET per data file (two for a footer larger than 64 KiB), one per deletion file, a
        HEAD per index file, or a LIST for a segment whose record does not name its files; a scan of
        the descriptions of blobs, and a HEAD or LIST for their objects. Only the scan uses caches.

        Raises:
            CorruptFileError: there are findings; the message lists all of them, one per line.
            StoreError: the store failed.
        """
        await self._load(validate)
        await validate.validate(self._snapshot)

    async def migrate_manifest_paths_v2(self) -> None:
        """Rename this branch's manifests to V2 names, so that one LIST finds the latest version.

        Do not run it while others use the table: until it is finished, the table has names of both
        kinds, and opening its latest version fails. To complete an interrupted call, call again, on
        this dataset or on one opened by the number of a version. The call has no effect if the
        table has no V1 names.

        Cost: a LIST; a COPY and a DELETE for each version with a V1 name.

        Raises:
            UnsupportedError: the table's versions are in an external store.
            StoreError: the store failed; call again.
        """
        await self._load(place)
        await place.migrate_manifest_paths_v2(self._snapshot.engine, self._snapshot.table)


class MetadataVerbs(Handle):
    """Change the configuration, and the metadata of the table, its schema and its fields.

    A value of None deletes its key; `replace` empties the map first. Concurrent changes of
    different keys do not conflict. If two concurrent changes are of the same key, of the schema's
    metadata, or of the same field's metadata, the later one raises a CommitConflictError. Cost of
    each: two rounds of requests.
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

        Cost: a commit.

        Args:
            values: new values by key; None deletes a key.
            replace: True to remove all other keys.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a key or value is not text; or maintenance, cleanups after commits or
                compactions cannot read a value.
            CommitConflictError: another commit has changed one of the keys.
        """
        await self._load(rules)
        rules.check_config(self._snapshot.manifest.config, values, replace=replace)
        return await self._updated("config_updates", values, replace, commit)

    async def delete_config_keys(self, keys: Sequence[str]) -> Self:
        """Delete keys of the table's configuration; missing keys are ignored.

        Cost: a commit.

        Args:
            keys: a list of keys.

        Raises:
            InvalidInputError: `keys` is a single text, or a key is not text.
            CommitConflictError: another commit has changed one of the keys.
        """
        await self._load(config)
        return await self.update_config(config.deleted(keys))

    async def update_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the table's metadata, which are for users' own entries.

        Cost: a commit.

        Args:
            values: new values by key; None deletes a key.
            replace: True to remove all other keys.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a key or value is not text.
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

        Cost: a commit.

        Args:
            values: new values by key; None deletes a key.
            replace: True to remove all other keys.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a key or value is not text.
            CommitConflictError: another commit has changed the schema's metadata.
        """
        return await self._updated("schema_metadata_updates", values, replace, commit)

    @property
    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Folders outside the table's folder that may contain its data files, by id; a copy."""
        return dict(self._snapshot.manifest.base_paths)

    async def add_bases(
        self, new_bases: Iterable[DatasetBasePath], **commit: Unpack[CommitArguments]
    ) -> Self:
        """Register folders for data files outside the table's folder; see `target_bases` of writes.

        Cost: a commit. The folders are not accessed before files are written to them.

        Args:
            new_bases: the folders; local paths become absolute, and an id of 0 is replaced by a new
                one.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: a name, path or id already exists, or a path is within the table's
                folder or on an unknown store.
            CommitConflictError: a concurrent commit has added the same name, path or id.
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

        Cost: a commit.

        Args:
            fields: values by the field's name or path (`a.b`); a value of None deletes its key.
            replace: True to first remove all metadata of the named fields.
            commit: see `alance.types.CommitArguments`.

        Raises:
            InvalidInputError: there is no such field, a key or value is not text, or the change
                would alter a primary or clustering key.
            CommitConflictError: another commit has changed one of the fields' metadata.
        """
        await self._load(config)
        options = CommitOptions(**commit)
        after = await config.update_field_metadata(self._snapshot, fields, options, replace=replace)
        return self._on(after)
