"""Aliases for types of numpy arrays by their contents, for annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes: TypeAlias = npt.NDArray[np.uint8]
    Float32s: TypeAlias = npt.NDArray[np.float32]
    Float64s: TypeAlias = npt.NDArray[np.float64]
    Int32s: TypeAlias = npt.NDArray[np.int32]
    Int64s: TypeAlias = npt.NDArray[np.int64]
    Mask: TypeAlias = npt.NDArray[np.bool_]
    UInt16s: TypeAlias = npt.NDArray[np.uint16]
    UInt32s: TypeAlias = npt.NDArray[np.uint32]
    UInt64s: TypeAlias = npt.NDArray[np.uint64]
