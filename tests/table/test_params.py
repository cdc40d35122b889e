"""Parameters wherever a condition is taken; the text is parsed once, and indices are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.distributed import fragments_of, plan_splits, read_split, version_record
from alance.errors import InvalidInputError
from alance.expr import ParsedFilter

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 200


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    vectors = pa.FixedSizeListArray.from_arrays(np.arange(ROWS * 4, dtype=np.float32), 4)
    columns = {"id": range(ROWS), "tenant": [f"t{n % 7}" for n in range(ROWS)], "v": vectors}
    return await alance.write_dataset(pa.table(columns), str(tmp_path / "t"), max_rows_per_file=50)


async def test_reads_take_them(dataset: alance.Dataset) -> None:
    filter, params = "tenant = ? AND id > ?", ["t3", 100]
    expected = lance.dataset(dataset.uri).to_table(filter="tenant = 't3' AND id > 100")
    options: Any = {"filter": filter, "params": params}
    assert await dataset.to_table(**options) == expected
    batches = [batch async for batch in dataset.to_batches(**options)]
    assert pa.Table.from_batches(batches) == expected
    assert await dataset.count_rows(filter, params=params) == len(expected)
    assert await dataset.scanner(**options).count_rows() == len(expected)
    assert "tenant = ? AND id > ?" in str(await dataset.scanner(**options).explain())
    (last,) = dataset.fragments[3:]
    assert await last.count_rows(filter, params=params) == len(
        [n for n in range(150, ROWS) if n % 7 == 3]
    )
    assert (await last.to_table(["id"], **options))["id"].to_pylist()[0] == 150


async def test_searches_take_them(dataset: alance.Dataset) -> None:
    for prefilter in (True, False):
        rows = await dataset.nearest(
            "v", [0.0] * 4, 5, filter="id IN :ids", params={"ids": [1, 2]}, prefilter=prefilter
        )
        assert rows["id"].to_pylist() == [1, 2]


async def test_changes_take_them(dataset: alance.Dataset) -> None:
    dataset = await dataset.delete("tenant IN ?", params=[["t0", "t1"]])
    assert dataset.summary["num_deleted_rows"] == 58
    dataset = await dataset.update(
        {"tenant": "concat(?, tenant)", "id": "id + ?"}, "id = ?", params=["it's ", 1000, 3]
    )
    rows = await dataset.to_table(["id", "tenant"], filter="id > 999")
    assert rows.to_pylist() == [{"id": 1003, "tenant": "it's t3"}]
    dataset = await dataset.update(
        {"tenant": ":new"}, where="tenant = :old", params={"new": "t9", "old": "t2"}
    )
    assert await dataset.count_rows("tenant = 't9'") == 29
    assert lance.dataset(dataset.uri).count_rows("tenant = 't9'") == 29


async def test_merges_take_them(dataset: alance.Dataset) -> None:
    source = (await dataset.take([1, 2, 3])).set_column(1, "tenant", [["new"] * 3])
    merge = dataset.merge_insert("id").when_matched_update_all(
        "target.tenant IN :all", params={"all": ["t1", "t2"]}
    )
    dataset = await merge.when_not_matched_by_source_delete("id > ?", params=[100]).execute(source)
    assert await dataset.count_rows("tenant = ?", params=["new"]) == 2
    assert await dataset.count_rows() == 101


async def test_splits_of_engines_take_them(dataset: alance.Dataset) -> None:
    options = alance.ScanOptions(filter="id IN ?", params=[[7, 160]])
    splits = plan_splits(fragments_of(dataset), split_bytes=1, parallelism=2)
    ids = []
    for split in splits:
        async for batch in read_split(
            version_record(dataset), dataset.uri, split, ["id"], options, session=dataset.session
        ):
            ids += batch["id"].to_pylist()
    assert ids == [7, 160]


async def test_indices_are_asked(dataset: alance.Dataset) -> None:
    dataset = await dataset.create_scalar_index("id", "BTREE")
    dataset = await dataset.create_scalar_index("tenant", "BITMAP")
    scanner = dataset.scanner(filter="id IN ? AND tenant = ?", params=[[3, 10, 11], "t3"])
    message = str(await scanner.explain())
    assert "id_idx (BTree)" in message
    assert "tenant_idx (Bitmap)" in message
    assert (await scanner.to_table())["id"].to_pylist() == [3, 10]
    many = list(range(0, ROWS, 2))
    assert await dataset.count_rows("id IN ?", params=[many]) == len(many)


async def test_a_text_is_parsed_once(
    dataset: alance.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    of = ParsedFilter.of

    def noted(text: str) -> ParsedFilter:
        texts.append(text)
        return of(text)

    monkeypatch.setattr(ParsedFilter, "of", noted)
    for number in range(300):
        assert await dataset.count_rows("id = ? and id >= 0", params=[number]) == (number < ROWS)
    assert texts == ["id = ? and id >= 0"]
    assert len(dataset._snapshot.remember) < 20


@pytest.mark.parametrize(
    ("filter", "params", "message"),
    [
        (None, [1], "params: filter is no SQL text"),
        (pc.field("id") == 1, [1], "params: filter is no SQL text"),
        ("id = ?", "1", "params: expected a list, or a mapping of names, found str"),
        ("id = ?", 1, "params: expected a list, or a mapping of names, found int"),
    ],
)
def test_what_has_no_parameters_is_told_at_once(
    dataset: alance.Dataset, filter: Any, params: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataset.scanner(filter=filter, params=params)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([1], r"params: 1 values, the texts have 2 \?"),
        ([1, 2, 3], r"params: 3 values, the texts have 2 \?"),
        ({"a": 1}, "params: 'a', no text has such a name"),
        (None, r"params: 0 values, the expression has 1 \?"),
    ],
)
async def test_an_update_needs_the_values_of_all_its_texts(
    dataset: alance.Dataset, params: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        await dataset.update({"id": "?"}, where="id = ?", params=params)
    assert await dataset.latest_version() == 1
