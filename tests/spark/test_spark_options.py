"""Options, partitions, filters and the search for Java: without a session."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
)

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.proto import table_pb2
from alance.format.table.fragment import Fragment
from alance.spark.java import find_java
from alance.spark.options import ReadOptions, SparkWriteOptions, StreamOptions
from alance.spark.reader import as_sql, plan

if TYPE_CHECKING:
    from pathlib import Path


def options(**text: str) -> ReadOptions:
    return ReadOptions.parse({"path": "/table", **text})


def test_names_without_case_and_lists():
    result = options(withRowId="TRUE", columns="a, b,c", partition_bytes="7")
    assert (result.with_row_id, result.columns, result.partition_bytes) == (
        True,
        ("a", "b", "c"),
        7,
    )
    assert options(columns='["a,b", "c"]').columns == ("a,b", "c")


def test_storage_options_are_not_shown():
    arguments = {"path": "s3://b/t", "storage.region": "x", "storage_options": '{"key": "GEHEIM"}'}
    result = SparkWriteOptions.parse(arguments, {"token": "GEHEIM", "region": "y"})
    assert result.storage == {"token": "GEHEIM", "region": "x", "key": "GEHEIM"}
    assert "GEHEIM" not in repr(result)
    with pytest.raises(InvalidInputError) as raised:
        SparkWriteOptions.parse({"path": "t", "storage_options": "{'key': 'GEHEIM'"})
    assert "GEHEIM" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ReadOptions, {"with_row_id": "yes"}),
        (ReadOptions, {"columns": "[1"}),
        (ReadOptions, {"partition_bytes": "0"}),
        (ReadOptions, {"blobs": "some"}),
        (SparkWriteOptions, {"if_exists": "maybe"}),
        (SparkWriteOptions, {"txn_app": "a"}),
        (StreamOptions, {"start": "then"}),
        (StreamOptions, {"limit": "3"}),
        (StreamOptions, {"max_rows_per_batch": "3", "max_bytes_per_batch": "3"}),
    ],
)
def test_a_bad_option_is_refused_by_its_class(kind, options):
    with pytest.raises(InvalidInputError):
        kind.parse({"path": "/table", **options})


@pytest.mark.parametrize("kind", [ReadOptions, SparkWriteOptions, StreamOptions])
def test_tables_of_a_catalog_are_refused_with_what_to_do_instead(kind):
    """Spark hands over no option to read and write them, and others when it makes them."""
    with pytest.raises(
        InvalidInputError, match=r"alance.spark.write\(frame, uri\).*TEMPORARY VIEW"
    ):
        kind.parse({})
    with pytest.raises(UnsupportedError, match=r"alance.spark.write\(frame, uri\).*TEMPORARY VIEW"):
        kind.parse({"owner": "me", "path": "t", "location": "t", "provider": "alance"})


def fragments(count: int, rows: int = 1_000_000, num_bytes: int = 100 << 20) -> list[Fragment]:
    result = []
    for number in range(count):
        file = table_pb2.DataFile(
            path=f"{number:032x}.lance",
            fields=range(16),
            column_indices=range(16),
            file_major_version=2,
            file_minor_version=2,
            file_size_bytes=num_bytes,
        )
        message = table_pb2.DataFragment(id=number, files=[file], physical_rows=rows)
        result.append(Fragment.from_protobuf(message))
    return result


def rows_of(partitions) -> list[tuple[int, int, int]]:
    result = []
    for partition in partitions:
        for piece in partition.pieces:
            message = table_pb2.DataFragment.FromString(piece.fragment)
            stop = message.physical_rows if piece.stop is None else piece.stop
            result.append((message.id, piece.start, stop))
    return result


@pytest.mark.parametrize("target", [1 << 20, 30 << 20, 64 << 20, 1 << 30])
@pytest.mark.parametrize("num_bytes", [1 << 10, 5 << 20, 100 << 20])
def test_partitions_hold_each_row_once(target, num_bytes):
    arguments = fragments(20, num_bytes=num_bytes)
    result = rows_of(plan(arguments, None, options(partition_bytes=str(target))))
    for fragment in arguments:
        spans = [(start, stop) for number, start, stop in result if number == fragment.id]
        assert spans[0][0] == 0
        assert spans[-1][1] == fragment.physical_rows
        assert all(a[1] == b[0] for a, b in pairwise(spans))


def test_partitions_are_of_equal_bytes():
    partitions = plan(fragments(20), None, options())
    assert len(partitions) == 40
    assert {stop - start for _, start, stop in rows_of(partitions)} == {500_000}
    few = plan(fragments(20), frozenset({3}), options())  # a sixteenth of the bytes
    assert len(few) == 2 or len(few) == 3


def test_partitions_become_smaller_until_all_cores_have_work():
    few = fragments(1, num_bytes=40 << 20)
    counts = {name: len(plan(few, None, options(parallelism=name))) for name in ("1", "8", "900")}
    assert counts == {"1": 1, "8": 8, "900": 41}


def test_a_limit_takes_the_fragments_that_it_needs():
    (item,) = plan(fragments(20), None, options(limit="1000001"))
    assert len(item.pieces) == 2
    (item,) = plan(fragments(20), None, options(limit="5", filter="a > 1"))
    assert len(item.pieces) == 20


SCHEMA = pa.schema([("i", pa.int32()), ("s", pa.string()), ("f", pa.float64())])


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (EqualTo(("i",), 3), "`i` = 3"),
        (Not(EqualTo(("s",), "a'b")), "NOT (`s` = 'a''b')"),
        (In(("i",), (1, 2)), "`i` IN (1, 2)"),
        (IsNull(("f",)), "`f` IS NULL"),
        (GreaterThan(("f",), 1.0), "`f` > 1.0"),
        (LessThanOrEqual(("f",), float("nan")), None),
        (StringContains(("s",), "a"), None),
        (EqualTo(("other",), 1), None),
        (EqualTo(("i", "x"), 1), None),
    ],
)
def test_filters_that_mean_the_same(condition, text):
    assert as_sql(condition, SCHEMA) == text


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write('{version}')\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_java_of_the_environment_comes_first(tmp_path):
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.1" 2023-10-17')
    old = fake_java(tmp_path / "old", 'java version "1.8.0_401"')
    assert find_java({"JAVA_HOME": str(new), "PATH": ""}) == new
    path = os.pathsep.join([str(old / "bin"), str(new / "bin")])
    assert find_java({"JAVA_HOME": str(new), "PATH": path}) == new
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


@pytest.mark.parametrize("module", ["java", "jar"])
def test_modules_that_are_run_are_not_imported_by_their_package(module):
    program = f"import sys, alance.spark; sys.exit('alance.spark.{module}' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_old_java_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("alance.spark.java.JAVA_FOLDERS", (f"{tmp_path}/none/*",))
    old = fake_java(tmp_path / "old", 'java version "1.8.0_401"')
    assert find_java({"JAVA_HOME": str(old), "PATH": ""}) is None
