"""Deletes, the same as pylance's: messages, rows, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.errors import InvalidInputError
from tests.changing.both_ways import KINDS, Twins, files_of, latest, read

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=KINDS)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    return Twins.make(tmp_path, **request.param)


async def test_one_after_the_other(twins: Twins) -> None:
    assert await twins.change("delete", "id in (1, 7, 8)") == {"num_deleted_rows": 3}
    assert await twins.change("delete", "id between 5 and 9") == {"num_deleted_rows": 3}
    assert await twins.change("delete", "s is null and n.a > 10") == {"num_deleted_rows": 3}
    assert await twins.change("delete", "id = 100") == {"num_deleted_rows": 0}
    assert await twins.change("delete", "s = null") == {"num_deleted_rows": 0}
    assert await twins.change("delete", "_rowid = 0") == {"num_deleted_rows": 1}
    assert await twins.change("delete", "true") == {"num_deleted_rows": 10}
    assert await twins.change("delete", "true") == {"num_deleted_rows": 0}
    assert latest(twins.ours).version == 9


async def test_deletes_by_turns_see_each_other(twins: Twins) -> None:
    """Each goes on from what the other left."""
    ours = await alance.dataset(str(twins.ours))
    ours = await ours.delete("id in (0, 6)", message="first", properties={"who": "us"})
    assert ours.version == 2
    theirs = lance.dataset(str(twins.ours))
    theirs.delete("id in (1, 7)")
    theirs.insert(pa.Table.from_pylist([{"id": 50}], theirs.schema))
    ours = await (await alance.dataset(str(twins.ours))).delete("id in (2, 8, 50)")
    theirs = lance.dataset(str(twins.ours))
    theirs.validate()
    gone = {0, 6, 1, 7, 2, 8}
    assert theirs.to_table()["id"].to_pylist() == [n for n in range(20) if n not in gone]
    assert theirs.count_rows() == 14
    theirs.optimize.compact_files()
    assert (await alance.dataset(str(twins.ours))).version == lance.dataset(str(twins.ours)).version
    assert theirs.get_transactions(10)[-2].transaction_properties["who"] == "us"


@pytest.mark.parametrize(
    "predicate", [pc.field("id") == 4, pc.scalar(True), pc.is_null(pc.field("s")), pc.scalar(False)]
)
async def test_a_pyarrow_expression_deletes_the_rows_that_pylance_deletes(
    tmp_path: Path, predicate: pc.Expression
) -> None:
    twins = Twins.make(tmp_path)
    dataset = lance.dataset(str(twins.theirs)).delete(predicate)
    deleted = await (await alance.dataset(str(twins.ours))).delete(predicate)
    assert deleted.summary == dataset
    assert read(twins.ours).equals(read(twins.theirs))


@pytest.mark.parametrize("counts", [(4999, 5000, 5001), (5000, 5001), (9, 4000, 20_000)], ids=str)
async def test_the_form_of_the_file(tmp_path: Path, counts: tuple[int, ...]) -> None:
    twins = Twins.make(tmp_path, pa.table({"id": np.arange(60_000)}), max_rows_per_file=30_000)
    for count in counts:
        await twins.change("delete", f"id < {count}")
    await twins.change("delete", "id % 2 = 0")
    kinds = {path.name.rpartition(".")[2] for path in (twins.ours / "_deletions").iterdir()}
    assert kinds == ({"bin"} if counts[0] == 5000 else {"arrow", "bin"})


WRONG = ["zz = 1", "v", "id = 1 and", "", "id = 'x'", None, 3, "random() < 0.5"]


@pytest.mark.parametrize("predicate", WRONG, ids=str)
async def test_a_bad_predicate_leaves_the_table_as_it_was(tmp_path: Path, predicate: Any) -> None:
    twins = Twins.make(tmp_path)
    before = files_of(twins.ours)
    dataset = await alance.dataset(str(twins.ours))
    with pytest.raises((InvalidInputError, alance.errors.UnsupportedError)):
        await dataset.delete(predicate)
    assert files_of(twins.ours) == before


async def test_values_that_the_predicate_cannot_take(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    before = files_of(twins.ours)
    dataset = await alance.dataset(str(twins.ours))
    with pytest.raises(InvalidInputError, match="divide"):
        await dataset.delete("10 / (id - 7) > 1")
    assert files_of(twins.ours) == before


async def test_indices_stay_right_after_deletes(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    lance.dataset(str(twins.theirs)).create_scalar_index("id", "BTREE")
    twins.again()
    await twins.change("delete", "id in (3, 5, 6, 7, 8, 9)")
    theirs = lance.dataset(str(twins.ours))
    assert theirs.to_table(filter="id in (3, 4, 9, 12)")["id"].to_pylist() == [4, 12]


async def test_on_a_branch(tmp_path: Path) -> None:
    twins = Twins.make(tmp_path)
    dataset = lance.dataset(str(twins.ours))
    dataset.create_branch("side", dataset.version)
    side = await (await alance.dataset(str(twins.ours))).checkout_branch("side")
    changed = await side.delete("id < 7")
    assert await changed.count_rows() == 13
    assert lance.dataset(str(twins.ours)).count_rows() == 20
    theirs = lance.dataset(str(twins.ours)).checkout_version(("side", None))
    assert theirs.to_table()["id"].to_pylist() == list(range(7, 20))
