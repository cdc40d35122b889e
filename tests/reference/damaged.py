"""Plans driven over bytes that may be damaged, and ways to damage them."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from lance.file import LanceFileWriter

from alance.errors import CorruptFileError
from alance.format.plans import ByteRange, cut
from alance.format.schema import Schema

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from alance.format.plans import Plan

LOCATION = "memory://1/file"
VARINT, LENGTH = 0, 2  # wire types of protobuf
FIXED: Final = {1: 8, 5: 4}  # the others, and their bytes
FOOTER: Final = struct.Struct("<QQQIIHH4s")
PLACE: Final = struct.Struct("<QQ")  # of a column's metadata or a global buffer: start, size
# Numbers at the edges of what their types hold, and those that no memory holds.
EDGES: Final = sorted(
    {0, 1, 2, 1 << 20, 1 << 40, 1 << 62, *((1 << bits) - 1 for bits in (7, 8, 15, 16, 31, 32, 63))}
    | {1 << bits for bits in (7, 8, 15, 16, 31, 32, 63)}
    | {(1 << 64) - 1}
)


def run(plan: Plan[Any], content: bytes) -> Any:
    """Drive a plan over bytes in memory, as over a store.

    Raises:
        CorruptFileError: it asks for more than there is.
    """
    view = memoryview(content)
    try:
        expected = next(plan)
        while True:
            for entry in expected:
                for part in [entry] if isinstance(entry, ByteRange) else entry.ranges():
                    assert 0 <= part.start <= part.stop
                    if part.stop > len(content):
                        raise CorruptFileError("beyond the end")
            expected = plan.send([cut(item, view) for item in expected])
    except StopIteration as done:
        return done.value


def validate(batch: pa.RecordBatch) -> None:
    """Arrow's own check; a spoiled number may be any number, of more digits than its type says."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        if "does not fit in precision" not in str(error):
            raise


