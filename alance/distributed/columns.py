"""New columns, a fragment a task, and one commit of all; what is done can be taken over later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance.errors import InvalidInputError
from alance.format.proto import table_pb2
from alance.ops.columns.add import add_to_fragment, grown, merge_of
from alance.ops.columns.backfill import owned_ids
from alance.ops.columns.sources import opened, source_of
from alance.ops.version.commit_options import CommitOptions
from alance.ops.version.commits import commit_change

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from alance.datasets import Dataset
    from alance.format.schema import Schema
    from alance.fragment import DatasetFragment
    from alance.ops.columns.sources import Transforms
    from alance.ops.version.commit_options import CommitArguments
    from alance.ops.version.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ColumnBackfill:
    """Columns that are computed by many processes. Can be pickled as its transforms can.

        files = {one.fragment_id: (await backfill.execute(one))[1] for one in dataset.fragments}
        dataset = await backfill.commit(dataset, files)

    Attributes:
        transforms: SQL text by column, or a `BatchUdf`.
        read_columns, batch_size: as of `Dataset.add_columns`.
    """

    transforms: Transforms
    read_columns: tuple[str, ...] | None = None
    batch_size: int | None = None

    async def check(self, dataset: Dataset) -> None:
        """Raise where the columns cannot be added, before anything is computed.

        Raises:
            InvalidInputError: as of `Dataset.add_columns`.
        """
        await self._grown(dataset._snapshot)

    @staticmethod
    def source(fragment: DatasetFragment) -> str:
        """Names what a fragment's values are computed from: as long as it is the same, so are they.

        Deleted rows do not change it.
        """
        return source_of(fragment._handle, None)

    async def execute(self, fragment: DatasetFragment) -> tuple[str, bytes]:
        """Write the new columns of one fragment.

        Returns:
            What they were computed from, see `source`; the record of the new file, empty where
            there is nothing to write.

        Raises:
            InvalidInputError: values that do not fit; no file stays.
        """
        handle = fragment._handle
        await fragment._snapshot.prepare([handle])
        record, _ = await add_to_fragment(
            fragment._snapshot,
            handle,
            self.transforms,
            read_columns=self.read_columns,
            batch_size=self.batch_size,
        )
        is_written = len(record.files) > len(handle.fragment.files)
        return source_of(handle, None), record.files[-1].SerializeToString() if is_written else b""

    async def commit(
        self, dataset: Dataset, files: Mapping[int, bytes], **commit: Unpack[CommitArguments]
    ) -> Dataset:
        """One version with the new files of all fragments.

        Args:
            files: by fragment id what `execute` gave, of a fragment with the same `source`.

        Raises:
            InvalidInputError: a fragment without its file.
            RetryableConflictError: others were first.
            CommitConflictError: a newer version rules this one out.
        """
        options = CommitOptions(**commit)
        snapshot = dataset._snapshot
        schema, new = await self._grown(snapshot)
        fragments = []
        for handle in snapshot.handles:
            if handle.id not in files:
                raise InvalidInputError(f"new columns: no file for fragment {handle.id}")
            fragment = table_pb2.DataFragment()
            fragment.CopyFrom(handle.fragment.message)
            if files[handle.id]:
                file = fragment.files.add()
                file.ParseFromString(files[handle.id])
                file.fields[:] = owned_ids(new)
            fragments.append(fragment)
        change = merge_of(snapshot, schema, new, fragments)
        return type(dataset)(await commit_change(snapshot, change, options))

    async def _grown(self, snapshot: Snapshot) -> tuple[Schema, Schema]:
        """The schema with the new fields, and these alone."""
        columns = await opened(snapshot, self.transforms, self.read_columns, self.batch_size)
        return await grown(snapshot, columns)
