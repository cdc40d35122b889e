"""Versions of the Lance file format."""

from __future__ import annotations

from enum import Enum
from typing import Final

from alance.errors import InvalidInputError, UnsupportedError


class FileVersion(Enum):
    """A version of the file format; `value` is its text in manifests."""

    V0_1 = "0.1"
    V2_0 = "2.0"
    V2_1 = "2.1"
    V2_2 = "2.2"
    V2_3 = "2.3"

    def __lt__(self, other: FileVersion) -> bool:
        return self._value_ < other._value_

    def __le__(self, other: FileVersion) -> bool:
        return self._value_ <= other._value_

    @classmethod
    def parse(cls, text: str) -> FileVersion:
        """Parse a version number or alias (`legacy`, `stable`, `next`).

        Raises:
            InvalidInputError: the text is neither a known number nor a known alias.
        """
        name = VERSION_ALIASES.get(text, text)
        try:
            return cls(name)
        except ValueError:
            names = [version.value for version in cls] + list(VERSION_ALIASES)
            raise InvalidInputError(
                f"file version {text!r}: expected one of {', '.join(names)}"
            ) from None

    @classmethod
    def of(cls, version: str | FileVersion | None) -> FileVersion | None:
        """Return the version that an argument names; None if the argument is None.

        Raises:
            InvalidInputError: as from `parse`.
        """
        if version is None or isinstance(version, FileVersion):
            return version
        return cls.parse(version)

    @classmethod
    def from_footer(cls, major: int, minor: int) -> FileVersion:
        """Return the version for the two numbers in a footer.

        Raises:
            UnsupportedError: the numbers are unknown, as for a later format.
        """
        if (major, minor) in FOOTERS:
            return FOOTERS[major, minor]
        raise UnsupportedError(f"file version {major}.{minor}: not known to this alance")


VERSION_ALIASES: Final = {"legacy": "0.1", "stable": "2.2", "next": "2.3"}

# Version 2.0 is 0.3 in footers, and 2.0 in manifests and in files of some early writers.
FOOTERS: Final = {
    (0, 0): FileVersion.V0_1,  # manifests without a version
    (0, 1): FileVersion.V0_1,
    (0, 2): FileVersion.V0_1,
    (0, 3): FileVersion.V2_0,
    (2, 0): FileVersion.V2_0,
    (2, 1): FileVersion.V2_1,
    (2, 2): FileVersion.V2_2,
    (2, 3): FileVersion.V2_3,
}
