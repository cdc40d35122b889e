"""The columns of a fragment whose neighbouring rows the kernel takes, all in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.columns import OpenColumn
from alance.format.layouts.arrays import is_text, is_variable
from alance.format.plans import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.leaves import OpenLeaf
    from alance.format.field import Field


@dataclass(frozen=True, slots=True)
class RangedColumns:
    """The leaves of a fragment whose pages the kernel may take ranges of rows from.

    Attributes:
        numbers: of the leaves, ascending.
        widths: bytes of a value, 0: a bit, -4 or -8: strings by the bytes of their offsets.
        texts: whether values are UTF-8.
        files: of each, the number of its path.
    """

    numbers: Sequence[int]
    leaves: Sequence[OpenLeaf]
    tables: Sequence[_kernels.RowTable]
    widths: Sequence[int]
    texts: Sequence[bool]
    paths: Sequence[str]
    files: Sequence[int]
    schema: pa.Schema

    @classmethod
    def of(
        cls, leaves: Sequence[OpenLeaf], tables: Sequence[_kernels.RowTable | None]
    ) -> RangedColumns:
        """Those of all leaves that have tables, and values of a plain type."""
        triples = [
            (number, table, width)
            for number, (leaf, table) in enumerate(zip(leaves, tables, strict=True))
            if table is not None and (width := _width(leaf)) is not None
        ]
        numbers = [number for number, _, _ in triples]
        leaves = [leaves[number] for number in numbers]
        paths = dict.fromkeys(leaf.column.container.path for leaf in leaves)
        places = {path: place for place, path in enumerate(paths)}
        return cls(
            numbers,
            leaves,
            [table for _, table, _ in triples],
            [width for _, _, width in triples],
            [is_text(_storage(leaf.leaf.field)) for leaf in leaves],
            [*paths],
            [places[leaf.column.container.path] for leaf in leaves],
            pa.schema([leaf.leaf.field.to_arrow() for leaf in leaves]),
        )

    def plan(self, spans: Sequence[tuple[int, int]]) -> _kernels.RangePlan:
        """Where ranges of rows are, as far as the tables know.

        Args:
            spans: ascending, none of them empty.

        Raises:
            CorruptFileError: pages that contradict each other.
        """
        try:
            return _kernels.RangePlan(self.tables, self.widths, self.texts, spans)
        except ValueError as error:
            raise CorruptFileError(f"{', '.join(self.paths)}: {error}") from error

    def ranges(self, plan: _kernels.RangePlan) -> list[ByteRange]:
        """The bytes of each page of a plan."""
        columns, starts, stops = (numbers.tolist() for numbers in plan.ranges)
        paths = [self.paths[self.files[column]] for column in columns]
        return list(map(ByteRange, paths, starts, stops))


def _storage(field: Field) -> pa.DataType:
    arrow = field.to_arrow().type
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def _width(leaf: OpenLeaf) -> int | None:
    """How the values of a leaf lie in an array; None: the kernel does not make such arrays."""
    field = leaf.leaf.field
    if not leaf.is_top or field.is_json or not isinstance(leaf.column, OpenColumn):
        return None
    storage = _storage(field)
    if is_variable(storage):
        is_large = pa.types.is_large_string(storage) or pa.types.is_large_binary(storage)
        return -8 if is_large else -4
    if pa.types.is_nested(storage):
        return None
    if pa.types.is_boolean(storage):
        return 0
    try:
        return int(storage.bit_width // 8)
    except ValueError:
        return None


NO_COLUMNS: Final = RangedColumns((), (), (), (), (), (), (), pa.schema([]))
