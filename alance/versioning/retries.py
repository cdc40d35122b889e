"""How often a commit is tried again: in the signature of every verb that changes a table."""

from typing import Final

MAX_RETRIES: Final = 100  # where many commit, each is first now and then
