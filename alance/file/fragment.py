"""The rows of one fragment: its data files side by side, one Arrow batch out.

A schema's fields are looked up by id in the fragment's files; a field that none of them has reads
as null. All files of a fragment have the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import AlanceError, CorruptFileError
from alance.file.open import from_content, open_columns, open_file
from alance.format.layouts.fields import LeafColumn, assemble, leaf_columns
from alance.format.plans import together
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.file.columns import OpenColumn, States
    from alance.format.layouts.base import DecodeTask
    from alance.format.plans import Plan


@dataclass(frozen=True, slots=True)
class FileSource:
    """A data file of a fragment: where it is, and which field is in which column."""

    location: str
    file_bytes: int  # exact
    columns: dict[int, int]  # field id -> column index


@dataclass(frozen=True, slots=True)
class OpenLeaf:
    """A leaf field and its column; `rows` of the table are `rows * multiplier` of the column."""

    leaf: LeafColumn
    column: OpenColumn


@dataclass(frozen=True, slots=True)
class FragmentTask:
    """Fetched bytes of some rows; decoding is CPU work for the pool."""

    schema: Schema
    num_rows: int
    tasks: dict[int, list[DecodeTask]]  # by field id of the leaf

    @property
    def num_bytes(self) -> int:
        """Encoded bytes to decode."""
        return sum(task.num_bytes for tasks in self.tasks.values() for task in tasks)

    def split(self, count: int) -> list[FragmentTask]:
        """The task as up to `count` ones, each for some neighbouring fields and about as many
        bytes; their batches side by side are the batch of the whole.
        """
        if count <= 1 or len(self.schema.fields) <= 1:
            return [self]
        owned = [[leaf.field.id for leaf in leaf_columns(field)] for field in self.schema.fields]
        sizes = [
            sum(task.num_bytes for leaf in leaves for task in self.tasks.get(leaf, ()))
            for leaves in owned
        ]
        middles = np.cumsum(sizes) - np.array(sizes) / 2
        share = (middles * count / max(1, sum(sizes))).astype(np.int64)
        parts = []
        for number in np.unique(share).tolist():
            mine = np.flatnonzero(share == number).tolist()
            fields = tuple(self.schema.fields[position] for position in mine)
            leaves = [leaf for position in mine for leaf in owned[position]]
            tasks = {leaf: self.tasks[leaf] for leaf in leaves if leaf in self.tasks}
            parts.append(FragmentTask(Schema(fields, {}), self.num_rows, tasks))
        return parts

    def decode(self) -> pa.RecordBatch:
        """The rows as Arrow, in the order of the plan.

        Raises:
            CorruptFileError: bytes that contradict the format.
        """
        leaves = {
            field_id: [task.decode() for task in tasks] for field_id, tasks in self.tasks.items()
        }
        arrays = []
        for field in self.schema.fields:
            try:
                arrays.append(assemble(field, leaves, self.num_rows))
            except AlanceError as error:
                error.add_note(f"in field {field.name!r}")
                raise
        schema = pa.schema([field.to_arrow() for field in self.schema.fields])
        if not arrays:
            return empty_columns(self.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def fixed_bytes(arrow: pa.DataType) -> float:
    """Bytes of a value of a fixed-width type; 0 for others."""
    if pa.types.is_fixed_size_list(arrow):
        return float(arrow.list_size * fixed_bytes(arrow.value_type))
    try:
        return float(arrow.bit_width) / 8
    except ValueError:
        return 0.0


def side_by_side(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The columns of batches of the same rows in one."""
    if len(batches) == 1:
        return batches[0]
    columns = [column for batch in batches for column in batch.columns]
    schema = pa.schema([field for batch in batches for field in batch.schema])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows; of any types, extension types inside of others too."""
    arrays = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def empty_columns(num_rows: int) -> pa.RecordBatch:
    """A batch of no columns that still knows its number of rows."""
    struct = pa.StructArray.from_buffers(pa.struct([]), num_rows, [None])
    return pa.RecordBatch.from_struct_array(struct)


@dataclass(frozen=True, slots=True)
class OpenFragment:
    """A fragment with the columns of a projection open."""

    schema: Schema
    num_rows: int  # physical rows, deleted ones included
    leaves: tuple[OpenLeaf, ...]

    @property
    def encoded_bytes(self) -> int:
        """Bytes of all pages of the projection."""
        return sum(leaf.column.encoded_bytes for leaf in self.leaves)

    @property
    def row_bytes(self) -> float:
        """Memory of a decoded row, estimated: a constant page of vectors has no bytes at all."""
        rows = max(1, self.num_rows)
        return sum(
            max(
                one.column.encoded_bytes / rows,
                one.leaf.multiplier * fixed_bytes(one.leaf.field.arrow_type),
            )
            for one in self.leaves
        )

    def take(
        self, rows: npt.NDArray[np.int64], states: States, *, guess: bool = True
    ) -> Plan[FragmentTask]:
        """Plan single rows.

        Args:
            rows: physical row offsets, sorted and unique.
            guess: as of `OpenColumn.take`.
        """
        plans = [self._take_leaf(leaf, rows, states, guess) for leaf in self.leaves]
        tasks = yield from together(plans)
        return FragmentTask(self.schema, len(rows), self._by_field(tasks))

    def read(self, start: int, stop: int, states: States) -> Plan[FragmentTask]:
        """Plan the physical rows from `start` to `stop`."""
        plans = [
            from_content(
                one.column.read(start * one.leaf.multiplier, stop * one.leaf.multiplier, states),
                one.column.container,
            )
            for one in self.leaves
        ]
        tasks = yield from together(plans)
        return FragmentTask(self.schema, stop - start, self._by_field(tasks))

    def load(self, start: int, stop: int, states: States) -> Plan[None]:
        """Plan what must be known of the pages before rows can be read: at most one round."""
        yield from together(
            [
                from_content(
                    one.column.load(
                        start * one.leaf.multiplier, stop * one.leaf.multiplier, states
                    ),
                    one.column.container,
                )
                for one in self.leaves
            ]
        )

    def _by_field(self, tasks: Sequence[list[DecodeTask]]) -> dict[int, list[DecodeTask]]:
        return {one.leaf.field.id: found for one, found in zip(self.leaves, tasks, strict=True)}

    @staticmethod
    def _take_leaf(
        one: OpenLeaf, rows: npt.NDArray[np.int64], states: States, guess: bool
    ) -> Plan[list[DecodeTask]]:
        if (dimension := one.leaf.multiplier) > 1:
            rows = (rows[:, None] * dimension + np.arange(dimension)).reshape(-1)
        return from_content(one.column.take(rows, states, guess=guess), one.column.container)


def open_fragment(
    schema: Schema, files: Sequence[FileSource], num_rows: int, states: States
) -> Plan[OpenFragment]:
    """Plan the opening of a fragment for a projection: one round where its files are unknown.

    Raises:
        CorruptFileError: a file whose columns have another number of rows than the fragment.
    """
    leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
    wanted: list[tuple[FileSource, list[LeafColumn]]] = []
    for source in files:
        mine = [leaf for leaf in leaves if leaf.field.id in source.columns]
        if mine:
            wanted.append((source, mine))
    opened = yield from together([_open_leaves(source, mine, states) for source, mine in wanted])
    found = {one.leaf.field.id: one for group in opened for one in group}
    for one in found.values():
        if one.column.num_rows != num_rows * one.leaf.multiplier:
            raise CorruptFileError(
                f"field {one.leaf.field.name!r} in {one.column.container.path}: "
                f"{one.column.num_rows} rows, the fragment has {num_rows}"
            )
    return OpenFragment(
        schema, num_rows, tuple(found[leaf.field.id] for leaf in leaves if leaf.field.id in found)
    )


def _open_leaves(
    source: FileSource, leaves: Sequence[LeafColumn], states: States
) -> Plan[list[OpenLeaf]]:
    container = yield from open_file(source.location, source.file_bytes, states)
    indices = [source.columns[leaf.field.id] for leaf in leaves]
    columns = yield from open_columns(container, indices, states)
    return [OpenLeaf(leaf, column) for leaf, column in zip(leaves, columns, strict=True)]
