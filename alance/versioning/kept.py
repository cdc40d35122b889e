"""Whole objects by way of the disk cache: manifests and deletion files.

An object is kept under an *entity*: text that another object at the same place does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from alance.errors import CorruptFileError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alance.io.engine import Engine

T = TypeVar("T")
TRUSTED: Final = "version"  # entity of manifests that nothing but their number tells apart


async def recall_object(
    engine: Engine, location: str, entity: str | None, parse: Callable[[memoryview], T]
) -> T | None:
    """An object from disk, parsed; None where it is not kept, or makes no sense. No request."""
    kept = engine.cache.kept
    if kept is None or entity is None:
        return None
    content = await kept.read(location, entity)
    if content is None:
        return None
    try:
        return await engine.decode(lambda: parse(content), len(content))
    except CorruptFileError:
        kept.drop(location, entity)
        return None


def keep_object(engine: Engine, location: str, entity: str | None, content: memoryview) -> None:
    """Keep an object that was read, and understood."""
    if engine.cache.kept is not None and entity is not None:
        engine.cache.kept.keep(location, entity, content)


async def read_tagged(
    engine: Engine, location: str, e_tag: str | None, read: Callable[[], Awaitable[memoryview]]
) -> tuple[memoryview, bool]:
    """An object, and whether it is for certain the one with this tag.

    A listing tells the tag; the object may be another one by the time it is read. Cost: one GET,
    or two where it is.

    Args:
        read: reads the object, whichever it is.
    """
    kept = engine.cache.kept
    if kept is not None and e_tag is not None and kept.covers(location):
        try:
            content = await engine.scheduler.read_all(location, e_tag=e_tag, reason="manifest")
        except NotFoundError:
            pass
        else:
            return content, True
    return await read(), False
