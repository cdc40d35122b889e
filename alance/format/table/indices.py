"""Index metadata as a manifest carries it; indices are not searched here.

Source: docs/format/table.md, "Index section".
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from google.protobuf import any_pb2
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.table.roaring import parse_roaring
from alance.records import dataclass

if TYPE_CHECKING:
    from alance.format.proto import table_pb2

_UUID_BYTES = 16
# Ids ascend from 0, and a manifest of so many fragments has half a GiB; a bitmap of few bytes may
# name 2^32 of them, which no memory holds.
MAX_FRAGMENT: Final = 1 << 22
ADDRESSES_FROM: Final = 1  # the version of B-trees that hold addresses, whatever ids rows have
_OF_ROW_IDS: Final = ("Bitmap", "LabelList", "NGram", "Inverted", "Vector")
JSON: Final = "Json"
FRAGMENT_REUSE: Final = "__lance_frag_reuse"  # an index that tells where rows went


@dataclass(frozen=True, slots=True)
class JsonTarget:
    """What a JSON index is of: the values at a path, in the files of an index of another kind.

    Attributes:
        path: as it was asked for; `$.` may be left out.
        kind: of the files, such as `BTree`.
    """

    path: str
    kind: str


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

    @property
    def files_kind(self) -> str:
        """The kind whose files it has: its own, or of a JSON index that of its target.

        Raises:
            CorruptFileError: details that are no message.
        """
        return self.kind if self.kind != JSON else json_target(self.message).kind

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
    if kind == JSON:
        return json_target(message).kind in _OF_ROW_IDS
    if kind == "BTree":
        return message.index_version < ADDRESSES_FROM
    return kind in _OF_ROW_IDS


def json_target(message: table_pb2.IndexMetadata) -> JsonTarget:
    """What a JSON index is of.

    Raises:
        CorruptFileError: details that are no message.
    """
    # The message has a path and an `Any`, which has the fields of an `Any` itself.
    try:
        details = any_pb2.Any.FromString(message.index_details.value)
        target = any_pb2.Any.FromString(details.value)
    except DecodeError as error:
        raise CorruptFileError(f"index {message.name}: details {error!r}") from error
    return JsonTarget(details.type_url, _kind_of_type(target.type_url))


def json_details(path: str, type_url: str, content: bytes) -> bytes:
    """The details of a JSON index: its path, and the details of an index of its target's kind."""
    target = any_pb2.Any(type_url=type_url, value=content)
    details = any_pb2.Any(type_url=path, value=target.SerializeToString())
    return details.SerializeToString()


def kind_of(message: table_pb2.IndexMetadata) -> str:
    """The type of an index's details without `IndexDetails`; empty: not told."""
    return _kind_of_type(message.index_details.type_url)


def _kind_of_type(type_url: str) -> str:
    return type_url.rpartition("/")[2].rpartition(".")[2].removesuffix("IndexDetails")
