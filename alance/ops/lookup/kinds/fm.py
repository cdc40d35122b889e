"""FM indices: compressed texts with substring search, in partitions of rows."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.expr.index_query import MAX_WAYS
from alance.format.index import fm
from alance.format.index.fm import FmPartition, FmTextRows, PartitionBuilder
from alance.format.numbers import as_mask, is_variable
from alance.format.row_set import RowSet
from alance.format.table.indices import LISTED
from alance.io.loop.readahead import Job, readahead
from alance.io.loop.tasks import all_of
from alance.ops.lookup.kinds.kind import IndexKind
from alance.ops.lookup.stored import SegmentEnd, StoredFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s, Mask
    from alance.expr.index_query import Ask
    from alance.format.index.remap import Moves
    from alance.format.index.zones import ZoneOptions
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.kinds.kind import Batches, PartLoader, PreparedAsk
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

    Span = tuple[int, int]

PLACE_WORK: Final = 256  # locating an occurrence costs as much as 256 rows of a B-tree: 5 us
SYMBOL_WORK: Final = 1 << 10  # searching a byte in a partition costs as much as decoding 1 KiB
# A substring is not worth locating if it occurs over FEW_PLACES + OFTEN times as often as the
# rarest substring.
FEW_PLACES: Final = 256
OFTEN: Final = 8
PARTITIONS_AT_ONCE: Final = 16
MOVED_TEXT_BYTES: Final = fm.FM_PARTITION_BYTES * fm.BUILD_BYTES
DEAD_SHARE: Final = 4  # a partition with more than a quarter of deleted rows is rebuilt


class FM(IndexKind):
    """Texts with substring search."""

    name = "FM"
    index_type = "FM"
    type_url = "/lance.index.pb.FMIndexDetails"
    versions = (fm.FM_VERSION,)
    version = fm.FM_VERSION
    columns = "text or bytes"
    file = fm.file_of(0)
    is_sorted = False
    has_addresses = True

    def suits(self, type_: pa.DataType) -> bool:
        return is_variable(type_)

    def json_refusal(self, *, has_stable_row_ids: bool) -> str | None:
        return "FM indices of JSON values are not asked"

    def takes(self, ask: Ask) -> bool:
        return bool(_ways_of(ask))

    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        """Find the partitions with the substrings of a question, and count their occurrences.

        Cost: all files of the segment, once, in a few rounds.

        Raises:
            UnsupportedError: the segment does not fit in the search cache.
        """
        num_bytes = sum(file.size_bytes for file in segment.index.message.files)
        most = snapshot.engine.cache.max_bytes
        if num_bytes > most:
            raise UnsupportedError(f"its {num_bytes:,} bytes are more than cache_bytes={most:,}")
        ways = _ways_of(ask)
        partitions = await _partitions(snapshot, segment.files(snapshot), segment.index)
        length = sum(len(part) for way in ways for part in way)
        hits = await snapshot.engine.decode(
            lambda: [hit for partition in partitions for hit in _hits(partition, ways)],
            SYMBOL_WORK * length * len(partitions),
        )
        is_exact = ask.is_contains and not any(fm.BLANK in part for way in ways for part in way)
        is_exact &= all(hit.is_whole for hit in hits)
        return PreparedParts(snapshot, segment, hits, len(partitions), is_exact)

    async def parts(self, snapshot: Snapshot, files: IndexFiles) -> list[PartLoader]:
        return [partial(_load, snapshot, files, name) for name in _names(files.index)]

    async def statistics(self, snapshot: Snapshot, files: IndexFiles) -> dict[str, Any]:
        names = _names(files.index)
        heads = await all_of(files.head(name) for name in names)
        try:
            length = sum(int(metadata["bwt_len"]) for _, metadata in heads)
            rows = sum(len(metadata[fm.ROW_IDS_KEY]) // 16 for _, metadata in heads)
        except (KeyError, ValueError) as error:
            raise CorruptFileError(f"index {files.name}: {error!r}") from error
        return {
            "type": LISTED[self.name],
            "num_partitions": len(names),
            "total_bwt_len": length,
            "total_docs": rows,
        }

    async def stored_type(self, snapshot: Snapshot, index: Index) -> pa.DataType:
        return fm.FM_SCHEMA.field(0).type

    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> PartitionBuilder:
        return PartitionBuilder(memory)

    async def write(
        self, files: SegmentFiles, source: PartitionBuilder, rows: Batches, *, of_runs: bool = False
    ) -> None:
        number = 0
        async with aclosing(_whole(rows)) as partitions:
            async for metadata, batches in partitions:
                await _write(files, number, metadata, batches)
                number += 1
        if not number:
            _, metadata = fm.partition_of(FmTextRows.none())
            await _write(files, 0, metadata, [])

    async def move(
        self, snapshot: Snapshot, index: Index, moves: Moves, files: SegmentFiles
    ) -> None:
        builder = PartitionBuilder(MOVED_TEXT_BYTES)

        async def moved() -> Batches:
            stored = _stored(snapshot, index)
            async with aclosing(stored):
                async for batch, metadata in stored:
                    change = partial(_moved, batch, metadata, moves, builder)
                    for ready in await snapshot.engine.pool.run(change):
                        yield ready
            for ready in await snapshot.engine.pool.run(builder.finish):
                yield ready

        async with aclosing(moved()) as rows:
            await self.write(files, builder, rows)

    async def live_rows(
        self,
        snapshot: Snapshot,
        index: Index,
        source: PartitionBuilder,
        live: RowSet,
        covered: frozenset[int],
    ) -> Batches:
        """Yield the partitions of `covered`; some deleted rows remain.

        Partitions with many deleted rows, with rows of other fragments, or with few rows are
        rebuilt: their rows pass through `source`, which retains some until it is finished.
        """
        ids = np.array(sorted(covered), np.int64)
        stored = _stored(snapshot, index)
        async with aclosing(stored):
            async for batch, metadata in stored:
                change = partial(_remaining, batch, metadata, source, live, ids)
                for ready in await snapshot.engine.pool.run(change):
                    yield ready


def _ways_of(ask: Ask) -> list[list[bytes]]:
    """Return the substrings of each alternative, encoded as in the index.

    Returns an empty list if an alternative has no substrings or there are too many alternatives.
    """
    texts = ask.cased_texts[: MAX_WAYS + 1]
    # Surrogates are not valid UTF-8, so no indexed text contains them.
    ways = [[part.encode("utf-8", "surrogatepass") for part in way if part] for way in texts]
    if len(ways) > MAX_WAYS or not all(ways):
        return []
    return [[part.replace(b"\0", fm.BLANK) for part in way] for way in ways]


def _names(index: Index) -> list[str]:
    """Return the files of a segment, in the order of their partitions.

    Raises:
        UnsupportedError: the record does not list the files.
        CorruptFileError: a partition is missing, or another file is listed.
    """
    names = [file.path for file in index.message.files]
    if not names:
        raise UnsupportedError(f"FM index {index.name}: a record that does not list its files")
    expected = [fm.file_of(number) for number in range(len(names))]
    if sorted(names) != sorted(expected):
        raise CorruptFileError(f"FM index {index.name}: files {sorted(names)[:8]} of {len(names)}")
    return expected


async def _partitions(snapshot: Snapshot, files: IndexFiles, index: Index) -> list[FmPartition]:
    cache, names = snapshot.engine.cache, _names(index)
    partitions: list[FmPartition | None] = cache.peek_all([_key(files, name) for name in names])
    sizes = {file.path: file.size_bytes for file in index.message.files}
    missing = [name for name, own in zip(names, partitions, strict=True) if own is None]
    jobs = [Job(2 * sizes[name], partial(_load, snapshot, files, name)) for name in missing]
    budget = snapshot.read_ahead_bytes
    loading = readahead(jobs, budget_bytes=budget, max_jobs=PARTITIONS_AT_ONCE)
    async with aclosing(loading) as results:
        loaded = [partition async for partition in results]
    rest = iter(loaded)
    return [own if own is not None else next(rest) for own in partitions]


def _key(files: IndexFiles, name: str) -> Hashable:
    return "fm partition", files.where, name


async def _load(snapshot: Snapshot, files: IndexFiles, name: str) -> FmPartition:
    """Return a partition, through the search cache. Cost: once one round, or two for a large file.

    Raises:
        CorruptFileError: the file is not a partition.
    """

    async def load() -> FmPartition:
        return await files.parsed(name, FmPartition.parse)

    return await snapshot.engine.cache.get(
        _key(files, name), load, lambda partition: partition.num_bytes
    )


class PartHits(NamedTuple):
    """Occurrences of an alternative's substrings in a partition.

    Attributes:
        spans: suffix range of each located substring, the rarest first.
        is_whole: True if all substrings are located.
    """

    partition: FmPartition
    spans: Sequence[Span]
    is_whole: bool

    @property
    def num_places(self) -> int:
        """Number of occurrences to locate."""
        return sum(stop - start for start, stop in self.spans)

    @property
    def estimate(self) -> int:
        """Upper bound of the number of rows."""
        start, stop = self.spans[0]
        return min(stop - start, len(self.partition.rows))

    def rows(self) -> Int64s:
        """Return the addresses of the rows that contain all located substrings. CPU work."""
        sets = [self.partition.rows_of(span) for span in self.spans]
        return reduce(partial(np.intersect1d, assume_unique=True), sets)


def _hits(partition: FmPartition, ways: Sequence[Sequence[bytes]]) -> list[PartHits]:
    """Return the alternatives that rows of a partition may match. CPU work."""
    hits = []
    for way in ways:
        spans = sorted((partition.find(part) for part in way), key=lambda span: span[1] - span[0])
        fewest = spans[0][1] - spans[0][0]
        if fewest:
            most = FEW_PLACES + OFTEN * fewest
            rare = [span for span in spans if span[1] - span[0] <= most]
            hits.append(PartHits(partition, rare, len(rare) == len(spans)))
    return hits


@dataclass(frozen=True, slots=True)
class PreparedParts:
    """A question to an FM index, with the suffix ranges of its substrings.

    Attributes:
        is_exact: True if each text with the substrings matches the question.
    """

    snapshot: Snapshot
    segment: Segment
    hits: list[PartHits]
    num_partitions: int
    is_exact: bool

    @property
    def estimate(self) -> int:
        return sum(hit.estimate for hit in self.hits)

    @property
    def work(self) -> int:
        return PLACE_WORK * self.num_compared

    @property
    def summary(self) -> str:
        return f"{self.num_compared:,} places in {self.num_partitions:,} partitions"

    @property
    def num_compared(self) -> int:
        return sum(hit.num_places for hit in self.hits)

    cache_key = None
    is_at_hand = is_counted = False

    async def row_numbers(self) -> RowSet:
        decode = self.snapshot.engine.decode

        async def rows(hits: Sequence[PartHits]) -> RowSet:
            work = PLACE_WORK * sum(hit.num_places for hit in hits)
            return await decode(lambda: RowSet.union(RowSet(hit.rows()) for hit in hits), work)

        step = max(1, -(-len(self.hits) // PARTITIONS_AT_ONCE))
        groups = [self.hits[at : at + step] for at in range(0, len(self.hits), step)]
        return RowSet.union(await all_of(rows(group) for group in groups))


async def _whole(
    rows: Batches,
) -> AsyncGenerator[tuple[dict[str, str], list[pa.RecordBatch]], None]:
    """Yield the metadata and the rows of each partition. Memory: a partition."""
    metadata: dict[str, str] | None = None
    batches: list[pa.RecordBatch] = []
    async for batch in rows:
        marks = batch.column(len(fm.FM_SCHEMA))
        firsts = np.flatnonzero(as_mask(marks.is_valid())).tolist()
        own = batch.select(fm.FM_SCHEMA.names)
        batches.append(own.slice(0, firsts[0] if firsts else None))
        for start, stop in pairwise([*firsts, batch.num_rows]):
            if metadata is not None:
                yield metadata, batches
            metadata = fm.metadata_of(marks[start].as_py())
            batches = [own.slice(start, stop - start)]
    if metadata is not None:
        yield metadata, batches


async def _write(
    files: SegmentFiles, number: int, metadata: Mapping[str, str], batches: list[pa.RecordBatch]
) -> None:
    async def rows() -> Batches:
        for batch in batches:
            yield batch

    await files.write(fm.file_of(number), fm.FM_SCHEMA, rows(), lambda: SegmentEnd(metadata))


async def _stored(
    snapshot: Snapshot, index: Index
) -> AsyncGenerator[tuple[pa.RecordBatch, Mapping[str, str]], None]:
    """Yield the non-empty partitions of a segment as stored.

    Raises:
        CorruptFileError, NotFoundError, UnsupportedError: files cannot be read.
    """
    for name in _names(index):
        stored = await StoredFile.open(snapshot, index, name)
        if stored.num_rows:
            async with aclosing(stored.batches([(0, stored.num_rows)])) as batches:
                async for batch in batches:
                    yield batch, stored.metadata


def _moved(
    batch: pa.RecordBatch, metadata: Mapping[str, str], moves: Moves, builder: PartitionBuilder
) -> list[pa.RecordBatch]:
    """Return a partition with new row addresses; if it lost rows, add its texts to the builder."""
    partition = FmPartition.parse(batch, metadata)
    rows, is_retained = moves.moved(partition.rows)
    if is_retained.all():
        return [fm.run_rows(batch, fm.with_rows(metadata, rows))]
    return builder.add_texts(partition.texts(is_retained)._replace(rows=rows))


def _remaining(
    batch: pa.RecordBatch,
    metadata: Mapping[str, str],
    builder: PartitionBuilder,
    live: RowSet,
    covered: Int64s,
) -> list[pa.RecordBatch]:
    """Return a partition unchanged if possible; else its live texts go to the builder. CPU work."""
    partition = FmPartition.parse(batch, metadata)
    is_live: Mask = live.mask_of(partition.rows)
    is_full = builder.is_half_full(len(partition.rows), partition.length)
    num_dead = len(is_live) - int(np.count_nonzero(is_live))
    is_covered = np.isin(partition.rows >> 32, covered).all()
    if is_full and is_covered and num_dead * DEAD_SHARE <= len(is_live):
        return [fm.run_rows(batch, metadata)]
    return builder.add_texts(partition.texts(is_live))
