"""The interface of a kind of index of values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa

from alance.errors import CorruptFileError
from alance.expr.tree import plain_type
from alance.format.index.zones import ZoneOptions
from alance.ops.lookup.stored import StoredFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable

    from alance.arrays import Int64s
    from alance.expr.index_query import Ask
    from alance.format.index.bitmap import KeyedSets
    from alance.format.index.remap import Moves
    from alance.format.row_set import RowSet
    from alance.format.table.indices import Index
    from alance.io.reading.pool import DecodePool
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

    Part: TypeAlias = Callable[[], Awaitable[object]]
    Batches: TypeAlias = AsyncGenerator[pa.RecordBatch, None]


class Asked(Protocol):
    """A question whose pages or keys are known, and whose rows are not read."""

    @property
    def segment(self) -> Segment: ...

    @property
    def estimate(self) -> int:
        """Upper bound, about, of the number of rows in the answer."""

    @property
    def told(self) -> str:
        """The pages to be read, for `explain`."""

    @property
    def is_exact(self) -> bool:
        """True if the question is true of all rows in the answer of an index without faults."""

    @property
    def is_at_hand(self) -> bool:
        """True if the answer is known already, however many rows: whole zones of them."""

    @property
    def is_counted(self) -> bool:
        """True if the rows are counted without a look at them, however many."""

    @property
    def work(self) -> int:
        """Cost of reading and joining the answer, as rows of a B-tree."""

    @property
    def num_compared(self) -> int:
        """Number of values that the question is compared with, for statistics."""

    @property
    def kept_as(self) -> Hashable:
        """Cache key of the rows of a segment of row ids; None if they are not cached."""

    async def row_numbers(self) -> RowSet:
        """Read the rows of the answer, as the segment numbers them."""


class Source(Protocol):
    """Turns the values of a column, as they pass by, into rows of an index.

    Attributes:
        null_rows: row numbers of nulls, of kinds that store these beside their columns.
    """

    null_rows: list[Int64s]

    @property
    def run_schema(self) -> pa.Schema:
        """Columns of a run: what a task of a build leaves for the merge."""


class IndexKind(ABC):
    """A kind of index of values.

    Kinds have no state: one object of each is in the table `KINDS`. Methods that wait may be called
    from several tasks at once.

    Attributes:
        name: the type of its details without `IndexDetails`.
        index_type: the name that users give.
        type_url: of the message of its details.
        versions: those that are read; `version` is written.
        columns: the values that it takes, for error messages.
        file: the file, or the first of them, that holds its rows.
        file_names: all files of a segment. None if there are as many as ranges of values.
        null_rows: key, in the metadata of `file`, of the buffer with the rows that are null; None
            if these rows are in the columns.
        form: how keys and row sets are stored; None if it has none.
        is_sorted: its rows are in the order of their values, and runs of them are merged; else
            they are in the order of the table's rows, and runs follow each other.
        has_addresses: it is built of row addresses even if the table has stable row ids.
        has_ranges: runs can be merged by ranges of values, by several processes.
        can_move: segments are written again with the addresses that rows have after a compaction.
        of_json, of_stable_json: it can be of values at a path of JSON documents; also beside
            stable row ids.
        batch_bytes: bytes of values that are turned into keys at once; None: as a scan gives them.
    """

    name: ClassVar[str]
    index_type: ClassVar[str]
    type_url: ClassVar[str]
    versions: ClassVar[tuple[int, ...]] = (0,)
    version: ClassVar[int] = 0
    columns: ClassVar[str]
    file: ClassVar[str]
    file_names: ClassVar[frozenset[str] | None] = None
    null_rows: ClassVar[str | None] = None
    form: ClassVar[KeyedSets | None] = None
    is_sorted: ClassVar[bool] = True
    has_addresses: ClassVar[bool] = False
    has_ranges: ClassVar[bool] = False
    can_move: ClassVar[bool] = True
    of_json: ClassVar[bool] = False
    of_stable_json: ClassVar[bool] = False
    batch_bytes: ClassVar[int | None] = None

    # What it can be of, and how it is described.

    @abstractmethod
    def suits(self, type_: pa.DataType) -> bool:
        """Return True if an index can be of values of a type."""

    def options(self, arguments: dict[str, Any]) -> ZoneOptions:
        """Take the kind's own arguments of `create_scalar_index` out of `arguments`.

        Raises:
            InvalidInputError: values out of range.
        """
        del arguments
        return ZoneOptions()

    def written_version(self, *, has_stable_row_ids: bool) -> int:
        """Return the version of new segments of a table."""
        del has_stable_row_ids
        return self.version

    def details(self, options: ZoneOptions) -> bytes:
        """Return the content of the details' message."""
        del options
        return b""

    def json_refusal(self, *, has_stable_row_ids: bool) -> str | None:
        """Return why an index of JSON values is not used; None if it can be."""
        del has_stable_row_ids
        return None

    def value_type(self, key_type: pa.DataType) -> pa.DataType:
        """Return the type of values, from the type of the keys that a segment stores."""
        return key_type

    # How it answers.

    @abstractmethod
    def takes(self, ask: Ask) -> bool:
        """Return True if the index may narrow a question down."""

    @abstractmethod
    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> Asked:
        """Find the pages or keys of a question; see `ask_segment`."""

    @abstractmethod
    async def parts(self, snapshot: Snapshot, files: IndexFiles) -> list[Part]:
        """Return the reads that together load a segment into the search cache."""

    @abstractmethod
    async def statistics(self, snapshot: Snapshot, files: IndexFiles) -> dict[str, Any]:
        """Return the counts of a segment, named as pylance names them."""

    async def zone_options(self, files: IndexFiles, name: str) -> ZoneOptions:
        """Return how a segment sums up its rows; the defaults of kinds without zones.

        Args:
            name: of the index, for error messages.

        Raises:
            CorruptFileError: metadata that has no such numbers.
        """
        del files, name
        return ZoneOptions()

    # How it is made.

    @abstractmethod
    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> Any:
        """Return the `Source` of an index of values of a type.

        Args:
            memory: budget in bytes of what it makes of rows.
        """

    def run_rows(self, pool: DecodePool, source: Any, rows: Batches) -> Batches:
        """Turn sorted rows into rows of a run."""
        del pool, source
        return rows

    @abstractmethod
    async def write(
        self, files: SegmentFiles, source: Any, rows: Batches, *, of_runs: bool = False
    ) -> None:
        """Write the files of a segment.

        Args:
            source: has seen all rows once `rows` ends.
            rows: sorted rows if `is_sorted`, else what the source made of the table's rows.
            of_runs: they are rows of runs instead.
        """

    # How it is kept.

    async def stored_type(self, snapshot: Snapshot, index: Index) -> pa.DataType | None:
        """Return the type of a segment's first column; None if it does not tell all its rows.

        Cost: a round, once.

        Raises:
            CorruptFileError, NotFoundError: files that cannot be read.
        """
        stored = await StoredFile.open(snapshot, index, self.file)
        is_whole = self.null_rows is None or self.null_rows in stored.metadata
        return stored.schema.field(0).type if is_whole else None

    async def move(
        self, snapshot: Snapshot, index: Index, moves: Moves, files: SegmentFiles
    ) -> None:
        """Write a segment again with the addresses that its rows have after a compaction.

        Raises:
            CorruptFileError, NotFoundError, UnsupportedError: a segment that cannot be read.
        """
        raise NotImplementedError(f"{self.name}: can_move is False")

    @abstractmethod
    def live_rows(
        self,
        snapshot: Snapshot,
        index: Index,
        source: Any,
        live: RowSet,
        covered: frozenset[int],
    ) -> Batches:
        """Read a segment's rows as rows of a run, for a new segment that takes them over.

        Args:
            live: numbers of the live rows of `covered`; kinds that sum up zones may leave rows in
                that are gone.
            covered: ids of the fragments of which rows are taken over.

        Raises:
            CorruptFileError, NotFoundError: files that cannot be read.
        """


def check_type(ask: Ask, values: pa.DataType) -> None:
    """Check that an index has values of the type that a question expects.

    Raises:
        CorruptFileError: another type.
    """
    type_ = plain_type(values)
    if type_ != ask.column.type:
        raise CorruptFileError(f"values of type {type_}, the column has {ask.column.type}")


ORDERED = "a boolean, number, text, bytes, decimal, date or time"


def is_ordered(type_: pa.DataType) -> bool:
    """Return True if an index can have values of a type in order."""
    kinds = pa.types
    checks = (
        kinds.is_boolean,
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_binary,
        kinds.is_large_binary,
        kinds.is_fixed_size_binary,
        kinds.is_decimal,
        kinds.is_temporal,
    )
    return any(check(type_) for check in checks) and not kinds.is_interval(type_)
