"""The bytes of a 2.x file around its pages: places of buffers, metadata, tables, footer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alance.file_version import FileVersion
    from alance.format.blocks import Bytes, VariableWidth
    from alance.format.encode.base import EncodedPage
    from alance.format.schema import Schema


class FileBuilder:
    """Where everything of one file goes; the caller appends what methods return, in order.

    Not safe to share among threads. What it keeps is the metadata: about 100 bytes a page.

    Attributes:
        num_bytes: bytes given out so far; after `finish` the size of the file.
        num_rows: rows of the longest column so far; after `finish` those of the file.
    """

    def __init__(self, schema: Schema, version: FileVersion) -> None:
        """An empty file. Its columns are `leaf_columns` of the fields of `schema`, in order."""
        raise NotImplementedError

    def add_page(self, column: int, page: EncodedPage) -> list[Bytes]:
        """The bytes of the next page of a column: its buffers and their padding.

        Pages of a column come in row order; columns may take turns in any way.
        """
        raise NotImplementedError

    def add_blobs(self, values: VariableWidth) -> tuple[npt.NDArray[np.int64], list[Bytes]]:
        """Place each payload as a buffer of its own.

        Returns:
            Where each begins (0 where it is empty), shape (n,), and the bytes to append.
        """
        raise NotImplementedError

    def add_buffer(self, content: Bytes) -> tuple[int, list[Bytes]]:
        """The number of a new global buffer, from 1 on, and the bytes to append."""
        raise NotImplementedError

    def finish(self) -> list[Bytes]:
        """The end of the file: schema, column metadata, tables, footer.

        Raises:
            InvalidInputError: columns of different numbers of rows.
        """
        raise NotImplementedError
