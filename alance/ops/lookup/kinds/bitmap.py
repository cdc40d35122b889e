"""Bitmap indices: each distinct value with the set of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.expr.tree import plain
from alance.format.index import bitmap
from alance.format.index.bitmap import ROW_SETS
from alance.format.numbers import array_bytes
from alance.format.row_set import RowSet
from alance.ops.lookup.files import CACHED_SETS
from alance.ops.lookup.kinds.keys import RowKeys
from alance.ops.lookup.kinds.kind import ORDERED, check_type, is_ordered
from alance.ops.lookup.kinds.row_sets import SET_SHARE, RowSetsKind

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pyarrow as pa

    from alance.expr.index_query import Ask
    from alance.format.index.zones import ZoneOptions
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.kinds.kind import PreparedAsk
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

GROUP_SETS: Final = 1024  # row sets per read


class Bitmap(RowSetsKind):
    """Distinct values, each with the set of its rows."""

    name = "Bitmap"
    index_type = "BITMAP"
    type_url = "/lance.table.BitmapIndexDetails"
    columns = ORDERED
    file = bitmap.BITMAP_FILE
    file_names = frozenset({bitmap.BITMAP_FILE})
    key_count = "num_bitmaps"
    has_ranges = True
    of_json = of_stable_json = True

    def suits(self, type_: pa.DataType) -> bool:
        return is_ordered(type_)

    def takes(self, ask: Ask) -> bool:
        return True

    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        files = segment.files(snapshot)
        keys = await files.keys()
        values = plain(keys)
        check_type(ask, values.type)
        mask = await snapshot.engine.decode(lambda: ask.matches(values), array_bytes(keys))
        places = np.flatnonzero(mask).tolist()
        return PreparedBitmap(segment, files, places, len(keys))

    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> RowKeys:
        return RowKeys(type_, ROW_SETS)


@dataclass(frozen=True, slots=True)
class PreparedBitmap:
    """A question to a bitmap index, with the positions of its keys."""

    segment: Segment
    files: IndexFiles
    places: list[int]
    num_keys: int

    @property
    def estimate(self) -> int:
        return len(self.segment.domain) * len(self.places) // max(1, self.num_keys)

    @property
    def work(self) -> int:
        return self.estimate if self.segment.has_row_ids else self.estimate // SET_SHARE

    @property
    def summary(self) -> str:
        return f"{len(self.places)} of {self.num_keys} values"

    @property
    def num_compared(self) -> int:
        return len(self.places)

    @property
    def cache_key(self) -> Hashable:
        return tuple(self.places) if len(self.places) <= CACHED_SETS else None

    is_exact = True
    is_at_hand = False

    @property
    def is_counted(self) -> bool:
        return not self.segment.has_row_ids

    async def row_numbers(self) -> RowSet:
        rows: RowSet | None = None
        for at in range(0, len(self.places), GROUP_SETS):
            sets = await self.files.row_sets(self.places[at : at + GROUP_SETS])
            if rows is not None:
                sets.append(rows)
            rows = sets[0] if len(sets) == 1 else await self.files.joined(sets)
        return RowSet.union(()) if rows is None else rows
