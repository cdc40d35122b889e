"""Functions that change, join and compare lists give what pylance gives, on any rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alance
from alance.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

SMALL: Final = st.one_of(st.none(), st.integers(-2, 4))
# No -0.0, nor a NaN with a sign, which pylance takes for other items.
REALS: Final = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1.5, float("nan"), float("inf")]))
TEXTS: Final = st.one_of(st.none(), st.sampled_from(["", "a", "b", "é日"]))


def lists_of(items: st.SearchStrategy[Any], most: int = 6) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.lists(items, max_size=most))


WHOLES: Final = pa.list_(pa.int64())
COLUMNS: Final[dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "i": (pa.int64(), SMALL),
    "k": (pa.int32(), SMALL),
    "size": (pa.int64(), st.one_of(st.none(), st.integers(0, 8))),
    "f": (pa.float64(), REALS),
    "s": (pa.string(), TEXTS),
    "l": (WHOLES, lists_of(SMALL)),
    "m": (WHOLES, lists_of(SMALL)),
    "lf": (pa.list_(pa.float64()), lists_of(REALS)),
    "lt": (pa.list_(pa.string()), lists_of(TEXTS)),
    "n": (pa.list_(WHOLES), lists_of(lists_of(SMALL, 2), 3)),
    "d": (pa.list_(pa.list_(WHOLES)), lists_of(lists_of(lists_of(SMALL, 2), 2), 2)),
    "v": (pa.list_(pa.float32(), 3), st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3)),
}
ROWS: Final = st.lists(
    st.fixed_dictionaries({name: values for name, (_, values) in COLUMNS.items()}),
    min_size=1,
    max_size=9,
)
EXPRESSIONS: Final = [
    *["array_remove(l, 1)", "array_remove(l, i)", "list_remove(lt, s)", "array_remove(lf, f)"],
    *["array_remove(l, 1.5)", "array_remove(l, NULL)", "array_remove(v, 1.0)"],
    *["array_remove_n(l, 2, 2)", "array_remove_n(l, i, k)", "array_remove_n(l, 2, NULL)"],
    *["array_remove_all(l, 2)", "list_remove_all(lt, s)", "array_remove_all(lf, f)"],
    *["array_replace(l, 1, 9)", "array_replace(l, i, k)", "array_replace(l, NULL, 9)"],
    *["array_replace(l, 1, NULL)", "array_replace(l, 1, 9.5)", "array_replace(lf, f, 2.5)"],
    *["array_replace_n(l, 2, i, k)", "array_replace_n(l, 2, 9, NULL)"],
    *["array_replace_all(lt, s, 'x')", "list_replace_all(lf, 0.0, f)"],
    *["array_positions(l, 1)", "array_positions(l, i)", "array_positions(lt, s)"],
    *["array_positions(lf, f)", "array_positions(l, NULL)", "list_positions(l, 1.5)"],
    *[f"array_{what}(l, m)" for what in ("union", "intersect", "except")],
    *[f"array_{what}(m, l)" for what in ("union", "intersect", "except")],
    *[f"list_{what}(lt, ['a', 'c', 'a'])" for what in ("union", "intersect", "except")],
    *[f"array_{what}(l, lf)" for what in ("union", "intersect", "except")],
    *["array_union([7, 1], l)", "array_intersect([7, 1, 0, 2], l)", "array_except([7, 1, 7], l)"],
    *["array_union(l, NULL)", "array_union(l, [])", "array_except(v, v)"],
    *[f"array_slice(l, {first}, {last})" for first in (-9, -2, 0, 1, 3) for last in (-2, 0, 2, 9)],
    *["array_slice(l, i, k)", "array_slice(lt, k, 3)", "array_slice(n, 1, 1)"],
    *["array_slice(l, 1, 6, 2)", "array_slice(l, -1, 1, -2)", "list_slice(l, NULL, 2)"],
    *["array_slice(l, 1, 6, NULL)", "array_slice(l, i, k, -1)", "array_slice(v, 2, 3)"],
    *["array_repeat(i, 2)", "array_repeat(s, k)", "array_repeat(l, i)", "array_repeat('a', k)"],
    *["array_repeat(i, -1)", "list_repeat(f, NULL)"],
    *["array_resize(l, 3)", "array_resize(l, size)", "array_resize(l, size, i)"],
    *["array_resize(l, 4, 1.5)", "list_resize(n, 2)", "array_resize(l, NULL)"],
    *[
        "inner_product(v, [0.5, 0.1, 2.0])",
        "cosine_distance([0.5, 0.1, 2], v)",
        "dot_product(l, l)",
    ],
    *["inner_product(lf, lf)", "cosine_distance(lf, lf)", "cosine_distance(l, array_reverse(l))"],
    *["array_distance(v, [0.5, 0.1, 2.0])", "cosine_distance(l, NULL)"],
    *["array_dims(l)", "array_dims(v)", "array_normalize(v)", "list_normalize(lf)"],
    *["array_normalize(l)", "array_any_value(array_append(l, 7))", "array_any_value(v)"],
    *["array_compact(l)", "array_compact(lt)", "array_distinct(n)"],
    *["array_remove(n, [1])"],
    *["array_positions(n, [1])", "array_union(n, [[1], [2, 2]])", "array_union(d, d)"],
    *[f"array_{what}(n, n)" for what in ("union", "intersect", "except")],
    *["array_except(l, [])", "array_intersect(m, array_reverse(l))", "array_distinct(lf)"],
    *["generate_series(i, size)", "range(size)", "range(size, i, -2)", "generate_series(-1, k, 2)"],
    *["array_position(array_repeat(2, 2), i)", "array_position(range(3), k)"],
    *["array_has(range(3), i)", "array_has(string_to_array('a,b', ','), s)"],
    *["flatten(n)", "flatten(d)", "flatten(l)", "array_ndims(l)", "list_ndims(d)"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lists")


@given(rows=ROWS)
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
async def test_columns_are_those_of_pylance(folder: Path, rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])
    table = pa.Table.from_pylist(rows, schema)
    theirs = lance.write_dataset(table, folder / "any", mode="overwrite", max_rows_per_file=5)
    mapping = {f"c{number}": text for number, text in enumerate(EXPRESSIONS)}
    ours = await (await alance.dataset(folder / "any")).to_table(mapping)
    expected = theirs.to_table(mapping)
    for name, text in mapping.items():
        assert ours.schema.field(name).type == expected.schema.field(name).type, text
        assert repr(ours[name].to_pylist()) == repr(expected[name].to_pylist()), text


@pytest.mark.parametrize("name", ["generate_series", "range"])
async def test_series_may_span_all_integers(folder: Path, name: str) -> None:
    most = (1 << 63) - 1
    rows = [
        (-most - 1, most, 1 << 62),
        (most, -most - 1, -(1 << 62)),
        (most, -most - 1, -most - 1),
        (-1, most, 1 << 61),
        (-most - 1, -most - 1, 1),
        (most, most, -1),
        (10**18, 0, 1),  # far apart in the other direction
        (5, 4, -1),
        (1, 10, 3),
        (None, 1, 1),
    ]
    first, last, step = zip(*rows, strict=True)
    table = pa.table({"a": pa.array(first, pa.int64()), "b": last, "c": step})
    theirs = lance.write_dataset(table, folder / name, mode="overwrite")
    request = {"x": f"{name}(a, b, c)"}
    series = (await (await alance.dataset(folder / name)).to_table(request))["x"].to_pylist()
    assert series == theirs.to_table(request)["x"].to_pylist()
    for items, (a, b, c) in zip(series, rows, strict=True):
        behind = (1 if c > 0 else -1) if name == "generate_series" else 0
        assert items == (None if a is None else list(range(a, b + behind, c)))


@pytest.fixture(scope="module")
def items(folder: Path) -> str:
    lists = pa.array([[1, 2, 1], [], None, [None, 3]], WHOLES)
    table = pa.table({"id": [0, 1, 2, 3], "i": [5, -1, None, 2], "l": lists, "o": [[[1]]] * 4})
    table = table.append_column("null_items", pa.array([[None]] * 4, pa.list_(pa.null())))
    return str(lance.write_dataset(table, folder / "items").uri)


@pytest.mark.parametrize(
    "text",
    [
        "array_length(array_remove_all(l, 1)) = 1",
        "array_has(array_slice(l, -2, -1), 3)",
        "array_length(array_positions(l, 1)) = 2",
        "array_length(array_union(l, [7])) = 1",
        "array_length(array_repeat(id, id)) > 1",
        "l IS NOT NULL AND array_has_all(l, l) AND arrays_overlap(l, array_distinct(l))",
    ],
)
async def test_filters_keep_the_rows_of_pylance(items: str, text: str) -> None:
    expected = lance.dataset(items).to_table(["id"], filter=text)
    assert expected.num_rows > 0
    assert await (await alance.dataset(items)).to_table(["id"], filter=text) == expected


async def test_nothing_is_among_the_items_of_a_null_list(folder: Path) -> None:
    """Also where no second list has an item, for which pylance takes a null as an empty list."""
    lists = pa.array([[1], [], None], WHOLES)
    lance.write_dataset(pa.table({"l": lists}), folder / "none")
    texts = {
        "any": "array_has_any(l, array_except(l, l))",
        "all": "array_has_all(l, array_except(l, l))",
    }
    answers = await (await alance.dataset(folder / "none")).to_table(texts)
    assert answers.to_pydict() == {"any": [False, False, None], "all": [True, True, None]}


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("array_remove(l, 'x')", InvalidInputError, "string among int64"),
        ("array_remove(id, 1)", InvalidInputError, "expected a column of lists"),
        ("array_remove(o, 1)", InvalidInputError, "int64 among list"),
        ("array_remove(null_items, 1)", UnsupportedError, "lists of null"),
        ("range(1, 2, 0)", InvalidInputError, "a step of 0"),
        ("generate_series(0, 9223372036854775807)", InvalidInputError, "too many items"),
        ("range(1.5)", UnsupportedError, "not integers"),
        ("array_normalize(o)", InvalidInputError, "lists of list"),
        ("array_union(l, ['x'])", InvalidInputError, "lists of int64 and of string"),
        ("array_union([1], [2])", UnsupportedError, "two list literals"),
        ("cosine_distance(l, [1, 2])", InvalidInputError, "different lengths"),
        ("inner_product(l, ['x'])", InvalidInputError, "lists of string"),
        ("array_slice(l, 1.5, 2)", InvalidInputError, "expected an integer"),
        ("array_slice(l, 1, 2, 0)", InvalidInputError, "a step of 0"),
        ("array_resize(l, i)", InvalidInputError, "a negative number of items"),
        ("array_resize(l, 4000000000)", InvalidInputError, "expected at most"),
        ("array_repeat(l, 4000000000)", InvalidInputError, "expected at most"),
        ("array_repeat(id, 70000000)", InvalidInputError, "expected at most"),
        ("array_resize(l, 70000000, 0)", InvalidInputError, "expected at most"),
        ("array_repeat(array_repeat(1, 1000000), 1000)", InvalidInputError, "expected at most"),
    ],
)
async def test_what_they_do_not_take_is_said(
    items: str, text: str, kind: type[Exception], message: str
) -> None:
    dataset = await alance.dataset(items)
    with pytest.raises(kind, match=message):
        await dataset.to_table({"x": text})
