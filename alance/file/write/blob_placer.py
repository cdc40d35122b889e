"""Storage of version 2 blobs in the data file, in sidecar objects, or by reference.

The sidecar objects of a data file are numbered from 1, in row order. Small payloads share an object
until it is full. Memory use: the batch with the payloads, and the current uploads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

import numpy as np

from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import VariableWidth
from alance.format.encode.blobs import (
    DEDICATED,
    EXTERNAL,
    INLINE,
    PACKED_KIND,
    BlobLimits,
    BlobRows,
    describe_blobs,
    uri_array,
)
from alance.format.encode.leaves import block_of
from alance.format.encode.rows import select
from alance.io.loop.tasks import all_of, each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from alance.base.arrays import Bytes, Mask, UInt32s, UInt64s
    from alance.format.blocks import Block
    from alance.format.encode.blobs import PlacedBlobs
    from alance.format.encode.container import FileBuilder
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.io.reading.pool import DecodePool
    from alance.io.stores.upload import Upload

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


@dataclass(slots=True)
class _Pack:
    """Shared object that small payloads are appended to."""

    blob_id: int
    num_bytes: int = 0


@dataclass(slots=True)
class _Described:
    """Descriptions of rows, each array of shape (n,), with payloads to write to objects."""

    kinds: Bytes
    positions: UInt64s
    sizes: UInt64s
    blob_ids: UInt32s
    uris: dict[int, str]
    alone: list[tuple[int, Bytes]]  # id and content of each dedicated object
    # For each payload, id of its shared object and content to append.
    packed: list[tuple[int, Bytes]]


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
        self._pack: _Pack | None = None
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
            inline, part = await self._pool.run(partial(self._plan, piece, limits))
            placed, chunks = await self._pool.run(partial(self._builder.add_blobs, inline))
            part.positions[part.kinds == INLINE] = placed
            await self._upload_all(chunks)
            await all_of([self._write_alone(part.alone), self._write_packed(part.packed)])
            part.alone, part.packed = [], []
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

    def _plan(self, rows: BlobRows, limits: BlobLimits) -> tuple[VariableWidth, _Described]:
        """Choose the kind of storage of each row; also return the payloads for the data file."""
        if rows.placed is not None:
            return _as_placed(rows.placed, rows.payloads)
        offsets, count = rows.payloads.offsets, rows.num_values
        sizes = np.diff(offsets).astype(np.int64)
        kinds = limits.kinds(sizes)
        kinds[rows.external] = EXTERNAL if rows.kinds is None else rows.kinds
        described = _Described(
            kinds,
            np.zeros(count, np.uint64),
            sizes.astype(np.uint64),
            np.zeros(count, np.uint32),
            dict(zip(rows.external.tolist(), rows.uris, strict=True)),
            [],
            [],
        )
        if len(rows.external):
            assert rows.positions is not None
            assert rows.sizes is not None
            assert rows.base_ids is not None
            described.positions[rows.external] = rows.positions
            described.sizes[rows.external] = rows.sizes
            described.blob_ids[rows.external] = rows.base_ids
        for row in np.flatnonzero((kinds == PACKED_KIND) | (kinds == DEDICATED)).tolist():
            content = rows.payloads.data[int(offsets[row]) : int(offsets[row + 1])]
            if kinds[row] == DEDICATED:
                described.blob_ids[row] = self._new_id()
                described.alone.append((self._last_id, content))
                continue
            pack = self._pack
            if pack is None or pack.num_bytes + len(content) > limits.pack:
                pack = self._pack = _Pack(self._new_id())
            described.blob_ids[row], described.positions[row] = pack.blob_id, pack.num_bytes
            described.packed.append((pack.blob_id, content))
            pack.num_bytes += len(content)
        return _chosen_payloads(rows.payloads, kinds == INLINE), described

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _new(self, blob_id: int) -> Upload:
        assert self._sidecars is not None  # because without sidecars, every blob is already stored
        return self._sidecars.open(blob_id)

    async def _write_alone(self, objects: Sequence[tuple[int, Bytes]]) -> None:
        async def put(blob: tuple[int, Bytes]) -> None:
            async with self._new(blob[0]) as upload:
                await upload.write(blob[1])
                await upload.finish()

        await each(put, objects, at_once=AT_ONCE)

    async def _write_packed(self, pieces: Sequence[tuple[int, Bytes]]) -> None:
        for blob_id, content in pieces:
            if self._open is None or self._open[0] != blob_id:
                await self.finish()
                self._open = blob_id, self._new(blob_id)
            await self._open[1].write(content)


def _as_placed(placed: PlacedBlobs, payloads: VariableWidth) -> tuple[VariableWidth, _Described]:
    """Describe blobs in the places that the caller chose; also return the inline payloads."""
    inline = placed.kinds == INLINE
    described = _Described(
        placed.kinds,
        np.where(inline, 0, placed.positions).astype(np.uint64),
        np.where(inline, np.diff(payloads.offsets), placed.sizes).astype(np.uint64),
        np.where(inline, 0, placed.blob_ids).astype(np.uint32),
        dict(placed.uris),
        [],
        [],
    )
    return _chosen_payloads(payloads, inline), described


def _chosen_payloads(payloads: VariableWidth, chosen: Mask) -> VariableWidth:
    """Return the payloads of the chosen slots."""
    rows = slice(0, len(chosen)) if chosen.all() else np.flatnonzero(chosen)
    selected = select(payloads, rows)
    assert isinstance(selected, VariableWidth)
    return selected


def _block(parts: Sequence[_Described], where: str) -> Block:
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
