"""The LZ4 block format step by step."""

from __future__ import annotations


def decode(block: bytes) -> bytes:
    """The content of a block.

    Raises:
        ValueError: the block is damaged.
    """
    out = bytearray()
    at = 0

    def take(count: int) -> bytes:
        nonlocal at
        if at + count > len(block):
            raise ValueError("the block ends early")
        at += count
        return block[at - count : at]

    def length(nibble: int) -> int:
        total = nibble
        while nibble == 15:
            more = take(1)[0]
            total += more
            if more < 255:
                break
        return total

    while True:
        token = take(1)[0]
        out += take(length(token >> 4))
        if at == len(block):
            return bytes(out)
        distance = int.from_bytes(take(2), "little")
        match = length(token & 15) + 4
        if not 0 < distance <= len(out):
            raise ValueError("a match before the content")
        for _ in range(match):
            out.append(out[-distance])
