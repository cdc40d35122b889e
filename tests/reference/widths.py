"""Byte strings of every type and width, in lists and structs, with nulls: one table of them all."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

STRINGS: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
# Narrow values go into mini-blocks, wide ones one by one; very wide ones are compressed unasked.
WIDTHS: Final = {"narrow": 200, "wide": 300, "very wide": 33_000}
ROWS: Final = 200  # 40 KB of the narrow ones: enough for a symbol table, or compression
WORDS: Final = ["carefully", "final", "requests", "sleep"]
COMPRESSIONS: Final = (None, "none", "zstd", "lz4", "fsst")


def metadata_of(compression: str | None, structure: str | None = None) -> dict[str, str]:
    """Return the field metadata that requests a compression and a structure."""
    request = {"compression": compression, "structural-encoding": structure}
    return {f"lance-encoding:{key}": text for key, text in request.items() if text is not None}


def wide_table(metadata: Mapping[str, str]) -> pa.Table:
    """A column `id`, and one for each type, width and shape, with and without nulls."""
    columns = _columns()
    fields = [_asking(pa.field(name, array.type), metadata) for name, array in columns.items()]
    arrays = [array.cast(field.type) for array, field in zip(columns.values(), fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


@cache
def _columns() -> dict[str, pa.Array]:
    columns: dict[str, pa.Array] = {"id": pa.array(range(ROWS))}
    for width in WIDTHS:
        for nulls in (False, True):
            texts = pa.array(_texts(width, nulls=nulls), pa.string())
            for arrow in STRINGS:
                values = texts.cast(arrow)
                name = f"{arrow} {width}{' nulls' if nulls else ''}"
                columns[name] = values
                columns[f"{name} list"] = _lists(values)
                columns[f"{name} struct"] = _structs(values)
                columns[f"{name} list of structs"] = _lists(_structs(values))
    return columns


def _texts(width: str, *, nulls: bool) -> list[str | None]:
    """Texts that compress; of the very wide ones only some are."""
    rng = random.Random(width)
    texts: list[str | None] = []
    for row in range(ROWS):
        length = WIDTHS[width] if width != "very wide" or row % 100 == 7 else 60
        words = " ".join(rng.choices(WORDS, k=length // 8))
        texts.append(None if nulls and row % 4 == 1 else f"{row} {words}".ljust(length, "."))
    return texts


def _lists(values: pa.Array) -> pa.Array:
    """Lists of none, one or two of the values."""
    ends = [row // 3 * 3 + (0, 1, 1)[row % 3] for row in range(1, ROWS)]
    return pa.ListArray.from_arrays(pa.array([0, *ends, ROWS], pa.int32()), values)


def _structs(values: pa.Array) -> pa.Array:
    mask = pa.array([values.null_count > 0 and row % 5 == 2 for row in range(ROWS)])
    return pa.StructArray.from_arrays([values, pa.array(range(ROWS))], ["v", "n"], mask=mask)


def _asking(field: pa.Field, metadata: Mapping[str, str]) -> pa.Field:
    """The field with the metadata, and so all that is in it."""
    arrow = field.type
    if pa.types.is_list(arrow):
        arrow = pa.list_(_asking(arrow.value_field, metadata))
    elif pa.types.is_struct(arrow):
        arrow = pa.struct([_asking(child, metadata) for child in arrow.fields])
    return pa.field(field.name, arrow, metadata=dict(metadata) or None)
