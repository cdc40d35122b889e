"""The files of an inverted index: what of them is read when, and what is kept.

What a segment says of itself, its tokens and its documents are read once, in two rounds, and kept
in the search cache; so are posting lists that were read. Those that are not there are asked for at
once, of all partitions of all segments and columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance.errors import AlanceError, CorruptFileError
from alance.file.fragment import open_fragment
from alance.format.index.text import metadata as text_metadata
from alance.format.index.text.dictionary import Dictionary
from alance.format.index.text.metadata import (
    DELETED,
    LENGTHS,
    ROW_IDS,
    Documents,
    TextMetadata,
)
from alance.format.index.text.postings import Postings, columns_of
from alance.format.plans import ByteRange, cut, through, together
from alance.format.table.roaring import parse_roaring
from alance.io.tasks import all_of
from alance.ops.search.heads import page_states
from alance.ops.version.index_files import opened_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from alance._kernels import PostingList
    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.file.plain import PlainFile
    from alance.format.plans import Extent, Plan
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot

_PART: Final = re.compile(r"part_(\d+)_(?:tokens|docs|invert)\.lance")
MAX_FRAGMENTS: Final = 1 << 22
KEPT_LISTS: Final = 4096  # posting lists of one question that are kept


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A partition of a segment.

    Attributes:
        where: the file of its posting lists.
    """

    where: str
    metadata: TextMetadata
    dictionary: Dictionary
    documents: Documents
    lists: OpenFragment
    lists_with_positions: OpenFragment | None

    @property
    def num_bytes(self) -> int:
        """Memory."""
        return 2000 + self.dictionary.num_bytes + self.documents.num_bytes


@dataclass(frozen=True, slots=True, eq=False)
class TextSegment:
    """A segment, opened.

    Attributes:
        is_whole: all fragments that its record names are there, as far as its files know.
    """

    metadata: TextMetadata
    partitions: tuple[Partition, ...]
    is_whole: bool

    def all_lists(self, *, with_positions: bool) -> Iterator[Needed]:
        """All posting lists, some thousand at once; they are named by their numbers."""
        for partition in self.partitions:
            total = len(partition.dictionary.numbers)
            for start in range(0, total, KEPT_LISTS):
                numbers = {str(n): n for n in range(start, min(total, start + KEPT_LISTS))}
                yield Needed(partition, numbers, with_positions)

    @property
    def num_bytes(self) -> int:
        """Memory."""
        return 2000 + sum(partition.num_bytes for partition in self.partitions)


def kept_segments(snapshot: Snapshot, indices: Sequence[Index]) -> list[TextSegment] | None:
    """What segments say of themselves, where all of it is in memory."""
    cache = snapshot.engine.cache
    kept: list[TextSegment] = []
    for index in indices:
        segment: TextSegment | None = cache.peek(_key(snapshot, index))
        if segment is None:
            return None
        kept.append(segment)
    return kept


def _key(snapshot: Snapshot, index: Index) -> tuple[str, str]:
    where = snapshot.table.index_file(snapshot.manifest, index, text_metadata.FILE)
    return "text index", where


async def open_segment(snapshot: Snapshot, index: Index) -> TextSegment:
    """What a segment says of itself. Cost: two rounds, once.

    Raises:
        CorruptFileError: files that contradict the format or each other.
        UnsupportedError: valid, but not read here.
        NotFoundError: a file is missing.
    """

    async def load() -> TextSegment:
        try:
            return await _opened(snapshot, index)
        except AlanceError as error:
            error.add_note(f"index {index.name} of {snapshot.uri}: use_index=False does without")
            raise

    return await snapshot.engine.cache.get(
        _key(snapshot, index), load, lambda segment: segment.num_bytes
    )


async def _opened(snapshot: Snapshot, index: Index) -> TextSegment:
    engine = snapshot.engine
    names = [file.path for file in index.message.files]
    told = {int(match[1]) for name in names if (match := _PART.fullmatch(name))}
    # The record lists the files: heads of partitions are read beside what names them.
    file, *_ = await _heads(snapshot, index, told)
    task = await engine.drive(_whole(file, [DELETED], engine.cache), "text index")
    metadata = TextMetadata.parse(file.schema.metadata)
    is_whole = await engine.pool.run(lambda: _is_whole(task))
    opening = [_partition(snapshot, index, number, metadata) for number in metadata.partitions]
    return TextSegment(metadata, tuple(await all_of(opening)), is_whole)


async def _heads(snapshot: Snapshot, index: Index, partitions: Iterable[int]) -> list[PlainFile]:
    """The heads of `metadata.lance` and of the files of partitions. Cost: one round, once."""
    names = [text_metadata.FILE]
    for number in sorted(partitions):
        names += _names_of(number)
    return await opened_files(snapshot, index, names)


def _names_of(number: int) -> list[str]:
    return [
        text_metadata.tokens_file(number),
        text_metadata.documents_file(number),
        text_metadata.postings_file(number),
    ]


