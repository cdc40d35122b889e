"""Encoded values decoded again in numpy, for tests of the encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from alance.errors import UnsupportedError
from alance.file_version import FileVersion
from alance.format.codecs.block import block_codec
from alance.format.encode.page_inputs import Hints
from alance.format.layouts.fullzip import per_value_codec
from alance.format.layouts.miniblock import mini_block_codec
from tests.reference.chunks import Chunk, decode_chunks
from tests.reference.decoders import decode_block, decode_values
from tests.reference.pages.dictionary import encode_items
from tests.reference.pages.one_by_one import per_value
from tests.reference.pages.values import mini_block_values

if TYPE_CHECKING:
    from alance.format.blocks import Block
    from tests.reference.pages.base import MiniBlockValues


def hints(version: str = "2.1", **keys: str) -> Hints:
    """Hints with the keys `lance-encoding:*`, dashes written as underscores."""
    metadata = {f"lance-encoding:{key.replace('_', '-')}": text for key, text in keys.items()}
    return Hints(FileVersion.parse(version), metadata)


def chunks_of(values: MiniBlockValues) -> list[Chunk]:
    """The chunks, cut out of their buffers."""
    parts = []
    for sizes, buffer in zip(values.sizes, values.buffers, strict=True):
        ends = np.cumsum(sizes)
        assert ends[-1:].sum() == len(buffer)
        parts.append([buffer[end - size : end] for size, end in zip(sizes, ends, strict=True)])
    return [
        Chunk([part[number] for part in parts], int(count))
        for number, count in enumerate(values.counts)
    ]


def check_chunks(values: MiniBlockValues, num_values: int, version: FileVersion) -> None:
    """Check that a layout can describe the chunks."""
    assert values.sizes.shape == (len(values.buffers), len(values.counts))
    assert values.counts.sum() == num_values
    full = values.counts[:-1]
    assert np.all((full >= 2) & (full & (full - 1) == 0))
    assert values.counts.max(initial=0) <= 4096
    if version < FileVersion.V2_2:
        assert values.sizes.sum(axis=0).max(initial=0) <= 32000


def through_chunks(values: Block, request: Hints) -> tuple[MiniBlockValues, Block]:
    """The chunks of some values, and what they decode to."""
    encoded = mini_block_values(values, request)
    check_chunks(encoded, values.num_values, request.version)
    bits = encoded.encoding.flat.bits_per_value
    if bits < 8 and bits not in (0, 1):
        with pytest.raises(UnsupportedError):
            mini_block_codec(encoded.encoding)
    else:
        assert mini_block_codec(encoded.encoding).num_buffers == len(encoded.buffers)
    return encoded, decode_chunks(encoded.encoding, chunks_of(encoded))


def through_rows(values: Block, request: Hints) -> tuple[str, Block]:
    """The name of the codec of some zipped values, and what they decode to."""
    encoding, encoded = per_value(values, request)
    assert encoded.num_values == values.num_values
    name = encoding.WhichOneof("compression") or ""
    assert name != "variable_packed_struct" or request.version >= FileVersion.V2_2
    assert per_value_codec(encoding)
    return name, decode_values(encoding, encoded)


def through_block(values: Block, request: Hints) -> tuple[str, Block]:
    """The name of the codec of a dictionary, and what it decodes to."""
    encoding, data = encode_items(values, request)
    assert block_codec(encoding)
    decoded = decode_block(encoding, data, values.num_values)
    return encoding.WhichOneof("compression") or "", decoded
