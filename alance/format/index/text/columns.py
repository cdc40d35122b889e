"""Schemas and rows of new inverted index files: format 2, blocks of 128 documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.errors import kernel_errors
from alance.format.index.text import dictionary, postings
from alance.format.index.text.metadata import DELETED, DOCUMENT_ROW_IDS, ELEMENTS, LENGTHS
from alance.format.numbers import as_numbers, contents_of, strings_array, text_array, to_arrow
from alance.format.table.roaring import roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance._kernels import StoredLists
    from alance.base.arrays import UInt32s, UInt64s
    from alance.format.index.text.params import TextParams
    from alance.format.index.text.postings import Postings

TEXT_FORMAT: Final = 2
OF_ELEMENTS: Final = 3  # index version for documents that are list elements
_BLOCK: Final = {"posting_block_size": "128"}
_TAIL: Final = {"posting_tail_codec": "varint_delta_v1"}
_POSITIONS: Final = {
    "positions_layout": "shared_stream_v2",
    "positions_codec": "packed_delta_v1",
}
_BINARIES: Final = pa.list_(pa.field("item", pa.large_binary()))
TOKEN_SET: Final = {"token_set_format": "fst"}  # pylance only merges segments with the same format
TOKENS_SCHEMA: Final = pa.schema(
    [
        pa.field(name, type_, nullable=False)
        for name, type_ in zip(
            dictionary.TRANSDUCER, (pa.large_binary(), pa.uint32(), pa.uint64()), strict=True
        )
    ]
)
DOCUMENTS: Final = pa.schema(
    [
        pa.field(DOCUMENT_ROW_IDS, pa.uint64(), nullable=False),
        pa.field(LENGTHS, pa.uint32(), nullable=False),
    ]
)
DOCUMENTS_OF_ELEMENTS: Final = DOCUMENTS.append(pa.field(ELEMENTS, pa.uint32(), nullable=False))


def layout(*, with_positions: bool, version: int = TEXT_FORMAT) -> dict[str, str]:
    """Return the metadata entries for the layout of posting lists."""
    metadata = {"format_version": str(version), **_BLOCK, **_TAIL}
    return metadata | _POSITIONS if with_positions else metadata


def metadata_schema(params: TextParams, partitions: Sequence[int], version: int) -> pa.Schema:
    """Return the schema of `metadata.lance`."""
    metadata = {
        "partitions": json.dumps(list(partitions), separators=(",", ":")),
        "params": params.as_json(),
        **TOKEN_SET,
        **layout(with_positions=params.with_position, version=version),
    }
    return pa.schema([pa.field(DELETED, pa.binary(), nullable=False)], metadata=metadata)


def metadata_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return the only row of `metadata.lance`, without deleted fragments."""
    nothing = text_array([roaring_bytes(np.empty(0, np.int64))], pa.large_binary())
    return pa.RecordBatch.from_arrays([nothing.cast(pa.binary())], schema=schema)


def token_rows(words: Sequence[str]) -> pa.RecordBatch:
    """Encode tokens as a transducer in a single row; a token's number is its position in `words`.

    Raises:
        CorruptFileError: a token occurs twice.
    """
    contents = text_array([word.encode() for word in words], pa.large_string())
    order = pc.array_sort_indices(contents).cast(pa.uint32())
    offsets, data = contents_of(contents.take(order))
    with kernel_errors:
        content = _kernels.encode_transducer(offsets, data, as_numbers(order))
    transducer = text_array([content.data], pa.large_binary())
    counts = [
        to_arrow(np.array([len(words)], np.uint32)),
        to_arrow(np.array([len(data)], np.uint64)),
    ]
    return pa.RecordBatch.from_arrays([transducer, *counts], schema=TOKENS_SCHEMA)


def document_rows(ids: UInt64s, lengths: UInt32s, elements: UInt32s | None) -> pa.RecordBatch:
    """Return the rows of the document file.

    Args:
        elements: position of each document in its list; None if documents are rows.
    """
    arrays = [to_arrow(ids), to_arrow(lengths)]
    if elements is None:
        return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENTS)
    return pa.RecordBatch.from_arrays([*arrays, to_arrow(elements)], schema=DOCUMENTS_OF_ELEMENTS)


def postings_schema(metadata: Mapping[str, str], *, with_positions: bool) -> pa.Schema:
    """Return the schema of the posting list file.

    Args:
        metadata: metadata of the schema, as from `layout`.
    """
    fields = [
        pa.field(postings.POSTING, _BINARIES, nullable=False),
        pa.field(postings.MAX_SCORE, pa.float32(), nullable=False),
        pa.field(postings.POSTING_LENGTH, pa.uint32(), nullable=False),
        pa.field(postings.IMPACTS, _BINARIES, nullable=False),
    ]
    if with_positions:
        blocks = pa.list_(pa.field("item", pa.uint32()))
        fields += [
            pa.field(postings.POSITIONS, pa.large_binary(), nullable=False),
            pa.field(postings.POSITION_BLOCKS, blocks, nullable=False),
        ]
    return pa.schema(fields, metadata=dict(metadata))


def posting_rows(
    lists: Postings, lengths: UInt32s, mean_length: float, schema: pa.Schema
) -> pa.RecordBatch:
    """Encode posting lists as rows.

    Args:
        lists: posting lists, none of which is empty.
        lengths: number of tokens of each document of the partition.
        mean_length: mean of `lengths`.
    """
    nothing = np.empty(0, np.uint32)
    with kernel_errors:
        stored = _kernels.encode_postings(
            lists.starts,
            lists.docs,
            lists.frequencies,
            nothing if lists.positions is None else lists.positions,
            lists.positions is not None,
            lengths,
            mean_length,
        )
    return stored_rows(stored, schema)


def stored_rows(stored: StoredLists, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows for posting lists that the kernel has encoded."""
    blocks, scores, counts, bounds, places, (offsets, values) = stored
    arrays = [_binaries(*blocks), to_arrow(scores), to_arrow(counts), _binaries(*bounds)]
    if postings.POSITIONS in schema.names:
        starts = pa.ListArray.from_arrays(to_arrow(offsets), to_arrow(values))
        arrays += [strings_array(pa.large_binary(), *places), starts]
    arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _binaries(
    lists: npt.NDArray[Any], offsets: npt.NDArray[Any], data: npt.NDArray[Any]
) -> pa.Array:
    return pa.ListArray.from_arrays(
        to_arrow(lists), strings_array(pa.large_binary(), offsets, data)
    )
