"""What is asked of a commit beside its transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from alance.file_version import FileVersion

LIBRARY: Final = "alance"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a commit does beyond its transaction.

    Attributes:
        data_storage_version: the file version of new data, of a creation or an Overwrite; None:
            that of before; of a creation the version of its files, else 2.2.
        stable_row_ids: of a creation: rows get ids of their own.
        writes_transaction_file: a file in `_transactions/` is written beside the manifest.
    """

    data_storage_version: FileVersion | None = None
    stable_row_ids: bool = False
    writes_transaction_file: bool = True


DEFAULT: Final = Settings()
