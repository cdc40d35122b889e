"""Files of an index segment: their locations, sizes and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.file.open.files import FileOf
from alance.file.open.plain import open_plain_files, plain_key
from alance.format.table.fragment import inside
from alance.io.loop.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.open.plain import PlainFile
    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot

SIZE_BYTES: Final = 200  # memory of a file size in the search cache, with its key


async def located_files(
    snapshot: Snapshot, index: Index, names: Sequence[str], folder: str | None = None
) -> list[FileOf]:
    """Return the location and size of files of a segment, in the order of `names`.

    Cost: a HEAD, once, for each file whose size the segment's record lacks.

    Args:
        folder: location of the segment's folder, if it is known; see `Table.index_folder`.

    Raises:
        NotFoundError: a file does not exist.
    """
    recorded = {file.path: file.size_bytes for file in index.message.files}
    if folder is None:
        folder = snapshot.table.index_folder(snapshot.manifest, index)
    places = [folder + inside(name, "index file") for name in names]
    sizes = [recorded.get(name, 0) for name in names]

    async def learn(number: int) -> None:
        engine = snapshot.engine

        async def load() -> int:
            return await engine.scheduler.size(places[number], reason="file size")

        key = ("file size", places[number])
        sizes[number] = await engine.cache.get(key, load, lambda _: SIZE_BYTES)

    if 0 in sizes:
        await all_of(learn(number) for number, size in enumerate(sizes) if not size)
    return [*map(FileOf, places, sizes)]


async def opened_files(
    snapshot: Snapshot, index: Index, names: Sequence[str], folder: str | None = None
) -> list[PlainFile]:
    """Open files of a segment, in the order of `names`.

    Cost: one GET for each file whose size is known (rarely two), once.

    Args:
        folder: as for `located_files`.

    Raises:
        NotFoundError: a file does not exist.
        CorruptFileError: a file is not a Lance file.
    """
    engine = snapshot.engine
    if folder is None:
        folder = snapshot.table.index_folder(snapshot.manifest, index)
    files: list[Any] = engine.cache.peek_all([plain_key(folder + name) for name in names])
    if None in files:
        missing = [number for number, file in enumerate(files) if file is None]
        absent = [names[number] for number in missing]
        plan = open_plain_files(await located_files(snapshot, index, absent, folder), engine.cache)
        for number, file in zip(missing, await engine.drive(plan, "open index"), strict=True):
            files[number] = file
    return files
