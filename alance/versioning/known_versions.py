"""The newest versions of a table that a committer has seen, without gaps.

The last two versions are stored as manifests. Earlier appends are stored in short form: the uuids
of their transactions and the notes of their producers. Appends do not conflict, so this is enough
to tell if another append is already committed.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.versioning.manifest_store import makers_of
from alance.versioning.outcome import notes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.table.manifest import Manifest
    from alance.versioning.tokens import Notes

MAX_MANIFESTS: Final = 2  # those of large tables take much memory
MAX_MAKERS: Final = 4096  # maximum number of appends in short form


@dataclass(frozen=True, slots=True)
class Seen:
    """Version that an append made, in short form.

    Attributes:
        makers: uuids of the transactions in the version.
        notes: tokens and batch numbers of the version's producers.
    """

    version: int
    makers: frozenset[str]
    notes: Notes


class KnownVersions:
    """Consecutive versions: appends in short form, then manifests."""

    def __init__(self) -> None:
        self._appends: deque[Seen] = deque(maxlen=MAX_MAKERS)  # versions before the first manifest
        self._manifests: list[Manifest] = []

    @property
    def newest(self) -> Manifest | None:
        """Last manifest; None if no version is known."""
        return self._manifests[-1] if self._manifests else None

    def covers(self, version: int) -> bool:
        """True if all versions from the one after `version` to `newest` are known."""
        if not self._manifests:
            return False
        first = self._appends[0].version - 1 if self._appends else self._manifests[0].version
        return first <= version <= self._manifests[-1].version

    def contradicts(self, manifest: Manifest) -> bool:
        """True if a different version with this number is known: the table was created again."""
        if not self._manifests:
            return False
        place = manifest.version - self._manifests[0].version
        if 0 <= place < len(self._manifests):
            return makers_of(self._manifests[place]) != makers_of(manifest)
        if place < 0 <= place + len(self._appends):
            return self._appends[place].makers != makers_of(manifest)
        return False

    def forget(self) -> None:
        """Remove all versions."""
        self._appends.clear()
        self._manifests = []

    def begin(self, manifests: Sequence[Manifest]) -> None:
        """Replace all versions by consecutive manifests, oldest first."""
        self.forget()
        self._manifests = list(manifests)

    def add(self, manifest: Manifest) -> None:
        """Add a version. If there is a gap before it, earlier versions are removed."""
        newest = self.newest
        if newest is None or manifest.version != newest.version + 1:
            self.begin([manifest])
            return
        self._manifests.append(manifest)
        while len(self._manifests) > MAX_MANIFESTS:
            del self._manifests[0]
            first = self._manifests[0]
            if _is_append(first):
                makers = frozenset(makers_of(first))
                self._appends.append(Seen(first.version, makers, notes_of(first)))
            else:
                self._appends.clear()

    def appends_after(self, version: int) -> tuple[list[Seen], Manifest]:
        """Return the appends in short form after a version, and the first manifest.

        At least one manifest must be known.
        """
        begin = max(0, version + 1 - self._appends[0].version) if self._appends else 0
        return [*islice(self._appends, begin, None)], self._manifests[0]

    def after(self, version: int) -> list[Manifest]:
        """Return the known manifests with a version number above `version`."""
        return [manifest for manifest in self._manifests if manifest.version > version]


def _is_append(manifest: Manifest) -> bool:
    transaction = manifest.transaction
    return transaction is not None and transaction.WhichOneof("operation") == "append"
