"""Operations that others have made, for `alance.commit`: none makes a table that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import alance
from alance import CorruptFileError, DatasetFragment, InvalidInputError, RetryableConflictError
from alance.distributed import create_data_file
from alance.operations import Append, DataReplacement, DataReplacementGroup, Overwrite

if TYPE_CHECKING:
    from pathlib import Path

    from alance import Dataset


async def table(path: Path) -> tuple[Dataset, Any]:
    """A table, and the record of a fragment that may be appended to it."""
    dataset = await alance.write_dataset({"id": [1, 2], "text": ["a", "b"]}, path)
    (fragment,) = await alance.write_fragments({"id": [3, 4], "text": ["c", "d"]}, dataset)
    return dataset, fragment


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"physical_rows": 1 << 63}, "Append: fragment of 9223372036854775808 rows"),
        ({"path": "../other.lance"}, "Append: data file '../other.lance': leaves the folder"),
        ({"fields": [0, 0]}, "Append: data file .*: a field twice"),
        ({"column_indices": [0]}, "Append: data file .*: 2 fields, 1 columns"),
        ({"base_id": 7}, "Append: DataFile .* is below base path 7, which is not there"),
    ],
)
async def test_a_version_that_could_not_be_read_is_not_made(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    dataset, fragment = await table(tmp_path / "t")
    for name, value in wrong.items():
        record = fragment if name == "physical_rows" else fragment.files[0]
        if isinstance(value, list):
            del getattr(record, name)[:]
            getattr(record, name).extend(value)
        else:
            setattr(record, name, value)
    with pytest.raises(InvalidInputError, match=message):
        await alance.commit(dataset, Append([fragment]))
    assert await (await alance.dataset(tmp_path / "t")).count_rows() == 2


async def test_a_schema_that_could_not_be_read_is_not_made(tmp_path: Path) -> None:
    dataset, _ = await table(tmp_path / "t")
    fields = tuple(dataset._snapshot.manifest.message.fields)
    with pytest.raises(InvalidInputError, match="Overwrite: field 'id': id 0 is used twice"):
        await alance.commit(dataset, Overwrite(fields * 2))
    assert await (await alance.dataset(tmp_path / "t")).count_rows() == 2


@pytest.mark.parametrize("wrong", [None, "Append", Append, 5])
async def test_what_is_no_operation_is_refused(tmp_path: Path, wrong: Any) -> None:
    dataset, _ = await table(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"expected one of alance\.operations"):
        await alance.commit(dataset, wrong)


async def test_what_operations_consist_of_is_told(tmp_path: Path) -> None:
    dataset, fragment = await table(tmp_path / "t")
    for wrong in ("abc", (None,), ("x",), {"a": 1}, 5):
        with pytest.raises(InvalidInputError, match="Append: "):
            await alance.commit(dataset, Append(wrong))  # type: ignore[arg-type]
    group = DataReplacementGroup("x", fragment.files[0])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="DataReplacement: "):
        await alance.commit(dataset, DataReplacement((group,)))
    appended = await alance.commit(dataset, Append([fragment]))  # type: ignore[arg-type]
    assert await appended.count_rows() == 4


async def test_records_of_files_are_asked_for_by_text_and_numbers(tmp_path: Path) -> None:
    dataset, fragment = await table(tmp_path / "t")
    path = fragment.files[0].path
    for wrong in (5, None, b"x"):
        with pytest.raises(InvalidInputError, match="expected a text"):
            await create_data_file(dataset, wrong)  # type: ignore[arg-type]
    for wrong in ("", "/x.lance", "../x.lance", "a/../../x.lance"):
        with pytest.raises(InvalidInputError, match="data file"):
            await create_data_file(dataset, wrong)
    for number in (-1, 1 << 32, "x", 1.5):
        with pytest.raises(InvalidInputError, match=r"fragment_id=.*: expected an integer"):
            await DatasetFragment.create_from_file(path, dataset, number)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="base_id='x': expected an integer"):
        await create_data_file(dataset, path, base_id="x")  # type: ignore[arg-type]
    with pytest.raises(CorruptFileError, match="base path 7 is not in the manifest"):
        await create_data_file(dataset, path, base_id=7)


async def test_deletes_of_a_fragment_of_unknown_length_run_again(tmp_path: Path) -> None:
    dataset, fragment = await table(tmp_path / "t")
    fragment.physical_rows = 0  # as old writers have left it
    before = await alance.commit(dataset, Append((fragment,)))
    await before.delete("id = 3")
    with pytest.raises(RetryableConflictError, match="run the operation again"):
        await before.delete("id = 4", max_retries=0)
    assert await (await before.delete("id = 4")).count_rows() == 2
