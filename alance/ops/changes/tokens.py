"""Tokens: positions in the stream of a table's changes, from which a reader continues later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.versioning.manifest_store import transaction_uuid_of

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest

UNKNOWN_MAKER: Final = "0" * 8
_CHANGE_TOKEN: Final = re.compile(r"(\d{1,19})\.([0-9a-f]{8})\.(s?)(\d{1,19})")


@dataclass(frozen=True, slots=True)
class ChangeToken:
    """A position in the stream of changes.

    Attributes:
        version: number of the version whose changes were read, in full or in part.
        maker: first digits of the UUID of the version's transaction. They differ if the table was
            dropped and created again.
        num_read: number of the version's rows and other changes before the position; -1: all.
        is_snapshot: True if all rows of the version are insertions, not only its changes.
    """

    version: int
    maker: str
    num_read: int = -1
    is_snapshot: bool = False

    def __str__(self) -> str:
        kind = "s" if self.is_snapshot else ""
        return f"{self.version}.{self.maker}.{kind}{self.num_read + 1}"

    def end(self) -> ChangeToken:
        """Return the position after all rows of the version."""
        return ChangeToken(self.version, self.maker)

    @classmethod
    def parse(cls, text: str) -> ChangeToken:
        """Parse the text of a token.

        Args:
            text: value of `Change.token`.

        Raises:
            InvalidInputError: the text is not a token.
        """
        match = _CHANGE_TOKEN.fullmatch(text)
        if match is None:
            raise InvalidInputError(
                f"since={text!r}: expected a version, 'snapshot', or the token of a change, such "
                "as '12.0f3a99c1.0'"
            )
        return cls(int(match[1]), match[2], int(match[4]) - 1, bool(match[3]))


def maker_of(manifest: Manifest) -> str:
    """Return the first digits of the UUID of a version's transaction.

    Args:
        manifest: manifest of the version.
    """
    return (transaction_uuid_of(manifest) or UNKNOWN_MAKER)[:8]
