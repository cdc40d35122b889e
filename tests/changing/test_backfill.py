"""Backfills: crashes between fragments, other writers meanwhile, fragments shared by processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import operations
from alance.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from tests.changing.both_ways import Twins, files_of, latest, plain, read, rows

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [
    pytest.param({}, id="addresses"),
    pytest.param({"enable_stable_row_ids": True, "data_storage_version": "2.2"}, id="stable"),
]
OUTPUT = pa.schema([("x", pa.int64())])


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """20 rows in 4 fragments, of which 17 are live."""
    made = Twins.make(tmp_path, **request.param).ours
    lance.dataset(str(made)).delete("id in (0, 9, 12)")
    return made


class Doubling:
    """A function that remembers the ids that it was called with, and fails at one of them."""

    def __init__(self, fails_at: int = -1) -> None:
        self.seen: list[int] = []
        self.fails_at = fails_at

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = batch["id"].to_pylist()
        if self.fails_at in ids:
            raise OSError("stopped")
        self.seen += ids
        return pa.record_batch({"x": pa.array([2 * one for one in ids], pa.int64())})


def check(path: Path, column: str = "x") -> None:
    """Every live row has twice its id; there are no files of no version."""
    check_rows(path, column)
    named = {f"data/{file.path}" for one in latest(path).fragments for file in one.files}
    assert {one for one in files_of(path) if one.startswith("data/")} == named


def check_rows(path: Path, column: str) -> None:
    table = read(path)
    assert table[column].to_pylist() == [2 * one for one in table["id"].to_pylist()]


# A checkpoint.


async def test_a_run_after_a_failure_goes_on(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    first = Doubling(fails_at=17)
    dataset = await alance.dataset(str(path))
    for _ in range(2):  # how often it fails does not matter
        with pytest.raises(OSError, match="stopped"):
            await dataset.add_columns(
                alance.batch_udf(OUTPUT, checkpoint)(first), read_columns=["id"]
            )
    assert latest(path).version == 2
    with closing(sqlite3.connect(checkpoint)) as database:
        done = {one for (one,) in database.execute("SELECT fragment_id FROM fragments")}
    second = Doubling()
    made = await dataset.add_columns(
        alance.batch_udf(OUTPUT, checkpoint)(second), read_columns=["id"]
    )
    assert made.version == 3
    assert {*first.seen, *second.seen} == {*range(1, 9), 10, 11, *range(13, 20)}
    assert not {one // 5 for one in second.seen} & done
    assert not checkpoint.exists()
    check(path)


async def test_batches_of_an_unfinished_fragment_are_kept(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    first, second = Doubling(fails_at=3), Doubling()
    dataset = await alance.dataset(str(path))
    for function in (first, second):
        udf = alance.batch_udf(OUTPUT, checkpoint)(function)
        try:
            await dataset.add_columns(udf, read_columns=["id"], batch_size=1)
        except OSError:
            assert function is first
    assert {1, 2} <= set(first.seen)
    assert {*first.seen, *second.seen} == {*range(1, 9), 10, 11, *range(13, 20)}
    assert not {1, 2} & set(second.seen), "in the fragment that failed at its third row"
    check(path)


KILLED = """
import asyncio, os, signal, sys
import pyarrow as pa
import alance

calls = []

@alance.batch_udf(pa.schema([("x", pa.int64())]), sys.argv[2])
def double(batch):
    ids = batch["id"].to_pylist()
    with open(sys.argv[3], "a") as file:
        file.write("".join(f"{one}\\n" for one in ids))
    calls.append(ids)
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    return pa.record_batch({"x": pa.array([2 * one for one in ids], pa.int64())})

async def main():
    await (await alance.dataset(sys.argv[1])).add_columns(double, read_columns=["id"])

