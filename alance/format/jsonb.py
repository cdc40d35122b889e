"""JSONB, the stored form of JSON columns, to JSON text.

Source: docs/format/file.md, "JSONB".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import UnsupportedError, kernel_errors
from alance.format.blocks import VariableWidth

if TYPE_CHECKING:
    import numpy.typing as npt

NOTHING: Final = np.empty(0, np.uint8)


def json_text(values: VariableWidth, valid: npt.NDArray[np.bool_] | None) -> VariableWidth:
    """Compact JSON text of each value; empty for nulls.

    Args:
        values: one JSONB container each.
        valid: shape (n,); None: all are valid.

    Raises:
        CorruptFileError: bytes that contradict the format.
        UnsupportedError: values that JSON text has not, or more than 2 GiB of text.
    """
    some = NOTHING if valid is None else valid.view(np.uint8)
    try:
        with kernel_errors:
            return VariableWidth(*_kernels.jsonb_to_text(values.offsets, values.data, some))
    except TypeError as error:
        raise UnsupportedError(str(error)) from error
