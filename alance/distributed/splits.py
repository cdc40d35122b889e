"""A version sent from a driver to tasks, and splits of a scan, planned from the manifest alone.

A task receives all metadata that it needs and reads no manifest: the record of the version without
fragments, and the records of its fragments. Only the driver reads a manifest of a million
fragments. A split is a set of rows of some fragments; splits have about equal bytes.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from alance.base.records import dataclass
from alance.datasets import Dataset
from alance.format.paths import join_path
from alance.format.plans import joined_spans
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.fragment import Records
from alance.format.table.manifest import Manifest
from alance.ops.read.aggregates.extremes import extreme_rows
from alance.ops.read.filters import parse_predicate
from alance.ops.read.ordering import sorted_table
from alance.ops.read.rows import ChosenRows, num_rows_of
from alance.ops.read.scan import cut_table, scanned
from alance.ops.version import pickled
from alance.ops.version.options import UNKNOWN_FILE_BYTES
from alance.ops.version.projection import META
from alance.ops.version.snapshot import Snapshot
from alance.scanner import Scanner
from alance.session import table_at

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence
    from typing import Unpack

    import pyarrow.compute as pc

    from alance.distributed.selecting import SelectedRows
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

    Unlike a pickle, the result has the credentials of `dataset`. Sends no request.

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


BLOB_KEY: Final = b"lance-encoding:blob"
MAX_PIECES: Final = 4096  # fragments per split, whose message then is below a megabyte
FILE_COST: Final = 64 << 10  # cost of opening a file, as the number of bytes read in that time
WORTH_A_TASK: Final = 1 << 20  # about the number of bytes read while a task starts
MIN_PIECE_ROWS: Final = 4096  # minimum rows of a piece of a fragment


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a fragment.

    Attributes:
        fragment: record of the fragment in the manifest.
        start, stop: range of physical rows; if `stop` is None, to the end.
        offsets: serialized roaring bitmap of the rows that an index selects for the filter; None:
            all rows of the range.
        is_exact: True if the filter is true for all rows of `offsets`, unless the index is wrong.
        is_pruned: True if statistics have already been used to rule out rows.
    """

    fragment: bytes
    start: int = 0
    stop: int | None = None
    offsets: bytes | None = None
    is_exact: bool = False
    is_pruned: bool = False


def field_ids(dataset: Dataset, columns: Sequence[str]) -> frozenset[int] | None:
    """Return the ids of the fields that a read of columns needs; None for only meta columns.

    Args:
        dataset: the version.
        columns: names or dotted paths.

    Raises:
        InvalidInputError: an unknown column.
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
    selected: SelectedRows | None = None,
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
        selected: result of `select_rows` for the filter; None: any row may pass.
    """
    if selected is not None:
        fragments = [fragment for fragment in fragments if fragment.id in selected.fragments]
    if limit is not None:
        whole = fragments if is_filtered else _first(fragments, limit)
        parts = (_pieces(part, 0, 1, selected) for part in (whole if limit else ()))
        return [tuple(piece for pieces in parts for piece, _ in pieces)]
    sizes = [_selected_bytes(fragment, fields, selected) for fragment in fragments]
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
        for piece, num_bytes in _pieces(fragment, size, target, selected):
            if pieces and (filled + num_bytes > target * 1.25 or len(pieces) >= MAX_PIECES):
                splits.append(tuple(pieces))
                pieces, filled = [], 0
            pieces.append(piece)
            filled += num_bytes
    if pieces:
        splits.append(tuple(pieces))
    return splits


def _first(fragments: Sequence[Fragment], limit: int) -> Iterator[Fragment]:
    """Yield fragments from the first on, until they certainly have `limit` rows together."""
    remaining = limit
    for fragment in fragments:
        if remaining <= 0:
            return
        yield fragment
        remaining -= fragment.num_rows or 0


