"""Mistakes of the first day: each error says what is wrong, where, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import alance.sync as alance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3], "price": [1.0, 2.0, 3.0], "title": ["a", "b", "c"]})
HTTP = {
    "aws_endpoint": "http://127.0.0.1:9",
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_region": "us-east-1",
}


@dataclass
class Place:
    """A folder with a table `items.lance`, and a file `notes.txt`."""

    folder: Path

    @property
    def uri(self) -> str:
        return str(self.folder / "items.lance")

    @property
    def dataset(self) -> Any:
        return alance.dataset(self.uri)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    alance.write_dataset(ROWS, tmp_path / "items.lance")
    (tmp_path / "notes.txt").write_text("no table")
    return Place(tmp_path)


def text_of(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


MISTAKES: dict[str, tuple[Callable[[Place], object], tuple[str, ...]]] = {
    "pandas column of two types": (
        lambda at: alance.write_dataset(pd.DataFrame({"x": [1, 2, "x"]}), at.folder / "new"),
        ("column 'x'", "row 2", "Could not convert 'x'"),
    ),
    "dict of two types": (
        lambda at: alance.write_dataset({"y": [1, 2, 3, "x"]}, at.folder / "new"),
        ("column 'y'", "row 3", "Could not convert 'x'"),
    ),
    "value beyond the schema's type": (
        lambda at: alance.write_dataset(
            [{"n": 1}, {"n": 300}], at.folder / "new", schema=pa.schema([("n", pa.int8())])
        ),
        ("column 'n'", "row 1", "300"),
    ),
    "arguments swapped": (
        lambda at: alance.write_dataset(at.uri, ROWS),
        ("uri: got Table", "do data and uri stand in each other's place?"),
    ),
    "a file": (lambda at: alance.dataset(at.folder / "notes.txt"), ("notes.txt", "it is a file")),
    "a path that is not there": (
        lambda at: alance.dataset(at.folder / "nothing"),
        ("nothing'", "no such folder"),
    ),
    "a folder of tables": (
        lambda at: alance.dataset(at.folder),
        ("folder of tables", "items.lance", "alance.connect"),
    ),
    "no table in a store without folders": (
        lambda at: alance.dataset("memory://messages/nothing"),
        ("there are no versions",),
    ),
    "endpoint without encryption": (
        lambda at: alance.dataset("s3://unencrypted/table", storage_options=HTTP),
        ("s3://unencrypted/table", "http://", "allow_http=true"),
    ),
    "text search without an index": (
        lambda at: at.dataset.search_text("a"),
        ("no column has an inverted index", "create_index('title', 'INVERTED')"),
    ),
    "update with a text for SQL": (
        lambda at: at.dataset.update({"title": "new title"}),
        ("column 'title'", "values are SQL", "'new text'", "params"),
    ),
    "update with a word for SQL": (
        lambda at: at.dataset.update({"title": "word"}),
        ("unknown column 'word'", "values are SQL"),
    ),
    "where instead of filter": (
        lambda at: at.dataset.to_table(where="id > 1"),
        ("'where'", "did you mean 'filter'?"),
    ),
    "search by words alone": (
        lambda at: at.dataset.search("x"),
        ("Dataset.search()", "'vector'"),
    ),
    "delete without a condition": (
        lambda at: at.dataset.delete(),
        ("Dataset.delete()", "'predicate'"),
    ),
    "a table below a file": (
        lambda at: alance.write_dataset(ROWS, at.folder / "notes.txt" / "table"),
        ("notes.txt' is a file", "a folder is needed"),
    ),
    "SQL on another name": (
        lambda at: at.dataset.sql("select * from items"),
        ("Table with name items does not exist", "this dataset is the table `dataset`"),
    ),
    "direction after the column": (
        lambda at: at.dataset.to_table(order_by=["price desc"]),
        ("order_by 'price desc'", "write the direction before the name: '-price'"),
    ),
    "number of a version as text": (
        lambda at: alance.dataset(at.uri, version="1"),
        ("no tag '1'", "the number of a version is an int: version=1"),
    ),
    "None in SQL": (
        lambda at: at.dataset.to_table(filter="id = None"),
        ("unknown column 'None'", "IS NULL"),
    ),
    "index of a frame": (
        lambda at: at.dataset.insert(
            pd.DataFrame({"id": [1], "price": [2.0], "title": ["x"]}, index=[7])
        ),
        ("'__index_level_0__'", "reset_index(drop=True)", "preserve_index=False"),
    ),
    "a column that nearly exists": (
        lambda at: at.dataset.to_table(columns=["prise"]),
        ("no field 'prise'", "did you mean 'price'?"),
    ),
    "a table without rows and schema": (
        lambda at: alance.connect(at.folder).create_table("new"),
        ("data: expected rows", "schema"),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_says_what_to_write(place: Place, mistake: str) -> None:
    act, parts = MISTAKES[mistake]
    with pytest.raises((alance.AlanceError, TypeError)) as caught:
        act(place)
    message = text_of(caught.value)
    assert [part for part in parts if part not in message] == [], message
    assert "secret" not in message


def test_a_damaged_manifest_names_the_command_that_repairs(place: Place) -> None:
    alance.dataset(place.uri).insert(ROWS)
    (latest,) = sorted((place.folder / "items.lance" / "_versions").iterdir())[:1]
    latest.write_bytes(latest.read_bytes()[:-4] + b"LOST")
    with pytest.raises(alance.CorruptFileError) as caught:
        alance.dataset(place.uri)
    message = text_of(caught.value)
    assert latest.name in message
    assert "alance repair" in message
    assert alance.repair(place.uri, dry_run=False).restored == 1
    assert alance.dataset(place.uri).count_rows() == 3


@pytest.mark.parametrize("columns", [["PRICE"], ["Price", "ID"]])
def test_columns_are_named_in_any_case_as_in_filters(place: Place, columns: list[str]) -> None:
    dataset = place.dataset
    names = [name.lower() for name in columns]
    assert dataset.to_table(columns, filter="Price > 1") == dataset.to_table(
        names, filter="price > 1"
    )
    assert dataset.take([2], columns).column_names == names
    assert dataset.to_table(columns, order_by=["-id"]).column_names == names


def test_columns_that_differ_in_case_alone_are_named_exactly(tmp_path: Path) -> None:
    dataset = alance.write_dataset(pa.table({"a": [1], "A": [2]}), tmp_path / "t")
    assert dataset.to_table(["A"]).to_pydict() == {"A": [2]}
    dataset = alance.write_dataset(pa.table({"ab": [1], "aB": [2]}), tmp_path / "u")
    with pytest.raises(alance.ColumnNotFoundError, match="no field 'AB', did you mean"):
        dataset.to_table(["AB"])
    with pytest.raises(alance.InvalidInputError, match="named twice"):
        place_of(tmp_path).to_table(["price", "PRICE"])


def place_of(folder: Path) -> Any:
    return alance.write_dataset(ROWS, folder / "prices")
