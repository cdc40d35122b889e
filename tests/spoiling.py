"""Bytes of files, damaged as disks and programs damage them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


def spoiled(content: bytes, number: int, chance: Random) -> bytes:
    """The content cut off, with a hole of zeros, or with some bytes replaced, by turns.

    Args:
        number: of the try; of five the first is cut off, the second gets the hole.
    """
    at = chance.randrange(len(content))
    if number % 5 == 0:
        return content[:at]
    if number % 5 == 1:
        return content[:at] + bytes(64) + content[at + 64 :]
    changed = bytearray(content)
    for _ in range(chance.choice((1, 4, 30))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)
