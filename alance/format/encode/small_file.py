"""Files with few rows and plain columns, which a single kernel call encodes.

Plain columns have numbers, booleans or byte strings, and no hints in their fields. The kernel
refuses batches that need more than a page a column, or more than 64 MiB. It writes the same bytes
as the other modules. If a column is not plain, the kernel is not used.

Source: kernels/encode/small_file.cpp.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.file_version import FileVersion
from alance.format.encode import statistics as zone_statistics
from alance.format.encode.container import (
    FOOTER_NUMBERS,
    SEARCH_BYTES,
    column_encoding,
    file_descriptor,
)
from alance.format.encode.options import PREFIX
from alance.format.encode.page_inputs import frame
from alance.format.layouts import PAGE_LAYOUT
from alance.format.layouts.fields import owns_column
from alance.format.numbers import is_large, is_variable

if TYPE_CHECKING:
    from alance.format.field import Field
    from alance.format.schema import Schema

    _Kind: TypeAlias = tuple[int, int, str, bool]

SMALL_FILE_WIDTHS: Final = (1, 8, 16, 32, 64, 128)  # allowed bits per value


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """Encoder of small files of one schema and version."""

    expected: pa.Schema
    metadata: dict[str, str]
    kernel: _kernels.SmallFiles

    def encode(self, batch: pa.RecordBatch, page_bytes: int, *, statistics: bool) -> bytes | None:
        """Encode a batch as a file.

        Returns None if the batch has no rows or another schema, or the kernel refuses it.
        """
        if not batch.num_rows or not batch.schema.equals(self.expected):
            return None
        return self.kernel.encode(batch, statistics, page_bytes)


def small_files(schema: Schema, version: FileVersion) -> SmallFiles | None:
    """Return the encoder of a schema's small files; None if a column is not plain. Memoized."""
    return schema.remember(("small files", version), lambda: (_of(schema, version),))[0]


def _of(schema: Schema, version: FileVersion) -> SmallFiles | None:
    if version not in (FileVersion.V2_1, FileVersion.V2_2) or not schema.fields:
        return None
    kinds = []
    # Kinds of fields without children and metadata.
    kind_of: dict[tuple[str, bool], _Kind | None] = {}
    for field in schema.fields:
        key = field.logical_type, field.nullable
        if field.metadata or field.children:
            kind = _kind(field)
        else:
            kind = kind_of[key] if key in kind_of else kind_of.setdefault(key, _kind(field))
        if kind is None:
            return None
        kinds.append(kind)
    kernel = _kernels.SmallFiles(
        kinds,
        file_descriptor(schema, 0).SerializeToString(deterministic=True),
        column_encoding(),
        PAGE_LAYOUT,
        *FOOTER_NUMBERS[version],
        SEARCH_BYTES,
        zone_statistics.WRITTEN_ZONE_ROWS,
        zone_statistics.MAX_WRITTEN_ZONES,
        zlib.compress,
        frame,
    )
    names = [pa.field(field.name, field.arrow_type, field.nullable) for field in schema.fields]
    return SmallFiles(pa.schema(names), dict(schema.metadata), kernel)


def _kind(field: Field) -> _Kind | None:
    """Return bits per value, bytes per offset, kind of bounds, nullability; None if not plain."""
    special = field.is_blob_v1 or field.is_blob_v2 or field.is_packed or field.is_json
    if special or not field.is_leaf or not owns_column(field):
        return None
    if any(key.startswith(PREFIX) for key in field.metadata):
        return None
    arrow = field.arrow_type
    if pa.types.is_null(arrow) or pa.types.is_dictionary(arrow) or pa.types.is_nested(arrow):
        return None
    zones = zone_statistics.zones_kind(field) or ""
    if is_variable(arrow):
        return 0, 8 if is_large(arrow) else 4, zones, field.nullable
    return (
        (arrow.bit_width, 0, zones, field.nullable)
        if arrow.bit_width in SMALL_FILE_WIDTHS
        else None
    )
