"""Stories of committers; `ALANCE_SIMULATION_RUNS` plays more of them."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from alance.errors import AlreadyExistsError
from alance.versioning import manifest_store
from alance.versioning.settle import Settled
from tests.simulation.committers import SimulationError, conditional, external, simulate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alance.versioning.settle import Patience
    from tests.simulation.committers import Make

RUNS = int(os.environ.get("ALANCE_SIMULATION_RUNS", "200"))
KINDS = ("committed", "failed", "open", "crashes", "cancelled", "unknown")


@pytest.mark.parametrize(
    ("make", "runs"),
    [
        (conditional, RUNS),
        (external, RUNS // 3),
        pytest.param(conditional, 20 * RUNS, marks=pytest.mark.soak),
        pytest.param(external, 20 * RUNS, marks=pytest.mark.soak),
    ],
)
def test_the_table_is_what_the_committers_were_told(make: Make, runs: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(runs):
        story = simulate(seed, manifests=make)
        for kind in KINDS:
            result = getattr(story, kind)
            seen[kind] += result if isinstance(result, int) else len(result)
    assert all(seen[kind] for kind in KINDS), seen


def test_a_seed_tells_the_same_story_again() -> None:
    first, again = simulate(77), simulate(77)
    assert [*first.committed.values()] == [*again.committed.values()]
    assert (first.crashes, first.cancelled) == (again.crashes, again.cancelled)


def _play(runs: int) -> None:
    for seed in range(runs):
        simulate(seed)


async def _believe(
    put: Callable[[], Awaitable[object]],
    whose: Callable[[], Awaitable[Settled]],
    what: str,
    patience: Patience,
    *,
    at_once: bool = False,
) -> Settled:
    """Put once and believe the answer, as a faulty committer would."""
    try:
        await put()
    except AlreadyExistsError:
        return Settled.THEIRS
    return Settled.OURS


def test_it_finds_a_committer_that_believes_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_store, "put_settled", _believe)
    with pytest.raises(SimulationError, match="seed"):
        _play(100)


def test_it_finds_a_store_that_overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(self: object, path: str, body: bytes, *, if_absent: bool) -> bool:
        self.objects[path] = body  # type: ignore[attr-defined]
        return True

    monkeypatch.setattr("tests.simulation.model_store.Model.put", put)
    with pytest.raises(SimulationError, match="seed"):
        _play(100)
