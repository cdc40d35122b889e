"""Methods that read blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from alance.base.deferred import Deferred
from alance.ops.version.options import BLOB_BYTES
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.read import blobs
    from alance.ops.read.blobs import BlobFile, Selection
else:
    blobs = Deferred("alance.ops.read.blobs")


class BlobVerbs(Handle):
    """Read the blobs of rows as files, whole, or in part; see docs/blobs.md."""

    __slots__ = ()

    async def take_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = None,
        row_ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
        buffer_size: int = BLOB_BYTES,
    ) -> list[BlobFile | None]:
        r"""Open the blobs of rows as file-like objects, in the given order.

        Cost: as `take` of the column; the bytes of a blob are read when its file is read.

        Example:

            photo, *_ = await images.take_blobs("photo", indices=[0])
            assert await photo.read(4) == b"\xff\xd8\xff\xe0"

        Args:
            column: name, or dotted path of a blob inside structs.
            indices, row_ids, addresses: the rows, by exactly one of the three.
            buffer_size: minimum number of bytes per fetch; later reads of the same file use the
                rest.

        Returns:
            A file for each row; None for a null blob.

        Raises:
            InvalidInputError: the column is not of blobs, or a position is beyond the end.
            NotFoundError: a row id or address has no live row.
        """
        await self._load(blobs)
        rows: Selection = {"indices": indices, "ids": row_ids, "addresses": addresses}
        return await blobs.take_blobs(self._snapshot, column, rows, buffer_size)

    async def read_blobs(
        self,
        column: str,
        *,
        indices: Sequence[int] | None = None,
        row_ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Read the whole blobs of rows, in the given order.

        Cost: as `take` of the column, and one round for the bytes; blobs near each other share a
        request.

        Args:
            column, indices, row_ids, addresses: as for `take_blobs`.

        Returns:
            The address and the bytes of each row; None as the bytes of a null blob.

        Raises:
            InvalidInputError, NotFoundError: as from `take_blobs`.
        """
        await self._load(blobs)
        rows: Selection = {"indices": indices, "ids": row_ids, "addresses": addresses}
        return await blobs.read_blobs(self._snapshot, column, rows)

    async def read_blob_ranges(
        self,
        column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
    ) -> list[tuple[int, int, bytes | None]]:
        """Read parts of the blobs of many rows.

        Cost: as `take` of the column, and one round for the bytes; parts near each other share a
        request. Memory: the requested bytes.

        Args:
            column: name, or dotted path of a blob inside structs.
            requests: triples of row, offset in its blob, and length in bytes; a row may occur
                repeatedly.
            selector: kind of the rows in `requests`: stable row ids, addresses, or positions in the
                table.

        Returns:
            Number of the request, address of the row, and bytes, in the order of `requests`; None
            as the bytes of a null blob, whichever part is requested.

        Raises:
            InvalidInputError: the column is not of blobs, the selector is unknown, or a range ends
                beyond a blob.
            NotFoundError: there is no such row.
        """
        await self._load(blobs)
        return await blobs.read_blob_ranges(self._snapshot, column, requests, selector)
