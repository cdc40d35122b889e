"""Errors for missing things: the class, an attribute and the text say which is missing."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import alance
from alance import errors
from tests.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from alance.testing.lab import Lab


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    rows = [{"id": n, "s": {"x": n}, "v": [0.5]} for n in range(10)]
    dataset = await alance.write_dataset(rows, str(tmp_path / "t"))
    return await dataset.delete("id = 3")


@pytest.mark.parametrize("place", ["t2", "no/such/folder"])
async def test_a_missing_table_is_named_by_its_error(tmp_path: Path, place: str) -> None:
    uri = str(tmp_path / place)
    each: list[dict[str, Any]] = [{}, {"version": 3}, {"version": "tag"}, {"asof": "2026-01-01"}]
    for options in each:
        with pytest.raises(alance.TableNotFoundError, match=re.escape(uri)) as caught:
            await alance.dataset(uri, **options)
        assert caught.value.uri == uri
        assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(alance.TableNotFoundError):
        await alance.drop(uri)


@pytest.mark.parametrize("version", [9, "tag", ("dev", None), "a..b"])
async def test_a_missing_version_is_named_by_its_error(
    dataset: alance.Dataset, version: Any
) -> None:
    name = version[0] if isinstance(version, tuple) else version
    with pytest.raises(alance.VersionNotFoundError, match=re.escape(str(name))) as caught:
        await dataset.checkout_version(version)
    assert caught.value.version == name
    if not isinstance(version, tuple):
        with pytest.raises(alance.VersionNotFoundError):
            await alance.dataset(dataset.uri, version=version)


async def test_missing_tags_and_branches_are_named_by_their_errors(dataset: alance.Dataset) -> None:
    for attempt in (dataset.tags.delete("t"), dataset.tags.get_version("t")):
        with pytest.raises(alance.VersionNotFoundError, match="no tag 't'"):
            await attempt
    with pytest.raises(alance.VersionNotFoundError, match="no branch 'dev'") as caught:
        await dataset.branches.delete("dev")
    assert caught.value.version == "dev"
    with pytest.raises(alance.VersionNotFoundError, match="no version 77") as caught:
        await dataset.tags.create("t", 77)
    assert caught.value.version == 77
    with pytest.raises(alance.VersionNotFoundError, match="no version from before 1999"):
        await alance.dataset(dataset.uri, asof="1999-01-01")


@pytest.mark.parametrize("stable_row_ids", [False, True])
async def test_missing_rows_are_named_by_their_error(tmp_path: Path, stable_row_ids: bool) -> None:
    rows = {"id": list(range(10))}
    dataset = await alance.write_dataset(
        rows, str(tmp_path / "t"), stable_row_ids=stable_row_ids, max_rows_per_file=5
    )
    dataset = await dataset.delete("id = 3")
    absent = [3, 99] if stable_row_ids else [3]
    with pytest.raises(alance.RowNotFoundError, match="3") as caught:
        await dataset.take_rows([0, *absent, 2])
    assert list(caught.value.keys) == absent
    for address in (3, 1 << 32 | 7, 9 << 32, 8 << 32 | 1):
        with pytest.raises(alance.RowNotFoundError) as caught:
            await dataset.take_addresses([0, address])
        assert list(caught.value.keys) == [address]
    with pytest.raises(alance.RowNotFoundError) as caught:
        await dataset.get_many([1, 3, 77], "id")
    assert list(caught.value.keys) == [3, 77]


@pytest.mark.parametrize("name", ["nope", "s.y", "id.x"])
async def test_a_missing_column_is_named_by_its_error(dataset: alance.Dataset, name: str) -> None:
    steps: dict[str, Any] = {
        "take": lambda: dataset.take([1], [name]),
        "scan": lambda: dataset.to_table([name]),
        "filter": lambda: dataset.count_rows(f"{name} = 1"),
        "params": lambda: dataset.count_rows(f"{name} = ?", params=[1]),
        "computed": lambda: dataset.to_table({"a": f"{name} + 1"}),
        "delete": lambda: dataset.delete(f"{name} = 1"),
        "update": lambda: dataset.update({"id": f"{name} + 1"}),
        "key": lambda: dataset.get(1, name),
        "index": lambda: dataset.create_scalar_index(name, "BTREE"),
        "drop": lambda: dataset.drop_columns([name]),
        "search": lambda: dataset.nearest(name, [0.5]),
    }
    for step, attempt in steps.items():
        with pytest.raises(alance.ColumnNotFoundError, match=name[-1]) as caught:
            await attempt()
        assert caught.value.column == name, step
        assert isinstance(caught.value, alance.InvalidInputError)


async def test_a_column_of_an_expression(dataset: alance.Dataset) -> None:
    for field, name in ((pc.field("nope"), "nope"), (pc.field("s", "y"), "s.y")):
        with pytest.raises(alance.ColumnNotFoundError) as caught:
            await dataset.count_rows(field == 1)
        assert caught.value.column == name


@pytest.fixture
async def session() -> AsyncIterator[alance.Session]:
    async with alance.Session() as session:
        yield session


async def test_a_missing_bucket_is_named_by_its_error(lab: Lab, session: alance.Session) -> None:
    uri, options = "s3://no-such-bucket/t", lab.lance_options()
    for version in (None, 1, "tag"):
        with pytest.raises(alance.BucketNotFoundError, match="no-such-bucket") as caught:
            await alance.dataset(uri, version=version, storage_options=options, session=session)
        assert caught.value.bucket == "s3://no-such-bucket"
    with pytest.raises(alance.BucketNotFoundError):
        await alance.write_dataset({"a": [1]}, uri, storage_options=options, session=session)
    with pytest.raises(alance.TableNotFoundError) as other:
        await alance.dataset("s3://lab/none", storage_options=options, session=session)
    assert other.value.uri == "s3://lab/none"


@pytest.mark.parametrize(
    "error",
    [
        errors.TableNotFoundError("no", "a/b"),
        errors.VersionNotFoundError("no", 7),
        errors.BucketNotFoundError("no", "s3://b"),
        errors.RowNotFoundError("no", [1, 2]),
        errors.ColumnNotFoundError("no", "c"),
        errors.StoreError("no", retryable=True, status=503),
    ],
)
def test_errors_can_be_pickled(error: errors.AlanceError) -> None:
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is type(error)
        assert str(copied) == str(error) == "no"
        assert vars(copied) == vars(error)


def test_the_page_has_the_status_of_each_class() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    table = page[page.index("## Errors") : page.index("## Out of the box")]
    named = set(re.findall(r"`(\w+Error)`", table))
    classes = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.AlanceError)
    }
    assert named == classes - {"ForkedError", "AlanceError"}
    assert classes <= set(alance.__all__)
