"""The examples, and what they are made of."""

from __future__ import annotations

import importlib.util
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import alance
from tests.pages import ROOT, run_example

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from alance.testing.lab import Lab

EXAMPLES = ROOT / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Watched(pq.ParquetFile):
    """A Parquet file that knows which threads have used it."""

    opened: list[Watched]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.threads = {threading.get_ident()}
        super().__init__(*arguments, **options)
        self.opened.append(self)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "threads" or name.startswith("__"):
            return value
        self.threads.add(threading.get_ident())
        return self._watched(value) if name == "iter_batches" else value

    def _watched(self, method: Any) -> Any:
        def steps(*arguments: Any, **options: Any) -> Iterator[Any]:
            batches = method(*arguments, **options)
            while (batch := next(batches, None)) is not None:
                self.threads.add(threading.get_ident())
                yield batch

        return steps


async def test_a_parquet_file_of_the_demo_is_used_by_one_thread_and_closed(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that meet in one crash or hang, now and then."""
    keys = np.arange(40_000)
    rows = pa.table({"l_orderkey": keys // 4, "l_linenumber": keys % 4})
    pq.write_table(rows, tmp_path / "lineitem.parquet", row_group_size=5_000)
    Watched.opened = []
    monkeypatch.setattr(pq, "ParquetFile", Watched)
    await load("demo").write(lab, tmp_path / "lineitem.parquet")
    await alance.Session.of_loop().aclose()
    assert [len(file.threads) for file in Watched.opened] == [1] * len(Watched.opened)
    assert all(file.closed for file in Watched.opened)
    assert len(Watched.opened) >= 8


@pytest.mark.parametrize(
    ("example", "lines"),
    [
        ("engines", ["oslo: 2500 readings", "polars: 3 hot days", "backup: 10000 rows"]),
        ("ingest", ["12000 rows"]),
        ("self_maintained", ["the sums of 4 shops are those of", "done: cleanup"]),
        ("search", ["0.000  waterfall", "near papers, of more than six letters: paper"]),
        ("document_search", ["late books", "0.0328  Fines", "0.0328  Leihfrist"]),
        ("text_search", ["night and quiet", "Stones of the river bank are warm at night"]),
    ],
)
def test_an_example_runs_from_any_folder(tmp_path: Path, example: str, lines: list[str]) -> None:
    printed = run_example(example, tmp_path)
    for line in lines:
        assert line in printed
