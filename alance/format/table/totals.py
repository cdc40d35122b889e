"""Totals of versions for listings, read from many manifests by a single kernel call.

The kernel skips the schema, indices and transaction. Unusual manifests are parsed completely
instead.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance import _kernels
from alance.format.table.flags import check_readable
from alance.format.table.manifest import commit_time, parse_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from alance.format.table.manifest import Manifest


class VersionTotals(NamedTuple):
    """Number and time of a version, with totals of its fragments."""

    version: int
    timestamp: datetime | None  # UTC; None if the manifest has no time
    num_fragments: int
    num_files: int
    file_bytes: int  # total size of data files, as far as recorded
    num_deletion_files: int
    num_deleted_rows: int
    num_rows: int  # including deleted rows

    @classmethod
    def of(cls, manifest: Manifest) -> VersionTotals:
        """Compute the totals of a parsed manifest."""
        records = list(manifest.fragments.records)
        files = [file for record in records for file in record.files]
        deletions = [record.deletion_file for record in records if record.HasField("deletion_file")]
        return cls(
            manifest.version,
            manifest.timestamp,
            len(records),
            len(files),
            sum(file.file_size_bytes for file in files),
            len(deletions),
            sum(deletion.num_deleted_rows for deletion in deletions),
            sum(record.physical_rows for record in records),
        )


def parse_totals(contents: Sequence[memoryview], places: Sequence[str]) -> list[VersionTotals]:
    """Read the totals of manifests. CPU work.

    Args:
        contents: content of each file.
        places: names of the files, for messages.

    Raises:
        CorruptFileError: the bytes contradict the format.
        UnsupportedError: this alance does not know a table feature.
    """
    stops = np.array(list(accumulate(map(len, contents))), np.int64)
    numbers = _kernels.manifest_totals(b"".join(contents), stops).reshape(len(contents), -1)
    totals = []
    for row, content, place in zip(numbers.tolist(), contents, places, strict=True):
        is_usual, version, has_time, seconds, nanos, reader, writer, has_max_id, *counts = row
        if not is_usual:
            totals.append(VersionTotals.of(parse_manifest(content, place)))
            continue
        check_readable(reader, writer, has_max_field_id=bool(has_max_id))
        time = commit_time(seconds, nanos) if has_time else None
        totals.append(VersionTotals(version, time, *counts))
    return totals
