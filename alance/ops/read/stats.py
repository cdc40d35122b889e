"""What a version consists of, told by its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.checks import check_count
from alance.format.proto import table_pb2
from alance.format.table.apply_indices import SYSTEM

if TYPE_CHECKING:
    from alance.ops.version.snapshot import Snapshot

SHOWN_COLUMNS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetStats:
    """What a version consists of.

    Attributes:
        num_rows: that are not deleted.
        num_deleted_rows: that are still in data files.
        num_fragments: of the version.
        num_small_fragments: those of few rows, deleted ones included: compaction joins them.
        num_data_files: of all fragments.
        num_bytes: of the data files, their deleted rows and dropped columns included.
        num_deletion_files: of all fragments.
        indices: the names of the indices.
    """

    num_rows: int
    num_deleted_rows: int
    num_fragments: int
    num_small_fragments: int
    num_data_files: int
    num_bytes: int
    num_deletion_files: int
    indices: tuple[str, ...]


async def dataset_stats(snapshot: Snapshot, small_rows: int) -> DatasetStats:
    """See `Dataset.stats`."""
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
    )


def html(snapshot: Snapshot) -> str:
    """A version as a notebook shows it, by its manifest alone: what that does not tell is left out.

    Columns beyond the first hundred are counted.
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
    told = "".join(
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
        f"<div><strong>{escape(snapshot.uri)}</strong><table>{told}</table>"
        f"<table><tr><th>column</th><th>type</th></tr>{columns}</table></div>"
    )


def _index_names(snapshot: Snapshot) -> set[str]:
    return {message.name for message in snapshot.manifest.indices} - set(SYSTEM)
