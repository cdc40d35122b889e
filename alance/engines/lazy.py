"""Datasets as lazy frames of Polars, which request columns, a predicate and a number of rows.

For any pyarrow dataset, Polars converts as much of a predicate as it can to a pyarrow expression.
`_filter_of` passes a dataset that records this expression. Polars filters the result again, because
of the rest of the predicate, and of values that it compares differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from alance.engines.arrow import ArrowDataset, ArrowScanner
from alance.errors import MissingPackageError

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError as error:
    raise MissingPackageError("lazy frames are those of Polars: `pip install polars`") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.datasets import Dataset

# Types whose values compare in alance's filters as in Polars. Decimals and categories do not; nor
# does float32, which may be compared with a number that it cannot represent.
SHARED: Final = (
    types.is_boolean,
    types.is_integer,
    types.is_float64,
    types.is_date,
    types.is_timestamp,
    types.is_string,
    types.is_large_string,
    types.is_string_view,
)


def lazy_frame(dataset: Dataset) -> pl.LazyFrame:
    """Return a lazy frame; see `Dataset.to_polars_lazy`."""
    source = ArrowDataset(dataset)
    bridge, schema = source._bridge, source.schema

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, num_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        # With a limit, the predicate applies to the rows within the limit.
        condition = _filter_of(predicate, source) if num_rows is None else None
        scanner = source._scan(columns, condition, limit=num_rows)
        for batch in ArrowScanner(scanner, bridge).to_batches():
            frame = pl.DataFrame(batch)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(frames, schema=pl.DataFrame(schema.empty_table()).schema)


def _filter_of(predicate: pl.Expr | None, source: ArrowDataset) -> pc.Expression | None:
    """Return a filter that is true for all rows that match a predicate; None if none is known."""
    if predicate is None:
        return None
    fields = [source.schema.field(name) for name in predicate.meta.root_names()]
    if not all(any(is_kind(field.type) for is_kind in SHARED) for field in fields):
        return None
    probe = _FilterProbe(source._dataset, source._bridge)
    try:
        pl.scan_pyarrow_dataset(probe).filter(predicate).collect()
        condition = probe.condition
        if condition is None:
            return None
        source.schema.empty_table().filter(condition)
    except (pl.exceptions.PolarsError, pa.ArrowException):
        return None
    return condition


class _FilterProbe(ArrowDataset):
    """A dataset without rows that records the filter of a scan."""

    condition: pc.Expression | None = None

    def to_batches(self, *_: object, filter: object = None, **__: object) -> Iterator[object]:
        """Record the filter. Returns no batches."""
        self.condition = filter
        return iter(())

    def to_table(self, *_: object, filter: object = None, **__: object) -> pa.Table:
        """Record the filter. Returns no rows. Called by older releases of Polars."""
        self.condition = filter
        return self.schema.empty_table()
