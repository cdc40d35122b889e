"""Bitmap index: each distinct value with the set of rows that have it.

A label list index has the same file. Its keys are list items, each with the rows whose lists
contain it.

`bitmap_page_lookup.lance` has the columns `keys` (of the indexed type, in order, null first) and
`bitmaps` (binary: a row set); the metadata of its schema has the number of keys.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base.records import dataclass
from alance.format.index.addresses import parse_rows, rows_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Int64s
    from alance.format.row_set import RowSet

BITMAP_FILE: Final = "bitmap_page_lookup.lance"
KEYS_COLUMN: Final = "keys"
BITMAPS: Final = "bitmaps"
STATS: Final = "lance:index_stats"
# Metadata key; its value is the number of the global buffer with the rows of null lists.
LABEL_NULLS: Final = "lance:label_list_nulls"


@dataclass(frozen=True, slots=True)
class KeyedSets:
    """Schema and codec of an index file with keys and the row set of each key.

    Attributes:
        file: name of the file.
        keys: name of the column of keys.
        sets: name of the column of row sets.
        parse: parses a row set; raises `CorruptFileError`.
        to_bytes: encodes rows, in any order, as a row set.
    """

    file: str
    keys: str
    sets: str
    parse: Callable[[memoryview], RowSet]
    to_bytes: Callable[[Int64s], bytes]

    def schema(self, type_: pa.DataType) -> pa.Schema:
        """Return the schema of the file for keys of a type."""
        return pa.schema([pa.field(self.keys, type_), pa.field(self.sets, pa.binary())])


ROW_SETS: Final = KeyedSets(BITMAP_FILE, KEYS_COLUMN, BITMAPS, parse_rows, rows_bytes)
