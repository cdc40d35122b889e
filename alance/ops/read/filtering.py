"""The parts of a scan that only a filter needs, imported with the first one: see `load_readers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.expr.arrow import ArrowCondition
from alance.expr.prune import check_of
from alance.expr.prune_arrow import node_of
from alance.ops.lookup.look_up import look_up
from alance.ops.read.pruning import Pruner
from alance.ops.read.pruning_maps import zone_maps

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.expr import Predicate
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.snapshot import Snapshot

BUILT_AT_ONCE: Final = 500  # characters of a filter: about 1 ms

__all__ = ["look_up", "pruner_of"]


async def pruner_of(
    snapshot: Snapshot, predicate: Predicate, schema: pa.Schema, options: ScanOptions
) -> Pruner | None:
    """What tells from statistics which rows a filter rules out; None: nothing would.

    Cost: the files of zone maps, once.

    Args:
        schema: that the filter sees.
    """
    if not options.use_stats:
        return None

    def build() -> Pruner | None:
        condition: object = predicate.condition
        if isinstance(condition, ArrowCondition):
            condition = node_of(condition.expression, schema)
        check = check_of(condition)
        return None if check is None else Pruner.of(check, snapshot.schema)

    is_short = len(predicate.text) <= BUILT_AT_ONCE
    pruner = build() if is_short else await snapshot.engine.pool.run(build)
    if pruner is not None and not options.include_deleted_rows:
        pruner.maps.update(await zone_maps(snapshot, set(pruner.field_ids.values())))
    return pruner
