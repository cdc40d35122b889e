"""Writer of 2.0 files: Arrow arrays are buffered until a field has a full page.

A list and its items are written together, as readers of 2.0 expect; children of structs are written
separately. The base class for all versions is in `alance.file.write.writer`.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import AlanceError
from alance.file.write.writer import (
    NUM_BYTES_OF,
    DataFileWriter,
    WrittenFile,
    check_version,
    joined,
    largest,
)
from alance.format.layouts.fields import leaf_columns
from alance.format.v2_0.encode import (
    ArrayFileBuilder,
    Blobs,
    blob_page,
    field_pages,
    header_page,
    is_header,
    outside_lists,
)
from alance.io.loop.readahead import grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.format.encode.page_inputs import EncodedPage
    from alance.format.field import Field


class _Waiting:
    """Waiting rows of a leaf or list that is not in a list."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.parts: list[pa.Array] = []
        self.num_bytes = 0

    def add(self, array: pa.Array) -> None:
        if len(array):
            self.parts.append(array)
            self.num_bytes += array.nbytes

    def take(self, page_bytes: int) -> list[pa.Array]:
        """Remove the waiting rows, and return them in pieces of about a page."""
        if not self.parts:
            return []
        whole = joined(self.parts)
        pieces = max(1, min(len(whole), round(self.num_bytes / page_bytes)))
        step = -(-len(whole) // pieces)
        self.parts, self.num_bytes = [], 0
        return [whole.slice(start, step) for start in range(0, len(whole), step)]


class ArrayWriter(DataFileWriter):
    """Writer of a data file of version 2.0, page by page.

    Raises:
        UnsupportedError: 2.0 files cannot hold a type of the schema.
    """

    def _begin(self) -> None:
        leaves = [leaf.field for root in self._schema.fields for leaf in leaf_columns(root)]
        check_version(self._version, leaves)
        self._arrays = ArrayFileBuilder(self._schema)
        self._waiting: dict[int, _Waiting] = {}  # by field id

    def _bytes_so_far(self) -> int:
        return self._arrays.num_bytes + sum(waiting.num_bytes for waiting in self._waiting.values())

    async def _seal(self) -> WrittenFile:
        await self._flush([*self._waiting.values()])
        for content in self._extra_buffers:
            await self._upload_all(self._arrays.add_buffer(content)[1])
        await self._upload_all(self._arrays.finish())
        return WrittenFile(self.num_rows, self._arrays.num_bytes, self._arrays.columns)

    async def _write(self, batch: pa.RecordBatch) -> None:
        for top, rows in zip(self._schema.fields, batch.columns, strict=True):
            try:
                for field, array in outside_lists(top, rows):
                    if is_header(field):
                        number = self._arrays.columns[field.id]
                        self._arrays.add_page(number, header_page(len(array)))
                    else:
                        self._waiting.setdefault(field.id, _Waiting(field)).add(array)
            except AlanceError as error:
                error.add_note(f"while field {top.name!r} was written")
                raise
        waiting = [*self._waiting.values()]
        await self._flush([own for own in waiting if own.num_bytes >= self._page_bytes])
        await self._flush(largest(waiting, self._buffer_bytes))

    def _pages_of(self, waiting: _Waiting) -> list[tuple[int, EncodedPage | Blobs]]:
        """Encode all waiting rows of a field as pages. CPU work."""
        return [
            output
            for piece in waiting.take(self._page_bytes)
            for output in field_pages(waiting.field, piece)
        ]

    async def _flush(self, columns: Sequence[_Waiting]) -> None:
        """Write waiting rows, about a page per thread at a time."""
        filled = [waiting for waiting in columns if waiting.parts]
        for group in grouped(filled, NUM_BYTES_OF, self._threads * self._page_bytes):
            pages = await self._in_threads([partial(self._pages_of, waiting) for waiting in group])
            for field_id, output in chain.from_iterable(pages):
                await self._put(self._arrays.columns[field_id], output)

    async def _put(self, number: int, output: EncodedPage | Blobs) -> None:
        if isinstance(output, Blobs):
            place = partial(self._arrays.add_blobs, output.payloads)
            positions, chunks = await self._pool.run(place)
            await self._upload_all(chunks)
            sizes = np.diff(output.payloads.offsets).astype(np.int64)
            output = blob_page(positions, sizes, output.valid)
        await self._upload_all(self._arrays.add_page(number, output))
