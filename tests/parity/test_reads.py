"""Every read gives what pylance's gives: at first and again, wherever the table lies, traced or
not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.parity.combinations import ALL, Case, covering, traced
from tests.parity.reads import Scan, Take, drawn_reads
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.parity.conftest import Tables

# Which rows the calls ask for, one after the other: what is learned of some is used for others.
CALLS = {Take: (0, 0, 0, 1), Scan: (0, 0)}
CHOSEN = covering(ALL)


class Answers:
    """Answers of pylance, each requested once."""

    def __init__(self, tables: Tables, case: Case) -> None:
        self.table = tables.theirs(tables.path(case.version, case.size, case.history))
        self._answers: dict[tuple[str, int], tuple[list[int], pa.Table]] = {}

    def of(self, read: Take | Scan, seed: int) -> tuple[list[int], pa.Table]:
        """The rows to ask for, and the answer."""
        key = (str(read), seed)
        if key not in self._answers:
            places = read.places(self.table, seed)
            self._answers[key] = places, read.theirs(self.table, places)
        return self._answers[key]


async def check(tables: Tables, case: Case, count: int) -> None:
    path = tables.path(case.version, case.size, case.history)
    answers = Answers(tables, case)
    reads = drawn_reads(case.version, case.history, str(case), count)
    for read in reads:
        async with tables.ours(path, case.place) as dataset:
            for call, seed in enumerate(CALLS[type(read)]):
                places, answer = answers.of(read, seed)
                with traced(case.traced, call):
                    result = await read.ours(dataset, places)
                try:
                    assert_equal_rows(result, answer)
                except AssertionError as error:
                    error.add_note(f"call {call + 1} of {read}")
                    raise
    async with tables.ours(path, case.place) as dataset:
        with traced(case.traced, 1):
            results = await asyncio.gather(
                *(read.ours(dataset, answers.of(read, 0)[0]) for read in reads)
            )
        for read, result in zip(reads, results, strict=True):
            assert_equal_rows(result, answers.of(read, 0)[1])


@pytest.mark.parametrize("case", CHOSEN, ids=str)
async def test_reads_give_what_pylance_gives(tables: Tables, case: Case) -> None:
    await check(tables, case, count=4)


@pytest.mark.soak
@pytest.mark.parametrize("case", ALL, ids=str)
async def test_all_combinations_give_what_pylance_gives(tables: Tables, case: Case) -> None:
    await check(tables, case, count=28)
