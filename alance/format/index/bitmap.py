"""The bitmap index: each distinct value with the set of rows that have it. Label indices of lists
are the same over items: a key has the rows whose lists have it.

`bitmap_page_lookup.lance` has the columns `keys` (of the indexed type, in order, null first) and
`bitmaps` (binary: a row set); its schema's metadata has their number.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.format.index.addresses import parse_rows, rows_bytes
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.arrays import Int64s
    from alance.format.row_set import RowSet

FILE: Final = "bitmap_page_lookup.lance"
KEYS: Final = "keys"
BITMAPS: Final = "bitmaps"
STATS: Final = "lance:index_stats"
LABEL_NULLS: Final = "lance:label_list_nulls"  # the global buffer with the rows of null lists


@dataclass(frozen=True, slots=True)
class KeyedSets:
    """Where an index has keys and the rows of each.

    Attributes:
        keys, sets: names of the two columns of the file.
        parse: of a value of the column `sets`; raises `CorruptFileError`.
        to_bytes: such a value of some rows, in any order.
    """

    file: str
    keys: str
    sets: str
    parse: Callable[[memoryview], RowSet]
    to_bytes: Callable[[Int64s], bytes]

    def schema(self, type_: pa.DataType) -> pa.Schema:
        """The columns of the file, of keys of a type."""
        return pa.schema([pa.field(self.keys, type_), pa.field(self.sets, pa.binary())])


ROW_SETS: Final = KeyedSets(FILE, KEYS, BITMAPS, parse_rows, rows_bytes)
