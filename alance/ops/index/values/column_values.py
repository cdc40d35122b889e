"""Values to index: the values of a column, or the values at a path in its JSON documents."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.expr.builders.json_values import path_steps, scalars
from alance.expr.tree import FAILURES, Problem, plain

if TYPE_CHECKING:
    from alance.expr.builders.json_values import PathStep


class OtherTypeError(Exception):
    """JSON values have another type than assumed: all rows must be read again."""

    def __init__(self, values: ColumnValues) -> None:
        super().__init__(str(values.type))
        self.values = values


@dataclass(slots=True, eq=False)
class ColumnValues:
    """Extraction of the values to index from a column.

    Attributes:
        type: type of the values; for JSON values the type so far.
        path: path of the values in JSON documents; None for the column's own values.
        has_type: True if the type of JSON values is known from earlier values.
    """

    column: str
    type: pa.DataType
    path: str | None = None
    has_type: bool = False
    _steps: tuple[PathStep, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._steps = path_steps(self.path) if self.path is not None else ()

    @classmethod
    def at(cls, column: str, type_: pa.DataType, path: str | None) -> ColumnValues:
        """Return an extractor for a column.

        The type of values at a JSON path is text until a value is read.
        """
        return cls(column, type_ if path is None else pa.string(), path)

    def of(self, values: pa.Array) -> pa.Array:
        """Return the values to index of a batch. CPU work.

        Raises:
            InvalidInputError: JSON values of several types, arrays or objects.
            OtherTypeError: the JSON values have one type, but not `type`.
        """
        if self.path is None:
            return values
        try:
            inside = scalars(plain(values), self._steps)
        except (*FAILURES, Problem) as error:
            where = f"JSON index of {self.column!r}, path {self.path!r}"
            raise InvalidInputError(f"{where}: {error}") from error
        if inside.type != pa.null():
            joined = self.joined(inside.type)
            if joined.type != self.type:
                raise OtherTypeError(joined)
            self.has_type = True
        return inside.cast(self.type, safe=False)

    def joined(self, type_: pa.DataType) -> ColumnValues:
        """Return an extractor whose type also holds `type_`: float64 for int64 and float64.

        Raises:
            InvalidInputError: no type holds both.
        """
        if self.has_type and type_ != self.type:
            if {type_, self.type} != {pa.int64(), pa.float64()}:
                raise InvalidInputError(
                    f"JSON index of {self.column!r}: values at {self.path!r}: expected one type, "
                    f"found {self.type} and {type_}"
                )
            type_ = pa.float64()
        return replace(self, type=type_, has_type=True)
