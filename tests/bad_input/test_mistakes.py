"""Mistakes of a first week: each error names what is wrong, where, and what to write instead.

Rows are a call and the parts that its message must have. No mistake changes the shared table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow.compute as pc
import pytest

import alance.sync as alance
from tests.bad_input.mistakes import PRIVATE, ROWS, Place, check, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[Any], object]

OPENING: Final = [
    (lambda at: at.api.dataset(None), "uri: got NoneType", "expected text or a path"),
    (lambda at: at.api.dataset(at.table), "uri: got Dataset", "expected text or a path"),
    (lambda at: at.api.dataset(at.uri, version=99), "no version 99", "the latest version is 3"),
    (lambda at: at.api.dataset(at.uri, version="golf"), "no tag 'golf'", "mean 'gold'?"),
    (lambda at: at.api.dataset(at.uri, version=1.5), "version 1.5", "expected a number"),
    (lambda at: at.api.dataset(at.uri, ver=1), "dataset(): unexpected", "'ver'", "mean 'version'?"),
    (lambda at: at.api.dataset(at.uri, asof="yesterday"), "asof='yesterday'", "ISO 8601"),
    (lambda at: at.api.dataset(at.uri, session="x"), "session: got str", "an alance.Session"),
    (lambda at: at.api.dataset(at.uri, store="x"), "store: ", "a store of obstore"),
    (lambda at: at.api.dataset("s4://bucket/t"), "scheme 's4'", "expected one of s3,"),
    (lambda at: at.api.dataset("file://items"), "uri 'file://items'", "expected file:///"),
    (lambda at: at.api.dataset(f"s3://key:{PRIVATE}@b/t"), "uri 's3://…'", "expected a bucket"),
    (lambda at: at.api.drop(at.folder / "none"), "none'", "no such folder"),
    (lambda at: at.api.drop(at.folder / "notes.txt"), "notes.txt'", "it is a file"),
    (lambda at: at.api.connect(5), "connect: expected a URI", "found int"),
    (lambda at: at.api.connect(at.folder, api_key=PRIVATE), "connect()", "'api_key'"),
    (lambda at: at.api.Dataset(at.uri), "Dataset()", "write alance.dataset(uri)"),
    (lambda at: at.api.FileReader(at.uri), "FileReader()", "write FileReader.open(uri)"),
    (lambda at: at.api.open, "no attribute 'open'", "mean 'dataset'?"),
    (lambda at: at.api.write, "no attribute 'write'", "mean 'write_dataset'?"),
    (lambda at: at.api.LanceDataset, "'LanceDataset'", "mean 'dataset'?"),
]
STORAGE: Final = [
    ({"aws_access_key": PRIVATE}, "option 'aws_access_key'", "s3 stores", "'access_key_id'"),
    ({"aws_regoin": "us"}, "option 'aws_regoin' is not known", "mean 'region'?"),
    ({"timeout": "5 parsecs"}, "storage options (timeout)", "Duration"),
    ({"access_key_id": PRIVATE}, "storage options (access_key_id)", "Missing SecretAccessKey"),
    (f"key={PRIVATE}", "storage_options: got str", "{'region': 'us-east-1'}"),
    ([("key", PRIVATE)], "storage_options: got list", "expected a mapping"),
    ({5: "x"}, "storage option 5", "expected a text as key"),
]
WRITING: Final = [
    (lambda at: at.api.write_dataset(None, at.new), "data of type NoneType", "a list of dicts"),
    (lambda at: at.api.write_dataset("a.csv", at.new), "data of type str", "read the file first"),
    (lambda at: at.api.write_dataset(at.new, at.new), "Path", "read the file first"),
    (lambda at: at.api.write_dataset([1], at.new), "data: an iterable of int", "RecordBatches"),
    (lambda at: at.api.write_dataset([], at.new), "no batches", "needs `schema`"),
    (lambda at: at.api.write_dataset({"a": [1], "b": []}, at.new), "a dict of columns"),
    (lambda at: at.api.write_dataset([{"a": 1}, "x"], at.new), "rows with str", "expected dicts"),
    (lambda at: at.api.write_dataset(ROWS, at.uri), "exists already", "'append' or 'overwrite'"),
    (lambda at: at.api.write_dataset(ROWS, at.new, mode="Append"), "mode='Append'", "n 'append'?"),
    (lambda at: at.api.write_dataset(ROWS, at.new, mode="write"), "mode='write'", "'overwrite'?"),
    (
        lambda at: at.api.write_dataset(ROWS, at.new, max_rows_per_file=0),
        "max_rows_per_file=0: expected a positive integer",
    ),
    (
        lambda at: at.api.write_dataset(ROWS, at.new, max_rows_per_group=100),
        "write_dataset(): unexpected keyword argument 'max_rows_per_group'",
        "did you mean 'max_rows_per_file'?",
    ),
    (lambda at: at.api.write_dataset(ROWS, at.new, storage_option={}), "'storage_options'"),
    (
        lambda at: at.api.write_dataset(ROWS, at.new, data_storage_version="9.9"),
        "file version '9.9'",
        "expected one of 0.1, 2.0, 2.1,",
    ),
    (lambda at: at.api.write_dataset(ROWS, at.new, progress=5), "progress=5", "a function"),
    (lambda at: at.api.write_dataset({"x": [2**70]}, at.new), "'x', row 0", "expected int64"),
    (lambda at: at.api.write_dataset({"x": [1j]}, at.new), "column 'x', row 0", "complex"),
    (lambda at: at.api.write_dataset({"x": [{"a": 1}, 5]}, at.new), "column 'x', row 1"),
    (
        lambda at: at.api.write_dataset(pd.DataFrame([[1, 2]], columns=["a", "a"]), at.new),
        "column 'a': the data has it twice",
    ),
    (lambda at: at.insert(idd=1), "column 'idd'", "mean 'id'?"),
    (lambda at: at.insert(other=1), "column 'other'", "id, price, title"),
    (lambda at: at.insert(id="x"), "column 'id', row 0", "'x'", "int64"),
    (lambda at: at.insert(id=2**65), "column 'id', row 0", "out of range, expected int64"),
    (lambda at: at.insert(id=1, vector=[1.0]), "column 'vector', row 0", "expected 8", "size 1"),
    (lambda at: at.insert(id=1, day="tomorrow"), "column 'day', row 0", "a Python date or time"),
    (lambda at: at.insert(id=1, point=5), "column 'point', row 0", "was not a dict"),
    (lambda at: at.table.insert(ROWS, mode="create"), "mode='create'", "append, overwrite"),
    (
        lambda at: at.table.insert(pd.DataFrame({"id": [1], "price": ["abc"]})),
        "column 'price': the data has string, the table double",
        "'abc'",
    ),
    (lambda at: at.table.append(ROWS), "no attribute 'append'", "write insert(data)"),
    (lambda at: at.table.add(ROWS), "no attribute 'add'", "`insert`", "docs/from-lancedb.md"),
    (lambda at: at.api.blob_array(5), "values: got int", "a list of bytes, URIs"),
    (lambda at: at.api.blob_field(5), "name 5", "expected text"),
    (lambda at: at.api.BlobOptions(inline=5), "BlobOptions(): unexpected", "'inline'"),
]
READING: Final = [
    (lambda t: t.to_table("id"), "columns='id'", "write columns=['id']"),
    (lambda t: t.to_table(5), "columns=5", "a list of names"),
    (lambda t: t.to_table([5]), "column 5", "expected a name"),
    (lambda t: t.to_table(["pirce"]), "no field 'pirce'", "mean 'price'?"),
    (lambda t: t.to_table(["point.z"]), "no field 'z' in 'point'", "there are x, y"),
    (lambda t: t.to_table(["*"]), "no field '*'", "all columns are columns=None"),
    (lambda t: t.to_table(["price * 2"]), "column 'price * 2'", "{'name': 'price * 2'}"),
    (lambda t: t.to_table({"p": "prise * 2"}), "column 1", "mean 'price'?", "in column 'p'"),
    (lambda t: t.to_table({"p": 5}), "expected SQL text", "in column 'p'"),
    (lambda t: t.to_table(["id", "id"]), "column 'id' is named twice"),
    (lambda t: t.to_table(limit=-1), "limit=-1: expected an integer of at least 0"),
    (lambda t: t.to_table(limit="10"), "limit='10': expected an integer"),
    (lambda t: t.to_table(batch_size=0), "batch_size=0: expected a positive integer"),
    (lambda t: t.to_table(order_by="id"), "order_by='id'", "write order_by=['id']"),
    (lambda t: t.to_table(order_by=[("id", "desc")]), "order_by: ('id', 'desc')", "'-price'"),
    (lambda t: t.to_table(order_by=["pirce"]), "order_by 'pirce'", "mean 'price'?"),
    (lambda t: t.to_table(with_rowid=True), "Dataset.to_table()", "'with_row_id'"),
    (lambda t: t.to_table(fragments=[99]), "fragments [99]", "which has [0]"),
    (lambda t: t.to_table(fragments=99), "fragments: got int", "a list of the ids"),
    (lambda t: t.to_table(blob_handling="x"), "blob_handling='x'", "all_binary"),
    (lambda t: t.to_table(filter=[("id", "=", 1)]), "filter: expected SQL text", "found list"),
    (lambda t: t.to_table(filter=pc.field("idd") > 1), "column 'idd'", "mean 'id'?"),
    (lambda t: t.scanner(colums=["id"]), "Dataset.scanner()", "'colums'", "mean 'columns'?"),
    (lambda t: t.to_polars(filtr="id"), "Dataset.to_polars()", "'filter'"),
    (lambda t: t.count_rows("idd > 1"), "unknown column 'idd'", "mean 'id'?"),
    (lambda t: t.head(rows=3), "Dataset.head()", "mean 'num_rows'?"),
    (lambda t: t.head("5"), "limit='5': expected an integer"),
    (lambda t: t.take([999]), "index 999: the dataset has 16 rows"),
    (lambda t: t.take([1.5]), "indices: expected integers", "float64"),
    (lambda t: t.take([0], ["idd"]), "no field 'idd'", "mean 'id'?"),
    (lambda t: t.take_rows([1 << 40]), "fragment 256: not in version 3"),
    (lambda t: t.sample(100), "sample of 100 rows: the dataset has 16"),
    (lambda t: t.sample("a"), "num_rows: got str, expected an integer"),
    (lambda t: t.get(5), "no key column: name it by `column`"),
    (lambda t: t.get("x", "id"), "key of column 'id' (int64)", "found large_string"),
    (lambda t: t.get_many(5, "id"), "keys: expected several, found int"),
    (lambda t: t.get_many([1], "id", missing="explode"), "missing='explode'", "error, skip, null"),
    (lambda t: t.get_many([99], "id", missing="error"), "no row with id = 99"),
    (lambda t: t.aggregate("count(*)"), "aggregates='count(*)'", "{'total': 'sum(price)'}"),
    (lambda t: t.aggregate({"n": "summ(id)"}), "'summ(id)'", "count, min, max, sum, avg"),
    (lambda t: t.aggregate({"n": "sum(title)"}), "'n': string has no sum"),
    (lambda t: t.aggregate({"n": "count(*)"}, "title"), "group_by='title'", "group_by=['title']"),
    (
        lambda t: t.take_blobs("title", indices=[0]),
        "column 'title' is no blob",
        "blob_field('title",
    ),
    (lambda t: t.take_blobs("title", ids=[0]), "Dataset.take_blobs(): unexpected", "'ids'"),
    (lambda t: t.take_blobs("title", [0]), "Dataset.take_blobs()", "column, indices, row_ids"),
    (lambda t: t.fragment(99), "fragment 99: not in version 3"),
    (lambda t: t.sql(5), "sql: int, expected a text"),
    (lambda t: t.sql("select pirce from dataset"), '"pirce"', '"price"'),
    (lambda t: t.column_names, "'column_names'", "write schema.names"),
    (lambda t: t.num_rows, "'num_rows'", "write count_rows()"),
    (lambda t: t.select(["id"]), "'select'", "write to_table(columns=)"),
    (lambda t: t.limit(5), "'limit'", "write to_table(limit=)"),
    (lambda t: t.to_list(), "'to_list'", "to_table().to_pylist()"),
    (lambda t: t.version_list(), "'version_list'", "mean 'versions'"),
    (lambda t: t.scanner().limit(5), "'Scanner'", "write `scanner(limit=)`"),
    (lambda t: t.scanner().to_tabel(), "'Scanner'", "mean 'to_table'"),
]
FILTERS: Final = [
    ("id >", "filter, line 1, column 4", "an operand is missing"),
    ("id = 1 && price > 2", "column 8", "'&&'", "write AND"),
    ("id = 1 order by id", "near 'order by'", "the argument order_by"),
    ("id = 1 limit 3", "near 'limit'", "the argument limit"),
    ("where id = 1", "near 'where'", "without SELECT, FROM and WHERE"),
    ("select * from t", "near 'select'", "without SELECT, FROM and WHERE"),
    ("id > 'x'", "int64 > string", "write the number without quotes"),
    ("title > 5", "string > int64", "write the text in single quotes"),
    ("day > 2024-01-01", "date32[day] > int64", "'2024-12-31'"),
    ("day > '2024'", "not a date or timestamp: '2024'", "expected 'YYYY-MM-DD"),
    ("day > now() - interval 1 day", "Interval is not supported", "by `params`"),
    ("title", "column 1: expected a condition, found string"),
    ("", "filter: expected an expression, found nothing"),
    ("lenght(title) > 3", "unknown function 'lenght'", "mean 'length'"),
    ("length(id) > 3", "length: expected text, found int64"),
    ("length(title, 3) > 3", "length: 2 arguments, expected 1"),
    ("array_has(tag, 'a')", "column 11: unknown column 'tag'", "mean 'tags'?"),
    ("tags = 'a'", "list<item: string> = string"),
    ("point.z = 1", "unknown field 'point.z'"),
    ("title ~ 'a'", "near '~'", "regexp_like(column, 'pattern')"),
    ("title contains 'a'", "near 'contains'", "contains(column, 'text')"),
    ("regexp_like(title, '(')", "regexp_like: Invalid regular expression"),
    ("count(*) > 3", "Star is not supported", "`aggregate`"),
    ("id = (select max(id) from t)", "Subquery is not supported", "`Dataset.sql`"),
    ("cast(title as intt) = 1", "column 6: unknown type 'intt'", "mean 'int'"),
    ("id in 1", "IN: expected a list of values"),
    ("id is none", "IS: expected NULL, TRUE or FALSE"),
    ("title = 'open", "line 1, column 8 and not closed", "expected '"),
    ("id = :x", "column 6: no value in params for :x"),
    ("id = ?", "params: 0 values, the filter has 1 ?"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("mistakes"))


@pytest.mark.parametrize(("act", "parts"), rows_of(OPENING))
def test_errors_of_opening_say_what_to_write(place: Place, act: Act, parts: list[str]) -> None:
    check(lambda: act(place), parts)


@pytest.mark.parametrize(("options", "parts"), rows_of(STORAGE))
def test_errors_of_storage_options_name_the_option(options: Any, parts: list[str]) -> None:
    check(lambda: alance.dataset("s3://bucket/t", storage_options=options), parts)


@pytest.mark.parametrize(("act", "parts"), rows_of(WRITING))
def test_errors_of_writing_name_column_and_row(place: Place, act: Act, parts: list[str]) -> None:
    check(lambda: act(place), parts)
    assert not place.new.exists()


@pytest.mark.parametrize(("act", "parts"), rows_of(READING))
def test_errors_of_reading_name_the_argument(place: Place, act: Act, parts: list[str]) -> None:
    check(lambda: act(place.table), parts)


@pytest.mark.parametrize(("text", "parts"), rows_of(FILTERS))
def test_errors_of_filters_have_a_position(place: Place, text: str, parts: list[str]) -> None:
    check(lambda: place.table.to_table(filter=text), parts)
