"""Blob columns: values as file-like objects, read when asked for.

A blob column holds descriptions; the bytes lie elsewhere. Version 1 (binary with the metadata key
`lance-encoding:blob`): position and size in the data file. Version 2 adds sidecar files beside the
data file and external URIs.

Source: file format specification, "blobs".
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import InvalidInputError
from alance.format.numbers import as_numbers
from alance.format.plans import ByteRange
from alance.ops.blob_places import places_of
from alance.ops.projection import ROW_ADDRESS
from alance.ops.take import take, take_addresses, take_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.blob_places import BlobPlace
    from alance.ops.snapshot import Snapshot


class BlobFile:
    """A blob as an async, read-only file: nothing is fetched before `read`.

    Reads that several tasks start in one turn of the loop share their requests.
    """

    __slots__ = ("_closed", "_place", "_position", "_snapshot")

    def __init__(self, snapshot: Snapshot, place: BlobPlace) -> None:
        self._snapshot = snapshot
        self._place = place
        self._position = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"BlobFile({self._place.location!r}, {self.size} bytes)"

    @property
    def size(self) -> int:
        """Bytes of the blob."""
        return self._place.num_bytes

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position: from the start, the current position (1) or the end (2).

        Raises:
            InvalidInputError: a position before the start, or another `whence`.
        """
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise InvalidInputError(f"whence={whence}: expected 0, 1 or 2")
        base = (0, self._position, self.size)[whence]
        if base + offset < 0:
            raise InvalidInputError(f"seek to {base + offset}: before the start of the blob")
        self._position = base + offset
        return self._position

    async def read(self, num_bytes: int = -1) -> bytes:
        """The next bytes, up to `num_bytes` or (negative) to the end. Cost: one request.

        Raises:
            InvalidInputError: the file is closed.
        """
        if self._closed:
            raise InvalidInputError("read of a closed blob")
        left = max(0, self.size - self._position)
        wanted = left if num_bytes < 0 else min(num_bytes, left)
        if wanted == 0:
            return b""
        start = self._place.start + self._position
        (content,) = await self._snapshot.engine.scheduler.read(
            [ByteRange(self._place.location, start, start + wanted)], reason="blob"
        )
        self._position += wanted
        return bytes(content)

    async def readall(self) -> bytes:
        """The rest of the blob."""
        return await self.read(-1)

    async def close(self) -> None:
        """Refuse further reads; nothing is held."""
        self._closed = True

    async def __aenter__(self) -> BlobFile:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def take_blobs(
    snapshot: Snapshot,
    column: str,
    *,
    indices: Sequence[int] | None = None,
    row_ids: Sequence[int] | None = None,
    addresses: Sequence[int] | None = None,
) -> list[BlobFile]:
    """The blobs of rows, in the order asked for; null values are left out.

    Raises:
        InvalidInputError: no blob column, or not exactly one of the three kinds of rows.
    """
    field = snapshot.schema.field(column)
    if not (field.is_blob_v1 or field.is_blob_v2):
        raise InvalidInputError(f"column {column!r} is no blob column")
    given = [one for one in (indices, row_ids, addresses) if one is not None]
    if len(given) != 1:
        raise InvalidInputError("take_blobs: expected one of indices, row_ids and addresses")
    columns = [column, ROW_ADDRESS]
    if indices is not None:
        table = await take(snapshot, indices, columns)
    elif row_ids is not None:
        table = await take_rows(snapshot, row_ids, columns)
    else:
        table = await take_addresses(snapshot, addresses, columns)
    fragments = as_numbers(table.column(ROW_ADDRESS)) >> np.uint64(32)
    descriptions = table.column(column).combine_chunks()
    places = await places_of(snapshot, field, descriptions, fragments)
    return [BlobFile(snapshot, place) for place in places if place is not None]
