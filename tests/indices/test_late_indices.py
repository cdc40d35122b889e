"""Tables that were compacted with `defer_index_remap`: indices follow, and never mislead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.format.index.remap import LateMoves
from alance.format.proto import table_pb2
from alance.format.proto.reuse_index_pb2 import FragmentReuseDetails
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.reuse import compactions_of, surviving, translated
from tests.indices.index_cases import agree, by_pylance, coverage, plan_of, rows
from tests.reference.thinned import thinned
from tests.search.search_cases import drawn

if TYPE_CHECKING:
    from pathlib import Path

# Four fragments of 10 rows, row 3 of fragment 0 deleted, became fragment 4: as pylance has it.
DETAILS = bytes.fromhex(
    "0a7e0a7c08071a780a580400000000000000000000003b300000010000080002000000020004000500010000003b30"
    "00000100000900010000000900020000003b3000000100000900010000000900030000003b30000001000009000100"
    "00000900"
    "1204100a180112040801100a12040802100a12040803100a1a0408041027"
)


def compacted(path: Path, rounds: int) -> None:
    """Fragments of a table moved so many times, each time with deleted and new rows."""
    for number in range(rounds):
        theirs = lance.dataset(path)
        theirs.delete(f"id % 101 = {number + 3}")
        theirs.optimize.compact_files(
            target_rows_per_fragment=9_000 + 9_000 * number, defer_index_remap=True
        )
        lance.write_dataset(rows(300, 50_000 + 1000 * number), path, mode="append")


@pytest.mark.parametrize(
    ("rounds", "verb"), thinned([1, 2, 3], ["optimize_indices", "compact_files"])
)
async def test_indices_of_values_are_brought_up_to_date(
    tmp_path: Path, rounds: int, verb: str
) -> None:
    path = tmp_path / "t"
    by_pylance(path)
    compacted(path, rounds)
    before = await agree(path)
    assert not (await plan_of(before, "i = 5")).index_lines[0].startswith("index i_idx (BTree)")
    after = await getattr(before.optimize, verb)()
    assert all(message.name != FRAGMENT_REUSE for message in after._snapshot.manifest.indices)
    after = await agree(path)
    (line,) = (await plan_of(after, "i = 5")).index_lines
    assert line.startswith("index i_idx (BTree) on i")
    live = {fragment.fragment_id for fragment in after.fragments}
    if verb == "optimize_indices":
        for name, segments in coverage(path).items():
            assert live <= {number for ids in segments for number in ids}, name
    await after.validate()
    lance.dataset(path).optimize.compact_files()
    lance.dataset(path).optimize.optimize_indices()
    await agree(path)


async def test_indices_of_every_kind_are_brought_up_to_date(tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    count = 3000
    vectors = draw.random((count, 16), np.float32)
    data = pa.table(
        {
            "id": range(count),
            "labels": [[f"l{n % 7}", f"m{n % 5}"] for n in range(count)],
            "word": [f"word{n % 400} common" for n in range(count)],
            "gram": [f"abc{n}xyz" for n in range(count)],
            "zone": range(count),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16),
        }
    )
    theirs = lance.write_dataset(data, tmp_path / "t", max_rows_per_file=500)
    for column, kind in (
        ("labels", "LABEL_LIST"),
        ("word", "INVERTED"),
        ("gram", "NGRAM"),
        ("zone", "ZONEMAP"),
    ):
        theirs.create_scalar_index(column, kind)
    codes = drawn(tmp_path / "t", "l2", 4, column="v", num_sub_vectors=4)
    theirs.create_index("v", "IVF_PQ", num_sub_vectors=4, **codes)
    theirs = lance.dataset(tmp_path / "t")
    theirs.delete("id % 10 = 4")
    theirs.optimize.compact_files(target_rows_per_fragment=1200, defer_index_remap=True)
    theirs.optimize.compact_files(target_rows_per_fragment=5000, defer_index_remap=True)

    compared: Any = {
        "nprobes": 4,
        "refine_factor": 20,
    }  # so many by their codes that none is missed

    async def answers(dataset: alance.Dataset) -> list[Any]:
        filters = ("array_has_any(labels, ['l3'])", "contains(gram, 'c77')", "zone = 1234")
        answers: list[Any] = [await dataset.count_rows(text) for text in filters]
        words = await dataset.search_text("word7", 100, columns=["id"])
        near = await dataset.nearest("v", vectors[77], 20, columns=["id"], **compared)
        return [*answers, sorted(words["id"].to_pylist()), near["id"].to_pylist()]

    dataset = await alance.dataset(tmp_path / "t")
    flat = await answers(dataset)
    after = await dataset.optimize.optimize_indices()
    lines = str(await after.scanner(nearest={"column": "v", "q": vectors[77], "k": 5}).explain())
    assert "not used" not in lines
    now = await answers(after)
    assert now == flat
    for name in ("labels_idx", "word_idx", "gram_idx", "v_idx"):
        assert coverage(tmp_path / "t")[name] == [[f.fragment_id for f in after.fragments]]
    theirs = lance.dataset(tmp_path / "t")
    ids = theirs.to_table(["id"], full_text_query="word7", limit=100)["id"].to_pylist()
    assert sorted(ids) == now[3]
    request = {"column": "v", "q": vectors[77], "k": 20, **compared}
    assert theirs.to_table(["id"], nearest=request)["id"].to_pylist() == flat[4]
    await after.validate()


@pytest.mark.parametrize("rounds", [1, 2])
async def test_columns_changed_in_place_leave_indices_that_were_left_for_later(
    tmp_path: Path, rounds: int
) -> None:
    """Their bitmaps have the fragments of before; the values of the new ones changed."""
    path = tmp_path / "t"
    by_pylance(path)
    compacted(path, rounds)
    dataset = await alance.dataset(path)
    await dataset.replace_columns({"i": "coalesce(i, 0) + 1"})
    theirs = lance.dataset(path)
    for filter in ("i = 5", "i in (1, 2, 3)", "i is null"):
        expected = theirs.to_table(["id", "i"], filter=filter, use_scalar_index=False)
        table = theirs.to_table(["id", "i"], filter=filter)
        assert table.sort_by("id") == expected.sort_by("id"), filter
    after = await (await alance.dataset(path)).optimize.optimize_indices()
    await agree(path)
    await after.validate()


async def test_parts_of_what_is_done_in_several_processes_say_what_to_do_before(
    tmp_path: Path,
) -> None:
    by_pylance(tmp_path / "t")
    compacted(tmp_path / "t", 1)
    dataset = await alance.dataset(tmp_path / "t")
    with pytest.raises(alance.UnsupportedError, match="have optimize_indices bring"):
        await alance.Compaction.plan(dataset)
    with pytest.raises(alance.UnsupportedError, match="have optimize_indices bring"):
        await dataset.create_scalar_index("id", "BTREE")
    dataset = await dataset.optimize.optimize_indices()
    dataset = await dataset.create_scalar_index("id", "BTREE")
    await alance.Compaction.plan(dataset)


async def test_what_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    theirs = by_pylance(tmp_path / "t")
    compacted(tmp_path / "t", 1)
    folders = list((tmp_path / "t" / "_indices").glob("*/page_data.lance"))
    folders[0].write_bytes(b"spoiled")
    dataset = await alance.dataset(tmp_path / "t")
    files = sorted((tmp_path / "t" / "_indices").rglob("*"))
    with pytest.raises(alance.CorruptFileError):
        await dataset.optimize.optimize_indices()
    assert await dataset.latest_version() == dataset.version > theirs.version
    assert sorted(p for p in (tmp_path / "t" / "_indices").rglob("*") if p.is_file()) == [
        path for path in files if path.is_file()
    ]


def entry(details: bytes, version: int = 0) -> table_pb2.IndexMetadata:
    message = table_pb2.IndexMetadata(name=FRAGMENT_REUSE, index_version=version)
    message.index_details.value = details
    return message


def test_the_details_of_pylance_are_read() -> None:
    (item,) = compactions_of(entry(DETAILS))
    assert item.dataset_version == 7
    (group,) = item.groups
    assert {key: len(offsets) for key, offsets in surviving(group).items()} == {
        0: 9,
        1: 10,
        2: 10,
        3: 10,
    }
    assert translated([0, 1, 2, 3, 9], [item]) == {4, 9}
    assert translated([0, 1, 9], [item]) == {9}  # of a group in part
    assert translated([4, 9], [item]) == {4, 9}
    addresses = np.array([2, 3, 4, 3 << 32 | 9, 4 << 32 | 5, 7 << 32, 9 << 32, 1 << 32 | 77])
    moved, mask = LateMoves.of([item], [4, 9]).moved(addresses)
    assert moved.tolist() == [4 << 32 | 2, 4 << 32 | 3, 4 << 32 | 38, 4 << 32 | 5, 9 << 32]
    assert mask.tolist() == [True, False, True, True, True, False, True, False]


def test_details_that_are_damaged_or_unknown() -> None:
    with pytest.raises(alance.CorruptFileError, match="details"):
        compactions_of(entry(b"\xff\xff"))
    external = FragmentReuseDetails(external=FragmentReuseDetails.External(path="x"))
    for message in (entry(DETAILS, version=1), entry(external.SerializeToString())):
        with pytest.raises(alance.UnsupportedError, match="later form"):
            compactions_of(message)
    inline = FragmentReuseDetails.FromString(DETAILS).inline.SerializeToString()
    reported = entry(external.SerializeToString())
    assert compactions_of(reported, inline) == compactions_of(entry(DETAILS))
    with pytest.raises(alance.CorruptFileError, match="details"):
        compactions_of(reported, inline[:-1])
    (item,) = compactions_of(entry(DETAILS))
    group = item.groups[0]
    content = group.changed_row_addrs
    for damaged in (content[:7], content[:-1], content[:20], b"\x05" + content[1:]):
        group.changed_row_addrs = damaged
        with pytest.raises(alance.CorruptFileError):
            surviving(group)
    group.changed_row_addrs = content
    group.new_fragments[0].physical_rows = 40
    with pytest.raises(alance.CorruptFileError, match="39 rows survived, 40 are in the new"):
        LateMoves.of([item], [4])
    del group.old_fragments[3]
    with pytest.raises(alance.CorruptFileError, match="surviving rows"):
        surviving(group)


@pytest.mark.parametrize("kind", ["BITMAP", "BTREE"])
async def test_an_index_of_a_fragment_that_is_gone_is_moved(tmp_path: Path, kind: Any) -> None:
    """Its rows stay in the files of the index, and its number in the bitmap."""
    dataset = await alance.write_dataset({"v": range(40)}, tmp_path / "t", max_rows_per_file=10)
    dataset = await dataset.create_scalar_index("v", kind)
    dataset = await dataset.delete("v < 10")
    dataset = await dataset.optimize.compact_files()
    assert len(dataset.fragments) == 1
    assert [await dataset.count_rows(f"v = {n}") for n in (5, 20, 39)] == [0, 1, 1]
    assert lance.dataset(tmp_path / "t").count_rows("v = 20") == 1


@pytest.mark.parametrize("rounds", [1, 2])
async def test_addresses_are_translated_as_by_pylance(tmp_path: Path, rounds: int) -> None:
    theirs = by_pylance(tmp_path / "t")
    old = theirs.to_table(["id"], with_row_address=True)["_rowaddr"].combine_chunks()
    assert await (await alance.dataset(tmp_path / "t")).remap_row_addrs(old) is None
    compacted(tmp_path / "t", rounds)
    dataset, theirs = await alance.dataset(tmp_path / "t"), lance.dataset(tmp_path / "t")
    table = pa.concat_arrays([old, pa.array([99 << 32, 5], pa.uint64())]).take(
        pa.array(np.random.default_rng(1).permutation(len(old) + 2))
    )
    moved = await dataset.remap_row_addrs(table)
    assert moved is not None
    assert moved.equals(theirs.remap_row_addrs(table))
    assert moved.null_count > 0
    with pytest.raises(alance.InvalidInputError, match="addrs"):
        await dataset.remap_row_addrs(["a"])
    assert await (await dataset.optimize.optimize_indices()).remap_row_addrs(table) is None
