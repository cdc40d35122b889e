"""The code of README and docs runs as it stands, page by page, in one namespace a page.

The stores are the lab, which the environment names, and a folder. What a page takes for granted (a
table of its own, rows to be added) is made by a function of its name below. The pages about Dask,
Daft, Ray, Spark and training are in `tests/frames`, `tests/ray`, `tests/spark` and `tests/torch`,
first days in
`tests/test_first_day.py`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.io.events import observing
from alance.testing.lab import Lab
from tests.pages import PAGES, ROOT, blocks, run_page
from tests.versioning.dynamodb import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

Names = dict[str, Any]


def rows(start: int, stop: int, **columns: Any) -> pa.Table:
    ids = pa.array(range(start, stop))
    return pa.table({"id": ids, "price": pc.divide(ids.cast(pa.float64()), 10.0), **columns})


async def bases() -> Names:
    return {"rows": rows(0, 10)}


async def blobs() -> Names:
    values = [b"a", b"bc" * 50_000, None, b"", b"d" * 9]
    batches = [
        pa.record_batch({"id": list(range(5)), "image": pa.array(values, pa.large_binary())})
    ]
    return {"asyncio": asyncio, "pa": pa, "alance": alance, "batches": batches, "uri": "images"}


async def columns() -> Names:
    address = pa.array([{"zip": str(n), "town": "Malmö"} for n in range(40)])
    texts = pa.array([f"text {n}" for n in range(40)])
    table = rows(0, 40, name=texts, text=texts, address=address)
    dataset = await alance.write_dataset(table, "table", max_rows_per_file=10)

    async def vectors_of(texts: pa.Array) -> pa.Array:
        values = pa.array(np.zeros(768 * len(texts), np.float32))
        return pa.FixedSizeListArray.from_arrays(values, 768).cast(pa.list_(pa.float32(), 768))

    labels = pa.table({"id": [1, 2, 3], "colour": ["red", "green", "blue"]})
    return {"alance": alance, "pa": pa, "pc": pc, "dataset": dataset, "labels": labels} | {
        "vectors_of": vectors_of
    }


async def command() -> Names:
    return {}


async def files_0_1() -> Names:
    return {"alance": alance, "table": rows(0, 10), "more": rows(10, 20), "uri": "table"}


async def files_2_0() -> Names:
    return {"alance": alance, "table": rows(0, 10), "uri": "table"}


async def indices() -> Names:
    users = pa.array([n % 9 for n in range(1000)])
    countries = pa.array([["SE", "NO", "DK"][n % 3] for n in range(1000)])
    numbers = np.random.default_rng(0).random(32_000, np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 32)
    table = rows(0, 1000, user=users, country=countries, v=vectors)
    facts = pa.array([f'{{"address": {{"zip": {n}}}}}' for n in range(8000, 8004)], pa.json_())
    return {
        "alance": alance,
        "dataset": await alance.write_dataset(table, "table"),
        "people": await alance.write_dataset(pa.table({"facts": facts}), "people"),
    }


async def ingest() -> Names:
    batches = rows(0, 100).to_batches(max_chunksize=10)

    async def source() -> AsyncIterator[pa.RecordBatch]:
        for batch in batches:
            yield batch

    await alance.write_dataset(rows(0, 3), "table")
    names = {"alance": alance, "schema": batches[0].schema, "source": source(), "uri": "table"}
    return names | {"batches": batches, "batch": batches[0]}


async def merging() -> Names:
    def changes(start: int, changed_at: int) -> pa.Table:
        size = 30
        return rows(
            start,
            start + size,
            tenant=pa.array([7] * size),
            changed_at=pa.array([changed_at] * size),
        )

    dataset = await alance.write_dataset(changes(0, 1), "table")
    return {"dataset": dataset, "changes": changes(20, 2)}


async def progress() -> Names:
    numbers = np.random.default_rng(0).random(32_000, np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 32)
    return {"alance": alance, "rows": rows(0, 1000, v=vectors)}


async def security() -> Names:
    await alance.write_dataset(rows(0, 10), "s3://ours/table")
    return {}


async def statistics() -> Names:
    keys = pa.table({"l_orderkey": list(range(2_998_000, 2_999_000))})
    return {"dataset": await alance.write_dataset(keys, "table")}


async def stores() -> Names:
    return {"alance": alance, "options": {"region": "us-east-1"}}


async def tracing() -> Names:
    table = rows(0, 100, day=pa.array([n % 10 for n in range(100)]))
    return {"alance": alance, "dataset": await alance.write_dataset(table, "table")}


async def upkeep() -> Names:
    dataset = await alance.write_dataset(rows(0, 10), "table")
    return {"alance": alance, "dataset": await dataset.insert(rows(10, 20))}


async def changes() -> Names:
    dataset = await alance.write_dataset(rows(0, 10), "table", stable_row_ids=True)
    dataset = await dataset.update({"price": "1.5"}, "id = 2")
    await alance.write_dataset(rows(0, 3).select(["id"]), "orders.lance")
    return {"alance": alance, "dataset": dataset}


async def versions() -> Names:
    dataset = await alance.write_dataset(rows(0, 10), "s3://bucket/table", stable_row_ids=True)
    for start in range(10, 90, 10):
        dataset = await dataset.insert(rows(start, start + 10))
    lock = threading.Lock()
    return {"alance": alance, "rows": rows(100, 110), "lock": lambda version: lock}


SETUPS = {
    "bases": bases,
    "blobs": blobs,
    "changes": changes,
    "columns": columns,
    "files-0.1": files_0_1,
    "files-2.0": files_2_0,
    "indices": indices,
    "ingest": ingest,
    "merging": merging,
    "progress": progress,
    "security": security,
    "statistics": statistics,
    "stores": stores,
    "tracing": tracing,
    "maintenance": upkeep,
    "upkeep": upkeep,
    "versions": versions,
}
# tests/test_first_day.py, and tests/frames, tests/lakes, tests/ray, tests/spark and tests/torch
ELSEWHERE = {"daft", "dask", "first-day", "migrating", "ray", "spark", "training"}
RUN = [
    path
    for path in PAGES
    if path.stem not in ELSEWHERE and any(block.language == "python" for block in blocks(path))
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(buckets=("bucket", "other", "ours")) as lab:
        yield lab


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[str]:
    """A DynamoDB with the table `versions`."""
    with serving(versions="N") as url:
        yield url


@pytest.fixture(autouse=True)
def unobserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observers and log levels of a page end with it."""
    monkeypatch.setattr(observing, "_observers", [])
    logger = logging.getLogger("alance.io")
    monkeypatch.setattr(logger, "level", logger.level)


