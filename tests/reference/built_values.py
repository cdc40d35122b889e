"""Files whose only page has values, levels or a dictionary of one codec, given as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.file_version import FileVersion
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference import encodings
from tests.reference.built_pages import PageBytes, ReadFile, built_file
from tests.reference.chunks import padded

if TYPE_CHECKING:
    from collections.abc import Sequence

NULLABLE: Final = pb.REPDEF_NULLABLE_ITEM
ALL_VALID: Final = pb.REPDEF_ALL_VALID_ITEM


def in_mini_blocks(
    arrow: pa.DataType | pa.Field,
    encoding: pb.CompressiveEncoding,
    chunks: Sequence[Sequence[bytes]],
    counts: Sequence[int],
    **levels: Any,
) -> ReadFile:
    """Build a page of chunks.

    Args:
        chunks: buffers of values of each chunk.
        counts: values of each chunk; powers of two from 2 on, except the last.
        levels: `definition`, encoding of definition levels of nullable values, and
            `definition_chunks`, the bytes of each chunk's levels.
    """
    definition = levels.get("definition")
    of_levels = [[]] * len(chunks)
    if definition is not None:
        of_levels = [[content] for content in levels["definition_chunks"]]
    words, content = b"", b""
    for at, (own, values, count) in enumerate(zip(of_levels, chunks, counts, strict=True)):
        header = struct.pack("<H", count if own else 0)
        header += b"".join(struct.pack("<H", len(part)) for part in own)
        header += b"".join(struct.pack("<I", len(part)) for part in values)
        chunk = padded(header) + b"".join(map(padded, [*own, *values]))
        log = 0 if at == len(chunks) - 1 else count.bit_length() - 1
        assert at == len(chunks) - 1 or count == 1 << log
        words += struct.pack("<I", (len(chunk) // 8 - 1) << 4 | log)
        content += chunk
    layout = pb.MiniBlockLayout(
        def_compression=definition,
        value_compression=encoding,
        layers=[ALL_VALID if definition is None else NULLABLE],
        num_buffers=len(chunks[0]),
        num_items=sum(counts),
        has_large_chunk=True,
    )
    description = pb.PageLayout(mini_block_layout=layout).SerializeToString()
    page = PageBytes(description, [words, content], sum(counts))
    return built_file(arrow, [page], FileVersion.V2_2)


def as_levels(
    encoding: pb.CompressiveEncoding, chunks: Sequence[bytes], counts: Sequence[int]
) -> ReadFile:
    """Build a page of nullable zeros with these definition levels, in chunks."""
    values = [[bytes(count)] for count in counts]
    return in_mini_blocks(
        pa.int8(),
        encodings.flat(8),
        values,
        counts,
        definition=encoding,
        definition_chunks=chunks,
    )


def levels_of(file: ReadFile) -> list[int]:
    """Read the levels of such a page."""
    return [int(value is None) for value in file.all_rows()]


def as_dictionary(
    arrow: pa.DataType | pa.Field, encoding: pb.CompressiveEncoding, content: bytes, count: int
) -> ReadFile:
    """Build a page of the items of a dictionary, each once."""
    indices = np.arange(count, dtype="<u4").tobytes()
    chunk = padded(struct.pack("<HI", 0, len(indices))) + padded(indices)
    layout = pb.MiniBlockLayout(
        value_compression=encodings.flat(32),
        dictionary=encoding,
        num_dictionary_items=count,
        layers=[ALL_VALID],
        num_buffers=1,
        num_items=count,
        has_large_chunk=True,
    )
    words = struct.pack("<I", (len(chunk) // 8 - 1) << 4)
    description = pb.PageLayout(mini_block_layout=layout).SerializeToString()
    page = PageBytes(description, [words, chunk, content], count)
    return built_file(arrow, [page], FileVersion.V2_2)


def in_full_zip(
    arrow: pa.DataType | pa.Field,
    encoding: pb.CompressiveEncoding,
    values: Sequence[bytes],
    *,
    bits_per_length: int = 0,
) -> ReadFile:
    """Build a page of zipped values.

    Args:
        values: encoded values, without their lengths.
        bits_per_length: width of the lengths before values; 0 for values of one length.
    """
    size = bits_per_length // 8
    zipped = [len(value).to_bytes(size, "little") + value if size else value for value in values]
    layout = pb.FullZipLayout(
        num_items=len(values),
        num_visible_items=len(values),
        value_compression=encoding,
        layers=[ALL_VALID],
    )
    buffers = [b"".join(zipped)]
    if size:
        layout.bits_per_offset = bits_per_length
        starts = np.cumsum([0, *map(len, zipped)]).astype("<u4")
        buffers.append(starts.tobytes())
    else:
        layout.bits_per_value = 8 * len(values[0])
    description = pb.PageLayout(full_zip_layout=layout).SerializeToString()
    return built_file(arrow, [PageBytes(description, buffers, len(values))], FileVersion.V2_2)


def check(file: ReadFile, expected: Sequence[Any]) -> None:
    """Compare all rows of a file, and some of them read in every way."""
    assert file.all_rows() == [*expected]
    count = len(expected)
    for numbers in ([0], [count - 1], [*range(0, count, 3)], [*range(count // 2, count)]):
        for rows in file.ways(numbers):
            assert rows == [expected[number] for number in numbers]
