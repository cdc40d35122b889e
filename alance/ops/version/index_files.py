"""Files of an index segment: their locations, sizes and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from alance.file.open.plain import open_plain, plain_key
from alance.format.plans import together
from alance.io.loop.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.open.plain import PlainFile
    from alance.format.plans import Plan
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot

SIZE_BYTES: Final = 200  # memory of a file size in the search cache, with its key


async def located_files(
    snapshot: Snapshot, index: Index, names: Sequence[str]
) -> list[tuple[str, int]]:
    """Return the location and size of files of a segment, in the order of `names`.

    Cost: a HEAD, once, for each file whose size the segment's record lacks.

    Raises:
        NotFoundError: a file does not exist.
    """
    engine = snapshot.engine
    recorded = {file.path: file.size_bytes for file in index.message.files}
    places = snapshot.table.index_files(snapshot.manifest, index, names)
    sizes = [recorded.get(name, 0) for name in names]

    async def learn(number: int) -> None:
        async def load() -> int:
            return await engine.scheduler.size(places[number], reason="file size")

        key = ("file size", places[number])
        sizes[number] = await engine.cache.get(key, load, lambda _: SIZE_BYTES)

    if 0 in sizes:
        await all_of(learn(number) for number, size in enumerate(sizes) if not size)
    return [*zip(places, sizes, strict=True)]


async def opened_files(snapshot: Snapshot, index: Index, names: Sequence[str]) -> list[PlainFile]:
    """Open files of a segment, in the order of `names`.

    Cost: one GET for each file whose size is known (rarely two), once.

    Raises:
        NotFoundError: a file does not exist.
        CorruptFileError: a file is not a Lance file.
    """
    engine = snapshot.engine
    places = await located_files(snapshot, index, names)
    files: list[PlainFile | None] = engine.cache.peek_all([plain_key(place) for place, _ in places])
    if None in files:
        plans: list[Plan[PlainFile]] = [open_plain(*place, engine.cache) for place in places]
        return await engine.drive(together(plans), "open index")
    return cast("list[PlainFile]", files)
