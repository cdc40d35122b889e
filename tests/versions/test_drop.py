"""Tables deleted with all that is in their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance.errors import InvalidInputError, NotFoundError
from alance.ops.upkeep import place
from tests.versions.conftest import numbers, rows_by_pylance

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab


def exists(path: str) -> bool:
    from pathlib import Path

    return Path(path).exists()


async def test_a_table_with_branches_and_tags(table: str, tmp_path: Path) -> None:
    dataset = await alance.dataset(table)
    await dataset.tags.create("t")
    await (await dataset.create_branch("dev")).insert(numbers(0, 3))
    beside = str(tmp_path / "t.lance2")
    lance.write_dataset(numbers(0, 2), beside)
    await alance.drop(table)
    assert not exists(table)
    with pytest.raises(NotFoundError):
        await alance.dataset(table)
    assert rows_by_pylance(beside) == [0, 1]
    with pytest.raises(NotFoundError):
        await alance.drop(table)
    await alance.drop(table, ignore_missing=True)
    written = await alance.write_dataset(numbers(0, 1), table)
    assert (written.version, await written.tags.list()) == (1, {})


async def test_what_is_no_table(table: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "f.txt").write_text("precious")
    for path in (folder, tmp_path):
        for ignore in (False, True):
            with pytest.raises(InvalidInputError, match="is no table"):
                await alance.drop(path, ignore_missing=ignore)
    with pytest.raises(InvalidInputError, match="whole store"):
        await alance.drop("memory://store/")
    lance.dataset(table).create_branch("dev")
    with pytest.raises(InvalidInputError, match="branch 'dev'"):
        await alance.drop(f"{table}/tree/dev")
    assert (folder / "f.txt").read_text() == "precious"
    assert len(rows_by_pylance(table)) == 14


async def test_on_a_server(lab: Lab) -> None:
    options = lab.lance_options()
    lance.write_dataset(numbers(0, 5), "s3://lab/dropped", storage_options=options)
    lance.write_dataset(numbers(0, 5), "s3://lab/kept", storage_options=options)
    with lab.recording() as recording:
        await alance.drop("s3://lab/dropped", storage_options=options)
    assert len(recording.records) <= 8
    with pytest.raises(NotFoundError):
        await alance.dataset("s3://lab/dropped", storage_options=options)
    assert await (await alance.dataset("s3://lab/kept", storage_options=options)).count_rows() == 5


async def test_made_again_by_others(table: str) -> None:
    dataset = await alance.dataset(table)
    await dataset.insert(numbers(20, 21))
    lance.LanceDataset.drop(table)
    lance.write_dataset(numbers(0, 2), table)
    lance.dataset(table).insert(numbers(2, 3))
    lance.dataset(table).insert(numbers(3, 4))
    again = await (await alance.dataset(table)).insert(numbers(4, 5))
    assert again.version == 4
    assert rows_by_pylance(table) == list(range(5))


async def test_made_again_and_written(table: str) -> None:
    dataset = await alance.dataset(table)
    await (await dataset.insert(numbers(20, 21))).insert(numbers(21, 22))
    await alance.drop(table)
    first = await alance.write_dataset(numbers(0, 1), table)
    assert (await first.insert(numbers(1, 2))).version == 2
    appended = await alance.write_dataset(numbers(2, 3), table, mode="append")
    assert appended.version == 3
    assert rows_by_pylance(table) == [0, 1, 2]


async def test_a_drop_takes_what_writers_add_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await alance.write_dataset(numbers(0, 3), tmp_path / "t")
    delete, rounds = place._delete_all, 0

    async def beside(*arguments: Any) -> bool:
        nonlocal rounds
        has_any = await delete(*arguments)
        rounds += 1
        if rounds == 1:
            (tmp_path / "t" / "data" / "late.lance").write_bytes(b"late")
        return has_any

    monkeypatch.setattr(place, "_delete_all", beside)
    await alance.drop(tmp_path / "t")
    assert (rounds, (tmp_path / "t").exists()) == (3, False)
