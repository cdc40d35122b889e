"""Files of 2.3 for the tests: columns that are asked to be sparse, and what pages became."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

from alance.format.container import open_container
from alance.format.plans import run
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from pathlib import Path

SPARSE = {"lance-encoding:structural-encoding": "sparse"}


def sparse_field(field: pa.Field) -> pa.Field:
    """The same field with all its leaves asked to be sparse."""
    arrow = field.type
    if isinstance(arrow, pa.BaseExtensionType):
        return field
    if pa.types.is_struct(arrow):
        arrow = pa.struct([sparse_field(child) for child in arrow])
    elif pa.types.is_map(arrow):
        arrow = pa.map_(sparse_field(arrow.key_field), sparse_field(arrow.item_field))
    elif pa.types.is_large_list(arrow):
        arrow = pa.large_list(sparse_field(arrow.value_field))
    elif pa.types.is_list(arrow):
        arrow = pa.list_(sparse_field(arrow.value_field))
    elif pa.types.is_fixed_size_list(arrow) and pa.types.is_struct(arrow.value_type):
        arrow = pa.list_(sparse_field(arrow.value_field), arrow.list_size)
    else:
        return field.with_metadata({**(field.metadata or {}), **SPARSE})
    return pa.field(field.name, arrow, field.nullable, field.metadata)


def sparse_table(table: pa.Table) -> pa.Table:
    """The same table with all leaves asked to be sparse."""
    fields = [sparse_field(field) for field in table.schema]
    # Arrow casts fixed-size lists of nulls to broken ones, also to their own type.
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def planes(content: bytes) -> Counter[tuple[str | None, str | None]]:
    """Count the pages of a file by the codecs of their structure and values."""
    container, _ = run(open_container("memory://1/file", len(content)), content)
    columns, _ = run(container.read_columns(list(range(container.num_columns))), content)
    result: Counter[tuple[str | None, str | None]] = Counter()
    for column in columns:
        for page in column.pages:
            encoding = AnyMessage.FromString(page.encoding)
            assert encoding.type_url == "/lance.encodings23.PlanarLayout"
            message = pb3.PlanarLayout.FromString(encoding.value)
            result[message.structure.WhichOneof("codec"), message.values.WhichOneof("codec")] += 1
    return result


def planes_of(table: Path) -> Counter[tuple[str | None, str | None]]:
    """The same for all data files of a table."""
    result: Counter[tuple[str | None, str | None]] = Counter()
    for path in (table / "data").glob("*.lance"):
        result += planes(path.read_bytes())
    return result
