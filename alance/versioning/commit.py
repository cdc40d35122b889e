"""Commit loop: list newer versions, rebase onto them, build the next manifest, create it.

  round 1   the caller's data, the transaction file and the newer versions, concurrently
  round 2   the manifest, put if absent

If another committer was first, more rounds of listing and putting follow, with pauses in between.
After a cancellation or a crash, the table has either the old version or the new one, never a part:
the manifest is one object, and all objects that it refers to are written before it. To find out if
an interrupted commit took effect, commit the same transaction again on the same base. If a newer
version has its uuid, that version is returned and nothing is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import (
    AlanceError,
    AlreadyExistsError,
    CommitConflictError,
    InvalidInputError,
    RetryableConflictError,
    StoreError,
)
from alance.format.table.manifest import Manifest, parse_manifest
from alance.format.table.naming import DELETIONS, transaction_name
from alance.io.events import observing
from alance.io.loop.tasks import all_of
from alance.versioning.backoff import MAX_RETRIES, Backoff
from alance.versioning.load import AS_FAST
from alance.versioning.manifest_store import (
    MERGED,
    Created,
    ManifestStore,
    VersionsGoneError,
    is_commit_of,
    makers_of,
    newest_for,
)
from alance.versioning.outcome import clash_with, is_uncommitted, mark_as_open, may_be_visible
from alance.versioning.tokens import Notes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alance.format.table.transaction import Transaction
    from alance.io.reading.engine import Engine
    from alance.versioning.load import ManifestLocation
    from alance.versioning.manifest_store import Created, ManifestStore, Objects
    from alance.versioning.rules import Rules
    from alance.versioning.table import Table

DETACHED: Final = 1 << 63
PUTS: Final = 5  # maximum attempts to put a transaction file while the store answers 409
SCHEMA_WORK: Final = 8  # work on a byte of a manifest with a new schema, as bytes to decode


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """Transaction to commit, with everything that its commit needs.

    Attributes:
        base: version that the transaction was computed from; None to create the table.
        rules: rules that rebase the transaction onto newer versions, and apply it.
        manifests: store that lists and creates versions of the table.
        loading: loads the base in the first round, if `base` is not given. The base must be the
            latest version in a listing that the caller has just made, and the transaction's
            `read_version`. None if `base` is given.
        data: work that has to end before the version becomes visible, such as uploads of its files.
            It is cancelled if the commit fails first. None without such work.
        named: locations and contents of small objects to write before the version. On a local
            store, the thread that writes the manifest writes them.
        discard: removes the files written for the version. It is called if the commit fails, unless
            the version may exist or may still appear; see `outcome.may_be_visible`.
        detached: True to make a version outside of the table's history, with a random number.
        max_retries: maximum attempts after the first one, each because another committer was first.
        backoff: pauses between the attempts; None for the defaults of `Backoff`.
    """

    table: Table
    transaction: Transaction
    base: Manifest | None
    rules: Rules
    manifests: ManifestStore
    loading: Awaitable[Manifest] | None = None
    data: Awaitable[object] | None = None
    named: Objects = ()
    discard: Callable[[], Awaitable[object]] | None = None
    detached: bool = False
    max_retries: int = MAX_RETRIES
    backoff: Backoff | None = None


async def commit(engine: Engine, pending: PendingCommit) -> Manifest:
    """Make the next version of a table, and return its manifest.

    Cost: two rounds without other committers: the PUT of the transaction, a LIST and the caller's
    data; then the PUT of the manifest. The first commit to a store also probes it; see
    `check_conditional_puts`. After a cancellation, the table has the old version or the new one;
    see the module's docstring and `outcome.may_be_visible`.

    Raises:
        AlreadyExistsError: the table to create exists already.
        RetryableConflictError: run the operation again on the latest version. Also raised if other
            committers won all attempts.
        CommitConflictError: a newer version rules the transaction out.
        CommitStateUnknownError: it is not known if the version was made.
        UnsupportedError: the store has no put-if-absent.
    """
    try:
        return await _observed_commit(engine, pending)
    except BaseException as error:
        if pending.discard is not None and not may_be_visible(error):
            await pending.discard()
        raise


async def _observed_commit(engine: Engine, pending: PendingCommit) -> Manifest:
    transaction = pending.transaction
    uploads = None if pending.data is None else asyncio.ensure_future(pending.data)
    num_appends = max(1, len(transaction.properties.get(MERGED, "").split()))
    with observing.commit(pending.table.uri, transaction.operation, num_appends) as observed:
        run = _CommitRun(engine, pending, observed)
        try:
            if pending.loading is None:
                _check(transaction, pending.base, detached=pending.detached)
            if pending.detached:
                manifest = await run.detached(uploads)
            else:
                backoff = pending.backoff or Backoff()
                manifest = await run.attached(uploads, pending.max_retries, backoff)
        except (CommitConflictError, AlreadyExistsError):
            await run.forget_files()
            raise
        finally:
            if uploads is not None:
                uploads.cancel()
        observed.version = manifest.version
    return manifest


def _check(transaction: Transaction, base: Manifest | None, *, detached: bool) -> None:
    version = 0 if base is None else base.version
    if transaction.read_version not in (0, version):
        raise InvalidInputError(
            f"transaction {transaction.uuid}: made from version {transaction.read_version}, to be "
            f"committed on version {version}; expected the same version"
        )
    if base is None and detached:
        raise InvalidInputError("a detached version needs a version that it is based on")
    if version >= DETACHED and not detached:
        raise InvalidInputError(
            f"version {version} is detached: only detached versions can follow it"
        )


class _CommitRun:
    """State that a commit carries from one attempt to the next."""

    def __init__(
        self, engine: Engine, pending: PendingCommit, observed: observing.CommitUnderWay
    ) -> None:
        self._observed = observed
        self._engine = engine
        self._table = pending.table
        self._rules = pending.rules
        self._manifests = pending.manifests
        self._transaction = pending.transaction
        self._base = pending.base
        self._loading = pending.loading
        self._notes = Notes.of(pending.transaction.properties)
        # Objects to write before the manifest, as location and content. An object replaces an
        # earlier one with the same key.
        self._named: dict[str, tuple[str, bytes]] = {place[0]: place for place in pending.named}
        self._files: list[str] = []  # transaction files written so far; the last one is in use

    async def attached(
        self, data: Awaitable[object] | None, max_retries: int, backoff: Backoff
    ) -> Manifest:
        clock = asyncio.get_running_loop().time
        start = clock()
        race = Race(self._manifests)
        newer = await self._begin(data)
        retries = 0
        while True:
            own = await self._rebase(newer)
            if own is not None:
                return own
            begun = clock()
            version = 1 if self._base is None else self._base.version + 1
            created = await self._create(version, race)
            if isinstance(created, Manifest):
                return created
            now = clock()
            pause = backoff.pause(retries, now - begun)
            if retries >= max_retries or now + pause > start + backoff.limit_s:
                raise RetryableConflictError(
                    f"dataset {self._table.uri!r}: other committers were first {retries + 1} times "
                    f"in {now - start:.1f} s"
                )
            retries += 1
            self._observed.retries = retries
            await asyncio.sleep(pause)
            newer = await self._newer(race)

    async def detached(self, data: Awaitable[object] | None) -> Manifest:
        await self._manifests.latest()  # for the naming scheme
        await self._together(data)
        while True:
            created = await self._create(DETACHED | secrets.randbits(63), self._manifests)
            if isinstance(created, Manifest):
                return created

    async def _begin(self, data: Awaitable[object] | None) -> Sequence[Manifest]:
        """Return the newer versions; meanwhile, write the objects that the manifest refers to."""
        manifests: list[Manifest] = []

        async def look() -> None:
            if self._loading is None:
                manifests.extend(await self._newer())
                return
            self._base = await self._loading
            _check(self._transaction, self._base, detached=False)

        await self._together(data, look())
        return manifests

    async def _together(self, data: Awaitable[object] | None, *more: Awaitable[object]) -> None:
        beside = [] if data is None else [data]
        self._name_transaction()
        if self._table.is_remote:
            beside.append(self._write_and_check())
        else:
            await self._manifests.check()  # usually without a request
        await all_of([*beside, *more])

    async def _write_and_check(self) -> None:
        """Write the queued objects, then check the store by the transaction file among them."""
        written = self._named.get("transaction")
        await self._write_named()
        await self._manifests.check(written)

    async def _newer(self, race: Race | None = None) -> Sequence[Manifest]:
        if self._base is not None:
            try:
                if race is not None:
                    return await race.newer(self._base)
                return await self._manifests.versions_after(self._base)
            except VersionsGoneError:
                if self._notes:
                    raise  # because a version that was cleaned up may have the same batch
                last = await newest_for(self._manifests, self._transaction, self._base)
                if last is None:
                    raise
                if self._transaction.uuid in makers_of(last):
                    return (last,)
                self._base = last
                return ()
        newest = await self._manifests.latest()
        if newest is None:
            return ()
        first = await self._manifests.version(1)
        if first is not None and is_commit_of(first, self._transaction.uuid):
            return (first,)
        raise AlreadyExistsError(
            f"dataset {self._table.uri!r}: exists already, its latest version is {newest.version}"
        )

    async def _rebase(self, newer: Sequence[Manifest]) -> Manifest | None:
        """Rebase the transaction onto all newer versions.

        Returns the manifest of a newer version that already has the transaction; None if none has.
        """
        for manifest in newer:
            makers = makers_of(manifest)
            if self._transaction.uuid in makers:
                return manifest
            if not makers.isdisjoint(self._transaction.properties.get(MERGED, "").split()):
                raise RetryableConflictError(
                    f"dataset {self._table.uri!r}: version {manifest.version} has a part of "
                    f"transaction {self._transaction.uuid} already"
                )
            if clash := clash_with(manifest, self._notes):
                raise CommitConflictError(f"dataset {self._table.uri!r}: {clash}")
        for manifest in newer:
            assert self._base is not None
            rebased = await self._rules.rebase(self._transaction, manifest, self._base)
            self._transaction, self._base = rebased.transaction, manifest
            for file in rebased.deletion_files:
                # A deletion file from a later rebase replaces that of the same fragment from an
                # earlier one.
                location = self._table.folder(f"{DELETIONS}/{file.name}")
                self._named[file.name.partition("-")[0]] = (location, file.content)
        return None

    async def _create(self, version: int, store: Race | ManifestStore) -> Manifest | Created:
        """Create the version.

        Returns its manifest, or the outcome if another committer was first.
        """
        self._name_transaction()
        if self._table.is_remote:
            await self._write_named()
        named, self._named = [*self._named.values()], {}
        transaction = self._transaction
        content = await self._rules.next_manifest(self._base, transaction, version)
        is_refused = True
        try:
            created = await store.create(version, content, transaction.uuid, named=named)
            if not created.is_ours:
                return created
            is_refused = False
            if created.manifest is not None:
                return created.manifest
            # Most schemas are known; a new one is built field by field.
            return await self._engine.decode(
                lambda: parse_manifest(memoryview(content), f"version {version}", created.tag),
                len(content) // AS_FAST if transaction.keeps_schema else len(content) * SCHEMA_WORK,
            )
        except BaseException as error:
            if not (is_refused and (isinstance(error, AlanceError) or is_uncommitted(error))):
                mark_as_open(error)
            raise

    def _name_transaction(self) -> None:
        """Queue the transaction file for writing, unless it was queued; a rebase may rename it."""
        name = transaction_name(self._transaction.read_version, self._transaction.uuid)
        location = self._table.transaction(name)
        if self._files and self._files[-1] == location:
            return
        content = self._rules.transaction_bytes(self._transaction)
        if content is not None:
            self._files.append(location)
            self._named["transaction"] = (location, content)

    async def _write_named(self) -> None:
        """Write the queued objects concurrently; on a remote store, before the manifest."""
        named, self._named = [*self._named.values()], {}
        await all_of(self._write(*place) for place in named)

    async def _write(self, location: str, content: bytes) -> None:
        store, path = self._engine.registry.resolve(location)
        number = 0
        while True:
            try:
                await store.put(path, content)
                return
            # 409: on S3, our own earlier put of this name may still be pending
            except AlreadyExistsError:
                number += 1
                if number == PUTS:
                    raise
                await asyncio.sleep(0.05 * 2**number)

    async def forget_files(self) -> None:
        """Delete the transaction files of a commit that has failed for good."""
        with contextlib.suppress(AlanceError):
            for location in self._files:
                store, path = self._engine.registry.resolve(location)
                await store.delete([path])


# Maximum age of a listing before a new LIST is needed to build on the winners' versions. Only a
# listing shows that a version was cleaned up, whose number must not be used again.
SEEN_S: Final = 0.25
BEHIND: Final = 3  # lost puts after which others may be more than one version ahead


class Race:
    """Competition of a commit with others for the next version. For a single task at a time.

    A winner needs two rounds for its next version. A loser that reads the winning version only
    after its loss is always a round late, and loses again. So after the first loss, the winner's
    manifest is read, and versions are listed, concurrently with the next put.
    """

    def __init__(self, manifests: ManifestStore) -> None:
        self._manifests = manifests
        self._listed = asyncio.get_running_loop().time()
        self._lost = 0
        self._created: list[Manifest] = []
        self._newest: ManifestLocation | None = None

    async def create(
        self, version: int, content: bytes, transaction_uuid: str, *, named: Objects = ()
    ) -> Created:
        """Create a version as `ManifestStore.create` does; after a loss, retain newer manifests."""
        ahead: asyncio.Task[Manifest | None] | None = None
        listing: asyncio.Task[ManifestLocation | None] | None = None
        begun = asyncio.get_running_loop().time()
        if self._lost >= BEHIND:
            ahead = asyncio.create_task(self._manifests.version(version + 1))
        if self._lost and begun - self._listed > SEEN_S:
            listing = asyncio.create_task(self._manifests.latest())
        beside = [task for task in (ahead, listing) if task is not None]
        try:
            created = await self._manifests.create(
                version, content, transaction_uuid, named=named, peeks=self._lost > 0
            )
            if created.is_ours:
                return created
            self._lost += 1
            self._created = [] if created.manifest is None else [created.manifest]
            self._newest = None
            with suppress(StoreError):
                if listing is not None:
                    self._newest, self._listed = await listing, begun
                if ahead is not None and self._created and (further := await ahead) is not None:
                    self._created.append(further)
            return created
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def newer(self, base: Manifest) -> Sequence[Manifest]:
        """Return the versions after `base`, oldest first.

        Args:
            base: version on which the last put was built.

        Raises:
            VersionsGoneError: a version after `base` has been cleaned up.
            CommitConflictError: the table was deleted, and perhaps created again.
        """
        seen, newest = self._created, self._newest
        is_recent = asyncio.get_running_loop().time() - self._listed < SEEN_S
        if seen and newest is not None and newest.version > seen[-1].version:
            missing = range(seen[-1].version + 1, newest.version + 1)
            more = await all_of(self._manifests.version(version) for version in missing)
            later = [manifest for manifest in more if manifest is not None]
            if len(later) == len(missing):
                return [*seen, *later]
        elif seen and is_recent:
            return seen
        self._listed = asyncio.get_running_loop().time()
        return await self._manifests.versions_after(base)
