"""Names in another case and in backticks, items, members and JSON, beside pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.paths import join_path, split_path

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = [
    '{"a":1,"b":"x","c":[1,2,{"d":true}],"f":1.5,"n":null,"t":"12","y":"yes","k.d":7}',
    '{"a":2.5,"c":["1","x y"],"f":-2.5,"b":"q\\"\\u00e9\\n","t":"1e3","k.d":true}',
    '[5,6,{"a":9}]',
    "null",
    '"text"',
    None,
]
ROWS = len(DOCUMENTS)
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "Name": ["a", "b", "c", None, "e", "f"],
        "l": pa.array(
            [[{"x": 1, "y": "p"}], [{"x": 2, "y": "q"}, None], [], None, [{"x": 3, "y": None}], []],
            pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ),
        "s": pa.array(
            [{"A": n, "b c": -n, "n": [n, n + 1]} if n != 2 else None for n in range(ROWS)]
        ),
        "ts": pa.array([n * 10**6 if n != 3 else None for n in range(ROWS)], pa.timestamp("us")),
        "j": pa.array(DOCUMENTS, pa.json_()),
    }
)

FILTERS = [
    *["ID = 1", "name = 'a'", "NAME is null", "`Name` = 'b'", "S.A = 1", "s.`b c` = -4"],
    *['ts = TIMESTAMP "1970-01-01 00:00:01"', 'ts > date "1970-01-01"', "_ROWID < 2"],
    *["l[1]['x'] = 1", "l[1].x = 2", "l[-1]['y'] = 'p'", "l[2].x is null", "s.n[1] = 4"],
    *["s['n'][2] = 2", "get_field(s, 'A') = 1", "get_field(l[1], 'x') = 3"],
    *["struct(id, Name).c1 = 'b'", "struct(s.A)['c0'] = 4"],
    *["array_has(make_array(id, 3), 2)", "make_array(Name, 'q')[1] = 'b'"],
    *["named_struct('z', id)['z'] = 2", "array_element(l, 1)['x'] = 1"],
    *["arrow_cast(id, 'Int8') = 1", "id = arrow_cast('1', 'Int64')"],
    *["arrow_cast(ts, 'Date32') = date '1970-01-01'", "json_get_float(j, 'f') > 1"],
    *["json_exists(j, '$.a')", "json_get_string(j, 'b') = 'x'", "json_extract(j, '$.f') = '1.5'"],
    *["json_array_contains(j, '$.c', 2)", "json_array_contains(j, '$.c', '1')"],
    *["json_array_contains(j, '$.c', 'x y')", "json_array_length(j, '$.c') = 3"],
]
COMPUTED = [
    *["struct(id, Name)", "struct(s.A, 1, l)", "struct(id).c0"],
    *["l[1]", "l[1]['x']", "S.n[1]", "arrow_cast(id, 'Utf8')", "arrow_cast(id, 'Float32')"],
    *["arrow_cast(id, 'Decimal128(10, 2)')", "arrow_cast(id, 'Duration(Second)')"],
    *["arrow_cast(ts, 'Timestamp(Millisecond, None)')", "arrow_cast(s.n, 'LargeList(Int32)')"],
    *["arrow_cast(ts, 'Timestamp(Nanosecond, Some(\"UTC\"))')"],
    *[f"json_get_string(j, '{key}')" for key in ("a", "b", "n", "t", "k.d", "zz", "1")],
    *[f"json_get_int(j, '{key}')" for key in ("a", "f", "t", "n", "k.d", "0", "-1", "+1")],
    *[f"json_get_float(j, '{key}')" for key in ("a", "f", "t", "k.d", "1")],
    *["json_get_int(j, 0)", "json_get_int(json_get(j, 'c'), '0')", "json_get_bool(j, 'y')"],
    *["json_get_bool(json_get(json_get(j, 'c'), '2'), 'd')"],
    *[f"json_exists(j, '{path}')" for path in ("$", "$.n", "$.c[1]", "$.c[9]", "a", "$[2].a")],
    *[f"json_extract(j, '{path}')" for path in ("$", "", "a", "$.c", "$.c[1]", "$.c[last].d")],
    *[f"json_extract(j, '$[\"{key}\"]')" for key in ("k.d", "b", "no")],
    *["json_extract(j, '$.\"k.d\"')", "json_array_length(j, '$')", "json_array_length(j, 'c')"],
    *[f"json_array_contains(j, '$.c', {value})" for value in ("1", "'1'", "1.0", "'x'", "true")],
    *["make_array(id, 7)", "make_array(id, null, s.A)", "make_array(Name, 'z')"],
    *["make_array(s.A, 1.5)", "make_array(s.n, s.n)"],
    *["_rowoffset", "_rowid", "_rowaddr"],
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("names") / "t.lance")
    lance.write_dataset(TABLE, path, max_rows_per_file=4)
    return path


@pytest.mark.parametrize("text", FILTERS)
async def test_filters_choose_the_rows_that_pylance_chooses(uri: str, text: str) -> None:
    expected = lance.dataset(uri).to_table(["id"], filter=text)["id"].to_pylist()
    dataset = await alance.dataset(uri)
    assert (await dataset.to_table(["id"], filter=text))["id"].to_pylist() == expected


@pytest.mark.parametrize("text", COMPUTED)
async def test_columns_are_computed_as_pylance_computes_them(uri: str, text: str) -> None:
    expected = lance.dataset(uri).to_table({"o": text})["o"].combine_chunks()
    dataset = await alance.dataset(uri)
    assert (await dataset.to_table({"o": text}))["o"].combine_chunks() == expected


@pytest.mark.parametrize(
    "text",
    [
        *["json_get_int(j, 'b')", "json_get_string(j, 'c')", "json_get_bool(j, 'a')"],
        *["json_get_float(j, 'y')", "json_extract(j, '$[')", "json_extract(j, '$..a')"],
        *["arrow_cast(id, 'Foo')", "arrow_cast(id, 'Timestamp(Foo)')", "`ID`", "s.a", "l.x"],
        *["get_field(s, 'zz')", "json_extract(j, '$.o p')"],
    ],
)
async def test_what_pylance_refuses_is_refused_with_a_reason(uri: str, text: str) -> None:
    with pytest.raises((ValueError, OSError)):
        lance.dataset(uri).to_table({"o": text})
    dataset = await alance.dataset(uri)
    with pytest.raises((InvalidInputError, UnsupportedError), match=r"\w{3}"):
        await dataset.to_table({"o": text})


@pytest.mark.parametrize("path", ["$.c[0 to 1]", "$.c ? (@ > 1)"])
async def test_ranges_and_filters_in_paths_are_named_as_not_supported(uri: str, path: str) -> None:
    dataset = await alance.dataset(uri)
    with pytest.raises(UnsupportedError, match="path"):
        await dataset.to_table({"o": f"json_extract(j, '{path}')"})


async def test_a_name_in_two_cases_is_exact_or_refused(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"ab": [1], "AB": [2]}, str(tmp_path / "t"))
    assert await dataset.count_rows("ab = 1 AND AB = 2") == 1
    with pytest.raises(InvalidInputError, match="'ab' and 'AB'"):
        await dataset.count_rows("Ab = 1")


async def test_the_column_of_a_nested_name_may_stand_in_another_case(
    uri: str, tmp_path: Path
) -> None:
    theirs, dataset = lance.dataset(uri), await alance.dataset(uri)
    columns = ["S.A", "id", "S.`b c`", "s.A"]
    for options in ({}, {"filter": "id > 1", "limit": 2}):
        assert await dataset.to_table(columns, **options) == theirs.to_table(columns, **options)
    with pytest.raises(alance.ColumnNotFoundError):  # as with pylance, members may not
        await dataset.to_table(["S.a"])
    for name in ("S", "ID"):  # as in filters; pylance accepts that there alone
        assert (await dataset.to_table([name])).column_names == [name.lower()]
        with pytest.raises(ValueError, match="No field named"):
            theirs.to_table(columns=[name])
    twice = await alance.write_dataset([{"ab": {"x": 1}, "AB": {"x": 2}}], str(tmp_path / "t"))
    with pytest.raises(alance.ColumnNotFoundError):
        await twice.to_table(["Ab.x"])


async def test_positions_count_live_rows_in_scans_takes_and_filters(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(12)}), uri, max_rows_per_file=5).delete(
        "id IN (1, 4, 6)"
    )
    theirs, dataset = lance.dataset(uri), await alance.dataset(uri)
    columns = ["id", "_rowoffset"]
    assert await dataset.to_table(columns) == theirs.to_table(columns)
    assert await dataset.to_table(columns, filter="id > 3", limit=3) == theirs.to_table(
        columns, filter="id > 3", limit=3
    )
    taken = await dataset.take([8, 0, 5], columns)
    assert taken.to_pydict() == theirs.take([8, 0, 5], columns).to_pydict()
    assert (await dataset.to_table(["id"], filter="_rowoffset >= 7"))["id"].to_pylist() == [10, 11]
    part = dataset.fragments[1]
    assert (await part.to_table(["_rowoffset"]))["_rowoffset"].to_pylist() == [3, 4, 5, 6]


async def test_backticks_are_taken_wherever_a_path_is(tmp_path: Path) -> None:
    uri, theirs_uri = str(tmp_path / "ours"), str(tmp_path / "theirs")
    table = pa.table({"a b": [1, 2], "s": [{"c d": 3, "e": 4}, {"c d": 5, "e": 6}]})
    dataset = await alance.write_dataset(table, uri)
    theirs = lance.write_dataset(table, theirs_uri)
    columns = ["s.`c d`", "`s`.`e`"]
    assert await dataset.to_table(columns) == theirs.to_table(columns)
    assert await dataset.take([1], ["`s`.`c d`", "`a b`"]) == theirs.take(
        [1], ["`s`.`c d`", "`a b`"]
    )
    dataset = await dataset.create_scalar_index("`s`.`c d`", "BTREE")
    dataset = await dataset.create_scalar_index("`A b`".replace("`", ""), "BTREE")
    assert [index["name"] for index in dataset.list_indices()] == ["a b_idx", "s.c d_idx"]
    assert await dataset.count_rows("s.`c d` = 5") == 1
    dataset = await dataset.alter_columns({"path": "s.`c d`", "name": "cd"})
    dataset = await dataset.drop_columns(["`s`.`e`"])
    assert dataset.schema.field("s").type == pa.struct([("cd", pa.int64())])


@given(st.lists(st.text("ab.` é", max_size=4), min_size=1, max_size=4))
def test_paths_survive_being_joined_and_split(names: list[str]) -> None:
    assert list(split_path(join_path(names))) == names


@pytest.mark.parametrize("path", ["`a", "`a`b", "a.`b", "``a"])
def test_a_path_with_a_backtick_too_many_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError, match="backtick"):
        split_path(path)
