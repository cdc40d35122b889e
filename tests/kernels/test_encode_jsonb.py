"""JSON text to JSONB: the kernel against plain Python, and back to text."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.format.jsonb import jsonb
from tests.reference.jsonb import encode

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def stored(*texts: str | None) -> list[bytes]:
    array = pa.array(texts, pa.large_string())
    valid = None
    if array.null_count:
        valid = np.array([text is not None for text in texts])
    result = jsonb(array, valid, "f")
    data, offsets = result.data.tobytes(), result.offsets.tolist()
    return [data[start:stop] for start, stop in pairwise(offsets)]


@given(VALUES, st.booleans())
def test_any_value_is_encoded_as_by_python(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    try:
        text.encode()
        expected = encode(text)
    except (UnicodeEncodeError, ValueError):
        return
    assert stored(text) == [expected]


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\u00d8\n', max_size=24))
def test_any_text_is_encoded_or_refused_as_by_python(text: str) -> None:
    try:
        expected = encode(text)
    except (ValueError, RecursionError):
        with pytest.raises(InvalidInputError, match="no JSON"):
            stored(text)
    else:
        assert stored(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[1,]",
        '{"a":1,}',
        '{"a" 1}',
        "01",
        "1.",
        ".5",
        "1e",
        "+1",
        "NaN",
        "Infinity",
        "-",
        "1e999",
        '"\n"',
        '"\\x"',
        '"\\ud800"',
        '"\\udc00"',
        '"\\u12"',
        '"open',
        "[1",
        "1 2",
        '{"a":1,"a":2}',
        "[" * 129 + "]" * 129,
    ],
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(InvalidInputError, match="field 'f': row 1 is no JSON"):
        stored("1", text)


def test_rows_and_nulls() -> None:
    texts = ["1", None, "[]", None, '{"b": 1, "a": [null, -0.0, 1e-400]}']
    assert stored(*texts) == [b"" if text is None else encode(text) for text in texts]
    array = pa.array(["0", *texts], pa.large_string())[1:]
    valid = np.array([text is not None for text in texts])
    assert np.diff(jsonb(array, valid, "f").offsets).tolist() == [
        0 if text is None else len(encode(text)) for text in texts
    ]
    assert stored() == []


def test_values_as_deep_as_the_limit_are_encoded() -> None:
    text = "[" * 128 + "]" * 128
    assert stored(text) == [encode(text)]
