"""Joins concurrent searches that differ only in their queries: see `alance.io.reading.joined`."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from alance.io.reading.joined import Joint
from alance.ops.read.options import ScanOptions
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Any

    import pyarrow as pa

    from alance.arrays import Int32s
    from alance.ops.version.snapshot import Snapshot

MAX_ROWS: Final = 16 << 10  # of all searches that go together
# Searches of one kind under way: more would only wait for a thread, or for requests that more
# queries could share.
UNDER_WAY: Final[Mapping[bool, int]] = {False: 2, True: 8}  # of a remote store: True
# Options of which each caller may have others.
_OWN: Final = ("nearest", "full_text_query", "order_by")
_shared: Final = attrgetter(
    *(field.name for field in fields(ScanOptions) if field.name not in _OWN)
)


@dataclass(frozen=True, slots=True)
class CallerPart:
    """What one caller gets: the numbers of its queries, and their rows."""

    numbers: Int32s
    batch: pa.RecordBatch


def joint_of(
    snapshot: Snapshot,
    asked: Hashable,
    num_rows: int,
    columns: object,
    options: ScanOptions,
    *,
    most: int = MAX_ROWS,
) -> Joint[Any, CallerPart]:
    """What a search goes together with: those of the version that ask the same.

    Args:
        asked: what they ask alike, beside columns and options.
        num_rows: of each search.
        most: searches that go together.
    """
    names = tuple(columns) if isinstance(columns, list | tuple) else columns

    def joint() -> Joint[Any, CallerPart]:
        return Joint(min(most, MAX_ROWS // num_rows), UNDER_WAY[snapshot.is_remote])

    # Of this loop: callers of another one wait there.
    key: Hashable = (Joint, asyncio.get_running_loop(), asked, names, _shared(options))
    # An expression's == is an expression; values of parameters are equal across types.
    is_plain = isinstance(options.filter, str | None) and options.params is None
    try:
        hash(key)
    except TypeError:
        return joint()
    return snapshot.remember(key, joint) if is_plain else joint()
