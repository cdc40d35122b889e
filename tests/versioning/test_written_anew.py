"""Tables that are deleted and written anew where they were: nothing of the old one is used on.

A session and its handles live on while the table is replaced, by alance in other sessions or by
pylance, with fewer versions, the same number or more. Each step is compared with a plain model: the
ids of the rows of the table that is there now.
"""

from __future__ import annotations

import random
import shutil
import uuid
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import CommitConflictError, NotFoundError
from alance.io.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


PLACES: Final = ("disk", "memory", "lab")
STEPS: Final = 25


class Place:
    """A table that is replaced, and the ids of its rows."""

    def __init__(self, uri: str, peer: dict[str, Any] | None, **place: Any) -> None:
        self.uri, self.peer, self.place = uri, peer, place
        self.num_anew = 0  # times that the table was written
        self.num_versions = 0
        self.ids: list[int] = []
        self.next_id = 0

    def rows(self, num_rows: int = 1) -> pa.Table:
        """New rows, whose ids are in the model from now on."""
        ids = list(range(self.next_id, self.next_id + num_rows))
        self.next_id += num_rows
        self.ids += ids
        return pa.table({"id": pa.array(ids, pa.int64()), "at": pa.array([7] * num_rows)})

    async def write_anew(self, num_versions: int, *, by_peer: bool = False) -> None:
        """Delete the table, and write another one."""
        async with alance.Session() as other:
            options = {"session": other, **self.place}
            await alance.drop(self.uri, ignore_missing=True, **options)
            self.ids, self.num_versions = [], num_versions
            self.num_anew += 1
            for number in range(num_versions):
                mode: Any = "append" if number else "create"
                if by_peer:
                    lance.write_dataset(
                        self.rows(),
                        self.uri,
                        mode=mode,
                        storage_options=self.peer,
                        enable_stable_row_ids=True,
                    )
                else:
                    stable: Any = {} if number else {"stable_row_ids": True}
                    await alance.write_dataset(
                        self.rows(), self.uri, mode=mode, **stable, **options
                    )

    async def check(self) -> None:
        """Compare the table with the model, in a session that knows nothing."""
        async with alance.Session() as other:
            dataset = await alance.dataset(self.uri, session=other, **self.place)
            assert await ids_of(dataset) == sorted(self.ids)
            assert dataset.version == self.num_versions


async def ids_of(dataset: alance.Dataset) -> list[int]:
    ids: list[int] = (await dataset.to_table(["id"]))["id"].to_pylist()
    return sorted(ids)


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "disk":
        yield Place(str(tmp_path / "t"), {})
    elif request.param == "memory":
        yield Place("t", None, store=MemoryStore(f"memory://{uuid.uuid4().hex}/"))
    else:
        options = request.getfixturevalue("lab").lance_options()
        yield Place(f"s3://lab/{uuid.uuid4().hex}", options, storage_options=options)


