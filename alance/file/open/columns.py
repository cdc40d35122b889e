"""Columns of open files, and the cache of their page states.

Page states are kept with the columns of their file, as one entry of the session's search
cache. A scan works on a copy of the columns if its page states would only fill the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from alance.format.container import FileColumn

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from alance import _kernels
    from alance.format.container import Container

SMALL_BYTES: Final = 256 << 10  # a scan reads a page up to this size whole, in one round


class States(Protocol):
    """Cache of facts about files, such as opened columns."""

    def peek(self, key: Hashable) -> Any | None: ...

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any | None]: ...

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None: ...


def keep_grown(container: Container, num_bytes: int, states: States) -> None:
    """Add the memory of new page states to the size of their file, and update the cache."""
    container.columns.grow(num_bytes)
    states.put(("file", container.path), container, container.num_bytes)


class OpenColumn(FileColumn):
    """A column of an open file.

    Attributes:
        container: file of the column.
        parsed: descriptions of the pages of a column of 2.0; None for those not parsed yet.
    """

    __slots__ = ("container", "parsed")

    def __init__(self, container: Container, index: int, kernel: _kernels.ColumnPages) -> None:
        super().__init__(index, kernel)
        self.container = container
        self.parsed: list[Any] = [None] * self.num_pages
