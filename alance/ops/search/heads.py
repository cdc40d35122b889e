"""Metadata of the files of a vector index segment, read before their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.file.open.files import open_file
from alance.file.open.plain import open_plain
from alance.file.rows.fragment import open_fragment
from alance.file.rows.placing import page_states
from alance.format.container import open_container
from alance.format.index import hnsw
from alance.format.index.ivf import Centroids, buffer_number, storage_metadata
from alance.format.index.quantizers import buffer_of, columns_of
from alance.format.plans import ByteRange, together
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from alance.base.arrays import Int64s
    from alance.file.open.plain import PlainFile
    from alance.file.rows.fragment import OpenFragment
    from alance.format.plans import Plan


MAX_LOADED_PAGES: Final = 8  # page tables loaded ahead, about one request each
STATE_BYTES: Final = 64 << 10  # largest page table that is loaded ahead
WHOLE_HEAD_BYTES: Final = 4 << 20  # `index.idx` files up to this size are read in one request


@dataclass(frozen=True, slots=True)
class Head:
    """Parsed header of `index.idx`.

    Attributes:
        message: bytes of the `IVF` message.
        opened: graph columns that a search reads; None if the index has no graphs.
    """

    centroids: Centroids
    metadata: Mapping[str, str]
    message: memoryview
    opened: OpenFragment | None = None

    def graphs(self, sizes: Int64s) -> hnsw.Graphs | None:
        """Return the graphs of the partitions; None if the index has no graphs.

        Args:
            sizes: number of rows of each partition.

        Raises:
            CorruptFileError: the metadata are inconsistent or do not match the partitions.
        """
        if self.opened is None:
            return None
        return hnsw.Graphs.parse(self.metadata, self.message, sizes, self.opened.num_rows)


@dataclass(frozen=True, slots=True)
class StorageHead:
    """Parsed header of `auxiliary.idx`.

    Attributes:
        content: buffer of the quantizer, such as a codebook; None if it needs none.
        opened: row columns that a search reads.
    """

    file: PlainFile
    message: memoryview
    content: memoryview | None
    opened: OpenFragment


def read_head(
    path: str, size: int, states: Any, *, has_graphs: bool, is_remote: bool
) -> Plan[Head]:
    """Plan to read `index.idx`: one round if the file is small, else two.

    Args:
        has_graphs: True if the file has rows, which needs two rounds.
        is_remote: True to load also the page tables of the rows, which saves a round later.
    """
    if has_graphs:
        return (yield from _head_with_graphs(path, size, states, is_remote=is_remote))
    if size <= WHOLE_HEAD_BYTES:
        (content,) = yield [ByteRange(path, 0, size)]
        container = yield from open_container(path, size, content)
    else:
        container = yield from open_file(path, size, states)
    descriptor = yield from container.read_descriptor()
    schema = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
    message = yield from container.read_buffer(buffer_number(schema.metadata))
    return Head(Centroids.parse(schema.metadata, message), schema.metadata, message)


def _head_with_graphs(path: str, size: int, states: Any, *, is_remote: bool) -> Plan[Head]:
    file = yield from open_plain(path, size, states)
    hnsw.check(file.schema.to_arrow())
    schema = file.schema.project(list(hnsw.SEARCHED))
    opened = yield from open_fragment(schema, [file.source], file.num_rows, states)
    metadata = file.schema.metadata
    buffer: Plan[Any] = file.container.read_buffer(buffer_number(metadata))
    learning = [page_states(opened, states)] if is_remote else []
    loaded: list[Any] = yield from together([buffer, *learning])
    message = loaded[0]
    return Head(Centroids.parse(metadata, message), metadata, message, opened)


def read_storage_head(
    path: str, size: int, states: Any, tail_bytes: int, *, is_remote: bool
) -> Plan[StorageHead]:
    """Plan to read the header of `auxiliary.idx`: two rounds, or one.

    One round is enough if the last `tail_bytes` of the file contain the whole header.

    Args:
        is_remote: True to load also the page tables of the columns.
    """
    file = yield from open_plain(path, size, states, tail_bytes)
    metadata = file.schema.metadata
    buffers = [buffer_number(metadata)]
    more = buffer_of(storage_metadata(metadata))
    if more is not None:
        buffers.append(more)
    schema = file.schema.project(columns_of([field.name for field in file.schema.fields]))
    opened = yield from open_fragment(schema, [file.source], file.num_rows, states)
    plans: list[Plan[Any]] = [file.container.read_buffer(number) for number in buffers]
    learning = [page_states(opened, states)] if is_remote else []
    loaded: list[Any] = yield from together([*plans, *learning])
    message, *contents = loaded[: len(plans)]
    return StorageHead(file, message, contents[0] if contents else None, opened)


def few_states(fragments: Sequence[OpenFragment], states: Any) -> Plan[None]:
    """Plan to load page tables if they are few and small: one round, or none."""
    columns = [own.tables.column(at) for own in fragments for at in range(len(own.own.ids))]
    if sum([len(column) for column in columns if column is not None]) <= MAX_LOADED_PAGES:
        yield from together([page_states(own, states, STATE_BYTES) for own in fragments])