@pytest.fixture(autouse=True)
def place(lab: Lab, dynamodb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and an environment with a store of the right names, as after a login."""
    environment = {
        "AWS_ENDPOINT": lab.endpoint,
        "AWS_ACCESS_KEY_ID": "lab",
        "AWS_SECRET_ACCESS_KEY": "lab",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "DYNAMODBENDPOINT": dynamodb,
        "AWS_ENDPOINT_URL_GLUE": dynamodb,  # a server of moto has all services
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore")
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
async def test_the_code_of_a_page_runs(path: Path) -> None:
    names = await SETUPS[path.stem]() if path.stem in SETUPS else {}
    try:
        await run_page(path, names)
    finally:
        await alance.Session.of_loop().aclose()
        names.clear()
        gc.collect()  # functions of a page hold what is in it, and that the stores it opened


def test_the_first_lines_of_the_readme_run_in_the_console_of_asyncio(place: Path) -> None:
    """The console ends a statement of several lines at an empty line."""
    first = next(block for block in blocks(ROOT / "README.md") if block.language == "python")
    program = first.code + "print('rows:', await dataset.count_rows())\n"
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input=program,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "rows:" in done.stdout
    assert "Error" not in done.stderr, done.stderr


def test_all_pages_with_code_are_run() -> None:
    for path in PAGES:
        languages = {block.language for block in blocks(path)}
        assert languages <= {"python", "sh", "text"}, path
        assert not re.search(r"^(<<<<<<<|>>>>>>>) ", path.read_text(), re.MULTILINE), path
        # Indented code outside of fences would be missed.
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert not re.search(r"\n\n    \S", text), path
    assert set(SETUPS) <= {path.stem for path in RUN}


def test_commands_of_pages_are_those_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in PAGES:
        named = set(re.findall(r"[`\n]make ([a-z-]+)", path.read_text()))
        assert named <= targets, path
