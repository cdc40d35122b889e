"""Sizes of the fragments that maintenance aims at."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import alance
from alance import MaintenancePolicy
from tests.upkeep.others import by_another_writer

if TYPE_CHECKING:
    from pathlib import Path

ROW_BYTES = 10_000
SCHEMA = pa.schema({"id": pa.int64(), "noise": pa.binary()})


async def test_fragments_are_joined_up_to_so_many_bytes(tmp_path: Path) -> None:
    dataset = await alance.write_dataset([], tmp_path / "t", schema=SCHEMA)
    for number in range(20):
        rows = [{"id": number, "noise": os.urandom(ROW_BYTES)} for _ in range(4)]
        dataset = await dataset.insert(rows)
    policy = MaintenancePolicy(
        min_small_fragments=4, target_bytes_per_fragment=200_000, older_than=timedelta(days=9)
    )
    dataset = await dataset.update_config(policy.to_config())
    assert MaintenancePolicy.from_config(dataset.config) == policy
    assert (await dataset.health()).num_small_fragments == 20
    report = await dataset.maintain()
    assert [step.kind for step in report.steps] == ["compact"]
    dataset = await dataset.checkout_latest()
    counts = [await fragment.count_rows() for fragment in dataset.fragments]
    assert counts == [16] * 5  # the largest power of two below 200 kB
    assert (await dataset.health()).num_small_fragments == 0
    assert (await dataset.maintain()).steps == ()


async def test_the_state_is_shown_although_the_policy_is_wrong(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"id": [1]}, tmp_path / "t")
    bad = {"alance.maintenance.target_bytes_per_fragment": "big"}
    dataset = await by_another_writer(dataset, bad)
    assert (await dataset.health()).num_small_fragments == 1
    with pytest.raises(alance.InvalidInputError, match="target_bytes_per_fragment='big'"):
        await dataset.maintain()
