"""How far the building of an index is, told to whoever asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far the building of an index of vectors is.

    Attributes:
        step: "centroids" and "codebook" (training), "code" (of the rows that a scan gives),
            "write" (partition by partition, with their graphs).
        done, total: rounds of k-means, of which there may be fewer; parts of the codebook; rows,
            of which those without a vector are not written.
    """

    step: str
    done: int
    total: int


@dataclass(slots=True)
class Step:
    """What is told of a step; nothing where nobody asked."""

    tell: Callable[[IndexProgress], object] | None
    name: str
    total: int
    done: int = 0

    def at(self, done: int) -> None:
        """So much is done."""
        self.done = done
        if self.tell is not None:
            self.tell(IndexProgress(self.name, done, self.total))

    def add(self, count: int) -> None:
        """So much more is done."""
        self.at(self.done + count)
