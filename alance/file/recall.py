"""Plans answered from what is kept on disk, and what they learn kept there.

A plan knows nothing of it: its ranges are looked up, or noted, while it is driven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from alance.errors import AlanceError, CorruptFileError
from alance.format.plans import ByteRange, T

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from alance.format.container import Container
    from alance.format.plans import Plan


class Kept(Protocol):
    """Ranges of files that outlive the process; nothing of files that were not recalled."""

    def get(self, location: str, start: int, stop: int) -> memoryview | None: ...

    def tail(self, location: str) -> memoryview | None: ...

    def put(self, location: str, start: int, stop: int, content: memoryview) -> None: ...

    def discard(self, location: str) -> None: ...


def kept_by(states: Any) -> Kept | None:
    """The part of the disk cache behind a `States`; None where nothing is kept."""
    kept: Kept | None = getattr(states, "kept", None)
    return kept


def recalled(plan: Callable[[], Plan[T]], path: str, kept: Kept | None) -> T | None:
    """The result of a plan over one file, if all that it asks for is kept; else None.

    What is kept and makes no sense is dropped: the store will tell.
    """
    if kept is None:
        return None
    asked = plan()
    try:
        wanted = next(asked)
        while True:
            found = [kept.get(*one) if isinstance(one, ByteRange) else None for one in wanted]
            if any(content is None for content in found):
                return None
            wanted = asked.send([content for content in found if content is not None])
    except StopIteration as done:
        result: T = done.value
        return result
    except CorruptFileError:
        kept.discard(path)
        return None
    except AlanceError:
        return None
    finally:
        asked.close()


def held(plan: Plan[T], container: Container) -> T | None:
    """The result of a plan over one file, if the file's end, as far as it was read, has it all.

    Raises:
        CorruptFileError: what is there makes no sense.
    """
    try:
        wanted = next(plan)
        while True:
            found = [container.held(one) if isinstance(one, ByteRange) else None for one in wanted]
            content = [one for one in found if one is not None]
            if len(content) < len(found):
                return None
            wanted = plan.send(content)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        plan.close()


def noted(plan: Plan[T], kept: Kept | None, only: Collection[ByteRange] | None = None) -> Plan[T]:
    """The same plan; what it reads is kept.

    Args:
        only: keep these ranges of all that it asks for.
    """
    if kept is None:
        return (yield from plan)
    try:
        wanted = next(plan)
        while True:
            buffers = (yield wanted) if wanted else ()
            for one, content in zip(wanted, buffers, strict=True):
                if isinstance(one, ByteRange) and (only is None or one in only):
                    kept.put(one.path, one.start, one.stop, content)
            wanted = plan.send(buffers)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        plan.close()


def first_ranges(plan: Plan[Any]) -> set[ByteRange]:
    """The first ranges that a plan asks for; it is not driven further."""
    try:
        return {one for one in next(plan) if isinstance(one, ByteRange)}
    except StopIteration:
        return set()
    finally:
        plan.close()
