"""Type and build options of an index, from its record in the manifest.

Source: docs/format/search-indices.md, "What the manifest says of an index".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.table.indices import JSON_KIND, json_target, kind_of

if TYPE_CHECKING:
    from alance.format.proto import table_pb2, vector_index_pb2

VECTOR: Final = "Vector"
LISTED: Final = {"FM": "Fm"}  # kinds that pylance's list of indices spells differently
_METRICS: Final = {0: "L2", 1: "Cosine", 2: "Dot", 3: "Hamming"}


def index_type(message: table_pb2.IndexMetadata) -> str:
    """Return the type of an index, such as `BTree` or `IVF_PQ`.

    Returns `Vector` if the record of a vector index does not contain its type, and `Unknown` if the
    record has no kind.

    Raises:
        CorruptFileError: the details are not a message.
    """
    kind = kind_of(message)
    if kind != VECTOR:
        return LISTED.get(kind, kind) or "Unknown"
    details = _vector_details(message)
    compression = details.WhichOneof("compression")
    if compression is None:
        return VECTOR
    graph = "_HNSW" if details.HasField("hnsw_index_config") else ""
    return f"IVF{graph}_{compression.upper()}"


def details_of(message: table_pb2.IndexMetadata) -> dict[str, Any]:
    """Return the build options of an index, named as in pylance; empty if the record lacks them.

    Raises:
        CorruptFileError: the details are not a message.
    """
    if kind_of(message) == JSON_KIND:
        target = json_target(message)
        return {"path": target.path, "target_details": {"index_type": target.kind}}
    if kind_of(message) != VECTOR or not message.index_details.value:
        return {}
    details = _vector_details(message)
    facts: dict[str, Any] = {"metric_type": _METRICS.get(details.metric_type, "Unknown")}
    if details.HasField("hnsw_index_config"):
        graph = details.hnsw_index_config
        facts["hnsw"] = {
            "max_connections": graph.max_connections,
            "construction_ef": graph.construction_ef,
            "max_level": graph.max_level,
        }
    compression = details.WhichOneof("compression")
    if compression == "pq":
        codes = details.pq
        facts["compression"] = {
            "type": "pq",
            "num_bits": codes.num_bits,
            "num_sub_vectors": codes.num_sub_vectors,
        }
    elif compression == "sq":
        facts["compression"] = {"type": "sq", "num_bits": details.sq.num_bits}
    elif compression == "rq":
        rotation = "matrix" if details.rq.rotation_type else "fast"
        facts["compression"] = {
            "type": "rq",
            "num_bits": details.rq.num_bits,
            "rotation_type": rotation,
        }
    return facts


def _vector_details(message: table_pb2.IndexMetadata) -> vector_index_pb2.VectorIndexDetails:
    # Imported late: tables without vectors do not need it.
    from alance.format.proto import vector_index_pb2

    try:
        return vector_index_pb2.VectorIndexDetails.FromString(message.index_details.value)
    except DecodeError as error:
        raise CorruptFileError(f"index {message.name}: details {error!r}") from error
