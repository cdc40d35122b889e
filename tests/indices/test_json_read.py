"""JSON indices of pylance, asked by filters of a member."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import alance
from tests.indices.index_cases import ids, plan_of

if TYPE_CHECKING:
    from pathlib import Path

NUM_ROWS = 9_000
VALUES: dict[str, tuple[Any, list[str]]] = {
    "whole": (
        lambda n: n * 7 % 3_000,
        ["json_get_int(j, 'a') = 21", "json_get_int(j, 'a') in (5, 8)"],
    ),
    "real": (
        lambda n: n if n % 3 == 1 else n / 4,
        ["json_get_float(j, 'a') = 25.25", "json_get_float(j, 'a') between 10 and 10.5"],
    ),
    "text": (
        lambda n: f't"{n % 700}é',
        ["json_get_string(j, 'a') = 't\"21é'", "json_get_string(j, 'a') like 't\"69%'"],
    ),
}
OTHERS = ["json_get_int(j, 'b') = 21", "json_get(j, 'a') = '21'"]


def table(value: Any) -> pa.Table:
    documents = [
        None if n % 11 == 5 else json.dumps({"b": n} if n % 13 == 4 else {"a": value(n), "b": n})
        for n in range(NUM_ROWS)
    ]
    return pa.table({"id": range(NUM_ROWS), "j": pa.array(documents, pa.json_())})


def by_pylance(path: Path, value: Any) -> None:
    dataset = lance.write_dataset(
        table(value), path, max_rows_per_file=4_000, data_storage_version="2.2"
    )
    parameters = {"target_index_type": "btree", "path": "a"}
    dataset.create_scalar_index("j", IndexConfig(index_type="json", parameters=parameters))
    dataset.delete("id % 17 = 3")
    lance.write_dataset(table(value).slice(0, 50), path, mode="append")


@pytest.mark.parametrize("kind", sorted(VALUES))
async def test_filters_of_a_member_give_what_a_scan_gives(tmp_path: Path, kind: str) -> None:
    value, conditions = VALUES[kind]
    by_pylance(tmp_path / "t", value)
    dataset = await alance.dataset(tmp_path / "t")
    narrow = [f"({conditions[0]}) and id > 100", f"not ({conditions[0]}) and id = 7"]
    for condition in (*conditions, *narrow):
        (line,) = (await plan_of(dataset, condition)).index_lines
        assert "j_idx (Json) on j" in line
        row_ids = await ids(dataset, condition)
        assert row_ids == await ids(dataset, condition, use_scalar_index=False), condition
        assert await dataset.count_rows(condition) == len(row_ids)
    assert (await plan_of(dataset, conditions[0])).picked
    assert await ids(dataset, conditions[0])
    for condition in OTHERS:
        assert not (await plan_of(dataset, condition)).index_lines


async def test_an_index_of_another_type_is_not_used(tmp_path: Path) -> None:
    value, _ = VALUES["whole"]
    by_pylance(tmp_path / "t", value)
    dataset = await alance.dataset(tmp_path / "t")
    (line,) = (await plan_of(dataset, "json_get_float(j, 'a') = 21")).index_lines
    assert "not used: values of type int64, the column has double" in line
