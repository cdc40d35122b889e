"""Writing of blobs of version 2: objects beside the data file, and URIs in rows.

    data/{stem}.lance                the data file
    data/{stem}/{id}.blob            an object of blobs; `id` in binary, lowest bit first

A URI below a base path of the table is stored as a path in that base. Other URIs are stored as they
are, or refused. With `external_blob_mode='ingest'`, the objects are copied instead.

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from alance.base.checks import check_choice, check_counts, public_arguments
from alance.base.records import dataclass
from alance.errors import AlanceError, InvalidInputError, UnsupportedError
from alance.format.blocks import VariableWidth
from alance.format.plans import ByteRange
from alance.io.stores.uri import parse_uri

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from alance.format.encode.blobs import BlobRows, PlacedBlobs
    from alance.format.table.fragment import DatasetBasePath
    from alance.io.reading.engine import Engine
    from alance.io.stores.upload import Upload
    from alance.versioning.table import Table

ExternalBlobMode: TypeAlias = Literal["reference", "ingest"]
MODES: Final = ("reference", "ingest")
INGESTED_BYTES: Final = 32 << 20  # bytes of objects copied at once; a larger one is copied alone


@public_arguments
@dataclass(frozen=True, slots=True)
class BlobOptions:
    """Options for writing blobs of version 2, named as in pylance.

    Attributes:
        external_blob_mode: `reference` to store URIs; `ingest` to copy the bytes of their objects.
        allow_external_blob_outside_bases: True to store URIs that are in no base path of the table.
        blob_pack_file_size_threshold: maximum bytes of an object of several blobs; None: the value
            in the field's metadata, or 1 GiB.
    """

    external_blob_mode: ExternalBlobMode = "reference"
    allow_external_blob_outside_bases: bool = False
    blob_pack_file_size_threshold: int | None = None

    def __post_init__(self) -> None:
        mode = self.external_blob_mode
        check_choice("external_blob_mode", mode, MODES)
        if mode == "ingest" and self.allow_external_blob_outside_bases:
            raise InvalidInputError(
                "allow_external_blob_outside_bases: URIs are kept with external_blob_mode "
                "'reference' alone"
            )
        check_counts(self, "blob_pack_file_size_threshold")


def blob_path(data_file: str, blob_id: int) -> str:
    """Return the path or location of a blob's object, given that of its data file."""
    return f"{data_file.removesuffix('.lance')}/{f'{blob_id:032b}'[::-1]}.blob"


async def remove_blobs(engine: Engine, data_file: str) -> None:
    """Remove the objects beside a data file. Cost: a LIST, and a request for each 1,000 objects.

    Raises:
        StoreError: the store failed.
    """
    store, path = engine.registry.resolve(data_file.removesuffix(".lance"))
    paths = [entry.path async for entry in store.list(path + "/") if entry.path.endswith(".blob")]
    if paths:
        await store.delete(paths)


