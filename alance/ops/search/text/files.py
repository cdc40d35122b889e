"""Reads of inverted index files through the search cache.

The metadata, tokens and documents of a segment are read as whole files. The cache also holds
posting lists and the page tables of their files. Uncached posting lists of all partitions, segments
and columns are requested at once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError, NotFoundError, UnsupportedError
from alance.file.batches import empty_batch
from alance.file.open.columns import OwnStates
from alance.file.open.plain import open_plain
from alance.file.rows.fragment import open_fragment
from alance.file.rows.placing import page_states
from alance.file.rows.whole import rows_of
from alance.format.index.text import metadata as text_metadata
from alance.format.index.text.dictionary import TokenDictionary
from alance.format.index.text.metadata import DELETED, Documents, TextMetadata
from alance.format.index.text.postings import POSITION_COLUMNS, Postings, columns_of
from alance.format.plans import ByteRange, answered, cut, together
from alance.format.table.roaring import parse_roaring
from alance.ops.search.text.segments import REMEDY
from alance.ops.version.index_files import located_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from alance._kernels import PostingList
    from alance.base.arrays import Int64s
    from alance.file.open.plain import PlainFile
    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.tasks import FragmentTask
    from alance.format.index.text.params import TextParams
    from alance.format.plans import Extent, Plan
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot

T = TypeVar("T")

_PARTITION_FILE: Final = re.compile(r"part_(\d+)_(?:tokens|docs|invert)\.lance")
MAX_DELETED_FRAGMENTS: Final = 1 << 22  # limit of the deleted fragments listed by a segment
CACHED_LISTS: Final = 4096  # reads of more posting lists are not cached


@dataclass(frozen=True, slots=True, eq=False)
class TextPartition:
    """A partition of a segment.

    Attributes:
        where: path of the file of its posting lists.
        fragments: ids of its documents' fragments, ascending, including fragments changed in place
            since. Only meaningful if document ids are row addresses.
    """

    where: str
    metadata: TextMetadata
    dictionary: TokenDictionary
    documents: Documents
    fragments: Int64s
    lists: OpenFragment
    lists_with_positions: OpenFragment | None

    @property
    def num_bytes(self) -> int:
        """Memory of the tokens and documents in bytes; posting lists are cached separately."""
        return 2000 + self.dictionary.num_bytes + self.documents.num_bytes


@dataclass(frozen=True, slots=True, eq=False)
class TextSegment:
    """An opened segment."""

    metadata: TextMetadata
    partitions: tuple[TextPartition, ...]

    def all_lists(self, *, with_positions: bool) -> Iterator[NeededLists]:
        """Yield all posting lists, up to 4096 at once, with token numbers instead of words."""
        for partition in self.partitions:
            total = partition.dictionary.num_tokens
            for start in range(0, total, CACHED_LISTS):
                numbers = {str(n): n for n in range(start, min(total, start + CACHED_LISTS))}
                yield NeededLists(partition, numbers, with_positions)

    @property
    def num_bytes(self) -> int:
        """Memory of all partitions in bytes."""
        return 2000 + sum(partition.num_bytes for partition in self.partitions)


def cached_segments(snapshot: Snapshot, indices: Sequence[Index]) -> list[TextSegment] | None:
    """Return opened segments from the cache; None if any is not cached."""
    cache = snapshot.engine.cache
    segments: list[TextSegment] = []
    for index in indices:
        segment: TextSegment | None = cache.peek(_key(snapshot, index))
        if segment is None:
            return None
        segments.append(segment)
    return segments


def _key(snapshot: Snapshot, index: Index) -> tuple[str, str]:
    where = snapshot.table.index_file(snapshot.manifest, index, text_metadata.TEXT_METADATA_FILE)
    return "text index", where


async def open_segment(snapshot: Snapshot, index: Index) -> TextSegment:
    """Open a segment, through the search cache.

    Cost: one round, and another if page tables are not in the last 64 KiB of a file; a round of
    HEADs before them if the index's record lacks the sizes of its files.

    Raises:
        CorruptFileError: the files contradict the format or each other.
        UnsupportedError: the files are valid, but alance cannot read them.
        NotFoundError: a file is missing.
    """

    return await snapshot.engine.cache.get(
        _key(snapshot, index),
        lambda: _refusing(snapshot, index, _opened(snapshot, index)),
        lambda segment: segment.num_bytes,
    )


async def open_params(snapshot: Snapshot, index: Index) -> TextParams:
    """Return the token settings of a segment, through the search cache.

    Cost: one GET; a HEAD before it if the index's record lacks the sizes of its files.

    Raises:
        CorruptFileError, UnsupportedError, NotFoundError: as in `open_segment`.
    """

    async def read() -> TextParams:
        content = await _read(snapshot, index, [], with_head=True)
        metadata, *_ = await snapshot.engine.pool.run(content.parse)
        return metadata.params

    segment: TextSegment | None = snapshot.engine.cache.peek(_key(snapshot, index))
    if segment is not None:
        return segment.metadata.params
    return await snapshot.engine.cache.get(
        ("words of texts", *_key(snapshot, index)),
        lambda: _refusing(snapshot, index, read()),
        lambda _: 1000,
    )


async def _refusing(snapshot: Snapshot, index: Index, work: Awaitable[T]) -> T:
    """Await a read of a segment; add the index and a remedy to its errors."""
    name = f"index {index.name} of {snapshot.uri}"
    try:
        return await work
    except UnsupportedError as error:
        raise UnsupportedError(f"{name}: {error}; {REMEDY}") from error
    except AlanceError as error:
        if isinstance(error, NotFoundError) and not index.message.files:
            why = f"written by an old release, without {text_metadata.TEXT_METADATA_FILE}"
            raise UnsupportedError(f"{name}: {why}; {REMEDY}") from error
        error.add_note(f"{name}: use_index=False does without")
        raise


async def _opened(snapshot: Snapshot, index: Index) -> TextSegment:
    names = [file.path for file in index.message.files]
    listed = {int(match[1]) for name in names if (match := _PARTITION_FILE.fullmatch(name))}
    # The manifest lists the files, so partitions are read together with the metadata file.
    read = await _read(snapshot, index, sorted(listed), with_head=True)
    metadata, parts = await snapshot.engine.pool.run(read.parse)
    missing = sorted(set(metadata.partitions) - listed)
    if missing:
        read = replace(await _read(snapshot, index, missing, with_head=False), head=read.head)
        parts |= (await snapshot.engine.pool.run(read.parse))[1]
    return TextSegment(metadata, tuple(parts[number] for number in metadata.partitions))


async def _read(
    snapshot: Snapshot, index: Index, partitions: Sequence[int], *, with_head: bool
) -> _ReadFiles:
    """Read the tokens and documents of partitions, and the page tables of posting lists.

    Cost: as `open_segment`. Page tables go to the search cache.

    Args:
        with_head: True to read also the segment's metadata.
    """
    engine = snapshot.engine
    wholes = [text_metadata.TEXT_METADATA_FILE] if with_head else []
    for number in partitions:
        wholes += [text_metadata.tokens_file(number), text_metadata.documents_file(number)]
    lists = [text_metadata.postings_file(number) for number in partitions]
    places = await located_files(snapshot, index, [*wholes, *lists])
    plans: list[Plan[Any]] = [_content(*place) for place in places[: len(wholes)]]
    plans += [_lists(*place, engine.cache) for place in places[len(wholes) :]]
    results = await engine.drive(together(plans), "text index", bulk=True)
    head = results.pop(0) if with_head else None
    end = 2 * len(partitions)
    of_parts = zip(results[0:end:2], results[1:end:2], results[end:], strict=False)
    return _ReadFiles(head, dict(zip(partitions, of_parts, strict=True)))


@dataclass(frozen=True, slots=True)
class _WholeFile:
    """Path and content of a file that is completely in memory."""

    path: str
    content: memoryview

    def rows(self, names: Sequence[str] | None = None) -> tuple[Mapping[str, str], pa.RecordBatch]:
        """Return the metadata of the schema, and all rows.

        Args:
            names: columns to return; None for all.
        """
        file = answered(open_plain(self.path, len(self.content), OwnStates()), self._at_hand)
        _check_columns(file, names or ())
        if not file.num_rows:
            return file.schema.metadata, empty_batch(file.schema.to_arrow())
        return file.schema.metadata, rows_of(file, self.content, names)

    def _at_hand(self, extents: Sequence[Extent]) -> list[memoryview]:
        return [cut(extent, self.content) for extent in extents]


def _content(path: str, num_bytes: int) -> Plan[_WholeFile]:
    (content,) = yield [ByteRange(path, 0, num_bytes)]
    return _WholeFile(path, content)


@dataclass(frozen=True, slots=True)
class _PostingFile:
    """An opened file of posting lists.

    Attributes:
        plain: columns of the lists without positions.
        with_positions: columns with positions; None if the file has no positions.
    """

    file: PlainFile
    plain: OpenFragment
    with_positions: OpenFragment | None


def _lists(path: str, num_bytes: int, states: Any) -> Plan[_PostingFile]:
    file = yield from open_plain(path, num_bytes, states)
    columns = file.schema.to_arrow().names
    projections = [columns_of(positions) for positions in ((), *POSITION_COLUMNS)]
    opened: list[OpenFragment] = yield from together(
        [
            _open(file, names, states)
            for names in projections
            if names == projections[0] or set(names) <= set(columns)
        ]
    )
    yield from page_states(opened[0], states)
    return _PostingFile(file, opened[0], opened[1] if len(opened) > 1 else None)


@dataclass(frozen=True, slots=True)
class _ReadFiles:
    """Contents of a segment's files.

    Attributes:
        head: `metadata.lance`; None if it was not read.
        parts: tokens, documents and posting lists by partition.
    """

    head: _WholeFile | None
    parts: Mapping[int, tuple[_WholeFile, _WholeFile, _PostingFile]]

    def parse(self) -> tuple[TextMetadata, dict[int, TextPartition]]:
        """Parse the segment's metadata and its partitions."""
        assert self.head is not None
        head, deleted = self.head.rows([DELETED])
        _check_deleted(deleted)
        metadata = TextMetadata.parse(head)
        parts = {
            number: _parsed(metadata, *files)
            for number, files in self.parts.items()
            if number in metadata.partitions
        }
        return metadata, parts


