"""Files of one column that is a page with a given description, and every way to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alance.file.rows.fragment import FileSource, open_fragment
from alance.file.rows.whole import FragmentFiles, read_whole
from alance.file_version import FileVersion
from alance.format import plans
from alance.format.encode.base import EncodedPage
from alance.format.encode.container import FileBuilder
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from tests.reference.damaged import LOCATION
from tests.reference.driven import Known

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.file.rows.fragment import FragmentTask
    from alance.format.proto import encodings_v2_3_pb2 as pb3


class PageFile:
    """A file of 2.3 in memory.

    Args:
        pages: description, buffers and rows of each page.
        is_damaged: True if a page may contradict itself.
    """

    def __init__(
        self,
        field: pa.Field,
        pages: Sequence[tuple[pb3.PlanarLayout, Sequence[bytes], int]],
        *,
        is_damaged: bool = False,
    ) -> None:
        self.is_damaged = is_damaged
        self.schema = Schema.from_arrow(pa_schema(field))
        (own,) = self.schema.fields
        (leaf,) = leaf_columns(own)
        builder = FileBuilder(self.schema, FileVersion.V2_3, 0)
        chunks: list[Any] = []
        for description, buffers, rows in pages:
            content = tuple(np.frombuffer(buffer, np.uint8) for buffer in buffers)
            chunks += builder.add_page(0, EncodedPage.of(description, content, rows))
        chunks += builder.finish()
        self.content = b"".join(np.ascontiguousarray(chunk).tobytes() for chunk in chunks)
        self.num_rows = sum(rows for _, _, rows in pages) // leaf.multiplier
        self.source = FileSource(LOCATION, len(self.content), {leaf.field.id: 0})
        self.states = Known()
        self.num_read = 0  # bytes of the last read

    def run(self, plan: plans.Plan[Any]) -> Any:
        """What a plan returns."""
        result, rounds = plans.run(plan, self.content)
        self.num_read = sum(
            part.stop - part.start
            for ranges in rounds
            for entry in ranges
            for part in ([entry] if isinstance(entry, plans.ByteRange) else entry.ranges())
        )
        return result

    def opened(self, *, is_known: bool) -> Any:
        """The fragment; with what earlier reads have learned, or nothing of it."""
        if not is_known:
            self.states = Known()
        return self.run(open_fragment(self.schema, [self.source], self.num_rows, self.states))

    def rows(self, task: FragmentTask) -> list[Any]:
        """The values of a task, which the kernel decodes unless the page may be damaged."""
        assert self.is_damaged or not task.leaves
        batch = task.decode()
        batch.validate(full=True)
        return batch.column(0).to_pylist()

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
        files = FragmentFiles(None, [self.source], self.num_rows)
        return self.run(read_whole(self.schema, [files])).decode().column(0).to_pylist()


def pa_schema(field: pa.Field) -> pa.Schema:
    """A schema of one field."""
    import pyarrow as pa

    return pa.schema([field])
