"""Blob columns: values as file-like objects that are read on demand, or as bytes.

A blob column stores descriptions of its values. In version 1 (binary with the metadata key
`lance-encoding:blob`), a description is the position and size in the data file. In version 2,
values may also be in sidecar objects or at external URIs.

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np

from alance.base import compute as pc
from alance.base.calls import public
from alance.base.checks import check_choice, check_count
from alance.errors import InvalidInputError
from alance.format.numbers import as_numbers
from alance.io.loop.generators import outermost
from alance.ops.blobs.places import places_of
from alance.ops.read.take import take, take_addresses, take_rows
from alance.ops.version.options import BLOB_BYTES
from alance.ops.version.projection import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from alance.format.plans import ByteRange
    from alance.ops.blobs.places import BlobPlace
    from alance.ops.version.snapshot import Snapshot

Selector: TypeAlias = Literal["ids", "addresses", "indices"]

# Numbers of rows by their kind; None for kinds that the caller did not use.
Selection: TypeAlias = "Mapping[Selector, Sequence[int] | None]"

BLOB_CHUNK_BYTES: Final = 1 << 20
TAKES: Final = {"ids": take_rows, "addresses": take_addresses, "indices": take}


@public
class BlobFile:
    """Blob as an async, read-only file; `read` fetches its bytes.

    A short read fetches `buffer_size` bytes, so that the next reads need no request. Reads that
    several tasks start in one turn of the event loop share their requests:

        files = await dataset.take_blobs("image", indices=rows)
        images = await asyncio.gather(*(file.readall() for file in files))
    """

    __slots__ = ("_ahead", "_buffer_size", "_closed", "_place", "_position", "_snapshot")

    def __init__(self, snapshot: Snapshot, place: BlobPlace, buffer_size: int = BLOB_BYTES) -> None:
        self._snapshot = snapshot
        self._place = place
        self._buffer_size = buffer_size
        self._position = 0
        # Position and content of the bytes read ahead.
        self._ahead: tuple[int, memoryview] = (0, memoryview(b""))
        self._closed = False

    def __repr__(self) -> str:
        return f"BlobFile({self._place.location!r}, {self.size} bytes)"

    @property
    def size(self) -> int:
        """Size of the blob in bytes."""
        return self._place.num_bytes

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position, and return it.

        Args:
            offset: offset in bytes.
            whence: origin of the offset: 0 for the start, 1 for the current position, 2 for the
                end.

        Raises:
            InvalidInputError: the position would be negative, or `whence` is invalid.
        """
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise InvalidInputError(f"whence={whence}: expected 0, 1 or 2")
        _check_integer("offset", offset)
        base = (0, self._position, self.size)[whence]
        if base + offset < 0:
            raise InvalidInputError(f"seek to {base + offset}: before the start of the blob")
        self._position = base + offset
        return self._position

    async def read(self, num_bytes: int = -1) -> bytes:
        """Read the next bytes.

        The position moves immediately, so concurrent reads return consecutive parts.

        Cost: a request per 8 MiB, or none for bytes that were read ahead.

        Args:
            num_bytes: maximum number of bytes; a negative number reads to the end.

        Raises:
            InvalidInputError: the file is closed.
            StoreError: the store failed.
        """
        _check_integer("num_bytes", num_bytes)
        start = self._position
        remaining = max(0, self.size - start)
        stop = start + (remaining if num_bytes < 0 else min(num_bytes, remaining))
        self._position = stop
        try:
            return await self._read(start, stop)
        except BaseException:
            if self._position == stop:
                self._position = start
            raise

    async def readall(self) -> bytes:
        """Read the rest of the blob.

        Cost: as for `read`.

        Raises:
            InvalidInputError: the file is closed.
            StoreError: the store failed.
        """
        return await self.read(-1)

    async def read_range(self, offset: int, length: int) -> bytes:
        """Read a part of the blob without moving the position.

        Cost: a request per 8 MiB.

        Args:
            offset: offset of the first byte.
            length: number of bytes.

        Raises:
            InvalidInputError: a part is beyond the end, or the file is closed.
            StoreError: the store failed.
        """
        (content,) = await self.read_ranges([(offset, length)])
        return content

    async def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several parts of the blob without moving the position.

        Cost: one round; parts that are near each other share a request.

        Args:
            ranges: pairs of offset and length in bytes.

        Raises:
            InvalidInputError: a part is beyond the end, or the file is closed.
            StoreError: the store failed.
        """
        self._check_open()
        _check_requests(ranges, "(offset, length)", least=-math.inf)
        parts = [_part(self._place, offset, length) for offset, length in ranges]
        return [*map(bytes, await self._snapshot.engine.scheduler.read(parts, reason="blob"))]

    @outermost
    async def chunks(self, num_bytes: int = BLOB_CHUNK_BYTES) -> AsyncIterator[bytes]:
        """Stream the rest of the blob in pieces; the next piece is read ahead.

        Cost: a request per piece, or per 8 MiB of it.

        Args:
            num_bytes: bytes per piece.

        Raises:
            InvalidInputError: `num_bytes` is less than 1, or the file is closed.
            StoreError: the store failed.
        """
        check_count("num_bytes", num_bytes)
        ahead = asyncio.ensure_future(self.read(num_bytes))
        try:
            while chunk := await ahead:
                ahead = asyncio.ensure_future(self.read(num_bytes))
                yield chunk
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Stream the rest of the blob in pieces of 1 MiB."""
        return self.chunks()

    async def close(self) -> None:
        """Free the bytes that were read ahead; further reads raise an error.

        Cost: no request.
        """
        self._closed = True
        self._ahead = (0, memoryview(b""))

    async def __aenter__(self) -> BlobFile:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self, start: int, stop: int) -> bytes:
        self._check_open()
        first, ahead = self._ahead
        if start >= stop:
            return b""
        if first <= start and stop <= first + len(ahead):
            return bytes(ahead[start - first : stop - first])
        end = min(self.size, max(stop, start + self._buffer_size))
        (content,) = await self._snapshot.engine.scheduler.read(
            [self._place.part(start, end)], reason="blob"
        )
        if end > stop and not self._closed:
            self._ahead = start, content
        return bytes(content[: stop - start])

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError("read of a closed blob")


