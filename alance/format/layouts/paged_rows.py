"""Pages that the kernel decodes, and rows of them that were placed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.format.layouts.place import PagePlace
from alance.format.plans import Pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance import _kernels
    from alance.errors import CorruptFileError


NOTHING: Final = memoryview(b"")  # the bytes of pages of one value


class RowPage(NamedTuple):
    """A page that the kernel decodes.

    Attributes:
        layers: as kernels have them; 0 if they are more than these know.
        start: where the page begins in its file.
    """

    kernel: _kernels.RowPage
    layers: int
    start: int


class PlacedRows:
    """The same rows of some columns: where their bytes are, in files that have all of them.

    Attributes:
        paths: of the files that the plan's tables are of.
        content: the bytes of all pieces, one behind the other; None if they are not read, or are
            in `files`.
        files: what is held of the file of each table.
    """

    __slots__ = ("_pieces", "content", "files", "paths", "plan")

    def __init__(
        self,
        plan: _kernels.RowPlan,
        paths: Sequence[str],
        files: Sequence[_kernels.HeldFile] | None = None,
    ) -> None:
        self.plan = plan
        self.paths = paths
        self.content: memoryview | None = None
        self.files = files
        self._pieces: Pieces | None = None

    @property
    def is_read(self) -> bool:
        """True if the bytes are in memory."""
        return self.content is not None or self.files is not None

    def corrupt(self, hit: int, what: str) -> CorruptFileError:
        """The error that says what is wrong, and in which page of the plan."""
        table, start = self.plan.place(hit)
        return PagePlace(self.paths[table], ((start, 0),), 0).corrupt(what)

    @property
    def pieces(self) -> Pieces:
        """What is to be read."""
        if self._pieces is None:
            self._pieces = self.pieces_of(0, self.plan.num_groups)
        return self._pieces

    def pieces_of(self, first: int, last: int) -> Pieces:
        """What is to be read for some groups."""
        tables, ends, starts, stops, num_bytes = self.plan.pieces(first, last)
        paths = [*map(self.paths.__getitem__, tables)]
        return Pieces(paths, ends, starts, stops, num_bytes)

    def pieces_of_columns(self, columns: Sequence[int]) -> Pieces:
        """What is to be read for some columns, one at least."""
        groups: list[list[int]] = []
        for column in columns:
            first, last = self.plan.groups(column)
            if groups and groups[-1][1] == first:
                groups[-1][1] = last
            else:
                groups.append([first, last])
        parts = [self.pieces_of(first, last) for first, last in groups]
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(len(part.starts) for part in parts)]).tolist()
        return Pieces(
            [path for part in parts for path in part.paths],
            [first + end for first, part in zip(before, parts, strict=False) for end in part.ends],
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.stops for part in parts]),
            sum(part.num_bytes for part in parts),
        )
