"""Joint execution of concurrent searches that differ only in their queries.

See `alance.io.reading.joined`.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.io.reading.joined import Joint
from alance.ops.read.options import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Any

    import pyarrow as pa

    from alance.base.arrays import Int32s
    from alance.ops.version.snapshot import Snapshot

MAX_JOINED_ROWS: Final = 16 << 10  # maximum result rows of all joined searches
# Number of concurrent joined searches; key: True for a remote store. More of them would only wait
# for a thread, or for requests that a larger batch would share.
SEARCHES_UNDER_WAY: Final[Mapping[bool, int]] = {False: 2, True: 8}
# Options that may differ among joined searches.
_OWN: Final = ("nearest", "full_text_query", "order_by")
_shared: Final = attrgetter(
    *(field.name for field in fields(ScanOptions) if field.name not in _OWN)
)


@dataclass(frozen=True, slots=True)
class CallerPart:
    """Result of one caller: its rows, and the query number of each row."""

    numbers: Int32s
    batch: pa.RecordBatch


def joint_of(
    snapshot: Snapshot,
    question: Hashable,
    num_rows: int,
    columns: object,
    options: ScanOptions,
    *,
    most: int = MAX_JOINED_ROWS,
) -> Joint[Any, CallerPart]:
    """Return the joint that batches a search with concurrent searches of the same version.

    Args:
        question: further properties that joined searches must share.
        num_rows: number of result rows of each search.
        most: maximum number of joined searches.
    """
    names = tuple(columns) if isinstance(columns, list | tuple) else columns

    def joint() -> Joint[Any, CallerPart]:
        return Joint(min(most, MAX_JOINED_ROWS // num_rows), SEARCHES_UNDER_WAY[snapshot.is_remote])

    # The loop is part of the key, because callers wait on their own loop.
    key: Hashable = (Joint, asyncio.get_running_loop(), question, names, _shared(options))
    # `==` of expressions is an expression, and equal parameters may differ in type.
    is_plain = isinstance(options.filter, str | None) and options.params is None
    try:
        hash(key)
    except TypeError:
        return joint()
    return snapshot.remember(key, joint) if is_plain else joint()
