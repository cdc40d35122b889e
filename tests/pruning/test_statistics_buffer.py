"""The statistics buffer: who reads the file, what is skipped, and what damage does."""

from __future__ import annotations

import random
import re
import struct
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError
from alance.format.container import FOOTER
from alance.format.encode import statistics
from alance.format.statistics import STATISTICS_MAGIC
from alance.io.events import trace

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 100_000


def table(rows: int = ROWS) -> pa.Table:
    """A sorted key, sorted text, and shuffled numbers."""
    shuffled = np.random.default_rng(1).permutation(rows)
    names = pa.array([f"name {number:08}" for number in range(rows)])
    return pa.table({"key": np.arange(rows), "name": names, "noise": shuffled})


def data_files(path: Path) -> list[Path]:
    return sorted((path / "data").iterdir())


def buffer_of(content: bytes | bytearray) -> tuple[int, int]:
    """Return the range of a file's statistics, a global buffer that its footer names."""
    at, count = FOOTER.unpack(content[-FOOTER.size :])[2:4]
    for start, size in struct.iter_unpack("<QQ", content[at : at + 16 * count]):
        if content[start : start + 8] == STATISTICS_MAGIC:
            return start, start + size
    raise AssertionError("no statistics")


async def test_pylance_reads_checks_and_goes_on(tmp_path: Path) -> None:
    await alance.write_dataset(table(), tmp_path / "t", max_rows_per_file=40_000)
    assert all(
        STATISTICS_MAGIC in data_file.read_bytes() for data_file in data_files(tmp_path / "t")
    )
    theirs = lance.dataset(str(tmp_path / "t"))
    theirs.validate()
    assert theirs.to_table() == table()
    assert theirs.to_table(filter="key = 77777").num_rows == 1
    assert theirs.take([99_999])["key"].to_pylist() == [99_999]
    lance.write_dataset(table(10), str(tmp_path / "t"), mode="append")
    lance.dataset(str(tmp_path / "t")).optimize.compact_files()
    ours = await alance.dataset(tmp_path / "t")
    assert await ours.count_rows("key = 7") == 2


