"""Examples in docstrings run as they stand, each on its own tables, and show true results."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import alance
from tests.docstrings import checks, documented, examples, run_example

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES: Final = examples(documented())
MAIN_CALLS: Final = [
    "dataset",
    "write_dataset",
    "Dataset.scanner",
    "Dataset.to_batches",
    "Dataset.to_table",
    "Dataset.take",
    "Dataset.count_rows",
    "Dataset.aggregate",
    "Dataset.get",
    "Dataset.get_many",
    "Dataset.nearest",
    "Dataset.search_text",
    "Dataset.search",
    "Dataset.sql",
    "Dataset.insert",
    "Dataset.update",
    "Dataset.delete",
    "Dataset.merge_insert",
    "Dataset.upsert",
    "Dataset.add_columns",
    "Dataset.alter_columns",
    "Dataset.drop_columns",
    "Dataset.create_scalar_index",
    "Dataset.create_index",
    "Optimize.optimize_indices",
    "Optimize.compact_files",
    "Dataset.cleanup_old_versions",
    "Dataset.versions",
    "Dataset.checkout_version",
    "Dataset.restore",
    "Dataset.create_branch",
    "Tags.create",
]


def rows() -> pa.Table:
    """100 rows: `price` is a tenth of `id`, texts differ in their number alone."""
    numbers = list(range(100))
    return pa.table(
        {
            "id": numbers,
            "price": [n / 10 for n in numbers],
            "kind": [f"kind {n % 3}" for n in numbers],
            "text": [f"quick fox {n}" for n in numbers],
            "vector": pa.array([[float(n)] * 8 for n in numbers], pa.list_(pa.float32(), 8)),
        }
    )


async def photos() -> alance.Dataset:
    """A table of a blob."""
    field = pa.field("photo", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table({"photo": pa.array([b"\xff\xd8\xff\xe0\x00"], pa.large_binary())})
    return await alance.write_dataset(
        table.cast(pa.schema([field])), "images", data_storage_version="2.1"
    )


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_example_of_a_docstring_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "alance": alance,
        "dataset": await alance.write_dataset(rows(), "table"),
        "images": await photos(),
    }
    try:
        await run_example(EXAMPLES[name], names)
    finally:
        names.clear()
        await alance.Session.of_loop().aclose()
        gc.collect()  # functions of an example hold what is in it


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_docstring_shows_a_result(name: str) -> None:
    assert checks(EXAMPLES[name])


def test_the_main_calls_have_an_example() -> None:
    assert set(MAIN_CALLS) <= EXAMPLES.keys()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("await dataset.nothing()", "object has no attribute 'nothing'"),
        ("assert await dataset.count_rows() == 3", "^$"),
        ("print(await dataset.count_rows())  # 3", "printed '2'"),
        ("print(await dataset.count_rows())", "printed '2'"),
        ("for n in [2, 3]:\n    print(n)  # 2", "printed '3'"),
        ("for n in []:\n    print(n)  # 2", "print.n.  # 2: not run"),
    ],
)
async def test_an_example_that_fails_or_shows_another_result_is_refused(
    code: str, message: str
) -> None:
    async with alance.Session() as session:
        dataset = await alance.write_dataset(
            {"x": [1, 2]}, "memory://shown", mode="overwrite", session=session
        )
        await run_example("print(await dataset.count_rows())  # 2", {"dataset": dataset})
        with pytest.raises((AssertionError, AttributeError), match=message):
            await run_example(code, {"dataset": dataset})
