"""Metadata of an inverted index: `metadata.lance`, and the files of its partitions.

    metadata.lance         one row: deleted_fragments (a roaring bitmap)    metadata: `TextMetadata`
    part_N_tokens.lance    tokens and their numbers
    part_N_docs.lance      _rowid, _num_tokens: a row for each document     metadata: total_tokens
                           _doc_index_0: position in the list, if documents are list elements
    part_N_invert.lance    a posting list for each token

Each partition is a complete index of a part of the documents. Scores use counts of all documents.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.index.text.params import TextParams
from alance.format.numbers import as_numbers, is_first, places_in, text_array, to_arrow
from alance.format.table.roaring import roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s, UInt32s, UInt64s

TEXT_METADATA_FILE: Final = "metadata.lance"
DELETED: Final = "deleted_fragments"
DOCUMENT_ROW_IDS: Final = "_rowid"
LENGTHS: Final = "_num_tokens"
ELEMENTS: Final = "_doc_index_0"
INNER_ELEMENTS: Final = "_doc_index_1"  # position in the inner list, for lists of lists
TOTAL: Final = "total_tokens"
TEXT_FORMATS: Final = (1, 2, 3)
# The index of a codec is its number in the kernels.
TAILS: Final = ("fixed32_v1", "varint_delta_v1")
MAX_PARTITIONS: Final = 1 << 16
TEXT_FORMAT: Final = 2  # format version of new files
OF_ELEMENTS: Final = 3  # index version for documents that are list elements
_BLOCK: Final = {"posting_block_size": "128"}
_TAIL: Final = {"posting_tail_codec": TAILS[1]}
_POSITIONS: Final = {
    "positions_layout": "shared_stream_v2",
    "positions_codec": "packed_delta_v1",
}
TOKEN_SET: Final = {"token_set_format": "fst"}  # pylance only merges segments with the same format
DOCUMENTS: Final = pa.schema(
    [
        pa.field(DOCUMENT_ROW_IDS, pa.uint64(), nullable=False),
        pa.field(LENGTHS, pa.uint32(), nullable=False),
    ]
)
DOCUMENTS_OF_ELEMENTS: Final = DOCUMENTS.append(pa.field(ELEMENTS, pa.uint32(), nullable=False))


def tokens_file(number: int) -> str:
    return f"part_{number}_tokens.lance"


def documents_file(number: int) -> str:
    return f"part_{number}_docs.lance"


def postings_file(number: int) -> str:
    return f"part_{number}_invert.lance"


@dataclass(frozen=True, slots=True)
class TextMetadata:
    """Parsed metadata of `metadata.lance`.

    Attributes:
        partitions: numbers of the partitions.
        block: number of documents in a full block of a posting list: 128 or 256.
        tail: codec of the last block of a posting list, as an index into `TAILS`.
    """

    params: TextParams
    partitions: tuple[int, ...]
    format_version: int
    block: int
    tail: int

    @classmethod
    def parse(cls, metadata: Mapping[str, str]) -> TextMetadata:
        """Parse the metadata of the file's schema."""
        params = TextParams.parse(metadata.get("params", ""))
        version, block = metadata.get("format_version", "1"), metadata.get("posting_block_size")
        tail = metadata.get("posting_tail_codec", TAILS[0])
        positions = {key: metadata.get(key, value) for key, value in _POSITIONS.items()}
        if (
            version not in map(str, TEXT_FORMATS)
            or block not in (None, "128", "256")
            or tail not in TAILS
            or positions != _POSITIONS
        ):
            layout = ", ".join((tail, *positions.values()))
            raise UnsupportedError(f"text index of format {version!r}: blocks of {block}, {layout}")
        try:
            numbers = json.loads(metadata["partitions"])
        except (KeyError, ValueError) as error:
            raise CorruptFileError(f"text index: partitions: {error!r}") from error
        if (
            not isinstance(numbers, list)
            or len(numbers) > MAX_PARTITIONS
            or not all(type(number) is int and 0 <= number < 1 << 64 for number in numbers)
            or len(set(numbers)) < len(numbers)
        ):
            raise CorruptFileError(f"text index: partitions {str(numbers)[:200]}")
        return cls(params, tuple(numbers), int(version), int(block or 128), TAILS.index(tail))

    @property
    def is_rounded(self) -> bool:
        """True if scores use document lengths rounded by `rounded`."""
        return self.block == 256


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of a partition.

    Attributes:
        lengths: number of tokens of each document for scores, uint32; shape (documents,).
        ids: row id of each document, uint64; shape (documents,).
        total: number of tokens of all documents.
        is_ordered: True if documents are sorted by id, and within a row by element.
        elements: position of each document in its row's list, uint32, shape (documents,). None if
            documents are rows.
    """

    lengths: UInt32s
    ids: UInt64s
    total: int
    is_ordered: bool
    elements: UInt32s | None = None

    @classmethod
    def parse(
        cls, batch: pa.RecordBatch, metadata: Mapping[str, str], *, is_rounded: bool = False
    ) -> Documents:
        """Parse the rows of the document file; a view of them, except rounded lengths."""
        if INNER_ELEMENTS in batch.schema.names:
            raise UnsupportedError("text index of the elements of lists in lists")
        schema = DOCUMENTS_OF_ELEMENTS if ELEMENTS in batch.schema.names else DOCUMENTS
        columns = [batch.schema.get_field_index(name) for name in schema.names]
        if min(columns) < 0 or any(
            batch.column(at).type != type_ or batch.column(at).null_count
            for at, type_ in zip(columns, schema.types, strict=True)
        ):
            raise CorruptFileError(f"text index: documents of {batch.schema}")
        ids, lengths, *elements = (as_numbers(batch.column(at)) for at in columns)
        total = int(lengths.sum(dtype=np.uint64))
        if metadata.get(TOTAL, str(total)) != str(total):
            raise CorruptFileError(
                f"text index: {total} tokens, but its metadata has {metadata[TOTAL]}"
            )
        if is_rounded:
            lengths = rounded(lengths)
        if not elements:
            return cls(lengths, ids, total, bool((ids[1:] > ids[:-1]).all()))
        is_next = (ids[1:] == ids[:-1]) & (elements[0][1:] > elements[0][:-1])
        is_ordered = bool(((ids[1:] > ids[:-1]) | is_next).all())
        return cls(lengths, ids, total, is_ordered, elements[0])

    def docs_of(self, ids: Int64s) -> tuple[Int64s, Int64s]:
        """Find the documents of rows, at most one for each row.

        Args:
            ids: ascending row ids.

        Returns:
            Positions in `ids` of the rows with a document, and the numbers of these documents.
        """
        own = self.ids.view(np.int64)
        order = None if self.is_ordered else own.argsort()
        places, has_doc = places_in(own if order is None else own[order], ids)
        docs = places[has_doc]
        return np.flatnonzero(has_doc), docs if order is None else order[docs]

    def fragments(self) -> Int64s:
        """Return the fragment ids of the documents, ascending. Row ids must be row addresses."""
        numbers = (self.ids >> np.uint64(32)).view(np.int64)
        # The array is short, because documents of a fragment are consecutive.
        return np.unique(numbers[is_first(numbers)])

    @property
    def num_bytes(self) -> int:
        elements = 0 if self.elements is None else self.elements.nbytes
        return 200 + int(self.lengths.nbytes + self.ids.nbytes + elements)


def rounded(lengths: UInt32s) -> UInt32s:
    """Round lengths down to four significant bits, to fit into a byte; exact below 16."""
    shifts = np.maximum(0, np.frexp(lengths.astype(np.float64))[1] - 4).astype(np.uint32)
    short: UInt32s = (lengths >> shifts) << shifts
    return short


def layout(*, with_positions: bool, version: int = TEXT_FORMAT) -> dict[str, str]:
    """Return the metadata entries for the layout of posting lists."""
    metadata = {"format_version": str(version), **_BLOCK, **_TAIL}
    return metadata | _POSITIONS if with_positions else metadata


def metadata_schema(params: TextParams, partitions: Sequence[int], version: int) -> pa.Schema:
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


def document_rows(ids: UInt64s, lengths: UInt32s, elements: UInt32s | None) -> pa.RecordBatch:
    """Return the rows of the document file; `elements` is None if documents are rows."""
    arrays = [to_arrow(ids), to_arrow(lengths)]
    if elements is None:
        return pa.RecordBatch.from_arrays(arrays, schema=DOCUMENTS)
    return pa.RecordBatch.from_arrays([*arrays, to_arrow(elements)], schema=DOCUMENTS_OF_ELEMENTS)
