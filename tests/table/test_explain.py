"""What a scan is said to ask for, against what it then asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

from alance.errors import InvalidInputError
from alance.io.trace import trace
from alance.ops.opening import open_snapshot
from alance.ops.options import ScanOptions
from alance.scanner import Scanner

if TYPE_CHECKING:
    from pathlib import Path

    from alance.session import Session


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments of 40,000 rows; a tenth of the rows is deleted."""
    numbers = np.arange(120_000)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(np.random.default_rng(3).random(4 * len(numbers), np.float32)), 4
    )
    table = pa.table({"a": numbers, "b": [f"text {n}" for n in numbers], "v": vectors})
    folder: Path = tmp_path_factory.mktemp("explain") / "t"
    lance.write_dataset(table, str(folder), max_rows_per_file=40_000)
    lance.dataset(str(folder)).delete("a % 10 = 3")
    return str(folder)


def numbers_of(line: str) -> list[int]:
    return [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", line)]


@pytest.mark.parametrize("columns", [["a"], ["v", "a"], None])
@pytest.mark.parametrize("limit", [None, 50_000])
async def test_it_tells_what_happens(
    path: str, session: Session, columns: list[str] | None, limit: int | None
) -> None:
    snapshot = await open_snapshot(path, session=session)
    scanner = Scanner(snapshot, columns, ScanOptions(limit=limit))
    with trace() as recorder:
        text = await scanner.explain()
    assert not any("scan" in event.reasons for event in recorder.events)
    assert text.startswith(f"scan of {path}, version 2\n  fragments: {2 if limit else 3} of 3, ")
    (line,) = (one for one in text.splitlines() if " in " in one and "request" in one)
    num_bytes, num_rows, num_requests, _ = numbers_of(line)
    with trace() as recorder:
        table = await scanner.to_table()
    done = [event for event in recorder.events if "scan" in event.reasons]
    assert len(done) == num_requests
    assert sum(event.num_bytes for event in done) >= num_bytes
    assert table.num_rows == (limit or 108_000)
    assert num_rows >= table.num_rows


async def test_filters_read_their_columns_first(path: str, session: Session) -> None:
    snapshot = await open_snapshot(path, session=session)
    options = ScanOptions(filter="a < 100", order_by=["-a"])
    lines = (await Scanner(snapshot, ["a", "b"], options).explain()).splitlines()
    assert "  filter: a < 100" in lines
    assert "  sorted in memory by: -a" in lines
    assert "  read first: a" in lines
    late = lines.index("  read late, of rows that the filter keeps: b")
    assert lines[late + 1].startswith("    at most ")


async def test_nothing_to_read(tmp_path: Path, session: Session) -> None:
    path = str(tmp_path / "empty")
    lance.write_dataset(pa.table({"a": pa.array([], pa.int64())}), path)
    snapshot = await open_snapshot(path, session=session)
    text = await Scanner(snapshot, [], ScanOptions(with_row_id=True)).explain()
    assert "fragments: 0 of 0" in text
    assert "0 bytes of 0 rows in 0 requests" in text


async def test_unknown_columns(path: str, session: Session) -> None:
    snapshot = await open_snapshot(path, session=session)
    with pytest.raises(InvalidInputError, match="nope"):
        await Scanner(snapshot, ["nope"], ScanOptions()).explain()
