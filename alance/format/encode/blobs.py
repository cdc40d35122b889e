"""Blob columns: rows of payloads, and pages of descriptions that locate the payloads.

  version 1    a buffer per payload in the same file; the column has (position, size)
  version 2    the column has kind, position, size, blob id and URI of each payload

Users pass rows of version 2 as payloads, or as references to objects:

  large_binary, binary, ...                    payloads
  struct<data, uri>                            payloads, or whole objects
  struct<data, uri, position, size>            payloads, or parts of objects
  struct<data, uri, position, size, base_id>   likewise, with the base of `uri`
  struct<kind, data, uri, blob_id, blob_size, position>
                                               payloads, parts of sidecar objects that the caller
                                               has written, or parts of managed objects that the
                                               table keeps

The size of a payload, compared with `BlobLimits`, determines where it is stored:

  > dedicated            an object of its own
  > inline               an object shared by blobs of the file, up to `pack` bytes
  else                   a buffer of the data file

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import VariableWidth, pairs_block
from alance.format.encode.leaves import as_type, block_of
from alance.format.encode.levels import layer_names
from alance.format.encode.page_inputs import EncodedPage, PageMode, page_by_mode
from alance.format.field import BLOB_V2_TYPE
from alance.format.layouts.base import Layer, PageValues
from alance.format.numbers import (
    as_numbers,
    bitmap,
    storage_of,
    strings_array,
    to_arrow,
    validity_of,
)
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s, Mask, UInt32s, UInt64s
    from alance.format.encode.page_inputs import Hints
    from alance.format.field import Field

    Numbers = npt.NDArray[np.integer[Any]]

INLINE: Final = 0
PACKED_KIND: Final = 1
DEDICATED: Final = 2
EXTERNAL: Final = 3
MANAGED: Final = 4  # part of a managed object in the table's folder, by its path there
MANAGED_ELSEWHERE: Final = 5  # part of a managed object below a base path
UNKNOWN_BASE: Final = (1 << 32) - 1  # reserved id, which no base path has
INLINE_BLOB_BYTES: Final = 64 << 10
DEDICATED_BYTES: Final = 4 << 20
PACK_BYTES: Final = 1 << 30
INLINE_KEY: Final = "lance-encoding:blob-inline-size-threshold"
DEDICATED_KEY: Final = "lance-encoding:blob-dedicated-size-threshold"
PACK_KEY: Final = "lance-encoding:blob-pack-file-size-threshold"
_CHILDREN: Final = {
    "data": pa.large_binary(),
    "uri": pa.string(),
    "position": pa.uint64(),
    "size": pa.uint64(),
    "base_id": pa.uint32(),
    "kind": pa.uint8(),
}


PREPARED_TYPE: Final = pa.struct(  # type of blobs that the caller has stored
    [
        ("kind", pa.uint8()),
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("blob_id", pa.uint32()),
        ("blob_size", pa.uint64()),
        ("position", pa.uint64()),
    ]
)


def encode_blob_page(
    field: Field, values: PageValues, positions: Int64s, hints: Hints
) -> EncodedPage:
    """Encode a page of descriptions of version 1 blobs.

    Args:
        positions: file positions of the payloads, from `FileBuilder.add_blobs`; shape (n,).
    """
    payloads = values.values
    if values.rep is not None:
        raise UnsupportedError(f"field {field.name!r}: blobs of version 1 inside lists")
    if not isinstance(payloads, VariableWidth) or len(positions) != payloads.num_values:
        raise InvalidInputError(
            f"field {field.name!r}: {len(positions)} positions for {payloads.num_values} blobs"
        )
    places = positions.astype("<u8")
    sizes = np.diff(payloads.offsets).astype("<u8")
    if values.definition is not None:
        # A null is stored as its definition level, shifted by the bits of a repetition level.
        absent = values.definition > 0
        places[absent] = values.definition[absent].astype("<u8") << 16
        sizes[absent] = 0
    block = pairs_block(places, sizes)
    rows = PageValues((Layer.ALL_VALID_ITEM,), None, None, block, values.num_rows)
    inner = page_by_mode(rows, hints, PageMode.CHUNKS)
    if not isinstance(inner.layout, pb.PageLayout):
        raise UnsupportedError(f"field {field.name!r}: version 2.3 has no blobs of version 1")
    layout = pb.BlobLayout(inner_layout=inner.layout, layers=layer_names(values.layers))
    page = pb.PageLayout(blob_layout=layout)
    return EncodedPage.of(page, inner.buffers, inner.num_rows, inner.search)


def describe_blobs(
    kinds: Bytes,
    positions: Numbers,
    sizes: Numbers,
    blob_ids: Numbers,
    uris: pa.Array | None = None,
    valid: Mask | None = None,
) -> pa.Array:
    """Build descriptions of version 2 blobs, of type `field.BLOB_V2_TYPE`, for `leaf_values`.

    Args:
        kinds: 0 inline, 1 packed, 2 dedicated, 3 external; shape (n,).
        positions: absolute position in this file (inline), in the sidecar (packed), or in the
            object.
        blob_ids: id of the sidecar, or of the base path; else 0.
        uris: URIs; None if all are empty.
    """
    count = len(kinds)
    if uris is None:
        uris = uri_array(count, {})
    children = [
        to_arrow(kinds.astype(np.uint8)),
        to_arrow(positions.astype(np.uint64)),
        to_arrow(sizes.astype(np.uint64)),
        to_arrow(blob_ids.astype(np.uint32)),
        uris,
    ]
    return pa.Array.from_buffers(BLOB_V2_TYPE, count, [bitmap(valid)], children=children)


def uri_array(count: int, uris: Mapping[int, str]) -> pa.Array:
    """Build an array of `count` strings, which are empty in rows without a URI.

    Args:
        uris: URIs by row number, ascending.
    """
    texts = [text.encode() for text in uris.values()]
    ends = np.zeros(count + 1, np.int32)
    ends[np.fromiter(uris, np.int64, len(uris)) + 1] = [len(text) for text in texts]
    np.cumsum(ends, out=ends)
    return strings_array(pa.string(), ends, b"".join(texts))


@dataclass(frozen=True, slots=True)
class BlobLimits:
    """Maximum bytes of an inline blob, of a blob in a shared object, and of a shared object."""

    inline: int = INLINE_BLOB_BYTES
    dedicated: int = DEDICATED_BYTES
    pack: int = PACK_BYTES

    @classmethod
    def of(cls, field: Field, pack: int | None = None) -> BlobLimits:
        """Return the limits in a field's metadata, with defaults for missing keys.

        Args:
            pack: largest size of a shared object; None for the limit in the metadata.
        """
        return cls(
            _limit(field, INLINE_KEY, INLINE_BLOB_BYTES, at_least=0),
            _limit(field, DEDICATED_KEY, DEDICATED_BYTES, at_least=1),
            pack or _limit(field, PACK_KEY, PACK_BYTES, at_least=1),
        )

    def kinds(self, sizes: Int64s) -> Bytes:
        """Return the kind of storage for payloads of these sizes; shape (n,)."""
        kinds = np.where(sizes > self.inline, PACKED_KIND, INLINE)
        return np.where(sizes > self.dedicated, DEDICATED, kinds).astype(np.uint8)


def _limit(field: Field, key: str, default: int, at_least: int) -> int:
    text = field.metadata.get(key)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < at_least:
        raise InvalidInputError(
            f"field {field.name!r}: {key}={text!r}, expected a number of bytes from {at_least} on"
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class PlacedBlobs:
    """Descriptions of blobs, some of which the caller has stored; each array has shape (n,).

    Attributes:
        kinds: kind of each blob; INLINE for nulls, and for payloads that the writer has to store.
        positions, sizes, blob_ids: fields of the description of a stored blob; for
            `MANAGED_ELSEWHERE`, `blob_ids` has the id of the base path.
        uris: paths of managed objects, by slot number.
    """

    kinds: Bytes
    positions: UInt64s
    sizes: UInt64s
    blob_ids: UInt32s
    uris: Mapping[int, str]

    @property
    def is_managed(self) -> bool:
        """True if all rows are payloads, nulls or parts of managed objects."""
        return bool(np.isin(self.kinds, (INLINE, MANAGED, MANAGED_ELSEWHERE)).all())

    @property
    def base_ids(self) -> set[int]:
        """Ids of the base paths of managed objects."""
        return {*self.blob_ids[self.kinds == MANAGED_ELSEWHERE].tolist()}


@dataclass(frozen=True, slots=True)
class BlobRows:
    """Slots of a version 2 blob column, before their payloads are stored.

    Attributes:
        payloads: payload of each slot; empty for nulls and external blobs.
        valid: mask of non-null slots; None if there are no nulls.
        external: numbers of slots that reference an object, ascending; shape (m,).
        uris: URIs of the referenced objects.
        positions, sizes: ranges in the referenced objects; size 0 means the whole object.
        base_ids: id of each URI's base path; `UNKNOWN_BASE` for a URI that is not resolved yet.
            None if no URI is resolved yet.
        kinds: `EXTERNAL` or a kind of managed object for each reference; None if all are
            `EXTERNAL`.
        placed: descriptions of blobs that the caller has stored; None if the writer stores all
            payloads.
    """

    payloads: VariableWidth
    valid: Mask | None
    external: Int64s
    uris: tuple[str, ...] = ()
    positions: UInt64s | None = None
    sizes: UInt64s | None = None
    base_ids: UInt32s | None = None
    kinds: Bytes | None = None
    placed: PlacedBlobs | None = None

    @property
    def num_values(self) -> int:
        return self.payloads.num_values

    @property
    def has_managed(self) -> bool:
        """True if any reference is to a part of a managed object."""
        return self.kinds is not None and bool((self.kinds != EXTERNAL).any())

    @property
    def is_resolved(self) -> bool:
        """True if the base path of each URI is known."""
        return self.base_ids is not None and UNKNOWN_BASE not in self.base_ids


def blob_rows(array: pa.Array, valid: Mask | None, where: str) -> BlobRows:
    """Parse a blob column of one of the Arrow types that the module's docstring lists.

    Raises:
        InvalidInputError: the type is none of these, a slot has both or neither of `data` and
            `uri`, a URI is empty, or a range is incomplete or empty.
    """
    array = storage_of(array)
    nowhere = np.empty(0, np.int64)
    if not pa.types.is_struct(array.type):
        return BlobRows(_payloads(array, valid, where), valid, nowhere)
    names = array.type.names
    if names == PREPARED_TYPE.names:
        return _placed(array, valid, where)
    children = _children(array, names, where)
    data, uri = children["data"], children["uri"]
    here = np.ones(len(array), np.bool_) if valid is None else valid
    has_data, has_uri = _not_null(data, here), _not_null(uri, here)
    _refuse(here & (has_data == has_uri), where, "must have one of `data` and `uri`")
    external = np.flatnonzero(has_uri)
    payloads = _payloads(data, has_data, where)
    position, size = children.get("position"), children.get("size")
    if position is None or size is None:
        nothing = np.zeros(len(external), np.uint64)
        return BlobRows(payloads, valid, external, _texts(uri, external, where), nothing, nothing)
    from_here, to_there = _not_null(position, here), _not_null(size, here)
    _refuse(from_here != to_there, where, "must have both `position` and `size`, or none of them")
    _refuse(from_here & ~has_uri, where, "has a range and no `uri`")
    sizes = as_numbers(size.fill_null(0))
    _refuse(to_there & (sizes == 0), where, "has a range of no bytes")
    base, kind = children.get("base_id"), children.get("kind")
    kinds = None if kind is None else as_numbers(kind.fill_null(EXTERNAL))
    if kinds is not None:
        is_known = np.isin(kinds, (EXTERNAL, MANAGED, MANAGED_ELSEWHERE))
        _refuse(has_uri & ~is_known, where, "must be of kind 3 (external), 4 or 5 (managed)")
    return BlobRows(
        payloads,
        valid,
        external,
        _texts(uri, external, where),
        as_numbers(position.fill_null(0))[external],
        sizes[external],
        None if base is None else as_numbers(base.fill_null(UNKNOWN_BASE))[external],
        None if kinds is None else kinds[external],
    )


def _children(array: pa.Array, names: list[str], where: str) -> dict[str, pa.Array]:
    if names not in [list(_CHILDREN)[:count] for count in (2, 4, 5, 6)]:
        raise InvalidInputError(
            f"field {where!r}: a struct of {names} where blobs are expected: binary values, or "
            "structs of data, uri and, if objects have ranges, position, size"
        )
    return {
        name: as_type(array.field(number), _CHILDREN[name], f"{where}.{name}")
        for number, name in enumerate(names)
    }


def _placed(array: pa.Array, valid: Mask | None, where: str) -> BlobRows:
    children = {
        field.name: as_type(array.field(number), field.type, where)
        for number, field in enumerate(PREPARED_TYPE)
    }
    here = np.ones(len(array), np.bool_) if valid is None else valid
    data = children["data"]
    has_data = _not_null(data, here)
    numbers = {
        name: as_numbers(children[name].fill_null(0))
        for name in ("kind", "blob_id", "blob_size", "position")
    }
    kinds = np.where(here, numbers["kind"], INLINE).astype(np.uint8)
    _refuse(here & ~_not_null(children["kind"], here), where, "has no `kind`")
    retained = here & ((kinds == MANAGED) | (kinds == MANAGED_ELSEWHERE))
    _refuse(
        (kinds > DEDICATED) & ~retained,
        where,
        "must be of kind 0 (inline), 1 (packed), 2 (dedicated), 4 or 5 (managed)",
    )
    is_inline = here & (kinds == INLINE)
    _refuse(here & (is_inline != has_data), where, "must have `data` if it is inline, else none")
    beside = kinds != INLINE
    _refuse(beside & ~retained & (numbers["blob_id"] == 0), where, "has no `blob_id`")
    _refuse(beside & ~_not_null(children["blob_size"], here), where, "has no `blob_size`")
    ids = np.where(kinds == MANAGED, 0, numbers["blob_id"]).astype(np.uint32)
    slots = np.flatnonzero(retained).tolist()
    uris = {slot: children["uri"][slot].as_py() or "" for slot in slots}
    for slot, path in uris.items():
        check_managed(path, int(numbers["position"][slot]), int(numbers["blob_size"][slot]), where)
    placed = PlacedBlobs(kinds, numbers["position"], numbers["blob_size"], ids, uris)
    payloads = _payloads(data, has_data, where)
    return BlobRows(payloads, valid, np.empty(0, np.int64), placed=placed)


def check_managed(path: str, position: int, size: int, where: str) -> None:
    """Check a reference to a part of a managed object."""
    parts = path.split("/")
    if {"", ".", ".."} & {*parts} or "\\" in path or "://" in path:
        raise InvalidInputError(
            f"field {where!r}: {path!r}: expected the path of an object, relative to the table's "
            "folder or to a base path"
        )
    if position < 0 or size < 0 or position + size >= 1 << 64:
        raise InvalidInputError(
            f"field {where!r}: {size} bytes at {position} of {path!r}: no object has such"
        )


def _payloads(array: pa.Array, valid: Mask | None, where: str) -> VariableWidth:
    if not (pa.types.is_null(array.type) or "binary" in str(array.type)):
        raise InvalidInputError(f"field {where!r}: {array.type} where blobs are expected")
    payloads = block_of(as_type(array, pa.large_binary(), where), valid, where)
    assert isinstance(payloads, VariableWidth)
    return payloads


def _not_null(array: pa.Array, here: Mask) -> Mask:
    valid = validity_of(array)
    return here if valid is None else here & valid


def _texts(uri: pa.Array, rows: Int64s, where: str) -> tuple[str, ...]:
    texts = tuple(uri[row].as_py() for row in rows.tolist())
    if "" in texts:
        raise InvalidInputError(f"field {where!r}: row {rows[texts.index('')]} has an empty `uri`")
    return texts


def _refuse(wrong: Mask, where: str, why: str) -> None:
    if wrong.any():
        raise InvalidInputError(f"field {where!r}: row {int(wrong.argmax())} {why}")
