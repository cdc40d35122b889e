"""Every way to read gives the rows that were written: tables of each file version and of columns of
each kind, by either writer, with a history, wherever they lie, traced or not, cold or warm.
"""

from __future__ import annotations

import random
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from tests.parity.columns import KINDS
from tests.parity.combinations import PLACES, TRACES, traced
from tests.parity.pairs import all_cases, pairs_of, pairwise
from tests.parity.stored import HISTORIES
from tests.parity.tables import VERSIONS
from tests.parity.ways import WAYS, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.parity.conftest import Tables

pytestmark = pytest.mark.filterwarnings("ignore:file version 2.3 is unstable")

DIMENSIONS: Final = {
    "version": VERSIONS,
    "kind": KINDS,
    "shape": ("small", "large", "many"),
    "history": HISTORIES,
    "writer": ("alance", "pylance"),
    "place": PLACES,
    "traced": TRACES,
    # a session that knows nothing; one that was asked the same of others rows; one for all ways
    "session": ("cold", "warm", "shared"),
}
REFUSED: Final = frozenset(
    frozenset(pair)
    for pair in (
        (("version", "0.1"), ("kind", "special")),  # has neither blobs nor packed structs
        (("version", "0.1"), ("kind", "no members")),  # cannot be read by either
        (("writer", "pylance"), ("kind", "no members")),  # does not write them in lists
    )
)
CHOSEN: Final = pairwise(DIMENSIONS, REFUSED)


async def check(tables: Tables, case: Mapping[str, str], ways: Sequence[str]) -> None:
    model = await tables.stored(case)
    rng = random.Random(str(case))
    names = rng.sample(ways, len(ways))
    calls = {"cold": 1, "warm": 2, "shared": 1}[case["session"]]
    sessions = [names] if case["session"] == "shared" else [[name] for name in names]
    for several in sessions:
        async with tables.ours(model.path, case["place"]) as dataset:
            open_file = partial(tables.file, model.path, case["place"], session=dataset.session)
            for name in several:
                for call in range(calls):
                    reading = Reading(dataset, model, rng, open_file)
                    try:
                        with traced(case["traced"], names.index(name) + call):
                            await WAYS[name](reading)
                    except BaseException as error:
                        error.add_note(f"call {call + 1} of {name!r} of {case}")
                        raise


def label(case: Mapping[str, str]) -> str:
    return ", ".join(case.values())


def ways_of_tables() -> list[list[str]]:
    """Ways by which each chosen table is read: few, but each way reads tables with each value."""
    ways: list[list[str]] = [[] for _ in CHOSEN]
    for turn, way in enumerate(WAYS):
        unread = {pair for case in CHOSEN for pair in case.items()}
        order = [(turn + number) % len(CHOSEN) for number in range(len(CHOSEN))]
        while unread:
            added = [len(unread & CHOSEN[number].items()) for number in order]
            number = order[added.index(max(added))]
            ways[number].append(way)
            unread -= CHOSEN[number].items()
    return ways


WAYS_OF: Final = ways_of_tables()


@pytest.mark.parametrize("number", range(len(CHOSEN)), ids=lambda number: label(CHOSEN[number]))
async def test_all_ways_give_the_rows(tables: Tables, number: int) -> None:
    await check(tables, CHOSEN[number], WAYS_OF[number])


# Of pages that are read in parts: what the chunks, rows and levels of a page are found by.
LONG_WAYS: Final = [
    *("part", "filter", "filter then columns", "limit of filter", "order", "rows of keys"),
    *("file", "fragment", "rows with their ids"),
    *(name for name in WAYS if name.startswith("take") and not name.endswith(": all")),
]
LONG: Final = [
    {
        "version": version,
        "kind": "long",
        "shape": "long",
        "history": HISTORIES[number % len(HISTORIES)],
        "writer": writer,
        "place": PLACES[number % len(PLACES)],
        "traced": "every other call",
        "session": "shared",
    }
    for number, (version, writer) in enumerate(product(VERSIONS, DIMENSIONS["writer"]))
]


@pytest.mark.parametrize("number", range(len(LONG)), ids=lambda number: label(LONG[number]))
async def test_rows_of_large_pages(tables: Tables, number: int) -> None:
    await check(tables, LONG[number], LONG_WAYS[number % 5 :: 5])


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(LONG)), ids=lambda number: label(LONG[number]))
async def test_all_ways_give_the_rows_of_large_pages(tables: Tables, number: int) -> None:
    await check(tables, LONG[number], LONG_WAYS)


def test_chosen_tables_have_every_pair() -> None:
    chosen = set().union(*map(pairs_of, CHOSEN))
    values = [(name, value) for name, several in DIMENSIONS.items() for value in several]
    pairs = {frozenset((a, b)) for a in values for b in values if a[0] != b[0]}
    assert chosen == pairs - REFUSED


def test_each_way_reads_tables_with_each_value() -> None:
    read = {
        (way, value)
        for number, case in enumerate(CHOSEN)
        for way in WAYS_OF[number]
        for value in case.items()
    }
    values = [(name, value) for name, several in DIMENSIONS.items() for value in several]
    assert read == set(product(WAYS, values))


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
async def test_all_ways_give_the_rows_of_all_tables(
    tables: Tables, version: str, kind: str
) -> None:
    """By a third of the ways each, in turn."""
    dimensions = {**DIMENSIONS, "version": (version,), "kind": (kind,)}
    for number, case in enumerate(all_cases(dimensions, REFUSED)):
        await check(tables, case, [*WAYS][(number + number // 3) % 3 :: 3])
