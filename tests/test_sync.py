"""The blocking face: the same answers, from threads, notebooks and Arrow consumers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import lance
import polars
import pyarrow as pa
import pytest

import alance
import alance.sync
from tests.reference.compare import assert_equal_rows
from tools import stubs

if TYPE_CHECKING:
    from alance.testing.lab import Lab


@pytest.fixture
def uri(golden: Path) -> str:
    return str(golden / "lineitem.lance")


def test_the_same_answers_as_with_await(uri: str) -> None:
    dataset, theirs = alance.sync.dataset(uri), lance.dataset(uri)
    assert dataset.count_rows() == theirs.count_rows()
    assert dataset.schema == theirs.schema
    rows = [5, 14_000, 7]
    assert_equal_rows(dataset.take(rows), theirs.take(rows))
    condition = "l_quantity > 49"
    assert_equal_rows(dataset.to_table(filter=condition), theirs.to_table(filter=condition))
    assert sum(batch.num_rows for batch in dataset.to_batches()) == theirs.count_rows()
    assert dataset.fragments[1].count_rows() == 4980
    assert dataset.tags.list()["loaded"].version == 3
    assert dataset.checkout_version("loaded").count_rows() == 15_000
    assert repr(dataset).startswith("alance.sync.Dataset(")


def test_a_file_is_read_without_await(uri: str) -> None:
    path = next((Path(uri) / "data").glob("*.lance"))
    reader = alance.sync.FileReader.open(str(path))
    assert reader.num_rows == 5000
    assert reader.take([1, 0]).num_rows == 2
    assert reader.to_table(["l_orderkey"], start=10, stop=20).num_rows == 10


def test_writing_a_stream_and_a_file(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3]})
    with alance.sync.ingest(str(tmp_path / "table"), rows.schema) as sink:
        assert sink.write(rows)
        assert lance.dataset(str(tmp_path / "table"), version=sink.flush()).count_rows() == 3
        sink.write(rows)
    assert sink.metrics.num_rows == 6
    assert lance.dataset(str(tmp_path / "table")).count_rows() == 6
    with alance.sync.FileWriter.open(str(tmp_path / "file.lance"), rows.schema) as writer:
        writer.write(rows)
    assert writer.num_rows == 3
    assert alance.sync.FileReader.open(str(tmp_path / "file.lance")).to_table().equals(rows)
    with (
        pytest.raises(ZeroDivisionError),
        alance.sync.FileWriter.open(str(tmp_path / "none.lance"), rows.schema) as writer,
    ):
        writer.write(pa.table({"x": [1 // 0]}))
    assert not (tmp_path / "none.lance").exists()


def test_arrow_consumers_read_scans(uri: str) -> None:
    dataset = alance.sync.dataset(uri)
    count = lance.dataset(uri).count_rows()
    assert polars.DataFrame(dataset.scanner(["l_orderkey", "l_comment"])).height == count
    scan = dataset.scanner(["l_quantity"])
    (total,) = duckdb.from_arrow(scan.to_reader()).aggregate("count(*)").fetchall()[0]
    assert total == count
    assert pa.table(dataset.scanner(["l_tax"])).num_rows == count


def test_errors_are_the_same(uri: str) -> None:
    dataset = alance.sync.dataset(uri)
    with pytest.raises(alance.InvalidInputError, match="no field 'nope'"):
        dataset.take([1], ["nope"])
    with pytest.raises(alance.NotFoundError):
        alance.sync.dataset(uri + "-not-there")


def test_threads_share_one_loop(uri: str) -> None:
    dataset = alance.sync.dataset(uri)
    numbers: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: numbers.append(dataset.take([n]).num_rows))
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers == [1] * 16


async def test_inside_of_another_loop(uri: str) -> None:
    dataset = await asyncio.to_thread(alance.sync.dataset, uri)
    rows = await asyncio.to_thread(dataset.take, [1, 2])
    assert rows.num_rows == 2


def test_leaving_a_scan_early_ends_it(lineitem_lab: Lab) -> None:
    dataset = alance.sync.dataset(
        "s3://lab/lineitem.lance", storage_options=lineitem_lab.lance_options()
    )
    batches = dataset.to_batches(batch_size=10)
    assert next(batches).num_rows == 10
    batches.close()
    assert dataset.count_rows() > 0


def test_the_stub_is_up_to_date(tmp_path: Path) -> None:
    text = stubs.stub()
    target = tmp_path / "sync.pyi"
    target.write_text(text)
    for command in (["check", "--fix", "--quiet"], ["format", "--quiet"]):
        config = Path(__file__).parents[1] / "pyproject.toml"
        subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", str(config), str(target)],
            check=True,
        )
    assert target.read_text() == stubs.TARGET.read_text(), "run python -m tools.stubs"


def test_all_names_are_there_and_no_others() -> None:
    faces = {*alance.sync._CLASSES, *alance.sync._FUNCTIONS}
    assert set(alance.__all__) <= set(alance.sync.__all__)
    assert set(alance.sync.__all__) == set(alance.__all__) | set(alance.sync._CLASSES)
    assert dir(alance.sync) == sorted(alance.sync.__all__)
    for name in set(alance.__all__) - faces:
        assert getattr(alance.sync, name) is getattr(alance, name), name
    stubbed = stubs.TARGET.read_text()
    for name in alance.sync.__all__:
        assert f" as {name}\n" in stubbed or f" {name}:" in stubbed or f"def {name}(" in stubbed


def test_the_length_is_the_number_of_rows(uri: str) -> None:
    dataset = alance.sync.dataset(uri)
    assert len(dataset) == dataset.count_rows()
    assert len(dataset.fragments[1]) == 4980
    scanner = dataset.scanner(filter="l_quantity > ?", params=[49])
    assert len(scanner) == scanner.to_table().num_rows
