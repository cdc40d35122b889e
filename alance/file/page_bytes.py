"""Bytes of parts of pages: asked for, and kept by file until they are decoded."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.format.plans import ByteRange, Pieces

if TYPE_CHECKING:
    from alance.file.ranged_columns import RangedColumns
    from alance.format.plans import Plan

FEW_PIECES: Final = 16  # as many as a read answers on the loop
LARGE_BYTES: Final = 32 << 10  # of a piece: to copy it costs more than to ask for it by itself
PADDING: Final = 64  # bytes: no file has more between neighbouring pages


class PageBytes:
    """What was read of the pages of some files; each part is asked for once."""

    def __init__(self) -> None:
        self._files: dict[str, _kernels.HeldFile] = {}

    def files(self, columns: RangedColumns) -> list[_kernels.HeldFile]:
        """What is held of the files of columns, in their order."""
        files = []
        for path in columns.paths:
            file = self._files.get(path)
            if file is None:
                container = columns.containers[path]
                begins, contents = [], []
                if container.is_whole:
                    begins, contents = [0], [container.content]
                file = self._files[path] = _kernels.HeldFile(begins, contents)
            files.append(file)
        return files

    def add(self, path: str, start: int, content: memoryview) -> None:
        """Keep bytes of a file that is not kept whole."""
        file = self._files.setdefault(path, _kernels.HeldFile([], []))
        file.add(start, content)

    def read(self, columns: RangedColumns, plan: _kernels.RangePlan) -> Plan[None]:
        """Plan the bytes of pages that are not here yet: one round. Few or large pieces are used
        where they were read; of many small ones, which would each cost what a request costs, one
        buffer a file is asked for.
        """
        ends, starts, stops = plan.missing(self.files(columns), columns.files, PADDING)
        by_path = [
            (path, starts[first:end], stops[first:end])
            for path, (first, end) in zip(columns.paths, pairwise([0, *ends]), strict=True)
            if first < end and not columns.containers[path].is_whole
        ]
        if not by_path:
            return
        if len(starts) <= FEW_PIECES or (stops - starts).sum() >= LARGE_BYTES * len(starts):
            parts = [
                ByteRange(path, start, stop)
                for path, first, last in by_path
                for start, stop in zip(first.tolist(), last.tolist(), strict=True)
            ]
            for part, content in zip(parts, (yield parts), strict=True):
                self._files[part.path].add(part.start, content)
        else:
            contents = yield [Pieces.of(*of_file) for of_file in by_path]
            for content, (path, first, last) in zip(contents, by_path, strict=True):
                self._files[path].add_pieces(first, last, content)
