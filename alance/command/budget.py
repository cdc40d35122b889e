"""Budget of maintenance of several tables, some of which are maintained concurrently."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from alance import InvalidInputError

if TYPE_CHECKING:
    from alance import MaintenancePolicy
    from alance.types import MaintenanceReport


@dataclass(frozen=True)
class Share:
    """Part of a budget that the run for one table may spend. None means no limit."""

    num_bytes: int | None
    num_requests: int | None
    seconds: float | None

    @property
    def is_limited(self) -> bool:
        """True if any of the three numbers is limited."""
        return (self.num_bytes, self.num_requests, self.seconds) != (None, None, None)

    def limit(self, policy: MaintenancePolicy) -> MaintenancePolicy:
        """Return a policy that spends at most this share of the budget."""
        return replace(
            policy,
            max_bytes=_least(policy.max_bytes, self.num_bytes),
            max_requests=_least(policy.max_requests, self.num_requests),
            max_seconds=_least(policy.max_seconds, self.seconds),
        )


class MaintenanceBudget:
    """Budget of bytes, requests and seconds for all tables together.

    Args:
        num_bytes, num_requests, seconds: the budget; None: no limit.
        at_once: number of tables that share the rest of the budget.

    Raises:
        InvalidInputError: a number is not positive.
    """

    def __init__(
        self,
        num_bytes: int | None,
        num_requests: int | None,
        seconds: float | None,
        at_once: int,
    ) -> None:
        limits = {"bytes": num_bytes, "requests": num_requests, "seconds": seconds}
        for name, value in limits.items():
            if value is not None and not value > 0:
                raise InvalidInputError(f"--max-{name} {value}: expected a number above 0")
        if at_once < 1:
            raise InvalidInputError(f"--at-once {at_once}: expected a number above 0")
        self._num_bytes = num_bytes
        self._num_requests = num_requests
        self._end = None if seconds is None else time.monotonic() + seconds
        self._num_free = at_once

    def take(self) -> Share | None:
        """Return the share of the next table; None if the budget is spent."""
        seconds = None if self._end is None else self._end - time.monotonic()
        share = Share(
            _part(self._num_bytes, self._num_free),
            _part(self._num_requests, self._num_free),
            seconds,
        )
        if any(part is not None and part <= 0 for part in (share.num_bytes, share.num_requests)):
            return None
        if seconds is not None and seconds <= 0:
            return None
        self._num_free -= 1
        self._spend(share.num_bytes or 0, share.num_requests or 0)
        return share

    def give_back(self, share: Share, report: MaintenanceReport | None) -> None:
        """Return the unspent part of a share to the budget.

        Args:
            report: report of the run; None: the run failed, and its share counts as unspent.
        """
        self._num_free += 1
        steps = () if report is None else report.steps
        spent = [step for step in steps if step.outcome in ("done", "planned")]
        self._spend(
            sum(step.num_bytes for step in spent) - (share.num_bytes or 0),
            sum(step.num_requests for step in spent) - (share.num_requests or 0),
        )

    def _spend(self, num_bytes: int, num_requests: int) -> None:
        if self._num_bytes is not None:
            self._num_bytes -= num_bytes
        if self._num_requests is not None:
            self._num_requests -= num_requests


def _part(remaining: int | None, num_free: int) -> int | None:
    return None if remaining is None else remaining // num_free


def _least(*limits: float | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)  # type: ignore[return-value]
