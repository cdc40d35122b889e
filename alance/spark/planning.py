"""Partitions of a read: the splits of a scan, as Spark takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from alance.distributed import plan_splits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.distributed import Piece
    from alance.spark.options import ReadOptions
    from alance.types import Fragment


class Rows(InputPartition):
    """One partition: what one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)

    def __repr__(self) -> str:
        return f"Rows({len(self.pieces)} fragments)"


def plan(
    fragments: Sequence[Fragment], fields: frozenset[int] | None, options: ReadOptions
) -> list[Rows]:
    """The partitions of a read, in row order; cost as of `plan_splits`.

    Args:
        fields: ids of the fields that are read; None: all.
    """
    splits = plan_splits(
        fragments,
        fields,
        split_bytes=options.partition_bytes,
        min_splits=options.min_partitions,
        parallelism=options.parallelism,
        limit=options.limit,
        is_filtered=options.filter is not None,
    )
    return [Rows(split) for split in splits]
