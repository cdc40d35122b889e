"""Tables of many fragments: what is not asked for is not made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.format.table.fragment import Records
from alance.ops.version.snapshot import FragmentHandle

if TYPE_CHECKING:
    from pathlib import Path

    from alance.format.table.fragment import Fragment

FRAGMENTS, ROWS = 400, 5
ALL = FRAGMENTS * ROWS


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"a": range(start, stop), "b": [str(number) for number in range(start, stop)]})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "t.lance"
    lance.write_dataset(rows(0, ALL), path, max_rows_per_file=ROWS)
    lance.dataset(path).delete("a = 7 or a = 1503")
    return path


class Counts:
    """Numbers of parsed fragments, and of fragments with a handle."""

    def __init__(self) -> None:
        self.parsed = self.handles = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    counts = Counts()
    parse, make = Records.__getitem__, FragmentHandle.__init__

    def counted(records: Records, index: int) -> object:
        counts.parsed += 1
        return parse(records, index)

    def counted_handle(
        handle: FragmentHandle, snapshot: alance.Dataset, fragment: Fragment
    ) -> None:
        counts.handles += 1
        make(handle, snapshot, fragment)  # type: ignore[arg-type]

    monkeypatch.setattr(Records, "__getitem__", counted)
    monkeypatch.setattr(FragmentHandle, "__init__", counted_handle)
    return counts


async def test_opening_counting_and_naming_them_parses_none(written: Path, counts: Counts) -> None:
    dataset = await alance.dataset(written)
    assert await dataset.count_rows() == ALL - 2
    assert await dataset.scanner(include_deleted_rows=True, with_row_id=True).count_rows() == ALL
    fragments = dataset.fragments
    assert [fragment.fragment_id for fragment in fragments] == [*range(FRAGMENTS)]
    assert (counts.parsed, counts.handles) == (0, 0)
    assert fragments[3].physical_rows == ROWS
    assert (counts.parsed, counts.handles) == (1, 1)


async def test_a_take_parses_those_that_it_hits(written: Path, counts: Counts) -> None:
    dataset = await alance.dataset(written)
    taken = await dataset.take([ALL - 3, 0, 1, 1000])
    assert taken["a"].to_pylist() == [ALL - 1, 0, 1, 1001]
    assert (counts.parsed, counts.handles) == (3, 3)
    addresses = [number << 32 for number in (300, 5, 300)]
    taken = await dataset.take_addresses(addresses, ["a"])
    assert taken["a"].to_pylist() == [300 * ROWS, 5 * ROWS, 300 * ROWS]
    assert (counts.parsed, counts.handles) == (5, 5)


async def test_an_offset_skips_fragments_unseen(written: Path, counts: Counts) -> None:
    dataset = await alance.dataset(written)
    table = await dataset.to_table(offset=1998 - 10, limit=3)
    assert table["a"].to_pylist() == [1990, 1991, 1992]
    assert (counts.parsed, counts.handles) == (1, 1)
    assert (await dataset.head(2))["a"].to_pylist() == [0, 1]
    assert counts.parsed == 2
    assert (await dataset.to_table(offset=ALL)).num_rows == 0
    chosen = await dataset.to_table(["a"], fragments=[399, 20])
    assert chosen["a"].to_pylist() == [*range(100, 105), *range(1995, 2000)]
    assert counts.parsed == 4


async def test_offsets_and_limits_as_of_pylance(written: Path) -> None:
    dataset, peer = await alance.dataset(written), lance.dataset(written)
    for offset in [0, 1, 4, 5, 6, 7, 8, 1499, 1500, 1502, 1997, 1998, 2500]:
        for limit in (1, 5, 6):
            ours = await dataset.to_table(offset=offset, limit=limit)
            assert ours == peer.to_table(offset=offset, limit=limit)


async def test_commits_parse_what_they_change(
    written: Path, tmp_path: Path, counts: Counts
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(rows(0, ALL), path, max_rows_per_file=ROWS)
    dataset = await (await alance.dataset(path)).insert(rows(ALL, ALL + ROWS))
    assert counts.parsed == 0
    dataset = await dataset.update_config({"k": "v"})
    assert counts.parsed == 0
    dataset = await dataset.delete("a >= 20 and a < 25")
    counts.parsed = 0
    dataset = await dataset.insert(rows(ALL + ROWS, ALL + 2 * ROWS))
    assert counts.parsed == 0
    ids = [fragment.fragment_id for fragment in lance.dataset(path).get_fragments()]
    assert ids == [number for number in range(FRAGMENTS + 2) if number != 4]
    assert np.array_equal(
        lance.dataset(path).to_table()["a"].to_numpy(),
        np.concatenate([np.arange(20), np.arange(25, ALL + 2 * ROWS)]),
    )
    assert lance.dataset(path).to_table() == await dataset.to_table()