class Machine:
    """A session with handles of old and new versions, and what may be done with them."""

    def __init__(self, place: Place, session: alance.Session, dice: random.Random) -> None:
        self.place, self.dice = place, dice
        self.options: dict[str, Any] = {"session": session, **place.place}
        # With the number of the table that they are of.
        self.handles: list[tuple[int, alance.Dataset]] = []
        self.tokens: list[tuple[int, str, set[int]]] = []  # with the ids that were read until then

    def keep(self, dataset: alance.Dataset) -> None:
        self.handles.append((self.place.num_anew, dataset))
        del self.handles[:-6]

    def handle(self) -> tuple[bool, alance.Dataset]:
        """A handle, and True if it is of the table that is there now."""
        number, dataset = self.dice.choice(self.handles)
        return number == self.place.num_anew, dataset

    async def changed(self, is_current: bool, change: Any, ids: list[int]) -> None:
        """Carry out a change by a handle: of an old table it is refused.

        Args:
            ids: ids of the rows after the change of a current handle.
        """
        if not is_current:
            with pytest.raises((CommitConflictError, NotFoundError)):
                await change
            return
        dataset = await change
        self.place.ids, self.place.num_versions = ids, dataset.version
        self.keep(dataset)

    async def anew(self) -> None:
        fewest = max(1, self.place.num_versions + self.dice.choice([-1, 0, 0, 1]))
        by_peer = self.place.peer is not None and self.dice.random() < 0.5
        await self.place.write_anew(fewest, by_peer=by_peer)

    async def append_by_uri(self) -> None:
        rows = self.place.rows()
        dataset = await alance.write_dataset(rows, self.place.uri, mode="append", **self.options)
        self.place.num_versions += 1
        assert dataset.version == self.place.num_versions
        self.keep(dataset)

    async def insert(self) -> None:
        is_current, dataset = self.handle()
        before = list(self.place.ids)
        rows = self.place.rows()
        after = list(self.place.ids)
        self.place.ids = before
        await self.changed(is_current, dataset.insert(rows), after)

    async def delete(self) -> None:
        is_current, dataset = self.handle()
        if is_current:
            dataset = await dataset.checkout_latest()
        gone = self.dice.choice(await ids_or_none(dataset) or [-1])
        after = [number for number in self.place.ids if number != gone]
        if is_current or gone >= 0:
            await self.changed(is_current, dataset.delete(f"id = {gone}"), after)

    async def upsert(self) -> None:
        is_current, dataset = self.handle()
        before = list(self.place.ids)
        rows = self.place.rows()
        after = list(self.place.ids)
        self.place.ids = before
        merge = dataset.merge_insert("id").when_not_matched_insert_all().execute(rows)
        await self.changed(is_current, merge, after)

    async def latest(self) -> None:
        _, dataset = self.handle()
        newest = await dataset.checkout_latest()
        assert (newest.version, await ids_of(newest)) == (
            self.place.num_versions,
            sorted(self.place.ids),
        )
        self.keep(newest)

    async def open(self) -> None:
        version = self.dice.choice([None, self.place.num_versions])
        dataset = await alance.dataset(self.place.uri, version=version, **self.options)
        assert await ids_of(dataset) == sorted(self.place.ids)
        assert await dataset.count_rows() == len(self.place.ids)
        self.keep(dataset)

    async def look_up(self) -> None:
        """Read rows by an index, by key and by row id."""
        dataset = await alance.dataset(self.place.uri, **self.options)
        if not dataset.list_indices():
            dataset = await dataset.create_scalar_index("id", "BTREE")
            self.place.num_versions = dataset.version
        self.keep(dataset)
        chosen = self.dice.sample(range(self.place.next_id + 2), 3)
        present = sorted({*chosen} & {*self.place.ids})
        text = f"id IN ({', '.join(map(str, chosen))})"
        rows = await dataset.to_table(["id"], filter=text, with_row_id=True)
        assert sorted(rows["id"].to_pylist()) == present
        by_key = await dataset.get_many(chosen, "id", ["id"], missing="skip")
        assert sorted(by_key["id"].to_pylist()) == present
        taken = await dataset.take_rows(rows["_rowid"].to_pylist(), ["id"])
        assert taken["id"].to_pylist() == rows["id"].to_pylist()

    async def overwrite(self) -> None:
        """Replace all rows; changes of older versions of this table conflict with that."""
        self.handles = [pair for pair in self.handles if pair[0] != self.place.num_anew]
        self.place.ids = []
        rows = self.place.rows()
        dataset = await alance.write_dataset(rows, self.place.uri, mode="overwrite", **self.options)
        self.place.num_versions += 1
        assert dataset.version == self.place.num_versions
        self.keep(dataset)

    async def follow(self) -> None:
        dataset = await alance.dataset(self.place.uri, follow=600.0, **self.options)
        assert await ids_of(dataset) == sorted(self.place.ids)

    async def versions(self) -> None:
        _, dataset = self.handle()
        listed = await dataset.versions()
        assert [version.version for version in listed] == [*range(1, self.place.num_versions + 1)]
        assert listed[-1].metadata["total_rows"] == str(len(self.place.ids))

    async def tag(self) -> None:
        name = f"tag{self.place.num_anew}"
        is_current, dataset = self.handle()
        if not is_current:
            with pytest.raises((CommitConflictError, NotFoundError)):
                await dataset.tags.create("of-the-old-table")
        elif name not in await dataset.tags.list():
            await dataset.tags.create(name)
        with pytest.raises(NotFoundError):
            await dataset.checkout_version(f"tag{self.place.num_anew - 1}")

    async def compact(self) -> None:
        is_current, dataset = self.handle()
        if is_current:
            dataset = await dataset.checkout_latest()
            await dataset.optimize.compact_files()
            newest = await dataset.checkout_latest()
            self.place.num_versions = newest.version
            self.keep(newest)
            return
        with suppress(CommitConflictError, NotFoundError):
            await dataset.optimize.compact_files()

    async def clean(self) -> None:
        is_current, dataset = self.handle()
        if is_current:
            return
        await dataset.cleanup_old_versions(timedelta(days=1))

    async def changes(self) -> None:
        """Go on with the changes after a token, of an old table or of this one."""
        dataset = await alance.dataset(self.place.uri, **self.options)
        if self.tokens:
            number, token, seen = self.dice.choice(self.tokens)
            new: set[int] = set()
            try:
                async for change in dataset.follow(token, wait=False):
                    if change.rows is not None and change.kind == "insert":
                        new.update(change.rows["id"].to_pylist())
            except NotFoundError:
                assert number != self.place.num_anew
            else:
                assert number == self.place.num_anew
                assert new - seen >= set(self.place.ids) - seen
        token = ""
        async for change in dataset.follow("snapshot", wait=False):
            token = change.token
        self.tokens.append((self.place.num_anew, token, set(self.place.ids)))
        del self.tokens[:-4]


