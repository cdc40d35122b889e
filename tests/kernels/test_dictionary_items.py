"""Items of dictionaries of every encoding, against the codecs."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError
from alance.format.codecs import block_codec
from alance.format.codecs.general import Scheme
from alance.format.encode import encodings
from alance.format.layouts.miniblock_task import decode_block
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.chunks import padded
from tests.reference.encodings import flat, inline_bitpacking, rle
from tests.reference.fastlanes import pack
from tests.reference.one_page import OnePage


class Items(NamedTuple):
    """A dictionary: how it is encoded, its bytes, its number of items, the type of these."""

    encoding: pb.CompressiveEncoding
    content: bytes
    count: int
    arrow: pa.DataType

    def by_codec(self) -> list[bytes]:
        data = np.frombuffer(self.content, np.uint8)
        block: Any = decode_block(block_codec(self.encoding), data, self.count)
        if pa.types.is_fixed_size_binary(self.arrow):
            width = self.arrow.byte_width
            return [block.data[i : i + width].tobytes() for i in range(0, len(block.data), width)]
        ends = block.offsets.tolist()
        text = block.data.tobytes()
        return [text[first:last] for first, last in pairwise(ends)]

    def by_kernel(self) -> list[bytes]:
        indices = np.arange(self.count, dtype="<u2").tobytes()
        chunk = padded(struct.pack("<HH", 0, len(indices))) + padded(indices)
        message = pb.MiniBlockLayout(
            value_compression=flat(16),
            dictionary=self.encoding,
            num_dictionary_items=self.count,
            layers=[1],
            num_buffers=1,
            num_items=self.count,
        )
        words = struct.pack("<H", (len(chunk) // 8 - 1) << 4)
        layout = pb.PageLayout(mini_block_layout=message)
        page = OnePage(layout, [words, chunk, self.content], self.count, self.arrow)
        return page.read(0, self.count)


def strings_block(texts: list[bytes], word: int, *, is_early: bool) -> bytes:
    offsets = np.cumsum([0, *map(len, texts)], dtype=f"<i{word}")
    number = "I" if word == 4 else "Q"
    start = word * (3 + len(texts))
    head = struct.pack(f"<2{number}", 8 * word, start)
    if is_early:
        head = struct.pack(f"<B2{number}", 8 * word, len(texts), start + 1)
    return head + offsets.tobytes() + b"".join(texts)


def block_of(values: list[int], bits: int, width: int) -> bytes:
    return pack([*values, *[0] * (1024 - len(values))], bits, width)


@st.composite
def packed(draw: st.DrawFn) -> Items:
    """Integers in blocks of a width that they say, or that the description says; or in runs."""
    bits = draw(st.sampled_from([8, 16, 32, 64]))
    width = draw(st.integers(0, min(bits - 1, 12)))
    values = draw(st.lists(st.integers(0, (1 << width) - 1), min_size=1, max_size=9))
    values *= draw(st.sampled_from([1, 1, 130]))
    word, arrow = f"<u{bits // 8}", pa.binary(bits // 8)
    kind = draw(st.sampled_from(["inline", "blocks", "runs"]))
    if kind == "runs":
        lengths = draw(st.lists(st.integers(1, 3), min_size=len(values), max_size=len(values)))
        raw = np.array(values, word).tobytes()
        content = struct.pack("<Q", len(raw)) + raw + bytes(lengths)
        return Items(rle(bits), content, sum(lengths), arrow)
    if kind == "inline":
        values = values[:1024]
        content = width.to_bytes(bits // 8, "little") + block_of(values, bits, width)
        return Items(inline_bitpacking(bits), content, len(values), arrow)
    whole, content = len(values) // 1024 * 1024, b""
    for first in range(0, whole, 1024):
        content += block_of(values[first : first + 1024], bits, width)
    if draw(st.booleans()):
        content += block_of(values[whole:], bits, width)
    else:
        content += np.array(values[whole:], word).tobytes()
    return Items(encodings.out_of_line_bitpacking(bits, width), content, len(values), arrow)


@st.composite
def plain(draw: st.DrawFn) -> Items:
    """Strings or values of one width, perhaps compressed."""
    if draw(st.booleans()):
        word = draw(st.sampled_from([4, 8]))
        texts = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=9))
        content = strings_block(texts, word, is_early=draw(st.booleans()))
        arrow = pa.binary() if word == 4 else pa.large_binary()
        items = Items(encodings.variable(8 * word), content, len(texts), arrow)
    else:
        width, count = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.integers(1, 9))
        content = draw(st.binary(min_size=width * count))[: width * count]
        items = Items(flat(8 * width), content, count, pa.binary(width))
    scheme = draw(st.sampled_from([None, Scheme.LZ4, Scheme.ZSTD]))
    if scheme is None:
        return items
    content = items.content
    if scheme is Scheme.LZ4:
        data = np.frombuffer(content, np.uint8)
        content = bytes(_kernels.encode_lz4(data, np.array([len(data)]))[0])
    else:
        content = struct.pack("<Q", len(content)) + zstandard.compress(content)
    encoding = encodings.general(scheme, None, items.encoding)
    return items._replace(encoding=encoding, content=content)


@given(packed() | plain())
def test_items_are_those_of_the_codec(items: Items) -> None:
    assert items.by_kernel() == items.by_codec()


@given(items=packed() | plain(), data=st.data())
def test_damaged_items_are_refused_as_by_the_codec(items: Items, data: st.DataObject) -> None:
    damaged = bytearray(items.content)
    if damaged:
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] ^= data.draw(st.integers(0, 255))
    size = data.draw(st.integers(max(0, len(damaged) - 2), len(damaged)))
    count = items.count + data.draw(st.sampled_from([0, 0, 1, -1]))
    items = items._replace(content=bytes(damaged[:size]), count=max(1, count))
    assert outcome(items.by_kernel) == outcome(items.by_codec)


def outcome(decode: Any) -> Any:
    try:
        return decode()
    except (AlanceError, ValueError):
        return "refused"
