"""Takes of lists and structs: all leaves of all fields by one call of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path


POINT = pa.struct([("x", pa.int32()), ("is", pa.bool_()), ("name", pa.string())])
DEEP = pa.list_(pa.struct([("tags", pa.large_list(pa.large_binary())), ("at", POINT)]))
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "point": POINT,
        "numbers": pa.list_(pa.float64()),
        "points": pa.list_(POINT),
        "lists": pa.list_(pa.list_(pa.int8())),
        "deep": DEEP,
        "wrapped": pa.struct([("deep", DEEP), ("only", pa.struct([("y", pa.decimal128(9, 2))]))]),
    }
)
PAIRS = pa.list_(pa.struct([("n", pa.int32())]), 2)  # of structs, of one length
PAIRS_FIELD = pa.field("pairs", PAIRS)
ROWS = 700


def value(kind: pa.DataType, rng: np.random.Generator, nulls: float) -> Any:
    """A value of a type; some are null, and some lists empty."""
    if rng.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, rng, nulls) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(kind.value_type, rng, nulls) for _ in range(rng.integers(0, 4))]
    number = int(rng.integers(0, 100))
    if pa.types.is_boolean(kind):
        return number > 50
    if pa.types.is_string(kind) or pa.types.is_large_binary(kind):
        text = "ü" * (number % 5)
        return text if pa.types.is_string(kind) else text.encode()
    return number


def rows_of(schema: pa.Schema, nulls: float) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        [
            pa.array([value(field.type, rng, nulls) for _ in range(ROWS)], field.type)
            for field in schema
        ],
        schema=schema,
    )


@pytest.fixture(scope="module", params=[0.0, 0.1, 0.6])
def nested(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nested") / "t.lance"
    lance.write_dataset(rows_of(SCHEMA, request.param), path, data_storage_version="2.1")
    return path


@pytest.mark.parametrize(
    "rows", [[0], [5, 3, 3, 699], [*range(ROWS)], [*range(ROWS - 1, -1, -7)], []], ids=len
)
async def test_nested_fields_are_taken_in_one_call(nested: Path, rows: list[int]) -> None:
    dataset = await alance.dataset(nested)
    expected = lance.dataset(nested).take(rows)
    for columns in (None, ["points"], ["id", "wrapped"], ["deep", "lists", "numbers"]):
        taken = await dataset.take(rows, columns)
        taken.validate(full=True)
        assert taken.equals(expected if columns is None else expected.select(columns))


@pytest.mark.parametrize("nulls", [(0.0, 0.3), (0.3, 0.0), (0.2, 0.6)])
async def test_pages_of_other_layers_become_one_array(
    tmp_path: Path, nulls: tuple[float, float]
) -> None:
    """A fragment whose pages have no nulls says less of its levels than one with nulls."""
    schema = SCHEMA.remove(0)
    for share in nulls:
        table = rows_of(schema, share)
        lance.write_dataset(table, tmp_path / "t", mode="append", data_storage_version="2.1")
    dataset = await alance.dataset(tmp_path / "t")
    for rows in ([ROWS, 3, ROWS - 1, 2 * ROWS - 1], [*range(0, 2 * ROWS, 11)]):
        taken = await dataset.take(rows)
        taken.validate(full=True)
        assert taken.equals(lance.dataset(tmp_path / "t").take(rows))


async def test_lists_of_structs_of_one_length_are_taken(tmp_path: Path) -> None:
    fields = [pa.field("points", pa.list_(POINT)), PAIRS_FIELD, pa.field("id", pa.int64())]
    schema = pa.schema(fields)
    points = rows_of(pa.schema({"points": pa.list_(POINT), "id": pa.int64()}), 0.1)
    pairs = pa.array([[{"n": n}, {"n": -n}] for n in range(ROWS)], PAIRS)
    columns = [points["points"], pairs, points["id"]]
    table = pa.table(columns, schema=schema)
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    dataset = await alance.dataset(tmp_path / "t")
    for rows in ([699, 0, 3], [3]):
        taken = await dataset.take(rows)
        assert taken.to_pydict() == table.take(rows).to_pydict()


@pytest.mark.parametrize("nested", [0.1], indirect=True)
async def test_some_members_are_taken_alone(nested: Path) -> None:
    columns = ["point.name", "wrapped.only"]
    taken = await (await alance.dataset(nested)).take([4, 2], columns)
    whole = lance.dataset(nested).take([4, 2])
    points, wrapped = whole["point"].to_pylist(), whole["wrapped"].to_pylist()
    assert taken.to_pydict() == {
        "point": [point and {"name": point["name"]} for point in points],
        "wrapped": [around and {"only": around["only"]} for around in wrapped],
    }
