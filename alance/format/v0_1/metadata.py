"""End of a 0.1 file: metadata to locate its pages.

  batch 0 | batch 1 | ... | page table | statistics | dictionaries | schema | metadata | footer

  page table: for each field id from the smallest to the largest, and for each batch,
    i64 position, i64 number of entries
  footer, the last 16 bytes: u64 position of the metadata | u16 major | u16 minor | `LANC`

Source: docs/format/file-0.1.md, "File skeleton", "Metadata" and "Page table".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.file_version import FOOTERS, FileVersion
from alance.format.container import MAGIC, TAIL_BYTES, Container
from alance.format.plans import ByteRange, coalesce
from alance.format.proto import file_pb2, table_pb2
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.message import Message

    from alance.base.arrays import Int64s
    from alance.format.plans import Plan

V0_1_FOOTER: Final = struct.Struct("<QHH4s")
V0_1_LENGTH: Final = struct.Struct("<I")
WITHOUT_PAGES: Final = ("struct",)  # types with zeros in the page table


class PageRun(NamedTuple):
    """Pages of a field, one per batch."""

    positions: Int64s  # shape (batches,): absolute positions
    lengths: Int64s  # shape (batches,): numbers of entries; for lists, one more than rows

    @property
    def num_bytes(self) -> int:
        return self.positions.nbytes + self.lengths.nbytes + 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContainer(Container):
    """Metadata of a 0.1 file, and the bytes at its end that were read.

    Attributes:
        first_rows: first row of each batch, then the number of rows; shape (batches + 1,).
        schema: schema in the file; None if the file has none.
    """

    first_rows: Int64s
    page_table_start: int
    metadata: file_pb2.Metadata
    schema: Schema | None

    @property
    def num_rows(self) -> int:
        return int(self.first_rows[-1])

    @property
    def num_batches(self) -> int:
        return len(self.first_rows) - 1

    @property
    def num_bytes(self) -> int:
        size = len(self.content) + self.first_rows.nbytes + 2 * self.metadata.ByteSize()
        return size + (0 if self.schema is None else 400 * sum(1 for _ in self.schema.walk()))

    def field_ids(self) -> dict[int, str]:
        """Return the logical types of the file's fields by id; empty if it has no schema."""
        fields = () if self.schema is None else self.schema.walk()
        return {field.id: field.logical_type for field in fields}

    def read_runs(self, field_ids: Sequence[int], types: Mapping[int, str]) -> Plan[list[PageRun]]:
        """Plan the pages of fields: no round if the tail has their page table entries, else one.

        Page tables of releases up to 0.7 begin with field 0, even if the file lacks it. To detect
        that may take another round.

        Args:
            types: logical types of all fields of the file, by field id.
        """
        if not field_ids or not self.num_batches:
            nothing = np.empty(0, np.int64)
            return [PageRun(nothing, nothing)] * len(field_ids)
        ids = sorted(types)
        first = ids[0]
        probe = next((field_id for field_id in ids if types[field_id] not in WITHOUT_PAGES), first)
        table = self.page_table_start, self.num_batches
        runs = yield from self._runs([*field_ids, probe], first, *table)
        if first and types[probe] not in WITHOUT_PAGES and not np.any(runs[-1]):
            runs = yield from self._runs([*field_ids, probe], 0, *table)
        return runs[:-1]

    def read_statistics_runs(self, field_ids: Sequence[int]) -> Plan[list[PageRun]]:
        """Plan the pages of statistics fields, one page per field: at most one round."""
        start = self.metadata.statistics.page_table_position
        return (yield from self._runs(field_ids, 0, start, 1))

    def _read(self, spans: Sequence[tuple[int, int]]) -> Plan[list[memoryview]]:
        missing = [span for span in spans if span[0] < self.content_start]
        plan = coalesce(missing, 0)
        fetched = (yield [ByteRange(self.path, *span) for span in plan.spans]) if missing else ()
        buffers = iter(plan.cut(missing, fetched))
        return [
            next(buffers) if span[0] < self.content_start else self._slice(*span) for span in spans
        ]

    def _runs(
        self, field_ids: Sequence[int], first: int, table_start: int, num_batches: int
    ) -> Plan[list[PageRun]]:
        size = 16 * num_batches
        spans = []
        for field_id in field_ids:
            start = table_start + (field_id - first) * size
            if field_id < first or start + size > self.file_bytes:
                raise CorruptFileError(
                    f"{self.path}: the pages of field {field_id} at {start}, beyond the file's "
                    f"{self.file_bytes} bytes"
                )
            spans.append((start, start + size))
        contents = yield from self._read(spans)
        return [
            self._run(field_id, content)
            for field_id, content in zip(field_ids, contents, strict=True)
        ]

    def _run(self, field_id: int, content: memoryview) -> PageRun:
        table = np.frombuffer(content, "<i8").reshape(-1, 2)
        positions, lengths = table[:, 0].copy(), table[:, 1].copy()
        bad = (positions < 0) | (positions > self.file_bytes) | (lengths < 0)
        bad |= lengths > 1 << 40
        bad[1:] |= positions[1:] < positions[:-1]
        if bad.any():
            batch = int(np.argmax(bad))
            raise CorruptFileError(
                f"{self.path}: the page of field {field_id} in batch {batch}: {lengths[batch]} "
                f"entries at {positions[batch]}, expected ascending positions in "
                f"{self.file_bytes} bytes"
            )
        return PageRun(positions, lengths)

    def read_descriptor(self) -> Plan[file_pb2.FileDescriptor]:
        """Plan the schema and row count in the file; no round."""
        if self.schema is None:
            raise CorruptFileError(f"{self.path}: a 0.1 file without a schema of its own")
        descriptor = file_pb2.FileDescriptor(length=self.num_rows)
        descriptor.schema.fields.extend(self.schema.messages)
        for key, value in self.schema.metadata.items():
            descriptor.schema.metadata[key] = value.encode()
        return descriptor
        yield


