"""Tables on S3: credentials on their way, what is asked of the store; the format found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
import alance.spark
from alance.distributed import last_sequence
from alance.spark import jobs
from alance.spark.session import storage_of
from alance.spark.worker import run
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as result:
        yield result


def test_tables_on_s3(spark, lab):
    """Written, read, compacted by credentials of one call; columns and filters cut what is read."""
    uri, options = "s3://lab/table", lab.lance_options()
    frame = spark.range(0, 200_000, 1, 2).selectExpr("id", "repeat(cast(id as string), 9) as text")
    alance.spark.write(frame, uri, storage_options=options)
    whole = {"storage_options": options}
    with lab.recording() as seen:
        assert len(alance.spark.read(spark, uri, **whole).where("text <> ''").collect()) == 200_000
    everything = seen.summary()["get_bytes"]
    with lab.recording() as seen:
        assert alance.spark.read(spark, uri, columns=["id"], **whole).count() == 200_000
    assert seen.summary()["get_bytes"] < everything / 2
    with lab.recording() as seen:
        assert alance.spark.read(spark, uri, columns=["_rowid"], **whole).count() == 200_000
    assert seen.summary()["get_bytes"] < everything / 20
    jobs.delete(spark, uri, "id < 1000", storage_options=options)
    jobs.compact(spark, uri, storage_options=options, target_rows_per_fragment=500_000)
    dataset = lance.dataset(uri, storage_options=options)
    dataset.validate()
    assert (dataset.count_rows(), len(dataset.get_fragments())) == (199_000, 1)


def test_storage_options_of_a_registration_stay_in_force(spark, lab, tmp_path):
    """For reads, writes, streams, jobs, and the session that Spark clones for `foreachBatch`."""
    uri, copy, options = "s3://lab/registered", "s3://lab/registered-copy", lab.lance_options()
    session = spark.newSession()
    alance.spark.register(session, storage_options=options)
    frame = session.range(0, 100, 1, 1).selectExpr("id", "id as value")
    alance.spark.write(frame, uri)
    alance.spark.register(session)
    jobs.delete(session, uri, "id < 10")
    jobs.merge(session, uri, session.sql("select 7L as id"), ["id"])
    sums = alance.spark.map_batches(session, uri, rows_of, "rows long")
    assert sums.agg({"rows": "sum"}).collect()[0][0] == 91

    def put(batch, number):
        alance.spark.write(batch, copy, mode="append")
        alance.spark.map_batches(batch.sparkSession, copy, rows_of, "rows long").collect()

    stream = session.readStream.format("alance").load(uri).writeStream.foreachBatch(put)
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()
    assert alance.spark.read(session, copy, columns=["_rowid"]).count() == 91
    assert storage_of(session, {"region": "elsewhere"}) == {**options, "region": "elsewhere"}
    assert storage_of(spark.newSession(), None) == {}
    alance.spark.register(session, storage_options={})
    assert storage_of(session, None) == {}


def rows_of(batches):
    yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})


def test_the_last_batch_of_a_query_is_asked_by_as_many_requests_in_a_long_history(lab):
    uri, options = "s3://lab/history", lab.lance_options()

    async def versions() -> None:
        rows = pa.table({"id": [1]})
        async with alance.ingest(uri, rows.schema, producer="q", storage_options=options) as sink:
            await sink.write(rows, sequence=5)
        dataset = await alance.dataset(uri, storage_options=options)
        for _ in range(40):
            dataset = await dataset.insert(rows)

    run(versions())
    with lab.recording() as seen:
        number = run(last_sequence(uri, "q", storage_options=options))
    assert number == 5
    assert seen.summary()["requests"] <= 2


def test_wrong_credentials_are_not_shown(spark, lab):
    options = {**lab.lance_options(), "aws_secret_access_key": "GEHEIM"}
    options["endpoint"] = options.get("endpoint", options.get("aws_endpoint", "")).replace(
        "http://", "http://127.0.0.1:1/"
    )
    with pytest.raises(Exception) as raised:  # noqa: PT011  # whatever it is, it tells nothing
        alance.spark.read(spark, "s3://nothing-here/table", storage_options=options)
    assert "GEHEIM" not in str(raised.value)


def test_plans_show_no_storage_options(spark, tmp_path):
    uri, options = str(tmp_path / "table"), {"account_key": "GEHEIM"}
    alance.spark.write(spark.range(0, 3, 1, 1), uri, storage_options=options)
    reader = spark.read.format("alance").option("storage.account_key", "GEHEIM")
    for frame in (alance.spark.read(spark, uri, storage_options=options), reader.load(uri)):
        query = frame.where("id > 0")._jdf.queryExecution()
        modes = ("simple", "extended", "codegen", "cost", "formatted")
        plans = [spark._jvm.PythonSQLUtils.explainString(query, mode) for mode in modes]
        assert all("alance" in plan and "GEHEIM" not in plan for plan in plans)
        assert "GEHEIM" not in repr(frame)


def test_the_format_is_found_without_registration(spark, tmp_path):
    uri = str(tmp_path / "table")
    alance.spark.write(spark.range(3), uri)
    assert spark.newSession().read.format("alance").load(uri).count() == 3
