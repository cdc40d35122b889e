"""Backfills of single fragments, and other values of columns that exist, as by pylance."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance import operations
from alance.errors import InvalidInputError
from tests.changing.backfills import OUTPUT, Doubling, check, check_rows
from tests.changing.both_ways import files_of, latest, plain, read, rows

if TYPE_CHECKING:
    from pathlib import Path


async def test_fragments_of_many_processes(path: Path, tmp_path: Path) -> None:
    """Each gives a part; one commits: as pylance does it."""
    theirs_path = tmp_path / "theirs.lance"
    lance.dataset(str(theirs_path)).delete("id in (0, 9, 12)")
    theirs = lance.dataset(str(theirs_path))
    ours = await alance.dataset(str(path))
    result, their_results = [], []
    for fragment in ours.fragments:
        part = await fragment.add_columns({"x": "id * 2", "t": "upper(s)"})
        result.append(pickle.loads(pickle.dumps(part)))
        their_results.append(
            theirs.get_fragment(fragment.fragment_id).merge_columns(
                {"x": "id * 2", "t": "upper(s)"}
            )
        )
    fragments, schema = tuple(item for item, _ in result), result[0][1]
    assert all(item == schema for _, item in result)
    await alance.commit(ours, operations.Merge(fragments, schema))
    check(path)
    merge = lance.LanceOperation.Merge([item for item, _ in their_results], their_results[0][1])
    lance.LanceDataset.commit(str(theirs_path), merge, read_version=theirs.version)
    assert plain(latest(path).message) == plain(latest(theirs_path).message)


async def test_merge_of_a_fragment(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    data = pa.table({"id": range(20), "x": [2 * index for index in range(20)]})
    mergeds = [await fragment.merge(data, "id") for fragment in dataset.fragments]
    await alance.commit(
        dataset, operations.Merge(tuple(item for item, _ in mergeds), mergeds[0][1])
    )
    check(path)


async def test_data_and_functions_of_a_fragment(path: Path, tmp_path: Path) -> None:
    dataset = await alance.dataset(str(path))
    fragment = dataset.fragments[1]
    result, schema = await fragment.merge_columns(Doubling(), ["id"])
    assert list(result.files[-1].fields) == [schema[-1].id]
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
    widened = await dataset.fragments[2].add_columns(udf(first), read_columns=["id"])
    again = await dataset.fragments[2].add_columns(udf(second), read_columns=["id"])
    assert widened == again
    assert (sorted(first.seen), second.seen) == ([10, 11, 13, 14], [])


async def test_replaced_values_are_indexed_and_keep_their_type(path: Path) -> None:
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


async def test_replaced_fragments_are_committed_as_by_pylance(path: Path, tmp_path: Path) -> None:
    """As pylance commits the same files."""
    dataset = await alance.dataset(str(path))
    dataset = await dataset.add_columns({"x": "id"})
    copies = tmp_path / "copies"
    groups = tuple(
        [await fragment.replace_columns({"x": "id * 2"}) for fragment in dataset.fragments[1:]]
    )
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
    assert read(path)["x"].to_pylist() == [item if item < 5 else 2 * item for item in live]


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
            [
                pa.array(values, item.type)
                for values, item in zip(table.values(), types, strict=True)
            ],
            list(table),
        )
        theirs = lance.dataset(str(theirs_path))
        their_results, their_fields, their_offsets = theirs.get_fragment(2).update_columns(
            data, key, right, with_offsets=True
        )
        ours = await alance.dataset(str(path))
        result, fields, offsets = await ours.fragment(2).update_columns(data, key, right)
        assert (list(fields), offsets) == (their_fields, their_offsets)
        change = lance.LanceOperation.Update(
            updated_fragments=[their_results],
            fields_modified=their_fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets={2: their_offsets},
        )
        lance.LanceDataset.commit(str(theirs_path), change, read_version=theirs.version)
        update = operations.Update(
            updated_fragments=(result,),
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
