"""Default budgets of a file's writer, apart from it: signatures need them, and not the writer."""

from typing import Final

PAGE_BYTES: Final = 8 << 20  # of values in memory, before they are encoded
BUFFER_BYTES: Final = 128 << 20  # of rows that wait for a page, of all columns
