"""Turns of the event loop make few calls of Python, however many columns a table has.

Calls are counted, not timed. Every turn at which others may run is taken, so that no clock decides.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance import sync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Work = Callable[[alance.Dataset], Awaitable[object]]

COLUMNS: Final = 2_000
# A call takes 50 to 200 ns, so these are a millisecond. Describing the columns takes more.
MOST_CALLS: Final = 4 * COLUMNS


class CallsOfTurns:
    """Context manager that counts the calls of Python and C functions of each turn of the loop."""

    def __init__(self) -> None:
        self.most = self._count = 0
        self._run: Any = asyncio.Handle._run

    def __enter__(self) -> CallsOfTurns:
        run = self._run

        def counted(handle: Any) -> None:
            self._count = 0
            sys.setprofile(self._note)  # of this thread alone
            try:
                run(handle)
            finally:
                sys.setprofile(None)
                self.most = max(self.most, self._count)

        asyncio.Handle._run = counted  # type: ignore[assignment,method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]

    def _note(self, _: object, event: str, __: object) -> None:
        self._count += event in ("call", "c_call")


WORKS: Final[dict[str, Work]] = {
    "head": lambda dataset: dataset.head(3),
    "take": lambda dataset: dataset.take([0, 7, 3]),
    "table": lambda dataset: dataset.to_table(),
    "filter": lambda dataset: dataset.to_table(filter="id = 7"),
    "expression": lambda dataset: dataset.to_table(["id"], filter=pc.field("id") == 7),
    "order": lambda dataset: dataset.to_table(order_by=["id"], limit=3),
    "key": lambda dataset: dataset.get_many([7], "id"),
    "update": lambda dataset: dataset.update({"id": "id + 0"}, where="id = 7"),
}


def wide(rows: int, first: int = 0) -> pa.Table:
    numbers = np.arange(first, first + rows)
    return pa.table({"id": numbers, **{f"c{n}": numbers + n for n in range(COLUMNS - 1)}})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("wide") / "t.lance")
    sync.write_dataset(wide(20), path)
    return path


@pytest.mark.parametrize("name", WORKS)
async def test_turns_make_few_calls_for_many_columns(
    uri: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = WORKS[name]
    monkeypatch.setattr("alance.io.reading.pool.LOOP_TURN_S", 0.0)
    monkeypatch.setattr("alance.io.reading.drive.PLAN_TURN_S", 0.0)
    async with alance.Session() as session:
        await work(await alance.dataset(uri, session=session))  # imports what it needs
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, session=session)
        with CallsOfTurns() as calls:
            await asyncio.sleep(0)
            await work(dataset)
    assert 0 < calls.most < MOST_CALLS
