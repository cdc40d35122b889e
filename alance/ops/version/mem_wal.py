"""Tables with a MemWAL: writers log rows next to the table, and alance does not read these rows.

The index `__lance_mem_wal` marks such a table. Its newest rows are in `_mem_wal` until a writer
compacts them into the table, and no feature flag stops readers that do not read the log. So alance
logs a warning, and refuses changes of columns that rows in the log would lack.
"""

from __future__ import annotations

import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from alance.errors import UnsupportedError
from alance.format.table.changes.apply_indices import MEM_WAL

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest
    from alance.versioning.table import Table

_name: Final = attrgetter("name")  # called at each opening: `any` would cost a call for each index
_log: Final = logging.getLogger(__name__)
_mentioned: Final[set[str]] = set()  # roots of the tables for which a warning was logged


def has_mem_wal(manifest: Manifest) -> bool:
    """True if rows of the table may be in the logs of its writers."""
    return MEM_WAL in map(_name, manifest.indices)


def mention_mem_wal(table: Table, manifest: Manifest, *, again: bool = False) -> None:
    """Log a warning if the table has a MemWAL: once per process, or with `again` every time."""
    if has_mem_wal(manifest) and (again or table.root not in _mentioned):
        _mentioned.add(table.root)
        _log.warning(
            "%s: has a MemWAL (index %r): rows that its writers have not compacted into the table "
            "yet are not read, counted or changed; pylance's lsm_scanner reads them",
            table.uri,
            MEM_WAL,
        )


def refuse_with_mem_wal(table: Table, manifest: Manifest, what: str, remedy: str) -> None:
    """Refuse a change that rows in the log of a MemWAL would lack.

    Args:
        what: the change, as in "add a computed column".
        remedy: advice to the caller, for the message.

    Raises:
        UnsupportedError: the table has a MemWAL.
    """
    if has_mem_wal(manifest):
        raise UnsupportedError(
            f"dataset {table.uri!r} has a MemWAL (index {MEM_WAL!r}): cannot {what}, as rows that "
            f"are still in its log would not have it; {remedy}, or drop the MemWAL by pylance"
        )
