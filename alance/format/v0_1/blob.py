"""Blob columns in files of 0.1: strings like others, described by where their bytes are.

Source: docs/format/file-0.1.md, "Strings and binary"; blobs are not special there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CorruptFileError
from alance.format.blocks import FixedWidth, StructBlock
from alance.format.layouts.fields import values_array
from alance.format.v0_1.pages import firsts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.v0_1.pages import Pages, Parts
    from alance.format.v2_0.fields import PagedColumn, Rows
    from alance.format.v2_0.spans import Spans


@dataclass(frozen=True, slots=True)
class BlobRows:
    """The offsets of strings."""

    field: Field
    parts: Parts
    entries: memoryview
    file_bytes: int

    @property
    def num_bytes(self) -> int:
        return len(self.entries)

    def decode(self, arrow: pa.DataType) -> pa.Array:
        offsets = np.frombuffer(self.entries, "<i8")
        ends = firsts(self.parts.counts + 1)
        starts = np.delete(offsets, ends[1:] - 1)
        stops = np.delete(offsets, ends[:-1])
        if ((starts < 0) | (stops < starts) | (stops > self.file_bytes)).any():
            raise CorruptFileError(
                f"field {self.field.name!r}: blobs outside of a file of {self.file_bytes} bytes"
            )
        children = tuple(
            FixedWidth(64, len(part), np.ascontiguousarray(part).view(np.uint8))
            for part in (starts, stops - starts)
        )
        valid = stops > starts if self.field.nullable else None
        return values_array(self.field, arrow, StructBlock(len(starts), children), valid)


@dataclass(frozen=True, slots=True)
class BlobNode:
    """A field of blobs, of which only the places are read."""

    field: Field
    pages: Pages

    def columns(self) -> Iterator[PagedColumn]:
        return iter(())

    def plan(self, spans: Spans) -> Plan[Rows]:
        """One round."""
        parts = self.pages.parts(spans)
        entries = yield from self.pages.fetch(parts, 8, extra=1)
        return BlobRows(self.field, parts, entries, self.pages.place.size(0))
