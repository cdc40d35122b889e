"""Files of vector indices (IVF): centroids in `index.idx`, quantized vectors in `auxiliary.idx`.

`index.idx` has the index type, the metric and the centroids. `auxiliary.idx` has the rows of
consecutive partitions: row ids, and the columns of the quantizer. Both are Lance files; their
schema's metadata has the number of the global buffer with an `IVF` message.

    index.idx       __flat_marker, without rows       global buffer: IVF
    auxiliary.idx   _rowid, then columns of codes     global buffers: IVF, codebook or rotation

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.container import TAIL_BYTES
from alance.format.index.values import METRICS, values_of
from alance.format.numbers import as_numbers
from alance.format.proto import parsed, vector_index_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance import _kernels
    from alance.base.arrays import Float32s, Int64s, UInt64s


INDEX_FILE: Final = "index.idx"
STORAGE_FILE: Final = "auxiliary.idx"
VECTOR_ROW_IDS: Final = "_rowid"
MARKER: Final = "__flat_marker"  # only column of `index.idx` without graphs
# Keys of the schemas' metadata.
TYPE: Final = "lance:index"
BUFFER: Final = "lance:ivf"
NO_GRAPHS: Final = "lance:flat"
METRIC: Final = "distance_type"
STORAGE: Final = "storage_metadata"
IVF_CODE_KINDS: Final = ("FLAT", "PQ", "SQ", "RQ")
# Key: rows per partition that the centroids were trained for.
AIMED: Final = "alance:partition_rows"
# Key in the details of an index's record: bytes at the end of `auxiliary.idx` to read first.
TAIL: Final = "alance.tail_bytes"
LEAST_HINTED: Final = 16 << 10  # bytes; every reader reads a tail that has smaller buffers
MOST_HINTED: Final = 4 << 20  # bytes; larger hints are capped
MAX_DIM: Final = 1 << 20
_DTYPES: Final[Mapping[vector_index_pb2.Tensor.DataType, np.dtype[Any]]] = {
    vector_index_pb2.Tensor.BFLOAT16: np.dtype("<u2"),
    vector_index_pb2.Tensor.FLOAT16: np.dtype("<f2"),
    vector_index_pb2.Tensor.FLOAT32: np.dtype("<f4"),
    vector_index_pb2.Tensor.FLOAT64: np.dtype("<f8"),
    vector_index_pb2.Tensor.UINT8: np.dtype("u1"),
}


@dataclass(frozen=True, slots=True)
class Centroids:
    """Metric, kind of codes and centroids of a vector index, from `index.idx`.

    Attributes:
        kind: kind of the vectors' codes: FLAT, PQ, SQ or RQ.
        values: centroids; shape (partitions, dimension), float32.
    """

    kind: str
    has_graphs: bool
    metric: str
    values: Float32s

    @property
    def dim(self) -> int:
        return int(self.values.shape[1])

    @classmethod
    def parse(cls, metadata: Mapping[str, str], content: memoryview) -> Centroids:
        """Parse the schema's metadata and the `IVF` message."""
        kind_and_metric = json_of(metadata, TYPE)
        type_ = str(kind_and_metric.get("type"))
        metric = str(kind_and_metric.get(METRIC))
        words = type_.split("_")
        has_graphs = words[:2] == ["IVF", "HNSW"]
        kind = type_.removeprefix("IVF_").removeprefix("HNSW_")
        if words[0] != "IVF" or kind not in IVF_CODE_KINDS or metric not in METRICS:
            raise UnsupportedError(f"vector index of type {type_} by {metric}")
        values = parse_centroids(content).astype(np.float32)
        return cls(kind, has_graphs, metric, values)


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of a partition in memory.

    Attributes:
        number: number of the partition and of its centroid.
        columns: values of the quantizer's columns, row by row; then derived values, such as the
            distance terms of PQ.
        graph: graph to search; None to compare all rows.
    """

    number: int
    ids: UInt64s
    columns: tuple[npt.NDArray[Any], ...]
    graph: _kernels.Graph | None = None
    ef: int = 0

    @classmethod
    def of(cls, number: int, batch: pa.RecordBatch, names: Sequence[str]) -> Partition:
        """Copy rows of `auxiliary.idx` into a partition; `names` are the quantizer's columns."""
        arrays = [batch.column(name) for name in (VECTOR_ROW_IDS, *names)]
        if any(array.null_count for array in arrays):
            raise CorruptFileError(f"vector index: nulls in partition {number}")
        values = []
        for array in arrays[1:]:
            if pa.types.is_fixed_size_list(array.type):
                content, valid = values_of(array)
                if len(valid):
                    raise CorruptFileError(f"vector index: nulls in partition {number}")
                values.append(content.copy())
            else:
                values.append(as_numbers(array).copy())
        return cls(number, as_numbers(arrays[0]).copy(), tuple(values))

    @property
    def num_bytes(self) -> int:
        """Memory in bytes, without the graph."""
        return 200 + int(self.ids.nbytes) + sum(int(column.nbytes) for column in self.columns)


