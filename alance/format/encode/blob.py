"""Blob columns: pages of descriptions, which say where the bytes lie.

version 1    one buffer a payload in the same file, the column holds (position, size)
version 2    the column holds kind, position, size, blob id and URI of each payload
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from alance.format.encode.base import EncodedPage, Hints
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues

    Int64s = npt.NDArray[np.int64]


def encode_blob_page(
    field: Field, values: PageValues, positions: Int64s, hints: Hints
) -> EncodedPage:
    """A page of descriptions of version 1 blobs.

    Args:
        field: the binary field.
        values: its rows with their payloads, as `leaf_values` gives them.
        positions: where `FileBuilder.add_blobs(values.values)` put each payload, shape (n,).

    Raises:
        UnsupportedError: blobs in lists, or a file version that has none.
    """
    raise NotImplementedError


def describe_blobs(
    kinds: npt.NDArray[np.uint8],
    positions: Int64s,
    sizes: Int64s,
    blob_ids: Int64s,
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
    raise NotImplementedError
