"""The files of vector indices (IVF): centroids in one, quantised vectors by partition in another.

`index.idx` has the type, the metric and the centroids; `auxiliary.idx` the rows of each partition,
one partition behind the other: row ids, and columns that the quantiser knows. Both are Lance files,
whose schema's metadata says the number of the global buffer with an `IVF` message.

    index.idx       __flat_marker, without rows       global buffer: IVF
    auxiliary.idx   _rowid, then columns of codes     global buffers: IVF, codebook or rotation

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.container import TAIL_BYTES
from alance.format.index.values import METRICS, values_of
from alance.format.numbers import as_numbers
from alance.format.proto import vector_index_pb2
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance import _kernels
    from alance.arrays import Bytes, Float32s, Float64s, Int32s, Int64s, UInt64s


INDEX_FILE: Final = "index.idx"
STORAGE_FILE: Final = "auxiliary.idx"
ROW_IDS: Final = "_rowid"
MARKER: Final = "__flat_marker"  # the column of `index.idx`, where there are no graphs
# Keys of the schemas' metadata.
TYPE: Final = "lance:index"
BUFFER: Final = "lance:ivf"
NO_GRAPHS: Final = "lance:flat"
METRIC: Final = "distance_type"
STORAGE: Final = "storage_metadata"
KINDS: Final = ("FLAT", "PQ", "SQ", "RQ")
AIMED: Final = "alance:partition_rows"  # of the schema's metadata: when centroids were found
TAIL: Final = "alance.tail_bytes"  # a hint in the details of the record
LEAST_TOLD: Final = 16 << 10  # of buffers: fewer are in the tail that is read of any file
MOST_TOLD: Final = 4 << 20
MAX_DIM: Final = 1 << 20
_DTYPES: Final[Mapping[int, np.dtype[Any]]] = {
    vector_index_pb2.Tensor.BFLOAT16: np.dtype("<u2"),
    vector_index_pb2.Tensor.FLOAT16: np.dtype("<f2"),
    vector_index_pb2.Tensor.FLOAT32: np.dtype("<f4"),
    vector_index_pb2.Tensor.FLOAT64: np.dtype("<f8"),
    vector_index_pb2.Tensor.UINT8: np.dtype("u1"),
}
_NUMBERS: Final[Mapping[np.dtype[Any], vector_index_pb2.Tensor.DataType]] = {
    np.dtype(np.float16): vector_index_pb2.Tensor.FLOAT16,
    np.dtype(np.float32): vector_index_pb2.Tensor.FLOAT32,
    np.dtype(np.float64): vector_index_pb2.Tensor.FLOAT64,
    np.dtype(np.uint8): vector_index_pb2.Tensor.UINT8,
}


@dataclass(frozen=True, slots=True)
class Centroids:
    """What `index.idx` says: how vectors are compared, and where partitions are.

    Attributes:
        kind: of the vectors' codes: FLAT, PQ, SQ or RQ.
        has_graphs: the partitions have HNSW graphs.
        values: shape (partitions, dimension), float32.
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
        """From the schema's metadata and the `IVF` message.

        Raises:
            CorruptFileError: bytes that contradict themselves.
            UnsupportedError: another type of index or metric.
        """
        told = json_of(metadata, TYPE)
        type_, metric = str(told.get("type")), str(told.get(METRIC))
        words = type_.split("_")
        has_graphs = words[:2] == ["IVF", "HNSW"]
        kind = type_.removeprefix("IVF_").removeprefix("HNSW_")
        if words[0] != "IVF" or kind not in KINDS or metric not in METRICS:
            raise UnsupportedError(f"vector index of type {type_} by {metric}")
        values = parse_centroids(content).astype(np.float32)
        return cls(kind, has_graphs, metric, values)


class Quantizer(Protocol):
    """How the vectors of an index are stored, and compared.

    Attributes:
        columns: of `auxiliary.idx`, beside the row ids.
        is_exact: the distances are those of the vectors themselves.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def is_exact(self) -> bool: ...

    def queries(self, queries: Float64s) -> Float64s:
        """The queries as they are compared with codes; given as the metric wants them."""
        ...

    def check(self, schema: pa.Schema) -> None:
        """Raises CorruptFileError where the columns are not those of this quantiser."""
        ...

    def kept(self, partition: Partition) -> Partition:
        """A partition that was read, as it is kept in memory; CPU work."""
        ...

    def add(
        self,
        nearest: _kernels.Nearest,
        numbers: Int32s,
        partition: Partition,
        mask: Bytes,
    ) -> None:
        """Add the rows of a partition to the nearest of some queries."""
        ...


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of a partition, in memory.

    Attributes:
        number: of the partition, for its centroid.
        ids: row ids, uint64; shape (n,).
        columns: the values of the quantiser's columns, each row after row; and what it keeps
            beside them.
        graph: to follow instead of comparing all rows.
        ef: rows that are looked for on it.
    """

    number: int
    ids: UInt64s
    columns: tuple[npt.NDArray[Any], ...]
    graph: _kernels.Graph | None = None
    ef: int = 0

    @classmethod
    def of(cls, number: int, batch: pa.RecordBatch, names: Sequence[str]) -> Partition:
        """From the rows of the file, as an own copy.

        Raises:
            CorruptFileError: nulls.
        """
        arrays = [batch.column(name) for name in (ROW_IDS, *names)]
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
        """Memory."""
        return 200 + int(self.ids.nbytes) + sum(int(column.nbytes) for column in self.columns)


