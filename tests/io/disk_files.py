"""Files of the disk cache, known content for them, and ways to damage them."""

from __future__ import annotations

import hashlib
import os
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def key(name: object) -> bytes:
    return hashlib.sha256(str(name).encode()).digest()


def content(name: object, start: int, stop: int) -> memoryview:
    """Bytes that are the same in every process."""
    return memoryview(random.Random(f"{name} {start} {stop}").randbytes(stop - start))


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def damage(path: Path, chosen: random.Random, how: str) -> None:
    """Change a file as disks and crashes do; it may be gone meanwhile."""
    try:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            at = chosen.randrange(max(1, size))
            if how == "cut":
                file.truncate(at)
            elif how == "grow":
                file.seek(size)
                file.write(b"more")
            elif how == "flip":
                file.seek(at)
                old = file.read(1)
                file.seek(at)
                file.write(bytes([(old or b"\0")[0] ^ chosen.randrange(1, 256)]))
            else:
                path.unlink()
    except FileNotFoundError:
        pass