def _parsed(
    metadata: TextMetadata, tokens: _WholeFile, documents: _WholeFile, lists: _PostingFile
) -> TextPartition:
    where = lists.file.source.location
    if metadata.params.with_position and lists.with_positions is None:
        raise CorruptFileError(f"{where}: no positions, which the index says that it has")
    _, words = tokens.rows()
    head, rows = documents.rows()
    parsed = Documents.parse(rows, head, is_rounded=metadata.is_rounded)
    return TextPartition(
        where,
        metadata,
        TokenDictionary.parse(words, lists.file.num_rows),
        parsed,
        parsed.fragments(),
        lists.plain,
        lists.with_positions,
    )


def _check_columns(file: PlainFile, columns: Sequence[str]) -> None:
    names = file.schema.to_arrow().names
    missing = [name for name in columns if name not in names]
    if missing:
        raise CorruptFileError(f"{file.source.location}: columns {names}, without {missing}")


def _open(file: PlainFile, columns: Sequence[str], states: Any) -> Plan[OpenFragment]:
    _check_columns(file, columns)
    schema = file.schema.project(list(columns))
    return (yield from open_fragment(schema, [file.source], file.num_rows, states))


def _check_deleted(batch: pa.RecordBatch) -> None:
    column = batch.column(0)
    if batch.num_rows != 1 or column.null_count:
        raise CorruptFileError(f"text index: {batch.num_rows} rows of {DELETED}")
    parse_roaring(memoryview(column[0].as_buffer()), MAX_DELETED_FRAGMENTS)


