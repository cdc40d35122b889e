"""Merges of a few keys find their rows by an index; the result is that of a scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.io.events import trace
from alance.ops.merge import match
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 300_000


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Look rows up by an index whatever the number of keys; note whether it is done."""
    return noted_lookups(monkeypatch, fewest_rows=0)


def noted_lookups(monkeypatch: pytest.MonkeyPatch, fewest_rows: int) -> list[bool]:
    """Let tables of few rows be looked up by an index; note for each merge whether it is done."""
    monkeypatch.setattr(match, "FEWEST_ROWS", fewest_rows)
    monkeypatch.setattr(match, "FEWEST_REMOTE_ROWS", fewest_rows)
    original, looked_up = match._of_keys, []

    async def noted(*arguments: Any) -> Any:
        options = await original(*arguments)
        looked_up.append(options is not None and options.use_scalar_index)
        return options

    monkeypatch.setattr(match, "_of_keys", noted)
    return looked_up


def table(ids: Any, value: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [None if n is None else f"n{n % 50}" for n in ids],
            "x": pa.array([value] * len(ids), pa.int64()),
        }
    )


async def indexed(path: Path, *, stable: bool) -> alance.Dataset:
    """Indices of all but the last rows, of which some are deleted and some come twice."""
    dataset = await alance.write_dataset(
        table(range(1000), 0), path, max_rows_per_file=300, stable_row_ids=stable
    )
    dataset = await dataset.create_scalar_index("id", "BTREE")
    dataset = await dataset.create_scalar_index("name", "BITMAP")
    dataset = await dataset.delete("id % 10 = 3")
    dataset = await dataset.update({"x": "1"}, "id % 10 = 4")
    return await dataset.insert(table([5000, 5001, None], 0))


@pytest.mark.parametrize(("stable", "on"), thinned([True, False], ["id", "name", ["id", "name"]]))
async def test_the_result_is_that_of_a_scan(
    tmp_path: Path, always: list[bool], monkeypatch: pytest.MonkeyPatch, on: Any, stable: bool
) -> None:
    ids = [3, 4, 14, 500, 5001, 7000, None]
    if on == "name":
        ids = [3, 4, 5, None]
    has_key = [number is not None for number in ids]
    results = []
    for way in ("index", "filter", "scan"):
        monkeypatch.setattr(match, "FILTERED_ROWS", 1 << 20 if way == "scan" else 0)
        dataset = await indexed(tmp_path / way, stable=stable)
        builder = dataset.merge_insert(on).use_index(way == "index")
        builder = builder.when_matched_update_all("source.x > target.x")
        after = await builder.when_not_matched_insert_all().execute(table(ids, 7))
        await after.validate()
        results.append((after.summary, sorted((await after.to_table()).to_pylist(), key=str)))
    assert always == [True, False, False]
    assert results[0] == results[1] == results[2]
    theirs = await indexed(tmp_path / "theirs", stable=stable)
    peer = lance.dataset(theirs.uri).merge_insert(on)
    peer = peer.when_matched_update_all("source.x > target.x")
    peer.when_not_matched_insert_all().execute(table(ids, 7).filter(pa.array(has_key)))
    # A null matches nothing and is inserted; pylance does so without an index alone.
    rows = lance.dataset(theirs.uri).to_table().to_pylist() + table([None], 7).to_pylist()
    assert results[0][1] == sorted(rows, key=str)


async def read_bytes(path: Path, *, use_index: bool) -> int:
    """Return the bytes that a merge of a key reads."""
    async with alance.Session() as session:
        opened = await alance.dataset(path, session=session)
        builder = opened.merge_insert("id").when_matched_update_all().use_index(use_index)
        with trace.trace() as recorder:
            await builder.execute_uncommitted(table([ROWS // 2], 1))
    return recorder.totals.num_bytes


async def test_a_merge_of_few_keys_reads_the_pages_of_these_keys(tmp_path: Path) -> None:
    ids = [n * 7919 % ROWS for n in range(ROWS)]  # in no order, so that statistics tell nothing
    dataset = await alance.write_dataset(table(ids, 0), tmp_path / "t")
    await dataset.create_scalar_index("id", "BTREE")
    by_index = await read_bytes(tmp_path / "t", use_index=True)
    assert by_index * 2 < await read_bytes(tmp_path / "t", use_index=False)


async def test_a_merge_of_few_keys_reads_the_zones_that_may_have_them(tmp_path: Path) -> None:
    num_bytes = []
    for number, factor in enumerate((1, 7919)):
        path = tmp_path / str(number)
        await alance.write_dataset(table([n * factor % ROWS for n in range(ROWS)], 0), path)
        num_bytes.append(await read_bytes(path, use_index=True))
    assert num_bytes[0] * 4 < num_bytes[1]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", ["float", "others", "none"])
async def test_merges_that_no_index_serves_scan(
    tmp_path: Path, always: list[bool], kind: str
) -> None:
    rows = table(range(20), 0)
    if kind == "float":
        rows = rows.set_column(0, "id", rows["id"].cast(pa.float64()))
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    if kind != "none":
        dataset = await dataset.create_scalar_index("id", "BTREE")
    builder = dataset.merge_insert("id").when_matched_update_all()
    if kind == "others":
        builder = builder.when_not_matched_by_source_delete("id > 10")
    after = await builder.execute(rows.slice(3, 1))
    assert always == [False]
    assert await after.count_rows() == (11 if kind == "others" else 20)
