"""Faults of the request that makes a version, and the true state after each.

| fault                                   | the client is told | the object                 |
| --------------------------------------- | ------------------ | -------------------------- |
| written, then 408, 429 or 5xx           | it failed          | is there, ours             |
| written, then 409 or 412                | it exists          | is there, ours             |
| written, then the connection is reset   | it failed          | is there, ours             |
| written, then silence                   | it failed          | is there, ours             |
| 408, 429 or 5xx                         | it failed          | is not there               |
| 409, 412 though there is none           | it exists          | is not there               |
| reset or silence before it is done      | it failed          | is not there               |
| done after the client has given up      | it failed          | is not there, but comes    |

With retries of obstore itself, a put that it sends twice after the first was written is told to
exist, too. So nothing that the client is told, but success, says whose object is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from alance.errors import AlreadyExistsError, StoreError

SILENT: Final = frozenset({"stall", "apply_stall", "stall_mid", "late"})

Truth = Literal["ours", "absent", "late"]


@dataclass(frozen=True)
class Fault:
    """A row of the table.

    Attributes:
        rule: of the lab's weather.
        answer: the error of one put without retries.
        truth: whose object is there when the client gets the answer.
    """

    rule: dict[str, Any]
    answer: type[Exception]
    truth: Truth

    def __str__(self) -> str:
        return f"{self.rule['action']}{self.rule.get('status', '')}"


def _status(status: int, truth: Truth) -> Fault:
    action = "apply_status" if truth == "ours" else "status"
    message = AlreadyExistsError if status in (409, 412) else StoreError
    return Fault({"action": action, "status": status}, message, truth)


STATUSES: Final = (408, 409, 412, 429, 500, 502, 503, 504)
MATRIX: Final = (
    *(_status(status, "ours") for status in STATUSES),
    Fault({"action": "apply_reset"}, StoreError, "ours"),
    Fault({"action": "apply_stall"}, StoreError, "ours"),
    *(_status(status, "absent") for status in STATUSES),
    Fault({"action": "reset"}, StoreError, "absent"),
    Fault({"action": "stall"}, StoreError, "absent"),
    Fault({"action": "late"}, StoreError, "late"),
)
# Of the requests that find the latest version, and read what others did.
READ_FAULTS: Final[tuple[dict[str, Any], ...]] = (
    *({"action": "status", "status": status} for status in (408, 429, 500, 502, 503, 504)),
    {"action": "reset"},
    {"action": "stall"},
    {"action": "truncate"},
    {"action": "reset_mid", "after_bytes": 20},
    {"action": "stall_mid", "after_bytes": 20},
    {"action": "late"},
)


def patience(rule: dict[str, Any]) -> str:
    """Return the client's time limit: short only for faults in which the server is silent."""
    return "250ms" if rule.get("action") in SILENT else "60s"
