"""Values inside of JSONB and of JSON text by a path, and the numbers that they say."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import CorruptFileError
from alance.expr.builders import json_values
from alance.expr.builders.json_values import ALL_ITEMS, ALL_MEMBERS, LAST_ITEM, NO_ITEM, PathStep
from alance.format.jsonb import json_text, jsonb

ITEMS = st.sampled_from([0, 1, LAST_ITEM, LAST_ITEM - 1, NO_ITEM, ALL_ITEMS, ALL_MEMBERS])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(-1e300, 1e300)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=8,
)
STEPS = st.lists(
    st.builds(PathStep, st.sampled_from("ab"), st.none(), st.just(()))
    | st.builds(PathStep, st.none(), ITEMS, st.just(()) | st.tuples(ITEMS)),
    max_size=3,
)


@given(st.lists(VALUES, min_size=1, max_size=4), STEPS, st.booleans())
def test_values_of_jsonb_are_those_of_its_text(
    values: list[Any], steps: list[PathStep], plain: bool
) -> None:
    stored = jsonb(pa.array(map(json.dumps, values), pa.large_string()), None, "j")
    of_text = json_text(stored, None)
    arrays = [
        pa.Array.from_buffers(
            type_,
            len(values),
            [None, pa.py_buffer(block.offsets.astype(np.int64)), pa.py_buffer(block.data)],
        )
        for type_, block in ((pa.large_binary(), stored), (pa.large_string(), of_text))
    ]
    first, second = (json_values._find(array, steps, plain=plain) for array in arrays)
    assert first.kinds.tolist() == second.kinds.tolist()
    assert first.values.to_pylist() == second.values.to_pylist()


@given(st.binary(max_size=40), STEPS)
def test_bytes_that_are_no_jsonb_are_read_or_told(content: bytes, steps: list[PathStep]) -> None:
    documents = pa.array([content], pa.large_binary())
    try:
        answer = json_values._find(documents, steps, plain=True)
    except (CorruptFileError, TypeError):
        return
    answer.values.validate(full=True)


def test_texts_that_are_no_utf8_are_told() -> None:
    stored = jsonb(pa.array(['{"a": "bb"}'], pa.large_string()), None, "j")
    content = bytes(stored.data).replace(b"bb", b"\xff\xfe")
    with pytest.raises(CorruptFileError, match="no UTF-8"):
        json_values._find(pa.array([content], pa.large_binary()), [PathStep("a", None)], plain=True)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15)))
def test_numbers_are_those_that_texts_say(numbers: list[float]) -> None:
    texts = [repr(number) for number in numbers]
    content = np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    kinds = np.full(len(texts), 3, np.uint8)
    whole, strange = _kernels.json_whole(offsets, content, kinds)
    rounded = [int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP)) for number in numbers]
    assert strange == -1
    assert whole.tolist() == rounded
    real, strange = _kernels.json_real(offsets, content, kinds)
    assert strange == -1
    assert real.tolist() == [float(number) for number in numbers]
