"""Storage of version 2 blobs in the data file, in sidecar objects, or by reference.

The sidecar objects of a data file are numbered from 1, in row order. Small payloads share an object
until it is full. Memory use: the batch with the payloads, and the current uploads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import numpy as np

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.encode.blobs import (
    DEDICATED,
    EXTERNAL,
    INLINE,
    PACKED_KIND,
    BlobLimits,
    BlobRows,
    PlacedBlobs,
    describe_blobs,
    uri_array,
)
from alance.format.encode.leaves import block_of
from alance.format.encode.rows import select
from alance.io.loop.tasks import all_of, each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from alance.base.arrays import Bytes
    from alance.format.blocks import Block, VariableWidth
    from alance.format.encode.container import FileBuilder
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.io.reading.pool import DecodePool
    from alance.io.stores.upload import Upload

    _Payloads: TypeAlias = list[tuple[int, Bytes]]  # id of an object, and content to append

AT_ONCE: Final = 4  # concurrent uploads of dedicated objects


class Sidecars(Protocol):
    """Access to the sidecar objects of a data file, and to objects that rows reference."""

    @property
    def pack_bytes(self) -> int | None:
        """Largest size of a shared object in bytes; None for the field's limit."""
        ...

    def open(self, blob_id: int) -> Upload:
        """Open a new object, which is removed if the data file is aborted."""
        ...

    def resolved(self, rows: BlobRows, where: str) -> AsyncIterator[BlobRows]:
        """Yield the rows in pieces; references get `base_ids`, or are replaced by payloads."""
        ...


class BlobPlacer:
    """Writer of the blobs of one data file. For a single task at a time.

    Args:
        sidecars: access to objects; None if the caller has stored all blobs.
    """

    def __init__(
        self,
        sidecars: Sidecars | None,
        builder: FileBuilder,
        pool: DecodePool,
        upload: Callable[[Sequence[Bytes]], Awaitable[None]],
    ) -> None:
        self._sidecars = sidecars
        self._builder = builder
        self._pool = pool
        self._upload_all = upload
        self._last_id = 0
        self._pack_id = self._pack_bytes = 0  # of the shared object that is not full
        self._open: tuple[int, Upload] | None = None

    async def place(self, field: Field, page: PageValues) -> PageValues:
        """Upload the payloads of rows; return the rows with descriptions as values.

        Uploads of shared objects may continue until `finish`.

        Args:
            page: rows with `BlobRows` as values.

        Raises:
            InvalidInputError: a URI is not allowed, a limit is not a number, or rows have places
                that the caller chose, although there are `sidecars`.
            UnsupportedError: rows are not stored yet, and there are no `sidecars`.
            StoreError: the store failed.
        """
        rows = cast("BlobRows", page.values)
        sidecars = self._sidecars
        limits = BlobLimits.of(field, None if sidecars is None else sidecars.pack_bytes)
        parts = []
        async for piece in self._resolved(rows, field.name):
            plan = partial(self._plan, piece, limits)
            part, chunks, alone, packed = await self._pool.run(plan)
            await self._upload_all(chunks)
            await all_of([self._write_alone(alone), self._write_packed(packed)])
            parts.append(part)
        return page._replace(values=await self._pool.run(partial(_block, parts, field.name)))

    async def finish(self) -> None:
        """Finish the upload of the open shared object, if there is one."""
        if self._open is not None:
            (_, upload), self._open = self._open, None
            await upload.finish()

    async def _resolved(self, rows: BlobRows, where: str) -> AsyncIterator[BlobRows]:
        if self._sidecars is None:
            if rows.placed is None:
                raise UnsupportedError(
                    f"field {where!r}: blobs of version 2 have objects beside the file: they are "
                    "written in tables; to single files go those of `PackedBlobWriter`, "
                    "`DedicatedBlobWriter` and `BlobDescriptorArrayBuilder`"
                )
            yield rows
            return
        if rows.placed is not None and not rows.placed.is_managed:
            raise InvalidInputError(
                f"field {where!r}: blobs that have their place are written to single files; a "
                "table takes payloads, URIs, and parts of objects that it keeps"
            )
        async for piece in self._sidecars.resolved(rows, where):
            yield piece

    def _plan(
        self, rows: BlobRows, limits: BlobLimits
    ) -> tuple[PlacedBlobs, list[Bytes], _Payloads, _Payloads]:
        """Choose where each row is stored, and add the inline payloads to the data file. CPU work.

        Returns the descriptions of all rows, the bytes to append to the data file, and the payloads
        of dedicated and of shared objects.
        """
        content, offsets = rows.payloads.data, rows.payloads.offsets
        alone: _Payloads = []
        packed: _Payloads = []
        part = _described(rows, limits)
        kinds, positions, blob_ids = part.kinds, part.positions, part.blob_ids
        beside = (kinds == PACKED_KIND) | (kinds == DEDICATED)
        for row in np.flatnonzero(beside).tolist() if rows.placed is None else ():
            payload = content[int(offsets[row]) : int(offsets[row + 1])]
            if kinds[row] == DEDICATED:
                blob_ids[row] = self._new_id()
                alone.append((self._last_id, payload))
                continue
            if not self._pack_id or self._pack_bytes + len(payload) > limits.pack:
                self._pack_id, self._pack_bytes = self._new_id(), 0
            blob_ids[row], positions[row] = self._pack_id, self._pack_bytes
            packed.append((self._pack_id, payload))
            self._pack_bytes += len(payload)
        inline = kinds == INLINE
        slots = slice(0, len(kinds)) if inline.all() else np.flatnonzero(inline)
        chosen = cast("VariableWidth", select(rows.payloads, slots))
        positions[inline], chunks = self._builder.add_blobs(chosen)
        return part, chunks, alone, packed

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _new(self, blob_id: int) -> Upload:
        assert self._sidecars is not None  # because without sidecars, every blob is already stored
        return self._sidecars.open(blob_id)

    async def _write_alone(self, objects: _Payloads) -> None:
        async def put(blob: tuple[int, Bytes]) -> None:
            async with self._new(blob[0]) as upload:
                await upload.write(blob[1])
                await upload.finish()

        await each(put, objects, at_once=AT_ONCE)

    async def _write_packed(self, pieces: _Payloads) -> None:
        for blob_id, content in pieces:
            if self._open is None or self._open[0] != blob_id:
                await self.finish()
                self._open = blob_id, self._new(blob_id)
            await self._open[1].write(content)


