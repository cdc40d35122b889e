"""Costs of a search with a prefilter: by an index, or by taking the filtered rows.

Costs are in bytes. A request costs as many bytes as its store can read in the same time. Costs do
not depend on caches or other searches, so a search always takes the same path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.format.index.values import NUMBER_WIDTHS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.search.indexed import Ivf
    from alance.ops.search.options import VectorSearch
    from alance.ops.version.snapshot import Snapshot

MAX_TAKEN_ROWS: Final = 256  # with more filtered rows, vectors are never taken
COMPARED_ROW_BYTES: Final = 256  # cost of filtering and comparing a row of a partition: 50 ns
PART_REQUESTS: Final = 2  # requests per partition: row ids, and codes


def taken_cost(snapshot: Snapshot, search: VectorSearch, num_rows: int, num_all: int) -> int:
    """Return the cost of taking the vectors of rows.

    Args:
        num_all: total number of rows in the segments of the index.
    """
    width = search.type.dim * NUMBER_WIDTHS[search.type.name]
    return num_rows * width + min(num_rows * snapshot.table.store.profile.take_gap, num_all * width)


def probed_cost(
    snapshot: Snapshot, search: VectorSearch, opened: Sequence[Ivf], num_rows: int, num_all: int
) -> int:
    """Return the cost of searching the partitions of an index if `num_rows` rows are eligible."""
    gap, total = snapshot.table.store.profile.take_gap, 0
    for ivf in opened:
        least, most = search.probing.partitions(ivf.num_partitions)
        # Number of partitions that are expected to contain k of these rows.
        expected = search.k * ivf.num_partitions // max(1, num_rows)
        num_bytes = num_all // max(1, ivf.num_partitions) * (ivf.row_bytes + COMPARED_ROW_BYTES)
        total += min(most, max(least, expected)) * (PART_REQUESTS * gap + num_bytes)
    refined = search.k * search.probing.refine_factor if search.probing.refine_factor else 0
    return total + taken_cost(snapshot, search, refined, num_all)


def costs(
    snapshot: Snapshot, search: VectorSearch, opened: Sequence[Ivf], num_rows: int
) -> tuple[int, int]:
    """Return the cost of taking the filtered rows, and of searching partitions for them."""
    num_all = sum(int(ivf.offsets[-1]) for ivf in opened)
    return taken_cost(snapshot, search, num_rows, num_all), probed_cost(
        snapshot, search, opened, num_rows, num_all
    )


def pays_taking(
    snapshot: Snapshot, search: VectorSearch, opened: Sequence[Ivf], num_rows: int
) -> bool:
    """True if there are few filtered rows, and it is cheaper to take and compare them exactly."""
    taken, probed = costs(snapshot, search, opened, num_rows)
    return num_rows <= MAX_TAKEN_ROWS and taken <= probed
