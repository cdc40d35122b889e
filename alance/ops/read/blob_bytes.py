"""Scans that return blobs as bytes: `blob_handling="all_binary"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.expr.tree import Column
from alance.format.numbers import as_numbers, text_array
from alance.format.paths import join_path
from alance.ops.blobs.places import (
    check_structure,
    fields_with_blobs,
    has_blobs,
    leaves_of,
    places_of,
    rebuilt,
    with_leaves,
)
from alance.ops.version.projection import META, ROW_ADDRESS, project

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence

    from alance.format.field import Field
    from alance.ops.blobs.places import BlobPlace
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


def output_fields(snapshot: Snapshot, columns: Columns) -> Iterator[tuple[str, Field]]:
    """Yield the names and fields of output columns that are blobs or contain blobs."""
    schema = snapshot.schema
    if not fields_with_blobs(schema):
        return
    for output in project(schema, columns, flat=True).outputs:
        path = () if output.is_meta else output.path
        if output.computed is not None and isinstance(output.computed.value, Column):
            path = output.computed.value.path  # the path of a renamed column
        if not path or path[0] in META:
            continue
        field = snapshot.schema.field(join_path(path))
        if has_blobs(field):
            yield output.name, field


def blob_columns(snapshot: Snapshot, columns: Columns) -> dict[str, Field]:
    """Return the fields of output columns with blobs, by name.

    Raises:
        UnsupportedError: blobs are inside of other types than structs and lists.
    """
    fields = dict(output_fields(snapshot, columns))
    for field in fields.values():
        check_structure(field)
    return fields


def bytes_schema(schema: pa.Schema, fields: Mapping[str, Field]) -> pa.Schema:
    """Return the schema of a scan that returns the blobs of `fields` as bytes."""
    for name, field in fields.items():
        schema = schema.set(schema.get_field_index(name), _output(name, field))
    return schema


async def with_bytes(
    snapshot: Snapshot,
    batches: AsyncIterator[pa.RecordBatch],
    fields: Mapping[str, Field],
    *,
    keep_address: bool,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the batches with blobs instead of descriptions; the blobs of a batch are read at once.

    Args:
        batches: batches with the column `_rowaddr`.
        fields: fields of the columns with blobs.
        keep_address: True to leave `_rowaddr` in the output.
    """
    async for batch in batches:
        filled = batch
        for name, field in fields.items():
            filled = await _filled(snapshot, filled, name, field)
        yield filled if keep_address else filled.drop_columns([ROW_ADDRESS])


async def places_in(
    snapshot: Snapshot, field: Field, described: pa.Array, addresses: pa.Array
) -> list[list[BlobPlace | None]]:
    """Return the locations of the blobs in a column, for each leaf of its field; None for a null.

    Args:
        described: the column with descriptions of blobs.
        addresses: addresses of its rows.
    """
    fragments = as_numbers(addresses) >> np.uint64(32)
    leaves = await snapshot.engine.pool.run(lambda: list(leaves_of(field, described, fragments)))
    return [await places_of(snapshot, *leaf) for leaf in leaves]


async def _filled(
    snapshot: Snapshot, batch: pa.RecordBatch, name: str, field: Field
) -> pa.RecordBatch:
    described = batch.column(name)
    places = await places_in(snapshot, field, described, batch.column(ROW_ADDRESS))
    ranges = [place.whole for of_leaf in places for place in of_leaf if place is not None]
    read = await snapshot.engine.scheduler.read(ranges, reason="blobs", bulk=True)

    def build() -> pa.Array:
        contents = iter(read)
        arrays = (_binary(of_leaf, contents) for of_leaf in places)
        return rebuilt(field, described, arrays, _member)

    array = await snapshot.engine.pool.run(build)
    return batch.set_column(batch.schema.get_field_index(name), _output(name, field), array)


def _binary(places: Sequence[BlobPlace | None], contents: Iterator[memoryview]) -> pa.Array:
    parts = [b"" if place is None else next(contents) for place in places]
    valid = np.array([place is not None for place in places], np.bool_)
    return text_array(parts, pa.large_binary(), valid)


def _output(name: str, field: Field) -> pa.Field:
    arrow = with_leaves(field, _as_bytes)
    return arrow if name == field.name else pa.field(name, arrow.type)


def _as_bytes(blob: Field) -> pa.Field:
    # In version 2, the metadata are those of the descriptions.
    metadata = blob.to_arrow().metadata if blob.is_blob_v1 else None
    return pa.field(blob.name, pa.large_binary(), blob.nullable, metadata)


def _member(child: Field, was: pa.Field, now: pa.Array) -> pa.Field:
    if child.is_blob_v1 or child.is_blob_v2:
        return _as_bytes(child)
    return was.with_type(now.type)
