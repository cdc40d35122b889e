"""Compaction: the same fragments, transactions and manifests as by pylance; rows stay."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction as TheirCompaction

import alance
from alance.errors import InvalidInputError, UnsupportedError
from alance.optimize import Compaction
from tests.changing.both_ways import META, Twins, files_of, latest, plain, read
from tests.reference.thinned import thinned
from tests.upkeep.others import by_another_writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = [
    pytest.param({}, id="addresses"),
    pytest.param({"enable_stable_row_ids": True}, id="stable"),
    pytest.param({"enable_v2_manifest_paths": False, "data_storage_version": "2.2"}, id="v1"),
]


def fragment_ids(path: Path) -> list[int]:
    return [fragment.id for fragment in latest(path).fragments]


def changed(path: Path) -> None:
    """Deletes, updates, and other columns, so that fragments differ in all ways."""
    lance.dataset(path).delete("id in (0, 1, 2, 7, 13)")
    lance.dataset(path).update({"v": "v + 100"}, where="id in (5, 11, 12)")
    lance.dataset(path).add_columns({"w": "id * 2"})
    lance.dataset(path).drop_columns(["v"])
    lance.dataset(path).alter_columns({"path": "s", "name": "t"})
    lance.dataset(path).add_columns(pa.field("empty", pa.int32()))


CASES: dict[str, Callable[[Path], object]] = {
    "as written": lambda path: None,
    "deleted": lambda path: lance.dataset(path).delete("id % 3 = 0"),
    "changed": changed,
    "a fragment gone": lambda path: lance.dataset(path).delete("id >= 5 and id < 10"),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"target_rows_per_fragment": 8},
    {"target_rows_per_fragment": 3},
    {"target_rows_per_fragment": 5, "materialize_deletions": False},
    {"target_rows_per_fragment": 4, "materialize_deletions_threshold": 0.5},
    {"target_rows_per_fragment": 10, "max_source_fragments": 3},
    {"target_rows_per_fragment": 7, "excluded_fragment_ids": [1]},
]


@pytest.mark.parametrize(("kind", "case"), thinned([kind.values[0] for kind in KINDS], [*CASES]))
async def test_as_pylance_does(tmp_path: Path, case: str, kind: dict[str, Any]) -> None:
    for number, options in enumerate(OPTIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        twins = Twins.make(folder, **kind)
        CASES[case](twins.theirs)
        twins.again()
        before = read(twins.ours)
        message = lance.dataset(twins.theirs).optimize.compact_files(**options)
        dataset = await alance.dataset(twins.ours)
        compacted = await dataset.optimize.compact_files(**options)
        names = ("fragments_removed", "fragments_added", "files_removed", "files_added")
        assert {name: compacted.summary[name] for name in names} == {
            name: getattr(message, name) for name in names
        }
        assert compacted.summary["warnings"] == []
        twins.check()
        if compacted.version > dataset.version:
            reserved = [
                lance.dataset(path).checkout_version(compacted.version - 1).read_transaction
                for path in (twins.ours, twins.theirs)
            ]
            assert reserved[0](compacted.version - 1).read_version == dataset.version
            assert reserved[1](compacted.version - 1).read_version == dataset.version
        retained = [name for name in before.column_names if name not in META[:2]]
        if "enable_stable_row_ids" in kind:
            retained.append("_rowid")
        after = read(twins.ours).select(retained).sort_by("id")
        assert after.to_pylist() == before.select(retained).sort_by("id").to_pylist()


async def test_tasks_and_results_travel(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, enable_stable_row_ids=True)
    dataset = await alance.dataset(twins.ours)
    plan = await Compaction.plan(dataset, target_rows_per_fragment=10)
    assert plan.num_tasks() == len(plan.tasks) == 2
    plan = pickle.loads(pickle.dumps(plan))
    other = await alance.dataset(twins.ours)
    results = [pickle.loads(pickle.dumps(await task.execute(other))) for task in plan.tasks]
    assert [result.metrics.fragments_removed for result in results] == [2, 2]
    assert (await other.latest_version()) == 1, "nothing is committed yet"
    committed = await Compaction.commit(dataset, results[1:], message="the second half")
    assert fragment_ids(twins.ours) == [0, 1, 4]
    assert (await committed.read_transaction()).properties[
        "__lance_commit_message"
    ] == "the second half"
    committed = await Compaction.commit(committed, results[:1])
    assert fragment_ids(twins.ours) == [4, 5]
    assert [r["id"] for r in read(twins.ours).to_pylist()] == [*range(10, 20), *range(10)]
    with pytest.raises(InvalidInputError, match=r"fragments \[2, 3\] are in two results"):
        await Compaction.commit(committed, [results[1], results[1]])


async def test_plans_of_pylance_and_ours_in_turn(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    path = str(twins.ours)
    plan = TheirCompaction.plan(lance.dataset(path), {"target_rows_per_fragment": 10})
    results = [task.execute(lance.dataset(path)) for task in plan.tasks]
    dataset = await alance.dataset(path)
    ours = await Compaction.plan(dataset, target_rows_per_fragment=10)
    assert [[f.id for f in task.fragments] for task in plan.tasks] == [
        [f.id for f in task.fragments] for task in ours.tasks
    ]
    done = await ours.tasks[0].execute(dataset)
    await Compaction.commit(dataset, [done])
    TheirCompaction.commit(lance.dataset(path), results[1:])
    content = read(twins.ours)
    assert sorted(content["id"].to_pylist()) == list(range(20))
    lance.dataset(path).optimize.compact_files()
    compacted = await (await alance.dataset(path)).optimize.compact_files()
    assert compacted.version == lance.dataset(path).version
    assert len(compacted.fragments) == 1


async def test_values_of_the_configuration(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    for path in (twins.theirs, twins.ours):
        lance.dataset(path).update_config({"lance.compaction.target_rows_per_fragment": "10"})
    lance.dataset(twins.theirs).optimize.compact_files()
    dataset = await alance.dataset(twins.ours)
    compacted = await dataset.optimize.compact_files()
    assert len(compacted.fragments) == 2
    twins.check()
    compacted = await compacted.update_config({"lance.compaction.max_source_fragments": "1"})
    assert (await Compaction.plan(compacted, target_rows_per_fragment=100)).num_tasks() == 0
    compacted = await compacted.optimize.compact_files(
        target_rows_per_fragment=100,
        max_source_fragments=2,
        compaction_mode="try_binary_copy",
        defer_index_remap=False,
    )
    assert len(compacted.fragments) == 1
    bad = {"lance.compaction.materialize_deletions": "perhaps"}
    with pytest.raises(InvalidInputError, match="'perhaps': expected true or false"):
        await compacted.update_config(bad)
    compacted = await by_another_writer(compacted, bad)
    with pytest.raises(InvalidInputError, match="materialize_deletions='perhaps'"):
        await compacted.optimize.compact_files()


async def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, max_rows_per_file=100)
    files = files_of(twins.ours)
    dataset = await alance.dataset(twins.ours)
    compacted = await dataset.optimize.compact_files()
    assert compacted.version == 1
    assert compacted.summary["fragments_removed"] == 0
    assert files_of(twins.ours) == files
    assert (await Compaction.commit(dataset, [])).version == 1
    nothing = await dataset.to_table(limit=0)
    empty = await alance.write_dataset(nothing, tmp_path / "empty")
    assert (await empty.optimize.compact_files()).version == 1


async def test_files_end_at_their_bytes(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, data=pa.table({"x": pa.array(range(200_000), pa.int64())}),
                       max_rows_per_file=20_000)  # fmt: skip
    dataset = await alance.dataset(twins.ours)
    compacted = await dataset.optimize.compact_files(max_bytes_per_file=1, batch_size=50_000)
    assert len(compacted.fragments) > 1
    assert await compacted.count_rows() == 200_000
    assert read(twins.ours)["x"].to_pylist() == list(range(200_000))


async def test_blobs_stay_readable_after_a_compaction(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    values = [None if i % 5 == 4 else bytes([i]) * (i * 1000) for i in range(20)]
    data = pa.table([pa.array(range(20)), pa.array(values, pa.large_binary())], schema=schema)
    twins = Twins.make(tmp_path, data=data)
    lance.dataset(twins.ours).delete("id = 3")
    dataset = await alance.dataset(twins.ours)
    compacted = await dataset.optimize.compact_files()
    assert len(compacted.fragments) == 1
    table = lance.dataset(twins.ours)
    table.validate()
    retained = [i for i in range(20) if i != 3]
    rows = await compacted.to_table(blob_handling="all_binary")
    assert rows["b"].to_pylist() == [values[i] for i in retained]
    full = [n for n, i in enumerate(retained) if values[i] is not None]
    assert [take_blob.readall() for take_blob in table.take_blobs("b", indices=full)] == [
        values[retained[n]] for n in full
    ]


async def test_what_cannot_be_rewritten(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    dataset = await alance.dataset(twins.ours)
    for wrong, message in (
        ({"target_rows_per_fragment": 0}, "target_rows_per_fragment=0"),
        ({"batch_size": True}, "batch_size=True"),
        ({"materialize_deletions_threshold": 2}, "threshold=2"),
        ({"materialize_deletions": "yes"}, "materialize_deletions='yes'"),
        ({"data_storage_version": "9"}, "file version '9'"),
        ({"compaction_mode": "fast"}, "compaction_mode='fast'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            await dataset.optimize.compact_files(**wrong)
    with pytest.raises(UnsupportedError, match="not done"):
        await dataset.optimize.compact_files(compaction_mode="force_binary_copy")
    with pytest.raises(TypeError, match="unexpected keyword argument 'rows'"):
        await Compaction.plan(dataset, rows=5)
    assert (await dataset.latest_version()) == 1
    lance.dataset(twins.ours).create_scalar_index("id", "BTREE")
    lance.dataset(twins.ours).optimize.compact_files(defer_index_remap=True)
    late = await alance.dataset(twins.ours)
    with pytest.raises(UnsupportedError, match="__lance_frag_reuse"):
        await Compaction.plan(late)


async def test_another_file_version(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    dataset = await alance.dataset(twins.ours)
    options = {"data_storage_version": "2.2", "target_rows_per_fragment": 10}
    compacted = await dataset.optimize.compact_files(**options)
    lance.dataset(twins.theirs).optimize.compact_files(**options)
    ours, theirs = latest(twins.ours), latest(twins.theirs)
    assert plain(ours.message) == plain(theirs.message)
    assert compacted.data_storage_version is dataset.data_storage_version
    assert read(twins.ours).equals(read(twins.theirs))


def many_types(start: int, stop: int, *, more: bool) -> pa.Table:
    """Rows of all shapes that pages have; with a column that other fragments lack."""
    ids = range(start, stop)
    columns = {
        "id": pa.array(ids, pa.int64()),
        "same": pa.array(["constant"] * len(ids)),
        "null": pa.array([None] * len(ids), pa.int32()),
        "flag": pa.array([i % 3 == 0 for i in ids]),
        "text": pa.array(["x" * (i * 37 % 400) for i in ids]),
        "bytes": pa.array([bytes([i % 256]) * (i % 7) for i in ids], pa.large_binary()),
        "time": pa.array([i * 1000 for i in ids], pa.timestamp("us", "UTC")),
        "money": pa.array(list(ids), pa.decimal128(12, 2)),
        "vector": pa.array([[i, i + 1.0, 0.5] for i in ids], pa.list_(pa.float32(), 3)),
        "words": pa.array([["a", str(i)] if i % 2 else None for i in ids]),
        "deep": pa.array([[{"a": [i], "b": None}] * (i % 3) for i in ids]),
        "dictionary": pa.array([f"k{i % 3}" for i in ids]).dictionary_encode(),
    }
    if more:
        columns["more"] = pa.array([i / 3 for i in ids], pa.float64())
    return pa.table(columns)


def plainly(table: pa.Table) -> pa.Table:
    """Without dictionaries, which writers order as they like."""
    place = table.schema.get_field_index("dictionary")
    return table.set_column(place, "dictionary", table["dictionary"].cast(pa.string()))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_all_shapes_of_pages(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t.lance"
    for start in range(0, 60, 20):
        mode = "append" if start else "create"
        data = many_types(start, start + 20, more=False)
        lance.write_dataset(data, path, mode=mode, data_storage_version=version)
    lance.dataset(path).add_columns(pa.field("more", pa.float64()))
    for start, rows in ((60, 9), (69, 3000), (3069, 20_000), (23_069, 5)):
        data = many_types(start, start + rows, more=True)
        lance.write_dataset(data, path, mode="append")
        lance.dataset(path).delete(f"id % 11 = 3 and id >= {start}")
    before = plainly(lance.dataset(path).to_table())
    dataset = await alance.dataset(path)
    assert len(dataset.fragments) == 7
    compacted = await dataset.optimize.compact_files(target_rows_per_fragment=80_000)
    assert len(compacted.fragments) == 1
    lance.dataset(path).validate()
    await compacted.validate()
    assert plainly(lance.dataset(path).to_table()).equals(before)
    assert plainly(await compacted.to_table()).equals(before)


async def test_on_a_branch_and_a_clone(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path, enable_stable_row_ids=True)
    path, clone = str(twins.ours), str(tmp_path / "clone.lance")
    lance.dataset(path).delete("id = 4")
    lance.dataset(path).create_branch("work", 2)
    lance.dataset(path).shallow_clone(clone, 2)
    main = await alance.dataset(path)
    for dataset in (await main.checkout_branch("work"), await alance.dataset(clone)):
        compacted = await dataset.optimize.compact_files()
        await compacted.validate()
        assert len(compacted.fragments) == 1
        assert (await compacted.to_table())["id"].to_pylist() == [n for n in range(20) if n != 4]
    assert (await main.checkout_latest()).version == 2
    branch = lance.dataset(path).checkout_version(("work", None))
    branch.validate()
    assert branch.count_rows() == lance.dataset(clone).count_rows() == 19
    lance.dataset(clone).validate()
    # The branch no longer needs the files of main, but its first version does.
    await main.optimize.compact_files()
    await main.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert branch.checkout_version(("work", 2)).count_rows() == 19
    assert branch.to_table().num_rows == 19
