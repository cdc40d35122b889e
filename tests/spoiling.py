"""Bytes of files, damaged as disks and programs damage them."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


def spoiled_copies(table: Path, count: int, seed: int) -> Iterator[tuple[Path, str]]:
    """Copies of a table, each until the next one, with a damaged index file; and its name."""
    chance = Random(seed)
    files = sorted((table / "_indices").glob("*/*.lance"))
    for number in range(count):
        file = files[number % len(files)]
        content = spoiled(file.read_bytes(), number, chance)
        place = table.parent / f"c{number}"
        shutil.copytree(table, place)
        (place / file.relative_to(table)).write_bytes(content)
        yield place, file.name
        shutil.rmtree(place)
