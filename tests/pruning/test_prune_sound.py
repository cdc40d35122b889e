"""Checks against rows: what a condition is of some row of a zone, its check allows there."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import AlanceError
from alance.expr import parse_filter
from alance.expr.pruning import MAX_CHECKS, check_of, num_checks
from alance.file.open.zones import FileStatistics as Read
from alance.file.open.zones import StoredZones
from alance.format.encode import statistics
from alance.format.encode.arrays import leaf_values
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from alance.format.statistics import head_bytes, parse_head
from alance.ops.read import pruning
from alance.ops.read.pruning import FragmentZones, Pruner, cut_zones, whole_zones
from tests.pruning.pruning_cases import FILTERS, SCHEMA, chains, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.file.open.zones import ColumnZones

FIELDS = Schema.from_arrow(SCHEMA)
LEAVES = [leaf for field in FIELDS.fields for leaf in leaf_columns(field)]
NUMBERS = {leaf.field.id: number for number, leaf in enumerate(LEAVES)}


def written(table: pa.Table, cuts: list[int]) -> bytes | None:
    """The statistics buffer of rows that are added in pieces."""
    builder = statistics.NewStatistics(LEAVES)
    batch = table.combine_chunks().to_batches()[0]
    bounds = sorted({0, batch.num_rows, *(cut % batch.num_rows for cut in cuts)})
    for start, stop in pairwise(bounds):
        for field, array in zip(
            FIELDS.fields, batch.slice(start, stop - start).columns, strict=True
        ):
            for key, values in leaf_values(field, array).items():
                builder.add(NUMBERS[key], values)
    content = builder.finish()
    return None if content is None else content.tobytes()


def read(content: bytes) -> Read:
    view = memoryview(content)
    size = head_bytes("x", view)
    assert size is not None
    head = parse_head("x", view[:size], len(view))
    result = Read("x", head)
    for column in head.rows:
        at, num_bytes = head.block(column)
        result.blocks[column] = content[at : at + num_bytes]
    return result


@pytest.fixture(autouse=True)
def small_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "WRITTEN_ZONE_ROWS", 4)


CUTS = st.lists(st.integers(0, 30), max_size=3)


@settings(max_examples=40)
@given(tables(), CUTS, CUTS, st.lists(FILTERS, min_size=1, max_size=8))
def test_zones_allow_what_rows_are(
    table: pa.Table, cuts: list[int], fragments: list[int], filters: list[str]
) -> None:
    check_soundness(table, cuts, filters, fragments)


def check_soundness(
    table: pa.Table, cuts: list[int], filters: list[str], fragments: Sequence[int] = ()
) -> None:
    """Check what zones allow against what rows are, for some filters.

    Args:
        cuts: pieces in which rows are added to a file.
        fragments: where a file ends and the next one begins; nothing is known of the third.
    """
    bounds = sorted({0, table.num_rows, *(cut % table.num_rows for cut in fragments)})
    files = []
    for start, stop in pairwise(bounds):
        content = written(table.slice(start, stop - start), cuts)
        assert content is not None
        files.append(read(content) if len(files) != 2 else None)
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
        all_zones = [
            fragment_zones(file, pruner, stop - start)
            for file, (start, stop) in zip(files, pairwise(bounds), strict=True)
        ]
        edges = [zones.edges[:-1] + start for zones, start in zip(all_zones, bounds, strict=False)]
        for grid, firsts in (
            (whole_zones(all_zones, pruner.columns), bounds[:-1]),
            (cut_zones(all_zones, pruner.columns), np.concatenate(edges).tolist()),
        ):
            may = check.may(grid)
            assert grid.num_zones == len(firsts)
            for zone, (start, stop) in enumerate(pairwise([*firsts, table.num_rows])):
                rows = answers.slice(start, stop - start).to_pylist()
                message = (text, zone, rows)
                assert may.true[zone] or True not in rows, message
                assert may.false[zone] or False not in rows, message
                assert may.null[zone] or None not in rows, message
        spans = [[(0, stop - start)] for start, stop in pairwise(bounds)]
        retained = np.zeros(table.num_rows, np.bool_)
        for start, result in zip(bounds, pruner.spans(all_zones, spans), strict=False):
            for first, last in result:
                retained[start + first : start + last] = True
        matching = np.array([answer is True for answer in answers.to_pylist()])
        assert not (matching & ~retained).any(), text


def fragment_zones(file: Read | None, pruner: Pruner, num_rows: int) -> FragmentZones:
    """Return the zones of a file for the columns of a filter."""
    columns: dict[tuple[str, ...], ColumnZones] = {}
    if file is not None:
        assert file.head is not None
        columns = {
            column.path: StoredZones(file, file.head, NUMBERS[key])
            for column, key in pruner.columns.items()
            if key in NUMBERS and NUMBERS[key] in file.blocks
        }
    return FragmentZones.of(columns) if columns else FragmentZones(np.array([0, num_rows]), {})


@settings(max_examples=30)
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
    mask = parse_filter(f" {joint} ".join(terms), SCHEMA).mask(batch)
    assert mask.to_pylist() == expected.to_pylist(), terms
    turned = parse_filter(f"not ({f' {joint} '.join(terms)})", SCHEMA).mask(batch)
    assert turned.to_pylist() == pc.invert(expected).to_pylist(), terms


@settings(max_examples=40)
@given(tables(), CUTS, CUTS, chains())
def test_zones_allow_what_rows_are_of_many_terms(
    table: pa.Table, cuts: list[int], fragments: list[int], chain: tuple[str, list[str]]
) -> None:
    joint, terms = chain
    text = f" {joint} ".join(terms)
    check_soundness(table, cuts, [text, f"not ({text})", f"({text}) is null"], fragments)


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
    check = check_of(parse_filter(text, SCHEMA).condition)
    assert check is not None
    assert num_checks(check) == size


@given(tables())
@settings(max_examples=3)
def test_a_condition_of_too_many_checks_is_left_to_the_rows(table: pa.Table) -> None:
    text = " or ".join(f"(i = {n} and s = '{n}')" for n in range(MAX_CHECKS))
    assert check_of(parse_filter(text, SCHEMA).condition) is None
    check_soundness(table, [3], [text, f"i = 1 and ({text})", f"({text}) and i = 1"])
    alone = check_of(parse_filter("i = 1", SCHEMA).condition)
    narrowed = check_of(parse_filter(f"({text}) and i = 1", SCHEMA).condition)
    assert alone is not None
    assert narrowed is not None
    content = written(table, [])
    assert content is not None
    pruner = Pruner.of(alone, FIELDS)
    grid = cut_zones([fragment_zones(read(content), pruner, table.num_rows)], pruner.columns)
    assert narrowed.may(grid).true.tolist() == alone.may(grid).true.tolist()


@settings(max_examples=20)
@given(tables(), CUTS, st.lists(FILTERS, min_size=1, max_size=4), st.integers(1, 9))
def test_zones_are_asked_in_groups_of_any_size(
    table: pa.Table, fragments: list[int], filters: list[str], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "ZONES_AT_ONCE", at_once)
        check_soundness(table, [], filters, fragments)
