"""Upkeep by the blocking face."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import TYPE_CHECKING

from alance import sync
from tests.changing.both_ways import Twins, read

if TYPE_CHECKING:
    from pathlib import Path


def test_all_of_it(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    dataset = sync.dataset(twins.ours)
    plan = pickle.loads(pickle.dumps(sync.Compaction.plan(dataset, target_rows_per_fragment=10)))
    assert plan.num_tasks() == 2
    assert plan.read_version == 1
    results = [
        pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(task)).execute(dataset)))
        for task in plan.tasks
    ]
    dataset = sync.Compaction.commit(dataset, results)
    dataset = dataset.optimize.compact_files()
    dataset.validate()
    assert len(dataset.fragments) == 1
    explanation = dataset.explain_cleanup_old_versions(timedelta(0), include_files=True)
    assert dataset.cleanup_old_versions(timedelta(0)) == explanation.stats
    dataset.migrate_manifest_paths_v2()
    assert read(twins.ours)["id"].to_pylist() == list(range(20))
