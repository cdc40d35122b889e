"""JSONB to JSON text: the specification's bytes, what pylance stores, and bytes that are wrong."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.blocks import VariableWidth
from alance.format.jsonb import json_text


def strings(values: list[bytes]) -> VariableWidth:
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    return VariableWidth(offsets, np.frombuffer(b"".join(values), np.uint8))


def texts(values: list[bytes], valid: list[bool] | None = None) -> list[str]:
    result = json_text(strings(values), None if valid is None else np.array(valid))
    content = bytes(result.data)
    return [
        content[start:stop].decode()
        for start, stop in zip(result.offsets, result.offsets[1:], strict=False)
    ]


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("40000001 10000001 20000002 61 5001", '{"a":1}'),
        ("80000003 20000002 20000002 10000001 5001 5002 78", '[1,2,"x"]'),
        ("20000000 00000000", "null"),
        ("20000000 40000000", "true"),
        ("20000000 20000002 40fb", "-5"),
        ("20000000 20000001 00", "0"),
        ("20000000 20000009 60 3ff8000000000000", "1.5"),
        ("20000000 20000009 60 4341c37937e08000", "1e+16"),
        ("20000000 20000009 60 3eb0c6f7a0b5ed8d", "1e-6"),
        ("20000000 20000009 60 3ee4f8b588e368f1", "0.00001"),
        ("20000000 2000000a 70 000000000000007b 02", "1.23"),
        ("20000000 2000000a 70 ffffffffffffffff 03", "-0.001"),
        ("20000000 10000003 0a220c", '"\\n\\"\\f"'),
        ("80000001 50000004 80000000", "[[]]"),
    ],
)
def test_values_of_the_specification(stored: str, text: str) -> None:
    assert texts([bytes.fromhex(stored)]) == [text]


def test_nulls_are_passed_over() -> None:
    good = bytes.fromhex("20000000 40000000")
    assert texts([good, b"rubbish", good], [True, False, True]) == ["true", "", "true"]


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ("", "0 bytes"),
        ("00000000", "kind 0"),
        ("80000002 20000001", "2 entries"),
        ("80000001 20000009 00", "9 bytes"),
        ("20000000 20000000", "no bytes"),
        ("20000000 20000002 4000 ff", None),
        ("20000000 20000004 50 010203", "3 bytes"),
        ("20000000 20000001 99", "kind 153"),
        ("40000001 20000001 00000000 00", "key"),
        ("9fffffff", "entries"),
    ],
)
def test_wrong_bytes_are_corrupt(stored: str, message: str | None) -> None:
    if message is None:
        assert texts([bytes.fromhex(stored)]) == ["0"]
    else:
        with pytest.raises(CorruptFileError, match=message):
            texts([bytes.fromhex(stored)])


def test_what_json_has_not_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="dates"):
        texts([bytes.fromhex("20000000 60000001 10")])


def test_deep_nesting_is_refused() -> None:
    value = bytes.fromhex("80000000")
    for _ in range(200):
        value = bytes.fromhex("80000001") + (0x50000000 | len(value)).to_bytes(4, "big") + value
    with pytest.raises(CorruptFileError, match="deep"):
        texts([value])


def encoded(value: object) -> tuple[int, bytes]:
    """The type and payload of a value; the writer's side, for the test alone."""
    if value is None or isinstance(value, bool):
        return (0 if value is None else 3 + value), b""
    if isinstance(value, str):
        return 1, value.encode()
    if isinstance(value, int):
        return 2, (b"\x40" if value < 0 else b"\x50") + value.to_bytes(8, "big", signed=value < 0)
    if isinstance(value, list):
        return 5, container(0x80000000 | len(value), [encoded(item) for item in value])
    assert isinstance(value, dict)
    keys = sorted(value, key=str.encode)
    parts = [*(encoded(key) for key in keys), *(encoded(value[key]) for key in keys)]
    return 5, container(0x40000000 | len(value), parts)


def container(header: int, parts: list[tuple[int, bytes]]) -> bytes:
    head = [header, *(kind << 28 | len(payload) for kind, payload in parts)]
    return b"".join(item.to_bytes(4, "big") for item in head) + b"".join(item for _, item in parts)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=6))