asyncio.run(main())
"""


async def test_processes_that_are_killed(tmp_path: Path) -> None:
    """Three die in a call; that call is made again, and no other."""
    path = tmp_path / "t"
    lance.write_dataset(rows(0, 80), str(path), max_rows_per_file=5)
    checkpoint, log = tmp_path / "done.sqlite", tmp_path / "log"
    loop = asyncio.get_running_loop()
    for last in (6, 4, 2, -1):
        command = [sys.executable, "-c", KILLED, str(path), str(checkpoint), str(log), str(last)]
        ended = await loop.run_in_executor(
            None, lambda command=command: subprocess.run(command, check=False, env=os.environ)
        )
        assert ended.returncode == (0 if last < 0 else -signal.SIGKILL)
    seen = [int(one) for one in log.read_text().split()]
    assert set(seen) == set(range(80))
    assert len(seen) == 80 + 3 * 5
    table = read(path)
    assert table["x"].to_pylist() == [2 * one for one in range(80)]
    assert not checkpoint.exists()


async def test_a_checkpoint_serves_nothing_else(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    dataset = await alance.dataset(str(path))
    with pytest.raises(OSError, match="stopped"):
        await dataset.add_columns(alance.batch_udf(OUTPUT, checkpoint)(Doubling(fails_at=19)))
    # Rows that have moved are computed again.
    await dataset.update({"id": "id + 100"}, where="id = 13")
    second = Doubling()
    named = await (await dataset.checkout_latest()).add_columns(
        alance.batch_udf(OUTPUT, checkpoint)(second)
    )
    assert 113 in second.seen
    table = await named.to_table(["id", "x"])
    assert table["x"].to_pylist() == [2 * one for one in table["id"].to_pylist()]


async def test_a_checkpoint_of_other_columns(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "done.sqlite"
    dataset = await alance.dataset(str(path))
    first, second = Doubling(fails_at=19), Doubling()
    with pytest.raises(OSError, match="stopped"):
        await dataset.add_columns(alance.batch_udf(OUTPUT, checkpoint)(first))
    output = pa.schema([("y", pa.int64())])

    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return second(batch).rename_columns(["y"])

    await dataset.add_columns(alance.batch_udf(output, checkpoint)(renamed))
    assert len(second.seen) == 17
    check_rows(path, "y")


async def test_files_of_a_checkpoint_that_are_gone(path: Path, tmp_path: Path) -> None:
    """As after a cleanup: they are computed again."""
    checkpoint = tmp_path / "done.sqlite"
    dataset = await alance.dataset(str(path))
    before = files_of(path)
    udf = alance.batch_udf(OUTPUT, checkpoint)
    await dataset.fragments[0].add_columns(udf(Doubling()))
    await dataset.fragments[1].add_columns(udf(Doubling()))
    gone, _ = sorted(files_of(path) - before)
    (path / gone).unlink()
    again = Doubling()
    await dataset.add_columns(udf(again))
    assert len(again.seen) == 17 - 4
    check(path)


async def test_no_checkpoint(tmp_path: Path) -> None:
    path = Twins.make(tmp_path).ours
    (tmp_path / "no").write_text("this is no database" * 100)
    dataset = await alance.dataset(str(path))
    with pytest.raises(InvalidInputError, match="checkpoint_file"):
        await dataset.add_columns(alance.batch_udf(OUTPUT, tmp_path / "no")(Doubling()))


# Other writers.


class Meanwhile(Doubling):
    """Does something the first time that it is called."""

    def __init__(self, action: Any) -> None:
        super().__init__()
        self.action = action

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        action, self.action = self.action, None
        if action is not None:
            action()
        return super().__call__(batch)


async def test_rows_that_are_added_meanwhile(path: Path) -> None:
    """Only theirs are computed anew."""
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).insert(rows(20, 24)))
    made = await dataset.add_columns(function, read_columns=["id"])
    assert made.version == 4
    sample = 1
    assert len(function.seen) == 17 + 4 + sample
    assert sorted(function.seen)[-4:] == [20, 21, 22, 23]
    check(path)


async def test_rows_that_are_deleted_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).delete("id in (1, 5, 6)"))
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert len(function.seen) == 17
    check(path)


async def test_values_that_change_meanwhile(path: Path) -> None:
    """Rows that moved are computed anew."""
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).update({"id": "id + 50"}, "id = 14"))
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert 64 in function.seen
    assert len(function.seen) == 18
    check(path)


async def test_columns_that_are_added_meanwhile(path: Path) -> None:
    """The new field has another id than it was written with; nothing is computed anew."""
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).add_columns({"other": "id"}))
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert len(function.seen) == 17
    check(path)
    assert read(path)["other"].to_pylist() == read(path)["id"].to_pylist()
    lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=100)
    assert read(path)["x"].to_pylist() == [2 * one for one in read(path)["id"].to_pylist()]


async def test_a_compaction_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    function = Meanwhile(
        lambda: lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=100)
    )
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert len(latest(path).fragments) == 1
    table = read(path)
    assert table["x"].to_pylist() == [2 * one for one in table["id"].to_pylist()]


async def test_the_same_column_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).add_columns({"x": "id * 2"}))
    with pytest.raises(InvalidInputError, match="'x': it exists already"):
        await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    check(path)


async def test_a_column_that_is_dropped_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    before = files_of(path)
    function = Meanwhile(lambda: lance.dataset(str(path)).drop_columns(["id"]))
    with pytest.raises(CommitConflictError):
        await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert {one for one in files_of(path) - before if one.startswith("data/")} == set()


async def test_rows_for_which_data_has_nothing(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    before = files_of(path)

    async def batches() -> Any:
        yield pa.record_batch({"x": range(10)})
        lance.dataset(str(path)).insert(rows(20, 24))
        yield pa.record_batch({"x": range(7)})

    with pytest.raises(CommitConflictError, match="fragment 4 was made by others"):
        await dataset.add_columns(batches())
    (new,) = {one for one in files_of(path) - before if one.startswith("data/")}
    assert new.removeprefix("data/") == latest(path).fragments[-1].files[0].path


async def test_data_beside_a_delete(path: Path) -> None:
    dataset = await alance.dataset(str(path))

    async def batches() -> Any:
        ids = [*range(1, 9), 10, 11, *range(13, 20)]
        yield pa.record_batch({"x": [2 * one for one in ids[:10]]})
        lance.dataset(str(path)).delete("id in (2, 18)")
        yield pa.record_batch({"x": [2 * one for one in ids[10:]]})

    await dataset.add_columns(batches())
    check(path)


async def test_no_attempts_left(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    lance.dataset(str(path)).insert(rows(20, 24))
    before = files_of(path)
    with pytest.raises(RetryableConflictError):
        await dataset.add_columns({"x": "id * 2"}, max_retries=0)
    assert {one for one in files_of(path) if one.startswith("data/")} <= before


async def test_casts_and_appends(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    lance.dataset(str(path)).insert(rows(20, 24))
    lance.dataset(str(path)).delete("id = 3")
    await dataset.alter_columns({"path": "id", "data_type": pa.int16()})
    assert read(path)["id"].to_pylist() == [1, 2, 4, 5, 6, 7, 8, 10, 11, *range(13, 24)]
    assert read(path)["id"].type == pa.int16()


async def test_nulls_are_forbidden_while_some_arrive(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    lance.dataset(str(path)).insert(pa.table({"s": ["no id"]}))
    with pytest.raises(InvalidInputError, match="column 'id': it has nulls, in fragment 4"):
        await dataset.alter_columns({"path": "id", "nullable": False})


async def test_many_at_once(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    await asyncio.gather(*(dataset.add_columns({f"c{n}": f"id * {n}"}) for n in range(6)))
    table = read(path)
    for n in range(6):
        assert table[f"c{n}"].to_pylist() == [n * one for one in table["id"].to_pylist()]
    named = {f"data/{file.path}" for one in latest(path).fragments for file in one.files}
    assert {one for one in files_of(path) if one.startswith("data/")} == named


async def test_cancelled(path: Path) -> None:
    before = files_of(path)
    dataset = await alance.dataset(str(path))
    begun = asyncio.Event()

    async def waits(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 17 in batch["id"].to_pylist():
            begun.set()
            await asyncio.sleep(3600)
        return pa.record_batch({"x": batch["id"]})

    task = asyncio.ensure_future(dataset.add_columns(alance.batch_udf(OUTPUT)(waits)))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files_of(path) == before


# Functions.


async def test_calls_at_once(path: Path) -> None:
    """One at a time, unless the function allows more."""
    dataset = await alance.dataset(str(path))
    most = {1: 0, 3: 0}
    running = 0

    def function(limit: int) -> Any:
        async def call(batch: pa.RecordBatch) -> pa.RecordBatch:
            nonlocal running
            running += 1
            most[limit] = max(most[limit], running)
            for _ in range(20):
                await asyncio.sleep(0)
            running -= 1
            return pa.record_batch({f"x{limit}": [2 * one for one in batch["id"].to_pylist()]})

        return call

    for limit in most:
        udf = alance.batch_udf(pa.schema([(f"x{limit}", pa.int64())]), concurrency=limit)
        dataset = await dataset.add_columns(udf(function(limit)), batch_size=1)
        check(path, f"x{limit}")
    assert most == {1: 1, 3: 3}


@pytest.mark.parametrize("kind", ["table", "pandas", "polars", "narrower", "other order"])
async def test_what_functions_give(path: Path, kind: str) -> None:
    import polars

    def function(batch: pa.RecordBatch) -> Any:
        ids = batch["id"].to_pylist()
        table = pa.table({"x": pa.array([2 * one for one in ids], pa.int64()), "y": ids})
        if kind == "pandas":
            return table.to_pandas()
        if kind == "polars":
            return polars.from_arrow(table)
        if kind == "narrower":
            return table.set_column(0, "x", table["x"].cast(pa.int32()))
        return table.select(["y", "x"]) if kind == "other order" else table

    output = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    dataset = await alance.dataset(str(path))
    await dataset.add_columns(alance.batch_udf(output)(function))
    check(path)
    assert read(path)["y"].to_pylist() == read(path)["id"].to_pylist()


async def test_a_table_without_rows(tmp_path: Path) -> None:
    lance.write_dataset(rows(0, 0), str(tmp_path / "t"))
    dataset = await alance.dataset(str(tmp_path / "t"))
    with pytest.raises(InvalidInputError, match="give output_schema"):
        await dataset.add_columns(Doubling())
    dataset = await dataset.add_columns(alance.batch_udf(OUTPUT)(Doubling()))
    dataset = await dataset.add_columns({"y": "id + 1"})
    dataset = await dataset.add_columns(pa.table({"z": pa.array([], pa.int8())}))
    dataset = await dataset.merge(pa.table({"id": pa.array([1], pa.int64()), "w": [1]}), "id")
    dataset = await dataset.alter_columns({"path": "id", "data_type": pa.int32()})
    more = rows(0, 3)
    more = more.set_column(0, "id", more["id"].cast(pa.int32()))
    lance.dataset(str(tmp_path / "t")).insert(more)
    assert read(tmp_path / "t").select(["id", "x", "w"]).to_pylist() == [
        {"id": n, "x": None, "w": None} for n in range(3)
    ]


# Fragments.


async def test_fragments_of_many_processes(path: Path, tmp_path: Path) -> None:
    """Each gives a part; one commits: as pylance does it."""
    theirs_path = tmp_path / "theirs.lance"
    lance.dataset(str(theirs_path)).delete("id in (0, 9, 12)")
    theirs = lance.dataset(str(theirs_path))
    ours = await alance.dataset(str(path))
    made, their_made = [], []
    for fragment in ours.fragments:
        part = await fragment.add_columns({"x": "id * 2", "t": "upper(s)"})
        made.append(pickle.loads(pickle.dumps(part)))
        their_made.append(
            theirs.get_fragment(fragment.fragment_id).merge_columns(
                {"x": "id * 2", "t": "upper(s)"}
            )
        )
    fragments, schema = tuple(one for one, _ in made), made[0][1]
    assert all(one == schema for _, one in made)
    await alance.commit(ours, operations.Merge(fragments, schema))
    check(path)
    merge = lance.LanceOperation.Merge([one for one, _ in their_made], their_made[0][1])
    lance.LanceDataset.commit(str(theirs_path), merge, read_version=theirs.version)
    assert plain(latest(path).message) == plain(latest(theirs_path).message)


async def test_merge_of_a_fragment(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    data = pa.table({"id": range(20), "x": [2 * one for one in range(20)]})
    made = [await one.merge(data, "id") for one in dataset.fragments]
    await alance.commit(dataset, operations.Merge(tuple(one for one, _ in made), made[0][1]))
    check(path)


async def test_data_and_functions_of_a_fragment(path: Path, tmp_path: Path) -> None:
    dataset = await alance.dataset(str(path))
    fragment = dataset.fragments[1]
    made, schema = await fragment.merge_columns(Doubling(), ["id"])
    assert list(made.files[-1].fields) == [schema[-1].id]
    other, _ = await fragment.add_columns(pa.table({"x": range(4)}))
    assert other.physical_rows == 5
    with pytest.raises(InvalidInputError, match="goes on after 4 rows"):
        await fragment.add_columns(pa.table({"x": range(5)}))
    nulls, schema = await fragment.add_columns(pa.field("z", pa.int8()))
    assert nulls == fragment.metadata.message
    assert schema[-1].name == "z"


async def test_a_crash_between_fragments(path: Path, tmp_path: Path) -> None:
    """A fragment that is done comes out of the checkpoint, without a call."""
    checkpoint = tmp_path / "done.sqlite"
    dataset = await alance.dataset(str(path))
    first, second = Doubling(), Doubling()
    udf = alance.batch_udf(OUTPUT, checkpoint)
    made = await dataset.fragments[2].add_columns(udf(first), read_columns=["id"])
    again = await dataset.fragments[2].add_columns(udf(second), read_columns=["id"])
    assert made == again
    assert (sorted(first.seen), second.seen) == ([10, 11, 13, 14], [])


# Other values of columns that exist.


async def test_replaced_values(path: Path) -> None:
    lance.dataset(str(path)).create_scalar_index("v", "BTREE")
    dataset = await alance.dataset(str(path))
    dataset = await dataset.replace_columns({"v": "id * 2"})
    check_rows(path, "v")
    assert read(path)["v"].type == pa.float64()
    assert lance.dataset(str(path)).to_table(filter="v = 6").num_rows == 1
    dataset = await dataset.replace_columns({"v": "id * 2", "s": "lower(s)"})
    dataset = await dataset.replace_columns({"v": "id * 2"})
    check_rows(path, "v")
    structs = pa.table({"n": [{"a": n, "b": None} for n in range(17)]})
    await dataset.replace_columns(structs)
    assert read(path)["n"].to_pylist() == structs["n"].to_pylist()


async def test_replaced_nulls(path: Path) -> None:
    """Values for a column that has none."""
    dataset = await alance.dataset(str(path))
    dataset = await dataset.add_columns(pa.field("x", pa.int64()))
    function = Meanwhile(lambda: lance.dataset(str(path)).delete("id = 1"))
    dataset = await dataset.replace_columns(alance.batch_udf(OUTPUT)(function))
    check_rows(path, "x")


async def test_replaced_fragments(path: Path, tmp_path: Path) -> None:
    """As pylance commits the same files."""
    dataset = await alance.dataset(str(path))
    dataset = await dataset.add_columns({"x": "id"})
    copies = tmp_path / "copies"
    groups = tuple([await one.replace_columns({"x": "id * 2"}) for one in dataset.fragments[1:]])
    shutil.copytree(path, copies)
    theirs = lance.dataset(str(copies))
    replacements = []
    for group in groups:
        file = lance.fragment.DataFile(
            group.new_file.path,
            list(group.new_file.fields),
            list(group.new_file.column_indices),
            group.new_file.file_major_version,
            group.new_file.file_minor_version,
            group.new_file.file_size_bytes,
        )
        replacements.append(lance.LanceOperation.DataReplacementGroup(group.fragment_id, file))
    change = lance.LanceOperation.DataReplacement(replacements)
    lance.LanceDataset.commit(str(copies), change, read_version=theirs.version)
    await alance.commit(dataset, operations.DataReplacement(groups))
    assert plain(latest(path).message) == plain(latest(copies).message)
    assert read(path).equals(read(copies))
    live = [*range(1, 9), 10, 11, *range(13, 20)]
    assert read(path)["x"].to_pylist() == [one if one < 5 else 2 * one for one in live]


async def test_updated_columns_of_a_fragment(path: Path, tmp_path: Path) -> None:
    """As pylance writes them: the same fragment, the same offsets, the same version."""
    theirs_path = tmp_path / "theirs.lance"
    lance.dataset(str(theirs_path)).delete("id in (0, 9, 12)")
    for table, key in (
        ({"id": [10, 14, 14, 99], "n": [{"a": n, "b": "x"} for n in range(4)]}, "id"),
        ({"k": [11], "s": ["new"], "l": [[7, 8]]}, "id"),
        ({"id": [99], "v": [1.0]}, "id"),
        ({"k": [13], "n": [None]}, "id"),
    ):
        right = "k" if "k" in table else key
        arrow = rows(0, 1).schema
        types = [arrow.field("id" if name == right else name) for name in table]
        data = pa.Table.from_arrays(
            [pa.array(values, one.type) for values, one in zip(table.values(), types, strict=True)],
            list(table),
        )
        theirs = lance.dataset(str(theirs_path))
        their_made, their_fields, their_offsets = theirs.get_fragment(2).update_columns(
            data, key, right, with_offsets=True
        )
        ours = await alance.dataset(str(path))
        made, fields, offsets = await ours.fragment(2).update_columns(data, key, right)
        assert (list(fields), offsets) == (their_fields, their_offsets)
        change = lance.LanceOperation.Update(
            updated_fragments=[their_made],
            fields_modified=their_fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets={2: their_offsets},
        )
        lance.LanceDataset.commit(str(theirs_path), change, read_version=theirs.version)
        update = operations.Update(
            updated_fragments=(made,),
            fields_modified=fields,
            update_mode=1,
            # Pylance leaves out those of no row.
            updated_fragment_offset_bitmaps={2: offsets} if len(offsets) > 8 else {},
        )
        await alance.commit(ours, update)
        assert plain(latest(path).message) == plain(latest(theirs_path).message)
        assert plain(latest(path).transaction) == plain(latest(theirs_path).transaction)
        assert read(path).to_pylist() == read(theirs_path).to_pylist()


async def test_what_update_columns_refuses(path: Path) -> None:
    fragment = (await alance.dataset(str(path))).fragment(2)
    before = files_of(path)
    ids = pa.array([10], pa.int64())
    for columns, match in (
        ({"nope": [1]}, "column 'nope'"),
        ({"v": ["x"]}, "column 'v': string does not cast to double"),
        ({}, "no columns beside 'id'"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            await fragment.update_columns(pa.table({"id": ids, **columns}), "id")
    assert files_of(path) == before
