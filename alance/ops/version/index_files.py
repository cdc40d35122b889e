"""Where the files of a segment of an index are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.io.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.format.table.indices import Index
    from alance.ops.version.snapshot import Snapshot


async def located_files(
    snapshot: Snapshot, index: Index, names: Iterable[str]
) -> list[tuple[str, int]]:
    """The location and size of some files of a segment, in the order of their names.

    Cost: a HEAD for each file whose size the segment's record does not tell.

    Raises:
        NotFoundError: no such file.
    """
    sizes = {file.path: file.size_bytes for file in index.message.files}

    async def located(name: str) -> tuple[str, int]:
        location = snapshot.table.index_file(snapshot.manifest, index, name)
        size = sizes.get(name) or await snapshot.engine.scheduler.size(location, reason="file size")
        return location, size

    return await all_of(located(name) for name in names)
