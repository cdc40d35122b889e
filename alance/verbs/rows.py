"""Verbs that change rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from alance.ops import write
from alance.ops.commits import CommitOptions
from alance.ops.data_files import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, Limits
from alance.ops.write import WriteOptions
from alance.verbs.base import Handle
from alance.versioning.commit import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from alance.ops.data_files import Progress
    from alance.ops.sources import Data


class RowVerbs(Handle):
    """Insert, delete, update, merge."""

    __slots__ = ()

    async def insert(
        self,
        data: Data,
        *,
        mode: Literal["append", "overwrite"] = "append",
        max_rows_per_file: int = MAX_ROWS_PER_FILE,
        max_bytes_per_file: int = MAX_BYTES_PER_FILE,
        properties: Mapping[str, str] | None = None,
        message: str | None = None,
        progress: Callable[[Progress], object] | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> Self:
        """Add rows behind those of the table, or in their place.

        Cost: two rounds of requests where the rows fit one object: they, the transaction's file
        and a LIST at once; then the manifest.

        Args and errors: as of `write_dataset`.
        """
        options = WriteOptions(
            limits=Limits(max_rows_per_file, max_bytes_per_file),
            on_progress=progress,
            commit=CommitOptions(properties, message, max_retries),
        )
        snapshot = self._snapshot
        made = await write.write_on(
            snapshot.session,
            snapshot.table,
            snapshot.manifest,
            data,
            write.checked_mode(mode, "append", "overwrite"),
            options=options,
        )
        return type(self)(made)
