"""Imports that few reads need, made in advance and off the event loop: see `DecodePool.load`.

Importing the SQL parser takes 0.1 s, and importing the readers of 2.0 and 0.1 files 0.02 s.
Programs that only take and scan do not need them. After these imports, a caller may parse SQL or
open such files on the event loop without a stall.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Final, TypeVar

from alance.file.rows.leaves import FEW_FIELDS
from alance.file_version import FileVersion
from alance.io.loop.tasks import all_of
from alance.io.reading.engine import DECODED_INLINE_BYTES
from alance.io.reading.pool import is_imported
from alance.ops.version.conditions import Among, Bound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alance.io.reading.engine import Engine
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

T = TypeVar("T")

SQL: Final = ("alance.expr.sql.lexical", "alance.expr.build")
GRAMMAR: Final = (  # needed if the text is not simple
    "alance.expr.sql.grammar",
    "alance.expr.functions",
    "alance.expr.type_names",
)
FILTER: Final = ("alance.ops.read.pruning", "alance.expr.sql.simple")
LOOK_UP: Final = "alance.ops.lookup.look_up"
ENGINE: Final = ("pyarrow.acero", "alance.expr.arrow_parts")  # evaluates pyarrow expressions
COMPUTE_MODULE: Final = "alance.base.compute"  # sorts rows
OLDER_FILES: Final = (
    "alance.file.older.v2_0",
    "alance.file.older.v0_1",
    "alance.format.v0_1.statistics",
)
# Work of describing a field for the first time, in units of decoding a byte: 10 to 30 us.
FIELD_WORK: Final = 512
NEWER_FILES: Final = "alance.format.layouts.planar"
_loaded: Final[set[str]] = set()


async def beside(engine: Engine, module: str, work: Awaitable[T]) -> T:
    """Await `work` while a module that is needed next is imported; return the result of `work`."""
    if is_imported(module):
        return await work
    done: asyncio.Future[T] = asyncio.ensure_future(work)
    await all_of([done, engine.pool.load(module)])
    return done.result()


async def of_fields(engine: Engine, num_fields: float, make: Callable[[], T]) -> T:
    """Call `make`, which takes some microseconds for each of a schema's fields.

    For many fields, it is called in the pool.
    """
    work = FIELD_WORK * num_fields
    return make() if work <= DECODED_INLINE_BYTES else await engine.decode(make, work)


async def parsed(snapshot: Snapshot, columns: Columns, make: Callable[[], T]) -> T:
    """Call `make`, which parses columns. If these may be computed, or are many, use the pool.

    Args:
        columns: columns of a read; None: all.
    """
    num_fields = math.inf
    if columns is None:
        num_fields = snapshot.schema.num_fields
    elif not isinstance(columns, Mapping):
        num_fields = len(columns) if isinstance(columns, Sized) else 0
    if num_fields <= FEW_FIELDS:
        return make()
    return await of_fields(snapshot.engine, num_fields, make)


async def load_readers(
    snapshot: Snapshot, columns: object = None, condition: object = None
) -> None:
    """Import the modules that a read needs in addition to the reader of 2.1 and later files.

    Args:
        columns: names, or SQL text or pyarrow expressions by name.
        condition: SQL text, possibly with parameters, or a pyarrow expression; None: no condition.
    """
    needed: list[str] = []
    manifest = snapshot.manifest
    version = manifest.remember(FileVersion, lambda: manifest.data_storage_version)
    if version is FileVersion.V2_3:
        needed.append(NEWER_FILES)
    if version is FileVersion.V2_0 or version is FileVersion.V0_1:
        needed += OLDER_FILES
    texts = [condition, *(columns.values() if isinstance(columns, Mapping) else ())]
    texts = [text for text in texts if text is not None]
    if texts:
        needed += FILTER
        if manifest.indices:
            needed.append(LOOK_UP)
        for text in texts:
            if isinstance(text, str | Bound):
                needed += SQL
            elif not isinstance(text, Among):
                needed += ENGINE
    if not _loaded.issuperset(needed):
        await snapshot.engine.pool.load(*needed)
        _loaded.update(needed)
    if texts and not _loaded.issuperset(GRAMMAR) and not all(map(_is_simple, texts)):
        await snapshot.engine.pool.load(*GRAMMAR)
        _loaded.update(GRAMMAR)


def _is_simple(text: object) -> bool:
    from alance.expr.sql.simple import is_simple

    text = text.text if isinstance(text, Bound) else text
    return not isinstance(text, str) or is_simple(text)
