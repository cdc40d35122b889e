"""Where the bytes of blobs are, from their descriptions.

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.encode.blob_v2 import DEDICATED, EXTERNAL, INLINE, PACKED
from alance.format.numbers import as_mask, as_numbers
from alance.ops.blobs.files import blob_path

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from alance.format.field import Field
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

    U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """Where the bytes of a blob are; `num_bytes` -1: the whole object, of a size not known yet."""

    location: str
    start: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class External:
    """An object that a row names: its URI, and what that is relative to (0: nothing)."""

    uri: str
    position: int
    size: int
    base_id: int


async def places_of(
    snapshot: Snapshot, field: Field, descriptions: pa.Array, fragments: U64
) -> list[BlobPlace | None]:
    """Where the bytes of each description are; None for a null.

    Cost: a HEAD for each whole object that rows name.

    Args:
        field: of the blobs, at any depth.
        fragments: of the rows; shape (n,).
    """
    found = await snapshot.engine.pool.run(
        lambda: described(snapshot, field, descriptions, fragments)
    )
    places = [_located(snapshot, one) if isinstance(one, External) else one for one in found]
    unknown = {one.location for one in places if one is not None and one.num_bytes < 0}
    if not unknown:
        return places
    names = sorted(unknown)
    sizes = await asyncio.gather(*(snapshot.engine.scheduler.size(name) for name in names))
    known = dict(zip(names, sizes, strict=True))
    return [
        replace(one, num_bytes=known[one.location])
        if one is not None and one.num_bytes < 0
        else one
        for one in places
    ]


def described(
    snapshot: Snapshot, field: Field, descriptions: pa.Array, fragments: U64
) -> list[BlobPlace | External | None]:
    """What each description says; None for a null. CPU.

    Raises:
        CorruptFileError: bytes beyond their file.
        UnsupportedError: blobs of a kind that is not known.
    """
    columns = [_numbers(descriptions, "position"), _numbers(descriptions, "size")]
    if field.is_blob_v2:
        columns += [_numbers(descriptions, "kind"), _numbers(descriptions, "blob_id")]
        uris = descriptions.field(4)
    valid = as_mask(descriptions.is_valid()).tolist()
    handles = {one: snapshot.handle(one) for one in np.unique(fragments).tolist()}
    found: list[BlobPlace | External | None] = []
    for row, (fragment, *numbers) in enumerate(zip(fragments.tolist(), *columns, strict=True)):
        if not valid[row]:
            found.append(None)
            continue
        position, size, kind, blob_id = numbers if field.is_blob_v2 else (*numbers, INLINE, 0)
        if kind == EXTERNAL:
            found.append(External(uris[row].as_py(), position, size, blob_id))
        else:
            found.append(_place(handles[fragment], field, position, size, kind, blob_id))
    return found


def _numbers(descriptions: pa.Array, name: str) -> list[int]:
    found: list[int] = as_numbers(descriptions.field(name).fill_null(0)).tolist()
    return found


def _place(
    handle: FragmentHandle, field: Field, position: int, size: int, kind: int, blob_id: int
) -> BlobPlace | None:
    source = handle.source_of(field.id)
    if kind == INLINE:
        if (position, size) == (1, 0) and field.is_blob_v1:
            return None  # how files of 2.0 store a null
        if position + size > source.file_bytes:
            raise CorruptFileError(
                f"blob of {size} bytes at {position} in {source.location}: "
                f"the file has {source.file_bytes}"
            )
        return BlobPlace(source.location, position, size)
    if kind in (PACKED, DEDICATED):
        return BlobPlace(blob_path(source.location, blob_id), position, size)
    raise UnsupportedError(f"blob of kind {kind} in {source.location}: not known to this alance")


def _located(snapshot: Snapshot, one: External) -> BlobPlace:
    location = snapshot.external_location(one.uri, one.base_id)
    return BlobPlace(location, one.position, one.size or -1)
