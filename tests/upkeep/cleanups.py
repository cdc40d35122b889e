"""Tables with old versions and stray files, and what a cleanup leaves of them."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import lance

from tests.changing.both_ways import rows

if TYPE_CHECKING:
    from pathlib import Path


NOW = timedelta(0)
STRAY = (
    *("data/orphan.lance", "data/orphan/1.blob", "data/other.bin", "_deletions/0-1-3.arrow"),
    *("_deletions/x.foo", "_transactions/0-abc.txn", "_transactions/notes"),
    *("_indices/11111111-1111-1111-1111-111111111111/page.lance", "_versions/.tmp_x"),
    "_versions/18446744073709551600.manifest-abc",
)


def make(path: Path) -> None:
    """Versions 1 to 8: appends, a delete, an index, a compaction."""
    for start in range(0, 40, 10):
        lance.write_dataset(rows(start, start + 10), path, mode="append" if start else "create")
    lance.dataset(path).delete("id < 3")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.dataset(path).optimize.compact_files()


def litter(path: Path) -> None:
    for name in STRAY:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x")


def age(path: Path, days: float, *names: str) -> None:
    """Make files so many days old; all that are there, unless some are named."""
    when = time.time() - 86400 * days
    for item in [path / name for name in names] or path.rglob("*"):
        if item.is_file():
            os.utime(item, (when, when))


def names_in(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def versions_of(path: Path) -> list[int]:
    return [version["version"] for version in lance.dataset(path).versions()]


def counts(stats: object) -> dict[str, int]:
    names = (
        *("bytes_removed", "old_versions", "data_files_removed", "transaction_files_removed"),
        *("index_files_removed", "deletion_files_removed", "failed_deletes"),
    )
    return {name: getattr(stats, name) for name in names}
