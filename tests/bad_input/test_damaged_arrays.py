"""Arrow arrays that contradict themselves, which pyarrow makes unasked: the column is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import InvalidInputError
from alance.errors import TableNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

NUM_COLUMNS = 40


def damaged_texts() -> pa.Array:
    """Texts whose offsets leave their bytes."""
    offsets = np.array([0, 1, 200_000, 3], np.int32)
    return pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")]
    )


@pytest.mark.parametrize("statistics", [True, False])
async def test_of_many_columns_the_damaged_one_is_named(tmp_path: Path, statistics: bool) -> None:
    columns = {f"c{number}": pa.array([1, 2, 3]) for number in range(NUM_COLUMNS)}
    rows = pa.table({**columns, "c7": ["a", "b", "c"], "c23": damaged_texts()})
    with pytest.raises(InvalidInputError, match=r"^field 'c23': .*offsets decrease or leave"):
        await alance.write_dataset(rows, tmp_path / "t", statistics=statistics)
    with pytest.raises(TableNotFoundError):
        await alance.dataset(tmp_path / "t")
