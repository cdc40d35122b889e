"""Hugging Face's `datasets`, both ways."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import datasets
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.huggingface import to_datasets

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {"id": list(range(100)), "text": [f"text {n}" for n in range(100)]}


@pytest.fixture
def table(tmp_path: Path) -> alance.sync.Dataset:
    return alance.sync.write_dataset(ROWS, str(tmp_path / "t"), max_rows_per_file=30)


def test_streams_read_what_they_are_asked_for(table: alance.sync.Dataset) -> None:
    stream = to_datasets(table.uri, ["id"], filter="id >= :least", params={"least": 20})
    assert isinstance(stream, datasets.IterableDataset)
    assert stream.features == datasets.Features({"id": datasets.Value("int64")})
    assert [row["id"] for row in stream] == list(range(20, 100))
    assert [row["id"] for row in pickle.loads(pickle.dumps(stream)).take(3)] == [20, 21, 22]
    shuffled = [row["id"] for row in stream.shuffle(seed=1, buffer_size=10)]
    assert sorted(shuffled) == list(range(20, 100)) != shuffled


def test_shards_are_fragments_and_states_go_on(table: alance.sync.Dataset) -> None:
    stream = to_datasets(table)
    assert stream.num_shards == 4
    parts = [stream.shard(2, number) for number in range(2)]
    assert sorted(row["id"] for part in parts for row in part) == ROWS["id"]
    rows = iter(stream)
    first = [next(rows)["id"] for _ in range(40)]
    again = to_datasets(table)
    again.load_state_dict(stream.state_dict())
    assert first + [row["id"] for row in again] == ROWS["id"]


async def test_rows_in_memory(table: alance.sync.Dataset) -> None:
    whole = to_datasets(await alance.dataset(table.uri), {"twice": "id * 2"}, streaming=False)
    assert isinstance(whole, datasets.Dataset)
    assert whole["twice"][:3] == [0, 2, 4]
    assert len(whole.train_test_split(0.25, seed=1)["test"]) == 25


def test_tables_are_written_from_both_kinds(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "words": datasets.List(datasets.Value("string")),
        }
    )
    rows = {"label": [0, 1, 1, 0], "words": [["a"], [], ["b", "c"], ["d"]]}
    mapped = datasets.Dataset.from_dict(rows, features=features).select([3, 1, 2])
    expected = [{"label": 0, "words": ["d"]}, {"label": 1, "words": []}]
    expected.append({"label": 1, "words": ["b", "c"]})
    for number, data in enumerate([mapped, mapped.to_iterable_dataset(num_shards=2)]):
        written = alance.sync.write_dataset(data, str(tmp_path / str(number)))
        assert written.to_table().to_pylist() == expected
        assert to_datasets(written).features == features
    unknown = datasets.IterableDataset.from_generator(lambda: iter([{"id": 1}, {"id": 2}]))
    written = alance.sync.write_dataset(unknown, str(tmp_path / "unknown"))
    assert written.to_table() == pa.table({"id": [1, 2]})


def test_what_is_wrong_is_told_at_once(table: alance.sync.Dataset) -> None:
    with pytest.raises(alance.ColumnNotFoundError):
        to_datasets(table, ["nothing"])
    with pytest.raises(alance.InvalidInputError, match="of a URI"):
        to_datasets(table, version=1)
    with pytest.raises(alance.InvalidInputError, match="expected a URI"):
        to_datasets(7)  # type: ignore[arg-type]


async def test_a_dict_of_splits_is_refused(tmp_path: Path) -> None:
    splits = datasets.DatasetDict(train=datasets.Dataset.from_dict(ROWS))
    with pytest.raises(alance.InvalidInputError, match="'train': a dataset; write each split"):
        await alance.write_dataset(splits, tmp_path / "splits")
