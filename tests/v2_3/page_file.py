"""Files of one column that is a page with a given description, and every way to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alance.file.rows.whole import FragmentFiles, read_whole
from alance.file_version import FileVersion
from tests.reference.built_pages import PageBytes, ReadFile, built_file, values_of
from tests.reference.driven import Known

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.tasks import FragmentTask
    from alance.format.proto import encodings_v2_3_pb2 as pb3


class PageFile(ReadFile):
    """A file of 2.3 in memory, whose reads remember what they learned.

    Args:
        pages: description, buffers and rows of each page.
    """

    def __init__(
        self,
        field: pa.Field,
        pages: Sequence[tuple[pb3.PlanarLayout, Sequence[bytes], int]],
    ) -> None:
        contents = [
            PageBytes(description.SerializeToString(), buffers, rows)
            for description, buffers, rows in pages
        ]
        own = built_file(field, contents, FileVersion.V2_3)
        super().__init__(own.schema, own.num_rows, own.content)
        self.states = Known()

    @property
    def num_read(self) -> int:
        """Bytes of the last read."""
        return sum(part.stop - part.start for part in self.ranges)

    def opened(self, *, is_known: bool) -> OpenFragment:
        """The fragment; with what earlier reads have learned, or nothing of it."""
        if not is_known:
            self.states = Known()
        return self.open(self.states, is_far=False)

    def rows(self, task: FragmentTask) -> list[Any]:
        """The values of a task, which the kernel decodes."""
        assert not task.others
        return values_of(task)

    def take(self, rows: Sequence[int], *, is_known: bool = False) -> list[Any]:
        """The values of single rows."""
        own = self.opened(is_known=is_known)
        return self.rows(self.run(own.take(np.array(rows, np.int64), self.states, guess=False)))

    def read(self, start: int, stop: int, *, is_known: bool = False) -> list[Any]:
        """The values of a range of rows."""
        own = self.opened(is_known=is_known)
        return self.rows(self.run(own.read(start, stop, self.states)))

    def whole(self) -> list[Any]:
        """The values of all rows of the file in memory."""
        files = FragmentFiles(None, [self._source], self.num_rows)
        return self.run(read_whole(self.schema, [files])).decode().column(0).to_pylist()
