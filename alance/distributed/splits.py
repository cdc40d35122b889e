"""A version sent from a driver to tasks, and splits of a scan, planned from the manifest alone.

A task receives all metadata that it needs and reads no manifest: the record of the version without
fragments, and the records of its fragments. Only the driver reads a manifest of a million
fragments. A split is a set of rows of some fragments; splits have about equal bytes.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.datasets import Dataset
from alance.format.paths import join_path
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.fragments import Records
from alance.format.table.manifest import Manifest
from alance.ops.read.extremes import extreme_rows
from alance.ops.read.filters import parse_predicate
from alance.ops.read.ordering import sorted_table
from alance.ops.read.scan import scanned
from alance.ops.read.window import cut_table
from alance.ops.version import pickled
from alance.ops.version.projection import META
from alance.ops.version.snapshot import Snapshot
from alance.records import dataclass
from alance.scanner import Scanner
from alance.session import table_at

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence
    from typing import Unpack

    from alance.format.table.fragment import Fragment
    from alance.io.opening.credentials import StorageOptions
    from alance.ops.read.options import ScanOptions
    from alance.session import OpenArguments


def version_record(dataset: Dataset) -> bytes:
    """Return a serialized version without its fragments and indices: schema, settings, base paths.
    Sends no request.

    Args:
        dataset: the version.
    """
    message, record = dataset._snapshot.manifest.head, table_pb2.Manifest()
    for field, value in message.ListFields():
        if field.name in ("fragments", "index_section", "transaction_section"):
            continue
        if field.is_repeated:
            getattr(record, field.name).MergeFrom(value)
        elif field.message_type is not None:
            getattr(record, field.name).CopyFrom(value)
        else:
            setattr(record, field.name, value)
    return record.SerializeToString()


def open_record(
    record: bytes, uri: str, fragments: Sequence[bytes] = (), **place: Unpack[OpenArguments]
) -> Dataset:
    """Open a version with some of its fragments, or none. Sends no request.

    Args:
        record: result of `version_record`.
        uri: URI of the table; for a version of a branch, URI of that branch or of the table.
        fragments: serialized records of fragments.
        place: `storage_options` and `session`, as for `dataset`.
    """
    message = table_pb2.Manifest.FromString(record)
    schema = Schema.from_protobuf(message.fields, message.schema_metadata)
    records = Records.of(map(table_pb2.DataFragment.FromString, fragments))
    manifest = Manifest.of(message, schema, records)
    session, table = table_at(uri, **place)
    if manifest.branch is not None:
        table = table.seen_by(manifest.branch).on_branch(manifest.branch)
    return Dataset(Snapshot(session, table, manifest))


def in_any_loop(dataset: Dataset, storage_options: StorageOptions | None = None) -> Dataset:
    """Return the version for any event loop of this process, or of a forked child.

    Unlike a pickle, the result has its credentials. Sends no request.

    Args:
        dataset: a dataset of any loop or session.
        storage_options: options of the store; None: those with which the dataset was opened.

    Raises:
        InvalidInputError: unknown options, or options for a dataset that was opened with a `store`.
    """
    return Dataset(pickled.in_any_loop(dataset._snapshot, storage_options))


def fragments_of(dataset: Dataset) -> Sequence[Fragment]:
    """Return the fragments of the manifest, in row order; each is parsed on access.

    `message.SerializeToString()` of a fragment is its record for `open_record`.

    Args:
        dataset: the version.
    """
    return dataset._snapshot.manifest.fragments


BLOB: Final = b"lance-encoding:blob"
MAX_PIECES: Final = 4096  # fragments per split, whose message then is below a megabyte
FILE_COST: Final = 64 << 10  # cost of opening a file, as the number of bytes read in that time
UNKNOWN_BYTES: Final = 64 << 20  # assumed size of a file that the manifest does not record
WORTH_A_TASK: Final = 1 << 20  # about the number of bytes read while a task starts
MIN_ROWS: Final = 4096  # minimum rows of a piece of a fragment


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a fragment.

    Attributes:
        fragment: record of the fragment in the manifest.
        start, stop: range of physical rows; if `stop` is None, to the end.
    """

    fragment: bytes
    start: int = 0
    stop: int | None = None


