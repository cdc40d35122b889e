"""Large takes of few columns, whose rows are shared out among the threads that decode."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import AlanceError, CorruptFileError
from alance.file.rows.tasks import ColumnsShare
from tests.reference.thinned import thinned
from tests.spoiling import spoiled

if TYPE_CHECKING:
    from pathlib import Path

    from alance.format.plans import Reader

ROWS = 200_000
TAKEN = 40_000
NAMES = ("price", "maybe", "text", "flag", "vector", "small")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, one with deleted rows."""
    rng = np.random.default_rng(4)
    numbers = rng.integers(0, 1 << 60, ROWS)
    nothing = rng.random(ROWS) < 0.1
    values = {
        "price": pa.array(rng.random(ROWS)),
        "maybe": pa.array(numbers, mask=nothing),
        "text": pa.array([rng.bytes(20).hex() for _ in range(ROWS)], mask=nothing),
        "flag": pa.array(numbers % 2 == 0, mask=nothing),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 8, np.float32)), 8),
        "small": pa.array(numbers % 100, pa.int32()),
    }
    path = tmp_path_factory.mktemp("shared") / "t.lance"
    dataset = lance.write_dataset(pa.table(values), path, max_rows_per_file=80_000)
    dataset.delete("small = 17")
    return path


@pytest.fixture(scope="module")
def values(table: Path) -> pa.Table:
    """The rows as pylance reads them."""
    return lance.dataset(table).to_table()


def rows_of(values: pa.Table, seed: int) -> list[int]:
    rows: list[int] = np.random.default_rng(seed).integers(0, values.num_rows, TAKEN).tolist()
    return rows


class Shares:
    """Recorder of the shares that were decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: list[int] = []
        decode = ColumnsShare.decode

        def noted(share: ColumnsShare, read: Reader) -> pa.RecordBatch | None:
            self.numbers.append(share.number)
            return decode(share, read)

        monkeypatch.setattr(ColumnsShare, "decode", noted)


@pytest.mark.parametrize(("threads", "name"), thinned([1, 2, 5], [*NAMES]))
async def test_rows_are_those_of_pylance(
    table: Path, values: pa.Table, name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order asked for, some of them twice."""
    rows = rows_of(values, threads)
    shares = Shares(monkeypatch)
    async with alance.Session(decode_threads=threads) as session:
        dataset = await alance.dataset(table, session=session)
        for _ in range(2):  # cold and warm
            shares.numbers.clear()
            taken = await dataset.take(rows, [name])
            assert taken.equals(values.select([name]).take(rows).cast(taken.schema))
            if name in ("price", "text"):  # more than a megabyte
                assert sorted(shares.numbers) == [*range(threads)]


async def test_few_columns_are_shared_as_well(
    table: Path, values: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns by three threads: rows are shared; by two: a column for each."""
    rows = sorted(set(rows_of(values, 1)))
    names = ["text", "price"]
    shares = Shares(monkeypatch)
    for threads, numbers in ((3, [0, 1, 2]), (2, [0, 0])):
        shares.numbers.clear()
        async with alance.Session(decode_threads=threads) as session:
            dataset = await alance.dataset(table, session=session)
            taken = await dataset.take(rows, names)
        assert taken.equals(values.select(names).take(rows).cast(taken.schema))
        assert sorted(shares.numbers) == numbers


async def test_the_trace_tells_each_byte_once(table: Path, values: pa.Table) -> None:
    """Whatever the number of threads."""
    rows = rows_of(values, 2)
    message = []
    for threads in (1, 4):
        async with alance.Session(decode_threads=threads) as session:
            dataset = await alance.dataset(table, session=session)
            await dataset.take(rows, ["price"])
            with alance.trace() as recorder:
                await dataset.take(rows, ["price"])
            message.append(sorted((event.location, event.num_bytes) for event in recorder.events))
    assert message[0] == message[1]


async def test_a_file_that_was_cut_off_is_an_error(
    table: Path, values: pa.Table, tmp_path: Path
) -> None:
    """In whichever share its rows are; the threads are free for the next take."""
    rows = rows_of(values, 3)
    async with alance.Session(decode_threads=3) as session:
        for number in range(3):
            place = tmp_path / f"{number}.lance"
            shutil.copytree(table, place)
            dataset = await alance.dataset(place, session=session)
            before = await dataset.take(rows, ["text"])
            file = sorted((place / "data").glob("*.lance"))[number]
            content = file.read_bytes()
            with file.open("r+b") as cut:
                cut.truncate(len(content) // 8)
            with pytest.raises(CorruptFileError, match=r"ends before|not .* bytes|expected"):
                await dataset.take(rows, ["text"])
            with file.open("r+b") as cut:
                cut.write(content)
            assert (await dataset.take(rows, ["text"])).equals(before)


async def test_damaged_bytes_give_errors_of_alance_alone(
    table: Path, values: pa.Table, tmp_path: Path
) -> None:
    """Or other values; never a crash, and the threads take the next one."""
    rows = rows_of(values, 5)
    chance = Random(8)
    name = lance.dataset(table).get_fragments()[-1].data_files()[0].path
    content = (table / "data" / name).read_bytes()
    failures = 0
    async with alance.Session(decode_threads=3) as session:
        for number in range(20):
            place = tmp_path / f"{number}.lance"
            shutil.copytree(table, place)
            (place / "data" / name).write_bytes(spoiled(content, number, chance))
            try:
                dataset = await alance.dataset(place, session=session)
                for column in NAMES:
                    await dataset.take(rows, [column])
            except AlanceError:
                failures += 1
    assert failures >= 4  # those that were cut off, at least
