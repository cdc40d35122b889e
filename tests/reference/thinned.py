"""Products of cases, of which some run each time and the others in `make soak`."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _pytest.mark.structures import ParameterSet


def thinned(*lists: Sequence[Any], part: int = 2) -> list[ParameterSet]:
    """Each combination of the values of some lists; one in `part` is no soak test.

    These are spread evenly: each value of a list meets one in `part` of each other list. A tuple
    among the values stands for several parameters.
    """
    cases = []
    for numbered in product(*map(enumerate, lists)):
        arguments: list[Any] = []
        for _, value in numbered:
            arguments += value if isinstance(value, tuple) else [value]
        runs_always = sum(number for number, _ in numbered) % part == 0
        cases.append(pytest.param(*arguments, marks=[] if runs_always else pytest.mark.soak))
    return cases
