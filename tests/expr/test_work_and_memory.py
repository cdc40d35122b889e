"""Expressions that take long or have large values: cancellable, and in bounded memory."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import alance
from alance import _kernels
from alance.base.cancellation import WorkCancelled, cancelled_when, check_cancelled
from alance.errors import InvalidInputError
from alance.expr import parse_filter, parse_projection, value_budget
from alance.expr.tree import LazyConstant, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema({"id": pa.int64(), "t": pa.string(), "l": pa.list_(pa.int64())})
LONG = "levenshtein(repeat('a', 100000), repeat('b', 100000)) = 1"


def rows(count: int, text: str = "abcdefghij") -> pa.RecordBatch:
    columns = [range(count), [text] * count, [[1, 2, None]] * count]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class After:
    """True after n calls: a caller that goes away in the middle of the work."""

    def __init__(self, num_calls: int) -> None:
        self.num_calls = num_calls

    def __call__(self) -> bool:
        self.num_calls -= 1
        return self.num_calls < 0


@pytest.mark.parametrize(
    ("text", "is_literal"),
    [
        ("length(repeat('ab', 3))", True),
        ("levenshtein('kitten', 'sitting')", True),
        ("array_length(range(1000))", True),
        ("repeat('a', 1000000)", False),
        ("length(repeat('a', 1000000))", False),
        ("levenshtein(repeat('a', 1000), repeat('b', 1000))", False),
        ("array_length(range(1000000))", False),
        ("upper(lpad('a', 1000000))", False),
        ("regexp_replace('abc', '[a-c]', 'x', 'g')", True),
        ("regexp_count(repeat('abc', 25000), '[a-c]')", False),
        ("regexp_replace(repeat('abc', 25000), '[a-c]', 'x', 'g')", False),
    ],
)
def test_constants_are_folded_if_that_is_quick(text: str, is_literal: bool) -> None:
    node = parse_projection(text, SCHEMA).value
    assert isinstance(node, Literal if is_literal else LazyConstant)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("length(repeat('a', 1000000))", 1_000_000),
        ("levenshtein(repeat('a', 1000), repeat('b', 1000))", 1000),
        ("array_length(range(1000000))", 1_000_000),
        ("length(repeat('a', 1000000)) + id", 1_000_000),
        ("if(length(repeat('a', 1000000)) > 5, 'many', 'few')", "many"),
        ("length(concat(repeat('a', 1000000), t))", 1_000_010),
        ("coalesce(null, length(repeat('a', 1000000)))", 1_000_000),
        ("length(repeat('a', 1000000)) in (7, 1000000)", True),
        ("length(repeat('a', 1000000)) between 7 and 8 or id = 0", True),
    ],
)
def test_lazy_constants_are_computed_for_all_rows(text: str, expected: object) -> None:
    values = parse_projection(text, SCHEMA).evaluate(rows(3))
    assert len(values) == 3
    assert values[0].as_py() == expected


async def test_a_lazy_constant_blocks_neither_the_loop_nor_a_thread(
    tmp_path: object,
) -> None:
    """The filter is parsed at once, and its thread is free soon after the read was cancelled."""
    dataset = await alance.write_dataset(rows(10), f"{tmp_path}/t")
    async with alance.Session(decode_threads=1) as session:
        dataset = await alance.dataset(dataset.uri, session=session)
        assert await dataset.count_rows("id < 3") == 3
        reading = asyncio.ensure_future(dataset.count_rows(LONG))
        for _ in range(5):
            await asyncio.sleep(0.05)
        assert not reading.done()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await dataset.count_rows("length(t) = 10") == 10  # by the only thread


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        "levenshtein(repeat(t, 10000), repeat('b', 100000)) = 1",
        "length(repeat(t, 100000)) = 1",
        "case " + " ".join(f"when id = {n + 100} then {n}" for n in range(990)) + " end = 7",
        "length(replace(replace(replace(t, 'a', 'aaaa'), 'a', 'aaaa'), 'a', 'aaaa')) = 1",
        "regexp_replace(t, '[a-j]', 'x', 'g') = 'x'",
    ],
)
def test_evaluation_ends_with_its_caller(text: str) -> None:
    predicate, batch = parse_filter(text, SCHEMA), rows(50)
    with pytest.raises(WorkCancelled), cancelled_when(After(2)):
        predicate.mask(batch)


def test_work_may_end_before_values_are_made() -> None:
    """Between a count of matches and their replacement, for one."""
    with pytest.raises(WorkCancelled), cancelled_when(After(0)):
        value_budget.reserve(1)


async def test_a_job_in_a_thread_learns_that_its_caller_is_gone() -> None:
    async with alance.Session(decode_threads=1) as session:
        begun, ended = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            try:
                while True:
                    check_cancelled()
            finally:
                ended.set()

        job = asyncio.ensure_future(session.engine.pool.run(work))
        assert await asyncio.to_thread(begun.wait, 60)
        job.cancel()
        assert await asyncio.to_thread(ended.wait, 60)


@pytest.mark.parametrize(
    "text",
    [
        "repeat(t, 100000)",
        "lpad(t, 1000000)",
        "rpad(t, 1000000, 'é')",
        f"replace(t, 'a', '{'x' * 1_000_000}')",
        f"regexp_replace(t, '[a-j]', '{'x' * 100_000}', 'g')",
        f"concat(t, '{'x' * 1_000_000}')",
        f"t || '{'x' * 1_000_000}'",
        f"concat_ws('{'x' * 500_000}', t, t, t)",
        f"overlay(t, '{'x' * 1_000_000}', 1)",
        f"array_to_string(l, '{'x' * 1_000_000}')",
        f"to_char(to_timestamp_seconds(id), '{'x' * 1_000_000}')",
        f"case when id >= 0 then '{'x' * 1_000_000}' else t end",
        f"coalesce(nullif(t, t), '{'x' * 1_000_000}')",
        "array_repeat(t, 100000)",
        "array_repeat(id, 100000)",
        "array_resize(l, 100000)",
        "range(100000 + id)",
        "repeat(repeat(repeat(t, 10), 10), 1000)",
        "repeat('x', 1000000)",
    ],
)
def test_large_values_are_computed_in_parts_that_fit_the_budget(text: str) -> None:
    computed, sizes = parse_projection(text, SCHEMA), []

    def evaluate(part: pa.RecordBatch) -> int:
        values = computed.evaluate(part)
        sizes.append((part.num_rows, values.nbytes))
        return part.num_rows

    most = 8 << 20
    assert sum(value_budget.in_parts(rows(40), evaluate, "x", most)) == 40
    assert len(sizes) > 1
    assert max((size for count, size in sizes if count > 1), default=0) <= most
    whole = pa.concat_arrays([computed.evaluate(rows(40).slice(n, 1)) for n in (0, 39)])
    assert computed.evaluate(rows(40)).take([0, 39]).equals(whole)


@pytest.mark.parametrize(
    "text",
    [
        "repeat(repeat(t, 10000), 10000)",
        "array_repeat(id, 100000000)",
        "length(repeat(repeat(t, 10000), 10000)) > 1",
        "length(repeat(repeat('a', 1000000), 1000)) > 1",
        "array_length(array_repeat(array_repeat(1, 1000000), 1000)) > 1",
    ],
)
def test_a_row_beyond_its_budget_is_refused_before_memory_is_allocated(text: str) -> None:
    with pytest.raises(
        InvalidInputError, match=r"the values of one row need [0-9]+ bytes, expected at most"
    ):
        parse_projection(text, SCHEMA).evaluate(rows(2))


async def test_a_scan_returns_computed_columns_in_batches_that_fit_its_budget(
    tmp_path: object,
) -> None:
    dataset = await alance.write_dataset(rows(60), f"{tmp_path}/t")
    columns = {"id": "id", **{f"c{n}": "repeat(t, 10000)" for n in range(5)}}
    scanner = dataset.scanner(columns, io_buffer_bytes=4 << 20)
    batches = [batch async for batch in scanner.to_batches()]
    assert [n for batch in batches for n in batch["id"].to_pylist()] == list(range(60))
    assert len(batches) > 1
    assert max(batch.nbytes for batch in batches) <= 1 << 20
    assert all(batch["c4"].to_pylist() == ["abcdefghij" * 10_000] * len(batch) for batch in batches)


async def test_an_update_computes_large_values_in_parts(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_budget, "EVALUATED_PART_BYTES", 1 << 20)
    dataset = await alance.write_dataset(rows(60), f"{tmp_path}/t")
    dataset = await dataset.update({"t": "repeat(t, 10000)"}, where="id >= 10")
    table = await dataset.to_table(["id", "t"], order_by=["id"])
    assert table["t"].to_pylist() == ["abcdefghij"] * 10 + ["abcdefghij" * 10_000] * 50


async def test_a_take_of_too_large_computed_columns_is_refused(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alance.ops.version.projection.MOST_COMPUTED", 1 << 20)
    monkeypatch.setattr(value_budget, "EVALUATED_PART_BYTES", 1 << 18)
    dataset = await alance.write_dataset(rows(60), f"{tmp_path}/t")
    assert len(await dataset.take([1, 2], {"x": "repeat(t, 10000)"})) == 2
    with pytest.raises(InvalidInputError, match="take fewer rows at once, or scan"):
        await dataset.take(list(range(60)), {"x": "repeat(t, 10000)"})


@pytest.mark.parametrize("count", [990, 5000])
def test_a_case_may_have_thousands_of_branches(count: int) -> None:
    branches = " ".join(f"when id = {n} then 'n{n}'" for n in range(0, 2 * count, 2))
    values = parse_projection(f"case {branches} else 'other' end", SCHEMA).evaluate(rows(2000))
    expected = ["other" if n % 2 or n >= 2 * count else f"n{n}" for n in range(2000)]
    assert values.to_pylist() == expected


def test_edit_distances_of_long_texts_are_computed_in_parts() -> None:
    """Pairs shorter and longer than the work between two cancellation checks."""
    texts = ["a" * 9000 + "b", "", "kitten", "b" * 9000, "ab" * 5000]
    others = ["a" * 9000 + "c", "abc", "sitting", "a" * 9001, "ba" * 5000]
    batch = pa.record_batch({"s": texts, "t": others})
    predicate = parse_projection("levenshtein(s, t)", batch.schema)
    assert predicate.evaluate(batch).to_pylist() == [1, 3, 3, 9001, 2]


def test_a_row_of_edit_distances_continues_from_the_row_before() -> None:
    import numpy as np

    text, other = (np.frombuffer(t.encode("utf-32-le"), np.uint32) for t in ("kitten", "sitting"))
    row = np.arange(len(text) + 1)
    for character in other:
        row = _kernels.edit_row(row, text, np.array([character]))
    assert row[-1] == 3
    with pytest.raises(ValueError, match="a number for each prefix"):
        _kernels.edit_row(row[:-1], text, other)


@pytest.mark.parametrize("make", [lambda: "a" * 64, lambda: "a" * 65, lambda: "a" * 1000])
def test_long_parts_of_a_pattern_are_found_wherever_they_are(make: Callable[[], str]) -> None:
    part = make() + "b"
    texts = ["a" * 5000, "a" * 5000 + "b", part, part[1:], "x" + part + "y", "", None]
    batch = pa.record_batch({"t": texts})
    mask = parse_filter(f"t like '%{part}%'", batch.schema).mask(batch)
    assert mask.to_pylist() == [None if text is None else part in text for text in texts]


def test_values_of_coalesce_are_computed_for_the_rows_that_need_them() -> None:
    batch = pa.record_batch({"i": [0, 5, 2, None], "s": ["x", None, "y", None]})
    values = parse_projection("coalesce(nullif(i, 5) , 10 / (i - 2), -1)", batch.schema)
    assert values.evaluate(batch).to_pylist() == [0, 3, 2, -1]
    with pytest.raises(InvalidInputError, match="divide by zero"):
        parse_projection("coalesce(s, 'a' || cast(10 / i as string))", batch.schema).evaluate(
            pa.record_batch({"i": [0], "s": pa.array([None], pa.string())})
        )
