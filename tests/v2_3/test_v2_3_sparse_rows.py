"""Rows of sparse pages of random structure and encodings, read in every way by the kernel."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pytest

from alance.format.plans import TURN
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3
from tests.reference.encodings import flat
from tests.v2_3.page_file import PageFile
from tests.v2_3.sparse_pages import VALUES, sparse_page

if TYPE_CHECKING:
    from alance.file.rows.fragment import FragmentTask
    from alance.format.plans import Plan

CHAINS: Final = ("", "s", "l", "sls", "lsl", "ll")


def check(file: PageFile, rows: list[object], rng: np.random.Generator) -> None:
    """All rows, ranges, and single rows; of pages that are known or not, or are guessed."""
    count = len(rows)
    assert file.whole() == rows
    assert file.read(0, count) == rows
    for is_known in (False, True):
        start = int(rng.integers(count))
        stop = int(rng.integers(start, count)) + 1
        assert file.read(start, stop, is_known=is_known) == rows[start:stop]
        few = sorted({*rng.integers(0, count, 7).tolist()})
        assert file.take(few, is_known=is_known) == [rows[row] for row in few]
    most = np.flatnonzero(rng.random(count) < 0.8).tolist()
    assert file.take(most) == [rows[row] for row in most]
    for taken in (most, few):
        assert file.taken(taken, guess=True) == [rows[row] for row in taken]


@pytest.mark.parametrize(("chain", "values"), [*product(CHAINS, VALUES)])
def test_rows_of_a_sparse_page_are_read_in_every_way(chain: str, values: str) -> None:
    rng = np.random.default_rng([len(chain), *values.encode()])
    count = 30 if values == "large items" else 300
    for nulls in (0.0, 0.3, 0.9):
        own = sparse_page(rng, chain, values, count, nulls)
        field = pa.field("x", own.arrow)
        check(PageFile(field, [(own.description, own.buffers, count)]), own.rows, rng)


@pytest.mark.parametrize("chain", CHAINS)
def test_pages_of_other_layouts_stand_beside_each_other(chain: str) -> None:
    """Of one column, sparse ones with other values."""
    rng = np.random.default_rng(5)
    names = ("numbers", "zipped words", "none", "runs", "constant")
    several = [sparse_page(rng, chain, name, 90, 0.3) for name in names]
    file = PageFile(
        pa.field("x", several[0].arrow), [(own.description, own.buffers, 90) for own in several]
    )
    check(file, [row for own in several for row in own.rows], rng)


@pytest.mark.parametrize("chain", ["", "l"])
def test_items_in_memory_stand_beside_items_that_are_read(chain: str) -> None:
    rng = np.random.default_rng(9)
    names = ("indexed", "large items", "indexed", "large items")
    several = [sparse_page(rng, chain, name, 40, 0.2) for name in names]
    file = PageFile(
        pa.field("x", several[0].arrow), [(own.description, own.buffers, 40) for own in several]
    )
    rows = [row for own in several for row in own.rows]
    for few in ([1, 41], [5, 6, 44, 81, 130], [row for row in range(160) if row % 17 == 3]):
        for is_known in (False, True):
            assert file.take(few, is_known=is_known) == [rows[row] for row in few]
    check(file, rows, rng)


def test_dense_pages_stand_beside_sparse_ones() -> None:
    rng = np.random.default_rng(6)
    sparse = sparse_page(rng, "", "numbers", 20, 0.3)
    values = pb3.ChunkedValues(
        compression=flat(32), levels=pb3.DenseChunkLevels(), num_buffers=1, num_items=3
    )
    dense = pb3.PlanarLayout(
        structure=pb3.StructuralPlane(dense=pb3.DenseStructure(layers=[pb.REPDEF_ALL_VALID_ITEM])),
        values=pb3.ValuePlane(chunked=values),
    )
    words, chunk = "20000000", "00000c000000fefe010000000200000003000000fefefefe"
    pages = [
        (sparse.description, sparse.buffers, 20),
        (dense, [bytes.fromhex(words), bytes.fromhex(chunk)], 3),
        (sparse.description, sparse.buffers, 20),
    ]
    rows = [*sparse.rows, 1, 2, 3, *sparse.rows]
    check(PageFile(pa.field("x", pa.int32()), pages), rows, rng)


def test_large_items_are_read_one_by_one_unless_many_rows_need_them() -> None:
    rng = np.random.default_rng(7)
    own = sparse_page(rng, "", "large items", 300, 0.3)
    file = PageFile(pa.field("x", own.arrow), [(own.description, own.buffers, 300)])
    row = next(row for row, value in enumerate(own.rows) if value is not None)
    null = own.rows.index(None)
    file.take([null])
    fragment = file.opened(is_known=True)
    for rows, num_items in (([null], 0), ([row], 1), ([*range(300)], 9)):
        file.rows(file.run(fragment.take(np.array(rows, np.int64), file.states, guess=False)))
        assert 0 <= file.num_read - 120_004 * num_items < 5_000
    file.rows(file.run(fragment.read(0, 300, file.states)))
    assert file.num_read == 0


def test_values_of_single_rows_are_read_alone() -> None:
    rng = np.random.default_rng(8)
    own = sparse_page(rng, "l", "zipped texts", 5_000, 0.3)
    file = PageFile(pa.field("x", own.arrow), [(own.description, own.buffers, 5_000)])
    file.take([0])
    sizes = [sum(4 + len(item) for item in row or [] if item is not None) for row in own.rows]
    for row in (7, 1_234, 4_999):
        assert file.take([row], is_known=True) == [own.rows[row]]
        assert file.num_read == sizes[row]


def test_descriptions_of_many_pages_are_parsed_in_turns() -> None:
    rng = np.random.default_rng(3)
    several = [sparse_page(rng, "", "numbers", 2 + number, 0.3) for number in range(300)]
    pages = [(own.description, own.buffers, len(own.rows)) for own in several]
    file = PageFile(pa.field("x", pa.int32()), pages)
    fragment = file.opened(is_known=False)
    turns: list[bool] = []

    def noted(plan: Plan[FragmentTask]) -> Plan[FragmentTask]:
        request = next(plan)
        while True:
            turns.append(request is TURN)
            try:
                request = plan.send((yield request))
            except StopIteration as done:
                return done.value

    task = file.run(noted(fragment.read(0, file.num_rows, file.states)))
    assert file.rows(task) == [row for own in several for row in own.rows]
    assert turns[:2] == [True, True]
