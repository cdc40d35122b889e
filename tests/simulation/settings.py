"""Settings of a simulated story: the number of committers, and the faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance.format.table.naming import NamingScheme
from tests.simulation.model_store import Faults

if TYPE_CHECKING:
    import random


@dataclass(slots=True)
class Settings:
    """Settings of a story; drawn from its seed unless given."""

    faults: Faults
    num_processes: int = 3
    num_commits: int = 2
    crash: float = 0.0  # probability that a process crashes during a commit
    cancel: float = 0.0  # probability that a commit is cancelled
    repeat: float = 1.0  # probability that what is not known is committed again
    scheme: NamingScheme = NamingScheme.V2
    in_order: bool = True

    @classmethod
    def drawn(cls, dice: random.Random) -> Settings:
        """Settings by the dice: calm ones, and wild ones."""
        wild = dice.choice([0.0, 0.05, 0.3])
        faults = Faults(
            refused=wild * dice.random(),
            lost=wild * dice.random(),
            late=wild * dice.random(),
            twice=wild * dice.random(),
            busy=wild * dice.random(),
            late_s=dice.choice([0.05, 2.0]),
        )
        return cls(
            faults,
            num_processes=dice.randint(1, 4),
            num_commits=dice.randint(1, 3),
            crash=dice.choice([0.0, 0.3]),
            cancel=dice.choice([0.0, 0.3]),
            repeat=dice.choice([0.5, 1.0]),
            scheme=dice.choice([*NamingScheme]),
            in_order=dice.choice([True, False]),
        )
