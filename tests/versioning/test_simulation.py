"""Stories of committers; `ALANCE_SIMULATION_RUNS` plays more of them."""

from __future__ import annotations

import os
from collections import Counter

from alance.testing.simulation import simulate

RUNS = int(os.environ.get("ALANCE_SIMULATION_RUNS", "1000"))


def test_the_table_is_what_the_committers_were_told() -> None:
    seen: Counter[str] = Counter()
    for seed in range(RUNS):
        story = simulate(seed)
        seen["told"] += len(story.told)
        seen["failed"] += len(story.failed)
        seen["open"] += len(story.open)
        seen["crashes"] += story.crashes
        seen["cancelled"] += story.cancelled
        seen["unknown"] += story.unknown
    assert all(seen[key] for key in ("told", "failed", "open", "crashes", "cancelled", "unknown"))
