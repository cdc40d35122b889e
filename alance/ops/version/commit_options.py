"""How a transaction becomes a version: what every verb that changes a table takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from alance.checks import check_count
from alance.errors import InvalidInputError
from alance.format.table.naming import MESSAGE_PROPERTY
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Mapping


class CommitArguments(TypedDict, total=False):
    """The fields of `CommitOptions` as keyword arguments of verbs that make a version."""

    properties: Mapping[str, str] | None
    message: str | None
    max_retries: int


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """How a transaction becomes a version.

    Attributes:
        properties: noted in the transaction.
        message: a commit message, noted there too.
        max_retries: attempts after the first one, where others were first.

    Raises:
        InvalidInputError: properties that are no text, retries that are no count.
    """

    properties: Mapping[str, str] | None = None
    message: str | None = None
    max_retries: int = MAX_RETRIES

    def __post_init__(self) -> None:
        check_count("max_retries", self.max_retries, 0)
        for key, value in self.noted().items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidInputError(f"property {key!r}: {value!r}, expected text for text")

    def noted(self) -> dict[str, str]:
        """The properties of the transaction."""
        noted = dict(self.properties or {})
        if self.message is not None:
            noted[MESSAGE_PROPERTY] = self.message
        return noted
