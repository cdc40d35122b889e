"""Appends that are committed together."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from alance.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    InvalidInputError,
    RetryableConflictError,
    StoreError,
)
from alance.format.table.transaction import Transaction
from alance.versioning.commit_queue import CommitQueue
from alance.versioning.outcome import notes_of
from alance.versioning.tokens import Notes
from tests.simulation.append_rules import AppendRules, append
from tests.versioning.conftest import Committer, remote_uri

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from alance.format.table.manifest import Manifest
    from alance.testing.lab import Lab
    from alance.versioning.manifest_store import Objects


class Queue(CommitQueue):
    """A queue over a committer; counts its commits, and fails as it is told."""

    def __init__(self, committer: Committer, **more: Any) -> None:
        self.commits = 0
        self.failures: list[Exception] = []
        self.late: list[Exception] = []
        self.before: list[Transaction] = []  # somebody else's

        async def commit(
            transaction: Transaction,
            base: Manifest,
            data: Awaitable[object] | None,
            named: Objects,
        ) -> Manifest:
            self.commits += 1
            if self.before:
                await committer.run(base, self.before.pop())
            if self.failures:
                raise self.failures.pop()
            output = await committer.run(base, transaction, data=data)
            if self.late:
                raise self.late.pop()
            return output

        super().__init__(commit, committer.store(), AppendRules(), **more)

    async def add(self, base: Manifest, *paths: str) -> Manifest:
        return await self.append(append(base.version, paths), base)


async def test_those_that_wait_share_a_version(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    names = [f"n{number}" for number in range(20)]
    results = await asyncio.gather(*(queue.add(first, name) for name in names))
    assert {item.version for item in results} == {2}
    assert await committer.paths() == names
    assert queue.commits == 1
    assert (await queue.add(first, "later")).version == 3
    await queue.aclose()


async def test_a_version_holds_so_many_at_most(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer, max_group=3, max_waiting=5)
    names = [f"n{number}" for number in range(8)]
    results = await asyncio.gather(*(queue.add(first, name) for name in names))
    held = Counter(item.version for item in results)
    assert max(held.values()) == 3
    assert len(held) == queue.commits
    assert sorted(await committer.paths()) == names


async def test_what_others_commit_comes_between(committer: Committer) -> None:
    base = first = await committer.create()
    queue = Queue(committer)
    for number in range(20):
        adds = [queue.add(base if odd else first, f"q{number}-{odd}") for odd in range(2)]
        result, alone, _ = await asyncio.gather(
            adds[0], committer.commit(base, f"c{number}"), adds[1]
        )
        base = max(result, alone, key=lambda item: item.version)
    paths = await committer.paths()
    assert len(paths) == len(set(paths)) == 60


async def test_appends_that_note_different_things_are_not_merged(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)

    async def add(path: str, note: str) -> Manifest:
        message = append(first.version, [path]).message
        message.transaction_properties["note"] = note
        return await queue.append(Transaction.from_protobuf(message), first)

    results = await asyncio.gather(add("a", "x"), add("b", "y"), add("c", "x"))
    assert [item.version for item in results] == [2, 3, 2]
    noted = results[0].transaction
    assert noted is not None
    assert noted.transaction_properties["note"] == "x"


async def test_one_that_conflicts_does_not_fail_the_others(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    await queue.add(first, "a")
    results = await asyncio.gather(
        queue.add(first, "b"), queue.add(first, "!c"), queue.add(first, "d"), return_exceptions=True
    )
    assert isinstance(results[1], CommitConflictError)
    assert await committer.paths() == ["a", "b", "d"]


async def test_what_fails_fails_for_all_of_the_version(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    queue.failures = [StoreError("no")]
    results = await asyncio.gather(
        *(queue.add(first, name) for name in "ab"), return_exceptions=True
    )
    assert [type(item) for item in results] == [StoreError] * 2
    assert results[0] is not results[1]
    queue.failures = [RetryableConflictError("again")] * 2
    assert (await queue.add(first, "c")).version == 2
    queue.failures = [RetryableConflictError("again")] * 3
    with pytest.raises(RetryableConflictError):
        await queue.add(first, "d")
    assert await committer.paths() == ["c"]


@pytest.mark.parametrize("by_queue", [True, False])
async def test_what_is_not_known_can_be_given_again(
    committer: Committer, *, by_queue: bool
) -> None:
    first = await committer.create()
    queue = Queue(committer)
    queue.late = [CommitStateUnknownError("who knows")]
    transactions = [append(1, [name]) for name in "abc"]
    results = await asyncio.gather(
        *(queue.append(transaction, first) for transaction in transactions), return_exceptions=True
    )
    assert [type(item) for item in results] == [CommitStateUnknownError] * 3
    if by_queue:
        again = [queue.append(transaction, first) for transaction in transactions[:2]]
        later = queue.add(first, "d")
        results = await asyncio.gather(*again, later)
        assert [item.version for item in results] == [2, 2, 3]
    else:
        assert (await committer.run(first, transactions[1])).version == 2
    assert (await committer.paths())[:3] == ["a", "b", "c"]
    assert (await committer.latest()).version == 2 + by_queue


async def test_a_late_version_is_seen_as_a_part(committer: Committer) -> None:
    first = await committer.create()
    transactions = [append(1, [name]) for name in "ab"]
    together = append(1, ["a", "b"]).message
    together.transaction_properties["alance.merged"] = " ".join(
        transaction.uuid for transaction in transactions
    )
    queue = Queue(committer)
    queue.before = [Transaction.from_protobuf(together)]
    results = await asyncio.gather(queue.append(transactions[0], first), queue.add(first, "c"))
    assert [item.version for item in results] == [2, 3]
    assert await committer.paths() == ["a", "b", "c"]


async def test_data_that_is_lost_fails_its_append_only(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)

    async def data(*, fails: bool) -> None:
        await asyncio.sleep(0.01)
        assert (await committer.latest()).version == 1
        if fails:
            raise StoreError("gone")

    results = await asyncio.gather(
        *(
            queue.append(append(1, [name]), first, data(fails=name == "b"))
            for name in ("a", "b", "c")
        ),
        return_exceptions=True,
    )
    assert isinstance(results[1], StoreError)
    assert [candidate.version for candidate in (results[0], results[2])] == [2, 2]  # type: ignore[union-attr]
    assert await committer.paths() == ["a", "c"]


async def test_old_handles_cost_no_requests(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    listed: list[int] = []
    whole = queue._manifests.versions_after

    async def versions_after(base: Manifest) -> Any:
        listed.append(base.version)
        return await whole(base)

    queue._manifests.versions_after = versions_after  # type: ignore[method-assign]
    transactions = [append(1, [f"n{number}"]) for number in range(40)]
    for number, item in enumerate(transactions):
        assert (await queue.append(item, first)).version == number + 2
    assert (await queue.append(transactions[3], first)).version == 5
    assert listed == []
    assert len(await committer.paths()) == 40


def noting(base: Manifest, path: str, notes: Notes) -> Transaction:
    message = append(base.version, [path]).message
    message.transaction_properties.update(notes.properties())
    return Transaction.from_protobuf(message)


async def test_a_version_has_the_notes_of_all(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    notes = [
        Notes(frozenset({"x"})),
        Notes(frozenset({"y"}), {"p": (0, 2)}),
        Notes(producers={"p": (2, 5), "q": (0, 1)}),
        Notes(),
    ]
    results = await asyncio.gather(
        *(
            queue.append(noting(first, str(number), item), first)
            for number, item in enumerate(notes)
        )
    )
    assert {item.version for item in results} == {2}
    assert notes_of(results[0]) == Notes(frozenset({"x", "y"}), {"p": (0, 5), "q": (0, 1)})


@pytest.mark.parametrize("alone", [True, False])
async def test_what_is_noted_twice_is_refused(committer: Committer, *, alone: bool) -> None:
    first = await committer.create()
    queue = Queue(committer)

    async def add(path: str, notes: Notes) -> Manifest:
        transaction = noting(first, path, notes)
        if alone:
            return await committer.run(first, transaction)
        return await queue.append(transaction, first)

    await add("a", Notes(frozenset({"x"}), {"p": (0, 2)}))
    results = await asyncio.gather(
        add("b", Notes(frozenset({"x"}))),
        add("c", Notes(producers={"p": (1, 3)})),
        add("d", Notes(producers={"p": (2, 3)})),
        add("e", Notes()),
        return_exceptions=True,
    )
    assert [isinstance(item, CommitConflictError) for item in results] == [True, True, False, False]
    assert sorted(await committer.paths()) == ["a", "d", "e"]


async def test_who_is_cancelled_in_time_is_not_committed(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    tasks = [asyncio.create_task(queue.add(first, name)) for name in "abc"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert await committer.paths() == ["a", "c"]


async def test_only_appends_are_queued(committer: Committer) -> None:
    first = await committer.create()
    queue = Queue(committer)
    message = append(1, []).message
    message.delete.SetInParent()
    for wrong in (Transaction.from_protobuf(message), append(7, ["a"])):
        with pytest.raises(InvalidInputError, match="expected an Append from version 1"):
            await queue.append(wrong, first)


async def test_requests_of_a_queue(lab: Lab) -> None:
    uri, options = remote_uri(lab, "s3")
    committer = Committer.of(uri, storage_options=options)
    first = await committer.create()
    queue = Queue(committer)
    base = await queue.add(first, "a")
    with lab.recording() as seen:
        await asyncio.gather(*(queue.add(base, f"n{number}") for number in range(30)))
    assert [record["op"] for record in seen.records].count("PUT") == 2
    assert seen.summary()["requests"] == 3
    await committer.aclose()
