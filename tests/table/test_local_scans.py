"""Scans of local files: read by the job that decodes; fetched ahead where not in the page cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError
from alance.io.disk import files
from alance.ops.read import rows as read_rows

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 200_000
VERSIONS = ("0.1", "2.0", "2.1", "2.2", "2.3")


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    n = np.arange(ROWS)
    nulls = rng.random(ROWS) < 0.1
    return pa.table(
        {
            "n": n,
            "some": pa.array(rng.integers(0, 1 << 40, ROWS), mask=nulls),
            "text": pa.array([f"number {i * 7919 % 10007}" for i in range(ROWS)], mask=nulls),
            "lists": pa.array([list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int32())),
            "pair": pa.array([{"a": int(i), "b": f"b{i % 4}"} for i in n]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 8)), 8),
        }
    )


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return table()


async def scanned(dataset: alance.Dataset, **options: object) -> pa.Table:
    batches = [batch async for batch in dataset.to_batches(**options)]  # type: ignore[arg-type]
    return pa.Table.from_batches(batches)


class Held:
    """A page cache that has some ranges, whichever is asked for first."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    def __call__(self, file: files.OpenFile, span: tuple[int, int]) -> object:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        result = read_held(file, span)
        return {"yes": result, "waits": (result[0], False), "no": (None, False)}[answer]


read_held = files.read_held


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_same_rows_whatever_the_page_cache_has(
    tmp_path: Path, rows: pa.Table, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = rows.drop_columns(["pair"]) if version == "0.1" else rows
    lance.write_dataset(
        written, str(tmp_path / "t"), max_rows_per_file=150_000, data_storage_version=version
    )
    dataset = await alance.dataset(str(tmp_path / "t"))
    written = lance.dataset(str(tmp_path / "t")).to_table()  # 0.1 has no nulls of numbers
    assert (await scanned(dataset)).equals(written)
    assert (await scanned(dataset, batch_size=5000)).equals(written)
    for held in (Held("no"), Held("waits"), Held("yes", "no"), Held("yes", "waits", "yes")):
        monkeypatch.setattr(files, "read_held", held)
        assert (await scanned(dataset)).equals(written)
        result = await scanned(dataset, columns=["text"], filter="n >= 100000 AND n < 180100")
        assert result.equals(written.select(["text"]).slice(100_000, 80_100))


async def test_a_file_that_lost_its_end_is_told(tmp_path: Path, rows: pa.Table) -> None:
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.2")
    dataset = await alance.dataset(str(tmp_path / "t"))
    assert (await dataset.take([5])).num_rows == 1
    (data,) = (tmp_path / "t" / "data").iterdir()
    content = data.read_bytes()
    data.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorruptFileError):
        await scanned(dataset)


async def test_a_scan_that_is_left_early_ends(tmp_path: Path, rows: pa.Table) -> None:
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version="2.2")
    async with alance.Session() as session:
        dataset = await alance.dataset(str(tmp_path / "t"), session=session)
        batches = dataset.to_batches(batch_size=1000)
        first = await anext(batches)
        await batches.aclose()
        assert first.slice(0, 10).to_pylist() == rows.slice(0, 10).to_pylist()
        assert await dataset.count_rows("n < 10") == 10


async def test_rows_are_selected_of_the_columns_that_the_output_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1000
    pairs = pa.array([{"a": n, "b": f"b{n}"} for n in range(count)])
    data = pa.table({"a": range(count), "b": range(count), "pair": pairs})
    lance.write_dataset(data, tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    selected: list[str] = []
    select = read_rows.select

    def noted(batch: pa.RecordBatch, *chosen: object) -> pa.RecordBatch:
        selected.extend(batch.schema.names)
        return select(batch, *chosen)  # type: ignore[arg-type]

    monkeypatch.setattr(read_rows, "select", noted)
    for filter_ in ("a < 500 AND pair.a >= 2", "_rowid < 500 AND b >= 2"):
        for columns, retained in (
            (["_rowid"], {"_rowid"}),
            ([], set()),
            (["pair.b"], {"pair"}),
            (["b", "_rowid"], {"b", "_rowid"}),
        ):
            for late in (True, False):
                selected.clear()
                options = {"filter": filter_, "late_materialization": late}
                result = await dataset.to_table(columns, with_row_id=True, **options)
                request = {"filter": filter_, "with_row_id": True}
                expected = lance.dataset(tmp_path / "t").to_table(columns=columns, **request)
                assert result.equals(expected.select(result.schema.names))
                assert set(selected) <= retained | {"_rowid"}
