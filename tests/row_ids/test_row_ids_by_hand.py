"""Rows that a transaction made by hand moves keep their ids, as with pylance's `RowIdSequence`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.fragment import RowIdSequence

import alance
from alance import operations
from alance.distributed import row_ids_of, with_row_ids

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [0, 1, 2, 3], "v": ["a", "b", "c", "d"]})
NEW = pa.table({"id": [3, 1, 9], "v": ["D", "B", "new"]})


async def moved(path: Path, row_ids: Any) -> alance.Dataset:
    dataset = await alance.write_dataset(ROWS, path, stable_row_ids=True, mode="overwrite")
    (fragment,) = await alance.write_fragments(NEW, dataset)
    update = operations.Update(
        removed_fragment_ids=(dataset.fragments[0].fragment_id,),
        new_fragments=(with_row_ids(fragment, row_ids),),
    )
    assert fragment.WhichOneof("row_id_sequence") is None, "what was given stays"
    return await alance.commit(dataset, update)


@pytest.mark.parametrize(
    "row_ids",
    [
        [3, 1],
        (3, 1),
        iter([3, np.uint8(1)]),
        range(3, 0, -2),
        pa.array([3, 1], pa.uint64()),
        pa.array([3, 1], pa.int8()),
        pa.chunked_array([[3], [1]]),
        np.array([3, 1]),
        np.array([3, 1], ">u2"),
    ],
)
async def test_leading_rows_keep_their_ids_and_others_get_new_ones(
    tmp_path: Path, row_ids: Any
) -> None:
    dataset = await moved(tmp_path / "t", row_ids)
    table = await dataset.to_table(with_row_id=True)
    assert table["_rowid"].to_pylist() == [3, 1, 4]
    assert lance.dataset(tmp_path / "t").to_table(with_row_id=True) == table
    assert (await dataset.take_rows([1, 4]))["v"].to_pylist() == ["B", "new"]
    message = dataset.fragments[0].metadata.message
    assert row_ids_of(message).to_pylist() == [3, 1, 4]


async def test_ids_are_stored_as_pylance_stores_them(tmp_path: Path) -> None:
    (fragment,) = await alance.write_fragments(ROWS, str(tmp_path / "t"))
    most = (1 << 64) - 2
    for row_ids in (
        *(range(7, 11), range(9, 0, -3), range(most - 2, most + 1), range(0)),
        *([9, 2, 4], [5], [], [most, 0, 1 << 63]),
    ):
        sequence = RowIdSequence(row_ids)
        ours = with_row_ids(fragment, row_ids)
        assert row_ids_of(ours).to_pylist() == sequence.to_pyarrow().to_pylist() == [*row_ids]
        assert row_ids_of(ours).type == pa.uint64()


async def test_ids_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (fragment,) = await alance.write_fragments(ROWS, str(tmp_path / "t"))
    refused: list[tuple[Any, str]] = [
        ([1, 1], "some are there twice"),
        (range(5), "5 of them, the fragment has 4 rows"),
        ([-1], "-1: expected an integer from 0"),
        (range(-1, 3), "-1: expected an integer from 0"),
        (range(1 << 60), f"{1 << 60} of them, the fragment has 4 rows"),
        (range(1 << 64, (1 << 64) + 1), f"{1 << 64}: expected an integer"),
        (np.array([3, -1], np.int8), r"-1.*: expected an integer from 0"),
        (pa.array([3, -1]), "-1: expected an integer from 0"),
        ([np.int64(3), np.int64(-1)], r"np.int64\(-1\): expected an integer from 0"),
        ([1.5], "1.5: expected an integer"),
        (np.array([1.5]), "1.5.*: expected an integer"),
        (pa.array([1.5]), "1.5: expected an integer"),
        ([1, True], "True: expected an integer"),
        (np.array([True]), "True.*: expected an integer"),
        (np.array([[1]]), r"array\(\[1\]\): expected an integer"),
        (pa.array([1, None]), "None: expected an integer"),
        ("1", "'1': expected an integer"),
        ([None], "None: expected an integer"),
        ([1 << 64], "row ids:"),
        ([(1 << 64) - 1], "stands for no row"),
        (7, "row ids:"),
    ]
    for row_ids, message in refused:
        with pytest.raises(alance.InvalidInputError, match=message):
            with_row_ids(fragment, row_ids)
    with pytest.raises(alance.InvalidInputError, match="has no stable row ids"):
        row_ids_of(fragment)
    fragment.external_row_ids.path = "x"
    with pytest.raises(alance.UnsupportedError, match="not in the manifest"):
        row_ids_of(fragment)
