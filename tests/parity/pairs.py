"""Combinations of values of many dimensions: few that have every pair, always the same ones."""

from __future__ import annotations

import random
from itertools import combinations, product
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Value: TypeAlias = tuple[str, str]  # the dimension, and one of its values
Refused: TypeAlias = frozenset[frozenset[Value]]  # pairs that cannot be together


def pairs_of(case: Mapping[str, str]) -> set[frozenset[Value]]:
    """Every two values of a combination."""
    return {frozenset(pair) for pair in combinations(case.items(), 2)}


def all_cases(
    dimensions: Mapping[str, Sequence[str]], refused: Refused
) -> Iterator[dict[str, str]]:
    """Every combination that has no refused pair."""
    for values in product(*dimensions.values()):
        case = dict(zip(dimensions, values, strict=True))
        if not pairs_of(case) & refused:
            yield case


def pairwise(
    dimensions: Mapping[str, Sequence[str]], refused: Refused, seed: int = 0
) -> list[dict[str, str]]:
    """Combinations that have each pair of values at least once, those that are refused left out.

    Each begins with a pair that is missing; the other dimensions then take, one after the other,
    the value that adds most of the missing pairs.
    """
    rng = random.Random(seed)
    values = [(name, value) for name, several in dimensions.items() for value in several]
    missing = {
        frozenset(pair)
        for pair in combinations(values, 2)
        if pair[0][0] != pair[1][0] and frozenset(pair) not in refused
    }
    cases = []
    while missing:
        case = dict(sorted(min(missing, key=sorted)))
        names = [name for name in dimensions if name not in case]
        rng.shuffle(names)
        for name in names:
            added = {
                value: [frozenset([(name, value), other]) for other in case.items()]
                for value in rng.sample(list(dimensions[name]), len(dimensions[name]))
            }
            case[name] = max(
                (value for value, pairs in added.items() if not refused.intersection(pairs)),
                key=lambda value: len(missing.intersection(added[value])),
            )
        missing -= pairs_of(case)
        cases.append({name: case[name] for name in dimensions})
    return cases
