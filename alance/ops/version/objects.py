"""Copies of objects of a table, and removal of the objects of a failed commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.format.plans import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.io.reading.engine import Engine

COPY_BYTES: Final = 8 << 20  # bytes of a piece


async def discard_objects(engine: Engine, locations: Sequence[str]) -> None:
    """Remove unreferenced objects of one store. Errors of the store are ignored.

    A cancelled caller does not wait for a store that does not answer; see `io.loop.background`.
    Objects that remain are orphans, which a cleanup removes.
    """
    if not locations:
        return
    places = [engine.registry.resolve(location) for location in locations]
    store = places[0][0]
    await engine.background.discard(store.delete([path for _, path in places]), store)


async def copy_object(
    engine: Engine, source: str, target: str, num_bytes: int, reason: str
) -> None:
    """Copy an object through this process; the target becomes visible as a whole.

    Args:
        source, target: locations.
        num_bytes: size of the object.

    Raises:
        NotFoundError: the object does not exist.
        CorruptFileError: the object has fewer bytes.
        StoreError: a store failed.
    """
    store, path = engine.registry.resolve(target)
    async with store.open_upload(path, size_hint=num_bytes) as upload:
        upload.background = engine.background
        for start in range(0, num_bytes, COPY_BYTES):
            piece = ByteRange(source, start, min(num_bytes, start + COPY_BYTES))
            (content,) = await engine.scheduler.read([piece], reason=reason, bulk=True)
            await upload.write(content)
        await upload.finish()
