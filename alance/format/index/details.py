"""What the record of an index says of its type and of how it was made.

Source: docs/format/search-indices.md, "What the manifest says of an index".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.table.indices import JSON, json_target, kind_of

if TYPE_CHECKING:
    from alance.format.proto import table_pb2, vector_index_pb2

VECTOR: Final = "Vector"
_METRICS: Final = {0: "L2", 1: "Cosine", 2: "Dot", 3: "Hamming"}


def index_type(message: table_pb2.IndexMetadata) -> str:
    """The type of an index: `BTree`, `IVF_PQ`; `Vector` where the record does not say which one.

    Raises:
        CorruptFileError: details that are no message.
    """
    kind = kind_of(message)
    if kind != VECTOR:
        return kind or "Unknown"
    details = _vector_details(message)
    compression = details.WhichOneof("compression")
    if compression is None:
        return VECTOR
    graph = "_HNSW" if details.HasField("hnsw_index_config") else ""
    return f"IVF{graph}_{compression.upper()}"


def details_of(message: table_pb2.IndexMetadata) -> dict[str, Any]:
    """How an index was made, as pylance names it; empty where the record does not say.

    Raises:
        CorruptFileError: details that are no message.
    """
    if kind_of(message) == JSON:
        target = json_target(message)
        return {"path": target.path, "target_details": {"index_type": target.kind}}
    if kind_of(message) != VECTOR or not message.index_details.value:
        return {}
    details = _vector_details(message)
    told: dict[str, Any] = {"metric_type": _METRICS.get(details.metric_type, "Unknown")}
    if details.HasField("hnsw_index_config"):
        graph = details.hnsw_index_config
        told["hnsw"] = {
            "max_connections": graph.max_connections,
            "construction_ef": graph.construction_ef,
            "max_level": graph.max_level,
        }
    compression = details.WhichOneof("compression")
    if compression == "pq":
        codes = details.pq
        told["compression"] = {
            "type": "pq",
            "num_bits": codes.num_bits,
            "num_sub_vectors": codes.num_sub_vectors,
        }
    elif compression == "sq":
        told["compression"] = {"type": "sq", "num_bits": details.sq.num_bits}
    elif compression == "rq":
        rotation = "matrix" if details.rq.rotation_type else "fast"
        told["compression"] = {
            "type": "rq",
            "num_bits": details.rq.num_bits,
            "rotation_type": rotation,
        }
    return told


def _vector_details(message: table_pb2.IndexMetadata) -> vector_index_pb2.VectorIndexDetails:
    from alance.format.proto import vector_index_pb2  # tables without vectors do not need it

    try:
        return vector_index_pb2.VectorIndexDetails.FromString(message.index_details.value)
    except DecodeError as error:
        raise CorruptFileError(f"index {message.name}: details {error!r}") from error