async def take_blobs(
    snapshot: Snapshot, column: str, selection: Selection, buffer_size: int
) -> list[BlobFile | None]:
    """Return the blobs of rows, in the requested order; None for a null blob.

    Raises:
        InvalidInputError: the column is not a blob column, or not exactly one list of rows is
            given.
    """
    check_count("buffer_size", buffer_size, 0)
    _, places = await _places(snapshot, column, selection)
    return [None if place is None else BlobFile(snapshot, place, buffer_size) for place in places]


async def read_blobs(
    snapshot: Snapshot, column: str, selection: Selection
) -> list[tuple[int, bytes | None]]:
    """Return the row address and the bytes (None for a null) of each blob, in the requested order.

    Errors are as for `take_blobs`.
    """
    rows, places = await _places(snapshot, column, selection)
    parts = [None if place is None else place.whole for place in places]
    contents = await _contents(snapshot, parts)
    return list(zip(rows, contents, strict=True))


async def _contents(
    snapshot: Snapshot, parts: Sequence[ByteRange | None]
) -> Sequence[bytes | None]:
    """Return the bytes of parts of blobs; a part that is None gives None."""
    ranges = [part for part in parts if part is not None]
    buffers = iter(await snapshot.engine.scheduler.read(ranges, reason="blobs"))
    return [None if part is None else bytes(next(buffers)) for part in parts]


async def read_blob_ranges(
    snapshot: Snapshot,
    column: str,
    requests: Sequence[tuple[int, int, int]],
    selector: Selector,
) -> list[tuple[int, int, bytes | None]]:
    """Return parts of the blobs of rows; see `Dataset.read_blob_ranges`."""
    check_choice("selector", selector, get_args(Selector))
    _check_requests(requests, "(row, offset, length)")
    order = {row: place for place, row in enumerate(dict.fromkeys(row for row, _, _ in requests))}
    rows, places = await _places(snapshot, column, {selector: list(order)})
    parts = [
        None if (place := places[order[row]]) is None else _part(place, int(offset), int(length))
        for row, offset, length in requests
    ]
    contents = await _contents(snapshot, parts)
    return [
        (number, rows[order[request[0]]], content)
        for number, (request, content) in enumerate(zip(requests, contents, strict=True))
    ]


def _part(place: BlobPlace, offset: int, length: int) -> ByteRange:
    if offset < 0 or length < 0 or offset + length > place.num_bytes:
        raise InvalidInputError(
            f"range of {length} bytes at {offset}: the blob has {place.num_bytes}"
        )
    return place.part(offset, offset + length)


def _check_requests(requests: object, expected: str, *, least: float = 0) -> None:
    if not isinstance(requests, Iterable):
        raise InvalidInputError(f"{requests!r}: expected a list of {expected}")
    size = expected.count(",") + 1
    for request in requests:
        is_whole = isinstance(request, Collection) and len(request) == size
        if not is_whole or not all(
            isinstance(number, int | np.integer) and number >= least for number in request
        ):
            raise InvalidInputError(f"request {request!r}: expected {expected}")


def _check_integer(name: str, value: object) -> None:
    if not isinstance(value, int | np.integer):
        raise InvalidInputError(f"{name}={value!r}: expected an integer")


async def _places(
    snapshot: Snapshot, column: str, selection: Selection
) -> tuple[list[int], list[BlobPlace | None]]:
    """Return the addresses of rows, and the locations of their blobs; None for a null blob."""
    field = snapshot.schema.field(column)
    if not (field.is_blob_v1 or field.is_blob_v2):
        raise InvalidInputError(
            f"column {column!r} is no blob column, but {field.to_arrow().type}; a blob column is "
            f"declared in the schema: alance.blob_field({column!r})"
        )
    selected = [(kind, numbers) for kind, numbers in selection.items() if numbers is not None]
    if len(selected) != 1:
        raise InvalidInputError("blobs: expected one of indices, row_ids and addresses")
    ((kind, numbers),) = selected
    table = await TAKES[kind](snapshot, numbers, [column, ROW_ADDRESS])
    rows = as_numbers(table.column(ROW_ADDRESS)).astype(np.uint64)
    descriptions = table.column(0).combine_chunks()
    if below := snapshot.schema.names_of(column)[1:]:
        descriptions = pc.struct_field(descriptions, below)
    places = await places_of(snapshot, field, descriptions, rows >> np.uint64(32))
    return rows.tolist(), places
