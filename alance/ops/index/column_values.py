"""What is indexed of a column: its values, or the values at a path of its JSON documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.expr.json_values import path_steps, scalars
from alance.expr.tree import FAILURES, Problem, plain

if TYPE_CHECKING:
    from alance.expr.json_values import Step


class OtherTypeError(Exception):
    """Values at a path are of another type than those before them: all are to be read again."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(str(type_))
        self.type = type_


@dataclass(slots=True, eq=False)
class ColumnValues:
    """The values of a column that an index is of, while rows pass by.

    Attributes:
        type: that they have; of JSON values so far.
        path: of JSON values.
        is_told: values of that type were there.
    """

    column: str
    type: pa.DataType
    path: str | None = None
    is_told: bool = False
    _steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        self._steps = path_steps(self.path) if self.path is not None else ()

    @classmethod
    def of_json(cls, column: str, path: str) -> ColumnValues:
        """Of the values at a path: texts, as long as there are none."""
        return cls(column, pa.string(), path)

    def of(self, values: pa.Array) -> pa.Array:
        """What is indexed of the next rows. CPU.

        Raises:
            InvalidInputError: JSON values of several types, arrays or objects.
            OtherTypeError: they are of one type, and that is not `type`.
        """
        if self.path is None:
            return values
        try:
            inside = scalars(plain(values), self._steps)
        except (*FAILURES, Problem) as error:
            where = f"JSON index of {self.column!r}, path {self.path!r}"
            raise InvalidInputError(f"{where}: {error}") from error
        if inside.type == pa.null():
            return inside.cast(self.type)
        # Whole numbers are among others.
        both = {inside.type, self.type} == {pa.int64(), pa.float64()}
        if inside.type == self.type or (both and pa.types.is_float64(self.type)):
            self.is_told = True
            return inside.cast(self.type)
        if self.is_told and not both:
            raise InvalidInputError(
                f"JSON index of {self.column!r}: values at {self.path!r}: expected one type, "
                f"found {self.type} and {inside.type}"
            )
        raise OtherTypeError(inside.type)