def _pieces(
    fragment: Fragment, size: int, target: int, selected: SelectedRows | None
) -> Iterator[tuple[Piece, int]]:
    """Yield a fragment whole, or in pieces of about equal numbers of rows; each with its bytes."""
    record, rows = _record(fragment), fragment.physical_rows
    spans, is_pruned = None, False
    if selected is not None:
        offsets = selected.offsets.get(fragment.id)
        if offsets is not None:
            yield Piece(record, offsets=offsets, is_exact=selected.is_exact), size
            return
        spans, is_pruned = selected.spans.get(fragment.id), fragment.id in selected.pruned
    ranges = spans or [(0, rows)]
    total = max(1, num_rows_of(ranges))
    for start, stop in ranges:
        length = stop - start
        num_bytes = size * length // total
        count = min(-(-num_bytes // target), length // MIN_PIECE_ROWS)
        if num_bytes <= target * 1.25 or count < 2:
            count = 1
        if (start, stop, count) == (0, rows, 1):
            yield Piece(record, is_pruned=is_pruned), size
            return
        for number in range(count):
            first, last = (start + length * place // count for place in (number, number + 1))
            yield Piece(record, first, last, is_pruned=is_pruned), num_bytes // count


def _selected_bytes(
    fragment: Fragment, fields: frozenset[int] | None, selected: SelectedRows | None
) -> int:
    """Estimate the encoded bytes of the selected rows of a fragment."""
    size = fragment_bytes(fragment, fields)
    if selected is None or not fragment.physical_rows:
        return size
    share = selected.num_rows(fragment) / fragment.physical_rows
    return min(size, FILE_COST + int(size * share))


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
        total += FILE_COST + int((file.num_bytes or UNKNOWN_FILE_BYTES) * share)
    return max(1, total)


def _record(fragment: Fragment) -> bytes:
    return fragment.message.SerializeToString()


def check_filter(dataset: Dataset, filter: str | pc.Expression | None) -> None:
    """Raise an error if a filter cannot be used on a version.

    Args:
        dataset: the version.
        filter: SQL text or a pyarrow expression; None: no filter.

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
        split: split from `plan_splits`, for the same filter if it was planned with `selected`.
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
    opened = open_split(record, uri, split, **place)
    snapshot = opened.dataset._snapshot
    scanner = _RangeScanner(snapshot, list(columns), opened.options(options))
    scanner.rows, scanner.flat = opened.rows, flat
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
    opened = open_split(record, uri, split, **place)
    snapshot, spans = opened.dataset._snapshot, opened.rows.spans
    async with aclosing(extreme_rows(snapshot, columns, options, spans)) as batches:
        async for batch in batches:
            yield batch


def member_paths(schema: pa.Schema, retained: pa.Schema) -> list[str]:
    """Return the paths to read if structs need only some of their members.

    Args:
        schema: schema of the table.
        retained: columns to read; their structs have the members to read. Other differences from
            the table's types are ignored.
    """
    return [
        path
        for field in retained
        for path in (
            [field.name]
            if field.name in META
            else _members((field.name,), schema.field(field.name), field.type)
        )
    ]


def _members(path: tuple[str, ...], field: pa.Field, retained_type: pa.DataType) -> list[str]:
    whole = [join_path(path)]
    if _has_blobs(field):  # the bytes of blobs are only read for whole columns
        return whole
    if pa.types.is_struct(field.type) and pa.types.is_struct(retained_type):
        names = [member.name for member in retained_type]
        if len(set(names)) < len(names) or any(field.type.get_field_index(n) < 0 for n in names):
            return whole
        members = [
            _members((*path, member.name), field.type.field(member.name), member.type)
            for member in retained_type
        ]
        is_whole = len(names) == field.type.num_fields and all(
            paths == [join_path((*path, name))] for name, paths in zip(names, members, strict=True)
        )
        return whole if is_whole else [path for paths in members for path in paths]
    if pa.types.is_list(field.type) and pa.types.is_list(retained_type):
        item = field.type.value_field
        inner = (*path, item.name)
        paths = _members(inner, item, retained_type.value_type)
        return whole if paths == [join_path(inner)] else paths
    return whole


def _has_blobs(field: pa.Field) -> bool:
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType) or BLOB_KEY in (field.metadata or {}):
        return True
    return any(_has_blobs(kind.field(number)) for number in range(kind.num_fields))


@dataclass(frozen=True, slots=True)
class OpenSplit:
    """A split in the process that reads it.

    Attributes:
        dataset: the version, with the fragments of the split.
        rows: rows of these fragments to read.
        is_pruned: True if statistics can rule out no further rows.
    """

    dataset: Dataset
    rows: ChosenRows
    is_pruned: bool

    def options(self, options: ScanOptions) -> ScanOptions:
        """Return the options of a scan of the split."""
        return replace(options, use_stats=False) if self.is_pruned else options


def open_split(
    record: bytes, uri: str, split: Sequence[Piece], **place: Unpack[OpenArguments]
) -> OpenSplit:
    """Open a version with the fragments of a split. No request."""
    by_fragment: dict[bytes, list[Piece]] = {}
    for piece in split:
        by_fragment.setdefault(piece.fragment, []).append(piece)
    dataset = open_record(record, uri, list(by_fragment), **place)
    spans, picked = {}, {}
    for handle, pieces in zip(dataset._snapshot.handles, by_fragment.values(), strict=True):
        if pieces[0].offsets is not None:
            offsets = BitMap.deserialize(pieces[0].offsets).to_array()
            picked[handle.id] = np.array(offsets, np.int64)
        elif pieces[0].stop is not None:
            spans[handle.id] = joined_spans((piece.start, piece.stop or 0) for piece in pieces)
    return OpenSplit(
        dataset,
        ChosenRows(spans, picked, all(piece.is_exact for piece in split if piece.offsets)),
        all(piece.is_pruned or piece.offsets is not None for piece in split),
    )


class _RangeScanner(Scanner):
    """Scan of chosen rows of fragments."""

    __slots__ = ("flat", "rows")

    flat: bool
    rows: ChosenRows

    async def _scan(self, options: ScanOptions) -> AsyncGenerator[pa.RecordBatch, None]:
        if options.order_by:
            table = await sorted_table(self._snapshot, self._columns, options, self.rows)
            for batch in cut_table(table, options):
                yield batch
            return
        rows = scanned(self._snapshot, self._columns, options, rows=self.rows, flat=self.flat)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield batch
