"""Default memory budgets of a file's writer, in a module that is cheap to import for signatures."""

from typing import Final

PAGE_BYTES: Final = 8 << 20  # bytes of a page's values before encoding
BUFFER_BYTES: Final = 40 << 20  # bytes of rows that wait for pages, over all columns
# Minimum per column of a wide file; less would make pages small.
BUFFER_COLUMN_BYTES: Final = 1 << 20
MOST_BUFFER_BYTES: Final = 128 << 20


def buffer_bytes_for(num_columns: int) -> int:
    """Return the default limit, in bytes, of the rows of a file that wait for pages."""
    return min(MOST_BUFFER_BYTES, max(BUFFER_BYTES, num_columns * BUFFER_COLUMN_BYTES))
