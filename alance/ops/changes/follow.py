"""The stream of a table's changes, version by version, which waits for the next version."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa

from alance.base.checks import check_count, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError, NotFoundError, VersionNotFoundError
from alance.file.batches import one_batch
from alance.format.numbers import as_numbers, to_arrow
from alance.io.events import observing
from alance.io.loop.generators import outermost
from alance.ops.changes.diff import FragmentRows, VersionDiff, compare
from alance.ops.changes.tokens import ChangeToken, maker_of
from alance.ops.read.options import ScanOptions
from alance.ops.read.rows import ChosenRows
from alance.ops.read.scan import scanned
from alance.ops.read.take import batch_of, take_rows
from alance.ops.version.commits import manifests_of
from alance.ops.version.opening import at_version, latest_version
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID
from alance.ops.version.snapshot import Snapshot
from alance.versioning.load import is_still, list_manifests, listed_since, load_manifest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
    from datetime import datetime

    import pyarrow.compute as pc

    from alance.base.arrays import Mask, UInt64s
    from alance.ops.version.conditions import Params
    from alance.versioning.load import ManifestLocation

Kind: TypeAlias = Literal[
    "insert", "update", "delete", "restore", "overwrite", "schema", "checkpoint"
]
FIRST_LOOK_PAUSE_S: Final = 0.1  # first pause between looks for a version; doubled each time
# Maximum spans of rows per fragment. If there are more, a single span with all of them is read, and
# its other rows are dropped.
MOST_SPANS: Final = 64
CHANGES_BATCH_ROWS: Final = 8192


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that a version inserted, updated or deleted; or a fact about the version.

    Attributes:
        kind: `insert`, `update` or `delete`, with rows. Before the rows of a version: `restore` or
            `overwrite` if one of these created it, and `schema` if its columns have changed.
            `checkpoint`: the versions up to this one have no further changes.
        version: number of the version.
        timestamp: time of its commit, by the committer's clock; None: unknown.
        rows: the columns as of the version, and `_rowid`. Deleted rows have only `_rowid`; with a
            filter, or if `before` is requested, they have their last values. None: the change has
            no rows.
        before: former values of updated rows, in the order of `rows`; None unless requested.
        token: position after this change: `follow(since=token)` continues there.
    """

    kind: Kind
    version: int
    timestamp: datetime | None
    rows: pa.RecordBatch | None
    before: pa.RecordBatch | None
    token: str


class FollowArguments(TypedDict, total=False):
    """Keyword arguments of `Dataset.follow`."""

    columns: Sequence[str] | None
    filter: str | pc.Expression | None
    params: Params
    before: bool
    batch_size: int
    wait: bool
    max_interval: float


@public_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """Checked options of `Dataset.follow`.

    Raises:
        InvalidInputError: a size or time that is not positive, or `columns` is a single text.
    """

    columns: Sequence[str] | None = None
    filter: str | pc.Expression | None = None
    params: Params = None
    before: bool = False
    batch_size: int = CHANGES_BATCH_ROWS
    wait: bool = True
    max_interval: float = 10.0

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size)
        if not (isinstance(self.max_interval, int | float) and self.max_interval > 0):
            raise InvalidInputError(
                f"max_interval={self.max_interval!r}: expected a time above 0 s"
            )
        if self.columns is not None and isinstance(self.columns, str):
            raise InvalidInputError(f"columns={self.columns!r}: expected a list of names")


@outermost
async def follow(
    snapshot: Snapshot, since: int | str | None, options: FollowOptions
) -> AsyncIterator[Change]:
    """Yield the changes of a table, oldest first. See `Dataset.follow`."""
    token = _start(snapshot, since)
    with _commits_of(snapshot) as news:
        is_reported = True  # True if the last yielded change has the token of `base`
        if token.is_snapshot:
            start = await _version(snapshot, token.version)
            _check_maker(start, token)
            is_reported = False
            reader = _VersionReader(None, start, options)
            async with aclosing(_changes(reader, VersionDiff(None), token)) as changes:
                async for change in changes:
                    is_reported = True
                    yield change
            token = token.end()
        base = await _base(snapshot, token)
        pause = FIRST_LOOK_PAUSE_S
        while True:
            newest, places = await _newest(snapshot, token, base)
            first_new = token.version if token.num_read >= 0 else token.version + 1
            for number in range(first_new, newest + 1):
                after = await _version(snapshot, number, places.get(number))
                diff = await compare(base, after)
                place = _place(after, token)
                reader = _VersionReader(base, after, options)
                is_reported = False
                async with aclosing(_changes(reader, diff, place)) as changes:
                    async for change in changes:
                        is_reported = True
                        yield change
                base, token = after, place.end()
                pause = FIRST_LOOK_PAUSE_S
            if not is_reported and base is not None:
                is_reported = True
                yield _checkpoint(base, token)
            if not options.wait:
                return
            await _wait(news, pause)
            pause = min(2 * pause, options.max_interval)


