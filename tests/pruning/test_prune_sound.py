"""Checks against rows: what a condition is of some row of a zone, its check allows there."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alance.errors import AlanceError
from alance.expr import parse_filter
from alance.expr.prune import check_of
from alance.file.zones import FileStatistics as Read
from alance.format.encode import statistics
from alance.format.encode.arrays import leaf_values
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from alance.format.statistics import head_bytes, parse_head
from alance.ops.pruning import FragmentZones, Pruner
from alance.ops.pruning_known import OwnStatistics
from tests.pruning.pruning_cases import FILTERS, SCHEMA, tables

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


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    tables(), st.lists(st.integers(0, 30), max_size=3), st.lists(FILTERS, min_size=1, max_size=8)
)
def test_zones_allow_what_rows_are(table: pa.Table, cuts: list[int], filters: list[str]) -> None:
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
            may = check.may(grid)
            for zone in range(grid.num_zones):
                start, stop = grid.edges[zone : zone + 2].tolist()
                rows = answers.slice(start, stop - start).to_pylist()
                said = (text, zone, rows)
                assert may.true[zone] or True not in rows, said
                assert may.false[zone] or False not in rows, said
                assert may.null[zone] or None not in rows, said
