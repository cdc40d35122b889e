"""Where new data files go: what every verb that writes rows takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from alance.format.table.fragment import DatasetBasePath


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """Base paths that a writer names; see `alance.ops.write.bases`.

    Attributes:
        initial_bases: of a new table.
        target_bases: names or paths of those where new data files go, in turn; the table's own
            URI is its folder. None: there alone.
        target_all_bases: new data files go to all of them, in turn; True: the table's folder first.
    """

    initial_bases: tuple[DatasetBasePath, ...] = ()
    target_bases: tuple[str, ...] | None = None
    target_all_bases: bool | None = None

    @classmethod
    def of(
        cls,
        initial_bases: Iterable[DatasetBasePath] | None,
        target_bases: Iterable[str] | None,
        target_all_bases: bool | None,
    ) -> BaseOptions:
        """What the caller gave.

        Raises:
            InvalidInputError: no list, an empty one, or both ways to say where files go.
        """
        if isinstance(target_bases, str) or not isinstance(target_bases, Iterable | None):
            raise InvalidInputError(f"target_bases={target_bases!r}: expected a list of names")
        if not isinstance(initial_bases, Iterable | None):
            raise InvalidInputError(f"initial_bases={initial_bases!r}: expected a list")
        targets = None if target_bases is None else tuple(target_bases)
        if targets is not None and not all(isinstance(name, str) for name in targets):
            raise InvalidInputError(f"target_bases={targets!r}: expected names and paths")
        if targets == ():
            raise InvalidInputError("target_bases: empty; expected names, or None for the table's")
        if targets is not None and target_all_bases is not None:
            raise InvalidInputError("target_bases and target_all_bases: expected one of them")
        return cls(tuple(initial_bases or ()), targets, target_all_bases)

    @property
    def has_targets(self) -> bool:
        """Whether new data files may go elsewhere."""
        return self.target_bases is not None or self.target_all_bases is not None
