"""The same merge by alance and by pylance, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.format.proto.transaction_pb2 import Transaction
from tests.changing.both_ways import META, STABLE_2_2, Twins, latest, plain, read, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Clauses = Callable[[Any], Any]

KINDS = [pytest.param({}, id="addresses"), STABLE_2_2]
CLAUSES: dict[str, Clauses] = {
    "upsert": lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
    "update": lambda merge: merge.when_matched_update_all(),
    "insert": lambda merge: merge.when_not_matched_insert_all(),
    "delete": lambda merge: merge.when_matched_delete(),
    "delete and insert": lambda m: m.when_matched_delete().when_not_matched_insert_all(),
    "if": lambda m: m.when_matched_update_all(
        "source.v > target.v and target.s is not null"
    ).when_not_matched_insert_all(),
    "if nothing": lambda merge: merge.when_matched_update_all("source.v < 0 and target.id > 3"),
    "if unknown": lambda merge: merge.when_matched_update_all("source.s > target.s"),
    "others": lambda merge: merge.when_not_matched_by_source_delete(),
    "some others": lambda merge: merge.when_not_matched_by_source_delete("v > 10 and s <> 's9'"),
    "replace": lambda m: (
        m.when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete()
    ),
    "replace some": lambda m: (
        m.when_matched_update_all("source.id <> 7")
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("id >= 10")
    ),
    "insert and delete others": lambda m: (
        m.when_not_matched_insert_all().when_not_matched_by_source_delete()
    ),
    "the last word": lambda merge: merge.when_matched_delete().when_matched_update_all(),
}
BUDGETS = [1 << 28, 1]  # bytes: all in memory, all on the disk and in many parts


def source(*ids: int | None) -> pa.Table:
    """Rows as of `rows`, with other values."""
    table = rows(0, len(ids))
    values = pa.array([None if row_id is None else row_id * 2.0 for row_id in ids], pa.float64())
    return table.set_column(0, "id", pa.array(ids, pa.int64())).set_column(1, "v", values)


async def merge(
    twins: Twins, clauses: Clauses, data: pa.Table, on: Any = "id", memory: int = BUDGETS[0]
) -> dict[str, Any]:
    """The same merge by both; what they leave must be the same, but for the order of new rows."""
    merged = clauses(lance.dataset(str(twins.theirs)).merge_insert(on)).execute(data)
    ours = await alance.dataset(str(twins.ours))
    arguments = data if memory == BUDGETS[0] else data.to_reader(max_chunksize=3)
    changed = await clauses(ours.merge_insert(on)).memory_budget(memory).execute(arguments)
    assert dict(changed.summary) == merged
    actual, other = latest(twins.ours), latest(twins.theirs)
    assert actual.transaction is not None
    assert other.transaction is not None
    transaction = Transaction.FromString(actual.transaction.SerializeToString())
    # pylance notes the keys that it inserts only where they are the primary key.
    if not other.transaction.update.HasField("inserted_rows"):
        transaction.update.ClearField("inserted_rows")
    assert unordered(transaction) == unordered(other.transaction)
    assert unordered(actual.message) == unordered(other.message)
    result, expected = read(twins.ours), read(twins.theirs)
    assert result.schema.equals(expected.schema, check_metadata=True)
    if actual.has_stable_row_ids:
        assert by_value(result, *META[2:]) == by_value(expected, *META[2:])
        moved = updated_ids(result)
        assert moved == updated_ids(expected)
    else:
        assert by_value(result) == by_value(expected)
    return dict(merged)


def unordered(message: Any) -> Any:
    """A message without what says in which order rows stand in new fragments."""
    result = plain(message)

    def without(value: Any) -> None:
        if isinstance(value, dict):
            if "row ids" in value:
                for name in ("row ids", "created"):
                    value[name] = sorted(value[name] or [])
            for entry in value.values():
                without(entry)
        elif isinstance(value, list):
            for item in value:
                without(item)

    without(result)
    return result


def by_value(table: pa.Table, *more: str) -> list[str]:
    names = [name for name in table.column_names if name not in META]
    return sorted(map(str, table.select([*names, *more]).to_pylist()))


def updated_ids(table: pa.Table) -> set[tuple[Any, int]]:
    """The rows that are not new in their version, and their row ids."""
    created, updated = (table.column(name) for name in META[2:])
    return {
        (row["id"], row["_rowid"])
        for row, item, two in zip(table.to_pylist(), created, updated, strict=True)
        if item != two or item.as_py() == 1
    }


async def new_table(folder: Path, **options: Any) -> alance.Dataset:
    """Rows 0 to 19 in 4 fragments, written by alance."""
    return await alance.write_dataset(
        rows(0, 20), str(folder / "t.lance"), max_rows_per_file=5, **options
    )
