"""Index metadata as a manifest carries it; indices are not searched here.

Source: docs/format/table.md, "Index section".
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from alance.errors import CorruptFileError
from alance.format.table.roaring import parse_roaring

if TYPE_CHECKING:
    from alance.format.proto import table_pb2

_UUID_BYTES = 16
# Ids ascend from 0, and a manifest of so many fragments has half a GiB; a bitmap of few bytes may
# name 2^32 of them, which no memory holds.
MAX_FRAGMENT: Final = 1 << 22
ADDRESSES_FROM: Final = 1  # the version of B-trees that hold addresses, whatever ids rows have
_OF_ROW_IDS: Final = ("Bitmap", "LabelList", "NGram", "Inverted", "Vector")


@dataclass(frozen=True, slots=True)
class Index:
    """One segment of an index.

    Attributes:
        name: the index; several segments may share it.
        fields: ids of the fields that it is on.
        kind: the type of its details without `IndexDetails` (`BTree`); empty: not told.
        dataset_version: the version that the content was built from.
        fragment_ids: the fragments covered; None: unknown.
    """

    uuid: uuid.UUID
    name: str
    fields: tuple[int, ...]
    kind: str
    dataset_version: int
    fragment_ids: frozenset[int] | None
    created_at: datetime | None
    message: table_pb2.IndexMetadata

    @classmethod
    def from_protobuf(cls, message: table_pb2.IndexMetadata) -> Index:
        """From the manifest's record.

        Raises:
            CorruptFileError: no UUID, or a spoiled bitmap.
        """
        content = message.uuid.uuid
        if len(content) != _UUID_BYTES:
            raise CorruptFileError(f"index {message.name!r}: UUID of {len(content)} bytes")
        covered = None
        if message.HasField("fragment_bitmap"):
            covered = covered_fragments(message)
        return cls(
            uuid.UUID(bytes=content),
            message.name,
            tuple(message.fields),
            kind_of(message),
            message.dataset_version,
            covered,
            _created(message),
            message,
        )


def covered_fragments(message: table_pb2.IndexMetadata) -> frozenset[int]:
    """The fragments in an index's bitmap.

    Raises:
        CorruptFileError: no bitmap, or more fragments than any table has.
    """
    return frozenset(parse_roaring(memoryview(message.fragment_bitmap), MAX_FRAGMENT).tolist())


def _created(message: table_pb2.IndexMetadata) -> datetime | None:
    if not message.HasField("created_at"):
        return None
    try:
        return datetime.fromtimestamp(message.created_at / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def holds_row_ids(message: table_pb2.IndexMetadata) -> bool:
    """Whether an index of a table with stable row ids holds these, so that its rows may move.

    False where that is not sure. Kinds that tell of zones of fragments hold no numbers of rows.
    """
    kind = kind_of(message)
    if kind == "BTree":
        return message.index_version < ADDRESSES_FROM
    return kind in _OF_ROW_IDS


def kind_of(message: table_pb2.IndexMetadata) -> str:
    """The type of an index's details without `IndexDetails`; empty: not told."""
    name = message.index_details.type_url.rpartition("/")[2].rpartition(".")[2]
    return name.removesuffix("IndexDetails")