def test_documents_become_the_text_that_they_were(values: list[object]) -> None:
    stored = []
    for value in values:
        kind, payload = encoded(value)
        stored.append(payload if kind == 5 else container(0x20000000, [(kind, payload)]))
    assert [json.loads(text) for text in texts(stored)] == values


@given(VALUES, st.data())
def test_damaged_documents_never_crash(value: object, data: st.DataObject) -> None:
    _, payload = encoded([value])
    spoiled = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(payload) - 1))
        spoiled[position] = data.draw(st.integers(0, 255))
    with suppress(AlanceError):
        result = json_text(
            strings([bytes(spoiled[: data.draw(st.integers(0, len(payload)))])]), None
        )
        assert len(result.data) <= 8 * len(payload) + 64


def members(texts: list[bytes], *, plain: bool = True) -> list[tuple[bytes, int]]:
    """Return the member `a` of each text, and its kind."""
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    ends, data, kinds = _kernels.json_find(
        offsets,
        np.frombuffer(b"".join(texts), np.uint8),
        np.array([1], np.int64),
        np.frombuffer(b"a", np.uint8),
        np.array([-1], np.int64),
        np.ones(1, np.uint8),
        plain,
    )
    cuts = ends.tolist()
    content = data.tobytes()
    return [
        (content[start:stop], kind)
        for start, stop, kind in zip(cuts, cuts[1:], kinds.tolist(), strict=False)
    ]


def test_members_are_found_by_what_their_keys_say() -> None:
    texts = [b'{"\\u0061":1}', b' { "b" : [ "a" ] , "a" : "x\\ud83d\\ude00\\t" } ', b"[1]", b""]
    assert members(texts) == [(b"1", 3), ("x😀\t".encode(), 4), (b"", 0), (b"", 0)]
    assert members(texts[1:2], plain=False) == [(b'"x\\ud83d\\ude00\\t"', 4)]


@pytest.mark.parametrize("digits", [b'"}', b'12"}', b'12g4"}', b'-123"}', b'0x12"}'])
def test_an_escape_without_four_digits_is_refused(digits: bytes) -> None:
    with pytest.raises(ValueError, match=r"row 0: .*u without four digits"):
        members([b'{"a":"\\u' + digits])


@pytest.mark.parametrize(
    "text", [b"{", b'{"a"', b'{"a":', b'{"b":1', b'{"a', b'{"b":"\\', b"{1:2}", b'{"b" 1}', b" "]
)
def test_text_that_ends_too_early_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="row 0: JSON"):
        members([text])


def test_a_message_shows_no_part_of_a_character() -> None:
    with pytest.raises(ValueError, match=r"row 0: JSON: expected ':', found '\?'$"):
        members(['{"b" \u00e9}'.encode()])


@given(st.binary(max_size=40))
def test_any_bytes_are_searched_within_their_bounds(text: bytes) -> None:
    try:
        ((value, _),) = members([text])
    except ValueError:
        return
    assert len(value) <= 3 * len(text)


@given(st.lists(VALUES, max_size=6))
def test_items_of_json_arrays_are_counted_and_found(values: list[object]) -> None:
    stored = strings([json.dumps(value, separators=(",", ":")).encode() for value in values])
    offsets, data = np.asarray(stored.offsets, np.int64), np.asarray(stored.data)
    lengths = [len(value) if isinstance(value, list) else 0 for value in values]
    assert _kernels.json_lengths(offsets, data).tolist() == lengths
    inner = [value if isinstance(value, list) else [] for value in values]
    has_null = [any(isinstance(item, list) and None in item for item in own) for own in inner]
    item = np.frombuffer(b"null", np.uint8)
    assert _kernels.json_has(offsets, data, item).tolist() == has_null


@given(st.binary(max_size=40))
def test_any_bytes_are_taken_for_arrays_within_their_bounds(text: bytes) -> None:
    offsets, data = np.array([0, len(text)]), np.frombuffer(text, np.uint8)
    with suppress(ValueError):
        assert _kernels.json_lengths(offsets, data)[0] <= len(text)
    with suppress(ValueError):
        _kernels.json_has(offsets, data, data[:1])
    for ends in ([0, len(text) + 1], [len(text), -1]):
        with pytest.raises(ValueError, match="JSON"):
            _kernels.json_lengths(np.array(ends), data)
