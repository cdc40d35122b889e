"""Digests of texts and bytes; hexadecimal and base64 text of bytes."""

from __future__ import annotations

import binascii
from string import ascii_lowercase, ascii_uppercase, digits
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.expr.builders.text import literal_text
from alance.expr.casts import convert, is_bytes, is_text
from alance.expr.compare import is_nothing
from alance.expr.tree import Literal, Node, Problem, call
from alance.format.numbers import (
    as_scalar,
    contents_of,
    is_large,
    offsets_of,
    positions_of,
    strings_array,
)

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s

# Bytes of a digest by each method, in the order of the kernel.
DIGEST_BYTES: Final = {
    "md5": 16,
    "sha224": 28,
    "sha256": 32,
    "sha384": 48,
    "sha512": 64,
    "blake2b": 64,
    "blake2s": 32,
    "blake3": 32,
}
FORMS: Final = ("hex", "base64")
_HEX: Final = np.full(256, 255, np.uint8)  # value of each ASCII digit; 255 for other bytes
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)
_BASE64: Final = np.full(256, 255, np.uint8)
_BASE64[np.frombuffer(f"{ascii_uppercase}{ascii_lowercase}{digits}+/".encode(), np.uint8)] = (
    np.arange(64)
)


def md5(name: str, args: list[Node]) -> Node:
    """md5(x): 32 hexadecimal digits."""
    return _hex(name, _digest(name, args[0], "md5"))


def sha2(name: str, args: list[Node]) -> Node:
    """sha224(x), sha256(x), sha384(x) and sha512(x): the bytes of the digest."""
    return _digest(name, args[0], name)


def digest(name: str, args: list[Node]) -> Node:
    """digest(x, 'sha256'): the bytes of the digest of that name."""
    method = literal_text(name, args[1])
    if method not in DIGEST_BYTES:
        raise Problem(f"{name}: no method {method!r}, expected one of {', '.join(DIGEST_BYTES)}")
    return _digest(name, args[0], method)


def encode(name: str, args: list[Node]) -> Node:
    """encode(x, 'hex'): two digits for each byte; encode(x, 'base64'): base64 without padding."""
    form = literal_text(name, args[1])
    if form not in FORMS:
        raise Problem(f"{name}: form {form!r}, expected one of {', '.join(FORMS)}")
    return _hex(name, args[0]) if form == "hex" else _base64(name, args[0])


def decode(name: str, args: list[Node]) -> Node:
    """decode(x, 'hex') and decode(x, 'base64'), with or without padding: the decoded bytes."""
    form = literal_text(name, args[1])
    if form not in FORMS:
        raise Problem(f"{name}: form {form!r}, expected one of {', '.join(FORMS)}")
    read = _from_hex if form == "hex" else _from_base64

    def decoded(values: pa.Array) -> pa.Array:
        present = pc.fill_null(values, as_scalar("" if is_text(values.type) else b"", values.type))
        sizes, content = read(*contents_of(present))
        return _narrowed(
            like_strings(values, pa.large_binary(), offsets_of(sizes), content), values.type
        )

    return call(name, decoded, _as_bytes(name, args[0]))


def _from_hex(offsets: Int64s, content: Bytes) -> tuple[Int64s, Bytes]:
    """Decode hexadecimal digits. Returns the number of bytes of each text, and all bytes."""
    sizes = np.diff(offsets)
    if (sizes % 2).any():
        raise pa.ArrowInvalid("an odd number of hexadecimal digits")
    digits = _HEX[content[int(offsets[0]) : int(offsets[-1])]]
    if (digits > 15).any():
        raise pa.ArrowInvalid("a character that is not a hexadecimal digit")
    return sizes // 2, (digits[::2] << 4 | digits[1::2]).astype(np.uint8)


