"""Batches in the order of an epoch: each row once, over ranks, workers and states."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import threading
from typing import TYPE_CHECKING, Any

import lance
import pytest
import torch
import torch.distributed
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import alance
from alance.torch import IterableDataset
from alance.torch.order import Order
from alance.torch.table import TorchTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np

    Write = Callable[[int], str]

SMALL: dict[str, Any] = {"window_rows": 50, "chunk_rows": 7}


def ids(batches: Iterable[Any]) -> list[int]:
    return [number for batch in batches for number in batch["id"].tolist()]


def rows_of(order: Order, first: int, last: int) -> list[int]:
    rows: list[int] = []
    for window in order.windows(first, last):
        read, picks = order.window(*window)
        assert len(read) == len(window[1])  # a worker reads no rows of the others
        rows += (read if picks is None else read[picks]).tolist()
    return rows


@given(
    num_rows=st.integers(0, 300),
    batch_size=st.integers(1, 40),
    world_size=st.integers(1, 5),
    chunk_rows=st.integers(1, 60),
    window_rows=st.integers(1, 90),
    drop_last=st.booleans(),
    seed=st.none() | st.integers(0, 3),
    data=st.data(),
)
def test_each_row_is_given_once(data: st.DataObject, **numbers: Any) -> None:
    orders = [Order(rank=rank, epoch=1, **numbers) for rank in range(numbers["world_size"])]
    parts = [rows_of(order, 0, order.num_batches) for order in orders]
    rows = [row for part in parts for row in part]
    assert len(set(rows)) == len(rows)
    if numbers["drop_last"]:
        assert len({order.num_batches for order in orders}) == 1
        batch_rows = numbers["num_rows"] // numbers["world_size"]
        assert [len(part) for part in parts] == [
            batch_rows - batch_rows % numbers["batch_size"]
        ] * numbers["world_size"]
    else:
        assert sorted(rows) == list(range(numbers["num_rows"]))
        if numbers["seed"] is None:
            assert rows == sorted(rows)
    cut = data.draw(st.integers(0, orders[0].num_batches))
    assert rows_of(orders[0], 0, cut) + rows_of(orders[0], cut, orders[0].num_batches) == parts[0]


def test_rows_are_in_the_order_of_the_table_or_in_another_each_epoch(table: Write) -> None:
    uri = table(200)
    assert ids(IterableDataset(uri, 16, ["id"], **SMALL)) == list(range(200))
    dataset = IterableDataset(uri, 16, ["id"], shuffle=True, seed=3, **SMALL)
    first = ids(dataset)
    assert ids(dataset) == first
    assert sorted(first) == list(range(200))
    dataset.set_epoch(1)
    second = ids(dataset)
    assert first != second != sorted(second)
    assert ids(IterableDataset(uri, 16, ["id"], shuffle=True, seed=4, **SMALL)) != first


def test_windows_are_read_by_takes_or_by_scans_of_long_runs(
    table: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = IterableDataset(table(200), 16, ["id", "v"], shuffle=True, seed=3, **SMALL)
    taken = list(dataset)
    monkeypatch.setattr("alance.torch.table.SCANNED_RUN_ROWS", 4)
    monkeypatch.setattr(alance.Dataset, "take", None)
    scanned = list(dataset)
    assert ids(scanned) == ids(taken)
    assert all(torch.equal(batch["v"][:, 3], batch["id"].float()) for batch in scanned)


def test_filtered_batches_have_the_rows_that_pylance_keeps(table: Write) -> None:
    uri = table(200)
    filter = "label IN (1, 4) OR id > 170"
    dataset = IterableDataset(uri, 16, ["id", "v"], filter=filter, shuffle=True, **SMALL)
    batches = list(dataset)
    expected = lance.dataset(uri).to_table(["id"], filter=filter)["id"].to_pylist()
    assert sorted(ids(batches)) == expected
    assert [len(batch["id"]) for batch in batches] == [16] * (len(expected) // 16) + [
        len(expected) % 16
    ]
    assert len(dataset) == len(batches)
    assert all(torch.equal(batch["v"][:, 3], batch["id"].float()) for batch in batches)


@pytest.mark.parametrize("batch_size", [1, 7, 50, 64, 130, 500])
def test_batches_are_full_whatever_the_windows(table: Write, batch_size: int) -> None:
    sizes = [len(batch["id"]) for batch in IterableDataset(table(200), batch_size, ["id"], **SMALL)]
    assert sizes == [batch_size] * (200 // batch_size) + [200 % batch_size] * (200 % batch_size > 0)


def test_a_table_without_rows_gives_no_batch(table: Write) -> None:
    uri = table(50)
    assert list(IterableDataset(uri, 8, ["id"], filter="id < 0", shuffle=True)) == []
    assert list(IterableDataset(uri, 60, ["id"], drop_last=True)) == []


def test_ranks_are_those_of_torch_distributed(
    table: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = table(200)
    parts = [
        ids(IterableDataset(uri, 16, ["id"], shuffle=True, rank=rank, world_size=3, **SMALL))
        for rank in range(3)
    ]
    assert sorted(row for part in parts for row in part) == list(range(200))
    dataset = IterableDataset(uri, 16, ["id"], shuffle=True, **SMALL)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    content = pickle.dumps(dataset)
    monkeypatch.undo()  # workers know nothing of it
    assert ids(pickle.loads(content)) == parts[2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_that_does_not_ask_its_workers_goes_on(table: Write, num_workers: int) -> None:
    uri = table(110)

    def new_dataset() -> IterableDataset:
        return IterableDataset(uri, 10, ["id"], shuffle=True, seed=3, window_rows=40)

    def ids(dataset: IterableDataset) -> list[list[int]]:
        return [
            batch["id"].tolist() for batch in DataLoader(dataset, None, num_workers=num_workers)
        ]

    whole = ids(new_dataset())
    assert sorted(itertools.chain(*whole)) == list(range(110))
    first, second = new_dataset(), new_dataset()
    first.load_state_dict(json.loads(json.dumps(new_dataset().state_after(4, num_workers))))
    second.load_state_dict(first.state_after(6, num_workers))
    assert (ids(first), ids(second)) == (whole[4:], whole[10:])
    second.set_epoch(1)
    assert len(ids(second)) == 11
    with pytest.raises(alance.InvalidInputError, match="the epoch has 11 left"):
        new_dataset().state_after(12, num_workers)
    first = new_dataset()
    first.load_state_dict(new_dataset().state_after(4, 5))
    with pytest.raises(alance.InvalidInputError, match="state of 5 workers"):
        ids(first)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_the_batches_and_follow_the_epoch(table: Write, method: str) -> None:
    dataset = IterableDataset(table(200), 16, ["id"], shuffle=True, **SMALL)
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    epochs = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        alone = list(dataset)
        batches = list(loader)
        assert len(loader) == len(batches) == len(alone)
        # Each worker has half of them, and the loader asks them by turns.
        half = len(alone) // 2
        turns = [batch for pair in zip(alone[:half], alone[half:], strict=False) for batch in pair]
        assert ids(batches) == ids(turns + alone[2 * half :])
        epochs.append(ids(batches))
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("num_batches_before", [0, 1, 5, 12, 13])
def test_a_state_goes_on_where_it_was_taken(table: Write, num_batches_before: int) -> None:
    uri = table(200)
    dataset = IterableDataset(uri, 16, ["id"], shuffle=True, **SMALL)
    dataset.set_epoch(5)
    batches = iter(DataLoader(dataset, batch_size=None))
    before = ids(next(batches) for _ in range(num_batches_before))
    state = dataset.state_dict()
    whole = ids(dataset)

    again = IterableDataset(uri, 16, ["id"], shuffle=True, **SMALL)
    again.load_state_dict(state)
    again.set_epoch(5)
    assert again.state_dict() == {**state, "stop": None}
    assert before + ids(again) == whole
    assert ids(again) == whole  # the next time from the beginning

    spread = IterableDataset(uri, 16, ["id"], shuffle=True, **SMALL)
    spread.load_state_dict(state)
    loader = DataLoader(spread, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert sorted(before + ids(loader)) == sorted(whole)


def test_a_state_of_a_worker_goes_on_in_the_same_worker(
    table: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = table(200)

    class Info:
        id, num_workers = 1, 3

    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: Info)
    dataset = IterableDataset(uri, 16, ["id"], shuffle=True, **SMALL)
    untouched = dataset.state_dict()
    whole = ids(dataset)
    batches = iter(dataset)
    before = ids([next(batches)])
    state = dataset.state_dict()
    for loaded, expected in ((state, whole[16:]), (untouched, whole)):
        again = IterableDataset(uri, 16, ["id"], shuffle=True, **SMALL)
        again.load_state_dict(loaded)
        assert ids(again) == expected
    assert before == whole[:16]
    Info.id = 0
    with pytest.raises(alance.InvalidInputError, match="of worker 1 of 3: this is worker 0 of 3"):
        dataset.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1, "shuffle": True}, "seed is 0 there, and 1 here"),
        ({"batch_size": 15}, "batch_size is 16 there, and 15 here"),
        ({"filter": "id > 3"}, "num_rows"),
        ({"rank": 0, "world_size": 2}, "world_size"),
    ],
)
def test_a_state_of_other_batches_is_refused(table: Write, options: Any, message: str) -> None:
    uri = table(200)
    state = IterableDataset(uri, 16, ["id"], shuffle=True, **SMALL).state_dict()
    result = {"batch_size": 16, "columns": ["id"], "shuffle": True, **SMALL, **options}
    with pytest.raises(alance.InvalidInputError, match=message):
        IterableDataset(uri, **result).load_state_dict(state)


class Watched:
    """Reads of windows: which are done, and whether the second one hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, hangs: bool) -> None:
        self.second = threading.Event()
        self.cancelled = threading.Event()
        self.started = 0
        read = TorchTable.read

        async def watched(table: TorchTable, rows: np.ndarray[Any, Any]) -> Any:
            if not len(rows):
                return await read(table, rows)
            self.started += 1
            try:
                if hangs and rows[0] == 50:
                    await asyncio.Event().wait()
                batch = await read(table, rows)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            if rows[0] == 50:
                self.second.set()
            return batch

        monkeypatch.setattr(TorchTable, "read", watched)


