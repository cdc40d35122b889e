"""Columns of pydantic models whose values tell no type have that of the annotation."""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003  # pydantic looks them up
from typing import Annotated, Any, Literal, Optional

import pyarrow as pa
import pytest
from pydantic import BaseModel, Field

import alance


class Place(BaseModel):
    street: str | None = None
    number: int = 1


class Person(BaseModel):
    id: int
    name: str | None = None
    older: Optional[str] = None  # noqa: UP045  # as many programs have it
    day: date | None = None
    time: datetime | None = None
    share: Annotated[float | None, Field(gt=0)] = None
    kind: Literal["a", "b"] | None = None
    words: list[str] = []
    parts: list[int | None] | None = None
    place: Place | None = None
    always: Place = Place()
    friend: Optional[Person] = None  # noqa: UP045
    either: int | str | None = None


EXPECTED = {
    "id": pa.int64(),
    "name": pa.string(),
    "older": pa.string(),
    "day": pa.date32(),
    "time": pa.timestamp("us"),
    "share": pa.float64(),
    "kind": pa.string(),
    "words": pa.list_(pa.string()),
    "parts": pa.list_(pa.int64()),
    "place": pa.struct([("street", pa.string()), ("number", pa.int64())]),
    "always": pa.struct([("street", pa.string()), ("number", pa.int64())]),
    "friend": pa.null(),  # it would be inside of itself
    "either": pa.null(),
}


async def test_columns_without_values_have_the_type_of_their_annotation() -> None:
    dataset = await alance.write_dataset([Person(id=1), Person(id=2)], "memory://people/t")
    assert {field.name: field.type for field in dataset.schema} == EXPECTED
    full = Person(id=3, name="x", words=["y"], place=Place(street="z"))
    rows = await (await dataset.insert([full])).to_table(["name", "words", "place"])
    assert rows.to_pylist()[2] == {
        "name": "x", "words": ["y"], "place": {"street": "z", "number": 1}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "type_"),
    [(str, pa.string()), (bytes | None, pa.binary()), (tuple[int, ...], pa.list_(pa.int64()))],
)
async def test_a_schema_goes_before_annotations(annotation: Any, type_: pa.DataType) -> None:
    model: Any = type("Row", (BaseModel,), {"__annotations__": {"x": annotation | None}, "x": None})
    uri = f"memory://annotated-{type_}/t"
    dataset = await alance.write_dataset([model()], uri)
    assert dataset.schema.field("x").type == type_
    schema = pa.schema([("x", pa.int8())])
    dataset = await alance.write_dataset([model()], uri, schema=schema, mode="overwrite")
    assert dataset.schema.field("x").type == pa.int8()
