"""Counts of a version from its manifest, and sizes of columns from the footers of its files."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.checks import check_count
from alance.base.records import dataclass
from alance.file.open.files import open_file
from alance.format.proto import table_pb2
from alance.format.table.changes.apply_indices import SYSTEM
from alance.format.v0_1.metadata import BatchContainer
from alance.io.loop.tasks import each

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.file.rows.fragment import FileSource
    from alance.format.plans import Plan
    from alance.ops.version.snapshot import Snapshot

SHOWN_COLUMNS: Final = 100
FILE_ENDS_AT_ONCE: Final = 32  # maximum footers to read concurrently


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetStats:
    """Counts of the rows, files and indices of a version.

    Attributes:
        num_rows: number of live rows.
        num_deleted_rows: number of deleted rows that are still in data files.
        num_fragments: number of fragments.
        num_small_fragments: number of fragments with few rows (including deleted rows), which a
            compaction would merge.
        num_data_files: number of data files.
        num_bytes: size of the data files, including deleted rows and dropped columns.
        num_deletion_files: number of deletion files.
        indices: names of the indices.
        column_bytes: encoded bytes of the pages of each field of the schema, by dotted path. A
            struct has no bytes itself; its members have them. Fields in files of version 0.1 have
            none. None if not requested.
    """

    num_rows: int
    num_deleted_rows: int
    num_fragments: int
    num_small_fragments: int
    num_data_files: int
    num_bytes: int
    num_deletion_files: int
    indices: tuple[str, ...]
    column_bytes: Mapping[str, int] | None = None


async def dataset_stats(
    snapshot: Snapshot, small_rows: int, *, with_column_bytes: bool
) -> DatasetStats:
    """Return the counts of a version; see `Dataset.stats`."""
    check_count("small_rows", small_rows, 0)
    records = snapshot.manifest.fragments.records
    unknown = np.flatnonzero(records.file_bytes == 0).tolist()
    handles = [snapshot.handles[position] for position in unknown]
    await snapshot.resolve_sizes(handles)
    sizes = [source.file_bytes for handle in handles for source in handle.sources]
    physical, live = await snapshot.physical_counts(), await snapshot.live_counts()
    forms = [table_pb2.DataFragment.FromString(form) for form in records.forms]
    files = np.array([len(form.files) for form in forms], np.int64)
    return DatasetStats(
        num_rows=int(live.sum()),
        num_deleted_rows=int((physical - live).sum()),
        num_fragments=len(records),
        num_small_fragments=int((physical < small_rows).sum()),
        num_data_files=int(files[records.form_of].sum()),
        num_bytes=int(records.file_bytes.sum()) + sum(sizes),
        num_deletion_files=int((records.deleted >= 0).sum()),
        indices=tuple(sorted(_index_names(snapshot))),
        column_bytes=await _column_bytes(snapshot) if with_column_bytes else None,
    )


async def _column_bytes(snapshot: Snapshot) -> dict[str, int]:
    await snapshot.resolve_sizes(snapshot.handles)
    paths = snapshot.schema.paths
    total = dict.fromkeys(paths, 0)

    def read(source: FileSource) -> Plan[None]:
        container = yield from open_file(source.location, source.file_bytes, snapshot.engine.cache)
        if isinstance(container, BatchContainer):
            return
        ids = [field_id for field_id in source.columns if field_id in paths]
        columns = yield from container.read_columns([source.columns[number] for number in ids])
        for number, column in zip(ids, columns, strict=True):
            total[number] += column.buffer_bytes

    await each(
        lambda source: snapshot.engine.drive(read(source), "column bytes"),
        (source for handle in snapshot.handles for source in handle.sources),
        at_once=FILE_ENDS_AT_ONCE,
    )
    return {paths[number]: num_bytes for number, num_bytes in total.items()}


def html(snapshot: Snapshot) -> str:
    """Return an HTML description of a version for notebooks; unknown facts are omitted.

    At most 100 columns are listed; the others are only counted.
    """
    manifest = snapshot.manifest
    rows, sizes = manifest.fragments.num_rows, manifest.fragments.records.file_bytes
    facts = {
        "version": f"{manifest.version}" + (f" of {manifest.branch}" if manifest.branch else ""),
        "committed": manifest.timestamp and f"{manifest.timestamp:%Y-%m-%d %H:%M:%S} UTC",
        "rows": None if (rows < 0).any() else f"{int(rows.sum()):,}",
        "fragments": f"{len(rows):,}",
        "data bytes": None if (sizes == 0).any() else f"{int(sizes.sum()):,}",
        "indices": ", ".join(sorted(_index_names(snapshot))),
    }
    lines = "".join(
        f"<tr><th>{name}</th><td>{escape(value)}</td></tr>"
        for name, value in facts.items()
        if value
    )
    fields = snapshot.schema.fields
    columns = "".join(
        f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.arrow_type))}"
        f"{'' if field.nullable else ' not null'}</td></tr>"
        for field in fields[:SHOWN_COLUMNS]
    )
    if len(fields) > SHOWN_COLUMNS:
        columns += f"<tr><td colspan=2>and {len(fields) - SHOWN_COLUMNS:,} more</td></tr>"
    return (
        f"<div><strong>{escape(snapshot.uri)}</strong><table>{lines}</table>"
        f"<table><tr><th>column</th><th>type</th></tr>{columns}</table></div>"
    )


def _index_names(snapshot: Snapshot) -> set[str]:
    return {message.name for message in snapshot.manifest.indices} - set(SYSTEM)