def _from_base64(offsets: Int64s, content: Bytes) -> tuple[Int64s, Bytes]:
    """Decode base64. Returns the number of bytes of each text, and all bytes."""
    widths = np.diff(offsets)
    sizes = widths.copy()
    for number in (1, 2):  # `=` at the end, at most as many as complete the last four digits
        last = content[np.maximum(offsets[1:] - number, 0)] if len(content) else widths
        sizes -= (last == ord("=")) & (widths >= number) & (widths - sizes == number - 1)
    is_whole = (sizes % 4 != 1) & (widths - sizes <= -sizes % 4)
    digits = _BASE64[content[positions_of(offsets[:-1], sizes)]]
    if not is_whole.all() or (digits > 63).any():
        raise pa.ArrowInvalid("text that is not base64")
    spaces = -(-sizes // 4) * 4
    groups = np.zeros(int(spaces.sum()), np.uint32)
    groups[positions_of(np.cumsum(spaces) - spaces, sizes)] = digits
    joined = groups.reshape(-1, 4) @ np.array([1 << 18, 1 << 12, 1 << 6, 1], np.uint32)
    triples = joined.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:].ravel()
    counts, thirds = sizes * 3 // 4, spaces // 4 * 3
    is_content = np.zeros(len(triples), np.bool_)
    is_content[positions_of(np.cumsum(thirds) - thirds, counts)] = True
    if triples[~is_content].any():
        raise pa.ArrowInvalid("bits after the last byte of base64")
    return counts, triples[is_content]


def _base64(name: str, node: Node) -> Node:
    def digits(values: pa.Array) -> pa.Array:
        offsets, content = contents_of(
            pc.fill_null(values, as_scalar("" if is_text(values.type) else b"", values.type))
        )
        sizes = np.diff(offsets)
        places = -(-sizes // 3) * 3  # each text begins a group of digits
        starts = np.cumsum(places) - places
        filled = _kernels.place_strings(offsets, content, starts, int(places.sum()), 0)
        text = np.frombuffer(binascii.b2a_base64(filled.data, newline=False), np.uint8)
        written = -(-sizes * 4 // 3)
        ends = offsets_of(written)
        chosen = np.repeat(starts // 3 * 4 - ends[:-1], written) + np.arange(ends[-1])
        texts = like_strings(values, pa.large_string(), ends, text[chosen])
        return _narrowed(texts, values.type)

    return call(name, digits, _as_bytes(name, node))


def _digest(name: str, node: Node, method: str) -> Node:
    def digests(values: pa.Array) -> pa.Array:
        content = _kernels.digests(*contents_of(values), list(DIGEST_BYTES).index(method))
        ends = np.arange(len(values) + 1, dtype=np.int64) * DIGEST_BYTES[method]
        return pc.cast(like_strings(values, pa.large_binary(), ends, content), pa.binary())

    return call(name, digests, _as_bytes(name, node))


def _hex(name: str, node: Node) -> Node:
    def digits(values: pa.Array) -> pa.Array:
        offsets, content = contents_of(values)
        start, stop = int(offsets[0]), int(offsets[-1])
        text = np.frombuffer(content[start:stop].tobytes().hex().encode(), np.uint8)
        texts = like_strings(values, pa.large_string(), 2 * (offsets - start), text)
        return _narrowed(texts, values.type)

    return call(name, digits, _as_bytes(name, node))


def _as_bytes(name: str, node: Node) -> Node:
    if is_nothing(node):
        return Literal(as_scalar(None, pa.binary()))
    if pa.types.is_null(node.type):
        return convert(node, pa.binary())
    if not is_bytes(node.type) and not is_text(node.type):
        raise Problem(f"{name}: expected text or bytes, found {node.type}")
    return node


def _narrowed(strings: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast large strings to 32-bit offsets, unless the argument's type is large as well.

    Args:
        type_: type of the function's argument.
    """
    if is_large(type_):
        return strings
    return pc.cast(strings, pa.string() if is_text(strings.type) else pa.binary())


def like_strings(values: pa.Array, type_: pa.DataType, offsets: Int64s, content: Bytes) -> pa.Array:
    """Build strings from their offsets and bytes; they are null where `values` is null."""
    strings = strings_array(type_, offsets, content)
    return pc.if_else(pc.is_valid(values), strings, as_scalar(None, type_))
