"""Items of dictionaries of every encoding, and damaged ones."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError
from alance.format.codecs.general import Scheme
from tests.reference import encodings
from tests.reference.built_values import as_dictionary
from tests.reference.encodings import flat, inline_bitpacking, rle
from tests.reference.fastlanes import pack

if TYPE_CHECKING:
    from alance.format.proto import encodings_v2_1_pb2 as pb


class Items(NamedTuple):
    """A dictionary: how it is encoded, its bytes, its number of items, the type of these."""

    encoding: pb.CompressiveEncoding
    content: bytes
    count: int
    arrow: pa.DataType

    values: list[bytes]

    def decoded(self) -> list[bytes]:
        return as_dictionary(self.arrow, self.encoding, self.content, self.count).all_rows()


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


def bytes_of(numbers: np.ndarray) -> list[bytes]:
    return [number.tobytes() for number in numbers]


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
        repeated = np.repeat(np.array(values, word), lengths)
        return Items(rle(bits), content, sum(lengths), arrow, bytes_of(repeated))
    if kind == "inline":
        values = values[:1024]
        content = width.to_bytes(bits // 8, "little") + block_of(values, bits, width)
        items = bytes_of(np.array(values, word))
        return Items(inline_bitpacking(bits), content, len(values), arrow, items)
    whole, content = len(values) // 1024 * 1024, b""
    for first in range(0, whole, 1024):
        content += block_of(values[first : first + 1024], bits, width)
    if draw(st.booleans()):
        content += block_of(values[whole:], bits, width)
    else:
        content += np.array(values[whole:], word).tobytes()
    encoding = encodings.out_of_line_bitpacking(bits, width)
    return Items(encoding, content, len(values), arrow, bytes_of(np.array(values, word)))


@st.composite
def plain(draw: st.DrawFn) -> Items:
    """Strings or values of one width, perhaps compressed."""
    if draw(st.booleans()):
        word = draw(st.sampled_from([4, 8]))
        texts = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=9))
        content = strings_block(texts, word, is_early=draw(st.booleans()))
        arrow = pa.binary() if word == 4 else pa.large_binary()
        items = Items(encodings.variable(8 * word), content, len(texts), arrow, texts)
    else:
        width, count = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.integers(1, 9))
        content = draw(st.binary(min_size=width * count))[: width * count]
        values = [content[at : at + width] for at in range(0, len(content), width)]
        items = Items(flat(8 * width), content, count, pa.binary(width), values)
    scheme = draw(st.sampled_from([None, Scheme.LZ4, Scheme.ZSTD]))
    if scheme is None:
        return items
    content = items.content
    if scheme is Scheme.LZ4:
        content = bytes(_kernels.encode_lz4(np.frombuffer(content, np.uint8)))
    else:
        content = struct.pack("<Q", len(content)) + zstandard.compress(content)
    encoding = encodings.general(scheme, None, items.encoding)
    return items._replace(encoding=encoding, content=content)


@given(packed() | plain())
def test_items_are_decoded(items: Items) -> None:
    assert items.decoded() == items.values


@given(items=packed() | plain(), data=st.data())
def test_damaged_items_are_refused_or_decoded_without_harm(
    items: Items, data: st.DataObject
) -> None:
    damaged = bytearray(items.content)
    if damaged:
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] ^= data.draw(st.integers(0, 255))
    size = data.draw(st.integers(max(0, len(damaged) - 2), len(damaged)))
    count = items.count + data.draw(st.sampled_from([0, 0, 1, -1]))
    items = items._replace(content=bytes(damaged[:size]), count=max(1, count))
    try:
        assert len(items.decoded()) == items.count
    except AlanceError:
        return
