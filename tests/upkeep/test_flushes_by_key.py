"""A sink of changes by key that flushes every ten rows: the cost of a flush does not grow.

`make soak` makes 5 000 flushes, and prints what each sample measures.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import alance

EVERY: Final = 16  # flushes between two runs of maintenance
POLICY: Final = alance.MaintenancePolicy(
    older_than=timedelta(0), retain_versions=20, min_old_versions=30
)


class Calls:
    """Counts the calls of Python in this thread during a `with` block."""

    count = 0

    def __enter__(self) -> Calls:
        def seen(_: object, event: str, __: object) -> None:
            self.count += event == "call"

        sys.setprofile(seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([16, 48], id="short"),
        pytest.param([96, 992, 4992], id="long", marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
    ],
)
async def test_flushes_of_changes_stay_as_cheap_as_the_first_ones(
    samples: list[int],
) -> None:
    """Half of the rows are new.

    A flush lists the versions twice, and reads the keys of the last flush. The bytes of other keys
    are printed only: they are scanned until there are 16 384 rows for each key of a flush.
    """
    uri = f"memory://flushes-{samples[-1]}/t"
    chance, num_rows = np.random.default_rng(1), 10

    def rows(number: int) -> pa.Table:
        old = chance.choice(num_rows, 5, replace=False)
        ids = np.concatenate([old, np.arange(num_rows, num_rows + 5)])
        texts = [f"row {key}" for key in ids]
        return pa.table({"id": ids, "n": np.full(10, number), "text": texts})

    start = pa.table({"id": range(10), "n": [0] * 10, "text": [""] * 10})
    dataset = await alance.write_dataset(start, uri)
    dataset = await dataset.create_scalar_index("id", "BTREE")
    costs: list[tuple[float, float, float]] = []
    with alance.trace() as trace:
        async with alance.ingest(uri, on="id", commit_interval=None) as sink:
            for number in range(1, samples[-1] + 1):
                is_sampled = any(0 <= sample - number < EVERY for sample in samples)
                before = (trace.num_requests, trace.num_bytes)
                with Calls() if is_sampled else nullcontext(Calls()) as calls:
                    await sink.upsert(rows(number))
                    await sink.flush()
                num_rows += 5
                after = (trace.num_requests, trace.num_bytes)
                if is_sampled:
                    costs.append((after[0] - before[0], after[1] - before[1], calls.count))
                if number % EVERY == 0:
                    dataset = await dataset.checkout_latest()
                    report = await dataset.maintain(POLICY)
                    assert {step.outcome for step in report.steps} <= {"done"}
    means: Any = np.array(costs).reshape(len(samples), EVERY, 3).mean(axis=1)
    print(dict(zip(samples, means.tolist(), strict=True)))
    assert means[:, 0].max() <= 3.5
    assert means[-1, 2] <= 1.5 * means[0, 2]
