"""Combinations to try: few that cover much; all of them for `make soak`."""

from __future__ import annotations

import random
from contextlib import nullcontext
from itertools import combinations, product
from typing import TYPE_CHECKING, Final, NamedTuple

import alance
from tests.parity.tables import HISTORIES, SIZES, VERSIONS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PLACES: Final = ("local", "lab", "memory")
TRACES: Final = ("never", "always", "every other call")


class Case(NamedTuple):
    """A table, where it lies, and which calls are traced."""

    version: str
    size: str
    history: str
    place: str
    traced: str

    def __str__(self) -> str:
        return ", ".join(self)


ALL: Final = [Case(*values) for values in product(VERSIONS, SIZES, HISTORIES, PLACES, TRACES)]


def _covers(case: Case) -> set[tuple[tuple[int, str], ...]]:
    """The pairs of a case, and its version, size and place together."""
    values = list(enumerate(case))
    return {*combinations(values, 2), (values[0], values[1], values[3])}


def covering(cases: list[Case], seed: int = 0) -> list[Case]:
    """Choose few cases that cover all pairs of values of two dimensions.

    They also cover each version at each size in each place.
    """
    rng = random.Random(seed)
    missing = set().union(*map(_covers, cases))
    chosen = []
    while missing:
        best = max(rng.sample(cases, len(cases)), key=lambda case: len(missing & _covers(case)))
        chosen.append(best)
        missing -= _covers(best)
    return chosen


def traced(which: str, call: int) -> AbstractContextManager[object]:
    """Return a trace, or a context that does nothing; `which` is one of TRACES."""
    is_traced = which == "always" or (which != "never" and call % 2)
    return alance.trace() if is_traced else nullcontext()
