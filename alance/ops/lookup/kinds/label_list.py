"""Label indices: bitmap indices of the items of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.index import bitmap
from alance.format.index.bitmap import ROW_SETS
from alance.format.numbers import is_variable_list
from alance.ops.lookup.kinds.bitmap import Bitmap
from alance.ops.lookup.kinds.keys import LabelKeys
from alance.ops.lookup.kinds.kind import is_ordered

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.expr.index_query import Ask
    from alance.format.index.zones import ZoneOptions
    from alance.ops.lookup.kinds.kind import PreparedAsk
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot


class LabelList(Bitmap):
    """Distinct list items, each with the set of the rows whose list contains it."""

    name = "LabelList"
    index_type = "LABEL_LIST"
    type_url = "/lance.table.LabelListIndexDetails"
    versions = (0, 1)
    version = 1
    columns = "a list of such as a bitmap index can be of"
    null_rows = bitmap.LABEL_NULLS
    has_ranges = False
    of_json = of_stable_json = False

    def suits(self, type_: pa.DataType) -> bool:
        return is_variable_list(type_) and is_ordered(type_.value_type)

    def takes(self, ask: Ask) -> bool:
        return ask.of_item is not None

    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        assert ask.of_item is not None
        return await super().ask(snapshot, segment, ask.of_item)

    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> LabelKeys:
        return LabelKeys.of(type_, ROW_SETS)
