"""Sources of new columns' values: the questions that they are asked, and the usual answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import pyarrow as pa

    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot


class Values(Protocol):
    """Where the values of new columns come from."""

    @property
    def is_physical(self) -> bool:
        """Whether batches have the deleted rows, too."""

    @property
    def in_order(self) -> bool:
        """Whether fragments must be asked for one after the other, in the table's order."""

    def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The new columns of the live rows of a fragment, in order; or of all rows.

        Args:
            ahead_bytes: fetched ahead at most.
        """

    async def end(self, snapshot: Snapshot) -> None:
        """All fragments have their values: check that none is left."""

    def reads(self, schema: Schema) -> frozenset[int] | None:
        """The fields that the values depend on; None: all."""


@runtime_checkable
class GroupedValues(Protocol):
    """Values that several fragments can be asked for at once."""

    def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The new columns of the live rows of neighbouring fragments, in order."""


class Finished(Protocol):
    """Remembers the files of fragments that are done: a checkpoint."""

    async def find(self, fragment_id: int, source: str) -> table_pb2.DataFile | None:
        """The file written before for a fragment, from the same source."""

    async def add(self, fragment_id: int, source: str, file: table_pb2.DataFile) -> None:
        """Remember one."""


class OfLiveRows:
    """Values of live rows, of fragments in any order; nothing is left at the end."""

    __slots__ = ()

    @property
    def is_physical(self) -> bool:
        return False

    @property
    def in_order(self) -> bool:
        return False

    async def end(self, snapshot: Snapshot) -> None:
        pass
