"""Rules by which the commit loop handles a format, and their implementation for Lance tables.

The loop does not know the operations. It calls these rules to rebase a transaction, and to build a
manifest.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from alance.base.deferred import Deferred
from alance.base.records import dataclass
from alance.errors import RetryableConflictError
from alance.format.table.changes.apply import apply, manifest_bytes
from alance.format.table.changes.apply_state import DEFAULT_SETTINGS, Settings
from alance.format.table.transaction import Transaction
from alance.io.loop.tasks import all_of, in_turns
from alance.versioning.load import AS_FAST
from alance.versioning.sidecars import load_deletions, load_transaction
from alance.versioning.tokens import Notes, noted_config

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alance.format.proto import table_pb2
    from alance.format.table.changes import conflicts
    from alance.format.table.changes.conflict_case import Rows
    from alance.format.table.changes.conflicts import Rebased
    from alance.format.table.changes.lineage import Lineage
    from alance.format.table.deletions import DeletionVector
    from alance.format.table.fragment import Fragment
    from alance.format.table.manifest import Manifest
    from alance.format.table.operations import Operation
    from alance.io.reading.engine import Engine
    from alance.versioning.table import Table
else:
    conflicts = Deferred("alance.format.table.changes.conflicts")


class Rules(Protocol):
    """Interface of a format for the commit loop."""

    def transaction_bytes(self, transaction: Transaction) -> bytes | None:
        """Return the content of a transaction's file; None if no file is written."""

    async def rebase(self, ours: Transaction, newer: Manifest, base: Manifest) -> Rebased:
        """Rebase our transaction onto another committer's version.

        Args:
            newer: the version after `base`.

        Raises:
            RetryableConflictError: the operation has to be run again.
            CommitConflictError: the other version rules our transaction out.
        """

    async def next_manifest(
        self, previous: Manifest | None, transaction: Transaction, version: int
    ) -> bytes:
        """Build the manifest of the version that a transaction makes, as bytes.

        Args:
            previous: the version before; None if there is no table yet.
            version: number of the version.

        Raises:
            InvalidInputError, CommitConflictError: the transaction does not fit the previous
                version.
        """


# Work on a byte of an entry of a map, as bytes of columns to decode.
ENTRY_WORK: Final = 16
FEW_PARTS: Final = 100  # parts of an operation that become a message in less time than a hop


@dataclass(frozen=True, slots=True)
class TableRules:
    """Rules for Lance tables.

    Attributes:
        deleted: for Delete and Update, the physical offsets of the rows that the transaction
            deletes or moves, by fragment id. None if unknown; then any change of the same fragments
            is a conflict.
        source: for Restore and Clone, the version to restore or clone.
        lineage: reads the row ids that `apply` needs and the manifest lacks.
        index_entries: for a Rewrite that defers index remapping, builds the index entries for
            `apply`; may write files.
        now: clock for the versions' timestamps.
    """

    engine: Engine
    table: Table
    settings: Settings = DEFAULT_SETTINGS
    deleted: Rows | None = None
    source: Manifest | None = None
    lineage: Callable[[Manifest, Transaction], Awaitable[Mapping[int, Lineage]]] | None = None
    index_entries: (
        Callable[[Manifest], Awaitable[Sequence[table_pb2.IndexMetadata] | None]] | None
    ) = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def transaction_bytes(self, transaction: Transaction) -> bytes | None:
        """Return the transaction's message; None if the settings disable transaction files."""
        return transaction.to_bytes() if self.settings.writes_transaction_file else None

    async def rebase(self, ours: Transaction, newer: Manifest, base: Manifest) -> Rebased:
        """Rebase our transaction; see `conflicts.rebase`.

        Cost: a GET for the deletion vector of each fragment in which both transactions delete rows,
        and a GET for the other transaction if its manifest lacks it.
        """
        await self.engine.pool.load(conflicts)
        theirs = await load_transaction(self.engine, self.table, newer)
        fragment_ids: tuple[int, ...] = ()
        if theirs is not None:
            fragment_ids = await self.engine.decode(
                lambda: conflicts.fragments_to_merge(
                    ours, theirs, base=base, newer=newer, deleted=self.deleted
                ),
                _rebase_bytes(ours, theirs, newer, None),
            )
        vectors = await self._vectors(newer, fragment_ids) if fragment_ids else None

        def work() -> Rebased:
            return conflicts.rebase(
                ours, theirs, base=base, newer=newer, deleted=self.deleted, vectors=vectors
            )

        return await self.engine.decode(work, _rebase_bytes(ours, theirs, newer, vectors))

    async def _vectors(
        self, newer: Manifest, fragment_ids: tuple[int, ...]
    ) -> Mapping[int, DeletionVector]:
        places = newer.fragments.positions_of(np.array(fragment_ids, np.int64))
        fragments: list[Fragment] = []
        async for part in in_turns(places[places >= 0].tolist()):
            records = [newer.fragments[place] for place in part]
            fragments += [fragment for fragment in records if fragment.deletion_file]
        for fragment in fragments:
            # Because it is needed to check and merge deletion vectors.
            if not fragment.physical_rows:
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
        """Build the next manifest; see `apply`."""
        lineage: Mapping[int, Lineage] | None = None
        if self.lineage is not None and previous is not None:
            lineage = await self.lineage(previous, transaction)
        index_entries: Sequence[table_pb2.IndexMetadata] | None = None
        if self.index_entries is not None and previous is not None:
            index_entries = await self.index_entries(previous)

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
                index_entries=index_entries,
            )
            return manifest_bytes(following)

        return await self.engine.decode(build, _work_bytes(previous or self.source, transaction))


def _rebase_bytes(
    ours: Transaction,
    theirs: Transaction | None,
    newer: Manifest,
    vectors: Mapping[int, DeletionVector] | None,
) -> int:
    """Estimate the work of a rebase, as bytes of columns to decode."""
    num_bytes = len(ours.to_bytes()) + sum(part.num_bytes for part in (vectors or {}).values())
    if theirs is None:
        return num_bytes
    is_merge = theirs.operation == "Merge"
    return num_bytes + theirs.message.ByteSize() + (newer.num_bytes if is_merge else 0)


async def transaction_of(
    engine: Engine, change: Operation, read_version: int, properties: Mapping[str, str]
) -> Transaction:
    """Build a transaction, in a thread if the operation has many parts.

    Raises:
        InvalidInputError: a text has half of a surrogate pair.
    """

    def make() -> Transaction:
        transaction = Transaction.of(change, read_version=read_version, properties=properties)
        transaction.to_bytes()  # which it remembers
        return transaction

    return await engine.pool.run(make, inline=change._num_parts <= FEW_PARTS)


def _work_bytes(previous: Manifest | None, transaction: Transaction) -> int:
    """Estimate the work of building the next version, as bytes of columns to decode."""
    own = len(transaction.to_bytes())
    if transaction.operation == "UpdateConfig":
        own *= ENTRY_WORK
    if previous is None:
        return own
    # These operations only parse the fragments that they change, unless row ids are stable.
    is_copy = transaction.keeps_schema or transaction.operation == "UpdateConfig"
    if is_copy and not previous.has_stable_row_ids:
        return own + max(previous.stored_bytes, len(previous.fragments.records.content)) // AS_FAST
    return own + previous.num_bytes
