"""The interface between the commit loop and the rules of the format, and the rules of Lance tables.

The loop knows no operation: it only asks these rules to rebase, to apply, and what to write first.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from alance.deferred import Deferred
from alance.errors import RetryableConflictError
from alance.format.table.apply import apply, manifest_bytes
from alance.format.table.apply_state import DEFAULT, Settings
from alance.io.loop.tasks import all_of
from alance.records import dataclass
from alance.versioning.load import AS_FAST
from alance.versioning.sidecars import load_deletions, load_transaction
from alance.versioning.tokens import Notes, noted_config

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alance.format.proto import table_pb2
    from alance.format.table import conflicts
    from alance.format.table.conflict_case import Rows
    from alance.format.table.conflicts import Rebased
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.lineage import Lineage
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction
    from alance.io.reading.engine import Engine
    from alance.versioning.table import Table
else:
    conflicts = Deferred("alance.format.table.conflicts")


class Rules(Protocol):
    """What a transaction becomes when others were first, and which version it makes."""

    def transaction_bytes(self, transaction: Transaction) -> bytes | None:
        """The content of a transaction's file; None: it gets none."""

    async def rebase(self, ours: Transaction, newer: Manifest, base: Manifest) -> Rebased:
        """Our transaction on top of a version that another committer made.

        Args:
            newer: the version after `base`.

        Raises:
            RetryableConflictError: the operation must be run again.
            CommitConflictError: the other version rules ours out.
        """

    async def next_manifest(
        self, previous: Manifest | None, transaction: Transaction, version: int
    ) -> bytes:
        """The content of the manifest of the version that a transaction makes.

        Args:
            previous: the version before; None: there is no table yet.
            version: its number.

        Raises:
            InvalidInputError, CommitConflictError: the transaction does not fit the version.
        """


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules of Lance tables.

    Attributes:
        deleted: of Delete and Update: the rows that the transaction deletes or moves, as physical
            offsets by fragment; None: not known, then it conflicts with all that touch the same
            fragments.
        source: of Restore and Clone: the version that is restored or cloned.
        lineage: reads what `apply` needs of row ids that are not in the manifest.
        left: of a Rewrite that leaves indices for later: makes what `apply` needs; it may write.
        now: the clock of the versions' timestamps.
    """

    engine: Engine
    table: Table
    settings: Settings = DEFAULT
    deleted: Rows | None = None
    source: Manifest | None = None
    lineage: Callable[[Manifest, Transaction], Awaitable[Mapping[int, Lineage]]] | None = None
    left: Callable[[Manifest], Awaitable[Sequence[table_pb2.IndexMetadata] | None]] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def transaction_bytes(self, transaction: Transaction) -> bytes | None:
        """The message, unless the settings say that there are no such files."""
        return transaction.to_bytes() if self.settings.writes_transaction_file else None

    async def rebase(self, ours: Transaction, newer: Manifest, base: Manifest) -> Rebased:
        """See `conflicts.rebase`.

        Cost: a GET for the deletion vector of each fragment that both have deleted rows of, and
        one for the transaction of a version that does not hold it.
        """
        await self.engine.pool.load(conflicts)
        theirs = await load_transaction(self.engine, self.table, newer)
        fragment_ids: tuple[int, ...] = ()
        if theirs is not None:
            fragment_ids = conflicts.fragments_to_merge(
                ours, theirs, base=base, newer=newer, deleted=self.deleted
            )
        vectors = await self._vectors(newer, fragment_ids) if fragment_ids else None
        return conflicts.rebase(
            ours, theirs, base=base, newer=newer, deleted=self.deleted, vectors=vectors
        )

    async def _vectors(
        self, newer: Manifest, fragment_ids: tuple[int, ...]
    ) -> Mapping[int, DeletionVector]:
        places = [newer.fragments.position_of(number) for number in fragment_ids]
        records = [newer.fragments[place] for place in places if place is not None]
        fragments = [fragment for fragment in records if fragment.deletion_file]
        for fragment in fragments:
            if not fragment.physical_rows:  # vectors are checked with it, and joined
                raise RetryableConflictError(
                    f"version {newer.version} has deleted rows of fragment {fragment.id} as well, "
                    f"whose number of rows is not known; run the operation again"
                )
        vectors = await all_of(
            load_deletions(self.engine, self.table, newer, fragment, fragment.physical_rows)
            for fragment in fragments
        )
        return {fragment.id: vector for fragment, vector in zip(fragments, vectors, strict=True)}

    async def next_manifest(
        self, previous: Manifest | None, transaction: Transaction, version: int
    ) -> bytes:
        """See `apply`."""
        lineage: Mapping[int, Lineage] | None = None
        if self.lineage is not None and previous is not None:
            lineage = await self.lineage(previous, transaction)
        left: Sequence[table_pb2.IndexMetadata] | None = None
        if self.left is not None and previous is not None:
            left = await self.left(previous)

        config = {} if previous is None else previous.config
        noted = noted_config(config, Notes.of(transaction.properties))

        def build() -> bytes:
            following = apply(
                previous,
                transaction,
                now=self.now(),
                version=version,
                source=self.source,
                lineage=lineage,
                settings=self.settings,
                config=noted,
                left=left,
            )
            return manifest_bytes(following)

        return await self.engine.decode(build, _work_bytes(previous, transaction))


# Operations that look at the fragments that they change alone, unless rows have ids of their own.
_COPIES: Final = frozenset(
    ("Append", "CreateIndex", "Delete", "ReserveFragments", "Rewrite", "Update", "UpdateConfig")
)


def _work_bytes(previous: Manifest | None, transaction: Transaction) -> int:
    """What making the next version costs, in bytes of columns that are decoded meanwhile."""
    own = transaction.message.ByteSize()
    if previous is None:
        return own
    if transaction.operation in _COPIES and not previous.has_stable_row_ids:
        return own + len(previous.fragments.records.content) // AS_FAST
    return own + previous.num_bytes
