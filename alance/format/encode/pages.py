"""Rows of a leaf to pages: which layout suits the values, and what the user asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alance.file_version import FileVersion
    from alance.format.encode.base import EncodedPage, Hints
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues


def hints_of(root: Field, leaf: Field, version: FileVersion) -> Hints:
    """What is asked of a leaf: its own metadata, and the layout that its top-level field wants."""
    raise NotImplementedError


def encode_page(field: Field, values: PageValues, hints: Hints) -> EncodedPage:
    """One page of all rows.

    Args:
        field: the leaf that owns the column.
        values: at least one row.
        hints: as of `hints_of`.

    Raises:
        InvalidInputError: a layout that was asked for and cannot hold the values.
        UnsupportedError: values that the file version cannot hold.
    """
    raise NotImplementedError


def encode_pages(field: Field, values: PageValues, hints: Hints) -> list[EncodedPage]:
    """The pages of some rows: one, or several where empty lists are too many for one page's chunks.

    Writers call this one; arguments and errors are those of `encode_page`.
    """
    raise NotImplementedError
