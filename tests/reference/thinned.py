"""Products of cases, of which some run each time and the others in `make soak`."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.parity.pairs import pairwise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _pytest.mark.structures import ParameterSet

SEEDS: Final = 8  # of which the one with the fewest combinations is taken


def thinned(*lists: Sequence[Any], part: int = 2) -> list[ParameterSet]:
    """Each combination of the values of some lists; one in `part` is no soak test.

    These are spread evenly: each value of a list meets one in `part` of each other list. A tuple
    among the values stands for several parameters.
    """
    places = product(*(range(len(values)) for values in lists))
    return [_case(lists, each, runs_always=sum(each) % part == 0) for each in places]


def paired(*lists: Sequence[Any]) -> list[ParameterSet]:
    """Each combination of the values of some lists; few that have every pair are no soak tests.

    A tuple among the values stands for several parameters.
    """
    names = {str(number): [*map(str, range(len(values)))] for number, values in enumerate(lists)}
    several = [pairwise(names, frozenset(), seed) for seed in range(SEEDS)]
    chosen = {tuple(map(int, case.values())) for case in min(several, key=len)}
    places = product(*(range(len(values)) for values in lists))
    return [_case(lists, each, runs_always=each in chosen) for each in places]


def _case(
    lists: Sequence[Sequence[Any]], places: tuple[int, ...], *, runs_always: bool
) -> ParameterSet:
    arguments: list[Any] = []
    for values, place in zip(lists, places, strict=True):
        value = values[place]
        arguments += value if isinstance(value, tuple) else [value]
    return pytest.param(*arguments, marks=[] if runs_always else pytest.mark.soak)
