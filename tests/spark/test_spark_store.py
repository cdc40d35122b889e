"""Tables on S3: credentials on their way, what is asked of the store; the format found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import alance.spark
from alance.spark import jobs
from alance.testing.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


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
    found = lance.dataset(uri, storage_options=options)
    found.validate()
    assert (found.count_rows(), len(found.get_fragments())) == (199_000, 1)


def test_wrong_credentials_are_not_shown(spark, lab):
    options = {**lab.lance_options(), "aws_secret_access_key": "GEHEIM"}
    options["endpoint"] = options.get("endpoint", options.get("aws_endpoint", "")).replace(
        "http://", "http://127.0.0.1:1/"
    )
    with pytest.raises(Exception) as raised:  # noqa: PT011  # whatever it is, it tells nothing
        alance.spark.read(spark, "s3://nothing-here/table", storage_options=options)
    assert "GEHEIM" not in str(raised.value)


def test_the_format_is_found_without_registration(spark, tmp_path):
    uri = str(tmp_path / "table")
    alance.spark.write(spark.range(3), uri)
    assert spark.newSession().read.format("alance").load(uri).count() == 3