@dataclass(slots=True)
class BlobFiles:
    """The blob objects of one data file; see `alance.file.write.blob_placer.Sidecars`.

    Args:
        location: location of the data file.
        bases: base paths of the table, by id.
        is_managed: True if rows may name objects that the table owns.
    """

    engine: Engine
    table: Table
    location: str
    options: BlobOptions
    bases: Mapping[int, DatasetBasePath]
    is_managed: bool = False
    _uploads: list[tuple[str, Upload]] = field(default_factory=list, init=False)
    _roots: dict[str, int] | None = field(default=None, init=False)

    @property
    def pack_bytes(self) -> int | None:
        """Maximum bytes of an object of several blobs; None: the value in the field's metadata."""
        return self.options.blob_pack_file_size_threshold

    def open(self, blob_id: int) -> Upload:
        """Open a new object; `abort` removes it."""
        location = blob_path(self.location, blob_id)
        store, path = self.engine.registry.resolve(location)
        upload = store.open_upload(path)
        upload.background = self.engine.background
        self._uploads.append((location, upload))
        return upload

    async def abort(self) -> list[str]:
        """Abort the uploads. Returns the paths of all objects, some of which may exist."""
        uploads, self._uploads = self._uploads, []
        paths = []
        for location, upload in uploads:
            with suppress(AlanceError):
                await upload.abort()
            paths.append(self.engine.registry.resolve(location)[1])
        return paths

    async def resolved(self, rows: BlobRows, where: str) -> AsyncIterator[BlobRows]:
        """Yield the rows in batches, with the `base_ids` of their URIs or with copied payloads.

        Args:
            where: name of the field, for messages.

        Raises:
            InvalidInputError: a URI is invalid, or is outside of the base paths and such URIs are
                not allowed.
            NotFoundError, StoreError: an object to copy cannot be read.
        """
        if rows.placed is not None:
            self._check_managed(rows.placed, where)
            yield rows
        elif not len(rows.external) or rows.is_resolved:
            if rows.has_managed:
                self._check_allowed(where)
            yield rows
        elif self.options.external_blob_mode == "reference":
            yield await self.engine.pool.run(lambda: self._referring(rows, where))
        else:
            async for piece in self._ingested(rows):
                yield piece

    def _check_allowed(self, where: str) -> None:
        if not self.is_managed:
            raise InvalidInputError(
                f"field {where!r}: parts of objects that the table keeps need "
                "`lance.blob.managed` = `true` in the metadata of its schema"
            )

    def _check_managed(self, placed: PlacedBlobs, where: str) -> None:
        if placed.uris:
            self._check_allowed(where)
        unknown = placed.base_ids - set(self.bases)
        if unknown:
            raise InvalidInputError(
                f"field {where!r}: base path {min(unknown)}: the table has none of this id"
            )

    def _referring(self, rows: BlobRows, where: str) -> BlobRows:
        from alance.format.encode.blobs import UNKNOWN_BASE  # imported in a thread, not on the loop

        if self._roots is None:
            self._roots = {
                _place(base.path): base.id
                for base in self.bases.values()
                if not base.is_dataset_root
            }
        bases = [UNKNOWN_BASE] * len(rows.uris) if rows.base_ids is None else rows.base_ids.tolist()
        references = [
            self._reference(uri, f"field {where!r}: row {row}")
            if base == UNKNOWN_BASE
            else (uri, base)
            for row, uri, base in zip(rows.external.tolist(), rows.uris, bases, strict=True)
        ]
        return replace(
            rows,
            uris=tuple(uri for uri, _ in references),
            base_ids=np.fromiter((base for _, base in references), np.uint32, len(references)),
        )

    def _reference(self, uri: str, what: str) -> tuple[str, int]:
        """Return the part of a URI to store, and the id of its base path; 0 if there is none."""
        assert self._roots is not None
        try:
            if "://" not in uri:
                raise InvalidInputError("expected an absolute URI, with a scheme")
            location = _place(uri)
        except (InvalidInputError, UnsupportedError) as error:
            raise InvalidInputError(f"{what}: {uri!r}: {error}") from error
        inside = [root for root in self._roots if location.startswith(f"{root}/")]
        if inside:
            root = max(inside, key=len)
            return location[len(root) + 1 :], self._roots[root]
        if not self.options.allow_external_blob_outside_bases:
            raise InvalidInputError(
                f"{what}: {uri!r} is in no base path of the table; expected one that is, or "
                "allow_external_blob_outside_bases=True, or external_blob_mode='ingest'"
            )
        return uri, 0

    async def _ingested(self, rows: BlobRows) -> AsyncIterator[BlobRows]:
        """Yield the rows in batches, with the bytes of the objects that they name."""
        assert rows.positions is not None
        assert rows.sizes is not None
        ranges = await asyncio.gather(
            *(
                self._range(uri, int(start), int(size))
                for uri, start, size in zip(rows.uris, rows.positions, rows.sizes, strict=True)
            )
        )
        offsets = rows.payloads.offsets.astype(np.int64)
        sizes = np.diff(offsets)
        sizes[rows.external] = [span.stop - span.start for span in ranges]
        for start, stop in _groups(sizes):
            first, last = np.searchsorted(rows.external, [start, stop]).tolist()
            read = await self.engine.scheduler.read(
                ranges[first:last], reason="blobs to copy", bulk=True
            )
            contents = dict(zip(rows.external[first:last].tolist(), read, strict=True))
            pieces = [
                np.frombuffer(contents[row], np.uint8)
                if row in contents
                else rows.payloads.data[offsets[row] : offsets[row + 1]]
                for row in range(start, stop)
            ]
            ends = np.cumsum([0, *sizes[start:stop].tolist()], dtype=np.int64)
            yield replace(
                rows,
                payloads=VariableWidth(ends, np.concatenate(pieces)),
                valid=None if rows.valid is None else rows.valid[start:stop],
                external=rows.external[:0],
                uris=(),
                positions=None,
                sizes=None,
                kinds=None,
            )

    async def _range(self, uri: str, start: int, size: int) -> ByteRange:
        location = self.table.opened(uri)
        if size == 0:
            size = await self.engine.scheduler.size(location)
        return ByteRange(location, start, start + size)


def _place(uri: str) -> str:
    """Return the normalized location of a URI, without a `/` at its end."""
    address = parse_uri(uri)
    return (address.root + address.path).rstrip("/")


def _groups(sizes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows whose bytes fit in memory together."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + INGESTED_BYTES, "right"))
        yield start, (start := min(len(sizes), max(start + 1, stop)))
