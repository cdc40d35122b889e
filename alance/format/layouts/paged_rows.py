"""Rows of one field from pages that the kernel takes rows of: one call, whatever their number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.layouts.arrays import array_of, is_variable, wrapped
from alance.format.layouts.base import PageValues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from alance.format.blocks import Block
    from alance.format.field import Field
    from alance.format.layouts.levels import Shape
    from alance.format.layouts.place import PagePlace

    Int64s = npt.NDArray[np.int64]

CHUNK_BYTES: Final = 4 << 10  # read for a row, about
DONE: Final = 0
WOULD_BLOCK: Final = -1
TOO_SHORT: Final = -2
NOTHING: Final = memoryview(b"")


class LocalFile(Protocol):
    """A file that the kernel reads by its descriptor."""

    @property
    def fd(self) -> int: ...

    @property
    def nowait(self) -> bool:
        """Whether the system tells, without waiting, what is not in the page cache."""
        ...


@dataclass(frozen=True, slots=True)
class RowPage:
    """A page, and how its bytes become values."""

    kernel: _kernels.RowPage
    place: PagePlace
    shape: Shape
    decoded: Callable[[FixedWidth], Block] | None = None  # None: they are the values

    @property
    def is_plain(self) -> bool:
        """Whether a row is one value, and absent for no other reason than its own null."""
        return len(self.shape.layers) == 1 and not self.shape.has_lists

    def is_like(self, other: RowPage) -> bool:
        """Whether rows of both can be taken in one call."""
        return (
            self.shape == other.shape
            and self.kernel.width == other.kernel.width
            and (self.decoded is None) == (other.decoded is None)
        )


@dataclass(frozen=True, slots=True)
class PagedRows:
    """Rows of a leaf, page by page.

    Attributes:
        rows: of each page, counted from its first; ascending, unique.
        sources: of each page: its file, or the bytes of the chunks that hold the rows.
        is_array: the leaf is a field of its own, so that its values are the field's array.
        joined: `rows` end to end, and where those of each page end.
    """

    field: Field
    pages: tuple[RowPage, ...]
    rows: tuple[Int64s, ...]
    sources: tuple[LocalFile | memoryview, ...]
    is_array: bool
    joined: tuple[Int64s, Int64s] | None = None

    @property
    def num_rows(self) -> int:
        return sum(len(rows) for rows in self.rows)

    @property
    def num_bytes(self) -> int:
        """Encoded bytes, about."""
        return sum(
            len(source) if isinstance(source, memoryview) else len(rows) * CHUNK_BYTES
            for source, rows in zip(self.sources, self.rows, strict=True)
        )

    def might_wait(self) -> bool:
        """Whether the system does not tell what it would have to wait for."""
        return not all(isinstance(source, memoryview) or source.nowait for source in self.sources)

    def decode(self, *, wait: bool = True) -> pa.Array | None:
        """The field's array, in the order of the pages; for rows that `is_array`.

        Args:
            wait: read what the page cache does not have; else there is no answer then.

        Raises:
            CorruptFileError: the bytes contradict the format.
            OSError: of the system.
        """
        found = self._take(0, len(self.pages), wait, levels=False)
        if found is None:
            return None
        block, _, valid = found
        arrow = self.field.to_arrow().type
        storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
        mask = None if valid is None else valid.view(np.bool_)
        return wrapped(array_of(block, storage, mask), arrow)

    def decode_pages(self, *, wait: bool = True) -> list[PageValues] | None:
        """Levels and values, in the order of the pages: one for all neighbours of one shape.

        Arguments and errors are those of `decode`.
        """
        found, start = [], 0
        while start < len(self.pages):
            first, stop = self.pages[start], start + 1
            while stop < len(self.pages) and self.pages[stop].is_like(first):
                stop += 1
            taken = self._take(start, stop, wait, levels=True)
            if taken is None:
                return None
            block, rep, definition = taken
            shape, num_rows = first.shape, sum(len(rows) for rows in self.rows[start:stop])
            assert definition is None or definition.dtype == np.uint16
            found.append(
                PageValues(
                    shape.layers,
                    rep if shape.has_lists else None,
                    definition.view(np.uint16)
                    if definition is not None and shape.max_def
                    else None,
                    block,
                    num_rows,
                )
            )
            start = stop
        return found

    def _take(
        self, start: int, stop: int, wait: bool, *, levels: bool
    ) -> tuple[Block, npt.NDArray[np.uint16] | None, npt.NDArray[Any] | None] | None:
        """Values, repetition levels, and definition levels or validity, of some pages."""
        if not wait and self.might_wait():
            return None
        pages = self.pages[start:stop]
        rows, sources = self.rows[start:stop], self.sources[start:stop]
        try:
            whole = self.joined if len(pages) == len(self.pages) else None
            found = _take(pages, rows, sources, not wait, levels, whole)
        except OverflowError as error:
            raise UnsupportedError(f"{error}: take fewer rows at once") from error
        except ValueError as error:
            raise _failure(pages, rows, sources, levels, error) from error
        status, page, data, offsets, rep, definition = found
        if status == WOULD_BLOCK and not wait:
            return None
        if status == TOO_SHORT:
            raise pages[page].place.corrupt("the file ends before it")
        if status != DONE or data is None:
            raise OSError(status, f"reading {pages[page].place.path}")
        if offsets is not None:
            return VariableWidth(offsets, data), rep, definition
        width = pages[0].kernel.width
        block: Block = FixedWidth(8 * width, len(data) // width, data)
        if pages[0].decoded is not None:
            block = pages[0].decoded(FixedWidth(8 * width, len(data) // width, data))
        return block, rep, definition


def _failure(
    pages: Sequence[RowPage],
    rows: Sequence[Int64s],
    sources: Sequence[LocalFile | memoryview],
    levels: bool,
    error: ValueError,
) -> AlanceError:
    """The error of the first page that cannot be decoded."""
    for page, mine, source in zip(pages, rows, sources, strict=True):
        try:
            _take([page], [mine], [source], False, levels)
        except ValueError as own:
            return page.place.corrupt(str(own))
    return CorruptFileError(str(error))


def _take(
    pages: Sequence[RowPage],
    rows: Sequence[Int64s],
    sources: Sequence[LocalFile | memoryview],
    nowait: bool,
    levels: bool,
    whole: tuple[Int64s, Int64s] | None = None,
) -> tuple[
    int,
    int,
    npt.NDArray[np.uint8] | None,
    npt.NDArray[np.int64] | None,
    npt.NDArray[np.uint16] | None,
    npt.NDArray[Any] | None,
]:
    if whole is None:
        ends = np.cumsum([len(one) for one in rows], dtype=np.int64)
        whole = rows[0] if len(rows) == 1 else np.concatenate(rows), ends
    return _kernels.take_rows(
        [page.kernel for page in pages],
        *whole,
        np.array([-1 if isinstance(one, memoryview) else one.fd for one in sources], np.int64),
        [one if isinstance(one, memoryview) else NOTHING for one in sources],
        nowait,
        levels,
    )


def joined(parts: Sequence[PagedRows]) -> PagedRows:
    """Rows of one field from several files, one part behind the other."""
    if len(parts) == 1:
        return parts[0]
    return PagedRows(
        parts[0].field,
        tuple(page for part in parts for page in part.pages),
        tuple(rows for part in parts for rows in part.rows),
        tuple(source for part in parts for source in part.sources),
        parts[0].is_array,
    )


def takes_rows(field: Field) -> bool:
    """Whether single rows of a leaf may be taken by the kernel, from pages that allow it."""
    known: bool | None = field.derived.get("takes_rows")
    if known is None:
        known = field.derived["takes_rows"] = _takes_rows(field)
    return known


def _takes_rows(field: Field) -> bool:
    if not field.is_leaf or field.is_blob_v1 or field.is_blob_v2:
        return False
    arrow = field.to_arrow().type
    storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    if is_variable(storage):
        return True
    if pa.types.is_dictionary(storage) or pa.types.is_null(storage):
        return False
    return pa.types.is_fixed_size_list(storage) or not pa.types.is_nested(storage)
