from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VectorMetricType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    L2: _ClassVar[VectorMetricType]
    COSINE: _ClassVar[VectorMetricType]
    DOT: _ClassVar[VectorMetricType]
    HAMMING: _ClassVar[VectorMetricType]
L2: VectorMetricType
COSINE: VectorMetricType
DOT: VectorMetricType
HAMMING: VectorMetricType

class VectorIndexDetails(_message.Message):
    __slots__ = ("metric_type", "hnsw_index_config", "pq", "sq", "rq", "flat", "runtime_hints")
    class Hnsw(_message.Message):
        __slots__ = ("max_connections", "construction_ef", "max_level")
        MAX_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
        CONSTRUCTION_EF_FIELD_NUMBER: _ClassVar[int]
        MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
        max_connections: int
        construction_ef: int
        max_level: int
        def __init__(self, max_connections: _Optional[int] = ..., construction_ef: _Optional[int] = ..., max_level: _Optional[int] = ...) -> None: ...
    class Product(_message.Message):
        __slots__ = ("num_bits", "num_sub_vectors")
        NUM_BITS_FIELD_NUMBER: _ClassVar[int]
        NUM_SUB_VECTORS_FIELD_NUMBER: _ClassVar[int]
        num_bits: int
        num_sub_vectors: int
        def __init__(self, num_bits: _Optional[int] = ..., num_sub_vectors: _Optional[int] = ...) -> None: ...
    class Scalar(_message.Message):
        __slots__ = ("num_bits",)
        NUM_BITS_FIELD_NUMBER: _ClassVar[int]
        num_bits: int
        def __init__(self, num_bits: _Optional[int] = ...) -> None: ...
    class Rabit(_message.Message):
        __slots__ = ("num_bits", "rotation_type")
        class Rotation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            FAST: _ClassVar[VectorIndexDetails.Rabit.Rotation]
            MATRIX: _ClassVar[VectorIndexDetails.Rabit.Rotation]
        FAST: VectorIndexDetails.Rabit.Rotation
        MATRIX: VectorIndexDetails.Rabit.Rotation
        NUM_BITS_FIELD_NUMBER: _ClassVar[int]
        ROTATION_TYPE_FIELD_NUMBER: _ClassVar[int]
        num_bits: int
        rotation_type: VectorIndexDetails.Rabit.Rotation
        def __init__(self, num_bits: _Optional[int] = ..., rotation_type: _Optional[_Union[VectorIndexDetails.Rabit.Rotation, str]] = ...) -> None: ...
    class Flat(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class RuntimeHintsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    METRIC_TYPE_FIELD_NUMBER: _ClassVar[int]
    HNSW_INDEX_CONFIG_FIELD_NUMBER: _ClassVar[int]
    PQ_FIELD_NUMBER: _ClassVar[int]
    SQ_FIELD_NUMBER: _ClassVar[int]
    RQ_FIELD_NUMBER: _ClassVar[int]
    FLAT_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_HINTS_FIELD_NUMBER: _ClassVar[int]
    metric_type: VectorMetricType
    hnsw_index_config: VectorIndexDetails.Hnsw
    pq: VectorIndexDetails.Product
    sq: VectorIndexDetails.Scalar
    rq: VectorIndexDetails.Rabit
    flat: VectorIndexDetails.Flat
    runtime_hints: _containers.ScalarMap[str, str]
    def __init__(self, metric_type: _Optional[_Union[VectorMetricType, str]] = ..., hnsw_index_config: _Optional[_Union[VectorIndexDetails.Hnsw, _Mapping]] = ..., pq: _Optional[_Union[VectorIndexDetails.Product, _Mapping]] = ..., sq: _Optional[_Union[VectorIndexDetails.Scalar, _Mapping]] = ..., rq: _Optional[_Union[VectorIndexDetails.Rabit, _Mapping]] = ..., flat: _Optional[_Union[VectorIndexDetails.Flat, _Mapping]] = ..., runtime_hints: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("data_type", "shape", "data")
    class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        BFLOAT16: _ClassVar[Tensor.DataType]
        FLOAT16: _ClassVar[Tensor.DataType]
        FLOAT32: _ClassVar[Tensor.DataType]
        FLOAT64: _ClassVar[Tensor.DataType]
        UINT8: _ClassVar[Tensor.DataType]
        UINT16: _ClassVar[Tensor.DataType]
        UINT32: _ClassVar[Tensor.DataType]
        UINT64: _ClassVar[Tensor.DataType]
    BFLOAT16: Tensor.DataType
    FLOAT16: Tensor.DataType
    FLOAT32: Tensor.DataType
    FLOAT64: Tensor.DataType
    UINT8: Tensor.DataType
    UINT16: Tensor.DataType
    UINT32: Tensor.DataType
    UINT64: Tensor.DataType
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    data_type: Tensor.DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, data_type: _Optional[_Union[Tensor.DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class IVF(_message.Message):
    __slots__ = ("centroids", "offsets", "lengths", "centroids_tensor", "loss")
    CENTROIDS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    CENTROIDS_TENSOR_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    centroids: _containers.RepeatedScalarFieldContainer[float]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    centroids_tensor: Tensor
    loss: float
    def __init__(self, centroids: _Optional[_Iterable[float]] = ..., offsets: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ..., centroids_tensor: _Optional[_Union[Tensor, _Mapping]] = ..., loss: _Optional[float] = ...) -> None: ...