def _start(snapshot: Snapshot, since: int | str | None) -> ChangeToken:
    """Return the position at which to begin.

    Raises:
        InvalidInputError: `since` is neither a version nor a token, or is a later version than the
            snapshot.
    """
    if since is None:
        return ChangeToken(snapshot.version, maker_of(snapshot.manifest))
    if since == "snapshot":
        return ChangeToken(snapshot.version, maker_of(snapshot.manifest), 0, is_snapshot=True)
    if isinstance(since, str):
        return ChangeToken.parse(since)
    check_count("since", since, 0)
    if since > snapshot.version:
        raise InvalidInputError(
            f"since={since}: this dataset is at version {snapshot.version}; expected that version "
            "or an earlier one"
        )
    return ChangeToken(since, "")


async def _base(snapshot: Snapshot, token: ChangeToken) -> Snapshot | None:
    """Return the version whose rows the reader has seen; None if the reader has seen no version.

    Raises:
        VersionNotFoundError: the version has been removed.
        NotFoundError: the table was dropped and created again.
    """
    number = token.version if token.num_read < 0 else token.version - 1
    if token.num_read >= 0:
        _check_maker(await _version(snapshot, token.version), token)
    if number == 0:
        return None
    base = await _version(snapshot, number)
    if token.num_read < 0:
        _check_maker(base, token)
    return base


async def _newest(
    snapshot: Snapshot, token: ChangeToken, base: Snapshot | None
) -> tuple[int, dict[int, ManifestLocation]]:
    """Return the number of the latest version, and the listed versions from `base` on.

    An external store lists no versions.

    Raises:
        NotFoundError: the table was dropped and created again.
    """
    engine, table = snapshot.engine, snapshot.table
    places: dict[int, ManifestLocation] = {}
    if table.keeper is None or not table.keeper.knows_latest:
        start = 0 if base is None else base.version
        places = {where.version: where for where in await listed_since(engine, table, start)}
    newest = max(places) if places else await latest_version(snapshot)
    is_anew = newest < token.version
    if base is not None and base.version in places:
        is_anew |= not await is_still(engine, base.manifest, places[base.version])
    elif base is not None and newest > base.version:
        stored = await manifests_of(snapshot.session, table).version(base.version)
        is_anew |= stored is not None and not stored.same_as(base.manifest)
    if is_anew:
        raise NotFoundError(
            f"{snapshot.uri!r}: version {token.version} was read, and the latest one is "
            f"{newest}: the table was dropped and made again; begin with since='snapshot'"
        )
    return newest, places


def _place(version: Snapshot, token: ChangeToken) -> ChangeToken:
    """Return the position in a version after the changes that were already read."""
    num_read = token.num_read if version.version == token.version else 0
    return ChangeToken(version.version, maker_of(version.manifest), num_read)


def _checkpoint(base: Snapshot, token: ChangeToken) -> Change:
    return Change("checkpoint", base.version, base.manifest.timestamp, None, None, str(token))