async def _partition(
    snapshot: Snapshot, index: Index, number: int, metadata: TextMetadata
) -> Partition:
    engine = snapshot.engine
    _, tokens, documents, postings = await _heads(snapshot, index, [number])

    def plan() -> Plan[tuple[FragmentTask, FragmentTask, list[OpenFragment]]]:
        lists = yield from together(
            [
                _open(postings, columns_of(metadata, with_positions=with_positions), engine.cache)
                for with_positions in ([False, True] if has_positions else [False])
            ]
        )
        parts: list[Plan[Any]] = [
            _whole(tokens, None, engine.cache),
            _whole(documents, [ROW_IDS, LENGTHS], engine.cache),
            page_states(lists[0], engine.cache),
        ]
        words, rows, _ = yield from together(parts)
        return words, rows, lists

    has_positions = metadata.params.with_position
    words, rows, lists = await engine.drive(plan(), "text index", bulk=True)

    def parse() -> Partition:
        return Partition(
            postings.source.location,
            metadata,
            Dictionary.parse(words.decode(), postings.num_rows),
            Documents.parse(
                rows.decode(), documents.schema.metadata, is_rounded=metadata.is_rounded
            ),
            lists[0],
            lists[1] if has_positions else None,
        )

    return await engine.pool.run(parse)


def _open(file: PlainFile, columns: Sequence[str], states: Any) -> Plan[OpenFragment]:
    names = file.schema.to_arrow().names
    missing = [name for name in columns if name not in names]
    if missing:
        raise CorruptFileError(f"{file.source.location}: columns {names}, without {missing}")
    schema = file.schema.project(list(columns))
    return (yield from open_fragment(schema, [file.source], file.num_rows, states))


def _whole(file: PlainFile, columns: Sequence[str] | None, states: Any) -> Plan[FragmentTask]:
    """Plan all rows of a file: one round, though its pages would have to be looked at first."""
    names = file.schema.to_arrow().names if columns is None else columns
    opened = yield from _open(file, names, states)
    content: list[memoryview] = []

    def answer(extents: Sequence[Extent]) -> Plan[Sequence[memoryview]]:
        if not content:
            content.extend((yield [ByteRange(file.source.location, 0, file.source.file_bytes)]))
        return [cut(extent, content[0]) for extent in extents]

    return (yield from through(opened.read(0, file.num_rows, states), answer))


def _is_whole(task: FragmentTask) -> bool:
    batch: pa.RecordBatch = task.decode()
    column = batch.column(0)
    if batch.num_rows != 1 or column.null_count:
        raise CorruptFileError(f"text index: {batch.num_rows} rows of {DELETED}")
    return not len(parse_roaring(memoryview(column[0].as_buffer()), MAX_FRAGMENTS))


@dataclass(frozen=True, slots=True)
class Needed:
    """Posting lists of a partition that are asked for.

    Attributes:
        numbers: of the tokens, by word.
    """

    partition: Partition
    numbers: Mapping[str, int]
    with_positions: bool

    def key(self, word: str) -> tuple[str, str, int, bool]:
        """Of the search cache."""
        return "posting list", self.partition.where, self.numbers[word], self.with_positions

    def take(self, words: Sequence[str], states: Any) -> Plan[FragmentTask]:
        """Plan the lists of some words, which are in the order of their numbers."""
        partition = self.partition
        opened = partition.lists_with_positions if self.with_positions else partition.lists
        assert opened is not None
        rows = np.array([self.numbers[word] for word in words], np.int64)
        return opened.take(rows, states)

    def parse(self, task: FragmentTask) -> list[PostingList]:
        """The lists, each in memory of its own.

        Raises:
            CorruptFileError: bytes that contradict themselves.
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


async def read_lists(snapshot: Snapshot, needed: Sequence[Needed]) -> list[dict[str, PostingList]]:
    """The posting lists of each partition, by word.

    Cost: one round for those that are not cached.

    Raises:
        CorruptFileError: bytes that contradict themselves.
    """
    engine = snapshot.engine
    lists: list[dict[str, PostingList]] = []
    missing: list[tuple[int, list[str]]] = []
    for place, part in enumerate(needed):
        cached = {word: engine.cache.peek(part.key(word)) for word in part.numbers}
        lists.append({word: kept for word, kept in cached.items() if kept is not None})
        left = [word for word, kept in cached.items() if kept is None]
        if left:
            missing.append((place, sorted(left, key=part.numbers.__getitem__)))
    if not missing:
        return lists
    plans = [needed[place].take(words, engine.cache) for place, words in missing]
    tasks = await engine.drive(together(plans), "posting lists", bulk=True)

    def parse() -> list[list[PostingList]]:
        return [needed[place].parse(task) for (place, _), task in zip(missing, tasks, strict=True)]

    parts = await engine.decode(parse, sum(task.num_bytes for task in tasks))
    is_kept = sum(map(len, parts)) <= KEPT_LISTS
    for (place, words), postings in zip(missing, parts, strict=True):
        for word, single in zip(words, postings, strict=True):
            lists[place][word] = single
            if is_kept:
                engine.cache.put(needed[place].key(word), single, single.num_bytes)
    return lists