def footer_version(tail: bytes | memoryview) -> FileVersion | None:
    """Return the version in a file's last bytes; None if they are not a known footer."""
    if len(tail) < V0_1_FOOTER.size:
        return None
    _, major, minor, magic = V0_1_FOOTER.unpack(tail[-V0_1_FOOTER.size :])
    return FOOTERS.get((major, minor)) if magic == MAGIC else None


def is_batch_file(tail: bytes | memoryview) -> bool:
    """True if a file's last bytes are a footer of version 0.1."""
    return footer_version(tail) is FileVersion.V0_1


def open_batch_file(path: str, file_bytes: int, tail: memoryview) -> Plan[BatchContainer]:
    """Plan the opening of a file: no round, or up to two if its metadata exceed the tail.

    Args:
        tail: the file's last bytes, with a footer of version 0.1.
    """
    footer_start = file_bytes - V0_1_FOOTER.size
    start, _, _, _ = V0_1_FOOTER.unpack(tail[-V0_1_FOOTER.size :])
    tail = yield from _from(path, file_bytes, tail, start, "metadata")
    metadata = file_pb2.Metadata()
    end = _parse(path, file_bytes, tail, start, metadata)
    if end != footer_start:
        raise CorruptFileError(f"{path}: metadata end at {end}, the footer is at {footer_start}")
    first_rows = np.array(list(metadata.batch_offsets) or [0], np.int64)
    if first_rows[0] != 0 or (first_rows[1:] < first_rows[:-1]).any():
        raise CorruptFileError(f"{path}: rows of batches that do not ascend from 0")
    if metadata.page_table_position > file_bytes:
        raise CorruptFileError(
            f"{path}: page table at {metadata.page_table_position} of {file_bytes} bytes"
        )
    schema = None
    if metadata.manifest_position:
        place = metadata.manifest_position
        tail = yield from _from(path, file_bytes, tail, place, "schema")
        message = table_pb2.Manifest()
        _parse(path, file_bytes, tail, place, message)
        schema = Schema.from_protobuf(message.fields, message.schema_metadata)
    tail_start = file_bytes - len(tail)
    start = tail_start
    if file_bytes > TAIL_BYTES:
        start = max(start, metadata.page_table_position)
    return BatchContainer(
        path,
        file_bytes,
        FileVersion.V0_1,
        _kernels.FileColumns([], file_bytes, 1),
        np.empty((0, 2), np.int64),
        memoryview(bytes(tail[start - tail_start :])),
        start,
        first_rows=first_rows,
        page_table_start=metadata.page_table_position,
        metadata=metadata,
        schema=schema,
    )


def _from(path: str, file_bytes: int, tail: memoryview, start: int, what: str) -> Plan[memoryview]:
    """Plan the bytes from `start` to the end of the file. The result may begin before `start`.

    If the tail contains `start`, returns the tail without a read.
    """
    tail_start = file_bytes - len(tail)
    if start > file_bytes - V0_1_FOOTER.size - V0_1_LENGTH.size:
        raise CorruptFileError(f"{path}: {what} at {start}, in a file of {file_bytes} bytes")
    if start >= tail_start:
        return tail
    # Read some more bytes before `start`, which may have the preceding sections.
    head_start = max(0, start - TAIL_BYTES)
    (head,) = yield [ByteRange(path, head_start, tail_start)]
    return memoryview(bytes(head) + bytes(tail))


def _parse(path: str, file_bytes: int, tail: memoryview, start: int, into: Message) -> int:
    """Parse the message at `start` into `into`; return its end."""
    begin = start - (file_bytes - len(tail))
    (length,) = V0_1_LENGTH.unpack_from(tail, begin)
    begin += V0_1_LENGTH.size
    kind = into.DESCRIPTOR.name
    if length > len(tail) - V0_1_FOOTER.size - begin:
        raise CorruptFileError(
            f"{path}: {kind} of {length} bytes at {start}, in a file of {file_bytes} bytes"
        )
    try:
        into.ParseFromString(bytes(tail[begin : begin + length]))
    except DecodeError as error:
        raise CorruptFileError(f"{path}: {kind} at {start}: {error}") from error
    return start + V0_1_LENGTH.size + int(length)