def field_ids(dataset: Dataset, columns: Sequence[str]) -> frozenset[int] | None:
    """Return the ids of the fields that a read of columns needs; None for only meta columns.

    Args:
        dataset: the version.
        columns: names or dotted paths.
    """
    names = [name for name in columns if name not in META]
    fields = dataset._snapshot.schema.project(names).fields
    return frozenset(field.id for root in fields for field in root.walk()) or None


def plan_splits(
    fragments: Sequence[Fragment],
    fields: frozenset[int] | None = None,
    *,
    split_bytes: int,
    min_splits: int = 1,
    parallelism: int = 1,
    limit: int | None = None,
    is_filtered: bool = False,
) -> list[tuple[Piece, ...]]:
    """Cut a scan into splits, in row order; a scan with a limit is a single split.

    Cost: no request; about 10 us per fragment.

    Args:
        fragments: see `fragments_of`.
        fields: ids of the fields to read; None: all.
        split_bytes: approximate encoded bytes of a split.
        min_splits: minimum number of splits, if there are enough bytes.
        parallelism: number of concurrent tasks; splits become smaller if some tasks would have
            none.
        limit: maximum number of rows to read; None: no limit.
        is_filtered: True if a filter may drop any of the rows.
    """
    if limit is not None:
        whole = fragments if is_filtered else _first(fragments, limit)
        return [tuple(Piece(_record(fragment)) for fragment in (whole if limit else ()))]
    sizes = [fragment_bytes(fragment, fields) for fragment in fragments]
    total = sum(sizes)
    target = min(
        split_bytes,
        max(1, total // min_splits),
        max(WORTH_A_TASK, total // parallelism),
    )
    splits: list[tuple[Piece, ...]] = []
    pieces: list[Piece] = []
    filled = 0
    for fragment, size in zip(fragments, sizes, strict=True):
        for piece, num_bytes in _pieces(fragment, size, target):
            if pieces and (filled + num_bytes > target * 1.25 or len(pieces) >= MAX_PIECES):
                splits.append(tuple(pieces))
                pieces, filled = [], 0
            pieces.append(piece)
            filled += num_bytes
    if pieces:
        splits.append(tuple(pieces))
    return splits


def _first(fragments: Sequence[Fragment], limit: int) -> Iterator[Fragment]:
    """Yield the first fragments that are certain to have `limit` rows."""
    left = limit
    for fragment in fragments:
        if left <= 0:
            return
        yield fragment
        left -= fragment.num_rows or 0


def _pieces(fragment: Fragment, size: int, target: int) -> Iterator[tuple[Piece, int]]:
    """Yield a fragment whole, or in pieces of equal numbers of rows."""
    record, rows = _record(fragment), fragment.physical_rows
    count = min(-(-size // target), rows // MIN_ROWS)
    if size <= target * 1.25 or count < 2:
        yield Piece(record), size
        return
    for number in range(count):
        start, stop = number * rows // count, (number + 1) * rows // count
        yield Piece(record, start, stop), size // count


def fragment_bytes(fragment: Fragment, fields: frozenset[int] | None = None) -> int:
    """Estimate the encoded bytes of some fields of a fragment, by their share of the columns.

    Args:
        fragment: fragment of the manifest.
        fields: ids of the fields; None: all.
    """
    total = 0
    for file in fragment.files:
        share = 1.0
        if fields is not None:
            held = sum(1 for field_id in file.columns if field_id in fields)
            if not held:
                continue
            share = held / len(file.columns)
        total += FILE_COST + int((file.num_bytes or UNKNOWN_BYTES) * share)
    return max(1, total)


def _record(fragment: Fragment) -> bytes:
    return fragment.message.SerializeToString()


def check_filter(dataset: Dataset, filter: str | None) -> None:
    """Raise an error if a filter cannot be used on a version.

    Args:
        dataset: the version.
        filter: SQL text; None: no filter.

    Raises:
        InvalidInputError: bad SQL, or an unknown column.
    """
    parse_predicate(dataset._snapshot.schema, filter)


async def read_split(
    record: bytes,
    uri: str,
    split: Sequence[Piece],
    columns: Sequence[str],
    options: ScanOptions,
    *,
    flat: bool = True,
    **place: Unpack[OpenArguments],
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Stream the rows of one split, in the types of the table.

    Cost: a scan of these rows; no manifest is read.

    Args:
        record, uri: as for `open_record`.
        split: split from `plan_splits`.
        columns: names, or paths of members of structs.
        options: options of the scan.
        flat: True to return members as columns; False to return them inside their parents, which
            may then have further members that the filter needs; see `member_paths`.
        place: as for `open_record`.

    Raises:
        InvalidInputError: an unknown column, a bad filter or option.
        CorruptFileError: files that contradict the format.
        StoreError: the store failed.
    """
    dataset, spans = open_split(record, uri, split, **place)
    scanner = _RangeScanner(dataset._snapshot, list(columns), options)
    scanner.spans, scanner.flat = spans, flat
    async for batch in scanner.to_batches():
        yield batch


async def read_extremes(
    record: bytes,
    uri: str,
    split: Sequence[Piece],
    columns: Sequence[str],
    options: ScanOptions,
    **place: Unpack[OpenArguments],
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Stream rows of a split that include the least and the greatest value of each column.

    Cost: see `extreme_rows`.

    Args:
        record, uri, split, place: as for `read_split`.
        columns: columns of types with an order, except floats.
        options: options of the scan, without a filter or limit.

    Raises:
        CorruptFileError: files that contradict the format.
        StoreError: the store failed.
    """
    dataset, spans = open_split(record, uri, split, **place)
    async with aclosing(extreme_rows(dataset._snapshot, columns, options, spans)) as batches:
        async for batch in batches:
            yield batch


def member_paths(schema: pa.Schema, kept: pa.Schema) -> list[str]:
    """Return the paths to read for columns whose structs may lack members of the table.

    Args:
        schema: schema of the table.
        kept: columns by name, in types that may lack members; other differences are ignored.
    """
    return [
        path
        for field in kept
        for path in (
            [field.name]
            if field.name in META
            else _members((field.name,), schema.field(field.name), field.type)
        )
    ]


def _members(path: tuple[str, ...], field: pa.Field, kept: pa.DataType) -> list[str]:
    whole = [join_path(path)]
    if _has_blobs(field):  # the bytes of blobs are only read for whole columns
        return whole
    if pa.types.is_struct(field.type) and pa.types.is_struct(kept):
        names = [member.name for member in kept]
        if len(set(names)) < len(names) or any(field.type.get_field_index(n) < 0 for n in names):
            return whole
        members = [
            _members((*path, member.name), field.type.field(member.name), member.type)
            for member in kept
        ]
        is_whole = len(names) == field.type.num_fields and all(
            paths == [join_path((*path, name))] for name, paths in zip(names, members, strict=True)
        )
        return whole if is_whole else [path for paths in members for path in paths]
    if pa.types.is_list(field.type) and pa.types.is_list(kept):
        item = field.type.value_field
        inner = (*path, item.name)
        paths = _members(inner, item, kept.value_type)
        return whole if paths == [join_path(inner)] else paths
    return whole


def _has_blobs(field: pa.Field) -> bool:
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType) or BLOB in (field.metadata or {}):
        return True
    return any(_has_blobs(kind.field(number)) for number in range(kind.num_fields))


def open_split(
    record: bytes, uri: str, split: Sequence[Piece], **place: Unpack[OpenArguments]
) -> tuple[Dataset, dict[int, list[tuple[int, int]]]]:
    """Open a version with the fragments of a split; return it with the rows of partial fragments.

    No request.
    """
    ranges: dict[bytes, tuple[int, int | None]] = {}
    for piece in split:  # pieces of the same fragment are adjacent
        start = ranges[piece.fragment][0] if piece.fragment in ranges else piece.start
        ranges[piece.fragment] = (start, piece.stop)
    dataset = open_record(record, uri, list(ranges), **place)
    return dataset, {
        handle.id: [(start, stop)]
        for handle, (start, stop) in zip(dataset._snapshot.handles, ranges.values(), strict=True)
        if stop is not None
    }


class _RangeScanner(Scanner):
    """Scan of physical row ranges of fragments."""

    __slots__ = ("flat", "spans")

    flat: bool
    spans: dict[int, list[tuple[int, int]]]

    async def _scan(self, options: ScanOptions) -> AsyncGenerator[pa.RecordBatch, None]:
        if options.order_by:
            table = await sorted_table(self._snapshot, self._columns, options, self.spans)
            for batch in cut_table(table, options):
                yield batch
            return
        rows = scanned(self._snapshot, self._columns, options, spans=self.spans, flat=self.flat)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield batch
