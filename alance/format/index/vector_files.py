"""What the two files of a vector index say beside their rows.

`auxiliary.idx` has the vectors, as they are or coded, partition after partition; `index.idx` the
centroids. Both have an `IVF` message in a global buffer: that of the first has the partitions'
places, that of the second the centroids.

    auxiliary.idx   _rowid, then columns of codes     global buffers: IVF, codebook of PQ
    index.idx       __flat_marker, without rows       global buffer: IVF

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.proto import vector_index_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Rows = npt.NDArray[np.int64]

VECTORS_FILE: Final = "auxiliary.idx"
CENTROIDS_FILE: Final = "index.idx"
ROW_ID: Final = "_rowid"
MARKER: Final = "__flat_marker"
FLAT: Final = "flat"
PQ_CODES: Final = "__pq_code"
SQ_CODES: Final = "__sq_code"
SIGN_CODES: Final = "_rabit_codes"
# Keys of the schemas' metadata.
KIND: Final = "lance:index"
IVF: Final = "lance:ivf"
GRAPHS: Final = "lance:hnsw"
NO_GRAPHS: Final = "lance:flat"
METRIC: Final = "distance_type"
STORAGE: Final = "storage_metadata"

_TYPES: Final[dict[np.dtype[Any], vector_index_pb2.Tensor.DataType]] = {
    np.dtype(np.float16): vector_index_pb2.Tensor.FLOAT16,
    np.dtype(np.float32): vector_index_pb2.Tensor.FLOAT32,
    np.dtype(np.float64): vector_index_pb2.Tensor.FLOAT64,
    np.dtype(np.uint8): vector_index_pb2.Tensor.UINT8,
}
_DTYPES: Final[dict[int, np.dtype[Any]]] = {number: dtype for dtype, number in _TYPES.items()}


def tensor_of(values: npt.NDArray[Any]) -> vector_index_pb2.Tensor:
    """A tensor of float16, float32, float64 or uint8, of any shape."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return vector_index_pb2.Tensor(
        data_type=_TYPES[values.dtype], shape=values.shape, data=little.tobytes()
    )


def parse_tensor(content: bytes) -> vector_index_pb2.Tensor:
    """The message in a global buffer.

    Raises:
        CorruptFileError: no such message.
    """
    try:
        return vector_index_pb2.Tensor.FromString(content)
    except DecodeError as error:
        raise CorruptFileError(f"vector index: no tensor of {len(content)} bytes") from error


def array_of(tensor: vector_index_pb2.Tensor) -> npt.NDArray[Any]:
    """The values of a tensor, read-only.

    Raises:
        UnsupportedError: values of another type.
        CorruptFileError: more or fewer values than its shape says.
    """
    dtype = _DTYPES.get(tensor.data_type)
    if dtype is None:
        raise UnsupportedError(f"vector index: a tensor of type {tensor.data_type}")
    shape = tuple(tensor.shape)
    if len(tensor.data) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise CorruptFileError(
            f"vector index: a tensor of shape {shape} and {dtype} in {len(tensor.data)} bytes"
        )
    return np.frombuffer(tensor.data, dtype.newbyteorder("<")).reshape(shape)


def parse_ivf(content: bytes) -> vector_index_pb2.IVF:
    """The message in a global buffer.

    Raises:
        CorruptFileError: no such message.
    """
    try:
        return vector_index_pb2.IVF.FromString(content)
    except DecodeError as error:
        raise CorruptFileError(f"vector index: no IVF message of {len(content)} bytes") from error


def partition_ends(message: vector_index_pb2.IVF, num_rows: int) -> Rows:
    """Where each partition's rows end in `auxiliary.idx`; they follow each other.

    Raises:
        CorruptFileError: partitions that are not all the rows of the file.
    """
    lengths = np.array(message.lengths, np.int64)
    ends = np.cumsum(lengths)
    offsets = np.array(message.offsets, np.uint64).astype(np.int64)
    total = int(ends[-1]) if len(ends) else 0
    if total != num_rows or not np.array_equal(offsets, ends - lengths):
        raise CorruptFileError(
            f"vector index: {len(lengths)} partitions of {total} rows, in a file of {num_rows}"
        )
    return ends


def ivf_of_partitions(lengths: Rows) -> bytes:
    """The message of `auxiliary.idx`: partitions of so many rows, one after the other."""
    ends = np.cumsum(lengths)
    return vector_index_pb2.IVF(
        offsets=(ends - lengths).tolist(), lengths=lengths.tolist()
    ).SerializeToString(deterministic=True)


def ivf_of_centroids(centroids: npt.NDArray[Any], loss: float | None = None) -> bytes:
    """The message of `index.idx`.

    Args:
        centroids: of the type of the vectors; shape (partitions, dimension).
    """
    nothing = [0] * len(centroids)
    message = vector_index_pb2.IVF(
        offsets=nothing, lengths=nothing, centroids_tensor=tensor_of(centroids), loss=loss
    )
    return message.SerializeToString(deterministic=True)


def storage_of(metadata: Mapping[str, str]) -> dict[str, Any]:
    """How `auxiliary.idx` stores vectors, from its schema's metadata.

    Raises:
        CorruptFileError: it does not tell.
    """
    try:
        (text,) = json.loads(metadata[STORAGE])
        storage = json.loads(text)
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptFileError(f"vector index: no {STORAGE} ({error})") from error
    if not isinstance(storage, dict):
        raise CorruptFileError(f"vector index: {STORAGE} {text!r}")
    return storage


def storage_text(storage: Mapping[str, Any]) -> str:
    """The value of `STORAGE` for a storage."""
    return json.dumps([json.dumps(storage, separators=(",", ":"))], separators=(",", ":"))


def kind_of(metadata: Mapping[str, str]) -> tuple[str, str]:
    """The type of the index (`IVF_PQ`) and its metric, from the metadata of `index.idx`.

    Raises:
        CorruptFileError: it does not tell.
    """
    try:
        told = json.loads(metadata[KIND])
        return str(told["type"]), str(told["distance_type"])
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptFileError(f"vector index: no {KIND} ({error})") from error


def buffer_number(metadata: Mapping[str, Any], key: str) -> int:
    """The number of a global buffer that metadata tells.

    Raises:
        CorruptFileError: it does not tell.
    """
    value = metadata.get(key)
    text = str(value)
    if not text.isascii() or not text.isdigit():
        raise CorruptFileError(f"vector index: {key} {value!r}, expected a buffer's number")
    return int(text)


def has_graphs(details: bytes) -> bool:
    """Whether the details in an index's record tell of graphs (HNSW).

    Raises:
        CorruptFileError: no such details.
    """
    try:
        return vector_index_pb2.VectorIndexDetails.FromString(details).HasField("hnsw_index_config")
    except DecodeError as error:
        raise CorruptFileError(f"vector index: details of {len(details)} bytes") from error
