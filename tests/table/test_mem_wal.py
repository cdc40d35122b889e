"""Tables with a MemWAL of pylance: a warning says that rows of the log are not read."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = pa.schema(
    [
        pa.field(
            "id",
            pa.int64(),
            nullable=False,
            metadata={"lance-schema:unenforced-primary-key": "true"},
        ),
        pa.field("name", pa.string()),
    ]
)


def rows(ids: list[int], names: list[str]) -> pa.Table:
    return pa.table({"id": ids, "name": names}, schema=SCHEMA)


@pytest.fixture
def logged(tmp_path: Path) -> str:
    """A table of two rows, with a third one in the log of a writer."""
    path = str(tmp_path / "t.lance")
    theirs = lance.write_dataset(rows([1, 2], ["a", "b"]), path)
    theirs.create_scalar_index("name", "BTREE")
    theirs.initialize_mem_wal()
    with theirs.mem_wal_writer(str(uuid.uuid4())) as writer:
        writer.put(rows([3], ["c"]))
    return path


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for record in caplog.records if "MemWAL" in (text := record.getMessage())]


async def test_the_log_says_once_that_rows_are_not_read(
    logged: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "alance"):
        dataset = await alance.dataset(logged)
        assert await dataset.count_rows() == lance.dataset(logged).count_rows() == 2
        await alance.dataset(logged, session=alance.Session())
        await (await dataset.insert(rows([4], ["d"]))).update_config({"k": "v"})
        await alance.write_dataset(rows([1], ["a"]), str(tmp_path / "plain.lance"))
        (warning,) = warnings(caplog)
        assert warning.startswith(f"{logged}: has a MemWAL (index '__lance_mem_wal'): rows that")
        await dataset.validate()
        await dataset.validate()
    assert len(warnings(caplog)) == 3


async def test_it_is_listed_with_the_indices_as_pylance_does(logged: str) -> None:
    dataset, theirs = await alance.dataset(logged), lance.dataset(logged)
    names = [index["name"] for index in dataset.list_indices()]
    assert names == [index.name for index in theirs.describe_indices()]
    assert names == ["__lance_mem_wal", "name_idx"]
    described = [(index.name, index.index_type) for index in await dataset.describe_indices()]
    assert described == [(index.name, index.index_type) for index in theirs.describe_indices()]


@pytest.mark.parametrize(
    "change",
    [
        lambda dataset: dataset.add_columns({"k": "id * 2"}),
        lambda dataset: dataset.add_columns(
            lambda batch: pa.record_batch({"u": [1] * batch.num_rows})
        ),
        lambda dataset: dataset.fragments[0].add_columns({"k": "id * 2"}),
        lambda dataset: dataset.alter_columns({"path": "name", "data_type": pa.large_string()}),
    ],
    ids=["expression", "function", "fragment", "cast"],
)
async def test_columns_that_rows_of_the_log_would_lack_are_refused(
    logged: str, change: Callable[[alance.Dataset], Any]
) -> None:
    dataset = await alance.dataset(logged)
    with pytest.raises(UnsupportedError, match=r"has a MemWAL .*: cannot "):
        await change(dataset)
    assert await dataset.latest_version() == dataset.version


async def test_columns_without_values_and_new_names_are_taken(logged: str) -> None:
    dataset = await alance.dataset(logged)
    dataset = await dataset.add_columns(pa.field("k", pa.int64()))
    dataset = await dataset.alter_columns({"path": "name", "name": "label"})
    assert lance.dataset(logged).schema.names == ["id", "label", "k"]
    assert (await dataset.to_table())["k"].null_count == 2
