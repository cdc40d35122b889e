"""Writers of blobs for a data file that the caller writes, and of the rows that name them.

    async with await files.open_packed_blob_writer("rows.lance", 1) as packed:
        await packed.write_blobs(payloads)
        array = await packed.finish_array("image")
    schema = pa.schema([packed.field])
    async with files.open_writer("rows.lance", schema) as writer:
        await writer.write(pa.record_batch([array], schema))

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance.base.calls import public
from alance.base.checks import check_count, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.blocks import VariableWidth
from alance.format.encode.blobs import (
    DEDICATED,
    INLINE,
    MANAGED,
    MANAGED_ELSEWHERE,
    PACKED_KIND,
    PREPARED_TYPE,
    check_managed,
)
from alance.format.encode.leaves import as_type, block_of
from alance.format.field import BLOB_V2
from alance.format.numbers import bitmap, validity_of
from alance.format.types import EXTENSION_NAME
from alance.ops.blobs.files import blob_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from alance.base.arrays import Int64s, Mask
    from alance.io.reading.engine import Engine

MAX_BLOB_ID: Final = (1 << 32) - 1
MAX_BLOB_BYTES: Final = (1 << 63) - 1
WRITE_BYTES: Final = 8 << 20  # bytes of payloads that are uploaded together


@public_arguments
@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """Place of a blob that was written beside a data file.

    Attributes:
        kind: 1 for a part of an object (packed), 2 for a whole object (dedicated); None for a null.
        blob_id: number of the object.
        position: offset of the blob in the object.
        size: size of the blob in bytes.
    """

    kind: int | None = None
    blob_id: int = 0
    position: int = 0
    size: int = 0


class _BlobWriter:
    """Writer of an object beside a data file, which becomes visible when it is complete.

    For one task at a time.
    """

    def __init__(self, engine: Engine, data_file: str, blob_id: int) -> None:
        """Prepare the upload; sends no request.

        Raises:
            InvalidInputError: `data_file` is not the name of a data file, or `blob_id` is invalid.
        """
        check_count("blob_id", blob_id, most=MAX_BLOB_ID)
        if not data_file.endswith(".lance") or data_file.endswith("/.lance"):
            raise InvalidInputError(f"{data_file}: expected a data file's path, ending in '.lance'")
        store, path = engine.registry.resolve(blob_path(data_file, blob_id))
        self._store = store  # otherwise the registry may drop the store
        self._path = path
        self._blob_id = int(blob_id)
        self._pool = engine.pool
        self._upload = store.open_upload(path)
        self._upload.background = engine.background

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._upload.where!r}, {self._upload.num_bytes} bytes)"

    @property
    def blob_id(self) -> int:
        """Id of the object, unique among those of the data file."""
        return self._blob_id

    @property
    def path(self) -> str:
        """Path of the object in its store."""
        return self._path

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._upload.__aexit__(kind, error, trace)

    async def _append(self, data: bytes) -> int:
        """Append bytes, and return the offset of the first one."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidInputError(f"blob: expected bytes, found {type(data).__name__}")
        start = self._upload.num_bytes
        content = bytes(data)  # a copy, because the upload holds it
        await self._upload.write(content)
        return start


@public
class PackedBlobWriter(_BlobWriter):
    """Writer of one object with several blobs.

    Use it with `async with`, which drops the object unless `finish` or `finish_array` was called.
    For one task at a time.
    """

    def __init__(self, engine: Engine, data_file: str, blob_id: int) -> None:
        super().__init__(engine, data_file, blob_id)
        self._sizes: list[Int64s] = []  # -1 for a null
        self._field: pa.Field | None = None

    @property
    def field(self) -> pa.Field:
        """Field of the array of `finish_array`.

        Raises:
            InvalidInputError: `finish_array` was not called.
        """
        if self._field is None:
            raise InvalidInputError(f"{self!r}: `field` exists only after `finish_array`")
        return self._field

    async def write_blob(self, data: bytes) -> None:
        """Append a blob. Waits while too many bytes are under way.

        Cost: no request until the object exceeds 8 MiB; then one that begins the upload, and one
        for each part of 8 MiB.

        Args:
            data: bytes of the blob.

        Raises:
            InvalidInputError: `data` is not bytes, or the object is finished.
            StoreError: the store failed.
        """
        start = await self._append(data)
        self._sizes.append(np.array([self._upload.num_bytes - start], np.int64))

    async def write_blobs(self, payloads: pa.Array | pa.ChunkedArray) -> None:
        """Append many blobs.

        Cost: as `write_blob`.

        Args:
            payloads: binary values of any type; nulls become null rows.

        Raises:
            InvalidInputError: the values are not binary, or the object is finished.
            StoreError: the store failed.
        """
        chunks = payloads.chunks if isinstance(payloads, pa.ChunkedArray) else [payloads]
        for chunk in chunks:
            if not isinstance(chunk, pa.Array) or "binary" not in str(chunk.type):
                kind = chunk.type if isinstance(chunk, pa.Array) else type(chunk).__name__
                raise InvalidInputError(f"payloads: expected binary values, found {kind}")
        for chunk in chunks:
            block, sizes = await self._pool.run(lambda chunk=chunk: _contents(chunk))  # type: ignore[misc]
            for start in range(0, len(block.data), WRITE_BYTES):
                await self._upload.write(block.data[start : start + WRITE_BYTES])
            self._sizes.append(sizes)

    async def finish(self) -> list[BlobDescriptor]:
        """Make the object visible, and return the location of each blob, in the order of the calls.

        Cost: one PUT; for a large object, a PUT of its last part and a request to complete the
        upload.

        Raises:
            InvalidInputError: the object is already finished.
            StoreError: the store failed; the object does not exist.
        """
        starts, sizes = await self._end()
        return [
            BlobDescriptor(PACKED_KIND, self._blob_id, start, size)
            if size >= 0
            else BlobDescriptor()
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]

    async def finish_array(self, field_name: str) -> pa.StructArray:
        """Make the object visible, and return an array of descriptions for a `FileWriter`.

        Cost: as `finish`.

        Args:
            field_name: name of the array's field, which `field` returns from then on.

        Raises:
            InvalidInputError: the object is already finished.
            StoreError: the store failed; the object does not exist.
        """
        starts, sizes = await self._end()
        self._field = _field(field_name)
        return _packed(self._blob_id, starts, sizes)

    async def _end(self) -> tuple[Int64s, Int64s]:
        """Finish the upload, and return the start and size of each blob, (n,); -1 for a null."""
        await self._upload.finish()
        sizes = np.concatenate([np.empty(0, np.int64), *self._sizes])
        ends = np.cumsum(np.maximum(sizes, 0))
        return ends - np.maximum(sizes, 0), sizes


