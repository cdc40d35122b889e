"""Default budgets of a file's writer, apart from it: signatures need them, and not the writer."""

from typing import Final

PAGE_BYTES: Final = 8 << 20  # of values in memory, before they are encoded
BUFFER_BYTES: Final = 40 << 20  # of rows that wait for a page, of all columns
BUFFER_COLUMN_BYTES: Final = 1 << 20  # of many columns each: of less, pages would be small
MOST_BUFFER_BYTES: Final = 128 << 20


def buffer_bytes_for(num_columns: int) -> int:
    """How many bytes of rows may wait for pages, unless told."""
    return min(MOST_BUFFER_BYTES, max(BUFFER_BYTES, num_columns * BUFFER_COLUMN_BYTES))
