"""Texts with half of a surrogate pair, which JSON may hold and no file can: told as all else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

HALF = "\ud800"


async def _opened_by_name(folder: str) -> object:
    return await (await alance.connect(folder)).open_table(HALF)


CALLS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "uri": lambda table: alance.dataset(f"{table.uri}/{HALF}"),
    "uri to write": lambda table: alance.write_dataset({"id": [1]}, f"{table.uri}/{HALF}"),
    "table of a catalog": lambda table: _opened_by_name(table.uri),
    "column": lambda table: table.to_table([HALF]),
    "column of a take": lambda table: table.take([0], [HALF]),
    "computed column": lambda table: table.to_table({HALF: "id"}),
    "text in a filter": lambda table: table.to_table(filter=f"s = '{HALF}'"),
    "parameter": lambda table: table.to_table(filter="s = ?", params=[HALF]),
    "key": lambda table: table.get(HALF, "s"),
    "aggregate": lambda table: table.aggregate({HALF: "count(*)"}),
    "query": lambda table: table.sql(f"select '{HALF}'"),
    "new column": lambda table: table.add_columns({HALF: "1"}),
    "new name": lambda table: table.alter_columns({"path": "s", "name": HALF}),
    "index": lambda table: table.create_scalar_index("s", "BTREE", name=HALF),
    "configuration": lambda table: table.update_config({"key": HALF}),
    "tag": lambda table: table.tags.create(HALF, 1),
    "branch": lambda table: table.create_branch(HALF),
    "value": lambda table: table.insert([{"id": 1, "s": HALF}]),
    "assigned value": lambda table: table.update({"s": f"'{HALF}'"}),
}


@pytest.mark.parametrize("name", CALLS)
async def test_half_of_a_surrogate_pair_is_refused(tmp_path: Path, name: str) -> None:
    table = await alance.write_dataset({"id": [1, 2], "s": ["a", "b"]}, tmp_path / "t")
    with pytest.raises(InvalidInputError):
        await CALLS[name](table)
    assert (await alance.dataset(tmp_path / "t")).version == 1
