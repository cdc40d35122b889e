"""Compactions of alance with `defer_index_remap`: what they leave is what pylance leaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, RetryableConflictError, UnsupportedError
from alance.format.index.remap import NewFragment, OldFragment, group_of
from alance.format.table.changes.apply_indices import covered, reuse_index
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.reuse import compactions_of, place_of, surviving
from alance.ops.index.reuse import load_compactions
from alance.optimize import Compaction
from tests.changing.both_ways import Twins, files_of, latest, plain, read
from tests.changing.both_ways import rows as small
from tests.indices.index_cases import FILTERS, agree, by_pylance, coverage, rows
from tests.reference.thinned import thinned
from tests.search.search_cases import drawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alance.format.proto import table_pb2
    from alance.optimize import CompactionTask


async def defer(path: Path, **options: Any) -> alance.Dataset:
    """One more compaction of the latest version that leaves indices for later."""
    dataset = await alance.dataset(path)
    return await dataset.optimize.compact_files(defer_index_remap=True, **options)


def noted_compactions(path: Path) -> list[int]:
    """The versions of the compactions that the fragment-reuse index tells of."""
    index = reuse_index(latest(path).indices)
    return [] if index is None else [each.dataset_version for each in compactions_of(index)]


def check_equal(twins: Twins) -> None:
    """Both tables have the same rows, transaction, manifest and index section."""
    ours, theirs = latest(twins.ours), latest(twins.theirs)
    assert plain(ours.transaction) == plain(theirs.transaction)
    assert plain(ours.message) == plain(theirs.message)
    assert [timeless(index) for index in ours.indices] == [
        timeless(index) for index in theirs.indices
    ]
    assert read(twins.ours).to_pylist() == read(twins.theirs).to_pylist()


def timeless(index: table_pb2.IndexMetadata) -> Any:
    """An entry; of the fragment-reuse index, which both make, without when."""
    message = plain(index) | {"fragment_bitmap": covered(index)}
    if index.name == FRAGMENT_REUSE:
        assert message.pop("created_at") > 1_700_000_000_000
    return message


def append(path: Path) -> None:
    lance.write_dataset(small(20, 40), str(path), mode="append", max_rows_per_file=5)


TABLES: dict[str, Callable[[Path], object]] = {
    "as written": lambda path: None,
    "deleted": lambda path: lance.dataset(path).delete("id in (0, 1, 2, 7, 13)"),
    "a fragment gone": lambda path: lance.dataset(path).delete("id < 7"),
    "rows without index": append,
    "another index": lambda path: lance.dataset(path).create_scalar_index("s", "BITMAP"),
    "no index": lambda path: lance.dataset(path).drop_index("id_idx"),
}


@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP"])
@pytest.mark.parametrize("change", TABLES.values(), ids=TABLES)
async def test_manifests_are_those_of_pylance(
    tmp_path: Path, change: Callable[[Path], object], kind: Any
) -> None:
    twins = Twins.make(tmp_path)
    lance.dataset(twins.theirs).create_scalar_index("id", kind)
    change(twins.theirs)
    twins.again()
    for target in (10, 100):
        options = {"target_rows_per_fragment": target}
        metrics = lance.dataset(twins.theirs).optimize.compact_files(
            defer_index_remap=True, num_threads=1, **options
        )
        deferred = await defer(twins.ours, **options)
        assert deferred.summary is not None
        assert deferred.summary["fragments_added"] == metrics.fragments_added
        check_equal(twins)
        for number in (0, 6, 12, 19, 33):
            question = f"id = {number}"
            assert await deferred.count_rows(question) == lance.dataset(twins.ours).count_rows(
                question
            )
    has_type = change is not TABLES["no index"]
    assert (reuse_index(latest(twins.ours).indices) is not None) == has_type


@pytest.mark.parametrize(("rounds", "by"), thinned([1, 3], ["alance", "pylance"]))
async def test_indices_of_values_go_on(tmp_path: Path, rounds: int, by: str) -> None:
    """Both libraries answer right after each round; then either brings the indices up to date."""
    path = tmp_path / "t"
    by_pylance(path)
    for number in range(rounds):
        lance.dataset(path).delete(f"id % 101 in ({number}, {number + 30}, {number + 60})")
        deferred = await defer(
            path,
            target_rows_per_fragment=9_000 + 9_000 * number,
            materialize_deletions_threshold=0.01,
        )
        plan = lance.dataset(path).scanner(["id"], filter="i = 5").explain_plan()
        assert "ScalarIndexQuery" in plan
        lance.write_dataset(rows(300, 50_000 + 1000 * number), path, mode="append")
        await agree(path, FILTERS[:4])
    assert len(noted_compactions(path)) == rounds
    await deferred.validate()
    if by == "alance":
        after = await (await alance.dataset(path)).optimize.optimize_indices()
        assert reuse_index(after._snapshot.manifest.indices) is None
    else:
        lance.dataset(path).optimize.optimize_indices()
    live = {fragment.fragment_id for fragment in lance.dataset(path).get_fragments()}
    for name, segments in coverage(path).items():
        if name != FRAGMENT_REUSE:
            assert live <= {number for ids in segments for number in ids}, name
    await agree(path)


async def test_indices_of_all_kinds_give_pylance_the_same_answers(tmp_path: Path) -> None:
    path, count = tmp_path / "t", 3000
    vectors = np.random.default_rng(4).random((count, 16), np.float32)
    data = pa.table(
        {
            "id": range(count),
            "labels": [[f"l{n % 7}", f"m{n % 5}"] for n in range(count)],
            "word": [f"word{n % 400} common" for n in range(count)],
            "kind": [f"k{n % 9}" for n in range(count)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16),
        }
    )
    theirs = lance.write_dataset(data, path, max_rows_per_file=500)
    kinds = {"id": "BTREE", "labels": "LABEL_LIST", "word": "INVERTED", "kind": "BITMAP"}
    for column, index in kinds.items():
        theirs.create_scalar_index(column, index)  # type: ignore[arg-type]
    codes = drawn(path, "l2", 4, column="v", num_sub_vectors=4)
    theirs.create_index("v", "IVF_PQ", num_sub_vectors=4, **codes)
    lance.dataset(path).delete("id % 10 = 4")

    def answers() -> list[Any]:
        dataset = lance.dataset(path)
        filters = ("array_has_any(labels, ['l3'])", "kind = 'k4' and id < 900", "id = 1234")
        values = [dataset.to_table(["id"], filter=text)["id"].to_pylist() for text in filters]
        words = dataset.to_table(["id"], full_text_query="word7", limit=100)
        request = {"column": "v", "q": vectors[77], "k": 20, "refine_factor": 20}
        near = dataset.to_table(["id"], nearest=request)
        return [*map(sorted, values), sorted(words["id"].to_pylist()), near["id"].to_pylist()]

    before = answers()
    for target in (1200, 5000):
        await defer(path, target_rows_per_fragment=target)
        assert answers() == before
    lance.write_dataset(data.slice(0, 600).drop_columns("v").append_column("v", data["v"][:600]),
                        path, mode="append", max_rows_per_file=300)  # fmt: skip
    lance.dataset(path).delete("id < 0 or _rowid >= 0 and id in (5, 6)")
    before = answers()
    lance.dataset(path).optimize.compact_files(
        target_rows_per_fragment=900, materialize_deletions_threshold=0.0, defer_index_remap=True
    )
    assert len(noted_compactions(path)) == 3
    assert answers() == before
    lance.dataset(path).optimize.optimize_indices()
    assert answers()[:4] == before[:4]
    after = await (await alance.dataset(path)).optimize.optimize_indices()
    assert answers()[:4] == before[:4]
    assert await after.count_rows("id = 1234") == lance.dataset(path).count_rows("id = 1234")
    await after.validate()


async def test_large_details_have_a_file_of_their_own(tmp_path: Path) -> None:
    twins = Twins.make(
        tmp_path, pa.table({"id": pa.array(range(180_000), pa.int64())}), max_rows_per_file=4_000
    )
    lance.dataset(twins.theirs).create_scalar_index("id", "BTREE")
    lance.dataset(twins.theirs).delete("id % 3 = 1")
    twins.again()
    lance.dataset(twins.theirs).optimize.compact_files(
        target_rows_per_fragment=60_000, defer_index_remap=True, num_threads=1
    )
    deferred = await defer(twins.ours, target_rows_per_fragment=60_000)
    check_equal(twins)
    contents = []
    for path in (twins.ours, twins.theirs):
        (file,) = (path / "_indices").glob("*/details.binpb")
        contents.append(file.read_bytes())
    assert contents[0] == contents[1]
    index = reuse_index(latest(twins.ours).indices)
    assert index is not None
    place = place_of(index)
    assert place is not None
    assert (place.path, place.offset, place.size) == ("details.binpb", 0, len(contents[0]))
    addresses = pa.array([3, 4, 44 << 32 | 3998, 7 << 32], pa.uint64())
    moved = await deferred.remap_row_addrs(addresses)
    assert moved is not None
    assert moved.equals(lance.dataset(twins.ours).remap_row_addrs(addresses))
    again = await defer(twins.ours, target_rows_per_fragment=500_000)
    assert len(again.fragments) == 1
    assert lance.dataset(twins.ours).count_rows("id = 90000") == 1
    await again.validate()
    copy = await again.deep_clone(tmp_path / "copy")
    assert (await copy.remap_row_addrs(addresses)) == (await again.remap_row_addrs(addresses))
    await copy.optimize.optimize_indices()
    assert lance.dataset(tmp_path / "copy").count_rows("id in (0, 90000, 90001, 90002)") == 3
    (file,) = (twins.ours / "_indices").glob(f"{entry_folder(twins.ours)}/details.binpb")
    file.unlink()
    with pytest.raises(alance.NotFoundError):
        await (await alance.dataset(twins.ours)).optimize.optimize_indices()


def entry_folder(path: Path) -> str:
    """The folder of the fragment-reuse index."""
    index = reuse_index(latest(path).indices)
    assert index is not None
    content = index.uuid.uuid.hex()
    return "-".join(content[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


async def planned(path: Path) -> tuple[alance.Dataset, list[Any]]:
    """A table of 4 fragments with an index, and compactions of a half of it each."""
    lance.write_dataset(small(0, 20), path, max_rows_per_file=5)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.dataset(path).delete("id in (3, 11)")
    dataset = await alance.dataset(path)
    options = {"target_rows_per_fragment": 9, "defer_index_remap": True}
    plan = await Compaction.plan(dataset, **options)  # type: ignore[arg-type]
    assert [len(task.fragments) for task in plan.tasks] == [2, 2]
    return dataset, [await task.execute(dataset) for task in plan.tasks]


def check(path: Path) -> None:
    """Each row is found by the index of pylance, once."""
    dataset = lance.dataset(path)
    dataset.validate()
    for number in range(20):
        assert dataset.count_rows(f"id = {number}") == (number not in (3, 11)), number


@pytest.mark.parametrize("inline", [True, False])
async def test_two_at_once_are_both_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    path = tmp_path / "t"
    if not inline:
        monkeypatch.setattr("alance.ops.index.reuse.MAX_INLINE_REUSE_BYTES", 0)
    dataset, results = await planned(path)
    await asyncio.gather(*(Compaction.commit(dataset, [result]) for result in results))
    after = await alance.dataset(path)
    assert len(await load_compactions(after._snapshot)) == 2
    assert len(after.fragments) == 2
    details = [*(path / "_indices").glob("*/details.binpb")]
    assert len(details) == (0 if inline else 2), "an attempt that came too late left a file"
    check(path)


@pytest.mark.parametrize("then", ["optimize", "compact", "compact later"])
async def test_what_pylance_does_meanwhile(tmp_path: Path, then: str) -> None:
    path = tmp_path / "t"
    dataset, results = await planned(path)
    if then == "optimize":
        lance.write_dataset(small(20, 25), path, mode="append")
        lance.dataset(path).optimize.optimize_indices()
    else:
        lance.dataset(path).optimize.compact_files(
            target_rows_per_fragment=9,
            excluded_fragment_ids=[2, 3],
            defer_index_remap=then == "compact later",
        )
    await Compaction.commit(dataset, results[1:])
    assert len(noted_compactions(path)) == (2 if then == "compact later" else 1)
    check(path)
    await (await alance.dataset(path)).optimize.optimize_indices()
    check(path)


async def test_indices_brought_up_to_date_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset, results = await planned(path)
    committed = await Compaction.commit(dataset, results[:1])
    assert len(noted_compactions(path)) == 1
    await committed.optimize.optimize_indices()
    assert noted_compactions(path) == []
    await Compaction.commit(dataset, results[1:])
    assert len(noted_compactions(path)) == 1
    check(path)


async def test_an_index_of_a_part_of_a_group_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(small(0, 10), path, max_rows_per_file=5)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.write_dataset(small(10, 20), path, mode="append", max_rows_per_file=5)
    dataset = await alance.dataset(path)
    options = {"target_rows_per_fragment": 100, "defer_index_remap": True}
    plan = await Compaction.plan(dataset, **options)  # type: ignore[arg-type]
    assert [len(task.fragments) for task in plan.tasks] == [2, 2]
    fragments = tuple(fragment for task in plan.tasks for fragment in task.fragments)
    task: CompactionTask = alance.optimize.CompactionTask(
        dataset.version, fragments, plan.tasks[0].options
    )
    result = await task.execute(dataset)
    with pytest.raises(RetryableConflictError, match=r"covers fragments \[0, 1\] of the group"):
        await Compaction.commit(dataset, [result])
    assert noted_compactions(path) == []


async def test_a_delete_in_what_is_rewritten_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset, results = await planned(path)
    await dataset.delete("id = 5")
    with pytest.raises(RetryableConflictError, match="fragment"):
        await Compaction.commit(dataset, results)
    assert noted_compactions(path) == []


async def test_what_is_refused(tmp_path: Path) -> None:
    stable = await alance.write_dataset(
        small(0, 20), tmp_path / "stable", max_rows_per_file=5, stable_row_ids=True
    )
    files = files_of(tmp_path / "stable")
    with pytest.raises(OSError, match="stable row IDs"):
        lance.dataset(tmp_path / "stable").optimize.compact_files(defer_index_remap=True)
    with pytest.raises(UnsupportedError, match="stable row ids"):
        await stable.optimize.compact_files(defer_index_remap=True)
    assert files_of(tmp_path / "stable") == files
    dataset, results = await planned(tmp_path / "t")
    with pytest.raises(InvalidInputError, match="defer_index_remap='yes'"):
        await dataset.optimize.compact_files(defer_index_remap="yes")  # type: ignore[arg-type]
    plan = await Compaction.plan(dataset, target_rows_per_fragment=9)
    others = [await task.execute(dataset) for task in plan.tasks]
    committed = await Compaction.commit(dataset, results[:1])
    with pytest.raises(UnsupportedError, match="compact with defer_index_remap=True"):
        await Compaction.commit(committed, others[1:])
    old = OldFragment(3, 2, np.empty(0, np.int64)), OldFragment(2, 1, np.empty(0, np.int64))
    with pytest.raises(InvalidInputError, match="ascending"):
        group_of(old, [NewFragment(4, 3)])


async def test_the_configuration_asks_for_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset, results = await planned(path)
    dataset = await dataset.update_config({"lance.compaction.defer_index_remap": "true"})
    committed = await Compaction.commit(dataset, results)
    assert len(noted_compactions(path)) == 1
    committed = await committed.optimize.compact_files(target_rows_per_fragment=100)
    assert len(noted_compactions(path)) == 2
    async with committed.optimize.auto_compact(
        min_fragments=2, target_rows_per_fragment=100
    ) as upkeep:
        for start in (20, 25, 30):
            lance.write_dataset(small(start, start + 5), path, mode="append")
    assert upkeep.metrics is not None
    assert upkeep.metrics.num_failures == 0
    check(path)
    await upkeep.dataset.optimize.compact_files(defer_index_remap=False)
    assert noted_compactions(path) == []
    check(path)


async def test_cancelled_at_any_turn(tmp_path: Path) -> None:
    """Either both the rows and what tells of them are there, or none of it and no file."""
    finished, turns, ends = False, 0, set()
    while not finished:
        path = tmp_path / str(turns)
        await planned(path)
        async with alance.Session() as session:
            dataset = await alance.dataset(path, session=session)
            task = asyncio.ensure_future(
                dataset.optimize.compact_files(target_rows_per_fragment=9, defer_index_remap=True)
            )
            for _ in range(turns):
                if task.done():
                    break
                await asyncio.sleep(0 if turns < 30 else 0.001)
            finished = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        ends.add((len(lance.dataset(path).get_fragments()), len(noted_compactions(path))))
        check(path)
        turns += 1 if turns < 30 else 12
    assert ends == {(4, 0), (2, 1)}


@pytest.mark.parametrize("deleted", [[], [0], [0, 1, 2], [9], [*range(0, 10, 2)], [*range(10)]])
def test_surviving_rows_are_those_that_are_read(deleted: list[int]) -> None:
    old = [
        OldFragment(3, 10, np.array(deleted, np.int64)),
        OldFragment(7, 1, np.empty(0, np.int64)),
    ]
    group = group_of(old, [NewFragment(9, 11 - len(deleted))])
    rows = surviving(group)
    expected = {3: sorted({*range(10)} - {*deleted}), 7: [0]}
    assert {key: offsets.tolist() for key, offsets in rows.items()} == {
        key: offsets for key, offsets in expected.items() if offsets
    }
    assert [digest.num_deleted_rows for digest in group.old_fragments] == [len(deleted), 0]


async def test_what_was_left_is_covered_by_the_fragments_before(tmp_path: Path) -> None:
    """Until indices are brought up to date, alance does not ask them, and says so."""
    path = tmp_path / "t"
    by_pylance(path)
    deferred = await defer(path)
    entries = deferred._snapshot.manifest.indices
    assert [covered(index) for index in entries if index.name == "i_idx"] == [{0, 1, 2}]
    lines = str(await deferred.scanner(["id"], filter="i = 5").explain())
    assert "fragment-reuse" in lines or "not used" in lines
    await agree(path)
