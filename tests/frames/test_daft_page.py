"""The recipes of the page about Daft."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.testing.lab import Lab
from tests.pages import ROOT, run_page

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The names of the page, and the folder with its tables."""
    folder = tmp_path_factory.mktemp("page")
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        asyncio.run(run_page(ROOT / "docs" / "daft.md", names))
    return SimpleNamespace(folder=folder, **names)


def opened(uri: Path | str, **options: Any) -> alance.Dataset:
    return asyncio.run(alance.dataset(str(uri), **options))


def test_the_page_about_daft_runs(page: SimpleNamespace) -> None:
    dear = alance.sync.dataset(str(page.folder / "dear.lance"))
    assert dear.version == page.version == 1
    assert sorted(dear.to_table()["id"].to_pylist()) == list(range(96_001, 100_000))
    assert dear.schema.field("vector").type == pa.list_(pa.float32(), 4)


def test_frames_have_the_rows_of_the_table(page: SimpleNamespace) -> None:
    table, col = page.Table(opened(page.folder / "items.lance")), page.col
    assert table.read().count_rows() == 100_000
    assert table.read().limit(7).count_rows() == 7
    few = table.read().where(col("id") > 99_990).limit(3).to_pydict()["id"]
    assert few == [99_991, 99_992, 99_993]
    sparse = page.Table(table.dataset, "id % 1000 = 7").read()
    assert sparse.select("id").to_pydict()["id"] == list(range(7, 100_000, 1000))
    assert sparse.limit(2).to_pydict()["id"] == [7, 1007]
    none = page.Table(table.dataset, "id < 0").read().to_arrow()
    assert (none.num_rows, none.column_names) == (0, ["id", "price", "vector"])


def test_only_columns_of_later_steps_and_rows_of_the_filter_are_read(
    page: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lab() as lab:
        for name, value in lab.lance_options().items():
            monkeypatch.setenv(f"AWS_{name}".upper(), value)
        rows = {"id": range(100_000), "noise": np.random.default_rng(1).random((100_000, 8))}
        alance.sync.write_dataset(rows, "s3://lab/table", max_rows_per_file=50_000)

        def cost(filter: str | None, *columns: str) -> tuple[int, int]:
            frame = page.Table(opened("s3://lab/table"), filter).read().select(*columns)
            with lab.recording() as seen:
                count = frame.to_arrow().num_rows
            return count, seen.summary()["get_bytes"]

        whole, narrow = cost(None, "id", "noise"), cost(None, "id")
        few = cost("id between 5000 and 5009", "id", "noise")
    assert (whole[0], narrow[0], few[0]) == (100_000, 100_000, 10)
    assert narrow[1] < whole[1] / 8
    assert few[1] < whole[1] / 8


def test_a_write_that_fails_makes_no_version(page: SimpleNamespace, tmp_path: Path) -> None:
    frame = page.Table(opened(page.folder / "items.lance")).read().select("id", "price")
    schema = pa.schema([("id", pa.int64()), ("price", pa.int32())])
    with pytest.raises(Exception, match="price"):
        frame.write_sink(page.NewTable(str(tmp_path / "new"), schema))
    with pytest.raises(alance.NotFoundError):
        opened(tmp_path / "new")
