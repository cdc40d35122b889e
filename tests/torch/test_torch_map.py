"""Samples by their number, in a process and in workers of a loader."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

import alance
import alance.sync
from alance.torch import IterableDataset, MapDataset, collate
from tests.torch.conftest import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alance.testing.lab import Lab

    Write = Callable[[int], str]


def test_samples_are_the_rows_that_pylance_takes(table: Write) -> None:
    uri = table(100)
    dataset = MapDataset(uri)
    places = [99, 0, 41, 41, 7]
    expected = lance.dataset(uri).take(places).to_pylist()
    samples = dataset.__getitems__(places)
    assert len(dataset) == 100
    assert [
        {name: plain(value) for name, value in sample.items()} for sample in samples
    ] == expected
    assert plain(dataset[-1]["id"]) == 99


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


def test_rows_of_pylance_with_deletions_are_read(tmp_path: Path) -> None:
    dataset = lance.write_dataset(rows(100), tmp_path / "t", max_rows_per_file=30)
    dataset.delete("id % 3 = 0")
    ours = MapDataset(tmp_path / "t", ["id"], filter="label < 5")
    expected = lance.dataset(tmp_path / "t").to_table(["id"], filter="label < 5")["id"]
    assert [sample["id"].item() for sample in ours] == expected.to_pylist()


@pytest.mark.parametrize("collate_fn", [None, collate])
def test_a_loader_gives_batches(table: Write, collate_fn: Any) -> None:
    loader = DataLoader(MapDataset(table(100), ["id", "v", "text"]), 32, collate_fn=collate_fn)
    batches = list(loader)
    assert [len(batch["text"]) for batch in batches] == [32, 32, 32, 4]
    assert torch.equal(torch.cat([batch["id"] for batch in batches]), torch.arange(100))
    assert batches[3]["v"].tolist() == [[number] * 4 for number in range(96, 100)]


def test_a_batch_is_one_take(lab: Lab) -> None:
    options = lab.lance_options()
    alance.sync.write_dataset(rows(1000), "s3://lab/torch-map", storage_options=options)
    dataset = MapDataset("s3://lab/torch-map", ["id"], storage_options=options)
    dataset[0]  # the page table is known then
    before = lab.stats()["requests"]
    dataset.__getitems__(list(range(0, 64, 2)))
    assert lab.stats()["requests"] - before <= 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_read_by_themselves(table: Write, method: str) -> None:
    dataset = MapDataset(table(100), ["id"], filter="id >= 10")
    assert dataset[0]["id"] == 10  # the fork has a loop behind it that runs
    loader = DataLoader(
        dataset, 30, num_workers=1, multiprocessing_context=method, collate_fn=collate
    )
    assert torch.equal(torch.cat([batch["id"] for batch in loader]), torch.arange(10, 100))


def test_a_pickle_asks_the_store_for_no_manifest_and_keeps_the_version(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = lab.lance_options()
    for name in ("endpoint", "access_key_id", "secret_access_key", "region", "allow_http"):
        monkeypatch.setenv(f"AWS_{name.upper()}", options[name])
    first = alance.sync.write_dataset(rows(50), "s3://lab/torch-kept", storage_options=options)
    content = pickle.dumps(MapDataset(first, ["id"]))
    first.insert(rows(10))
    before = lab.stats()["requests"]
    dataset = pickle.loads(content)
    assert (len(dataset), dataset.version) == (50, 1)
    assert lab.stats()["requests"] == before


def test_workers_have_the_credentials_that_were_given(lab: Lab) -> None:
    options = lab.lance_options()
    uri = "s3://lab/torch-options"
    written = alance.sync.write_dataset(rows(50), uri, storage_options=options)
    dataset = MapDataset(uri, ["id"], storage_options=options)
    written.insert(rows(10))
    loader = DataLoader(dataset, 50, num_workers=1, multiprocessing_context="spawn")
    assert torch.equal(torch.cat([batch["id"] for batch in loader]), torch.arange(50))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_open_dataset_takes_its_credentials_along(lab: Lab, method: str) -> None:
    options = lab.lance_options()
    uri = f"s3://lab/torch-open-{method}"
    opened = alance.sync.write_dataset(rows(50), uri, storage_options=options)
    opened.take([1])  # the fork has a store behind it that was used
    arguments = None if method == "fork" else options
    dataset = MapDataset(opened, ["id"], storage_options=arguments)
    opened.insert(rows(10))
    loader = DataLoader(dataset, 50, num_workers=2, multiprocessing_context=method)
    assert torch.equal(torch.cat([batch["id"] for batch in loader]), torch.arange(50))


async def test_a_dataset_of_another_loop_is_taken(table: Write) -> None:
    dataset = await alance.dataset(table(50))
    assert (await dataset.take([3], ["id"]))["id"].to_pylist() == [3]
    assert MapDataset(dataset, ["id"])[3]["id"] == 3
    assert MapDataset(alance.sync.dataset(dataset.uri), {"twice": "id * 2"})[3]["twice"] == 6


def test_a_transform_takes_the_place_of_tensors(table: Write) -> None:
    dataset = MapDataset(table(50), ["id"], transform=pa.RecordBatch.to_pylist)
    assert dataset[4] == {"id": 4}
    assert collate(dataset.__getitems__([1, 2])) == [{"id": 1}, {"id": 2}]


def test_whatever_is_done_to_tensors_stays_with_them(table: Write) -> None:
    dataset = MapDataset(table(40), ["v"])
    everything = list(range(40))
    dataset.__getitems__(everything).batch["v"].fill_(-1)
    assert dataset.__getitems__(everything).batch["v"].sum() == 4 * sum(everything)
    stream = IterableDataset(dataset_of(dataset), 40, ["v"])
    next(iter(stream))["v"].fill_(-1)
    assert next(iter(stream))["v"].sum() == 4 * sum(everything)


def dataset_of(dataset: MapDataset) -> str:
    return str(dataset._table.dataset.uri)


def test_what_is_wrong_is_told_when_it_is_made(table: Write) -> None:
    uri = table(50)
    with pytest.raises(alance.ColumnNotFoundError, match="nothing"):
        MapDataset(uri, ["nothing"])
    with pytest.raises(alance.NotFoundError):
        MapDataset(uri + "x")
    with pytest.raises(alance.InvalidInputError, match="expected a URI"):
        MapDataset(7)  # type: ignore[arg-type]
    with pytest.raises(alance.InvalidInputError, match="of a URI"):
        MapDataset(alance.sync.dataset(uri), version=1)
    with pytest.raises(alance.InvalidInputError, match="fill="):
        MapDataset(uri, transform=len, fill=0)
    with pytest.raises(IndexError, match="sample 50: the dataset has 50"):
        MapDataset(uri)[50]
