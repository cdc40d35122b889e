"""Objects copied from one place to another, a piece at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.format.plans import ByteRange

if TYPE_CHECKING:
    from alance.io.engine import Engine

COPY_BYTES: Final = 8 << 20  # of a piece


async def copy_object(
    engine: Engine, source: str, target: str, num_bytes: int, reason: str
) -> None:
    """Copy an object by way of this machine; the target appears as a whole.

    Args:
        source, target: locations.
        num_bytes: of the object.

    Raises:
        NotFoundError: there is no such object.
        CorruptFileError: it has fewer bytes.
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
