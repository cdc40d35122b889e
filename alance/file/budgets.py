"""What a writer of a file holds in memory by default: in signatures, without the writer itself."""

from typing import Final

PAGE_BYTES: Final = 8 << 20  # of values in memory, before they are encoded
BUFFER_BYTES: Final = 128 << 20  # of rows that wait for a page, of all columns
