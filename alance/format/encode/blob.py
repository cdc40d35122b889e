"""Blob columns: pages of descriptions, which say where the bytes lie.

    version 1    one buffer a payload in the same file, the column holds (position, size)
    version 2    the column holds kind, position, size, blob id and URI of each payload

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import FixedWidth, StructBlock, VariableWidth
from alance.format.encode.miniblock import mini_block_page
from alance.format.encode.structure import layer_names
from alance.format.field import BLOB_V2_TYPE
from alance.format.layouts.arrays import bitmap
from alance.format.layouts.base import Layer, PageValues
from alance.format.numbers import to_arrow
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from alance.format.encode.base import EncodedPage, Hints
    from alance.format.field import Field

    Int64s = npt.NDArray[np.int64]
    Numbers = npt.NDArray[np.integer[Any]]


def encode_blob_page(
    field: Field, values: PageValues, positions: Int64s, hints: Hints
) -> EncodedPage:
    """A page of descriptions of version 1 blobs.

    Args:
        field: the binary field.
        values: its rows with their payloads, as `leaf_values` gives them.
        positions: where `FileBuilder.add_blobs(values.values)` put each payload, shape (n,).

    Raises:
        UnsupportedError: blobs in lists.
        InvalidInputError: another number of positions than of rows, or no payloads.
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
        # What is absent says why: its level, above the bits of a repetition level.
        absent = values.definition > 0
        places[absent] = values.definition[absent].astype("<u8") << 16
        sizes[absent] = 0
    columns = (FixedWidth(64, len(one), one.view(np.uint8)) for one in (places, sizes))
    block = StructBlock(values.num_rows, tuple(columns))
    inner = mini_block_page(
        PageValues((Layer.ALL_VALID_ITEM,), None, None, block, values.num_rows), hints
    )
    if not isinstance(inner.layout, pb.PageLayout):
        raise UnsupportedError(f"field {field.name!r}: version 2.3 has no blobs of version 1")
    layout = pb.BlobLayout(inner_layout=inner.layout, layers=layer_names(values.layers))
    return replace(inner, layout=pb.PageLayout(blob_layout=layout))


def describe_blobs(
    kinds: npt.NDArray[np.uint8],
    positions: Numbers,
    sizes: Numbers,
    blob_ids: Numbers,
    uris: pa.Array | None = None,
    valid: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Descriptions of version 2 blobs, of `field.BLOB_V2_TYPE`, for `leaf_values`.

    Args:
        kinds: 0 inline, 1 packed, 2 dedicated, 3 external; shape (n,).
        positions: absolute in this file (inline), in the sidecar (packed), in the object.
        sizes: bytes of each.
        blob_ids: of sidecars, or the id of a base path; 0 else.
        uris: strings; None: all empty.
        valid: False where the row is null; None: nowhere.
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
    """Strings of `count` rows: those that are given by row, in order, and empty ones."""
    texts = [one.encode() for one in uris.values()]
    ends = np.zeros(count + 1, np.int32)
    ends[np.fromiter(uris, np.int64, len(uris)) + 1] = [len(one) for one in texts]
    np.cumsum(ends, out=ends)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), count, buffers)
