"""Statistics of batches in 0.1 files: null counts and bounds of each field.

They are the pages of another schema, in a single batch. A row of them describes a batch of the
data:

  struct <field id>
    null_count  int64
    min_value   of the field's type; if all are null or NaN, the smallest value of the type
    max_value   likewise, the largest

A bound need not be a value of the batch. An empty string means that the bound is unknown.

Source: docs/format/file-0.1.md, "Page statistics".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError
from alance.format.numbers import as_numbers
from alance.format.schema import Schema
from alance.format.table.dictionaries import KEYED_TYPES
from alance.format.v0_1.fields import Tree, page_bits
from alance.format.v2_0.base import Spans

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.base.arrays import Int64s
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.v0_1.metadata import BatchContainer

NULL_COUNT: Final = "null_count"
MIN_VALUE: Final = "min_value"
MAX_VALUE: Final = "max_value"


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Statistics of a field in each batch.

    Attributes:
        first_rows: first row of each batch, then the number of rows; shape (batches + 1,).
        null_counts: number of nulls that were written, although most were not stored; shape
            (batches,).
        least: lower bound of each batch's values except NaN; null if unknown.
        most: upper bound, likewise.
    """

    first_rows: Int64s
    null_counts: Int64s
    least: pa.Array
    most: pa.Array


def read_statistics(container: BatchContainer, field_id: int) -> Plan[BatchStatistics | None]:
    """Plan the statistics of a field, None if unknown: no round from the tail, else up to two."""
    metadata = container.metadata
    if not metadata.HasField("statistics") or not container.num_batches:
        return None
    schema = Schema.from_protobuf(metadata.statistics.schema, {})
    top = next((field for field in schema.fields if field.name == str(field_id)), None)
    parts = {} if top is None else {field.name: field for field in top.children}
    if top is None or not {NULL_COUNT, MIN_VALUE, MAX_VALUE} <= parts.keys():
        return None
    fields = [parts[name] for name in (NULL_COUNT, MIN_VALUE, MAX_VALUE)]
    if parts[NULL_COUNT].logical_type != "int64" or any(
        page_bits(field) is None for field in fields
    ):
        return None
    runs = yield from container.read_statistics_runs([field.id for field in fields])
    by_id = {field.id: run for field, run in zip(fields, runs, strict=True)}
    tree = Tree(container.path, container.file_bytes, by_id, {}, {}, {})
    count = np.array([container.num_batches], np.int64)
    arrays = []
    for field in fields:
        rows = yield from tree.node(field, count).plan(Spans.of_range(0, container.num_batches))
        try:
            arrays.append(rows.decode(field.arrow_type))
        except AlanceError as error:
            error.add_note(f"in the statistics of field {field_id} of {container.path}")
            raise
    null_counts = as_numbers(arrays[0])
    sizes = np.diff(container.first_rows)
    if (null_counts < 0).any() or (null_counts > sizes).any():
        raise CorruptFileError(
            f"{container.path}: statistics of field {field_id}: more nulls than rows"
        )
    return BatchStatistics(container.first_rows, null_counts, arrays[1], arrays[2])


def has_statistics(field: Field) -> bool:
    """True for a leaf type that has statistics, if it is outside of lists."""
    kind = field.logical_type
    if kind.startswith(("int", "uint", "decimal:128")):
        return not kind.startswith("interval")
    return kind in ("bool", "float", "double", "date32:day", "date64:ms", *KEYED_TYPES)
