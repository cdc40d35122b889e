"""Filters of values in JSON columns: as pylance answers, of the JSONB and of the text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS: list[Any] = [
    None,
    {"a": 1, "b": "x", "c": {"d": 1.5, "e": [1, 2, {"f": "g"}]}},
    {"a": -7, "b": 'a "text", \\ and ü \n', "c": {"d": 2}},
    {"a": 2.5, "b": "12", "c": None},
    {"a": -2.5, "b": "", "c": {}},
    {"a": None, "b": "true", "c": {"e": []}},
    {"b": "x" * 300},
    {},
    {"0": "zero", "1a": [2]},
]
CONDITIONS = [
    "json_get_int(j, 'a') = 1",
    "json_get_int(j, 'a') = 3 or json_get_int(j, 'a') = -3",
    "json_get_float(j, 'a') < 0",
    "json_get_int(j, 'a') is null",
    "json_get_string(j, 'b') = 'x'",
    "json_get_string(j, 'b') like 'a \"text\"%'",
    "json_extract(j, '$.c.d') = '1.5'",
    "json_extract(j, '$.c.e[2].f') = '\"g\"'",
    "json_get_float(json_get(j, 'c'), 'd') = 2",
    "json_exists(j, '$.c.e')",
    "json_exists(j, '$.a')",
    "json_extract(j, '0') = '\"zero\"'",
    "json_exists(j, '$.0')",
    "json_array_length(j, '$.1a') = 1",
    "json_extract(j, '$.c.e[0,1]') = '[1,2]'",
    "json_exists(j, '$.c.*')",
    "json_array_length(j, '$.*[*]') = 0",
    "json_array_length(j, '$.c.e') = 3",
    "json_array_contains(j, '$.c.e', 2)",
    "json_get_int(j, 'a') = 1 and id < 3",
    "json_get_int(j, 'a') is not null or id = 0",
]


def table() -> pa.Table:
    texts = [None if document is None else json.dumps(document) for document in DOCUMENTS]
    return pa.table({"id": range(len(texts)), "j": pa.array(texts, pa.json_())})


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
async def test_rows_are_those_of_pylance_whether_the_documents_are_given_or_not(
    tmp_path: Path, version: str
) -> None:
    theirs = lance.write_dataset(table(), tmp_path / "t", data_storage_version=version)
    ours = await alance.dataset(tmp_path / "t")
    for condition in CONDITIONS:
        rows = theirs.to_table(columns=["id"], filter=condition)["id"].to_pylist()
        for columns in (["id"], ["id", "j"]):
            for late in (None, False):
                answer = await ours.to_table(
                    columns=columns, filter=condition, late_materialization=late
                )
                assert answer["id"].to_pylist() == rows, (condition, columns)
        assert await ours.count_rows(condition) == len(rows), condition
    assert any(theirs.count_rows(condition) for condition in CONDITIONS)


async def test_steps_that_pylance_does_not_have_are_refused_alike(tmp_path: Path) -> None:
    theirs = lance.write_dataset(table(), tmp_path / "t")
    ours = await alance.dataset(tmp_path / "t")
    condition = "json_exists(j, '$..a')"
    with pytest.raises(ValueError, match="Invalid JSONPath"):
        theirs.to_table(filter=condition)
    with pytest.raises(InvalidInputError, match=r"expected \.name"):
        await ours.to_table(filter=condition)


async def test_documents_beside_a_condition_on_their_whole_text_are_texts(tmp_path: Path) -> None:
    ours = await alance.write_dataset(table(), tmp_path / "t")
    condition = "json_get_int(j, 'a') = 1 and j like '%\"x\"%'"
    assert (await ours.to_table(columns=["id"], filter=condition))["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    "document", ['{"a": "word"}', '{"a": 1e30}', '{"a": "9223372036854775808"}']
)
async def test_what_is_no_whole_number_is_told(tmp_path: Path, document: str) -> None:
    ours = await alance.write_dataset(
        pa.table({"id": [0], "j": pa.array([document], pa.json_())}), tmp_path / "t"
    )
    with pytest.raises(InvalidInputError, match="expected a number of type int64, found"):
        await ours.to_table(columns=["id"], filter="json_get_int(j, 'a') = 1")


names = st.sampled_from(["a", "b", "c"])
values = st.recursive(
    st.none() | st.integers(-3, 3) | st.sampled_from(["x", "1", ""]) | st.booleans(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(names, part, max_size=3),
    max_leaves=8,
)
indices = st.sampled_from(["0", "1", "last", "last-1", "last - 2", "last+1", "-1"])
steps = st.one_of(
    st.sampled_from(["[*]", ".*", " [ * ]", ":a", '."b"']),
    names.map(lambda name: f".{name}"),
    st.lists(indices, min_size=1, max_size=3).map(lambda places: f"[{','.join(places)}]"),
)
paths = st.lists(steps, min_size=1, max_size=3).map(lambda parts: "$" + "".join(parts))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    documents=st.lists(values, min_size=1, max_size=8),
    chosen_paths=st.lists(paths, min_size=6, max_size=6),
)
async def test_paths_to_several_values_are_those_of_pylance(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Any], chosen_paths: list[str]
) -> None:
    path = tmp_path_factory.mktemp("paths") / "t"
    texts = pa.array([json.dumps(document) for document in documents], pa.json_())
    theirs = lance.write_dataset(pa.table({"j": texts}), path, data_storage_version="2.2")
    columns = {}
    for place, text in enumerate(chosen_paths):
        columns[f"x{place}"] = f"json_extract(j, '{text}')"
        columns[f"e{place}"] = f"json_exists(j, '{text}')"
        columns[f"l{place}"] = f"json_array_length(j, '{text}')"
        columns[f"c{place}"] = f"json_array_contains(j, '{text}', '1')"
    ours = await (await alance.dataset(path)).to_table(columns)
    assert ours.to_pylist() == theirs.to_table(columns=columns).to_pylist()
