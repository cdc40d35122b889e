"""Counters of indices in `ScanStatistics`, compared with pylance's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path

    from alance.types import ScanStatistics

NUMBERS: Final = (
    "indices_loaded",
    "parts_loaded",
    "index_comparisons",
    "index_cache_hits",
    "index_cache_misses",
)
ROWS: Final = 10_000
NEAREST: Final = {"column": "v", "q": np.zeros(8, np.float32), "k": 5}
SCANS: Final[list[dict[str, Any]]] = [  # in this order: each finds what the ones before have left
    {},
    {"filter": "id = 77"},
    {"filter": "id > 9000"},
    {"filter": "id > 5000 and k = 3"},
    {"filter": "k in (1, 2)"},
    {"filter": "k = 1 or id = 5"},
    {"filter": "other = 1"},
    {"nearest": {**NEAREST, "minimum_nprobes": 2, "maximum_nprobes": 2}},
    {"nearest": {**NEAREST, "minimum_nprobes": 4, "maximum_nprobes": 4}},
]
# pylance takes a page whose bounds are both within a range as a whole, without its values.
COMPARED: Final = {str(SCANS[3]): {"index_comparisons": 4096 + 1808 + 1}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = pa.array(np.random.default_rng(0).random(ROWS * 8), pa.float32())
    table = pa.table(
        {
            "id": range(ROWS),
            "k": [number % 7 for number in range(ROWS)],
            "other": [number % 3 for number in range(ROWS)],
            "t": [f"word{number % 13} other{number % 5}" for number in range(ROWS)],
            "v": pa.FixedSizeListArray.from_arrays(values, 8),
        }
    )
    dataset = lance.write_dataset(table, tmp_path / "t", max_rows_per_file=4000)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("k", "BITMAP")
    dataset.create_scalar_index("t", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=4)
    return tmp_path / "t"


def numbers(statistics: ScanStatistics | Any) -> dict[str, int]:
    return {name: getattr(statistics, name) for name in NUMBERS}


async def test_numbers_of_indices_are_those_of_pylance(folder: Path) -> None:
    theirs = lance.dataset(folder)
    ours = await alance.dataset(folder, session=alance.Session())
    for options in [scan for scan in SCANS for _ in range(2)]:  # cold and warm
        expected: list[Any] = []
        scan_statistics: list[ScanStatistics] = []
        theirs.scanner(scan_stats_callback=expected.append, **options).to_table()
        await ours.scanner(scan_stats_callback=scan_statistics.append, **options).to_table()
        assert numbers(scan_statistics[0]) == numbers(expected[0]) | COMPARED.get(
            str(options), {}
        ), options
        assert scan_statistics[0].all_times.keys() == {"scan", "requests", "threads", "queue"}
        assert scan_statistics[0].all_times["scan"] >= scan_statistics[0].all_times["requests"] >= 0


async def test_a_posting_list_is_one_part(folder: Path) -> None:
    """pylance counts a term's length besides its list."""
    dataset = await alance.dataset(folder, session=alance.Session())
    scan_statistics: list[ScanStatistics] = []
    for text in ("word3", "word3", "word3 other2"):
        options: Any = {"full_text_query": text, "scan_stats_callback": scan_statistics.append}
        await dataset.scanner(**options).to_table()
    assert [tuple(numbers(statistics).values()) for statistics in scan_statistics] == [
        (1, 1, 769, 0, 1),
        (0, 0, 769, 1, 0),
        (0, 1, 2769, 1, 1),
    ]