async def _wait(news: asyncio.Event, pause: float) -> None:
    """Wait until this process commits a version, for at most `pause` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(pause):
            await news.wait()
    news.clear()


def _check_maker(version: Snapshot, token: ChangeToken) -> None:
    if token.maker not in ("", maker_of(version.manifest)):
        raise NotFoundError(
            f"{version.uri!r}: the token {str(token)!r} is of another version {token.version}: the "
            "table was dropped and made again; begin with since='snapshot'"
        )


async def _version(
    snapshot: Snapshot, number: int, where: ManifestLocation | None = None
) -> Snapshot:
    """Open a version.

    Args:
        where: location of the version in a listing; None to open it by its number.

    Raises:
        VersionNotFoundError: the version has been removed.
    """
    try:
        if where is None:
            return await at_version(snapshot, number)
        manifest = await load_manifest(snapshot.engine, where)
        return Snapshot(snapshot.session, snapshot.table, manifest)
    except NotFoundError as error:
        listed = await list_manifests(snapshot.engine, snapshot.table)
        raise VersionNotFoundError(
            f"{snapshot.uri!r}: version {number} is not there: it has been removed by a cleanup, "
            "or the branch or clone began later; begin with since='snapshot', or, if the changes "
            f"before it are known, with since={listed[0].version}",
            number,
        ) from error


@contextmanager
def _commits_of(snapshot: Snapshot) -> Iterator[asyncio.Event]:
    """Yield an event that is set when this process commits a version of the table."""
    news, loop = asyncio.Event(), asyncio.get_running_loop()

    class Commits(observing.Observer):
        def on_commit(self, event: observing.CommitEnded) -> None:
            if event.uri == snapshot.uri and event.version is not None and not loop.is_closed():
                loop.call_soon_threadsafe(news.set)

    commits = Commits()
    observing.add(commits)
    try:
        yield news
    finally:
        observing.remove(commits)


async def _changes(
    reader: _VersionReader, diff: VersionDiff, place: ChangeToken
) -> AsyncGenerator[Change, None]:
    """Yield the changes of a version after a position; the last one has the version's end token."""
    timestamp = reader.after.manifest.timestamp
    waiting: Change | None = None
    seen = 0
    for fact in reader.facts(diff):
        seen += 1
        if seen > place.num_read:
            if waiting is not None:
                yield waiting
            token = str(replace(place, num_read=seen))
            waiting = Change(fact, place.version, timestamp, None, None, token)
    async with aclosing(reader.rows(diff)) as parts:
        async for kind, rows, before in parts:
            start = max(0, place.num_read - seen)
            seen += rows.num_rows
            if start >= rows.num_rows:
                continue
            if waiting is not None:
                yield waiting
            token = str(replace(place, num_read=seen))
            earlier = None if before is None else before.slice(start)
            waiting = Change(kind, place.version, timestamp, rows.slice(start), earlier, token)
    if waiting is not None:
        yield replace(waiting, token=str(place.end()))