async def ids_or_none(dataset: alance.Dataset) -> list[int]:
    """The ids that a handle reads; none if its files are gone."""
    try:
        return await ids_of(dataset)
    except NotFoundError:
        return []


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 9))]
)
async def test_a_session_uses_nothing_of_a_table_that_is_gone(place: Place, seed: int) -> None:
    dice = random.Random(seed)
    async with alance.Session() as session:
        machine = Machine(place, session, dice)
        await place.write_anew(2)
        await machine.open()
        actions = [
            machine.append_by_uri,
            machine.append_by_uri,
            machine.insert,
            machine.delete,
            machine.upsert,
            machine.latest,
            machine.open,
            machine.look_up,
            machine.overwrite,
            machine.follow,
            machine.versions,
            machine.tag,
            machine.compact,
            machine.clean,
            machine.changes,
        ]
        for _ in range(STEPS):
            action = machine.anew if dice.random() < 0.25 else dice.choice(actions)
            await action()
            await place.check()


async def test_an_append_by_uri_is_to_the_table_that_is_there_now(place: Place) -> None:
    async with alance.Session() as session:
        options: dict[str, Any] = {"session": session, **place.place}
        await place.write_anew(1)
        await alance.write_dataset(place.rows(), place.uri, mode="append", **options)
        await place.write_anew(2, by_peer=place.peer is not None)
        dataset = await alance.write_dataset(place.rows(), place.uri, mode="append", **options)
        assert dataset.version == 3
        assert await ids_of(dataset) == place.ids


@pytest.mark.parametrize("num_versions", [2, 4])
async def test_a_version_that_is_gone_is_not_restored_or_branched(
    place: Place, num_versions: int
) -> None:
    async with alance.Session() as session:
        await place.write_anew(2)
        gone = await alance.dataset(place.uri, session=session, **place.place)
        await place.write_anew(num_versions, by_peer=place.peer is not None)
        with pytest.raises(CommitConflictError, match="deleted and created again"):
            await gone.restore()
        with pytest.raises(CommitConflictError, match="deleted and created again"):
            await gone.create_branch("dev")
        assert await gone.branches.list() == {}
        await place.check()


async def test_a_copy_that_is_put_back_is_still_the_table(tmp_path: Path) -> None:
    uri, copy = str(tmp_path / "t"), str(tmp_path / "copy")
    dataset = await alance.write_dataset({"id": [1]}, uri)
    shutil.copytree(uri, copy)
    shutil.rmtree(uri)
    shutil.copytree(copy, uri)
    dataset = await dataset.insert({"id": [2]})
    assert await ids_of(dataset) == [1, 2]


async def test_versions_in_an_external_store_are_told_apart(tmp_path: Path) -> None:
    uri, store = str(tmp_path / "t"), alance.SqliteStore(tmp_path / "versions.db")
    dataset = await alance.write_dataset({"id": [1]}, uri, manifest_store=store)
    await alance.drop(uri, manifest_store=store)
    await alance.write_dataset({"id": [2]}, uri, manifest_store=store)
    with pytest.raises(CommitConflictError, match="another one than before"):
        await dataset.insert({"id": [3]})
    newest = await alance.dataset(uri, manifest_store=store)
    assert await ids_of(newest) == [2]


async def test_a_damaged_version_of_an_external_store_is_repaired(tmp_path: Path) -> None:
    uri, store = str(tmp_path / "t"), alance.SqliteStore(tmp_path / "versions.db")
    dataset = await alance.write_dataset({"id": [1]}, uri, manifest_store=store)
    await dataset.insert({"id": [2]})
    newest = min((tmp_path / "t" / "_versions").iterdir())
    newest.write_bytes(newest.read_bytes()[:-4] + b"LOST")
    report = await alance.repair(uri, dry_run=False, manifest_store=store)
    assert (report.unreadable, report.restored, report.new_version) == ((2,), 1, 3)
    assert await ids_of(await alance.dataset(uri, manifest_store=store)) == [1]
