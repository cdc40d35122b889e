"""Numbers and words of options: what is refused, and in which words."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import alance
from alance.base.checks import (
    check_callback,
    check_choice,
    check_count,
    check_counts,
    check_text,
    did_you_mean,
    some_of,
    unexpected,
)
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, 0, -1, np.bool_(True)])
def test_what_is_no_positive_integer_is_refused(value: object) -> None:
    message = re.escape(f"rows={value!r}: expected a positive integer")
    with pytest.raises(InvalidInputError, match=message):
        check_count("rows", value)


def test_integers_within_bounds_are_taken() -> None:
    for value in (1, 7, 1 << 70, np.int64(3), np.uint8(1)):
        check_count("rows", value)
    check_count("rows", 0, 0)
    check_count("rows", 9, 2, 9)


def test_bounds_are_told() -> None:
    with pytest.raises(InvalidInputError, match="rows=-1: expected an integer of at least 0"):
        check_count("rows", -1, 0)
    for value in (1, 10):
        with pytest.raises(InvalidInputError, match=f"rows={value}: expected an integer from 2 to"):
            check_count("rows", value, 2, 9)


def test_attributes_may_be_none() -> None:
    options = SimpleNamespace(rows=None, files=2)
    check_counts(options, "rows", "files")
    with pytest.raises(InvalidInputError, match="files=2: expected an integer of at least 3"):
        check_counts(options, "rows", "files", least=3)


def test_words_are_listed() -> None:
    check_choice("mode", "append", ("append", "create"))
    for value in ("Append", None, ["append"]):
        with pytest.raises(InvalidInputError, match=r"mode=.*: expected one of append, create"):
            check_choice("mode", value, ("append", "create"))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("max_rows_per_file", {"max_rows_per_file": True}),
        ("max_bytes_per_file", {"max_bytes_per_file": 1.5}),
        ("max_retries", {"max_retries": True}),
        ("mode", {"mode": "replace"}),
    ],
)
async def test_writes_refuse_truth_values_for_numbers(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}=.*: expected"):
        await alance.write_dataset([{"a": 1}], "memory://checks", **options)


def test_long_values_are_told_in_short() -> None:
    with pytest.raises(InvalidInputError, match=r"^column \[0, 1, 2, .*\.\.\.\]: expected text$"):
        check_text("column", list(range(1000)))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["limt"], "unexpected keyword argument 'limt', did you mean 'limit'?"),
        (["xyz"], "unexpected keyword argument 'xyz'; its arguments are limit, offset"),
        (["limt", "xyz"], "unexpected keyword argument 'limt', did you mean 'limit'? (nor are "
         "there 'xyz')"),
    ],
)  # fmt: skip
def test_wrong_keywords_are_told_with_those_that_look_alike(names: list[str], message: str) -> None:
    assert str(unexpected(names, ["limit", "offset"])) == message


def test_many_values_are_named_by_the_first_ones() -> None:
    assert some_of([1, 2]) == "[1, 2]"
    assert some_of(range(8)) == "[0, 1, 2, 3, 4, 5, 6, 7]"
    assert some_of(range(5000)) == "[0, 1, 2, 3, 4, 5, 6, 7] and 4,992 more"


class Callbacks:
    """Called and, by one of two ways, awaited."""

    async def __call__(self, *_: object) -> None:
        raise AssertionError("never called")

    async def method(self, *_: object) -> None:
        raise AssertionError("never called")

    begin = complete = method


@pytest.mark.parametrize(
    "function", [Callbacks(), Callbacks().method, partial(Callbacks().method, 1)]
)
def test_functions_that_nothing_would_await_are_refused(function: object) -> None:
    with pytest.raises(InvalidInputError, match=r"progress=.*: expected a function, not async"):
        check_callback("progress", function)


def test_functions_are_taken_and_others_are_not() -> None:
    for function in (None, print, [].append, int, lambda: None):
        check_callback("progress", function)
    with pytest.raises(InvalidInputError, match=r"^progress=5: expected a function$"):
        check_callback("progress", 5)


async def test_every_callback_is_checked(tmp_path: Path) -> None:
    message: Any = Callbacks().method
    rows = {"id": range(4), "v": [[0.0, 1.0]] * 4}
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "progress": lambda: dataset.insert(rows, progress=message),
        "progress.begin": lambda: alance.write_dataset(rows, tmp_path / "u", progress=Callbacks()),
        "scan_stats_callback": lambda: dataset.to_table(scan_stats_callback=message),
        "progress=": lambda: dataset.create_index("v", "IVF_SQ", progress=message),
        "progress=<": lambda: anext(dataset.tracked_files(progress=message)),
    }
    for name, call in calls.items():
        with pytest.raises(InvalidInputError, match=f"^{name}.*: expected .*not async"):
            await call()
    assert not (tmp_path / "u").exists()


def test_among_many_names_those_with_the_same_first_letter_are_similar() -> None:
    names = [f"{letter}{number}" for letter in "pq" for number in range(1000)] + ["price"]
    assert did_you_mean("prize", [*names[:900], "price"]) == ", did you mean 'price'?"
    assert did_you_mean("prize", ["price", *names]) == ", did you mean 'price'?"
    assert did_you_mean("zprice", ["price", *names]) == ""
