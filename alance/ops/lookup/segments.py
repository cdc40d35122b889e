"""Which indices of a version answer filters, on which columns, for which fragments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alance.format.table.apply_indices import FRAGMENT_REUSE
from alance.format.table.indices import Index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.format.field import Field
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

    Path = tuple[str, ...]

BTREE: Final = "BTree"
BITMAP: Final = "Bitmap"
VERSIONS: Final = {BTREE: (0, 1), BITMAP: (0,)}
ADDRESSES_FROM: Final = 1  # the version of B-trees that hold addresses, whatever ids rows have


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of an index that can be asked.

    Attributes:
        covered: the live fragments that it answers for.
        has_row_ids: it holds stable row ids; else addresses.
    """

    index: Index
    covered: frozenset[int]
    has_row_ids: bool


def segments_of(
    snapshot: Snapshot, handles: Sequence[FragmentHandle]
) -> tuple[dict[Path, list[Segment]], list[str]]:
    """The segments by column, of one index each; and what is to be said of others.

    Raises:
        CorruptFileError: index metadata that contradicts the format.
    """
    messages = snapshot.manifest.indices
    if not messages:
        return {}, []
    if any(one.name == FRAGMENT_REUSE for one in messages):
        return {}, ["indices not used: a compaction left their translation for later"]
    live = {handle.id for handle in handles}
    paths = dict(struct_paths(snapshot.schema.fields))
    groups: dict[tuple[Path, str], list[Segment]] = {}
    lines = []
    for message in messages:
        if len(message.fields) != 1 or message.fields[0] not in paths or message.covering_fields:
            continue
        index = Index.from_protobuf(message)
        if index.kind not in VERSIONS:
            continue
        version = message.index_version
        if version not in VERSIONS[index.kind]:
            lines.append(f"index {index.name} not used: version {version} of {index.kind} indices")
            continue
        covered = live & (index.fragment_ids or frozenset())
        if covered:
            is_address = index.kind == BTREE and version >= ADDRESSES_FROM
            has_row_ids = snapshot.has_stable_row_ids and not is_address
            key = (paths[message.fields[0]], index.name)
            groups.setdefault(key, []).append(Segment(index, frozenset(covered), has_row_ids))
    best: dict[Path, list[Segment]] = {}
    for (path, _), segments in groups.items():
        if path not in best or _worth(segments) > _worth(best[path]):
            best[path] = segments
    return best, lines


def _worth(segments: Sequence[Segment]) -> tuple[int, bool]:
    """What covers more is better; then what knows the number of rows before it reads them."""
    covered = sum(len(one.covered) for one in segments)
    return covered, segments[0].index.kind == BITMAP


def struct_paths(fields: Sequence[Field], above: Path = ()) -> Iterator[tuple[int, Path]]:
    """The id and path of all fields that rows have one value of, those of structs included."""
    for one in fields:
        path = (*above, one.name)
        yield one.id, path
        if one.logical_type == "struct":
            yield from struct_paths(one.children, path)