def test_the_next_window_is_read_while_this_one_is_used(
    table: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch, hangs=False)
    batches = iter(IterableDataset(table(200), 16, ["id"], filter="id >= 0", **SMALL))
    next(batches)
    assert watched.second.wait(60)
    assert watched.started == 2  # no more than the next


def test_leaving_the_loop_cancels_what_is_read_ahead(
    table: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch, hangs=True)
    for batch in IterableDataset(table(200), 16, ["id"], filter="id >= 0", **SMALL):
        assert ids([batch]) == list(range(16))
        break
    assert watched.cancelled.wait(60)


def test_rows_in_order_are_scanned_into_memory_of_their_own(
    table: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch, hangs=False)
    stream = IterableDataset(table(200), 16, ["id"], rank=1, world_size=2)
    for _ in range(2):
        arguments = []
        for batch in stream:
            arguments += batch["id"].tolist()
            batch["id"].zero_()
        assert arguments == list(range(100, 200))
    assert watched.started == 0


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"window_rows": 0},
        {"chunk_rows": 0},
        {"seed": -1},
        {"rank": 1},
        {"rank": 2, "world_size": 2},
    ],
)
def test_bad_numbers_are_told(table: Write, options: Any) -> None:
    with pytest.raises(alance.InvalidInputError, match=next(iter(options))):
        IterableDataset(table(50), **{"batch_size": 8, **options})
    with pytest.raises(alance.InvalidInputError, match="epoch=-1"):
        IterableDataset(table(60), 8).set_epoch(-1)
