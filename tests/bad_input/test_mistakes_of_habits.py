"""Habits of pandas, polars, LanceDB, pylance, pymongo, SQLAlchemy, DuckDB, s3fs and their commands.

As in `test_mistakes.py`: a call, and the parts that its message must have.
"""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pydantic
import pytest

import alance
from alance import sync
from alance.base.hints import _COUNTERPARTS, _MEMBERS
from alance.command import main
from alance.verbs.peer_names import OF_OTHERS
from tests.bad_input.mistakes import PRIVATE, ROWS, VECTOR, Place, check, check_command, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[Any], object]


class Model(pydantic.BaseModel):
    id: int


class ArrowModel(Model):
    @classmethod
    def to_arrow_schema(cls) -> pa.Schema:
        return pa.schema([("id", pa.int64())])


class Lazy:
    def collect(self) -> pa.Table:
        return ROWS


@dataclass
class Record:
    id: int


MARKER: Final = "is no parameter here: write ? or :name, with `params`"
FILTERS: Final = [
    ("id = $1", [1], "$1 is", MARKER),
    ("id = $x", {"x": 1}, "$x is", MARKER),
    ("id = %s", [1], "%s is", MARKER),
    ("id = %(x)s", {"x": 1}, "%(x)s is", MARKER),
    ("id = @x", {"x": 1}, "@x is", MARKER),
    ("id = {x}", {"x": 1}, "{x} is", MARKER),
    ("id = {}", [1], "{} is", MARKER),
    ("id = :1", [1], ":1 is", MARKER),
    ("id = ?1", [1], "?1 is", MARKER),
    ("id = #x", [1], "#x is", MARKER),
    ("day = 2024-01-01T00:00:00", None, "write a time as text: '2024-01-01T00:00:00'"),
    ("title.str.contains('a')", None, "write contains(column, 'text')"),
    ("title.startswith('a')", None, "write starts_with(column, 'text')"),
    ("id.isin([1])", None, "write column IN (1, 2)"),
    ("id = 1 | id = 2", None, "write OR"),
    ("(id = 1) & (id = 2)", None, "write AND"),
    ("price = NaN", None, "isnan(column)"),
    ("isnull(price)", None, "write column IS NULL"),
    ("notna(price)", None, "write column IS NOT NULL"),
    ("len(title) > 3", None, "write length(column)"),
    ({"id": 1}, None, "found dict; write 'id = :value', with `params`"),
    (lambda row: row["id"] > 1, None, "found function; a function is not called for rows"),
    (pl.col("id") > 1, None, "found Expr; write SQL, or `to_polars_lazy`"),
    (pd.Series([True]), None, "found Series; positions of a mask"),
]
ROWS_READ: Final = [
    (lambda t: t.take(3), "got int, expected a list; write [3]"),
    (lambda t: t.take("a"), "got str, expected a list; rows of a key are `get(key, column)`"),
    (lambda t: t.take(slice(0, 3)), "got slice, expected a list; write range(0, 3)"),
    (lambda t: t.take([True, False]), "`numpy.flatnonzero(mask)`"),
    (lambda t: t.take(["a"]), "`get_many(keys, column)`"),
    (lambda t: t.take([-1]), "-1 is negative; the last row is `count_rows() - 1`"),
    (lambda t: t.get("7", "id"), "column 'id' (int64)", "write 7 instead of '7'"),
    (lambda t: t.get(7, "title"), "column 'title' (string)", "write '7' instead of 7"),
    (lambda t: t.get([7], "id"), "column 'id' (int64)", "`get_many(keys, column)`"),
    (lambda t: t.get({"id": 7}), "key: got dict; write get(value, 'id')"),
    (lambda t: t.get(id=7), "Dataset.get()", "'id', did you mean 'key'?"),
    (lambda t: t.get_many(7, "id"), "found int; write [7], or get(7, column)"),
    (lambda t: t.head(n=3), "mean 'num_rows'?"),
    (lambda t: t.sample(n=3), "mean 'num_rows'?"),
    (lambda t: t.to_table(usecols=["id"]), "mean 'columns'?"),
    (lambda t: t.to_table(skip=2), "mean 'offset'?"),
    (lambda t: t.to_table(sort="id"), "mean 'order_by'?"),
    (lambda t: t.to_table(descending=True), "mean 'order_by'?"),
    (lambda t: t.to_table([pl.col("id")]), "expected a name", "{name: SQL}"),
    (lambda t: t.to_polars(lazy=True), "`to_polars_lazy()`"),
    (lambda t: t.to_pandas(index="id"), "`reset_index()`"),
    (lambda t: t.fragment("0"), "fragment '0': not in version"),
    (lambda t: t.aggregate({"id": "sum"}), "write 'sum(column)'"),
    (lambda t: t.aggregate({"n": ("id", "sum")}), "aggregate 'n': expected SQL text", "tuple"),
    (lambda t: t.aggregate({"n": "sum(id)"}, by=["id"]), "mean 'group_by'?"),
    (lambda t: t.aggregate({"n": "sum(id)"}, having="n"), "filter the table that is returned"),
    (lambda t: t.sql("insert into dataset values (1)"), "only reads: write insert(rows)"),
    (lambda t: t.sql("delete from dataset"), "only reads: write delete(predicate)"),
    (lambda t: t.sql("id > 1"), "begins with SELECT", "to_table(filter=)"),
    (lambda t: t.nearest(column="vector", q=VECTOR), "mean 'query'?"),
    (lambda t: t.nearest("vector", VECTOR, distance_type="l2"), "mean 'metric'?"),
    (lambda t: t.scanner().explain(verbose=True), "'verbose'; it has none"),
    (lambda t: t.checkout_version(dt.datetime(2024, 1, 1)), "`asof`, of alance.dataset"),
]
CHANGES: Final = [
    (lambda t: t.upsert({"id": 1}, on="id"), "column 'id': got int", "[row]"),
    (lambda t: t.insert({"title": "abc"}), "column 'title': got str", "[row]"),
    (lambda t: t.upsert([{"id": 1}], key="id"), "mean 'on'?"),
    (lambda t: t.merge(ROWS, on="id"), "mean 'left_on'?"),
    (lambda t: t.update(set={"title": "'x'"}), "mean 'updates'?"),
    (lambda t: t.delete(where="id = 1"), "mean 'predicate'?"),
    (lambda t: t.delete(filter="id = 1"), "mean 'predicate'?"),
    (lambda t: t.delete(True), "write 'true'"),
    (lambda t: t.insert(ROWS, mode="w"), "mean 'overwrite'?"),
    (lambda t: t.insert(ROWS, timeout=3), "alance.Session(timeout=)"),
    (lambda t: t.add_columns({"x": [1]}), "pa.table({'name': values})"),
    (lambda t: t.add_columns({"x": pd.Series([1])}), "pa.table({'name': values})"),
    (lambda t: t.add_columns({"x": lambda b: b}), "add_columns(function, read_columns=[...])"),
    (lambda t: t.add_columns(alance.batch_udf(lambda b: b)), "RecordBatch", "@batch_udf()"),
    (lambda t: t.create_index("IVF_PQ", "vector"), "create_index('vector', 'IVF_PQ')"),
    (lambda t: t.create_index(vector_column_name="vector"), "mean 'column'?"),
    (lambda t: t.cleanup_old_versions(days=7), "mean 'older_than'?"),
    (lambda t: t.update_config({"alance.maintenance.older_than": "7x"}), "='7x'", "like `14d`"),
    (lambda t: t.update_config({"alance.maintenance.oldr": "7d"}), "no such rule", "older_than"),
    (lambda t: t.update_config({"alance.maintenance.max_bytes": "x"}), "='x'", "an integer"),
    (lambda t: t.update_config({"alance.maintenance.ttl": "7d"}), "expected both or neither"),
    (lambda t: t.update_config({"lance.auto_cleanup.older_than": "7x"}), "='7x'", "like `14d`"),
    (lambda t: t.update_config({"lance.auto_cleanup.interval": "x"}), "='x'", "an integer"),
    (
        lambda t: t.update_config({"lance.compaction.target_rows_per_fragment": "x"}),
        "='x'",
        "an integer",
    ),
]
OPENING: Final = [
    (lambda at: at.api.dataset(at.folder / "items"), "did you mean", "items.lance'?"),
    (lambda at: at.api.dataset(at.folder / "itms"), "did you mean 'items'?"),
    (lambda at: at.api.dataset(f"{at.uri}@v1"), "alance.dataset(uri, version=)"),
    (lambda at: at.api.dataset(f"{at.uri}/data"), "inside of a table; open", "items.lance'"),
    (lambda at: at.api.dataset("~/none"), "os.path.expanduser(path)"),
    (lambda at: at.api.dataset(at.uri, timeout=5), "alance.Session(timeout=)"),
    (lambda at: at.api.dataset(at.uri, region="x"), "mean 'storage_options'?"),
    (lambda at: at.api.write_dataset(ROWS, path=at.new), "mean 'uri'?"),
    (lambda at: at.api.write_dataset(df=ROWS, uri=at.new), "mean 'data'?"),
    (lambda at: at.api.write_dataset(ROWS, at.new, overwrite=True), "mean 'mode'?"),
    (lambda at: at.api.write_dataset(ROWS, at.new, mode="replace"), "mean 'overwrite'?"),
    (lambda at: at.api.write_dataset(ROWS, at.new, partition_by="id"), "have no partitions"),
    (lambda at: at.api.write_dataset(ROWS, at.new, compression="zstd"), "lance-encoding:compr"),
    (lambda at: at.api.write_dataset({"id": 1}, at.new), "column 'id': got int", "[row]"),
    (lambda at: at.api.write_dataset({"id": pa.int64()}, at.new), "types are pyarrow.schema"),
    (lambda at: at.api.write_dataset(Lazy(), at.new), "`data.collect()`"),
    (lambda at: at.api.write_dataset(np.zeros((2, 2)), at.new), "write {'name': array}"),
    (lambda at: at.api.write_dataset(pd.Series([1]), at.new), "write {'name': array}"),
    (lambda at: at.api.write_dataset([(1, 2)], at.new), "[dict(zip(names, row)) for row in"),
    (lambda at: at.api.write_dataset([Record(1)], at.new), "dataclasses.asdict(row)"),
    (lambda at: at.api.write_dataset(ROWS, at.new, schema=Model), "leave `schema` out"),
    (lambda at: at.catalog.create_table("m", schema=ArrowModel), "`ArrowModel.to_arrow_schema()`"),
    (lambda at: at.api.write_dataset(ROWS, at.new, schema={"id": 1}), "`pyarrow.schema(...)`"),
    (lambda at: at.api.Session(cache_size=1), "Session()", "'cache_bytes'"),
    (lambda at: at.catalog.drop_table("x", ignore_missing=True), "`table_exists`"),
]
STORAGE: Final = [
    ("s3", {"key": PRIVATE}, "'key' is not known", "mean 'access_key_id'?"),
    ("s3", {"secret": PRIVATE}, "'secret' is not known", "mean 'secret_access_key'?"),
    ("s3", {"client_kwargs": {"x": PRIVATE}}, "its members as options, such as endpoint"),
    ("s3", {"anon": True}, "write skip_signature=true"),
    ("s3", {"region_name": "x"}, "mean 'region'?"),
    ("s3", {"endpoint_override": "x"}, "mean 'endpoint'?"),
    ("s3", {"use_ssl": False}, "write allow_http=true"),
    ("s3", {"profile": "x"}, "write credentials, with a function"),
    ("gs", {"project": "x"}, "a bucket needs no project"),
    ("az", {"connection_string": PRIVATE}, "account_name and account_key"),
]
# Lines of the command below the folder, with the exit status.
LINES: Final = [
    ("head items", 1, "did you mean 'items.lance'?"),
    ("cleanup items.lance --older-than 7", 2, "'7', expected a unit, such as 7d or 12h"),
    ("query items.lance 'select 1'", 2, "no 'query'; write `alance sql URI QUERY`"),
    ("vacuum items.lance", 2, "no 'vacuum'; write `alance cleanup URI`"),
    ("help", 2, "no 'help'; write `alance --help`"),
    ("head items.lance --limit 5", 2, "mean '-n'?"),
    ("delete items.lance --where id=9", 2, "the condition stands behind the table"),
    ("write items.lance notes.csv --mode append", 2, "'--overwrite', or `alance append`"),
    ("write items.lance notes.csv", 1, "write `alance append`, or --overwrite"),
    ("config items.lance --set alance.maintenance.older_than=7x", 1, "='7x'", "like `14d`"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("habits"))


@pytest.mark.parametrize(("condition", "params", "parts"), [(c, p, q) for c, p, *q in FILTERS])
def test_filters_of_others_are_answered(
    place: Place, condition: Any, params: Any, parts: list[str]
) -> None:
    check(lambda: place.table.to_table(filter=condition, params=params), parts)


@pytest.mark.parametrize(("act", "parts"), rows_of([*ROWS_READ, *CHANGES]))
def test_calls_of_others_are_answered(place: Place, act: Act, parts: list[str]) -> None:
    check(lambda: act(place.table), parts)
    assert place.table.latest_version() == 3


@pytest.mark.parametrize(("act", "parts"), rows_of(OPENING))
def test_openings_and_data_of_others_are_answered(place: Place, act: Act, parts: list[str]) -> None:
    check(lambda: act(place), parts)
    assert not place.new.exists()


@pytest.mark.parametrize(("scheme", "options", "parts"), [(s, o, p) for s, o, *p in STORAGE])
def test_storage_options_of_others_name_ours(
    scheme: str, options: dict[str, Any], parts: list[str]
) -> None:
    check(lambda: sync.dataset(f"{scheme}://b/t", storage_options=options), parts)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_lines_of_other_commands_are_answered(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: tuple[Any, ...],
) -> None:
    (place.folder / "notes.csv").write_text("id\n1\n")
    check_command(line, place.folder, monkeypatch, capsys)


def test_attributes_of_others_are_answered(place: Place) -> None:
    for name, text in OF_OTHERS.items():
        with pytest.raises(AttributeError) as caught:
            getattr(place.table, name)
        assert str(caught.value).endswith(f"{name!r}; write {text}")
    objects = {
        "Catalog": place.catalog,
        "DatasetFragment": place.table.fragments[0],
        "MergeInsert": place.table.merge_insert("id"),
        "Optimize": place.table.optimize,
        "Session": alance.Session,
        "Sink": sync.ingest(place.uri),
        "Tags": place.table.tags,
    }
    for (kind, name), text in _MEMBERS.items():
        if kind in objects and kind != "Session":
            with pytest.raises(AttributeError, match="has no attribute") as caught:
                getattr(objects[kind], name)
            assert text in str(caught.value)
    for name, text in _COUNTERPARTS.items():
        for module in (alance, sync):
            with pytest.raises(AttributeError) as caught:
                getattr(module, name)
            assert text in str(caught.value)


@pytest.mark.filterwarnings("ignore:coroutine")
async def test_a_coroutine_in_the_place_of_a_value_is_answered(place: Place) -> None:
    dataset = await alance.dataset(place.uri)
    for call in (
        lambda value: alance.write_dataset(value, place.new),
        lambda value: dataset.take(value),
        lambda value: dataset.to_table(limit=value),
        lambda value: dataset.to_table(filter=value),
        lambda value: alance.dataset(place.uri, session=value),
    ):
        value: Any = dataset.count_rows()
        with pytest.raises(alance.InvalidInputError, match="write `await` before it"):
            await call(value)
        value.close()


def test_rows_at_the_top_are_five_unless_a_number_is_given(place: Place) -> None:
    assert place.table.head().num_rows == 5
    assert place.table.fragments[0].head(2).num_rows == 2


async def test_a_sink_logs_once_that_lists_become_vectors(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "alance"):
        for on in (None, "id"):
            async with alance.ingest(tmp_path / f"{on}", on=on) as sink:
                for number in range(3):
                    row = {"id": number, "vector": [1.0, 2.0]}
                    await (sink.write([row]) if on is None else sink.upsert([row]))
    lines = [record for record in caplog.records if "lists of one length" in record.message]
    assert len(lines) == 2


def test_lines_with_times_of_utc_can_be_appended_to_their_own_table(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, uri = tmp_path / "a.jsonl", str(tmp_path / "t")
    lines.write_text('{"at": "2024-01-01T00:00:00Z"}\n{"at": null}\n')
    assert main(["write", uri, str(lines)]) == main(["append", uri, str(lines)]) == 0
    capsys.readouterr()
    moment = dt.datetime(2024, 1, 1)
    assert sync.dataset(uri).to_table()["at"].to_pylist() == [moment, None, moment, None]
