"""Random histories of branches, tags, restores and clones by both writers, against a model."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 50


@dataclass
class Model:
    """The rows of each version of each branch (None: main), and what the tags name."""

    rows: dict[str | None, dict[int, list[int]]] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    tags: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    next_row: int = 0
    next_name: int = 0

    def latest(self, branch: str | None) -> int:
        return max(self.rows[branch])

    def name(self, kind: str) -> str:
        self.next_name += 1
        return f"{kind}{self.next_name}"

    def new_rows(self, count: int) -> list[int]:
        self.next_row += count
        return list(range(self.next_row - count, self.next_row))

    def is_needed(self, branch: str | None) -> bool:
        return branch in self.parents.values() or any(
            tag[0] == branch for tag in self.tags.values()
        )


class History:
    """One table; each step is taken by alance or by pylance."""

    def __init__(self, path: str, seed: int, *, stable: bool) -> None:
        self.path = path
        self.die = random.Random(seed)
        self.model = Model()
        rows = self.model.new_rows(6)
        lance.write_dataset(
            pa.table({"a": rows}), path, max_rows_per_file=3, enable_stable_row_ids=stable
        )
        self.model.rows[None] = {1: rows}

    async def ours(self, branch: str | None) -> alance.Dataset:
        return await (await alance.dataset(self.path)).checkout_version((branch, None))

    def theirs(self, branch: str | None) -> Any:
        return lance.dataset(self.path).checkout_version((branch, None))

    @property
    def is_ours(self) -> bool:
        return self.die.random() < 0.5

    def any_branch(self) -> str | None:
        return self.die.choice(list(self.model.rows))

    async def append(self) -> None:
        branch, rows = self.any_branch(), self.model.new_rows(self.die.randint(1, 4))
        if self.is_ours:
            await (await self.ours(branch)).insert(pa.table({"a": rows}))
        else:
            self.theirs(branch).insert(pa.table({"a": rows}))
        self.note(branch, [*self.newest(branch), *rows])

    async def delete(self) -> None:
        branch = self.any_branch()
        if not self.newest(branch):
            return
        gone = self.die.choice(self.newest(branch))
        if self.is_ours:
            await (await self.ours(branch)).delete(f"a = {gone}")
        else:
            self.theirs(branch).delete(f"a = {gone}")
        self.note(branch, [row for row in self.newest(branch) if row != gone])

    async def restore(self) -> None:
        branch = self.any_branch()
        version = self.die.choice(list(self.model.rows[branch]))
        if self.is_ours:
            await (await self.ours(branch)).restore(version)
        else:
            lance.dataset(self.path).checkout_version((branch, version)).restore()
        self.note(branch, self.model.rows[branch][version])

    async def configure(self) -> None:
        branch, value = self.any_branch(), str(self.die.random())
        if self.is_ours:
            await (await self.ours(branch)).update_config({"k": value})
        else:
            self.theirs(branch).update_config({"k": value})
        self.note(branch, self.newest(branch))

    async def branch(self) -> None:
        parent = self.any_branch()
        version = self.die.choice(list(self.model.rows[parent]))
        name = self.model.name(self.die.choice(["b", "dir/b"]))
        if self.is_ours:
            await (await self.ours(self.any_branch())).create_branch(name, (parent, version))
        else:
            self.theirs(self.any_branch()).create_branch(name, (parent, version))
        self.model.rows[name] = {version: self.model.rows[parent][version]}
        self.model.parents[name] = parent

    async def drop_branch(self) -> None:
        branch = self.any_branch()
        if branch is None:
            return
        needed, error = self.model.is_needed(branch), None
        try:
            if self.is_ours:
                await (await self.ours(None)).branches.delete(branch)
            else:
                self.theirs(None).branches.delete(branch)
        except (alance.InvalidInputError, OSError) as raised:
            error = raised
        assert (error is not None) == needed
        if not needed:
            del self.model.rows[branch], self.model.parents[branch]

    async def tag(self) -> None:
        branch = self.any_branch()
        version = self.die.choice(list(self.model.rows[branch]))
        # The tag that notes a clone stays where it is.
        movable = [name for name in self.model.tags if not name.startswith("clone-")]
        name = self.die.choice(movable) if movable and self.die.random() < 0.5 else None
        call = "create" if name is None else "update"
        name = name or self.model.name("t")
        if self.is_ours:
            await getattr((await self.ours(None)).tags, call)(name, (branch, version))
        else:
            getattr(self.theirs(None).tags, call)(name, (branch, version))
        self.model.tags[name] = (branch, version)

    async def drop_tag(self) -> None:
        if not self.model.tags:
            return
        name = self.die.choice(list(self.model.tags))
        if self.is_ours:
            await (await self.ours(None)).tags.delete(name)
        else:
            self.theirs(None).tags.delete(name)
        del self.model.tags[name]

    async def compact(self) -> None:
        branch = self.any_branch()
        before = self.model.latest(branch)
        if self.is_ours:
            await (await self.ours(branch)).optimize.compact_files()
        else:
            self.theirs(branch).optimize.compact_files()
        after = await (await self.ours(branch)).latest_version()
        for version in range(before + 1, after + 1):
            self.model.rows[branch][version] = self.model.rows[branch][before]

    async def clone(self) -> None:
        branch = self.any_branch()
        version = self.die.choice(list(self.model.rows[branch]))
        where = f"{self.path}-{self.model.name('clone')}"
        rows = [*self.model.rows[branch][version], *self.model.new_rows(2)]
        if self.is_ours:
            main = await self.ours(None)
            inserted = await main.shallow_clone(where, (branch, version))
            for name, tag in (await main.tags.list()).items():
                if tag.clone_uri == where:
                    self.model.tags[name] = (branch, version)
            lance.dataset(where).insert(pa.table({"a": rows[-2:]}))
            inserted = await inserted.checkout_latest()
        else:
            self.theirs(None).shallow_clone(where, (branch, version))
            inserted = await (await alance.dataset(where)).insert(pa.table({"a": rows[-2:]}))
        assert sorted((await inserted.to_table())["a"].to_pylist()) == sorted(rows)
        lance.dataset(where).validate()
        assert sorted(lance.dataset(where).to_table()["a"].to_pylist()) == sorted(rows)

    def newest(self, branch: str | None) -> list[int]:
        return self.model.rows[branch][self.model.latest(branch)]

    def note(self, branch: str | None, rows: list[int]) -> None:
        self.model.rows[branch][self.model.latest(branch) + 1] = rows

    async def check(self) -> None:
        """Any version of any branch, and all names, as both see them."""
        branch = self.any_branch()
        version = self.die.choice([*self.model.rows[branch], self.model.latest(branch)])
        expected = sorted(self.model.rows[branch][version])
        theirs = lance.dataset(self.path).checkout_version((branch, version))
        assert sorted(theirs.to_table()["a"].to_pylist()) == expected
        theirs.validate()
        ours = await (await alance.dataset(self.path)).checkout_version((branch, version))
        assert sorted((await ours.to_table())["a"].to_pylist()) == expected
        assert ours.config == theirs.config()
        assert await (await self.ours(branch)).latest_version() == self.model.latest(branch)
        tags = {
            name: (item.branch, item.version) for name, item in (await ours.tags.list()).items()
        }
        assert tags == self.model.tags
        message = theirs.tags.list().items()
        assert {name: (item["branch"], item["version"]) for name, item in message} == tags
        assert set(await ours.branches.list()) == set(self.model.parents)
        assert set(theirs.branches.list()) == set(self.model.parents)


@pytest.mark.parametrize("seed", range(10))
async def test_random_histories_follow_the_model(tmp_path: Path, seed: int) -> None:
    history = History(str(tmp_path / "t"), seed, stable=seed % 2 == 1)
    steps = [
        *[history.append] * 4,
        *[history.delete] * 2,
        *[history.branch] * 2,
        *[history.tag] * 2,
        history.restore,
        history.configure,
        history.drop_branch,
        history.drop_tag,
        history.compact,
        history.clone,
    ]
    for _ in range(STEPS):
        await history.die.choice(steps)()
        await history.check()
