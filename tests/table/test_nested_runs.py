"""Neighbouring rows of nested fields: decoded as runs, and the values of Arrow's own slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.file.rows.tasks import FragmentTask
from tests.reference.thinned import paired

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 3000
VERSIONS = ("2.1", "2.2")


def with_nulls(values: Any, share: float) -> pa.Array:
    """Values of which a share is null, in runs and alone."""
    rng = np.random.default_rng(len(values))
    holes = rng.random(len(values)) < share
    holes[10:80] = True
    return pa.array(values, mask=holes)


def texts(count: int) -> list[str]:
    return [f"a text of number {n * 7919 % 10007}" for n in range(count)]


KINDS: dict[str, Callable[[int], Any]] = {
    "packed": lambda count: np.arange(count) % 700,
    "flat": lambda count: np.random.default_rng(1).random(count),
    "runs": lambda count: np.repeat(np.arange(count // 100 + 1), 100)[:count],
    "bits": lambda count: np.random.default_rng(2).random(count) < 0.5,
    "decimals": lambda count: pa.array(np.arange(count)).cast(pa.decimal128(20)).to_pylist(),
    "strings": lambda count: [str(n) * (n % 4) for n in range(count)],
    "compressed strings": texts,
    "few strings": lambda count: [f"k{n * n % 30}" for n in range(count)],
    "few numbers": lambda count: (np.arange(count) ** 2 % 30) * (1 << 40),
    "large strings": lambda count: pa.array(texts(count), pa.large_string()).to_pylist(),
}


def table(kind: str, share: float) -> pa.Table:
    """Values of a kind as members, as items with null and empty lists, and two levels deep."""
    values = with_nulls(KINDS[kind](3 * ROWS), share)
    sizes = np.arange(ROWS) % 4
    ends = np.append(0, np.cumsum(sizes)).astype(np.int32)
    items = values.take(pa.array(np.arange(ends[-1]) % len(values)))
    lists = pa.ListArray.from_arrays(pa.array(ends), items)
    gaps = pa.array(np.arange(ROWS) % 7 == 3)
    lists_with_gaps = pa.compute.if_else(gaps, pa.scalar(None, lists.type), lists)
    member = pa.StructArray.from_arrays(
        [values.slice(0, ROWS), lists_with_gaps], ["value", "items"]
    )
    pairs = pa.StructArray.from_arrays([items], ["value"])
    deep = pa.ListArray.from_arrays(pa.array(ends), pairs)
    return pa.table({"member": member, "list": lists_with_gaps, "deep": deep})


@pytest.mark.parametrize(("share", "kind", "version"), paired([0.0, 0.15], [*KINDS], [*VERSIONS]))
async def test_runs_of_rows_are_those_of_arrow(
    tmp_path: Path, version: str, kind: str, share: float
) -> None:
    rows = table(kind, share)
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows, path, data_storage_version=version)
    dataset = await alance.dataset(path)
    assert (await dataset.to_table()).equals(rows)
    pair = [np.arange(60, 140), [200], np.arange(1000, 1900), [2100, 2103], np.arange(2900, ROWS)]
    for numbers in (np.arange(5, 37), np.arange(1, ROWS), np.concatenate(pair)):
        assert (await dataset.take(numbers)).equals(rows.take(pa.array(numbers)))


async def test_nested_fields_of_a_small_fragment_are_decoded_by_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No column by itself; what it takes does not grow with the leaves."""

    def never(*arguments: object) -> None:
        raise AssertionError("a column was decoded by itself")

    pairs = [[{"x": n + at, "y": f"{n}-{at}"} for at in range(n % 3)] for n in range(ROWS)]
    column = pa.array([{"a": n, "items": items} for n, items in enumerate(pairs)])
    rows = pa.table({f"c{number}": column for number in range(20)} | {"plain": range(ROWS)})
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows, path, data_storage_version="2.1")
    monkeypatch.setattr(FragmentTask, "column", never)
    dataset = await alance.dataset(path)
    assert (await dataset.to_table()).equals(rows)
