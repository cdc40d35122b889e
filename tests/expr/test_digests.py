"""Digests, moments of numbers and other functions give what pylance gives."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import _kernels
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
        "us": pa.array([0, -1, None, 951_826_512_000_120, 10**15, 1], pa.timestamp("us")),
        "berlin": pa.array(
            [0, -1, None, 1_709_211_909, 10**9, 1], pa.timestamp("s", "Europe/Berlin")
        ),
        "clock": pa.array([0, 1, None, 86_399_999_999, 43_200_000_000, 10**6], pa.time64("us")),
    }
)
COLUMNS = [
    *[f"{name}({column})" for name in ("md5", "sha224", "sha256") for column in ("t", "lt", "b")],
    *["sha384(lb)", "sha512(lt)", "md5(lower(t))", "sha256(concat(t, 'x'))"],
    *[f"digest(t, '{name}')" for name in ("md5", "sha224", "sha256", "sha384", "sha512")],
    *[f"digest({column}, 'blake{kind}')" for kind in ("2b", "2s", "3") for column in ("lt", "b")],
    *["to_char(ms, '%C%y %b %B %h|%e %a %A %w %u %U %W %G %g %V %j %D %x %F %v')"],
    *["to_char(ms, '%k %I %l %P %p %R %T %X %r|%c %s%%')", "to_char(d, '%d.%m.%Y %H')"],
    *["to_char(ms, '%S|%f|%.f|%.3f|%.6f|%.9f|%3f|%6f|%9f')", "date_format(us, '%.f|%t|%n')"],
    *["to_char(ms, '%-d%_d%0d %-m%_H%-H %-j%_j %_y%-y %0e%-e %-I%_M')", "to_char(ms, '')"],
    *["to_char(clock, '%H-%M-%S %f %p')", "to_char(berlin, '%F %T %s %c')"],
    *["to_local_time(berlin)", "to_local_time(ms)", "to_time(ms)", "datepart('year', us)"],
    *["make_date(2000 + n, 2, 28)", "make_date(1970 - i, 1, 31)", "make_time(n + 2, 3, 59)"],
    *["arrow_try_cast(t, 'Int32')", "row(i, t)", "datetrunc('month', ms)"],
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


def test_blake_of_any_length(tmp_path: Path) -> None:
    """Lengths are around the sizes of blocks, chunks and trees."""
    lengths = [0, 1, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 2048, 2049, 3072, 5000, 8193]
    contents = [bytes(n % 251 for n in range(length)) for length in lengths]
    theirs = lance.write_dataset(pa.table({"x": contents}), tmp_path / "t")
    offsets = np.cumsum([0, *lengths])
    data = np.frombuffer(b"".join(contents), np.uint8)
    for method, name in enumerate(("blake2b", "blake2s", "blake3"), 5):
        expected = theirs.to_table({"d": f"digest(x, '{name}')"})["d"].to_pylist()
        assert _kernels.digests(offsets, data, method).tobytes() == b"".join(expected)
    for wrong in ([0, 3], [-1, 1], [1, 0]):
        with pytest.raises(ValueError, match="value"):
            _kernels.digests(np.array(wrong), data[:2], 6)


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
        ("date_bin(i, ms)", UnsupportedError, "date_bin"),
        ("to_char(ms, '%Z')", InvalidInputError, "directive '%Z'"),
        ("to_char(ms, '50%')", InvalidInputError, "without an end"),
        ("to_char(t, '%Y')", InvalidInputError, "expected a date or time, found string"),
        ("make_date(n, 13, 1)", InvalidInputError, "no such month"),
        ("make_date(2023, 2, 29)", InvalidInputError, "no such day"),
        ("make_time(24, i, 0)", InvalidInputError, "no such time"),
        ("digest(t, t)", UnsupportedError, "expected a literal"),
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
