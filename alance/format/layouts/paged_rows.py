"""Rows of one field from pages that the kernel takes rows of: one call, whatever their number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.layouts.arrays import array_of, is_variable, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from alance.format.blocks import Block
    from alance.format.field import Field
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
    decoded: Callable[[FixedWidth], Block] | None = None  # None: they are the values


@dataclass(frozen=True, slots=True)
class PagedRows:
    """Rows of a field, page by page.

    Attributes:
        rows: of each page, counted from its first; ascending, unique.
        sources: of each page: its file, or the bytes of the chunks that hold the rows.
    """

    field: Field
    pages: tuple[RowPage, ...]
    rows: tuple[Int64s, ...]
    sources: tuple[LocalFile | memoryview, ...]

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

    def decode(self, *, wait: bool = True) -> pa.Array | None:
        """The values, in the order of the pages.

        Args:
            wait: read what the page cache does not have; else there is no answer then.

        Raises:
            CorruptFileError: the bytes contradict the format.
            OSError: of the system.
        """
        nowait = not wait
        if nowait and not all(
            isinstance(source, memoryview) or source.nowait for source in self.sources
        ):
            return None
        try:
            status, page, data, offsets, valid = _take(self.pages, self.rows, self.sources, nowait)
        except OverflowError as error:
            raise UnsupportedError(f"{error}: take fewer rows at once") from error
        except ValueError as error:
            raise self._failure(error) from error
        if status == WOULD_BLOCK and nowait:
            return None
        if status == TOO_SHORT:
            raise self.pages[page].place.corrupt("the file ends before it")
        if status != DONE:
            raise OSError(status, f"reading {self.pages[page].place.path}")
        assert data is not None
        return self._array(data, offsets, valid)

    def _array(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64] | None,
        valid: npt.NDArray[np.uint8] | None,
    ) -> pa.Array:
        arrow = self.field.to_arrow().type
        storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
        block: Block
        if offsets is not None:
            block = VariableWidth(offsets, data)
        else:
            width = self.pages[0].kernel.width
            block = FixedWidth(8 * width, self.num_rows, data)
            if self.pages[0].decoded is not None:
                block = self.pages[0].decoded(block)
        mask = None if valid is None else valid.view(np.bool_)
        return wrapped(array_of(block, storage, mask), arrow)

    def _failure(self, error: ValueError) -> AlanceError:
        """The error of the first page that cannot be decoded."""
        for page, rows, source in zip(self.pages, self.rows, self.sources, strict=True):
            try:
                _take([page], [rows], [source], False)
            except ValueError as own:
                return page.place.corrupt(str(own))
        return CorruptFileError(str(error))


def _take(
    pages: Sequence[RowPage],
    rows: Sequence[Int64s],
    sources: Sequence[LocalFile | memoryview],
    nowait: bool,
) -> tuple[
    int,
    int,
    npt.NDArray[np.uint8] | None,
    npt.NDArray[np.int64] | None,
    npt.NDArray[np.uint8] | None,
]:
    lengths = [len(one) for one in rows]
    return _kernels.take_rows(
        [page.kernel for page in pages],
        rows[0] if len(rows) == 1 else np.concatenate(rows),
        np.cumsum(lengths, dtype=np.int64),
        np.array([-1 if isinstance(one, memoryview) else one.fd for one in sources], np.int64),
        [one if isinstance(one, memoryview) else NOTHING for one in sources],
        nowait,
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
    )


def takes_rows(field: Field) -> bool:
    """Whether single rows of a field may be taken by the kernel, from pages that allow it."""
    known: bool | None = field.derived.get("takes_rows")
    if known is None:
        known = field.derived["takes_rows"] = _takes_rows(field)
    return known


def _takes_rows(field: Field) -> bool:
    if not field.is_leaf or field.is_json or field.is_blob_v1 or field.is_blob_v2:
        return False
    arrow = field.to_arrow().type
    storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    if is_variable(storage):
        return True
    if pa.types.is_dictionary(storage) or pa.types.is_null(storage):
        return False
    return pa.types.is_fixed_size_list(storage) or not pa.types.is_nested(storage)
