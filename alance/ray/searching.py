"""Vector searches without an index, whose vectors many tasks read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import ray

from alance.distributed import field_ids, fragments_of, plan_splits
from alance.ray.worker import Version, run_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance import Dataset, ScanOptions
    from alance.types import StorageOptions

SPLIT_BYTES: Final = 64 << 20  # encoded bytes of the vectors that a task reads


async def search_by_tasks(
    dataset: Dataset,
    columns: Sequence[str],
    options: ScanOptions,
    storage_options: StorageOptions | None,
    ray_remote_args: Mapping[str, Any] | None,
) -> pa.Table | None:
    """Search the fragments in tasks, and merge the `k` nearest rows of each.

    Returns None if a single task is to search: the column has an index, the search is not plain,
    or there is little to read.

    Args:
        dataset: the version.
        columns: columns of the result; `_distance` is added.
        options: options of the scan, with `nearest`.
        storage_options: options of the store, which all tasks get.
        ray_remote_args: arguments of `ray.remote` for the tasks.
    """
    nearest = options.nearest
    if nearest is None or options.filter is not None or np.ndim(nearest.get("q", 0)) != 1:
        return None
    column, k = nearest.get("column"), nearest.get("k")
    is_indexed = any(column in index["fields"] for index in dataset.list_indices())
    if is_indexed or not isinstance(column, str) or not isinstance(k, int):
        return None
    parts = _parts(dataset, column)
    if len(parts) < 2:
        return None
    version = Version.of(dataset, storage_options)

    async def search(fragments: list[bytes]) -> pa.Table:
        part = version.dataset(fragments)
        blobs = options.blob_handling
        return await part.to_table(list(columns), nearest=nearest, blob_handling=blobs)

    tables = await run_tasks(search, parts, ray_remote_args)
    return pa.concat_tables(tables).sort_by("_distance").slice(0, k).combine_chunks()


def _parts(dataset: Dataset, column: str) -> list[list[bytes]]:
    """Return the records of fragments, grouped by the bytes of a column."""
    splits = plan_splits(
        fragments_of(dataset),
        field_ids(dataset, [column]),
        split_bytes=SPLIT_BYTES,
        parallelism=max(1, int(ray.cluster_resources().get("CPU", 1))),
    )
    parts, seen = [], set[bytes]()
    for split in splits:  # a large fragment may be in several splits; a task searches it whole
        part = [piece.fragment for piece in split if piece.fragment not in seen]
        part = list(dict.fromkeys(part))
        seen.update(part)
        if part:
            parts.append(part)
    return parts