@public
class DedicatedBlobWriter(_BlobWriter):
    """Writer of one blob in a dedicated object, piece by piece.

    Use it with `async with`, which drops the object unless `finish` was called. For one task at a
    time.
    """

    async def write(self, data: bytes) -> None:
        """Append bytes of the blob. Waits while too many bytes are under way.

        Cost: no request until the object exceeds 8 MiB; then one that begins the upload, and one
        for each part of 8 MiB.

        Args:
            data: the next bytes.

        Raises:
            InvalidInputError: `data` is not bytes, or the object is finished.
            StoreError: the store failed.
        """
        await self._append(data)

    async def finish(self) -> BlobDescriptor:
        """Make the object visible, and return the location of the blob.

        Cost: one PUT; for a large object, a PUT of its last part and a request to complete the
        upload.

        Raises:
            InvalidInputError: the object is already finished.
            StoreError: the store failed; the object does not exist.
        """
        size = await self._upload.finish()
        return BlobDescriptor(DEDICATED, self._blob_id, 0, size)


class _Row(NamedTuple):
    kind: int | None = None
    data: bytes | None = None
    blob_id: int | None = None
    blob_size: int | None = None
    position: int | None = None
    uri: str | None = None


@public
class BlobDescriptorArrayBuilder:
    """Builder of an array for a `FileWriter` from blobs that are already stored. Sends no request.

    After `finish`, each method that adds something raises `InvalidInputError`.

    Args:
        column: name of the array's field.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._parts: list[pa.StructArray] = []
        self._rows: list[_Row] = []
        self._is_finished = False

    def __repr__(self) -> str:
        return f"BlobDescriptorArrayBuilder({self._column!r})"

    @property
    def field(self) -> pa.Field:
        """Field of the array."""
        return _field(self._column)

    def extend_packed(self, blob_id: int, offsets: Sequence[int], sizes: Sequence[int]) -> None:
        """Add parts of an object.

        Args:
            blob_id: number of the object.
            offsets: offset of each blob in the object.
            sizes: size of each blob in bytes.

        Raises:
            InvalidInputError: different numbers of offsets and sizes, or negative ones.
        """
        self._check(blob_id)
        starts, lengths = (np.array(numbers, np.int64) for numbers in (offsets, sizes))
        if starts.shape != lengths.shape or starts.ndim != 1:
            raise InvalidInputError(f"{len(offsets)} offsets for {len(sizes)} sizes")
        if len(starts) and min(starts.min(), lengths.min()) < 0:
            raise InvalidInputError("offsets, sizes: expected no negative number")
        self._end_rows()
        self._parts.append(_packed(blob_id, starts, lengths))

    def append_dedicated(self, blob_id: int, size: int) -> None:
        """Add a blob that is a whole object.

        Args:
            blob_id: number of the object, at least 1.
            size: size in bytes.

        Raises:
            InvalidInputError: the number or the size is out of range.
        """
        self._check(blob_id)
        check_count("size", size, least=0, most=MAX_BLOB_BYTES)
        self._rows.append(_Row(DEDICATED, None, blob_id, size))

    def append_managed(
        self, uri: str, offset: int, size: int, *, base_id: int | None = None
    ) -> None:
        """Add a part of an object that already exists and will not change.

        `write_dataset` and `insert` also accept such rows, if the metadata of the table's schema
        has `lance.blob.managed` = `true`. No request is sent: the caller must make sure that the
        object exists until the row is committed.

        Args:
            uri: path of the object, relative to the table's folder or to the base path.
            offset: offset of the blob in the object.
            size: size of the blob in bytes; 0 for an empty blob.
            base_id: id of a base path of the table; None for the table's folder.

        Raises:
            InvalidInputError: the path is not relative, or offset or size is invalid.
        """
        self._check()
        check_count("offset", offset, least=0, most=MAX_BLOB_BYTES)
        check_count("size", size, least=0, most=MAX_BLOB_BYTES)
        check_managed(uri, offset, size, self._column)
        if base_id is not None:
            check_count("base_id", base_id, least=0, most=MAX_BLOB_ID)
        kind = MANAGED if base_id is None else MANAGED_ELSEWHERE
        self._rows.append(_Row(kind, None, base_id, size, offset, uri))

    def append(self, value: BlobDescriptor) -> None:
        """Add the result of a writer.

        Args:
            value: result of `finish`.

        Raises:
            InvalidInputError: `value` is not the result of a writer.
        """
        self._check()
        if not isinstance(value, BlobDescriptor):
            raise InvalidInputError(
                f"{value!r}: expected a BlobDescriptor, found {type(value).__name__}"
            )
        if value.kind is None:
            self.append_null()
        else:
            position = value.position if value.kind == PACKED_KIND else None
            self._rows.append(_Row(value.kind, None, value.blob_id, value.size, position))

    def extend(self, values: Iterable[BlobDescriptor]) -> None:
        """Add the results of a writer for several rows.

        Args:
            values: results of `finish`.

        Raises:
            InvalidInputError: an item is not the result of a writer.
        """
        for value in values:
            self.append(value)

    def append_inline(self, data: bytes) -> None:
        """Add a blob that is stored in the data file.

        Args:
            data: bytes of the blob, which are copied.

        Raises:
            InvalidInputError: `data` is not bytes.
        """
        self._check()
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidInputError(f"blob: expected bytes, found {type(data).__name__}")
        self._rows.append(_Row(INLINE, bytes(data)))

    def append_null(self) -> None:
        """Add a null."""
        self._check()
        self._rows.append(_Row())

    def finish(self) -> pa.StructArray:
        """Return the array, which is empty if nothing was added.

        Raises:
            InvalidInputError: the array is already finished.
        """
        self._check()
        self._end_rows()
        self._is_finished = True
        parts = self._parts or [_array(0, None, {})]
        return pa.concat_arrays(parts)

    def _check(self, blob_id: int = 1) -> None:
        if self._is_finished:
            raise InvalidInputError(f"{self!r}: it is finished")
        check_count("blob_id", blob_id, most=MAX_BLOB_ID)

    def _end_rows(self) -> None:
        if not self._rows:
            return
        kinds, data, blob_ids, sizes, positions, uris = zip(*self._rows, strict=True)
        self._rows = []
        columns = {
            "kind": pa.array(kinds, pa.uint8()),
            "data": pa.array(data, pa.large_binary()),
            "blob_id": pa.array(blob_ids, pa.uint32()),
            "blob_size": pa.array(sizes, pa.uint64()),
            "position": pa.array(positions, pa.uint64()),
            "uri": pa.array(uris, pa.string()),
        }
        valid = validity_of(columns["kind"])
        self._parts.append(_array(len(kinds), valid, columns))


def _field(name: str) -> pa.Field:
    return pa.field(name, PREPARED_TYPE, metadata={EXTENSION_NAME: BLOB_V2})


def _packed(blob_id: int, starts: Int64s, sizes: Int64s) -> pa.StructArray:
    """Return the descriptions of parts of an object; null for each size -1."""
    nulls = sizes < 0
    columns = {
        "kind": pa.array(np.full(len(sizes), PACKED_KIND, np.uint8), mask=nulls),
        "blob_id": pa.array(np.full(len(sizes), blob_id, np.uint32), mask=nulls),
        "blob_size": pa.array(np.maximum(sizes, 0).astype(np.uint64), mask=nulls),
        "position": pa.array(starts.astype(np.uint64), mask=nulls),
    }
    return _array(len(sizes), ~nulls if nulls.any() else None, columns)


def _array(count: int, valid: Mask | None, columns: dict[str, pa.Array]) -> pa.StructArray:
    """Build descriptions from some of their columns; missing columns are null."""
    fields = [PREPARED_TYPE.field(number) for number in range(PREPARED_TYPE.num_fields)]
    children = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in fields
    ]
    return pa.Array.from_buffers(PREPARED_TYPE, count, [bitmap(valid)], children=children)


def _contents(payloads: pa.Array) -> tuple[VariableWidth, Int64s]:
    """Return the bytes of payloads, and the size of each, or -1 for a null. CPU work."""
    valid = validity_of(payloads)
    block = block_of(as_type(payloads, pa.large_binary(), "payloads"), valid, "payloads")
    assert isinstance(block, VariableWidth)
    sizes = np.diff(block.offsets).astype(np.int64)
    if valid is not None:
        sizes[~valid] = -1
    return block, sizes
