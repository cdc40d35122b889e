"""JSON text to JSONB in plain Python: what the kernel is compared with.

    container    u32 header: kind in the top three bits, count in the rest
                 u32 descriptors: type in bits 28 to 30, bytes of the payload below
                 payloads, in the order of the descriptors

Big-endian throughout. An object has its keys, sorted by bytes, before its values.

Source: docs/format/file.md, "JSONB".
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


ARRAY: Final = 0x80000000
OBJECT: Final = 0x40000000
SCALAR: Final = 0x20000000
NULL, STRING, NUMBER, FALSE, TRUE, CONTAINER = range(6)
MAX_PAYLOAD: Final = (1 << 28) - 1  # what a descriptor can say
MAX_DEPTH: Final = 128  # of containers, as reading allows


def encode(text: str) -> bytes:
    """One JSON text as a JSONB container.

    Raises:
        ValueError: it is no JSON.
    """
    value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    if isinstance(value, list | dict):
        return _container(value, 1)
    return _joined(SCALAR, [_entry(value, 1)], 0)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has {twice!r} twice")
    return mapping


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _container(value: object, depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        return _joined(ARRAY, [_entry(item, depth) for item in value], len(value))
    assert isinstance(value, dict)
    pairs = sorted(((key.encode(), item) for key, item in value.items()), key=lambda pair: pair[0])
    keys = [(STRING, key) for key, _ in pairs]
    return _joined(OBJECT, keys + [_entry(item, depth) for _, item in pairs], len(pairs))


def _joined(kind: int, entries: Sequence[tuple[int, bytes]], count: int) -> bytes:
    for _, payload in entries:
        if len(payload) > MAX_PAYLOAD:
            raise ValueError(f"a value of {len(payload)} bytes, at most {MAX_PAYLOAD}")
    words = [kind | count, *(code << 28 | len(payload) for code, payload in entries)]
    return struct.pack(f">{len(words)}I", *words) + b"".join(payload for _, payload in entries)


def _entry(value: object, depth: int) -> tuple[int, bytes]:
    """Type and payload of a value."""
    if value is None:
        return NULL, b""
    if value is True:
        return TRUE, b""
    if value is False:
        return FALSE, b""
    if isinstance(value, str):
        return STRING, value.encode()
    if isinstance(value, int | float):
        return NUMBER, _number(value)
    return CONTAINER, _container(value, depth + 1)


def _number(value: float) -> bytes:
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        if value == 0:
            return b"\0"
        signed = value < 0
        bits = (value if value > 0 else ~value).bit_length() + signed
        width = next(width for width in (1, 2, 4, 8) if bits <= 8 * width)
        return (b"\x40" if signed else b"\x50") + value.to_bytes(width, "big", signed=signed)
    number = float(value)
    if math.isinf(number):
        raise ValueError("a number beyond those of 64-bit floats")
    return b"\x60" + struct.pack(">d", number)
