"""Concurrent searches that differ in their queries alone go together: see `alance.io.joined`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from alance.io.joined import Joint

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import pyarrow as pa

    from alance.arrays import Float64s, Int32s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.options import Search
    from alance.ops.version.snapshot import Snapshot

MAX_ROWS: Final = 16 << 10  # of all searches that go together
# Searches of one kind under way: more would only wait for a thread, or for requests that more
# queries could share.
UNDER_WAY: Final[Mapping[bool, int]] = {False: 2, True: 8}  # of a remote store: True
_OWN: Final = ("nearest", "order_by")  # options of which each caller may have others


@dataclass(frozen=True, slots=True)
class Part:
    """What one caller gets: the numbers of its queries, and their rows."""

    numbers: Int32s
    batch: pa.RecordBatch


def joint_of(
    snapshot: Snapshot, search: Search, columns: object, options: ScanOptions
) -> Joint[Float64s, Part]:
    """What a search goes together with: those of the version that ask the same."""
    rest = tuple(
        getattr(options, field.name) for field in fields(options) if field.name not in _OWN
    )
    asked = (
        search.path, search.k, search.metric, search.lower, search.upper, search.probing,
        search.fast_search, search.width,
    )  # fmt: skip
    names = tuple(columns) if isinstance(columns, list | tuple) else columns
    most = MAX_ROWS // (search.k * search.width)
    joint: Joint[Float64s, Part] = Joint(most, UNDER_WAY[snapshot.is_remote])
    # Of this loop: callers of another one wait there.
    key: Hashable = (Joint, asyncio.get_running_loop(), asked, names, rest)
    # An expression's == is an expression; values of parameters are equal across types.
    is_plain = isinstance(options.filter, str | None) and options.params is None
    try:
        hash(key)
    except TypeError:
        return joint
    return snapshot.remember(key, lambda: joint) if is_plain else joint
