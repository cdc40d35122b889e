"""Habits of pandas, PyTorch and LanceDB: each error says what to write here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

import alance.sync as alance

if TYPE_CHECKING:
    from pathlib import Path

ATTRIBUTES: Final = [
    ("iloc", "write take(positions)"),
    ("dtypes", "write schema.types"),
    ("reload", "write checkout_latest()"),
    ("to_parquet", "pyarrow.parquet.write_table"),
    ("rename_columns", 'write alter_columns({"path": name, "name": new_name})'),
    ("train_test_split", "alance.torch"),
    ("vacuum", "write cleanup_old_versions()"),
]


@pytest.mark.parametrize(("name", "hint"), ATTRIBUTES)
def test_an_attribute_of_others_names_ours(tmp_path: Path, name: str, hint: str) -> None:
    dataset = alance.write_dataset({"id": [1, 2]}, tmp_path / "t")
    with pytest.raises(AttributeError) as caught:
        getattr(dataset, name)
    assert hint in str(caught.value)


def test_an_age_that_is_no_timedelta_is_shown_as_one(tmp_path: Path) -> None:
    dataset = alance.write_dataset({"id": [1, 2]}, tmp_path / "t")
    with pytest.raises(alance.InvalidInputError, match=r"such as timedelta\(days=7\)"):
        dataset.cleanup_old_versions(older_than=7)  # type: ignore[arg-type]


def test_an_alteration_without_a_path_shows_a_whole_one(tmp_path: Path) -> None:
    dataset = alance.write_dataset({"id": [1, 2]}, tmp_path / "t")
    with pytest.raises(alance.InvalidInputError, match=r"such as .'path': 'a', 'name': 'b'"):
        dataset.alter_columns({"name": "key"})


def test_names_of_arguments_of_others_have_a_counterpart(tmp_path: Path) -> None:
    dataset = alance.write_dataset({"id": [1, 2]}, tmp_path / "t")
    with pytest.raises(TypeError, match="did you mean 'seed'"):
        dataset.sample(1, random_state=7)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'version'"):
        alance.dataset(tmp_path / "t", tag="gold")  # type: ignore[call-arg]
