"""UPDATE and MERGE of tables whose values Spark does not hold: blobs, and times in nanoseconds."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.spark.connector.keeping import UnchangedColumns, marked
from alance.spark.options import ReadOptions
from alance.spark.session import CATALOG_CLASS
from alance.spark.times import with_old_times

if TYPE_CHECKING:
    from pathlib import Path

# A second attempt may ask Spark for the right to commit before Spark has noted that the first one
# has failed in its commit.
OR_DENIED = "|Commit denied for partition"
ROWS = 40
NANOS = [None if n % 7 == 6 else 1_700_000_000_000_000_000 + 1_000_001 * n for n in range(ROWS)]
BLOBS = [None if n % 5 == 4 else b"" if n % 5 == 3 else bytes([n]) * 1000 * n for n in range(ROWS)]
TIMES = {
    "fine": pa.timestamp("ns"),
    "zoned": pa.timestamp("ns", "Europe/Berlin"),
    "took": pa.duration("ns"),
}


def rows_of(ids: range) -> pa.Table:
    columns: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
    for name, kind in TIMES.items():
        columns[name] = pa.array([NANOS[n] for n in ids], kind)
    fine = columns["fine"]
    columns["inner"] = pa.StructArray.from_arrays(
        [fine, pa.array([n % 200 for n in ids], pa.uint8())],
        names=["at", "n"],
        mask=pa.array([n % 9 == 8 for n in ids]),
    )
    return pa.table(columns)


def written(folder: Path, blobs: str) -> str:
    """A table with stable row ids in four fragments."""
    uri = str(folder / "table")
    rows = rows_of(range(ROWS))
    if blobs == "v2":
        rows = rows.append_column("blob", lance.blob_array(BLOBS))
        version = "2.2"
    else:
        field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        rows = rows.append_column(field, pa.array(BLOBS, pa.large_binary()))
        version = "2.1"
    options: Any = {"max_rows_per_file": 10, "enable_stable_row_ids": True}
    lance.write_dataset(rows, uri, data_storage_version=version, **options)
    return uri


def content(uri: str) -> dict[int, dict[str, Any]]:
    """The rows by id, as pylance reads them; times as their nanoseconds."""
    table = lance.dataset(uri).scanner(blob_handling="all_binary", with_row_id=True).to_table()
    inner = table.column("inner").combine_chunks()
    table = table.append_column("inner.at", inner.flatten()[0])
    for name in (*TIMES, "inner.at"):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).cast(pa.int64()))
    return {row.pop("id"): row for row in table.drop_columns("inner").to_pylist()}


@pytest.fixture(params=["v1", "v2"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return written(tmp_path, request.param)


def test_updates_leave_blobs_and_nanoseconds_that_they_do_not_name(spark, uri):
    before = content(uri)
    spark.sql(f"UPDATE lance.`{uri}` SET id = id + 1000 WHERE id % 3 = 1 AND length(id) > 0")
    after = content(uri)
    assert {n + 1000 if n % 3 == 1 else n: row for n, row in before.items()} == after
    spark.sql(
        f"UPDATE lance.`{uri}` SET inner.n = 7, fine = timestamp_ntz'2020-02-02 02:02:02.000002', "
        "blob = NULL WHERE id = 1001"
    )
    changed = content(uri)
    at = datetime.datetime(2020, 2, 2, 2, 2, 2, 2, tzinfo=datetime.UTC)
    new = int(at.timestamp() * 1_000_000) * 1000
    assert changed.pop(1001) == {**after.pop(1001), "fine": new, "blob": None}
    assert changed == after
    (row,) = lance.dataset(uri).to_table(["inner"], filter="id = 1001").to_pylist()
    assert row["inner"]["n"] == 7


def test_merges_leave_what_they_do_not_name(spark, uri):
    before = content(uri)
    spark.sql(
        f"MERGE INTO lance.`{uri}` t USING (SELECT id FROM range(30, 50)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 4 = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET inner = NULL, took = INTERVAL '0 00:00:01' DAY TO SECOND "
        "WHEN NOT MATCHED THEN INSERT (id, fine) VALUES (s.id, timestamp_ntz'1970-01-01')"
    )
    after = content(uri)
    mapping = {n: row for n, row in before.items() if n < 30}
    moved = {
        n: {**row, "took": 1_000_000_000, "inner.at": None}
        for n, row in before.items()
        if n >= 30 and n % 4
    }
    new = {n: row for n, row in after.items() if n >= ROWS}
    assert after == {**mapping, **moved, **new}
    assert [row["fine"] for row in new.values()] == [0] * 10
    assert {value for row in new.values() for value in (row["blob"], row["took"])} == {None}


def test_blobs_of_other_rows_are_refused_and_nothing_is_changed(spark, uri):
    version = lance.dataset(uri).version
    statements = [
        f"MERGE INTO lance.`{uri}` t USING (SELECT * FROM lance.`{uri}`) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET blob = s.blob",
        f"MERGE INTO lance.`{uri}` t USING (SELECT id + 50 AS id, blob FROM lance.`{uri}`) s "
        "ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, blob) VALUES (s.id, s.blob)",
    ]
    for statement in statements:
        with pytest.raises(Exception, match="Spark has the descriptions of blobs" + OR_DENIED):
            spark.sql(statement)
    assert lance.dataset(uri).version == version
    spark.sql(f"INSERT INTO lance.`{uri}` (id, fine) VALUES (50, NULL)")
    assert content(uri)[50]["blob"] is None


def test_marks_tell_whose_a_description_is() -> None:
    kind = pa.struct([("position", pa.decimal128(20, 0)), ("size", pa.decimal128(20, 0))])
    blobs = pa.array([{"position": 0, "size": 3}, None, {"position": 3, "size": 0}], kind)
    batch = pa.record_batch({"blob": blobs, "_rowaddr": pa.array([0, 1, (7 << 32) + 2])}).slice(1)
    rows = marked(batch, ["blob"]).column("blob").to_pylist()
    assert rows[0] is None
    assert (int(rows[1]["position"]), int(rows[1]["size"])) == (-((7 << 32) + 3), 0)


def test_blobs_inside_of_others_are_not_updated(spark, tmp_path):
    uri = str(tmp_path / "inside")
    blob = pa.field("data", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    pairs = pa.StructArray.from_arrays([pa.array([b"a", None], blob.type)], fields=[blob])
    lance.write_dataset(pa.table({"id": [1, 2], "pair": pairs}), uri, data_storage_version="2.1")
    refused = "column 'pair': Spark does not hold all of its values.*blobs=bytes" + OR_DENIED
    with pytest.raises(Exception, match=refused):
        spark.sql(f"UPDATE lance.`{uri}` SET id = 3")
    spark.sql(f"DELETE FROM lance.`{uri}` WHERE id = 2 AND length(id) = 1")
    assert lance.dataset(uri).count_rows() == 1
    with_bytes(spark)
    spark.sql(f"UPDATE whole.`{uri}` SET id = 3")
    spark.sql(
        f"MERGE INTO whole.`{uri}` t USING (SELECT explode(array(3, 4)) id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET id = 5 "
        "WHEN NOT MATCHED THEN INSERT (id, pair) VALUES (s.id, named_struct('data', X'62'))"
    )
    scanner = lance.dataset(uri).scanner(blob_handling="all_binary")
    rows = scanner.to_table().sort_by("id").to_pylist()
    assert rows == [{"id": 4, "pair": {"data": b"b"}}, {"id": 5, "pair": {"data": b"a"}}]


def with_bytes(spark) -> None:
    """A catalog whose tables have what their blobs hold."""
    spark.conf.set("spark.sql.catalog.whole", CATALOG_CLASS)
    spark.conf.set("spark.sql.catalog.whole.blobs", "bytes")


def test_statements_of_a_catalog_with_bytes_set_blobs(spark, uri):
    before = content(uri)
    with_bytes(spark)
    assert spark.sql(f"SELECT length(blob) FROM whole.`{uri}` WHERE id = 2").first()[0] == 2000
    spark.sql(f"UPDATE whole.`{uri}` SET blob = concat(blob, X'FF') WHERE id = 1")
    spark.sql(f"INSERT INTO whole.`{uri}` (id, blob) VALUES (50, X'0102')")
    spark.sql(
        f"MERGE INTO whole.`{uri}` t USING (SELECT id + 1 AS id, blob FROM whole.`{uri}` "
        "WHERE id = 5) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET blob = s.blob"
    )
    after = content(uri)
    assert after.pop(50)["blob"] == b"\1\2"
    expected = {**before, 1: {**before[1], "blob": BLOBS[1] + b"\xff"}}
    assert after == {**expected, 6: {**before[6], "blob": BLOBS[5]}}


def as_seen(nanos: int | None) -> int | None:
    """The microsecond that Spark sees."""
    return None if nanos is None else int(nanos / 1000)


def with_nanos(old: int | None, new: int | None) -> int | None:
    """A time of which Spark has said a microsecond."""
    return old if as_seen(old) == new else None if new is None else new * 1000


def all_with_nanos(
    old: list[int | None] | None, new: list[int | None] | None
) -> list[int | None] | None:
    if new is None:
        return None
    if old is None or len(old) != len(new):
        return [with_nanos(None, each) for each in new]
    return [with_nanos(*pair) for pair in zip(old, new, strict=True)]


NUMBERS = st.none() | st.integers(-(10**6), 10**6)
ROWS_OF_LISTS = st.none() | st.lists(NUMBERS, max_size=3)


@given(st.data(), st.lists(ROWS_OF_LISTS, max_size=6), st.integers(0, 2))
def test_times_in_lists_and_maps_are_those_of_before_where_spark_sees_no_other(data, old, skipped):
    def changed(row):
        equal = None if row is None else [as_seen(each) for each in row]
        return data.draw(st.just(equal) | ROWS_OF_LISTS)

    new = [changed(row) for row in old]
    nanos, micros = pa.timestamp("ns"), pa.timestamp("us")
    expected = [all_with_nanos(*pair) for pair in zip(old, new, strict=True)][skipped:]
    for kind in (pa.list_, pa.large_list):
        old_values, new_values = pa.array(old, kind(nanos)), pa.array(new, pa.list_(micros))
        array = with_old_times(old_values.slice(skipped), new_values.slice(skipped))
        assert array.cast(pa.list_(pa.int64())).to_pylist() == expected

    def entries(rows, kind):
        pairs = [row if row is None else [(str(n), v) for n, v in enumerate(row)] for row in rows]
        return pa.array(pairs, pa.map_(pa.string(), kind)).slice(skipped)

    array = with_old_times(entries(old, nanos), entries(new, micros))
    values = array.cast(pa.map_(pa.string(), pa.int64())).to_pylist()
    assert [row and [value for _, value in row] for row in values] == expected


def test_statements_keep_nanoseconds_inside_of_lists_maps_and_structs(spark, tmp_path):
    uri, fine = str(tmp_path / "deep"), pa.timestamp("ns")
    rows: dict[str, pa.Array] = {
        "id": pa.array([1, 2, 3]),
        "many": pa.array([[1, None, 1_000_001], None, []], pa.list_(fine)),
        "pair": pa.array([[2, 3_001], None, [4, None]], pa.list_(fine, 2)),
        "by": pa.array([[("a", 5), ("b", 6_001)], [], None], pa.map_(pa.string(), fine)),
        "deep": pa.array(
            [[{"at": [7_007], "n": 1}, None], None, [{"at": None, "n": 2}]],
            pa.list_(pa.struct([("at", pa.list_(fine)), ("n", pa.uint8())])),
        ),
    }
    table = pa.table(rows)
    lance.write_dataset(table, uri, data_storage_version="2.2")
    before = table.to_pylist()
    spark.sql(f"UPDATE lance.`{uri}` SET id = id + 10 WHERE length(id) > 0")
    after = lance.dataset(uri).to_table().sort_by("id")
    assert after.to_pylist() == [{**row, "id": row["id"] + 10} for row in before]
    assert after.schema == lance.dataset(uri, version=1).schema
    spark.sql(
        f"MERGE INTO lance.`{uri}` t USING (SELECT 11 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET many = array_append(many, timestamp_ntz'1970-01-01'), "
        "deep = transform(deep, x -> named_struct('at', x.at, 'n', cast(x.n + 1 as smallint)))"
    )
    (row,) = lance.dataset(uri).to_table(filter="id = 11").to_pylist()
    first = before[0]
    assert [None if at is None else at.value for at in row["many"]] == [0, None, 1_000_000, 0]
    assert row["deep"][0] == {"at": first["deep"][0]["at"], "n": 2}
    assert (row["pair"], row["by"]) == (first["pair"], first["by"])


def test_what_spark_holds_needs_nothing_of_the_old_rows(tmp_path) -> None:
    from pyspark.sql.types import StructType

    from alance import sync

    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "plain"))
    table = sync.dataset(str(tmp_path / "plain"))
    options = ReadOptions(path=table.uri)
    assert UnchangedColumns.of(table, StructType.fromDDL("id long"), options) is None
