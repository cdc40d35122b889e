"""Checks against rows: what a condition is of some row of a zone, its check allows there."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import AlanceError
from alance.expr import parse_filter
from alance.expr.prune import MAX_CHECKS, Asked, check_of
from alance.file.zones import FileStatistics as Read
from alance.format.encode import statistics
from alance.format.encode.arrays import leaf_values
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from alance.format.statistics import head_bytes, parse_head
from alance.ops.read.pruning import FragmentZones, Pruner
from alance.ops.read.pruning_known import OwnStatistics
from tests.pruning.pruning_cases import FILTERS, SCHEMA, chains, tables

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = Schema.from_arrow(SCHEMA)
LEAVES = [leaf for field in FIELDS.fields for leaf in leaf_columns(field)]
NUMBERS = {leaf.field.id: number for number, leaf in enumerate(LEAVES)}


def written(table: pa.Table, cuts: list[int]) -> bytes | None:
    """The statistics buffer of rows that are added in pieces."""
    made = statistics.FileStatistics(LEAVES)
    batch = table.combine_chunks().to_batches()[0]
    bounds = sorted({0, batch.num_rows, *(cut % batch.num_rows for cut in cuts)})
    for start, stop in pairwise(bounds):
        for field, array in zip(
            FIELDS.fields, batch.slice(start, stop - start).columns, strict=True
        ):
            for key, values in leaf_values(field, array).items():
                made.add(NUMBERS[key], values)
    content = made.finish()
    return None if content is None else content.tobytes()


def read(content: bytes) -> Read:
    view = memoryview(content)
    size = head_bytes("x", view)
    assert size is not None
    head = parse_head("x", view[:size], len(view))
    found = Read("x", head)
    for column in head.rows:
        at, num_bytes = head.block(column)
        found.blocks[column] = content[at : at + num_bytes]
    return found


@pytest.fixture(autouse=True)
def small_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "ZONE_ROWS", 4)


@settings(max_examples=80)
@given(
    tables(), st.lists(st.integers(0, 30), max_size=3), st.lists(FILTERS, min_size=1, max_size=8)
)
def test_zones_allow_what_rows_are(table: pa.Table, cuts: list[int], filters: list[str]) -> None:
    check_soundness(table, cuts, filters)


def check_soundness(table: pa.Table, cuts: list[int], filters: list[str]) -> None:
    """Check what zones allow against what rows are, for some filters."""
    content = written(table, cuts)
    assert content is not None
    known = read(content)
    batch = table.combine_chunks().to_batches()[0]
    for text in filters:
        try:
            predicate = parse_filter(text, SCHEMA)
            answers = predicate.mask(batch)
        except AlanceError:
            continue
        check = check_of(predicate.condition)
        if check is None:
            continue
        pruner = Pruner.of(check, FIELDS)
        columns = {
            path: OwnStatistics.of(known, NUMBERS[key])
            for path, key in pruner.field_ids.items()
            if key in NUMBERS
        }
        columns = {path: one for path, one in columns.items() if one is not None}
        if not columns:
            continue
        zones = FragmentZones.of(columns)
        for grid in (zones, zones.whole()):
            may = check.may(Asked(grid))
            for zone in range(grid.num_zones):
                start, stop = grid.edges[zone : zone + 2].tolist()
                rows = answers.slice(start, stop - start).to_pylist()
                said = (text, zone, rows)
                assert may.true[zone] or True not in rows, said
                assert may.false[zone] or False not in rows, said
                assert may.null[zone] or None not in rows, said


@settings(max_examples=60)
@given(tables(), chains())
def test_many_terms_are_what_each_of_them_is_together(
    table: pa.Table, chain: tuple[str, list[str]]
) -> None:
    joint, terms = chain
    batch = table.combine_chunks().to_batches()[0]
    kernel = pc.and_kleene if joint == "and" else pc.or_kleene
    try:
        each = [parse_filter(term, SCHEMA).mask(batch) for term in terms]
    except AlanceError:
        return
    expected = reduce(kernel, each)
    found = parse_filter(f" {joint} ".join(terms), SCHEMA).mask(batch)
    assert found.to_pylist() == expected.to_pylist(), terms
    turned = parse_filter(f"not ({f' {joint} '.join(terms)})", SCHEMA).mask(batch)
    assert turned.to_pylist() == pc.invert(expected).to_pylist(), terms


@settings(max_examples=80)
@given(tables(), st.lists(st.integers(0, 30), max_size=3), chains())
def test_zones_allow_what_rows_are_of_many_terms(
    table: pa.Table, cuts: list[int], chain: tuple[str, list[str]]
) -> None:
    joint, terms = chain
    text = f" {joint} ".join(terms)
    check_soundness(table, cuts, [text, f"not ({text})", f"({text}) is null"])


def check_size(check: object) -> int:
    """How many checks of columns there are in one."""
    parts = getattr(check, "parts", None)
    if parts is not None:
        return sum(map(check_size, parts))
    inside = getattr(check, "of", None)
    return 1 if inside is None else check_size(inside)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (" or ".join(f"i = {n}" for n in range(500)), 1),
        (" or ".join(f"i between {3 * n} and {3 * n + 1}" for n in range(500)), 1),
        (" and ".join(f"not (s = '{n}' or s > 'b{n}')" for n in range(500)), 1),
        ("i not in (" + ", ".join(map(str, range(500))) + ")", 1),
        (" or ".join(f"f > {n}.5 and f < {n + 1}" for n in range(500)), 1),
        (" or ".join(f"(i = {n} and s = '{n}')" for n in range(50)), 100),
        (" or ".join(f"(i < {n} or s < '{n}') and u != {n}" for n in range(50)), 150),
    ],
)
def test_terms_on_one_column_are_one_check(text: str, size: int) -> None:
    assert check_size(check_of(parse_filter(text, SCHEMA).condition)) == size


@given(tables())
@settings(max_examples=10)
def test_a_condition_of_too_many_checks_is_left_to_the_rows(table: pa.Table) -> None:
    text = " or ".join(f"(i = {n} and s = '{n}')" for n in range(MAX_CHECKS))
    assert check_of(parse_filter(text, SCHEMA).condition) is not None
    check_soundness(table, [3], [text, f"i = 1 and ({text})", f"({text}) and i = 1"])
    narrowed = check_of(parse_filter(f"i = 1 and ({text})", SCHEMA).condition)
    assert narrowed is not None
    content = written(table, [])
    assert content is not None
    known = OwnStatistics.of(read(content), NUMBERS[FIELDS.fields[0].id])
    if known is not None:
        zones = Asked(FragmentZones.of({("i",): known}))
        alone = check_of(parse_filter("i = 1", SCHEMA).condition)
        assert alone is not None
        assert narrowed.may(zones).true.tolist() == alone.may(zones).true.tolist()
