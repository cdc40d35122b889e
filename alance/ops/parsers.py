"""What filters and computed columns are parsed with, imported before that and off the loop.

The parser of SQL takes a tenth of a second to import, Arrow's own functions half of that: programs
that only take and scan do without. Whoever awaits `load_parsers` first may parse on the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alance.ops.snapshot import Snapshot

SQL: Final = "alance.expr.build"
FILTER: Final = "alance.ops.filtering"
ENGINE: Final = "pyarrow.acero"  # runs pyarrow expressions


async def load_parsers(snapshot: Snapshot, columns: object, condition: object = None) -> None:
    """Import what parses and runs a filter, and the columns of a read. Once: later it is no cost.

    Args:
        columns: names, or SQL text or pyarrow expressions by name.
        condition: SQL text, a pyarrow expression, or None.
    """
    texts = [condition, *(columns.values() if isinstance(columns, Mapping) else ())]
    texts = [one for one in texts if one is not None]
    if not texts:
        return
    needed = [FILTER]
    if any(isinstance(one, str) for one in texts):
        needed.append(SQL)
    if not all(isinstance(one, str) for one in texts):
        needed.append(ENGINE)
    await snapshot.engine.pool.load(*needed)