class _VersionReader:
    """Reader of the rows of a version's changes.

    Args:
        before: the version before; None for the first version.
    """

    def __init__(self, before: Snapshot | None, after: Snapshot, options: FollowOptions) -> None:
        self.after = after
        self._before = before
        self._options = options

    def facts(self, diff: VersionDiff) -> list[Kind]:
        """Return the kinds of changes that have no rows."""
        facts: list[Kind] = []
        if diff.operation == "restore":
            facts.append("restore")
        if diff.operation == "overwrite" and self._before is not None:
            facts.append("overwrite")
        if self._before is not None and not self._before.schema.to_arrow().equals(
            self.after.schema.to_arrow()
        ):
            facts.append("schema")
        return facts

    async def rows(
        self, diff: VersionDiff
    ) -> AsyncGenerator[tuple[Kind, pa.RecordBatch, pa.RecordBatch | None], None]:
        """Yield deleted rows, then updated rows, then inserted rows: kind, rows, and rows before.

        The rows before are None, except for updates with the option `before`.

        With a filter, the changes are those of the filtered rows: an update after which a row
        matches is an insertion, and an update after which it no longer matches is a deletion.
        """
        options, before = self._options, self._before
        if before is None and not diff.inserted:  # a snapshot: all rows of the version
            async for batch in self._scan(self.after, None, options.columns):
                yield "insert", batch, None
            return
        has_filter = options.filter is not None
        outside = np.empty(0, np.uint64)  # updated rows that did not match before
        if before is not None:
            values = before if has_filter or options.before else None
            async for batch in self._deleted(before, diff.deleted, values):
                yield "delete", batch, None
            if has_filter and diff.updated:
                old = await self._ids(before, diff.outdated)
                new = await self._ids(self.after, diff.updated)
                pool = self.after.engine.pool
                outside, gone = await pool.run(
                    lambda: (np.setdiff1d(new, old), np.setdiff1d(old, new))
                )
                for start in range(0, len(gone), options.batch_size):
                    ids = gone[start : start + options.batch_size]
                    yield "delete", await self._taken(before, ids), None
            async for batch in self._scan(self.after, diff.updated, options.columns):
                ids = as_numbers(batch.column(ROW_ID)).astype(np.uint64)
                begins = _are_in(ids, outside)
                for kind, chosen in (("update", ~begins), ("insert", begins)):
                    part = batch if chosen.all() else batch.filter(pa.array(chosen))
                    if part.num_rows:
                        earlier = None
                        if kind == "update" and options.before:
                            earlier = await self._taken(before, ids[chosen])
                        yield kind, part, earlier  # type: ignore[misc]  # a literal
        async for batch in self._scan(self.after, diff.inserted, options.columns):
            yield "insert", batch, None

    async def _deleted(
        self, before: Snapshot, parts: Sequence[FragmentRows], values: Snapshot | None
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield deleted rows, with their values or only with their ids."""
        columns = self._options.columns if values is not None else []
        if values is not None:
            async for batch in self._scan(before, parts, columns):
                yield batch
            return
        size = self._options.batch_size
        waiting, num_waiting = [np.empty(0, np.uint64)], 0
        for part in parts:
            start, handle = 0, before.handle(part.fragment)
            while start < len(part.offsets):
                await before.engine.pool.share_turn()
                offsets = part.offsets[start : start + size - num_waiting]
                waiting.append(as_numbers(handle.meta(ROW_ID, offsets)).astype(np.uint64))
                start, num_waiting = start + len(offsets), num_waiting + len(offsets)
                if num_waiting == size:
                    yield _id_batch(waiting)
                    waiting, num_waiting = [], 0
        if num_waiting:
            yield _id_batch(waiting)

    async def _ids(self, snapshot: Snapshot, parts: Sequence[FragmentRows]) -> UInt64s:
        """Return the ids of the rows that match the filter, in order; 8 bytes per row."""
        ids = [
            as_numbers(batch.column(ROW_ID)).astype(np.uint64)
            async for batch in self._scan(snapshot, parts, [])
        ]
        ids.append(np.empty(0, np.uint64))
        return await snapshot.engine.pool.run(lambda: np.sort(np.concatenate(ids)))

    async def _taken(self, snapshot: Snapshot, ids: UInt64s) -> pa.RecordBatch:
        """Return rows by id, with `_rowid`."""
        columns = self._options.columns
        names = [field.name for field in snapshot.schema.fields] if columns is None else columns
        rows = batch_of(await take_rows(snapshot, ids, names))
        return rows.append_column(ROW_ID, to_arrow(ids))

    async def _scan(
        self,
        snapshot: Snapshot,
        parts: Sequence[FragmentRows] | None,
        columns: Sequence[str] | None,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of `parts` that match the filter; None means all rows of the version."""
        if parts is not None and not parts:
            return
        names = [field.name for field in snapshot.schema.fields] if columns is None else columns
        names = [*(name for name in names if name != ROW_ID), ROW_ID, ROW_ADDRESS]
        options = ScanOptions(
            filter=self._options.filter,
            params=self._options.params,
            batch_size=self._options.batch_size,
            fragments=None if parts is None else [part.fragment for part in parts],
        )
        spans, changed = await snapshot.engine.pool.run(lambda: _places(parts or ()))
        waiting: list[pa.RecordBatch] = []  # small batches of several fragments, to be concatenated
        num_waiting = 0
        async with aclosing(scanned(snapshot, names, options, rows=ChosenRows(spans))) as batches:
            async for batch in batches:
                await snapshot.engine.pool.share_turn()
                part = batch
                if parts is not None:
                    addresses = as_numbers(batch.column(ROW_ADDRESS))
                    keeps = _are_in(addresses.astype(np.uint64), changed)
                    part = batch if keeps.all() else batch.filter(pa.array(keeps))
                if not part.num_rows:
                    continue
                if waiting and num_waiting + part.num_rows > options.batch_size:
                    yield one_batch(waiting)
                    waiting, num_waiting = [], 0
                waiting.append(part.drop_columns([ROW_ADDRESS]))
                num_waiting += part.num_rows
        if waiting:
            yield one_batch(waiting)


def _id_batch(ids: list[UInt64s]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([to_arrow(np.concatenate(ids))], names=[ROW_ID])


def _are_in(values: UInt64s, numbers: UInt64s) -> Mask:
    """Return the mask of the values that are in a sorted array."""
    if not len(numbers):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    return np.equal(numbers[places], values)


def _places(
    parts: Sequence[FragmentRows],
) -> tuple[dict[int, list[tuple[int, int]]], UInt64s]:
    """Return the spans of rows by fragment, and the sorted addresses of the rows. CPU work."""
    changed = [part.offsets.astype(np.uint64) | np.uint64(part.fragment << 32) for part in parts]
    changed.append(np.empty(0, np.uint64))
    return {part.fragment: _spans(part) for part in parts}, np.sort(np.concatenate(changed))


def _spans(part: FragmentRows) -> list[tuple[int, int]]:
    """Return the half-open spans of a fragment's rows; a single span if there are too many."""
    offsets = part.offsets
    cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
    if len(cuts) >= MOST_SPANS:
        return [(int(offsets[0]), int(offsets[-1]) + 1)]
    starts, stops = [0, *cuts.tolist()], [*cuts.tolist(), len(offsets)]
    return [
        (int(offsets[start]), int(offsets[stop - 1]) + 1)
        for start, stop in zip(starts, stops, strict=True)
    ]
