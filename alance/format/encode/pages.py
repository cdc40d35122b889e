"""Encoder of a leaf's rows as pages; the values and the user's hints determine the layout.

The first matching line applies:

  constant      only nulls; from 2.2 on: only one value and nulls
  full-zip      packed structs of strings or lists, fixed-size lists of nulls
  mini-block    with a dictionary, if it saves bytes or the column is a dictionary
  as requested  `lance-encoding:structural-encoding`: `miniblock` or `fullzip`; from 2.3 on
                `sparse`, which is also used for lists in or around fixed-size lists of structs
  mini-block    no value has more than 255 bytes
  full-zip      otherwise

Source: what the reference implementation writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np

from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.encode.base import Hints
from alance.format.encode.page_inputs import (
    ANY,
    WIDE_BITS,
    NoPage,
    PageMode,
    TooManyLevels,
    encoded,
    level_budget,
    page_by_mode,
    page_input,
    page_of,
)
from alance.format.encode.rows import cut_entries
from alance.format.layouts.base import Layer
from alance.format.layouts.fields import is_empty_struct, layer_dimensions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance import _kernels
    from alance.base.arrays import UInt16s
    from alance.format.encode.base import EncodedPage
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues

STRUCTURE: Final = "lance-encoding:structural-encoding"
MINI_BLOCK_LAYOUT, FULL_ZIP_LAYOUT, SPARSE_LAYOUT = "miniblock", "fullzip", "sparse"


def hints_of(root: Field, leaf: Field, version: FileVersion) -> Hints:
    """Collect the hints for a leaf: its own metadata, and the layout that its column requests."""
    metadata = {key: value for key, value in leaf.metadata.items() if key != STRUCTURE}
    if STRUCTURE in root.metadata:
        metadata[STRUCTURE] = root.metadata[STRUCTURE]
    return Hints(version, metadata, layer_dimensions(root, leaf))


def encode_page(field: Field, values: PageValues, hints: Hints) -> EncodedPage:
    """Encode all rows as one page."""
    leaf = _NewLeaf(field, values, hints)
    try:
        return leaf.page(encoded([leaf.input])[0])
    except TooManyLevels:
        return page_by_mode(values, hints, PageMode.ZIPPED)


def encode_pages(leaves: Sequence[tuple[Field, PageValues, Hints]]) -> list[list[EncodedPage]]:
    """Encode rows of several leaves in one kernel call.

    A leaf becomes one page, or several if a chunk's empty lists would exceed its level budget.
    The result is the same as from `encode_page` for each leaf.

    Raises:
        InvalidInputError: an array is inconsistent, or no page can hold it. The message names its
            field.
    """
    inputs = [_NewLeaf(*leaf) for leaf in leaves]
    try:
        results = encoded([leaf.input for leaf in inputs])
    except ValueError as error:
        raise _refused(inputs, error) from error
    return [leaf.pages(result) for leaf, result in zip(inputs, results, strict=True)]


def _refused(inputs: Sequence[_NewLeaf], error: ValueError) -> InvalidInputError:
    """Add the name of a field to the kernel's error: the first field that fails by itself."""
    for leaf in inputs:
        try:
            encoded([leaf.input])
        except ValueError as own:
            return InvalidInputError(f"field {leaf.name!r}: {own}")
    return InvalidInputError(str(error))


class _NewLeaf:
    """Rows of a leaf to encode as pages."""

    def __init__(self, field: Field, values: PageValues, hints: Hints) -> None:
        if values.num_rows < 1:
            raise InvalidInputError(f"field {field.name!r}: a page without rows")
        self._is_structure = is_empty_struct(field) and hints.version >= FileVersion.V2_3
        if is_empty_struct(field) and not self._is_structure:
            values = _all_null(field, values)
        self._field, self._values, self._hints = field, values, hints
        self.name = field.name
        layout, is_sparse = _asked_layout(field, values, hints)
        zip_bits = {None: WIDE_BITS, MINI_BLOCK_LAYOUT: ANY, FULL_ZIP_LAYOUT: 0}[layout]
        mode = PageMode.CONSTANT if is_sparse else PageMode.ANY
        self.input = page_input(values, hints, mode, zip_bits)

    def pages(self, result: _kernels.PageResult) -> list[EncodedPage]:
        """Return the pages, given the kernel's result."""
        try:
            return [self.page(result)]
        except TooManyLevels:
            parts = cut_entries(self._values, level_budget(self._values))
            return [encode_page(self._field, part, self._hints) for part in parts]

    def page(self, result: _kernels.PageResult) -> EncodedPage:
        """Return a single page, given the kernel's result.

        Raises:
            TooManyLevels: a chunk would exceed its level budget.
        """
        values, hints = self._values, self._hints
        is_later = isinstance(result, int) and result != NoPage.TOO_MANY_LEVELS
        is_constant = isinstance(result, tuple) and len(result) == 1
        if not (self._is_structure or is_later or is_constant):
            return page_of(result, values)
        from alance.format.encode.planar import sparse_page, sparse_values_page

        if is_later and not self._is_structure:
            return sparse_values_page(values, hints, zipped=result == NoPage.ZIPPED_LATER)
        scalar = None if self._is_structure else cast("tuple[bytes | None]", result)[0]
        return sparse_page(values, hints.dimensions, scalar)


def _all_null(field: Field, values: PageValues) -> PageValues:
    """Mark all structs without fields as null, as dense pages store them.

    Raises:
        InvalidInputError: some structs are null, and the page could not distinguish them from the
            others.
    """
    inner, *outer = values.layers
    definition = values.definition
    if inner is Layer.NULLABLE_ITEM and definition is not None and (definition == 1).any():
        raise InvalidInputError(
            f"field {field.name!r}: null structs without fields in a file before version 2.3; "
            "write a struct that has a field, or a file of version 2.3"
        )
    if values.rep is None and definition is None:
        return values._replace(layers=(Layer.NULLABLE_ITEM,))
    if definition is None:
        definition = np.ones(len(cast("UInt16s", values.rep)), np.uint16)
    elif inner is Layer.NULLABLE_ITEM:
        definition = np.maximum(definition, 1)
    else:
        definition = definition + np.uint16(1)
    return values._replace(layers=(Layer.NULLABLE_ITEM, *outer), definition=definition)


def _asked_layout(field: Field, values: PageValues, hints: Hints) -> tuple[str | None, bool]:
    """Return the requested layout (None for no request), and True if the page must be sparse."""
    layout = hints.metadata.get(STRUCTURE)
    layouts = [MINI_BLOCK_LAYOUT, FULL_ZIP_LAYOUT]
    if hints.version >= FileVersion.V2_3:
        layouts.append(SPARSE_LAYOUT)
    if layout is not None and layout.lower() not in layouts:
        raise InvalidInputError(
            f"field {field.name!r}: {STRUCTURE} is {layout!r}, expected one of {layouts}"
        )
    layout = None if layout is None else layout.lower()
    is_sparse = values.rep is not None and any(hints.dimensions)
    if is_sparse and hints.version < FileVersion.V2_3:
        raise UnsupportedError(
            f"field {field.name!r}: fixed-size lists of structs together with lists in a file of "
            f"version {hints.version.value}; 2.3 has them"
        )
    if layout == SPARSE_LAYOUT:
        # A page without levels has no structure to store, so it is not sparse.
        return None, is_sparse or values.rep is not None or values.definition is not None
    return layout, is_sparse
