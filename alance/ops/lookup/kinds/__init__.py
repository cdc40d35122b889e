"""The kinds of scalar indices: one module and one object each.

An object defines the name of its kind, the columns that it can index, the questions that it
answers, and how its files are read, written, remapped and carried over. `kind.IndexKind` is the
interface. Kinds with similar files share `row_sets` or `zones`. A kind never scans a table: the
package `index` passes it the rows to write.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from alance.ops.lookup.kinds.bitmap import Bitmap
from alance.ops.lookup.kinds.bloom_filter import BloomFilter
from alance.ops.lookup.kinds.btree import BTree
from alance.ops.lookup.kinds.fm import FM
from alance.ops.lookup.kinds.label_list import LabelList
from alance.ops.lookup.kinds.ngram import NGram
from alance.ops.lookup.kinds.zone_map import ZoneMap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.ops.lookup.kinds.kind import IndexKind

# By the type of the details. Among indices with equal coverage, the first kind in this table that
# takes a question and is worth using answers it: a bitmap index has the best estimate before a
# read.
KINDS: Final[Mapping[str, IndexKind]] = MappingProxyType(
    {
        "Bitmap": Bitmap(),
        "BTree": BTree(),
        "LabelList": LabelList(),
        "NGram": NGram(),
        "FM": FM(),
        "BloomFilter": BloomFilter(),
        "ZoneMap": ZoneMap(),
    }
)
