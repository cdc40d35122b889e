"""Numbers that are in the signatures of verbs, without the modules that go by them."""

from typing import Final

MAX_ROWS_PER_FILE: Final = 1 << 20
MAX_BYTES_PER_FILE: Final = 90 << 30
MERGE_BYTES: Final = 256 << 20  # of keys and rows that a merge holds in memory
GROUP_BYTES: Final = 256 << 20  # of groups that an aggregate holds in memory
BLOB_BYTES: Final = 512 << 10  # that a read of a blob fetches at least
SMALL_ROWS: Final = 1024  # fewer are few for a fragment, says `Dataset.stats`
