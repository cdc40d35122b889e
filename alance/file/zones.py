"""The statistics of a file, by plan: found by its buffer's magic, kept in the search cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from alance.errors import CorruptFileError
from alance.file_version import FileVersion
from alance.format.plans import ByteRange
from alance.format.statistics import head_bytes, parse_head, parse_zones

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.columns import States
    from alance.format.container import Container
    from alance.format.plans import Plan
    from alance.format.statistics import Statistics, Zones

WHOLE_BYTES: Final = 256 << 10  # buffers up to here are read at once
HEAD_BYTES: Final = 64 << 10  # of larger ones: the head, then the columns asked for


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """What a file says of its rows, as far as it was read.

    Attributes:
        head: None: the file says nothing.
        start: offset of the buffer in the file.
        blocks: by column, as they are stored.
    """

    path: str
    head: Statistics | None
    start: int = 0
    blocks: dict[int, bytes] = field(default_factory=dict)
    _zones: dict[int, Zones] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Memory, for a cache's budget."""
        known = 0 if self.head is None else self.head.num_bytes
        return 100 + known + sum(100 + 8 * len(one) for one in self.blocks.values())

    def zones(self, column: int) -> Zones:
        """The zones of a column whose block was read. CPU, at first.

        Raises:
            CorruptFileError: other bytes than were written.
        """
        found = self._zones.get(column)
        if found is None:
            assert self.head is not None
            block = memoryview(self.blocks[column])
            found = self._zones[column] = parse_zones(self.path, self.head, column, block)
        return found


def read_statistics(
    container: Container, columns: Sequence[int], states: States
) -> Plan[FileStatistics]:
    """Plan the statistics of columns: no round where they are known or in the file's tail.

    Else one round, of the whole buffer up to 256 KiB; of a larger one two: the head first.

    Raises:
        CorruptFileError: other bytes than were written.
    """
    key = ("statistics", container.path)
    known: FileStatistics | None = states.peek(key)
    if known is None:
        known = yield from _opened(container, columns)
        states.put(key, known, known.num_bytes)
    head = known.head
    if head is None:
        return known
    missing = [one for one in columns if one in head.rows and one not in known.blocks]
    if missing:
        spans = [head.block(one) for one in missing]
        contents = yield from _read(
            container, [(known.start + at, known.start + at + size) for at, size in spans]
        )
        for column, content in zip(missing, contents, strict=True):
            known.blocks[column] = bytes(content)
        states.put(key, known, known.num_bytes)
    return known


def _opened(container: Container, columns: Sequence[int]) -> Plan[FileStatistics]:
    """The head, and the columns where they come with it."""
    number = len(container.buffers) - 1 - (container.search is not None)
    where = container.path
    if number < 1 or container.version <= FileVersion.V2_0:
        return FileStatistics(where, None)
    start, stop = (int(one) for one in container.buffers[number])
    first = stop if stop - start <= WHOLE_BYTES else start + HEAD_BYTES
    (content,) = yield from _read(container, [(start, first)])
    size = head_bytes(where, content)
    if size is None:
        return FileStatistics(where, None)
    if size > stop - start:
        raise CorruptFileError(f"{where}: statistics of {stop - start} bytes, their head {size}")
    if size > len(content):
        (content,) = yield from _read(container, [(start, start + size)])
    head = parse_head(where, content[:size], stop - start)
    found = FileStatistics(where, head, start)
    for column in columns:
        if column in head.rows:
            offset, num_bytes = head.block(column)
            if offset + num_bytes <= len(content):
                found.blocks[column] = bytes(content[offset : offset + num_bytes])
    return found


def _read(container: Container, spans: Sequence[tuple[int, int]]) -> Plan[list[memoryview]]:
    wanted = [ByteRange(container.path, *span) for span in spans]
    held = [container.held(one) for one in wanted]
    missing = [one for one, known in zip(wanted, held, strict=True) if known is None]
    fetched = iter((yield missing) if missing else ())
    return [next(fetched) if known is None else known for known in held]
