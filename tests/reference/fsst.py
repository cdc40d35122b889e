"""FSST code by code, and a greedy encoder for tables made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ESCAPE = 255


def table(symbols: Sequence[bytes], *, compressed: bool = True) -> bytes:
    """A symbol table as descriptions hold it."""
    header = bytes([len(symbols), 0, 0, int(compressed)]) + bytes.fromhex("54535346")
    body = b"".join(symbol.ljust(8, b"?") for symbol in symbols)
    return (header + body + bytes(map(len, symbols))).ljust(2312, b"\0")


def encode(text: bytes, symbols: Sequence[bytes]) -> bytes:
    """Codes of a string: the longest symbol that fits, or an escape."""
    codes = bytearray()
    while text:
        fitting = [s for s in symbols if text.startswith(s)]
        if fitting:
            best = max(fitting, key=len)
            codes.append(symbols.index(best))
            text = text[len(best) :]
        else:
            codes += bytes([ESCAPE, text[0]])
            text = text[1:]
    return bytes(codes)


def decode(codes: bytes, symbols: Sequence[bytes]) -> bytes:
    """The string that codes stand for.

    Raises:
        ValueError: a code without a symbol, or an escape at the end.
    """
    text = bytearray()
    stream = iter(codes)
    for code in stream:
        if code == ESCAPE:
            literal = next(stream, None)
            if literal is None:
                raise ValueError("an escape at the end")
            text.append(literal)
        elif code < len(symbols):
            text += symbols[code]
        else:
            raise ValueError("a code without a symbol")
    return bytes(text)
