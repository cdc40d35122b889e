"""The interface of a kind of scalar index."""

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

    from alance.base.arrays import Int64s
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

    PartLoader: TypeAlias = Callable[[], Awaitable[object]]
    Batches: TypeAlias = AsyncGenerator[pa.RecordBatch, None]


class PreparedAsk(Protocol):
    """A question with its pages or keys in the index; its rows are not read yet."""

    @property
    def segment(self) -> Segment: ...

    @property
    def estimate(self) -> int:
        """Approximate upper bound of the number of rows in the answer."""

    @property
    def summary(self) -> str:
        """Description of the pages to read, for `explain`."""

    @property
    def is_exact(self) -> bool:
        """True if the question is true of all rows in the answer, provided the index is right."""

    @property
    def is_at_hand(self) -> bool:
        """True if the answer is already known, because it consists of whole zones."""

    @property
    def is_counted(self) -> bool:
        """True if rows are counted without reading each of them."""

    @property
    def work(self) -> int:
        """Cost of reading and joining the answer, in rows of a B-tree."""

    @property
    def num_compared(self) -> int:
        """Number of values to compare with the question, for statistics."""

    @property
    def cache_key(self) -> Hashable:
        """Key under which a segment of row ids caches the answer; None if it is not cached."""

    async def row_numbers(self) -> RowSet:
        """Read the rows of the answer: row ids or addresses, as the segment stores them."""


class KindSource(Protocol):
    """Converter of a column's values to rows of an index.

    Attributes:
        null_rows: row numbers of nulls, for kinds that store these outside of their columns.
    """

    null_rows: list[Int64s]

    @property
    def run_schema(self) -> pa.Schema:
        """Columns of a run, which a build task writes for the merge."""


class IndexKind(ABC):
    """A kind of scalar index.

    Kinds have no state: the table `KINDS` has one object of each. Async methods may be called from
    several tasks at once.

    Attributes:
        name: type of its details, without `IndexDetails`.
        index_type: name for users.
        type_url: type URL of its details message.
        versions: readable versions; `version` is written.
        columns: description of the values that it can index, for error messages.
        file: file with its rows, or the first of several.
        file_names: all files of a segment; None if the number of files varies.
        null_rows: metadata key in `file` of the buffer with null rows; None if the columns have
            them.
        form: form of keys and row sets; None if it has none.
        is_sorted: True if rows are sorted by value and runs are merged; False if rows are in table
            order and runs are concatenated.
        has_addresses: True if it stores row addresses even in tables with stable row ids.
        has_ranges: True if several processes can merge runs by ranges of values.
        can_move: True if segments can be remapped to new row addresses after a compaction.
        of_json: True if it can index values at a JSON path. of_stable_json: the same, in tables
            with stable row ids.
        batch_bytes: bytes of values per batch when keys are built; None for the scan's batches.
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

    # Columns and details.

    @abstractmethod
    def suits(self, type_: pa.DataType) -> bool:
        """Return True if the kind can index values of a type."""

    def options(self, arguments: dict[str, Any]) -> ZoneOptions:
        """Remove the kind's own arguments from `arguments`, check them and return them.

        Raises:
            InvalidInputError: a value is out of range.
        """
        del arguments
        return ZoneOptions()

    def written_version(self, *, has_stable_row_ids: bool) -> int:
        """Return the version of new segments."""
        del has_stable_row_ids
        return self.version

    def details(self, options: ZoneOptions) -> bytes:
        """Return the bytes of the details message."""
        del options
        return b""

    def json_refusal(self, *, has_stable_row_ids: bool) -> str | None:
        """Return the reason why a JSON index of this kind is not used; None if it is used."""
        del has_stable_row_ids
        return None

    def value_type(self, key_type: pa.DataType) -> pa.DataType:
        """Return the type of values, given the type of the stored keys."""
        return key_type

    # Lookups.

    @abstractmethod
    def takes(self, ask: Ask) -> bool:
        """Return True if the index may narrow down a question."""

    @abstractmethod
    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        """Find the pages or keys that may answer a question; see `ask_segment`."""

    @abstractmethod
    async def parts(self, snapshot: Snapshot, files: IndexFiles) -> list[PartLoader]:
        """Return the reads that together load a segment into the search cache."""

    @abstractmethod
    async def statistics(self, snapshot: Snapshot, files: IndexFiles) -> dict[str, Any]:
        """Return the counts of a segment, named as pylance names them."""

    async def zone_options(self, files: IndexFiles, name: str) -> ZoneOptions:
        """Return the zone options of a segment; defaults for kinds without zones.

        Args:
            name: name of the index, for error messages.

        Raises:
            CorruptFileError: the metadata has no valid options.
        """
        del files, name
        return ZoneOptions()

    # Build.

    @abstractmethod
    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> Any:
        """Return the `KindSource` of an index of values of a type.

        Args:
            memory: memory budget of the source, in bytes.
        """

    def run_rows(self, pool: DecodePool, source: Any, rows: Batches) -> Batches:
        """Convert sorted rows to rows of a run."""
        del pool, source
        return rows

    @abstractmethod
    async def write(
        self, files: SegmentFiles, source: Any, rows: Batches, *, of_runs: bool = False
    ) -> None:
        """Write the files of a segment.

        Args:
            source: has seen all rows once `rows` ends.
            rows: sorted rows if `is_sorted`, else the source's output.
            of_runs: True if `rows` are rows of runs instead.
        """

    # Remap and carry-over.

    async def stored_type(self, snapshot: Snapshot, index: Index) -> pa.DataType | None:
        """Return the type of a segment's first column; None if the file lacks its null rows.

        Cost: a round, once.

        Raises:
            CorruptFileError, NotFoundError: files cannot be read.
        """
        stored = await StoredFile.open(snapshot, index, self.file)
        is_whole = self.null_rows is None or self.null_rows in stored.metadata
        return stored.schema.field(0).type if is_whole else None

    async def move(
        self, snapshot: Snapshot, index: Index, moves: Moves, files: SegmentFiles
    ) -> None:
        """Rewrite a segment with the addresses of its rows after a compaction.

        Raises:
            CorruptFileError, NotFoundError, UnsupportedError: the segment cannot be read.
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
        """Yield a segment's rows as rows of a run, to carry them over into a new segment.

        Args:
            live: numbers of the live rows of `covered`. Kinds with zones or partitions may retain
                deleted rows.
            covered: ids of the fragments whose rows are carried over.

        Raises:
            CorruptFileError, NotFoundError: files cannot be read.
        """


def check_type(ask: Ask, values: pa.DataType) -> None:
    """Check that an index has values of the column's type.

    Raises:
        CorruptFileError: the types differ.
    """
    type_ = plain_type(values)
    if type_ != ask.column.type:
        raise CorruptFileError(f"values of type {type_}, the column has {ask.column.type}")


ORDERED = "a boolean, number, text, bytes, decimal, date or time"


def is_ordered(type_: pa.DataType) -> bool:
    """Return True if an index can sort values of a type."""
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
