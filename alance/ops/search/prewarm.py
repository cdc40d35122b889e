"""Prewarm: reads of indices into the search cache before the first search."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from alance.errors import InvalidInputError, NotFoundError, UnsupportedError
from alance.format.field import struct_paths
from alance.format.paths import join_path
from alance.format.table.changes.apply_indices import SYSTEM
from alance.format.table.indices import TEXT_KIND, VECTOR_KIND, Index
from alance.io.loop.readahead import Job, readahead
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.kinds import KINDS
from alance.ops.search import segments as of_vectors
from alance.ops.search.indexed import open_segment as open_vectors
from alance.ops.search.indexed import read_parts
from alance.ops.search.options import vector_type
from alance.ops.search.text.files import open_segment as open_texts
from alance.ops.search.text.files import read_lists

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from alance.ops.version.snapshot import Snapshot

    PartLoader: TypeAlias = Callable[[], Awaitable[object]]

EF: Final = 15  # `ef` of a search for ten rows
UNPACKED: Final = 8  # approximate upper bound of an index's memory, in multiples of its files


async def prewarm_index(
    snapshot: Snapshot,
    name: str,
    *,
    with_position: bool = False,
    index_segments: Iterable[str] | None = None,
) -> None:
    """Read a whole index into the search cache; see `Dataset.prewarm_index`."""
    jobs: list[Job[object]] = []
    for index in _segments(snapshot, name, index_segments):
        if with_position and index.kind != TEXT_KIND:
            raise InvalidInputError(f"with_position=True: index {name!r} is not of texts")
        parts = await _parts(snapshot, index, with_positions=with_position)
        num_bytes = sum(file.size_bytes for file in index.message.files)
        jobs += [Job(UNPACKED * num_bytes // len(parts), part) for part in parts]
    done = readahead(jobs, budget_bytes=snapshot.read_ahead_bytes, max_jobs=16, ordered=False)
    async with aclosing(done):
        async for _ in done:
            pass


async def _parts(snapshot: Snapshot, index: Index, *, with_positions: bool) -> list[PartLoader]:
    """Return functions that each read some parts of a segment into the search cache."""
    kind = KINDS.get(index.files_kind)
    if kind is not None:
        return await kind.parts(snapshot, IndexFiles(snapshot, index))
    if index.kind == VECTOR_KIND:
        path = struct_paths(snapshot.schema.fields)[index.fields[0]]
        column = join_path(path)
        type_ = vector_type(snapshot.schema.field(column), column)
        segment = of_vectors.SearchSegment(index, frozenset())
        ivf = await open_vectors(snapshot, segment, type_)
        return [partial(read_parts, snapshot.engine, parts) for parts in ivf.all_parts(EF)]
    if index.kind == TEXT_KIND:
        opened = await open_texts(snapshot, index)
        if with_positions and not opened.metadata.params.with_position:
            raise InvalidInputError(f"with_position=True: index {index.name!r} has no positions")
        return [
            partial(read_lists, snapshot, [needed])
            for needed in opened.all_lists(with_positions=with_positions)
        ]
    raise UnsupportedError(f"index {index.name!r} of kind {index.kind!r}: nothing reads it ahead")


def _segments(snapshot: Snapshot, name: str, chosen: Iterable[str] | None) -> list[Index]:
    indices = [
        Index.from_protobuf(message)
        for message in snapshot.manifest.indices
        if message.name == name and name not in SYSTEM
    ]
    if not indices:
        raise snapshot.lacks_index(name)
    if chosen is None:
        return indices
    try:
        uuids = {UUID(str(number)) for number in chosen}
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"index_segments={chosen!r}: expected UUIDs ({error})") from None
    missing = uuids - {index.uuid for index in indices}
    if missing:
        raise NotFoundError(f"index {name!r}: no segments {', '.join(map(str, missing))}")
    return [index for index in indices if index.uuid in uuids]
