"""Rows as JSON: an answer of the service can be posted back unchanged, for every type."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.command import main
from alance.serve.json_columns import parsed, table_of
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST, LEAST = (1 << 63) - 1, -(1 << 63)
INNER = pa.struct([("raw", pa.binary()), ("at", pa.timestamp("ns", "UTC")), ("x", pa.float32())])
FLOATS = [1.1, -0.0, float("nan"), float("inf"), float("-inf"), None]
BLOB = {"lance-encoding:blob": "true"}
ARRAYS: dict[str, pa.Array] = {
    "null": pa.nulls(2),
    "bool": pa.array([True, False, None]),
    **{
        f"int{n}": pa.array([(1 << n - 1) - 1, -(1 << n - 1), 0, None], f"int{n}")
        for n in (8, 16, 32, 64)
    },
    **{f"uint{n}": pa.array([(1 << n) - 1, 0, None], f"uint{n}") for n in (8, 16, 32, 64)},
    "float16": pa.array([None if x is None else np.float16(x) for x in FLOATS], pa.float16()),
    "float32": pa.array([*FLOATS, 3.4e38, 1e-45], pa.float32()),
    "float64": pa.array([*FLOATS, 1.7976931348623157e308, 5e-324]),
    "string": pa.array(['ü\n"\0\u202e\U0001f600', "NaN", "", None]),
    "large_string": pa.array(["a", None], pa.large_string()),
    "binary": pa.array([bytes(range(256)), b"", None]),
    "large_binary": pa.array([b"\0\xff", None], pa.large_binary()),
    "fixed_size_binary": pa.array([b"\0\xff", None], pa.binary(2)),
    **{
        f"duration_{u}": pa.array([3, 3_000_000_001, MOST, LEAST, -1, None], pa.duration(u))
        for u in ("s", "ms", "us", "ns")
    },
    **{
        f"timestamp_{u}": pa.array([0, 3_000_000_001, -1, None], pa.timestamp(u))
        for u in ("s", "ms", "us", "ns")
    },
    **{
        f"far_timestamp_{u}": pa.array([1 << 56, -(1 << 56)], pa.timestamp(u))
        for u in ("ms", "us", "ns")
    },
    **{
        f"timestamp_{u}_in_a_zone": pa.array([0, -(10**9) * 3600, None], pa.timestamp(u, z))
        for u, z in (("s", "UTC"), ("ms", "+05:30"), ("us", "Europe/Berlin"), ("ns", "Asia/Tokyo"))
    },
    "an_hour_that_comes_twice": pa.array(
        [1_698_541_200 - 1800, 1_698_541_200 + 1800], pa.timestamp("s", "Europe/Berlin")
    ),
    "date32": pa.array([0, -1, 11_016, 1 << 30, -(1 << 30), None], pa.date32()),
    "date64": pa.array([0, -86_400_000, 86_400_000 * 10**6, None], pa.date64()),
    "time32_s": pa.array([0, 86_399, None], pa.time32("s")),
    "time32_ms": pa.array([1, 86_399_999, None], pa.time32("ms")),
    "time64_us": pa.array([1, 86_399_999_999, None], pa.time64("us")),
    "time64_ns": pa.array([1, 86_399_999_999_999, 10, None], pa.time64("ns")),
    "decimal128": pa.array(
        [Decimal("1.20"), Decimal("-9" * 1 + "9" * 35 + ".99"), None], pa.decimal128(38, 2)
    ),
    "decimal256": pa.array(
        [Decimal("9" * 74 + ".50"), Decimal("0.00"), None], pa.decimal256(76, 2)
    ),
    "decimal_of_hundreds": pa.array(
        [Decimal("1E+2"), Decimal("-1200"), Decimal(0), None], pa.decimal128(10, -2)
    ),
    "list": pa.array([[b"a", None], [], None], pa.list_(pa.binary())),
    "large_list": pa.array([[1, None], None], pa.large_list(pa.duration("ns"))),
    "fixed_size_list": pa.array([[1.5, float("nan")], None, [2.5, 3.5]], pa.list_(pa.float32(), 2)),
    "list_of_lists": pa.array([[[0], None, []], None], pa.list_(pa.list_(pa.date32()))),
    "struct": pa.array([{"raw": b"x", "at": 1, "x": float("inf")}, {}, None], INNER),
    "list_of_structs": pa.array([[{"raw": b"x", "at": 5}, None], []], pa.list_(INNER)),
    "map": pa.array([[("a", b"x"), ("b", None)], [], None], pa.map_(pa.string(), pa.binary())),
    "map_by_dates": pa.array([[(3, 1.5)], None], pa.map_(pa.date32(), pa.float64())),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "dictionary_of_bytes": pa.array([b"\xff", None]).dictionary_encode(),
    "uuid": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.UUID(int=7).bytes, None], pa.binary(16))
    ),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":[1.50]}', None])),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2, 2]),
        pa.array([[1, 2, 3, 4]], pa.list_(pa.int32(), 4)),
    ),
}


NUM_ROWS = max(map(len, ARRAYS.values()))
PLACES = {name: place for place, name in enumerate(ARRAYS)}


def padded(array: pa.Array) -> pa.Array:
    """Pad an array with nulls to the number of rows."""
    return pa.concat_arrays([array, pa.nulls(NUM_ROWS - len(array), array.type)])


def of_all_types() -> pa.Table:
    arrays = {name: padded(array) for name, array in ARRAYS.items()}
    return pa.table({"id": range(NUM_ROWS), **arrays})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("types")
    alance.sync.write_dataset(of_all_types(), folder / "types")
    blobs = pa.array([b"blob", b"", None], pa.large_binary())
    fields = [pa.field("id", pa.int64()), pa.field("x", blobs.type, metadata=BLOB)]
    for name, version in (("blob", "2.2"), ("blob_of_2_1", "2.1")):
        table = pa.Table.from_arrays([pa.array(range(3)), blobs], schema=pa.schema(fields))
        alance.sync.write_dataset(table, folder / name, data_storage_version=version)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    tables = [str(folder / name) for name in ("types", "blob", "blob_of_2_1")]
    options = ["--key", "id", "--ingest", "--reload", "0", "--port", "0"]
    command = [sys.executable, "-m", "alance", "serve", *tables, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        yield process.stderr.readline().decode().split()[0]
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("name", ARRAYS)
async def test_a_row_that_is_answered_can_be_posted_back(folder: Path, url: str, name: str) -> None:
    first = 1000 * (1 + PLACES[name])  # of the ids of the new rows
    async with httpx.AsyncClient(base_url=f"{url}/tables/types", timeout=60) as client:
        columns = {"columns": f"id,{name}"}
        singly = [await client.get(f"/rows/{n}", params=columns) for n in range(NUM_ROWS)]
        rows = [answer.json()["row"] for answer in singly]
        request = {"columns": ["id", name], "filter": "id < 1000"}
        assert (await client.post("/query", json=request)).json()["rows"] == rows
        new = [{**row, "id": first + row["id"]} for row in rows]
        answer = await client.post("/rows", json={"rows": new}, headers={"idempotency-key": name})
        assert answer.status_code == 201, answer.text
    dataset = await alance.dataset(folder / "types")
    filter = f"id >= {first} and id < {first + 1000}"
    stored = await dataset.to_table([name], filter=filter)
    assert_equal_rows(stored, await dataset.to_table([name], filter="id < 1000"))


@pytest.mark.parametrize("name", ["blob", "blob_of_2_1"])
async def test_blobs_are_posted_as_bytes_and_their_descriptions_are_refused(
    folder: Path, url: str, name: str
) -> None:
    async with httpx.AsyncClient(base_url=f"{url}/tables/{name}", timeout=60) as client:
        described = (await client.get("/rows/0")).json()["row"]
        key = {"idempotency-key": "a"}
        answer = await client.post("/rows", json={"rows": [described]}, headers=key)
        assert answer.status_code == 400
        assert answer.json()["detail"].startswith("rows[0].x: {"), answer.text
        assert "expected the bytes of a blob in base64" in answer.json()["detail"]
        request = {"blob_handling": "all_binary"}
        rows = (await client.post("/query", json=request)).json()["rows"]
        assert [row["x"] for row in rows] == ["YmxvYg==", "", None]
        rows = [{**row, "id": 100 + row["id"]} for row in rows]
        answer = await client.post("/rows", json={"rows": rows}, headers=key)
        assert answer.status_code == 201, answer.text
    dataset = await alance.dataset(folder / name)
    scanner = dataset.scanner(["x"], filter="id >= 100", blob_handling="all_binary")
    assert (await scanner.to_table())["x"].to_pylist() == [b"blob", b"", None]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fixed_size_binary", "AP8="),
        ("date32", "2000-02-29"),
        ("timestamp_s", "1970-01-01"),
        ("timestamp_us_in_a_zone", "1970-01-01T02:00:00+02:00"),
        ("time64_ns", "00:00:00.00000001"),
        ("decimal128", "1.2"),
        ("uuid", str(uuid.UUID(int=7))),
    ],
)
async def test_a_key_in_a_path_is_read_as_a_value_of_its_column(
    url: str, name: str, text: str
) -> None:
    async with httpx.AsyncClient(base_url=f"{url}/tables/types", timeout=60) as client:
        answer = await client.get(f"/rows/{text}", params={"column": name, "columns": "id"})
        assert answer.json()["row"] in ({"id": 0}, {"id": 2}), answer.text


async def test_a_binary_key_that_is_not_base64_is_refused(url: str) -> None:
    async with httpx.AsyncClient(base_url=f"{url}/tables/types", timeout=60) as client:
        answer = await client.post("/get", json={"keys": ["AAECA"], "column": "binary"})
        assert answer.status_code == 400, answer.text
        assert "'AAECA': expected a value of type binary" in answer.json()["detail"]


SCHEMA = pa.schema({name: array.type for name, array in ARRAYS.items()})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("binary", '"no base64"', "expected base64"),
        ("binary", "5", "expected base64"),
        ("fixed_size_binary", '"AA=="', "expected base64 of 2 bytes"),
        ("int8", "128", "expected a value of type int8"),
        ("int8", "1.5", "expected a value of type int8"),
        ("int8", "true", "expected a value of type int8"),
        ("uint64", "-1", "expected a value of type uint64"),
        ("uint64", "1e400", "expected a value of type uint64"),
        ("bool", "1", "expected true or false"),
        ("string", "5", "expected text"),
        ("float64", '"nan"', "or the text NaN, Infinity or -Infinity"),
        ("float64", "1e400", "this one is too large"),
        ("float32", "1e39", "this one is too large"),
        ("float16", "65520", "this one is too large"),
        ("float64", "9007199254740993", "this one has too many digits"),
        ("decimal128", '"1.234"', "expected a value of type decimal128(38, 2)"),
        ("decimal_of_hundreds", '"150"', "expected a value of type decimal128(10, -2)"),
        ("decimal128", '"1e40"', "expected a value of type decimal128(38, 2)"),
        ("decimal128", '"NaN"', "expected a value of type decimal128(38, 2)"),
        ("duration_s", "0.5", "expected seconds"),
        ("duration_ns", "1e12", "in its range"),
        ("timestamp_s", "86400", "expected a timestamp in ISO 8601 without an offset"),
        ("timestamp_s", '"1970-01-01T00:00:00Z"', "without an offset"),
        ("timestamp_s", '"1970-01-01T00:00:00.5"', "expected a timestamp"),
        ("timestamp_us_in_a_zone", '"1970-01-01T00:00:00"', "with an offset, such as Z"),
        ("timestamp_ns", '"2300-01-01"', "in its range"),
        ("date32", '"2023-02-29"', "expected a date such as 2024-01-31"),
        ("date32", '"2024-01-01T00:00:00"', "expected a date"),
        ("time32_s", '"24:00:00"', "expected a time"),
        ("uuid", '"7"', "expected a UUID as text"),
        ("list", '["AA==", "!"]', "rows[0].list[1]: '!', expected base64"),
        ("fixed_size_list", "[1.0]", "expected a list of 2 values"),
        ("struct", '{"raw": 1}', "rows[0].struct.raw: 1, expected base64"),
        ("struct", '{"ray": 1}', "expected an object with raw, at, x"),
        ("map", '{"a": "AA=="}', "expected a list of [key, value]"),
        ("map", '[["a", "!"]]', "rows[0].map[0][1]: '!', expected base64"),
        ("nothing", "1", "no column 'nothing'; expected null, bool, "),
    ],
)
def test_values_that_a_column_cannot_represent_are_refused_by_name(
    name: str, text: str, expected: str
) -> None:
    row = parsed(f'{{"{name}": {text}}}', exact=True)
    with pytest.raises(alance.InvalidInputError) as error:
        table_of([row], SCHEMA)
    assert expected in str(error.value)
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("decimal128", "12345678901234567890.12", Decimal("12345678901234567890.12")),
        ("decimal128", "5", Decimal("5.00")),
        ("int64", '"9007199254740993"', 9007199254740993),
        ("int64", "5.0", 5),
        ("float32", "0.5", 0.5),
        ("date32", '"1970-01-02"', 1),
        ("timestamp_s", '"1970-01-01 00:01"', 60),
        ("timestamp_us_in_a_zone", '"1970-01-01T00:00:00z"', 0),
        ("duration_ms", '"1.5"', 1500),
        ("duration_ms", "0.1", 100),
    ],
)
def test_alternative_forms_of_a_value_are_accepted(name: str, text: str, expected: Any) -> None:
    (value,) = table_of([parsed(f'{{"{name}": {text}}}', exact=True)], SCHEMA)[name]
    stored = value.value if hasattr(value, "value") else value.as_py()
    assert stored == expected


def test_lines_that_the_command_prints_can_be_appended(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    uri, lines = str(tmp_path / "table"), tmp_path / "rows.jsonl"
    dataset = alance.sync.write_dataset(of_all_types(), uri)
    expected = dataset.to_table()
    for command in (["cat", uri], ["head", uri, "--json", "-n", str(NUM_ROWS)]):
        assert main(command) == 0
        lines.write_bytes(capfdbinary.readouterr().out)
        assert main(["append", uri, str(lines)]) == 0
        capfdbinary.readouterr()
    assert_equal_rows(alance.sync.dataset(uri).to_table(), pa.concat_tables([expected] * 3))


def test_lines_that_do_not_fit_a_table_are_refused_by_number(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    uri, lines = str(tmp_path / "table"), tmp_path / "rows.jsonl"
    alance.sync.write_dataset(pa.table({"raw": [b"a"], "day": pa.array([0], pa.date32())}), uri)
    for text, expected in (
        ('{"raw": "AA=="}\n{"raw": "!"}\n', "lines 1 to 2: rows[1].raw: '!', expected base64"),
        ('{"day": "1970-01-01"}\n\n[]\n', "line 3: expected a JSON object"),
        ('{"day": NaN}\n', "line 1: not JSON: NaN is not JSON"),
        ('{"dax": 1}\n', "no column 'dax'; expected raw, day"),
    ):
        lines.write_text(text)
        assert main(["append", uri, str(lines)]) == 1
        assert expected in capfd.readouterr().err
    assert alance.sync.dataset(uri).count_rows() == 1
