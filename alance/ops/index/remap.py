"""Indices of rows that a compaction moves: their segments written again, with the new addresses.

A segment whose kind is not translated here keeps its fragments from being rewritten, unless the
caller lets it lose them. What sums up zones of fragments (zone maps, bloom filters) loses them in
any case, as it does in pylance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.any_pb2 import Any

from alance.errors import AlanceError, CorruptFileError, NotFoundError, UnsupportedError
from alance.format.index.ivf import INDEX_FILE, STORAGE_FILE
from alance.format.index.remap import AddressMap
from alance.format.index.text.columns import FORMAT, OF_ELEMENTS
from alance.format.index.text.params import (
    as_written_here,
    is_of_elements,
    is_written_here,
)
from alance.format.proto import table_pb2
from alance.format.table.apply_indices import SYSTEM, covered
from alance.format.table.indices import JSON, Index, holds_row_ids
from alance.format.table.operations import RewrittenIndex
from alance.ops.index.segment_files import SegmentFiles
from alance.ops.index.texts.remap import moved_texts
from alance.ops.index.vectors.remap import moved_vectors
from alance.ops.lookup.kinds import KINDS
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from alance.format.index.remap import Moves, NewFragment, OldFragment
    from alance.ops.version.snapshot import Snapshot

    Group = tuple[Sequence[OldFragment], Sequence[NewFragment]]
    Translate = Callable[[Snapshot, Index, Moves, SegmentFiles], Awaitable[None]]

TEXTS: Final = "Inverted"
VECTORS: Final = "Vector"
# Of texts and vectors: the versions that can be translated, how, and the files that a segment then
# has. Kinds of indices of values translate themselves.
_OTHERS: Final[Mapping[str, tuple[tuple[int, ...], Translate, frozenset[str] | None]]] = {
    TEXTS: ((0, 1, 2, 3), moved_texts, None),  # as many files as partitions have
    VECTORS: ((1, 2), moved_vectors, frozenset({INDEX_FILE, STORAGE_FILE})),
}
_UNREADABLE: Final = (CorruptFileError, NotFoundError, UnsupportedError)


@dataclass(frozen=True, slots=True)
class MovedIndices:
    """What becomes of indices whose fragments are rewritten.

    Attributes:
        translated: segments that were written again; for the commit.
        files: theirs; whoever does not commit them calls `discard`.
        kept: the UUIDs of all segments that cover the new fragments.
    """

    translated: tuple[RewrittenIndex, ...]
    files: tuple[SegmentFiles, ...]
    kept: frozenset[bytes]

    async def discard(self) -> None:
        """Remove the files, as far as the store can be reached."""
        for files in self.files:
            await files.discard()


def bound_fragments(snapshot: Snapshot) -> dict[str, frozenset[int]]:
    """The fragments that a rewrite would take out of indices of kinds that are not translated.

    Raises:
        CorruptFileError: index metadata that contradicts the format.
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
    """Write the segments that cover groups of fragments again, with the addresses of new ones.

    Cost: a read of their files, and PUTs as large; nothing for segments that hold stable row ids.
    Memory: 8 bytes a deleted row of the groups, and batches of a segment.

    Args:
        snapshot: the version that the segments are of.
        uncover: a segment that cannot be read is left out, and loses the fragments.

    Raises:
        CorruptFileError, NotFoundError, UnsupportedError: a segment that cannot be read.
        StoreError: the store failed. No new file stays after an error.
    """
    moved: list[RewrittenIndex] = []
    files: list[SegmentFiles] = []
    kept: set[bytes] = set()
    try:
        for message in snapshot.manifest.indices:
            if message.name in SYSTEM or not (inside := _inside(message, groups)):
                continue
            index = Index.from_protobuf(message)
            if _follows(snapshot, index):
                kept.add(message.uuid.uuid)
            elif is_translated(snapshot, index):
                new = SegmentFiles(snapshot)
                files.append(new)
                if await _translate(snapshot, index, inside, new, uncover=uncover):
                    moved.append(record(index, new))
                    kept.add(message.uuid.uuid)
    except BaseException:
        await MovedIndices((), tuple(files), frozenset()).discard()
        raise
    return MovedIndices(tuple(moved), tuple(files), frozenset(kept))


def _follows(snapshot: Snapshot, index: Index) -> bool:
    return snapshot.has_stable_row_ids and holds_row_ids(index.message)


def is_translated(snapshot: Snapshot, index: Index) -> bool:
    """Whether a segment's files are written again with other addresses."""
    kind, version = KINDS.get(index.files_kind), index.message.index_version
    if index.message.covering_fields:
        return False
    if kind is not None:
        if index.kind == JSON and kind.json_refusal(has_stable_row_ids=snapshot.has_stable_row_ids):
            return False
        if not kind.can_move:
            return False
        versions, names = kind.versions, kind.file_names
    elif index.files_kind in _OTHERS:
        versions, _, names = _OTHERS[index.files_kind]
    else:
        return False
    if index.kind == TEXTS and not is_written_here(index.message.index_details.value):
        return False
    listed = {file.path for file in index.message.files}
    return version in versions and (not listed or names is None or listed == names)


def _inside(message: table_pb2.IndexMetadata, groups: Sequence[Group]) -> list[Group]:
    """The groups that a segment covers; none where it covers one of them in part."""
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
    """Write a segment's files; whether they are of use."""
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
    """Write the files of a segment again, with the addresses that its rows have now.

    Raises:
        CorruptFileError, NotFoundError, UnsupportedError: a segment that cannot be read.
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
    """What becomes of a segment whose files were written again."""
    message = index.message
    details = message.index_details if message.HasField("index_details") else None
    version = message.index_version
    if index.kind == TEXTS and version == 1 and details is not None:
        version = OF_ELEMENTS if is_of_elements(details.value) else FORMAT
        details = Any(type_url=details.type_url, value=as_written_here(details.value))
    return RewrittenIndex(
        old_id=message.uuid,
        new_id=table_pb2.UUID(uuid=new.id.bytes),
        new_index_details=details,
        new_index_version=version,
        new_index_files=tuple(new.files),
    )
