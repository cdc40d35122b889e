"""Folders whose files can be read from the page cache without waiting: not those of tmpfs."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILD: Final = Path(__file__).parents[2] / "build"


def is_read_without_waiting(folder: Path) -> bool:
    """True if the file system of a folder knows RWF_NOWAIT; those of macOS and tmpfs do not."""
    file = folder / "held"
    file.write_bytes(b"1")
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT) == 1
    except (AttributeError, OSError):
        return False
    finally:
        os.close(descriptor)
        file.unlink()


@contextmanager
def held_folder(temporary: Path) -> Iterator[Path]:
    """Give a temporary folder, or one in `build` where its files cannot be read so."""
    if is_read_without_waiting(temporary):
        yield temporary
        return
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        yield Path(folder)
