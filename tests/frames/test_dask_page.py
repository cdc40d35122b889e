"""The recipes of the page about Dask, on two processes, which also die."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.testing.lab import Lab
from tests.pages import ROOT, run_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distributed import Client

NUM_ROWS = 100_000


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        yield client


@pytest.fixture(scope="module")
def page(client: Client, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The names of the page, and the folder with its tables."""
    folder = tmp_path_factory.mktemp("page")
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        client.run(os.chdir, str(folder))
        asyncio.run(run_page(ROOT / "docs" / "dask.md", names))
    return SimpleNamespace(folder=folder, **names)


def test_the_page_about_dask_runs(page: SimpleNamespace) -> None:
    dear = alance.sync.dataset(str(page.folder / "dear.lance"))
    ids = dear.to_table()["id"].to_pylist()
    expected = [*range(80_001, NUM_ROWS), *range(75_000, 76_000)]
    assert (sorted(ids), dear.version) == (sorted(expected), 2)
    kinds = pd.Series(np.arange(75_000, NUM_ROWS) / 8).groupby(np.arange(75_000, NUM_ROWS) % 7)
    assert page.totals.sort_index().tolist() == kinds.sum().tolist()


def test_frames_have_the_values_and_types_of_the_table(
    page: SimpleNamespace, tmp_path: Path
) -> None:
    uri, count = str(tmp_path / "table"), 9000
    rows = pa.table(
        {
            "id": pa.array([None if n % 5 == 0 else 2**60 + n for n in range(count)]),
            "text": [f"text {n}" for n in range(count)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * count)), 2),
            "kind": pa.array([f"k{n % 3}" for n in range(count)]).dictionary_encode(),
            "nested": [{"a": n, "b": [n]} for n in range(count)],
        }
    )
    alance.sync.write_dataset(rows, uri, max_rows_per_file=1000)
    frame = page.read_table(uri, split_bytes=1)
    assert frame.npartitions == 9
    copy = page.write_table(frame, str(tmp_path / "copy"), rows.schema)
    assert alance.sync.dataset(copy.uri).to_table().equals(rows)
    none = page.read_table(uri, ["text"], "id < 0")
    assert list(none.compute().columns) == ["text"]
    assert len(none) == 0


def test_only_columns_of_later_steps_and_rows_of_the_filter_are_read(
    page: SimpleNamespace,
) -> None:
    with Lab() as lab:
        uri, place = "s3://lab/table", {"storage_options": lab.lance_options()}
        rows = {"id": range(NUM_ROWS), "noise": np.random.default_rng(1).random((NUM_ROWS, 8))}
        alance.sync.write_dataset(rows, uri, max_rows_per_file=50_000, **place)

        def cost(filter: str | None = None, columns: list[str] | None = None) -> tuple[int, int]:
            frame = page.read_table(uri, filter=filter, **place)
            with lab.recording() as seen:
                count = len(frame[columns or list(frame.columns)].compute())
            return count, seen.summary()["get_bytes"]

        whole, narrow, few = cost(), cost(columns=["id"]), cost("id between 5000 and 5009")
    assert (whole[0], narrow[0], few[0]) == (NUM_ROWS, NUM_ROWS, 10)
    assert narrow[1] < whole[1] / 8
    assert few[1] < whole[1] / 8


def test_a_worker_that_dies_after_it_wrote_a_file_writes_no_row_twice(
    page: SimpleNamespace, tmp_path: Path
) -> None:
    uri, flags = str(tmp_path / "table"), tmp_path
    schema = pa.schema([("id", pa.int64())])
    source = page.read_table(str(page.folder / "items.lance"), ["id"], split_bytes=1)
    write_rows = page.write_rows

    def dies_once(name: str, value: Any) -> Any:
        flag = flags / name
        if not flag.exists():
            flag.touch()
            os._exit(1)
        return value

    def read_dies(frame: pd.DataFrame) -> pd.DataFrame:
        return dies_once("read", frame) if frame["id"].min() > 50_000 else frame

    def write_dies(frame: pd.DataFrame, *arguments: Any) -> list[bytes]:
        return dies_once("written", write_rows(frame, *arguments))

    frame = source.map_partitions(read_dies, meta=source._meta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(page.write_table.__globals__, "write_rows", write_dies)
        page.write_table(frame, uri, schema)
    dataset = alance.sync.dataset(uri)
    assert dataset.version == 1
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(NUM_ROWS))
    named = {file.path for part in dataset.fragments for file in part.metadata.files}
    assert {path.name for path in (tmp_path / "table" / "data").iterdir()} > named
    assert {path.name for path in flags.iterdir()} >= {"read", "written"}


def test_no_plan_or_log_shows_credentials(
    page: SimpleNamespace, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with Lab() as lab:
        secret = {**lab.lance_options(), "secret_access_key": "shown-to-nobody"}
        place, schema = {"storage_options": secret}, pa.schema([("id", pa.int64())])
        alance.sync.write_dataset({"id": range(100)}, "s3://lab/table", **place)
        frame = page.read_table("s3://lab/table", **place)
        assert page.write_table(frame, "s3://lab/copy", schema, **place).version == 1
        frame.pprint()
        unfit = pa.schema([("other", pa.string())])
        with pytest.raises(KeyError, match="other"):
            page.write_table(frame, "s3://lab/wrong", unfit, **place)
    plan, logs = capsys.readouterr().out, str(client.get_worker_logs())
    assert "Place" in plan
    assert "write_rows" in logs
    assert "shown-to-nobody" not in plan + logs + repr(frame) + str(client.get_scheduler_logs())


def test_a_write_that_fails_makes_no_version(page: SimpleNamespace, tmp_path: Path) -> None:
    source = page.read_table(str(page.folder / "items.lance"), ["id"], split_bytes=1)

    def fails(frame: pd.DataFrame) -> pd.DataFrame:
        if frame["id"].max() == NUM_ROWS - 1:
            raise ValueError("spoiled")
        return frame

    spoiled = source.map_partitions(fails, meta=source._meta)
    with pytest.raises(ValueError, match="spoiled"):
        page.write_table(spoiled, str(tmp_path / "new"), pa.schema([("id", pa.int64())]))
    with pytest.raises(alance.NotFoundError):
        alance.sync.dataset(str(tmp_path / "new"))
