"""Records of indices in manifests.

Source: docs/format/table.md, "Index section".
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from google.protobuf import any_pb2
from google.protobuf.message import DecodeError

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.table.roaring import parse_roaring

if TYPE_CHECKING:
    from alance.format.proto import table_pb2

_UUID_BYTES = 16
# Limit of fragment ids in bitmaps: a bitmap of a few bytes may name 2^32 ids, which would not fit
# into memory. A manifest with this many fragments would take half a GiB.
MAX_FRAGMENT: Final = 1 << 22
ADDRESSES_FROM: Final = 1  # from this version, B-trees hold addresses even with stable row ids
_OF_ROW_IDS: Final = ("Bitmap", "LabelList", "NGram", "Inverted", "Vector")
JSON_KIND: Final = "Json"
# Name of the index that records how compactions moved rows.
FRAGMENT_REUSE: Final = "__lance_frag_reuse"
VECTOR_KIND: Final = "Vector"
TEXT_KIND: Final = "Inverted"


@dataclass(frozen=True, slots=True)
class JsonTarget:
    """Target of a JSON index: the values at a path in JSON texts, indexed by another kind.

    Attributes:
        path: path as the user wrote it; `$.` may be omitted.
        kind: index kind of the files, such as `BTree`.
    """

    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class Index:
    """Segment of an index.

    Attributes:
        name: name of the index; several segments may share it.
        fields: ids of the indexed fields.
        kind: type name of the details without `IndexDetails`, such as `BTree`; empty if unknown.
        dataset_version: version that the content was built from.
        fragment_ids: ids of the covered fragments; None if unknown.
    """

    uuid: uuid.UUID
    name: str
    fields: tuple[int, ...]
    kind: str
    dataset_version: int
    fragment_ids: frozenset[int] | None
    created_at: datetime | None
    message: table_pb2.IndexMetadata

    @property
    def files_kind(self) -> str:
        """Kind of the index's files: the kind of the index, or the target's kind for a JSON index.

        Raises:
            CorruptFileError: the details cannot be parsed.
        """
        return self.kind if self.kind != JSON_KIND else json_target(self.message).kind

    @classmethod
    def from_protobuf(cls, message: table_pb2.IndexMetadata) -> Index:
        """Parse the manifest's record.

        Raises:
            CorruptFileError: the UUID or the bitmap is malformed.
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
    """Return the fragments in an index's bitmap.

    Raises:
        CorruptFileError: the bytes are not a bitmap, or an id is not below `MAX_FRAGMENT`.
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
    """True if an index in a table with stable row ids stores row ids, so that its rows may move.

    False for an index of row addresses or of zones, or if unknown.
    """
    kind = kind_of(message)
    if kind == JSON_KIND:
        return json_target(message).kind in _OF_ROW_IDS
    if kind == "BTree":
        return message.index_version < ADDRESSES_FROM
    return kind in _OF_ROW_IDS


def json_target(message: table_pb2.IndexMetadata) -> JsonTarget:
    """Parse the target of a JSON index.

    Raises:
        CorruptFileError: the details cannot be parsed.
    """
    # The message has a path and an `Any`. An `Any` has the same wire format (type URL and content),
    # so it can parse the message.
    try:
        details = any_pb2.Any.FromString(message.index_details.value)
        target = any_pb2.Any.FromString(details.value)
    except DecodeError as error:
        raise CorruptFileError(f"index {message.name}: details {error!r}") from error
    return JsonTarget(details.type_url, _kind_of_type(target.type_url))


def json_details(path: str, type_url: str, content: bytes) -> bytes:
    """Serialize the details of a JSON index: its path, and the details of its target."""
    target = any_pb2.Any(type_url=type_url, value=content)
    details = any_pb2.Any(type_url=path, value=target.SerializeToString())
    return details.SerializeToString()


def kind_of(message: table_pb2.IndexMetadata) -> str:
    """Return the type name of an index's details without `IndexDetails`; empty if unknown."""
    return _kind_of_type(message.index_details.type_url)


def _kind_of_type(type_url: str) -> str:
    return type_url.rpartition("/")[2].rpartition(".")[2].removesuffix("IndexDetails")
