"""The next version of a table: a manifest and a transaction in, a manifest out. Pure.

Nothing is read or written, so that a lost race only costs another call.

Source: table format specification, "Building the next manifest".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance.format.table.apply_state import DEFAULT, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from alance.format.proto import table_pb2
    from alance.format.table.lineage import Lineage
    from alance.format.table.manifest import Manifest
    from alance.format.table.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Next:
    """A version that is to be written.

    Attributes:
        message: the manifest, but for the positions of its sections.
        indices: the entries of its index section.
        transaction: what made it.
    """

    message: table_pb2.Manifest
    indices: tuple[table_pb2.IndexMetadata, ...]
    transaction: Transaction


def apply(
    previous: Manifest | None,
    transaction: Transaction,
    *,
    now: datetime,
    version: int | None = None,
    source: Manifest | None = None,
    lineage: Mapping[int, Lineage] | None = None,
    settings: Settings = DEFAULT,
) -> Next:
    """The version that a transaction makes of the one before it.

    Ids are given here: of fragments, rows, base paths. Fields have theirs already, of the
    operation's schema; `fields.assign_ids` gives them.

    Args:
        previous: the latest version, which the transaction was rebased onto; None: create.
        now: of the manifest's timestamp.
        version: None: the number after the previous one.
        source: of `Restore`: the version restored; of `Clone`: the version cloned.
        lineage: row ids and versions, by fragment, of fragments of `previous` that do not keep
            them inline; `lineage.spilled` says which are needed.

    Raises:
        InvalidInputError: the operation does not fit the previous version.
        UnsupportedError: the table needs features that this alance does not write.
    """
    raise NotImplementedError


def manifest_bytes(made: Next) -> bytes:
    """The content of a manifest's file: indices, transaction, manifest, footer."""
    raise NotImplementedError
