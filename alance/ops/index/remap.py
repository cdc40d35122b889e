"""Remap: rewrite index segments with the new addresses of rows that a compaction moves.

If the kind of a segment cannot be remapped, its fragments are not compacted, unless the caller lets
the segment lose them. Indices of zones (zone maps, bloom filters) always lose them, as in pylance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.any_pb2 import Any

from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError, NotFoundError, UnsupportedError
from alance.format.index.ivf import INDEX_FILE, STORAGE_FILE
from alance.format.index.remap import AddressMap
from alance.format.index.text.metadata import OF_ELEMENTS, TEXT_FORMAT
from alance.format.index.text.params import (
    as_written_here,
    is_of_elements,
    is_written_here,
)
from alance.format.proto import table_pb2
from alance.format.table.changes.apply_indices import SYSTEM, covered
from alance.format.table.indices import JSON_KIND, TEXT_KIND, VECTOR_KIND, Index, holds_row_ids
from alance.format.table.operations import RewrittenIndex
from alance.ops.index.segment_files import SegmentFiles
from alance.ops.index.texts.remap import moved_texts
from alance.ops.index.vectors.remap import moved_vectors
from alance.ops.lookup.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alance.format.index.remap import Moves, NewFragment, OldFragment
    from alance.ops.version.snapshot import Snapshot

    Group = tuple[Sequence[OldFragment], Sequence[NewFragment]]
    Translate = Callable[[Snapshot, Index, Moves, SegmentFiles], Awaitable[None]]

# For texts and vectors: supported versions, the remap function, and the names of a segment's files.
# The kinds of scalar indices have a remap function of their own.
_OTHERS: Final[Mapping[str, tuple[tuple[int, ...], Translate, frozenset[str] | None]]] = {
    TEXT_KIND: ((0, 1, 2, 3), moved_texts, None),  # the number of files depends on the partitions
    VECTOR_KIND: ((1, 2), moved_vectors, frozenset({INDEX_FILE, STORAGE_FILE})),
}
_UNREADABLE: Final = (CorruptFileError, NotFoundError, UnsupportedError)


@dataclass(frozen=True, slots=True)
class MovedIndices:
    """Outcome of a remap.

    Attributes:
        translated: rewritten segments, for the commit.
        files: files of these segments; call `discard` if they are not committed.
        covering: UUIDs of all segments that cover the new fragments.
    """

    translated: tuple[RewrittenIndex, ...]
    files: tuple[SegmentFiles, ...]
    covering: frozenset[bytes]

    async def discard(self) -> None:
        """Remove the files. Errors of the store are ignored."""
        for files in self.files:
            await files.discard()


def bound_fragments(snapshot: Snapshot) -> dict[str, frozenset[int]]:
    """Return, by index name, the fragments that an index would lose if they were rewritten.

    These are the fragments of segments without stable row ids that cannot be remapped. Zone indices
    lose fragments in any case, and are not listed.

    Raises:
        CorruptFileError: index metadata contradicts the format.
    """
    bound: dict[str, frozenset[int]] = {}
    for message in snapshot.manifest.indices:
        index = Index.from_protobuf(message)
        if message.name in SYSTEM or not index.fragment_ids:
            continue
        kind = KINDS.get(index.files_kind)
        if kind is not None and not kind.can_move:
            continue
        if not _follows(snapshot, index) and not is_translated(snapshot, index):
            bound[message.name] = bound.get(message.name, frozenset()) | index.fragment_ids
    return bound


async def move_indices(
    snapshot: Snapshot, groups: Sequence[Group], *, uncover: bool
) -> MovedIndices:
    """Rewrite the segments that cover groups of fragments with the addresses of the new fragments.

    Cost: a read of their files and PUTs of the same size; nothing for segments with stable row ids.
    Memory: 8 bytes per deleted row of the groups, and some batches of a segment.

    Args:
        snapshot: version of the segments.
        uncover: True to let a segment that cannot be read lose the fragments.

    Raises:
        CorruptFileError, NotFoundError, UnsupportedError: a segment cannot be read.
        StoreError: the store failed. All new files are removed after an error.
    """
    moved: list[RewrittenIndex] = []
    files: list[SegmentFiles] = []
    covering: set[bytes] = set()
    inside_of = {
        number: inside
        for number, message in enumerate(snapshot.manifest.indices)
        if message.name not in SYSTEM and (inside := _inside(message, groups))
    }
    try:
        with Stage("remap", len(inside_of), "segments") as stage:
            for number, inside in inside_of.items():
                message = snapshot.manifest.indices[number]
                index = Index.from_protobuf(message)
                if _follows(snapshot, index):
                    covering.add(message.uuid.uuid)
                elif is_translated(snapshot, index):
                    new = SegmentFiles(snapshot)
                    files.append(new)
                    if await _translate(snapshot, index, inside, new, uncover=uncover):
                        moved.append(record(index, new))
                        covering.add(message.uuid.uuid)
                stage.add(1)
    except BaseException:
        await MovedIndices((), tuple(files), frozenset()).discard()
        raise
    return MovedIndices(tuple(moved), tuple(files), frozenset(covering))


def _follows(snapshot: Snapshot, index: Index) -> bool:
    return snapshot.has_stable_row_ids and holds_row_ids(index.message)


def is_translated(snapshot: Snapshot, index: Index) -> bool:
    """Return True if a segment can be rewritten with other row addresses."""
    kind, version = KINDS.get(index.files_kind), index.message.index_version
    if index.message.covering_fields:
        return False
    if kind is not None:
        if index.kind == JSON_KIND and kind.json_refusal(
            has_stable_row_ids=snapshot.has_stable_row_ids
        ):
            return False
        if not kind.can_move:
            return False
        versions, names = kind.versions, kind.file_names
    elif index.files_kind in _OTHERS:
        versions, _, names = _OTHERS[index.files_kind]
    else:
        return False
    if index.kind == TEXT_KIND and not is_written_here(index.message.index_details.value):
        return False
    listed = {file.path for file in index.message.files}
    return version in versions and (not listed or names is None or listed == names)


def _inside(message: table_pb2.IndexMetadata, groups: Sequence[Group]) -> list[Group]:
    """Return the groups that a segment covers; empty if it covers only a part of any group."""
    ids = covered(message) or frozenset()
    inside = []
    for old, new in groups:
        shared = [fragment.id in ids for fragment in old]
        if all(shared):
            inside.append((old, new))
        elif any(shared):
            return []
    return inside


async def _translate(
    snapshot: Snapshot, index: Index, groups: Sequence[Group], new: SegmentFiles, *, uncover: bool
) -> bool:
    """Rewrite a segment. Returns False if it cannot be read and `uncover` is True."""
    moving = {fragment.id for old, _ in groups for fragment in old}
    assert index.fragment_ids is not None
    staying = index.fragment_ids - moving
    moves = await snapshot.engine.pool.run(lambda: AddressMap.of(groups, staying))
    try:
        await translate(snapshot, index, moves, new)
    except _UNREADABLE as error:
        if uncover:
            await new.discard()
            return False
        _explain(error, index)
        raise
    return True


async def translate(snapshot: Snapshot, index: Index, moves: Moves, new: SegmentFiles) -> None:
    """Rewrite the files of a segment with the new addresses of its rows.

    Raises:
        CorruptFileError, NotFoundError, UnsupportedError: the segment cannot be read.
    """
    kind = KINDS.get(index.files_kind)
    move = _OTHERS[index.files_kind][1] if kind is None else kind.move
    await move(snapshot, index, moves, new)


def _explain(error: AlanceError, index: Index) -> None:
    error.add_note(
        f"while index {index.name!r} was brought to the new addresses of its rows; "
        "uncover_indices=True compacts without it: it then no longer covers these fragments"
    )


def record(index: Index, new: SegmentFiles) -> RewrittenIndex:
    """Return the commit record of a rewritten segment."""
    message = index.message
    details = message.index_details if message.HasField("index_details") else None
    version = message.index_version
    if index.kind == TEXT_KIND and version == 1 and details is not None:
        version = OF_ELEMENTS if is_of_elements(details.value) else TEXT_FORMAT
        details = Any(type_url=details.type_url, value=as_written_here(details.value))
    return RewrittenIndex(
        old_id=message.uuid,
        new_id=table_pb2.UUID(uuid=new.id.bytes),
        new_index_details=details,
        new_index_version=version,
        new_index_files=tuple(new.files),
    )
