"""Digests, moments of numbers and other functions give what pylance gives."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["a", "", None, "Äx" * 100, "9", "zz"]
BYTES = [None if text is None else text.encode() for text in TEXTS]
TABLE = pa.table(
    {
        "t": TEXTS,
        "lt": pa.array(TEXTS, pa.large_string()),
        "b": BYTES,
        "lb": pa.array(BYTES, pa.large_binary()),
        "fb": pa.array([b"ab", b"cd", None, b"ef", b"gh", b"ij"], pa.binary(2)),
        "i": pa.array([0, -1, None, 1500, 1, 2]),
        "n": pa.array([0, -1, None, 15, 1, 2], pa.int32()),
        "u": pa.array([0, 1, None, 15, 1, 2], pa.uint8()),
        "f": [0.5, -1.5, None, 2.0, float("nan"), float("inf")],
        "s": ["2020-01-01", "2020-01-01T00:00:01.5", None, "1969-12-31 23:59:59.5"] * 1
        + [None] * 2,
        "ms": pa.array([0, -500, None, 1500, 10**12, 1], pa.timestamp("ms")),
        "d": pa.array([0, -1, None, 3, 4, 5], pa.date32()),
        "l": [[1], [], None, [3, 4], [5], [6]],
    }
)
COLUMNS = [
    *[f"{name}({column})" for name in ("md5", "sha224", "sha256") for column in ("t", "lt", "b")],
    *["sha384(lb)", "sha512(lt)", "md5(lower(t))", "sha256(concat(t, 'x'))"],
    *[f"digest(t, '{name}')" for name in ("md5", "sha224", "sha256", "sha384", "sha512")],
    *["encode(b, 'hex')", "encode(lt, 'hex')", "encode(sha256(t), 'hex')"],
    *[f"to_timestamp_{unit}({column})" for unit in ("seconds", "millis") for column in "insu"],
    *["to_timestamp_micros(n)", "to_timestamp_nanos(u)", "to_timestamp_seconds(ms)"],
    *["to_timestamp_nanos(s)", "to_timestamp_micros(ms)", "from_unixtime(i)", "from_unixtime(n)"],
    *["to_unixtime(ms)", "to_unixtime(d)", "to_unixtime(s)", "to_unixtime(i)"],
    *["nvl2(i, f, 2)", "nvl2(i, 'a', t)", "list_length(l)"],
    *["cot(f)", "cot(i)", "acosh(f)", "asinh(f)", "atanh(f)"],
]
FILTERS = [
    f"md5(t) = '{hashlib.md5(b'a').hexdigest()}'",
    "md5(t) like '0%'",
    f"sha256(b) = X'{hashlib.sha256(b'zz').hexdigest()}'",
    "encode(b, 'hex') > '39'",
    "to_timestamp_millis(i) > timestamp '1970-01-01 00:00:01'",
    "nvl2(i, 1, 0) = 1",
    "from_unixtime(n) is null",
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digests") / "t"
    lance.write_dataset(TABLE, path, max_rows_per_file=4)
    return path


@pytest.mark.parametrize("text", COLUMNS)
async def test_columns_are_those_of_pylance(uri: Path, text: str) -> None:
    dataset = await alance.dataset(uri)
    ours = (await dataset.to_table({"x": text}))["x"]
    theirs = lance.dataset(uri).to_table(columns={"x": text})["x"]
    if pa.types.is_string_view(theirs.type):
        theirs = theirs.cast(pa.string())
    assert ours.type == theirs.type
    if pa.types.is_floating(ours.type):
        expected = pytest.approx(theirs.fill_null(7).to_pylist(), nan_ok=True, rel=1e-13)
        assert ours.is_null() == theirs.is_null()
        assert ours.fill_null(7).to_pylist() == expected
    else:
        assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize("text", FILTERS)
async def test_filters_keep_the_rows_that_pylance_keeps(uri: Path, text: str) -> None:
    ours = await (await alance.dataset(uri)).to_table(["t"], filter=text)
    theirs = lance.dataset(uri).to_table(["t"], filter=text)
    assert ours["t"].to_pylist() == theirs["t"].to_pylist()


async def test_slices_and_bytes_of_one_width(uri: Path) -> None:
    dataset = await alance.dataset(uri)
    whole = await dataset.to_table({"x": "md5(lb)", "y": "sha256(fb)"})
    assert (await dataset.to_table({"x": "md5(lb)"}, offset=2, limit=3))["x"].to_pylist() == [
        None,
        *whole["x"].to_pylist()[3:5],
    ]
    assert whole["y"].to_pylist()[1] == hashlib.sha256(b"cd").digest()
    literal = await dataset.to_table({"x": "md5('abc')", "y": "md5(null)"}, limit=1)
    assert literal.to_pylist() == [{"x": hashlib.md5(b"abc").hexdigest(), "y": None}]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("md5(i)", InvalidInputError, "expected text or bytes, found int64"),
        ("digest(t, 'sha1')", InvalidInputError, "no method 'sha1', expected one of md5"),
        ("digest(t, 'blake3')", UnsupportedError, "blake3"),
        ("digest(t, t)", UnsupportedError, "no literal"),
        ("encode(t, 'x')", InvalidInputError, "one of hex, base64"),
        ("from_unixtime(f)", InvalidInputError, "expected whole seconds"),
        ("md5(t, t)", InvalidInputError, "2 arguments, expected 1"),
    ],
)
async def test_what_they_do_not_take(
    uri: Path, text: str, error: type[Exception], message: str
) -> None:
    dataset = await alance.dataset(uri)
    with pytest.raises(error, match=message):
        await dataset.to_table({"x": text})
