"""Tables that take long to make: each is made once a process, and copied."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def write_copy(path: Path, make: Callable[..., object], **options: Any) -> None:
    """Write to `path` what `make` writes to the folder that it is given."""
    for name, content in _files(make, **options).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


@cache
def _files(make: Callable[..., object], **options: Any) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        make(Path(folder), **options)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}
