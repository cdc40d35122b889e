"""Hugging Face's `datasets` over Lance tables.

    stream = alance.huggingface.to_datasets("s3://bucket/texts", ["text", "label"])
    for batch in stream.shuffle(seed=7).batch(32):
        ...

The other direction does not need this module: `alance.write_dataset` accepts both kinds of Hugging
Face datasets, and the resulting table retains their features.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import alance
from alance import sync
from alance.base.extras import missing
from alance.blocking import public
from alance.distributed import in_any_loop

try:
    import datasets
    from datasets.builder import Key
    from datasets.iterable_dataset import ArrowExamplesIterable
except ImportError as error:
    raise missing("alance.huggingface needs Hugging Face's datasets", "huggingface") from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc

    from alance.types import Columns, Params, StorageOptions

__all__ = ["Source", "to_datasets"]

Source: TypeAlias = "str | os.PathLike[str] | alance.Dataset | sync.Dataset"


@public
def to_datasets(
    source: Source,
    columns: Columns = None,
    *,
    filter: str | pc.Expression | None = None,
    params: Params = None,
    streaming: bool = True,
    version: int | str | None = None,
    storage_options: StorageOptions | None = None,
) -> datasets.IterableDataset | datasets.Dataset:
    """Return a version of a table as a dataset of Hugging Face.

    Cost: one LIST and one GET for a URI. A stream reads when it is iterated, by a scan for each
    fragment; without `streaming` all rows are read into memory now.

    Args:
        source: a URI or path; or an open dataset, whose credentials are not sent to spawned
            workers.
        columns: names, paths, or SQL expressions by output name; None: all. Blobs are read as
            bytes.
        filter: SQL text or a pyarrow expression; `params` has the values for its `?` or `:name`.
        streaming: True to return an `IterableDataset` with a shard for each fragment: up to that
            many workers of a loader read concurrently, and `shuffle` first shuffles the shards.
            False to return a `Dataset`.
        version, storage_options: version and options for a URI; see `alance.dataset`.

    Raises:
        InvalidInputError: an unknown column or a bad filter.
        NotFoundError: no such table or version.
    """
    inner: Any = getattr(source, "_inner", source)
    if isinstance(source, str | os.PathLike):
        opened = sync.dataset(source, version=version, storage_options=storage_options)
    elif version is not None or storage_options is not None:
        raise alance.InvalidInputError(
            "version=, storage_options=: of a URI; an open dataset has its own"
        )
    elif isinstance(inner, alance.Dataset):
        face: Any = sync.Dataset
        opened = face(in_any_loop(inner))
    else:
        raise alance.InvalidInputError(f"{type(source)}: expected a URI, a path or a Dataset")
    rows = _DatasetRows(opened, columns, filter, params)
    schema = rows.scanner().projected_schema
    if not streaming:
        table = rows.scanner().to_table()
        return datasets.Dataset(datasets.table.InMemoryTable(table))
    numbers = [fragment.fragment_id for fragment in opened.fragments]
    examples = ArrowExamplesIterable(rows.tables, {"shards": numbers})
    info = datasets.DatasetInfo(features=datasets.Features.from_arrow_schema(schema))
    return datasets.IterableDataset(examples, info=info)


@dataclass(frozen=True)
class _DatasetRows:
    """Scan of a version, one shard per fragment. Can be pickled."""

    dataset: sync.Dataset
    columns: Columns
    filter: str | pc.Expression | None
    params: Params

    def scanner(self, fragments: Sequence[int] | None = None) -> sync.Scanner:
        return self.dataset.scanner(
            self.columns,
            filter=self.filter,
            params=self.params,
            fragments=fragments,
            blob_handling="all_binary",
        )

    def tables(self, shards: Sequence[int]) -> Iterator[tuple[Key, pa.Table]]:
        for shard in shards:
            for number, batch in enumerate(self.scanner([shard]).to_batches()):
                yield Key(shard, number), pa.Table.from_batches([batch])
