"""Arrays to levels and values, and back by what reading does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alance.errors import InvalidInputError
from alance.format.encode.arrays import leaf_values
from alance.format.layouts.fields import assemble
from alance.format.schema import Schema
from tests.reference import types

if TYPE_CHECKING:
    from alance.format.field import Field


NO_NULLS_INSIDE: tuple[str, ...] = ()


def field_of(array: pa.Array, metadata: dict[str, str] | None = None) -> Field:
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    return Schema.from_arrow(schema).fields[0]


def there_and_back(array: pa.Array, metadata: dict[str, str] | None = None) -> pa.Array:
    field = field_of(array, metadata)
    leaves = leaf_values(field, array)
    return assemble(field, {key: [page] for key, page in leaves.items()}, len(array))


def check(array: pa.Array, metadata: dict[str, str] | None = None) -> None:
    for part in (array, array.slice(1), array.slice(len(array) // 3, len(array) // 2)):
        found = there_and_back(part, metadata)
        found.validate(full=True)
        assert found.type == part.type
        assert repr(found.to_pylist()) == repr(part.to_pylist())


@pytest.mark.parametrize("name", list(types.TYPES))
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_types(name: str, nulls: float) -> None:
    if name in NO_NULLS_INSIDE and nulls:
        return
    check(types.column(name, 90, nulls))
