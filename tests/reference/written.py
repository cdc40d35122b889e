"""Whole files in memory, by the pure half of the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.file_version import FileVersion
from alance.format.encode.arrays import leaf_values
from alance.format.encode.blobs import encode_blob_page
from alance.format.encode.container import SEARCH_BYTES, FileBuilder
from alance.format.encode.pages import encode_pages, hints_of
from alance.format.encode.rows import join, split
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def file_bytes(
    table: pa.Table,
    version: str,
    *,
    page_bytes: int = 8 << 20,
    join_batches: bool = True,
    schema: Schema | None = None,
    search_bytes: int = SEARCH_BYTES,
) -> bytes:
    """A file with the rows of a table; each batch of it is a page, or all that fit are one."""
    schema = schema or Schema.from_arrow(table.schema)
    builder = FileBuilder(schema, FileVersion.parse(version), search_bytes)
    chunks = []
    column = 0
    for field, values in zip(schema.fields, table.columns, strict=True):
        leaves = leaf_columns(field)
        items = [leaf_values(field, piece) for piece in values.chunks if len(piece)]
        for leaf in leaves:
            hints = hints_of(field, leaf.field, FileVersion.parse(version))
            parts = [item[leaf.field.id] for item in items]
            if join_batches and parts:
                parts = [join(parts)]
            for part in parts:
                for rows in split(part, page_bytes, multiple=leaf.multiplier):
                    if leaf.field.is_blob_v1:
                        positions, placed = builder.add_blobs(rows.values)
                        chunks += placed
                        pages = [encode_blob_page(leaf.field, rows, positions, hints)]
                    else:
                        pages = encode_pages([(leaf.field, rows, hints)])[0]
                    for page in pages:
                        chunks += builder.add_page(column, page)
            column += 1
    chunks += builder.finish()
    content = b"".join(np.ascontiguousarray(chunk).tobytes() for chunk in chunks)
    assert len(content) == builder.num_bytes
    return content