@dataclass(frozen=True, slots=True)
class NeededLists:
    """Posting lists to read from a partition.

    Attributes:
        numbers: token number of each word.
    """

    partition: TextPartition
    numbers: Mapping[str, int]
    with_positions: bool

    def key(self, word: str) -> tuple[str, str, int, bool]:
        """Return the key of a word's posting list in the search cache."""
        return "posting list", self.partition.where, self.numbers[word], self.with_positions

    def take(self, words: Sequence[str], states: Any) -> Plan[FragmentTask]:
        """Plan to read lists; the words must be in the order of their token numbers."""
        partition = self.partition
        opened = partition.lists_with_positions if self.with_positions else partition.lists
        assert opened is not None
        rows = np.array([self.numbers[word] for word in words], np.int64)
        return opened.take(rows, states)

    def parse(self, task: FragmentTask) -> list[PostingList]:
        """Parse lists; each has its own memory.

        Raises:
            CorruptFileError: the bytes are inconsistent.
        """
        partition = self.partition
        num_docs = len(partition.documents.lengths)
        try:
            postings = Postings.parse(
                task.decode(), partition.metadata, num_docs, with_positions=self.with_positions
            )
        except AlanceError as error:
            error.add_note(f"in {partition.where}: use_index=False does without")
            raise
        return postings.lists()


async def read_lists(
    snapshot: Snapshot, needed: Sequence[NeededLists]
) -> list[dict[str, PostingList]]:
    """Return the posting lists of each partition, by word.

    Cost: one round for the uncached lists.

    Raises:
        CorruptFileError: the bytes are inconsistent.
    """
    engine = snapshot.engine
    lists: list[dict[str, PostingList]] = []
    missing: list[tuple[int, list[str]]] = []
    for place, part in enumerate(needed):
        cached = {word: engine.cache.peek(part.key(word)) for word in part.numbers}
        lists.append({word: single for word, single in cached.items() if single is not None})
        absent = [word for word, single in cached.items() if single is None]
        if absent:
            missing.append((place, sorted(absent, key=part.numbers.__getitem__)))
    if not missing:
        return lists
    plans = [needed[place].take(words, engine.cache) for place, words in missing]
    tasks = await engine.drive(together(plans), "posting lists", bulk=True)

    def parse() -> list[list[PostingList]]:
        return [needed[place].parse(task) for (place, _), task in zip(missing, tasks, strict=True)]

    parts = await engine.decode(parse, sum(task.num_bytes for task in tasks))
    is_cached = sum(map(len, parts)) <= CACHED_LISTS
    for (place, words), postings in zip(missing, parts, strict=True):
        for word, single in zip(words, postings, strict=True):
            lists[place][word] = single
            if is_cached:
                engine.cache.put(needed[place].key(word), single, single.num_bytes)
    return lists
