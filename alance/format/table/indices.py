"""Records of indices in manifests.

Source: docs/format/table.md, "Index section"; docs/format/search-indices.md, "What the manifest
says of an index".
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import any_pb2

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.proto import parsed
from alance.format.table.roaring import parse_roaring

if TYPE_CHECKING:
    from alance.format.proto import table_pb2, vector_index_pb2

_UUID_BYTES = 16
# Limit of fragment ids in bitmaps: a bitmap of a few bytes may name 2^32 ids, which would not fit
# into memory. A manifest with this many fragments would take half a GiB.
MAX_FRAGMENT: Final = 1 << 22
ADDRESSES_FROM: Final = 1  # from this version, B-trees hold addresses even with stable row ids
_OF_ROW_IDS: Final = ("Bitmap", "LabelList", "NGram", "Inverted", "Vector")
_FINDS_VALUES: Final = ("BTree", "Bitmap")
JSON_KIND: Final = "Json"
# Name of the index that records how compactions moved rows.
FRAGMENT_REUSE: Final = "__lance_frag_reuse"
VECTOR_KIND: Final = "Vector"
TEXT_KIND: Final = "Inverted"
LISTED: Final = {"FM": "Fm"}  # kinds that pylance's list of indices spells differently
_METRICS: Final = {0: "L2", 1: "Cosine", 2: "Dot", 3: "Hamming"}
# Build options of codes, by the name of the codes in the details.
CODE_OPTIONS: Final = {
    "pq": ("num_bits", "num_sub_vectors"),
    "sq": ("num_bits",),
    "rq": ("num_bits",),
}


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
        """Kind of the index's files: of the index itself, or of the target of a JSON index."""
        return self.kind if self.kind != JSON_KIND else json_target(self.message).kind

    @property
    def finds_values(self) -> bool:
        """True if it finds exactly the rows with a value, so that merges look up keys in it."""
        return self.files_kind in _FINDS_VALUES

    @classmethod
    def from_protobuf(cls, message: table_pb2.IndexMetadata) -> Index:
        """Parse the manifest's record."""
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
    """Return the fragments in an index's bitmap."""
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
    """Parse the target of a JSON index."""
    # The message has a path and an `Any`. An `Any` has the same wire format (type URL and content),
    # so it can parse the message.
    where = f"index {message.name}: details"
    details = parsed(any_pb2.Any, message.index_details.value, where)
    target = parsed(any_pb2.Any, details.value, where)
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


def index_type(message: table_pb2.IndexMetadata) -> str:
    """Return the type of an index, such as `BTree` or `IVF_PQ`.

    Returns `Vector` if the record of a vector index does not contain its type, and `Unknown` if the
    record has no kind.
    """
    kind = kind_of(message)
    if kind != VECTOR_KIND:
        return LISTED.get(kind, kind) or "Unknown"
    details = _vector_details(message)
    compression = details.WhichOneof("compression")
    if compression is None:
        return VECTOR_KIND
    graph = "_HNSW" if details.HasField("hnsw_index_config") else ""
    return f"IVF{graph}_{compression.upper()}"


def details_of(message: table_pb2.IndexMetadata) -> dict[str, Any]:
    """Return the build options of an index, named as in pylance; empty if the record lacks them."""
    if kind_of(message) == JSON_KIND:
        target = json_target(message)
        return {"path": target.path, "target_details": {"index_type": target.kind}}
    if kind_of(message) != VECTOR_KIND or not message.index_details.value:
        return {}
    details = _vector_details(message)
    facts: dict[str, Any] = {"metric_type": _METRICS.get(details.metric_type, "Unknown")}
    if details.HasField("hnsw_index_config"):
        options = ("max_connections", "construction_ef", "max_level")
        facts["hnsw"] = {name: getattr(details.hnsw_index_config, name) for name in options}
    compression = details.WhichOneof("compression")
    if compression in CODE_OPTIONS:
        codes = getattr(details, compression)
        names = CODE_OPTIONS[compression]
        facts["compression"] = {
            "type": compression,
            **{name: getattr(codes, name) for name in names},
        }
    if compression == "rq":
        facts["compression"]["rotation_type"] = "matrix" if details.rq.rotation_type else "fast"
    return facts


def _vector_details(message: table_pb2.IndexMetadata) -> vector_index_pb2.VectorIndexDetails:
    # Imported late: tables without vectors do not need it.
    from alance.format.proto.vector_index_pb2 import VectorIndexDetails

    return parsed(VectorIndexDetails, message.index_details.value, f"index {message.name}: details")