async def test_skipped_fragments_and_zones_are_counted(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(table(), tmp_path / "t", max_rows_per_file=25_000)
    explanation = await dataset.scanner(filter="key = 30000").explain()
    assert (explanation.skipped.fragments, explanation.skipped.num_fragments) == (3, 4)
    assert (explanation.skipped.zones, explanation.skipped.num_zones) == (15, 16)
    assert (explanation.num_rows, explanation.num_rows_skipped) == (8192, ROWS - 8192)
    assert "3 of 4 fragments, 15 of 16 zones" in str(explanation)
    plain = await dataset.scanner(filter="key = 30000", use_stats=False).explain()
    assert plain.skipped is None
    assert plain.num_rows == ROWS
    assert explanation.num_pages == 1 < plain.num_pages == 4


async def test_late_columns_are_counted_of_kept_zones_only(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(table(), tmp_path / "t")
    pruned = await dataset.scanner(filter="key = 30000").explain()
    plain = await dataset.scanner(filter="key = 30000", use_stats=False).explain()
    bytes_of = [sum(step.num_bytes for step in candidate.at_most) for candidate in (pruned, plain)]
    assert bytes_of[0] * 4 < bytes_of[1]


@pytest.mark.parametrize(
    "condition",
    [
        "key = 5",
        "key in (5, 99000)",
        "key < 100 or key >= 99990",
        "name = 'name 00000777'",
        "name like 'name 0005%'",
        "key between 8190 and 8193",
        "not (key > 10 or key is null)",
        "key > 99998 and noise >= 0",
        f"key in ({', '.join(map(str, range(0, 40, 2)))})",
        "name in (" + ", ".join(f"'name 0000{index:04}'" for index in range(20)) + ")",
    ],
)
async def test_few_rows_are_read(tmp_path: Path, condition: str) -> None:
    dataset = await alance.write_dataset(table(), tmp_path / "t")
    explanation = await dataset.scanner(filter=condition).explain()
    assert explanation.num_rows <= 20_000
    expected = await dataset.to_table(filter=condition, use_stats=False)
    assert await dataset.to_table(filter=condition) == expected
    assert expected.num_rows > 0


async def test_a_round_more_at_first_and_none_later(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(table(), tmp_path / "t")
    seen = []
    for _ in range(2):
        with trace.recording(trace.RequestRecorder()) as recorder:
            await dataset.to_table(filter="key = 50000", columns=["key"])
        seen.append([event.reasons for event in recorder.events])
    assert sum("statistics" in reasons for reasons in seen[0]) <= 1
    assert not any("statistics" in reasons for reasons in seen[1])


async def test_off_by_an_option(tmp_path: Path) -> None:
    await alance.write_dataset(table(), tmp_path / "t", statistics=False)
    (file,) = data_files(tmp_path / "t")
    assert STATISTICS_MAGIC not in file.read_bytes()
    dataset = await alance.dataset(tmp_path / "t")
    explanation = await dataset.scanner(filter="key = 5").explain()
    assert explanation.skipped is None
    assert await dataset.count_rows("key = 5") == 1


async def test_size_of_sixteen_columns_and_a_million_rows(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    rows = 1 << 20
    numbers = {f"n{place}": generator.integers(0, 1 << 62, rows) for place in range(14)}
    texts = pa.array([f"{value:x}" for value in numbers["n0"].tolist()])
    result = pa.table({**numbers, "s": texts, "t": texts})
    await alance.write_dataset(result, tmp_path / "t")
    (file,) = data_files(tmp_path / "t")
    start, stop = buffer_of(file.read_bytes())
    assert stop - start < 50 << 10


async def test_wide_tables_read_the_columns_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "WRITTEN_ZONE_ROWS", 16)
    rng = np.random.default_rng(3)
    columns = {f"c{place:03}": rng.integers(0, 1 << 60, 4096) for place in range(200)}
    columns["c150"] = np.arange(4096)
    dataset = await alance.write_dataset(pa.table(columns), tmp_path / "t")
    (file,) = data_files(tmp_path / "t")
    with trace.recording(trace.RequestRecorder()) as recorder:
        rows = await dataset.to_table(filter="c150 = 1000", columns=["c003"])
    assert rows["c003"].to_pylist() == [int(columns["c003"][1000])]
    read = sum(event.num_bytes for event in recorder.events if "statistics" in event.reasons)
    assert 0 < read < file.stat().st_size // 10
    explanation = await dataset.scanner(filter="c150 = 1000").explain()
    assert explanation.num_rows == 16


async def test_damage_is_told_or_does_no_harm(tmp_path: Path) -> None:
    written = await alance.write_dataset(table(30_000), tmp_path / "t")
    expected = await written.to_table(filter="key = 20000 or name = 'name 00000100'")
    (file,) = data_files(tmp_path / "t")
    content = bytearray(file.read_bytes())
    start, stop = buffer_of(content)
    random_ = random.Random(7)
    message = 0
    for place in [*range(start, start + 120), *random_.sample(range(start + 120, stop), 80)]:
        damaged = content.copy()
        damaged[place] ^= 1 << random_.randrange(8)
        file.write_bytes(damaged)
        async with alance.Session() as session:
            dataset = await alance.dataset(tmp_path / "t", session=session)
            try:
                rows = await dataset.to_table(filter="key = 20000 or name = 'name 00000100'")
            except CorruptFileError:
                message += 1
                plain = "key = 20000 or name = 'name 00000100'"
                if place >= start + 120:
                    continue
                rows = await dataset.to_table(filter=plain, use_stats=False)
            assert rows == expected, place - start
    assert message > 50


async def test_files_of_2_0_have_none(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(table(), tmp_path / "t", data_storage_version="2.0")
    assert not any(
        re.search(STATISTICS_MAGIC, data_file.read_bytes())
        for data_file in data_files(tmp_path / "t")
    )
    assert await dataset.count_rows("key = 9") == 1


async def test_columns_of_files_with_other_zones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "WRITTEN_ZONE_ROWS", 64)
    dataset = await alance.write_dataset(table(5000), tmp_path / "t")
    monkeypatch.setattr(statistics, "WRITTEN_ZONE_ROWS", 16)
    dataset = await dataset.add_columns({"twice": "key * 2"})
    explanation = await dataset.scanner(filter="key = 1000 and twice = 2000").explain()
    assert explanation.num_rows == 16
    assert await dataset.count_rows("key = 1000 and twice = 2000") == 1
    monkeypatch.setattr(statistics, "WRITTEN_ZONE_ROWS", 17)
    dataset = await dataset.add_columns({"thrice": "key * 3"})
    assert await dataset.count_rows("key = 1000 and thrice = 3000") == 1
