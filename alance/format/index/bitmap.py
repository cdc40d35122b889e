"""The bitmap index: each distinct value with the set of rows that have it.

`bitmap_page_lookup.lance` has the columns `keys` (of the indexed type, in order, null first) and
`bitmaps` (binary: a row set); its schema's metadata has their number.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from typing import Final

FILE: Final = "bitmap_page_lookup.lance"
KEYS: Final = "keys"
BITMAPS: Final = "bitmaps"
STATS: Final = "lance:index_stats"
LABEL_NULLS: Final = "lance:label_list_nulls"  # the global buffer with the rows of null lists