@dataclass(frozen=True, slots=True)
class Storage:
    """What `auxiliary.idx` says of its rows.

    Attributes:
        offsets: the first row of each partition, and the number of all; shape (partitions + 1,).
        told: the quantiser's own metadata.
    """

    offsets: Int64s
    told: Mapping[str, Any]

    @classmethod
    def parse(
        cls,
        metadata: Mapping[str, str],
        content: memoryview,
        num_partitions: int,
        num_rows: int,
    ) -> Storage:
        """From the schema's metadata and the `IVF` message.

        Raises:
            CorruptFileError: partitions that are not the rows of the file, one after the other.
        """
        offsets = partition_offsets(content, num_partitions, num_rows)
        return cls(offsets, storage_metadata(metadata))


def partition_offsets(content: memoryview, num_partitions: int, num_rows: int) -> Int64s:
    """Where the partitions of a file begin, and where the last one ends, by its `IVF` message.

    Raises:
        CorruptFileError: partitions that are not the rows of the file, one after the other.
    """
    message = _ivf(content)
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
    """The quantiser's own metadata: JSON in a list of JSON.

    Raises:
        CorruptFileError: it is none.
    """
    listed = json_of(metadata, STORAGE)
    if not isinstance(listed, list) or len(listed) != 1:
        raise CorruptFileError("vector index: no storage metadata")
    return _object(listed[0])


def buffer_number(metadata: Mapping[str, str]) -> int:
    """The global buffer with the `IVF` message.

    Raises:
        CorruptFileError: none is named.
    """
    return integer(metadata, BUFFER)


def integer(values: Mapping[Any, Any], name: str) -> int:
    """A whole number of metadata.

    Raises:
        CorruptFileError: it is none, or below 0.
    """
    try:
        number = int(values[name])
    except (KeyError, TypeError, ValueError):
        number = -1
    if number < 0:
        raise CorruptFileError(f"vector index: {name!r} is {values.get(name)!r}")
    return number


def parse_centroids(content: memoryview) -> npt.NDArray[Any]:
    """The centroids in an `IVF` message, of the type that they are stored in; see `tensor`."""
    return tensor(_ivf(content).centroids_tensor, 2)


def tensor(message: vector_index_pb2.Tensor, dims: int) -> npt.NDArray[Any]:
    """The values of a tensor, in its shape; read-only. Bfloat16 becomes float32.

    Raises:
        CorruptFileError: bytes or shape that contradict each other.
        UnsupportedError: a type of values that vectors do not have.
    """
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
    """`tensor` of a message's bytes."""
    try:
        return tensor(vector_index_pb2.Tensor.FromString(bytes(content)), dims)
    except DecodeError as error:
        raise CorruptFileError(f"vector index: {error}") from error


def tensor_of(values: npt.NDArray[Any]) -> vector_index_pb2.Tensor:
    """A tensor of float16, float32, float64 or uint8, of any shape."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return vector_index_pb2.Tensor(
        data_type=_NUMBERS[values.dtype], shape=values.shape, data=little.tobytes()
    )


def ivf_of_partitions(lengths: Int64s) -> bytes:
    """The message of `auxiliary.idx`: partitions of so many rows, one after the other."""
    ends = np.cumsum(lengths)
    return vector_index_pb2.IVF(
        offsets=(ends - lengths).tolist(), lengths=lengths.tolist()
    ).SerializeToString(deterministic=True)


def ivf_of_centroids(centroids: npt.NDArray[Any], lengths: Int64s | None = None) -> bytes:
    """The message of `index.idx`.

    Args:
        centroids: of the type of the vectors; shape (partitions, dimension).
        lengths: the file's rows of each partition; None: it has no rows.
    """
    if lengths is None:
        lengths = np.zeros(len(centroids), np.int64)
    ends = np.cumsum(lengths)
    return vector_index_pb2.IVF(
        offsets=(ends - lengths).tolist(),
        lengths=lengths.tolist(),
        centroids_tensor=tensor_of(centroids),
    ).SerializeToString(deterministic=True)


def tell_tail(details: vector_index_pb2.VectorIndexDetails, buffer_bytes: int) -> None:
    """Note how much of the end of `auxiliary.idx` is read before any partition, where that is more
    than of other files.

    Args:
        buffer_bytes: of its global buffers.
    """
    if buffer_bytes > LEAST_TOLD:
        details.runtime_hints[TAIL] = str(buffer_bytes + TAIL_BYTES)


def told_tail(details: bytes) -> int:
    """The bytes of the end of `auxiliary.idx` to read first, by the details of the record."""
    try:
        hints = vector_index_pb2.VectorIndexDetails.FromString(details).runtime_hints
        return min(max(int(hints.get(TAIL, 0)), TAIL_BYTES), MOST_TOLD)
    except (DecodeError, ValueError):  # of another kind, or by others: a hint is all it is
        return TAIL_BYTES


def storage_text(told: Mapping[str, Any]) -> str:
    """The value of `STORAGE`: the inverse of `storage_metadata`."""
    return json.dumps([json.dumps(told, separators=(",", ":"))], separators=(",", ":"))


def _ivf(content: memoryview) -> vector_index_pb2.IVF:
    try:
        return vector_index_pb2.IVF.FromString(bytes(content))
    except DecodeError as error:
        raise CorruptFileError(f"vector index: {error}") from error


def json_of(metadata: Mapping[str, str], name: str) -> Any:
    """A value of metadata that is JSON.

    Raises:
        CorruptFileError: it is none, or not there.
    """
    try:
        return json.loads(metadata[name])
    except (KeyError, ValueError) as error:
        raise CorruptFileError(f"vector index: metadata {name!r}: {error!r}") from None


def _object(text: object) -> Mapping[str, Any]:
    try:
        told = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise CorruptFileError(f"vector index: storage metadata {text!r}")
    return told