def by_pylance(table: pa.Table, version: str) -> tuple[bytes, Schema]:
    """A file that pylance writes, and its schema."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.lance"
        with LanceFileWriter(str(path), table.schema, version=version) as writer:
            writer.write_batch(table)
        return path.read_bytes(), Schema.from_arrow(table.schema)


def metadata_start(content: bytes) -> int:
    """Return the start of the column metadata in a file of 2.0 or later, from its footer."""
    return int.from_bytes(content[-40:-32], "little")


def with_spoiled_bytes(rng: random.Random, content: bytes, starts: Sequence[int]) -> bytes:
    """One to five bytes, each behind one of `starts`, become random or telling ones."""
    spoiled = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5])):
        first = rng.choice(starts)
        at = rng.randrange(first, len(content))
        spoiled[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(spoiled)


def with_moved_part(rng: random.Random, content: bytes) -> bytes:
    """A piece of the file stands in the place of another too."""
    size = rng.choice([1, 8, 64, 300])
    source, target = (rng.randrange(len(content) - size) for _ in range(2))
    spoiled = bytearray(content)
    spoiled[target : target + size] = content[source : source + size]
    return bytes(spoiled)


def with_other_numbers(rng: random.Random, content: bytes, start: int, stop: int) -> bytes:
    """A number of 2, 4 or 8 bytes between two places becomes another."""
    spoiled = bytearray(content)
    size = rng.choice([2, 2, 4, 8])
    at = start + rng.randrange(max(1, stop - start)) // size * size
    at = max(start, min(at, stop - size))
    before = int.from_bytes(spoiled[at : at + size], "little")
    spoiled[at : at + size] = _other(rng, before, 8 * size).to_bytes(size, "little")
    return bytes(spoiled)


def with_other_metadata(rng: random.Random, content: bytes, numbers: Sequence[int]) -> bytes:
    """A field of what a file of 2.0 or later says of a column or of its schema becomes another, or
    a number of the footer or of the tables before it. The message stays one, and may be longer.

    Args:
        numbers: of the columns.
    """
    *places, num_buffers, num_columns, major, minor, magic = FOOTER.unpack(content[-FOOTER.size :])
    if rng.random() < 0.1:
        footer = [*places, num_buffers, num_columns]
        at = rng.randrange(len(footer))
        footer[at] = _other(rng, footer[at], 64 if at < len(places) else 32)
        return content[: -FOOTER.size] + FOOTER.pack(*footer, major, minor, magic)
    _, columns, buffers = places
    entry = columns + PLACE.size * rng.choice(numbers)
    if rng.random() < 0.2:
        entry = buffers + PLACE.size * rng.randrange(num_buffers)
    start, size = PLACE.unpack_from(content, entry)
    spoiled = bytearray(content[: -FOOTER.size])
    if rng.random() < 0.1:
        place = [start, size]
        at = rng.randrange(2)
        place[at] = _other(rng, place[at], 64)
    else:
        spoiled += bytes(-len(spoiled) % 64)
        message = with_other_field(rng, content[start : start + size])
        place = [len(spoiled), len(message)]
        spoiled += message
    PLACE.pack_into(spoiled, entry, *place)
    return bytes(spoiled) + content[-FOOTER.size :]


class Field(NamedTuple):
    """A field of a message: its key, its number, or its bytes."""

    key: int
    value: int | bytes

    def encoded(self) -> bytes:
        """The bytes of the field."""
        key = _varint(self.key)
        if isinstance(self.value, int):
            return key + _varint(self.value)
        if self.key & 7 == LENGTH:
            return key + _varint(len(self.value)) + self.value
        return key + self.value


def with_other_field(rng: random.Random, message: bytes) -> bytes:
    """A field of a message, or of one inside of it, is another, is lacking, or comes again."""
    fields = fields_of(message)
    if not fields:
        return _other_bytes(rng, message)
    at = rng.randrange(len(fields))
    key, value = fields[at]
    change = rng.random()
    if change < 0.05:
        del fields[at]
    elif change < 0.1:
        fields.insert(rng.randrange(len(fields)), fields[at])
    elif isinstance(value, int):
        fields[at] = Field(key, _other(rng, value, 64))
    elif key & 7 == LENGTH and change < 0.9 and fields_of(value):
        fields[at] = Field(key, with_other_field(rng, value))
    elif key & 7 == LENGTH:
        fields[at] = Field(key, _other_bytes(rng, value))
    else:
        number = _other(rng, int.from_bytes(value, "little"), 8 * len(value))
        fields[at] = Field(key, number.to_bytes(len(value), "little"))
    return b"".join([field.encoded() for field in fields])


def fields_of(message: bytes) -> list[Field]:
    """The fields of a message; none if the bytes are no message."""
    try:
        return [*_fields(message)]
    except (IndexError, KeyError):
        return []


def _fields(message: bytes) -> Iterator[Field]:
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        if key < 8:
            raise KeyError(key)
        if key & 7 == VARINT:
            number, at = _number(message, at)
            yield Field(key, number)
            continue
        if key & 7 == LENGTH:
            size, at = _number(message, at)
        else:
            size = FIXED[key & 7]
        if size > len(message) - at:
            raise IndexError(size)
        yield Field(key, message[at : at + size])
        at += size


def _number(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return number & (1 << 64) - 1, at


def _varint(number: int) -> bytes:
    parts = [number >> shift & 0x7F for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes([part | 0x80 for part in parts[:-1]] + parts[-1:])


def _other(rng: random.Random, number: int, bits: int) -> int:
    """Another number than this one, of so many bits at most."""
    near = [
        number + 1,
        number - 1,
        2 * number,
        number // 2,
        number << 20,
        number ^ 1 << rng.randrange(8),
    ]
    return rng.choice([*near, *EDGES, *EDGES]) & (1 << bits) - 1


def _other_bytes(rng: random.Random, content: bytes) -> bytes:
    """Bytes of other values, fewer, or more."""
    if not content:
        return rng.randbytes(rng.choice([1, 2, 8]))
    change = rng.randrange(4)
    if change == 0:
        return content[: rng.randrange(len(content))]
    if change == 1:
        return content + rng.randbytes(rng.choice([1, 4, 40]))
    spoiled = bytearray(content)
    for _ in range(change):
        spoiled[rng.randrange(len(content))] = rng.choice(
            [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)]
        )
    return bytes(spoiled)
