"""A large table whose columns need one, two or three rounds to read a row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def table_of_all_shapes(num_rows: int) -> pa.Table:
    """Columns of all shapes, each of pages that are read in parts."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 1 << 60, num_rows)
    texts = [f"{number:x} and some more text" for number in numbers.tolist()]
    lists = pa.ListArray.from_arrays(
        np.arange(0, 2 * num_rows + 1, 2, dtype=np.int32), pa.array([*texts, *texts])
    )
    return pa.table(
        {
            "number": pa.array(numbers),
            "gaps": pa.array(numbers, mask=rng.random(num_rows) < 0.1),
            "text": texts,
            "list": pa.ListArray.from_arrays(
                np.arange(0, 4 * num_rows + 1, 4, dtype=np.int32), pa.array(np.tile(numbers, 4))
            ),
            "texts": lists,
            "struct": pa.StructArray.from_arrays([pa.array(numbers), pa.array(texts)], ["n", "t"]),
            "few": pa.array([texts[n % 5] for n in range(num_rows)]),
        }
    )


def numbers(start: int, stop: int) -> pa.Table:
    """Numbers from `start` to before `stop`, and the same as texts."""
    return pa.table({"a": range(start, stop), "b": [str(n) for n in range(start, stop)]})
