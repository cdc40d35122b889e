"""Expressions made at random, beside pylance and DuckDB: equal, or documented in docs/sql.md."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import duckdb
import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError, UnsupportedError
from alance.expr import parse_projection
from alance.testing.stalls import Stalls
from tests.expr.expressions import COLUMNS, INT, TABLE, TEXT, Expressions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.expr.expressions import Expression

    Engine = Callable[[str], "list[object] | Exception"]

BATCH: Final = TABLE.to_batches()[0]
# What alance takes less of than pylance, by the text of its error.
STRICTER: Final = ("lists of int64, ", "lists of int64 and of ")
SIZED: Final = {
    TEXT: [
        *[
            "repeat({}, {n})",
            "lpad({}, {n})",
            "rpad({}, {n}, 'é')",
            "replace({}, 'a', 'bbbbbbbbbb')",
        ],
        *["concat({}, repeat('x', {n}))", "regexp_replace({}, '[a-c]', 'zzzzzzzz', 'g')"],
        *["upper({})", "reverse({})", "case when b then {} else repeat('y', {n}) end"],
        "({} || repeat('z', {n}))",
    ],
    INT: [
        *["length({})", "levenshtein({}, repeat('b', {n}))", "octet_length({})"],
        *["array_length(range({n}))", "array_length(array_repeat({}, {n}))"],
    ],
}


def comparable(values: list[object]) -> list[object]:
    """Values that are equal to themselves, NaN as well."""
    return ["NaN" if isinstance(value, float) and value != value else value for value in values]


def ours(text: str) -> list[object] | Exception:
    try:
        return comparable(parse_projection(text, BATCH.schema).evaluate(BATCH).to_pylist())
    except AlanceError as error:
        return error


def pylance(root: Path) -> Engine:
    dataset = lance.write_dataset(TABLE, root / "t")

    def ask(text: str) -> list[object] | Exception:
        try:
            table = dataset.to_table(columns={"x": text, "other": "i"})
        except Exception as error:
            return error
        except BaseException as error:  # a panic
            return RuntimeError(str(error))
        return comparable(table["x"].to_pylist())

    return ask


def duck() -> Engine:
    connection = duckdb.connect()
    connection.register("rows_", TABLE)

    def ask(text: str) -> list[object] | Exception:
        try:
            table = connection.sql(f"select {text} as x from rows_").to_arrow_table()
        except duckdb.Error as error:
            return error
        return comparable(table["x"].to_pylist())

    return ask


class Compared:
    """Expressions that were compared with an engine.

    Attributes:
        different: all that it values in another way, with both values.
        num_equal: how many both gave the same values of.
        num_spelled: how many the engine gave the same values of after a documented rule was
            spelled out for it.
    """

    def __init__(self, engine: Engine, expressions: Expressions, count: int) -> None:
        self.different: list[str] = []
        self.num_equal = self.num_spelled = 0
        for _ in range(count):
            self._compare(engine, expressions.next())

    def __str__(self) -> str:
        counts = f"{self.num_equal} equal, {self.num_spelled} by a rule of docs/sql.md"
        return "\n".join([f"{counts}, {len(self.different)} different:", *self.different])

    def _compare(self, engine: Engine, expression: Expression) -> None:
        text, spelled = expression
        actual, theirs = ours(text), engine(text)
        if isinstance(theirs, Exception):
            return
        if isinstance(actual, Exception):
            is_known = isinstance(actual, UnsupportedError) or any(
                s in str(actual) for s in STRICTER
            )
            if not is_known:
                self.different.append(f"{text}: {actual}, not {theirs}")
        elif actual == theirs:
            self.num_equal += 1
        elif spelled != text and actual == engine(spelled):
            self.num_spelled += 1
        else:
            self.different.append(f"{text}: {actual}, not {theirs}")


def test_random_expressions_are_what_they_are_in_pylance(tmp_path: Path) -> None:
    compared = Compared(pylance(tmp_path), Expressions(0), 250)
    assert not compared.different, str(compared)
    assert compared.num_equal > 100


def test_random_expressions_are_what_they_are_in_duckdb() -> None:
    compared = Compared(duck(), Expressions(0, plain=True), 250)
    assert not compared.different, str(compared)
    assert compared.num_equal > 200


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_random_expressions_are_what_they_are_in_pylance(tmp_path: Path, seed: int) -> None:
    compared = Compared(pylance(tmp_path), Expressions(seed), 6000)
    assert not compared.different, str(compared)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_random_expressions_are_what_they_are_in_duckdb(seed: int) -> None:
    compared = Compared(duck(), Expressions(seed, plain=True), 4000)
    assert not compared.different, str(compared)


def sized(choices: random.Random, kind: str, depth: int) -> str:
    """An expression whose values may be large, or take long."""
    if depth == 0:
        return choices.choice(COLUMNS[TEXT])
    form = choices.choice(SIZED[kind])
    return form.replace("{n}", str(choices.choice([1, 100, 10_000, 500_000]))).replace(
        "{}", sized(choices, TEXT, depth - 1)
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
async def test_large_expressions_keep_to_their_memory_and_end_with_their_caller(
    tmp_path: Path, seed: int
) -> None:
    """The loop goes on meanwhile; a thread is free after a second of work without its caller."""
    choices = random.Random(seed)
    rows = pa.concat_tables([TABLE] * 200)
    root = str(tmp_path / "t")
    await alance.write_dataset(rows, root)
    async with alance.Session(decode_threads=1) as session:
        dataset = await alance.dataset(root, session=session)
        await dataset.count_rows("length(s) = 1")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(50):
            text = sized(choices, choices.choice([TEXT, INT]), choices.randint(1, 4))

            async def read(text: str = text) -> None:
                async for _ in dataset.scanner({"x": text}, io_buffer_bytes=4 << 20).to_batches():
                    pass

            async with Stalls() as stalls:
                with suppress(TimeoutError, AlanceError):
                    await asyncio.wait_for(read(), 0.3)
                begun = time.process_time()  # not of other processes
                await session.engine.pool.run(int)
                assert time.process_time() - begun < 1, text
            assert stalls.longest_callback < 0.01, (text, stalls.slowest)
            # In KiB: what a row may have, twice, since the kernels copy.
            held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert held < 1 << 20, (text, held)
