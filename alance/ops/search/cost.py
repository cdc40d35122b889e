"""What a search with a prefilter costs: by an index, or by taking the vectors of the rows it keeps.

Costs are in bytes. A request counts as the bytes that its store could read in the same time. Costs
do not depend on what is in memory or on other searches, so the same search always goes the same
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.format.index.values import WIDTHS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.search.indexed import Ivf
    from alance.ops.search.options import Search
    from alance.ops.version.snapshot import Snapshot

FEW_ROWS: Final = 256  # of a prefilter; of more the vectors are never taken one by one
ROW_BYTES: Final = 256  # what comparing a row of a partition and asking the filter costs: 50 ns
PART_REQUESTS: Final = 2  # of a partition: its row ids, and its codes


def taken_cost(snapshot: Snapshot, search: Search, num_rows: int, num_all: int) -> int:
    """The cost of taking the vectors of some rows.

    Args:
        num_all: the rows of the fragments that they are in.
    """
    width = search.dim * WIDTHS[search.value_type]
    return num_rows * width + min(num_rows * snapshot.table.store.profile.take_gap, num_all * width)


def probed_cost(
    snapshot: Snapshot, search: Search, opened: Sequence[Ivf], num_rows: int, num_all: int
) -> int:
    """The cost of looking for some rows in the partitions of an index."""
    gap, total = snapshot.table.store.profile.take_gap, 0
    for ivf in opened:
        least, most = search.probing.partitions(ivf.num_partitions)
        # So many of all partitions have k of the rows that are looked for.
        expected = search.k * ivf.num_partitions // max(1, num_rows)
        num_bytes = num_all // max(1, ivf.num_partitions) * (ivf.row_bytes + ROW_BYTES)
        total += min(most, max(least, expected)) * (PART_REQUESTS * gap + num_bytes)
    refined = search.k * search.probing.refine_factor if search.probing.refine_factor else 0
    return total + taken_cost(snapshot, search, refined, num_all)


def costs(
    snapshot: Snapshot, search: Search, opened: Sequence[Ivf], num_rows: int
) -> tuple[int, int]:
    """The cost of taking some rows, and of looking for them in partitions."""
    num_all = sum(int(ivf.storage.offsets[-1]) for ivf in opened)
    return taken_cost(snapshot, search, num_rows, num_all), probed_cost(
        snapshot, search, opened, num_rows, num_all
    )


def pays_taking(snapshot: Snapshot, search: Search, opened: Sequence[Ivf], num_rows: int) -> bool:
    """Whether the rows of a prefilter are few enough to be compared one by one, exactly."""
    taken, probed = costs(snapshot, search, opened, num_rows)
    return num_rows <= FEW_ROWS and taken <= probed