def _described(rows: BlobRows, limits: BlobLimits) -> PlacedBlobs:
    """Describe rows whose payloads have no places yet; all arrays but `kinds` are new."""
    sizes, placed, external = np.diff(rows.payloads.offsets), rows.placed, rows.external
    sizes = sizes.astype(np.uint64)
    if placed is not None:
        inline = placed.kinds == INLINE
        return PlacedBlobs(
            placed.kinds,
            np.where(inline, 0, placed.positions).astype(np.uint64),
            np.where(inline, sizes, placed.sizes),
            np.where(inline, 0, placed.blob_ids).astype(np.uint32),
            placed.uris,
        )
    kinds = limits.kinds(sizes)
    kinds[external] = EXTERNAL if rows.kinds is None else rows.kinds
    positions, blob_ids = np.zeros(len(kinds), np.uint64), np.zeros(len(kinds), np.uint32)
    if len(external):
        assert rows.positions is not None
        assert rows.sizes is not None
        assert rows.base_ids is not None
        positions[external], sizes[external] = rows.positions, rows.sizes
        blob_ids[external] = rows.base_ids
    uris = dict(zip(external.tolist(), rows.uris, strict=True))
    return PlacedBlobs(kinds, positions, sizes, blob_ids, uris)


def _block(parts: Sequence[PlacedBlobs], where: str) -> Block:
    """Join the descriptions of all parts to a block."""
    starts = np.cumsum([0, *(len(part.kinds) for part in parts)]).tolist()
    uris = {
        start + row: uri
        for start, part in zip(starts, parts, strict=False)
        for row, uri in part.uris.items()
    }
    kinds, positions, sizes, blob_ids = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("kinds", "positions", "sizes", "blob_ids")
    )
    array = describe_blobs(kinds, positions, sizes, blob_ids, uri_array(starts[-1], uris))
    return block_of(array, None, where)
