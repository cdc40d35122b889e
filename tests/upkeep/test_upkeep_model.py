"""Random turns of both writers with upkeep in between, against a model of the rows."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from tests.changing.both_ways import latest, read, rows

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 24


class Turns:
    """A table, what its rows must be, and steps that change both."""

    def __init__(self, path: Path, dice: random.Random, *, stable: bool) -> None:
        self.path, self.dice, self.stable = path, dice, stable
        self.rows: dict[int, float] = {}
        self.row_ids: dict[int, int] = {}  # with stable row ids: of rows that are there
        self.next = 0

    async def begin(self) -> None:
        options: dict[str, Any] = {"enable_stable_row_ids": self.stable, "max_rows_per_file": 7}
        options["enable_v2_manifest_paths"] = self.dice.random() < 0.5
        lance.write_dataset(self.new_rows(20), self.path, **options)

    def new_rows(self, count: int) -> Any:
        result = rows(self.next, self.next + count)
        self.rows |= {n: n * 1.5 for n in range(self.next, self.next + count)}
        self.next += count
        return result

    def drawn(self) -> list[int]:
        least = self.dice.choice([0, 0, max(self.rows) // 2])
        result = [row for row in self.rows if row >= least]
        return self.dice.sample(result, min(len(result), self.dice.randint(1, 9)))

    async def step(self) -> str:
        ours = self.dice.random() < 0.6
        name = self.dice.choice(
            ["append", "append", "delete", "update", "compact", "compact", "cleanup", "index"]
        )
        table, dataset = lance.dataset(self.path), await alance.dataset(self.path)
        if name == "append":
            data = self.new_rows(self.dice.randint(1, 12))
            await dataset.insert(data) if ours else table.insert(data)
        elif name in ("delete", "update"):
            ids = self.drawn()
            where = f"id in ({', '.join(map(str, ids))})"
            if name == "delete" and len(ids) < len(self.rows):
                await dataset.delete(where) if ours else table.delete(where)
                self.rows = {key: value for key, value in self.rows.items() if key not in ids}
            elif name == "update":
                changes = {"v": "v + 0.5"}
                if ours:
                    await dataset.update(changes, where=where)
                else:
                    table.update(changes, where=where)
                self.rows |= {key: self.rows[key] + 0.5 for key in ids}
        elif name == "compact":
            target = self.dice.choice([5, 12, 30, 1000])
            if ours:
                await dataset.optimize.compact_files(
                    target_rows_per_fragment=target, num_threads=self.dice.randint(1, 3)
                )
            else:
                table.optimize.compact_files(target_rows_per_fragment=target)
        elif name == "cleanup":
            keep = self.dice.randint(1, 4)
            if ours:
                await dataset.cleanup_old_versions(retain_versions=keep)
            else:
                table.cleanup_old_versions(older_than=timedelta(0), retain_versions=keep)
        else:
            table.create_scalar_index("id", "BTREE", replace=True)
        return f"{name} by {'alance' if ours else 'pylance'}"

    async def check(self, after: str) -> None:
        content = read(self.path)
        rows = dict(zip(content["id"].to_pylist(), content["v"].to_pylist(), strict=True))
        assert content.num_rows == len(rows), after
        assert rows == self.rows, after
        if self.stable:
            ids = dict(zip(content["id"].to_pylist(), content["_rowid"].to_pylist(), strict=True))
            by_key = {key: value for key, value in self.row_ids.items() if key in ids}
            assert by_key == {key: ids[key] for key in by_key}, after
            self.row_ids = ids
        dataset = await alance.dataset(self.path)
        await dataset.validate()
        sample = self.dice.choice(sorted(self.rows))
        for number in (sample, -1):
            expected = int(number in self.rows)
            assert lance.dataset(self.path).count_rows(f"id = {number}") == expected, after
            assert await dataset.count_rows(f"id = {number}") == expected, after
        columns = ["id", "v", "_rowid"]
        table = await dataset.to_table(columns)
        assert table.to_pylist() == content.select(columns).to_pylist(), after


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(4, 40))]
)
async def test_random_turns_follow_the_model(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    turns = Turns(tmp_path / "t.lance", dice, stable=seed % 2 == 0)
    await turns.begin()
    steps: list[str] = []
    for _ in range(STEPS):
        steps.append(await turns.step())
        await turns.check(f"seed {seed}: {steps}")
    assert latest(turns.path).fragments
