"""Loops of processes that run tasks of an engine."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import alance
from alance.distributed import WorkerLoop

if TYPE_CHECKING:
    from pathlib import Path


def test_a_loop_is_sent_to_tasks_by_its_name(tmp_path: Path) -> None:
    loop = WorkerLoop("engine")
    received, again = (pickle.loads(pickle.dumps(loop)) for _ in range(2))
    assert received is again
    assert received is not pickle.loads(pickle.dumps(WorkerLoop("another engine")))
    loop.run(alance.write_dataset({"id": [1, 2]}, tmp_path / "table"))
    dataset = received.run(alance.dataset(tmp_path / "table"))
    batches = list(received.iterate(dataset.to_batches(["id"])))
    assert [batch["id"].to_pylist() for batch in batches] == [[1, 2]]