def partition_offsets(content: memoryview, num_partitions: int, num_rows: int) -> Int64s:
    """Parse an `IVF` message: first row of each partition, then the number of rows."""
    message = parsed(vector_index_pb2.IVF, content, "vector index")
    lengths = np.array(message.lengths, np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if len(lengths) != num_partitions or int(offsets[-1]) != num_rows:
        raise CorruptFileError(
            f"vector index: {len(lengths)} partitions of {offsets[-1]} rows, expected "
            f"{num_partitions} of {num_rows}"
        )
    filled = np.flatnonzero(lengths)
    starts = np.array(message.offsets, np.uint64)
    if len(starts) != len(lengths) or not np.array_equal(starts[filled], offsets[filled]):
        raise CorruptFileError("vector index: partitions are not one behind the other")
    return offsets


def storage_metadata(metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """Parse the quantizer's metadata: a JSON list whose only item is a string of JSON."""
    listed = json_of(metadata, STORAGE)
    if not isinstance(listed, list) or len(listed) != 1:
        raise CorruptFileError("vector index: no storage metadata")
    return _object(listed[0])


def buffer_number(metadata: Mapping[str, str]) -> int:
    """Return the number of the global buffer with the `IVF` message."""
    return integer(metadata, BUFFER)


def integer(values: Mapping[Any, Any], name: str) -> int:
    """Return a non-negative integer from metadata."""
    try:
        number = int(values[name])
    except (KeyError, TypeError, ValueError):
        number = -1
    if number < 0:
        raise CorruptFileError(f"vector index: {name!r} is {values.get(name)!r}")
    return number


def parse_centroids(content: memoryview) -> npt.NDArray[Any]:
    """Return the centroids of an `IVF` message, in their stored type; see `tensor`."""
    return tensor(parsed(vector_index_pb2.IVF, content, "vector index").centroids_tensor, 2)


def tensor(message: vector_index_pb2.Tensor, dims: int) -> npt.NDArray[Any]:
    """Return the values of a tensor in its shape; read-only. bfloat16 becomes float32."""
    dtype = _DTYPES.get(message.data_type)
    shape = tuple(message.shape)
    if dtype is None:
        names = {number: name for name, number in vector_index_pb2.Tensor.DataType.items()}
        name = names.get(message.data_type, message.data_type)
        raise UnsupportedError(f"vector index: values of type {name}")
    if len(shape) != dims or min(shape) < 1 or max(shape[1:]) > MAX_DIM:
        raise CorruptFileError(f"vector index: values of shape {shape}")
    if len(message.data) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise CorruptFileError(f"vector index: {len(message.data)} bytes for shape {shape}")
    values = np.frombuffer(message.data, dtype)
    if message.data_type == vector_index_pb2.Tensor.BFLOAT16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.reshape(shape)


def parse_tensor(content: memoryview, dims: int) -> npt.NDArray[Any]:
    """Parse the bytes of a tensor message; see `tensor`."""
    return tensor(parsed(vector_index_pb2.Tensor, content, "vector index"), dims)


def tensor_of(values: npt.NDArray[Any]) -> vector_index_pb2.Tensor:
    """Encode an array of float16, float32, float64 or uint8 as a tensor message."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    kinds = {dtype: number for number, dtype in _DTYPES.items()}
    return vector_index_pb2.Tensor(
        data_type=kinds[little.dtype], shape=values.shape, data=little.tobytes()
    )


def ivf_bytes(lengths: Int64s, centroids: npt.NDArray[Any] | None = None) -> bytes:
    """Encode an `IVF` message.

    Args:
        lengths: number of rows of each partition in the file.
        centroids: for `index.idx`, centroids in the type of the vectors; shape (partitions,
            dimension).
    """
    return vector_index_pb2.IVF(
        offsets=(np.cumsum(lengths) - lengths).tolist(),
        lengths=lengths.tolist(),
        centroids_tensor=None if centroids is None else tensor_of(centroids),
    ).SerializeToString(deterministic=True)


def hint_tail_bytes(details: vector_index_pb2.VectorIndexDetails, buffer_bytes: int) -> None:
    """Store in an index's record how many bytes at the end of `auxiliary.idx` to read first.

    Small buffers need no hint, because they are in the tail that a reader always reads.
    """
    if buffer_bytes > LEAST_HINTED:
        details.runtime_hints[TAIL] = str(buffer_bytes + TAIL_BYTES)


def hinted_tail_bytes(details: bytes) -> int:
    """Return how many bytes at the end of `auxiliary.idx` to read first.

    Returns the default size of a tail if the index's details have no hint.
    """
    try:
        hints = vector_index_pb2.VectorIndexDetails.FromString(details).runtime_hints
        return min(max(int(hints.get(TAIL, 0)), TAIL_BYTES), MOST_HINTED)
    # Details of another kind or writer; reading works without a hint.
    except (DecodeError, ValueError):
        return TAIL_BYTES


def storage_text(storage: Mapping[str, Any]) -> str:
    """Return the metadata value for `STORAGE`: the inverse of `storage_metadata`."""
    return json.dumps([json.dumps(storage, separators=(",", ":"))], separators=(",", ":"))


def json_of(metadata: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(metadata[name])
    except (KeyError, ValueError) as error:
        raise CorruptFileError(f"vector index: metadata {name!r}: {error!r}") from None


def _object(text: object) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise CorruptFileError(f"vector index: storage metadata {text!r}")
    return parsed
