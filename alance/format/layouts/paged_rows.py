"""Rows of one field from pages that the kernel takes rows of: one call, whatever their number."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, BatchTooLargeError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.layouts.arrays import array_of, wrapped
from alance.format.layouts.base import PageValues
from alance.format.numbers import is_variable, storage_type
from alance.format.plans import Pieces
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from alance.arrays import UInt16s
    from alance.format.blocks import Block
    from alance.format.field import Field
    from alance.format.layouts.levels import Shape
    from alance.format.layouts.place import Place
    from alance.format.plans import Reader

_NUMBERS: Final = count()  # of kinds
MOST_LAYERS: Final = 16  # of a column that the kernel puts together with others: four bits each


@dataclass(slots=True)  # frozen it would take thrice as long to make
class RowPage:
    """A page, and how its bytes become values."""

    kernel: _kernels.RowPage
    place: Place
    shape: Shape
    decoded: Callable[[FixedWidth], Block] | None = None  # None: they are the values
    are_items: bool = False  # they are the items of fixed-size lists, and nothing else

    @property
    def kind(self) -> tuple[int, int]:
        """Equal for pages whose rows can be taken in one call; and the layers, as kernels have
        them, where values are of bytes as Arrow has them.
        """
        key = self.kernel.width, self.decoded is None, self.are_items
        kind = self.shape.kinds.get(key)
        if kind is None:
            layers = self.shape.layers
            is_as_in_memory = self.decoded is None or self.are_items
            code = sum(layer << 4 * depth for depth, layer in enumerate(layers))
            is_told = is_as_in_memory and len(layers) <= MOST_LAYERS
            kind = self.shape.kinds[key] = next(_NUMBERS), code if is_told else 0
        return kind


class PlacedRows:
    """The same rows of some columns: where their bytes are, in files that have all of them.

    Attributes:
        paths: of the files that the plan's tables are of.
        content: the bytes of all pieces, one behind the other; None if they are not read, or are
            in `files`.
        files: what is held of the file of each table.
    """

    __slots__ = ("_pieces", "content", "files", "paths", "plan")

    def __init__(
        self,
        plan: _kernels.RowPlan,
        paths: Sequence[str],
        files: Sequence[_kernels.HeldFile] | None = None,
    ) -> None:
        self.plan = plan
        self.paths = paths
        self.content: memoryview | None = None
        self.files = files
        self._pieces: Pieces | None = None

    @property
    def is_read(self) -> bool:
        """True if the bytes are in memory."""
        return self.content is not None or self.files is not None

    @property
    def pieces(self) -> Pieces:
        """What is to be read."""
        if self._pieces is None:
            self._pieces = self.pieces_of(0, self.plan.num_groups)
        return self._pieces

    def pieces_of(self, first: int, last: int) -> Pieces:
        """What is to be read for some groups."""
        tables, ends, starts, stops, num_bytes = self.plan.pieces(first, last)
        paths = [*map(self.paths.__getitem__, tables)]
        return Pieces(paths, ends, starts, stops, num_bytes)

    def pieces_of_columns(self, columns: Sequence[int]) -> Pieces:
        """What is to be read for some columns, one at least."""
        groups: list[list[int]] = []
        for column in columns:
            runs = self.plan.column(column)
            if groups and groups[-1][1] == runs[0][1]:
                groups[-1][1] = runs[-1][2]
            else:
                groups.append([runs[0][1], runs[-1][2]])
        parts = [self.pieces_of(first, last) for first, last in groups]
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(len(part.starts) for part in parts)]).tolist()
        return Pieces(
            [path for part in parts for path in part.paths],
            [first + end for first, part in zip(before, parts, strict=False) for end in part.ends],
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.stops for part in parts]),
            sum(part.num_bytes for part in parts),
        )


class PagedRows(NamedTuple):
    """Rows of a leaf, of any number of files, and how to decode them.

    Attributes:
        runs: neighbouring groups of the plan whose pages are of one kind: such a page, the first
            group, the one behind the last, and their rows.
        is_array: the leaf is a field of its own, so that its values are the field's array.
    """

    field: Field
    placed: PlacedRows
    runs: Sequence[tuple[RowPage, int, int, int]]
    is_array: bool

    @classmethod
    def of(cls, field: Field, placed: PlacedRows, column: int, *, is_field: bool) -> PagedRows:
        """Rows that were placed.

        Args:
            column: its number in the plan.
            is_field: a row is a value of a field of the schema.
        """
        runs = placed.plan.column(column)
        return cls(field, placed, runs, is_field and len(runs) == 1 and runs[0][0].shape.is_plain)

    @property
    def num_bytes(self) -> int:
        """Encoded bytes."""
        return self.placed.plan.num_bytes(self.runs[0][1], self.runs[-1][2])

    @property
    def pieces(self) -> Pieces:
        """What is to be read."""
        return self.placed.pieces_of(self.runs[0][1], self.runs[-1][2])

    def decode(self, read: Reader) -> pa.Array:
        """The field's array, in the order of the rows; for rows that `is_array`.

        Args:
            read: brings what was not read before.

        Raises:
            CorruptFileError: the bytes contradict the format.
        """
        block, _, valid = self._take(self.runs[0], read, levels=False)
        arrow = self.field.to_arrow().type
        mask = None if valid is None else valid.view(np.bool_)
        return wrapped(array_of(block, storage_type(arrow), mask), arrow)

    def decode_pages(self, read: Reader) -> list[PageValues]:
        """Levels and values, in the order of the rows: one for all neighbours of one kind.

        Arguments and errors are those of `decode`.
        """
        pages = []
        for run in self.runs:
            block, rep, definition = self._take(run, read, levels=True)
            page, _, _, num_rows = run
            shape = page.shape
            assert definition is None or definition.dtype == np.uint16
            levels = definition.view(np.uint16) if definition is not None else None
            pages.append(
                PageValues(
                    shape.layers,
                    rep if shape.has_lists else None,
                    levels if shape.max_def else None,
                    block,
                    num_rows,
                )
            )
        return pages

    def _take(
        self, run: tuple[RowPage, int, int, int], read: Reader, *, levels: bool
    ) -> tuple[Block, UInt16s | None, npt.NDArray[Any] | None]:
        """Values, repetition levels, and definition levels or validity, of groups of one kind."""
        page, first, last, num_rows = run
        placed = self.placed
        plan, content = placed.plan, placed.content
        width = page.kernel.width
        sink = _kernels.RowSink(width, levels, num_rows)
        try:
            if content is not None:
                sink.add(plan, first, last, content)
            else:
                with read(placed.paths, lambda: placed.pieces_of(first, last)) as source:
                    if not sink.add_from(plan, first, last, source):
                        raise OSError  # the reader knows which
        except OverflowError as error:
            raise BatchTooLargeError(f"{error}: take fewer rows at once") from error
        except AlanceError:
            raise
        except ValueError as error:
            raise plan.page(sink.page).place.corrupt(str(error)) from error
        data, offsets, rep, definition = sink.finish()
        if offsets is not None:
            return VariableWidth(offsets, data), rep, definition
        block: Block = FixedWidth(8 * width, len(data) // width, data)
        if page.decoded is not None:
            block = page.decoded(FixedWidth(8 * width, len(data) // width, data))
        return block, rep, definition


def takes_rows(field: Field) -> bool:
    """Whether single rows of a leaf may be taken by the kernel, from pages that allow it."""
    return field.derive("takes_rows", _takes_rows)


def _takes_rows(field: Field) -> bool:
    if not field.is_leaf or field.is_blob_v1 or field.is_blob_v2:
        return False
    storage = storage_type(field.to_arrow().type)
    if is_variable(storage):
        return True
    if pa.types.is_dictionary(storage) or pa.types.is_null(storage):
        return False
    return pa.types.is_fixed_size_list(storage) or not pa.types.is_nested(storage)
