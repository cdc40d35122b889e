"""JSON indices that alance makes, asked here and by pylance, through all that changes a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.indices import IndexConfig

import alance
from alance.errors import InvalidInputError, UnsupportedError
from alance.expr.builders.json_values import path_steps, scalars
from tests.indices.index_cases import ids, plan_of
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

DEEP = "json_get_float(json_get(j, 'c'), 'd')"
ITEM = "json_get_int(json_get(json_extract(j, '$.c'), 'l'), 1)"
# Of each target: the path, and conditions that it answers.
TARGETS: dict[str, list[tuple[str, list[str]]]] = {
    "BTREE": [
        ("a", ["json_get_int(j, 'a') = 21", "json_get_int(j, 'a') between 5 and 9"]),
        ("$.c.d", [f"{DEEP} = 10.5", f"{DEEP} < 3 and id > 2"]),
    ],
    "BITMAP": [
        ("s", ["json_get_string(j, 's') = 'text7é'", "json_get_string(j, 's') is null"]),
        ("c.l[1]", [f"{ITEM} = 3", f"{ITEM} in (2, 4)"]),
        ("b", ["json_get_bool(j, 'b')"]),
    ],
    "NGRAM": [("s", ["contains(json_get_string(j, 's'), 'xt17')"])],
    "ZONEMAP": [("a", ["json_get_int(j, 'a') < 4", "json_get_int(j, 'a') = 120"])],
}
CASES = [
    (target, path, conditions) for target, cases in TARGETS.items() for path, conditions in cases
]


def rows(first: int, stop: int) -> pa.Table:
    def document(n: int) -> dict[str, Any]:
        inside = {"d": n if n % 3 == 1 else n / 2, "l": [n, n % 6]}
        return {"a": n, "s": f"text{n % 40}é", "b": n % 9 == 0, "c": inside} if n % 13 else {"x": n}

    texts = [None if n % 11 == 5 else json.dumps(document(n)) for n in range(first, stop)]
    return pa.table({"id": range(first, stop), "j": pa.array(texts, pa.json_())})


async def agree(path: Path, conditions: list[str], *, is_used: bool = True) -> None:
    """Filters give what scans give, here and, where it knows such filters, in pylance."""
    dataset, theirs = await alance.dataset(path), lance.dataset(path)
    for condition in conditions:
        row_ids = await ids(dataset, condition)
        assert row_ids == await ids(dataset, condition, use_scalar_index=False), condition
        assert await dataset.count_rows(condition) == len(row_ids)
        lines = (await plan_of(dataset, condition)).index_lines
        assert any("j_idx (Json) on j" in line for line in lines) == is_used, lines
        if "json_get(" not in condition:
            assert sorted(theirs.to_table(filter=condition)["id"].to_pylist()) == sorted(row_ids)


@pytest.mark.parametrize(
    ("target", "path", "conditions", "stable"), thinned([*CASES], [False, True])
)
async def test_an_index_is_kept_by_all_that_changes_the_table(
    tmp_path: Path, target: str, path: str, conditions: list[str], stable: bool
) -> None:
    place = tmp_path / "t"
    dataset = await alance.write_dataset(
        rows(0, 300), place, stable_row_ids=stable, max_rows_per_file=100
    )
    making = dataset.create_scalar_index("j", "JSON", path=path, target_index_type=target)
    if stable and target in ("BTREE", "ZONEMAP"):
        with pytest.raises(UnsupportedError, match="stable row ids"):
            await making
        return
    dataset = await making
    await agree(place, conditions)
    if "json_get(" not in conditions[0] and conditions[0] != "json_get_bool(j, 'b')":
        assert (
            "ScalarIndexQuery" in lance.dataset(place).scanner(filter=conditions[0]).explain_plan()
        )
    dataset = await dataset.delete("id % 17 = 3")
    dataset = (await dataset.update({"id": "id + 1000"}, where="id < 5")) or dataset
    dataset = await alance.dataset(place)
    await alance.write_dataset(rows(300, 420), place, mode="append")
    await agree(place, conditions)
    dataset = await (await alance.dataset(place)).optimize.optimize_indices(num_indices_to_merge=0)
    assert len((await dataset.describe_indices())[0].segments) == 2
    await agree(place, conditions)
    await dataset.optimize.compact_files()
    dataset = await alance.dataset(place)
    # Zones go with their fragments.
    await agree(place, conditions, is_used=target != "ZONEMAP")
    dataset = await dataset.optimize.optimize_indices(retrain=True)
    await agree(place, conditions)
    (message,) = await dataset.describe_indices()
    assert (message.index_type, message.details["path"]) == ("Json", path)
    assert message.num_rows_indexed == await dataset.count_rows()
    await dataset.prewarm_index("j_idx")
    statistics = await dataset.index_statistics("j_idx")
    assert statistics["num_unindexed_rows"] == 0
    assert set(statistics["indices"][0]) == set(
        lance.dataset(place).stats.index_stats("j_idx")["indices"][0]
    )


async def test_pylance_extends_what_alance_built(tmp_path: Path) -> None:
    place, conditions = tmp_path / "t", TARGETS["BTREE"][0][1]
    dataset = await alance.write_dataset(rows(0, 300), place, max_rows_per_file=100)
    await dataset.create_scalar_index("j", "JSON", path="a")
    lance.write_dataset(rows(300, 400), place, mode="append")
    theirs = lance.dataset(place)
    theirs.optimize.optimize_indices()
    theirs.delete("id % 7 = 2")
    theirs.optimize.compact_files()
    await agree(place, conditions)


@pytest.mark.parametrize("target", ["btree", "bitmap", "zonemap"])
async def test_an_index_of_pylance_is_used_and_extended(tmp_path: Path, target: str) -> None:
    place, conditions = tmp_path / "t", TARGETS["BTREE"][0][1]
    theirs = lance.write_dataset(rows(0, 300), place, max_rows_per_file=100)
    config = IndexConfig("json", {"target_index_type": target, "path": "a"})
    theirs.create_scalar_index("j", config)
    await agree(place, conditions)
    lance.write_dataset(rows(300, 400), place, mode="append")
    dataset = await (await alance.dataset(place)).optimize.optimize_indices()
    assert dataset.list_indices()[0]["fragment_ids"] == {0, 1, 2, 3}
    await agree(place, conditions)
    await dataset.optimize.compact_files()
    await agree(place, conditions, is_used=target != "zonemap")


async def test_a_path_with_points_is_no_key_with_points(tmp_path: Path) -> None:
    texts = ['{"c": {"d": 1}}', '{"c.d": 2}', '{"c": [{"d": 3}]}']
    table = pa.table({"id": [0, 1, 2], "j": pa.array(texts, pa.json_())})
    dataset = await alance.write_dataset(table, tmp_path / "t")
    dataset = await dataset.create_scalar_index("j", "JSON", path="c.d")
    for condition, expected in [("json_get_int(j, 'c.d') = 2", [1]), (f"{DEEP} = 1", [0])]:
        assert await ids(dataset, condition) == expected
    inside = "json_get_int(json_get(j, 'c'), 'd')"
    assert (await plan_of(dataset, f"{inside} = 1")).index_lines
    assert await ids(dataset, f"{inside} is null") == [1, 2]


async def test_bloom_filters_of_json_are_left_alone(tmp_path: Path) -> None:
    theirs = lance.write_dataset(rows(0, 100), tmp_path / "t")
    config = IndexConfig("json", {"target_index_type": "bloomfilter", "path": "a"})
    theirs.create_scalar_index("j", config)
    dataset = await alance.dataset(tmp_path / "t")
    (line,) = (await plan_of(dataset, "json_get_int(j, 'a') = 21")).index_lines
    assert "not used: bloom filters of JSON values do not say their type" in line
    assert await ids(dataset, "json_get_int(j, 'a') = 21") == [21]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", '"a"'], "found numbers, texts"),
        (["[1]"], "found arrays"),
        (["1"] * 70_000 + ["true"], "found (int64 and bool|booleans, numbers)"),
    ],
)
async def test_values_of_several_types_are_refused(
    tmp_path: Path, texts: list[str], expected: str
) -> None:
    documents = pa.array([f'{{"a": {text}}}' for text in texts], pa.json_())
    dataset = await alance.write_dataset(pa.table({"j": documents}), tmp_path / "t")
    with pytest.raises(InvalidInputError, match=expected):
        await dataset.create_scalar_index("j", "JSON", path="a")
    assert not (tmp_path / "t" / "_indices").exists() or not list(
        (tmp_path / "t" / "_indices").rglob("*.lance")
    )


async def test_fractions_behind_whole_numbers_make_an_index_of_fractions(tmp_path: Path) -> None:
    texts = [f'{{"a": {n}}}' for n in range(70_000)] + ['{"a": 0.5}']
    table = pa.table({"id": range(len(texts)), "j": pa.array(texts, pa.json_())})
    dataset = await alance.write_dataset(table, tmp_path / "t")
    dataset = await dataset.create_scalar_index("j", "JSON", path="a")
    for condition in ("json_get_float(j, 'a') = 69999", "json_get_float(j, 'a') < 1"):
        assert (await plan_of(dataset, condition)).picked
        assert await ids(dataset, condition) == await ids(
            dataset, condition, use_scalar_index=False
        )


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({}, InvalidInputError, "path=None"),
        ({"path": "$.a[*]"}, InvalidInputError, "expected .name"),
        ({"path": "a", "target_index_type": "LABEL_LIST"}, UnsupportedError, "expected BTREE"),
        ({"path": "a", "target_index_type": "BLOOMFILTER"}, UnsupportedError, "ZONEMAP"),
        (
            {"path": "a", "rows_per_zone": 5},
            TypeError,
            "unexpected keyword argument 'rows_per_zone'",
        ),
    ],
)
async def test_what_makes_no_sense_is_refused(
    tmp_path: Path, options: Any, error: type[Exception], expected: str
) -> None:
    dataset = await alance.write_dataset(rows(0, 5), tmp_path / "t")
    with pytest.raises(error, match=expected):
        await dataset.create_scalar_index("j", "JSON", **options)
    with pytest.raises(InvalidInputError, match="expected JSON"):
        await dataset.create_scalar_index("id", "JSON", path="a")


VALUES = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.floats(allow_nan=False, allow_infinity=False), st.none()
)


@given(st.lists(VALUES, min_size=1, max_size=20))
def test_numbers_are_whole_where_all_are(numbers: list[float | None]) -> None:
    documents = pa.array([json.dumps({"a": number}) for number in numbers])
    values = scalars(documents, path_steps("a"))
    present = [number for number in numbers if number is not None]
    is_whole = all(isinstance(number, int) and -(1 << 63) <= number < 1 << 63 for number in present)
    expected = pa.int64() if is_whole else pa.float64()
    assert values.type == (expected if present else pa.null())
    assert values.to_pylist() == [
        None if number is None else number if is_whole else float(number) for number in numbers
    ]
