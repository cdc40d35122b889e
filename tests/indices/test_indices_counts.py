"""Counts by indices: cardinalities of row sets, without a look at the rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.expr import predicate as predicates
from alance.ops.read import late
from alance.ops.read import rows as rows_read
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from tests.indices.index_cases import by_pylance, rows
from tests.reference.served import opened_on

if TYPE_CHECKING:
    from alance.expr.sql.lexical import SqlText
    from alance.ops.read.physical_rows import PhysicalRows
    from alance.ops.read.rows import ScanPlan
    from alance.testing.lab import Lab

NUM_ROWS = 60_000
COUNTED = (
    ("s = 'v3'", 1_200),
    ("s in ('v3', 'v4')", 2_400),
    ("not (s = 'v3' or s is null)", 58_800),
    ("s = 'v3' and i < 600", 12),
    ("s = 'v3' or i < 600", 1_788),
)


@pytest.fixture(scope="module")
def _counted(lab_server: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("counted") / "t"
    k = np.arange(NUM_ROWS)
    columns = {"id": k, "i": k * 7919 % NUM_ROWS, "s": [f"v{n % 50}" for n in range(NUM_ROWS)]}
    theirs = lance.write_dataset(pa.table(columns), path, max_rows_per_file=20_000)
    theirs.create_scalar_index("i", "BTREE")
    theirs.create_scalar_index("s", "BITMAP")
    shutil.copytree(path, Path(lab_server.root) / "lab" / "counted")
    theirs.delete("id < 30000 and i % 2 = 0")
    theirs.insert(pa.table({"id": [-1, -2], "i": [7, 8], "s": ["v3", "v4"]}))
    shutil.copytree(path, Path(lab_server.root) / "lab" / "recounted")
    lab_server.rescan()


@pytest.mark.usefixtures("_counted")
@pytest.mark.parametrize(("condition", "expected"), COUNTED)
async def test_a_bitmap_counts_without_a_data_file(lab: Lab, condition: str, expected: int) -> None:
    async with opened_on(lab, "s3://lab/counted") as dataset:
        with lab.recording() as seen:
            assert await dataset.count_rows(condition) == expected
        assert seen.records
        assert all("/_indices/" in f"/{record['key']}" for record in seen.records)
        with lab.recording() as seen:
            assert await dataset.count_rows(condition) == expected
        assert seen.records == []


@pytest.mark.usefixtures("_counted")
async def test_only_deletions_and_what_no_index_covers_are_read(lab: Lab) -> None:
    async with alance.Session() as session:
        options = lab.lance_options()
        uri = "s3://lab/recounted"
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        (*_, added) = dataset._snapshot.handles
        with lab.recording() as seen:
            assert await dataset.count_rows("s = 'v4'") == 601
        assert lance.dataset(uri, storage_options=options).count_rows("s = 'v4'") == 601
        keys = {record["key"].rpartition("/")[2]: f"/{record['key']}" for record in seen.records}
        (name,) = (file.path for file in added.fragment.files)
        assert [key for key in keys if "/data/" in keys[key]] == [name]
        assert sum("/_deletions/" in key for key in keys.values()) == 2


@pytest.mark.parametrize("stable", [False, True])
async def test_counts_of_some_fragments_and_with_limits(tmp_path: Path, stable: bool) -> None:
    by_pylance(tmp_path / "t", enable_stable_row_ids=stable)
    dataset = await (await alance.dataset(tmp_path / "t")).insert(rows(700, 90_000))
    ids = [handle.id for handle in dataset._snapshot.handles]
    for condition in ("s = 'v3'", "not (s = 'v3')", "s is null or i = 5", "b and s <> 'v1'"):
        for options in (
            {"fragments": ids[:1]},
            {"fragments": ids[1:]},
            {"limit": 5},
            {"offset": 7},
            {"offset": 100_000},
            {"offset": 3, "limit": 100},
        ):
            entries: dict[str, Any] = {"filter": condition, **options}
            counted = await dataset.scanner(["id"], **entries).count_rows()
            scanned = await dataset.to_table(["id"], use_scalar_index=False, **entries)
            assert counted == scanned.num_rows, (condition, options)


async def test_expressions_are_counted_where_they_are_understood(tmp_path: Path) -> None:
    by_pylance(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    s, i, f = pc.field("s"), pc.field("i"), pc.field("f")
    for expression, is_counted in (
        (s == "v3", True),
        ((s == "v3") & (i < 600), True),
        (~(s == "v3"), True),
        (s.isin(["v3", "v4"]), True),
        (s.is_null(), True),
        (f < 5.0, True),
        ((s == "v3") & (pc.field("id") > 8_000), False),
        ((s == "v3") & (pc.utf8_length(s) == 2), False),
    ):
        plan = await plan_scan(dataset._snapshot, [], ScanOptions(filter=expression), counts=True)
        assert (plan.counted is not None) == is_counted, str(expression)
        table = await dataset.to_table(["id"], filter=expression, use_scalar_index=False)
        assert await dataset.count_rows(expression) == table.num_rows


async def test_a_filter_is_parsed_once_a_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await alance.write_dataset(rows(100), tmp_path / "t")
    await alance.write_dataset(rows(100).drop_columns(["f"]), tmp_path / "other")
    parsed: list[str] = []
    build = predicates._build

    def noted(source: SqlText, *others: Any) -> Any:
        parsed.append(source.text)
        return build(source, *others)

    monkeypatch.setattr(predicates, "_build", noted)
    condition = "i = 37 or s = 'only here'"
    for _ in range(3):
        async with alance.Session() as session:
            dataset = await alance.dataset(tmp_path / "t", session=session)
            assert await dataset.count_rows(condition) == 1
    assert parsed == [condition]
    other = await alance.dataset(tmp_path / "other")
    assert await other.count_rows(condition) == 1
    assert parsed == [condition] * 2
    for _ in range(2):
        assert await other.count_rows("now() < timestamp '2001-01-01'") == 0
    assert len(parsed) == 4  # a moment is another one each time


async def test_rows_of_many_fragments_are_decoded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(4_000), path, max_rows_per_file=100)
    dataset = await (await alance.dataset(path)).create_scalar_index("id", "BTREE")
    decoded: list[int] = []
    passing = rows_read.passing

    def noted(plan: ScanPlan, rows_of: PhysicalRows, batch: pa.RecordBatch) -> Any:
        decoded.append(rows_of.num_rows)
        return passing(plan, rows_of, batch)

    monkeypatch.setattr(late, "passing", noted)
    keys = list(range(5, 4_000, 200))
    table = await dataset.to_table(filter=f"id in ({', '.join(map(str, keys))})")
    assert table["id"].to_pylist() == keys
    assert decoded == [len(keys)]


async def test_few_of_many_fragments_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "many"
    table = pa.table({"id": range(500), "kind": [n % 5 for n in range(500)]})
    theirs = lance.write_dataset(table, path, max_rows_per_file=5, enable_stable_row_ids=True)
    theirs.create_scalar_index("id", "BTREE")
    theirs.create_scalar_index("kind", "BITMAP")
    theirs.delete("id in (7, 8)")
    dataset = await alance.dataset(path)
    handles = dataset._snapshot.handles
    assert await dataset.count_rows("kind = 3") == 99
    assert await dataset.get(444, column="id") == {"id": 444, "kind": 4}
    looked_at = [place for place, handle in enumerate(handles._handles) if handle is not None]
    assert looked_at == [1, 88]
