"""The report of `check_store`: each check, and the store's behaviour where it failed."""

from __future__ import annotations

from typing import Literal, TypeAlias

from alance.base.calls import public
from alance.base.records import dataclass

Purpose: TypeAlias = Literal["reading", "writing", "commits"]


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """Result of a single check of a store.

    Attributes:
        name: expected behaviour of the store.
        purpose: operations that need this behaviour.
        failure: observed behaviour; None if the check passed.
    """

    name: str
    purpose: Purpose
    failure: str | None

    def line(self, width: int) -> str:
        """Return the check as a line of text.

        Args:
            width: width of the column of names.
        """
        if self.failure is None:
            return f"ok    {self.purpose:<8}  {self.name}"
        return f"FAIL  {self.purpose:<8}  {self.name:<{width}}  {self.failure}"


@public
@dataclass(frozen=True, slots=True)
class StoreReport:
    """The results of all checks of a store; `str` formats them as a table.

    Attributes:
        root: URI of the folder in which the checks ran.
        checks: all checks, in order.
    """

    root: str
    checks: tuple[StoreCheck, ...]

    @property
    def failures(self) -> tuple[StoreCheck, ...]:
        """Checks that failed; empty if the store is fit for every purpose."""
        return tuple(check for check in self.checks if check.failure is not None)

    def is_fit_for(self, purpose: Purpose) -> bool:
        """Return True if the store passed all checks for a purpose.

        A store that is fit for writing but not for commits needs a `commit_lock` or an external
        manifest store.

        Args:
            purpose: `reading`, `writing` or `commits`.
        """
        return all(check.purpose != purpose for check in self.failures)

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        return "\n".join([self.root, *(check.line(width) for check in self.checks)])
