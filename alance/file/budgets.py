"""Default budgets of a file's writer, in a module of their own that signatures import cheaply."""

from typing import Final

PAGE_BYTES: Final = 8 << 20  # values of a page in memory, before they are encoded
BUFFER_BYTES: Final = 40 << 20  # rows of all columns that wait for their pages
BUFFER_COLUMN_BYTES: Final = 1 << 20  # the same for each of many columns: less makes small pages
MOST_BUFFER_BYTES: Final = 128 << 20


def buffer_bytes_for(num_columns: int) -> int:
    """Default bytes of rows that may wait for pages, for a file of so many columns."""
    return min(MOST_BUFFER_BYTES, max(BUFFER_BYTES, num_columns * BUFFER_COLUMN_BYTES))
