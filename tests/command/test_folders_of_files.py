"""`alance write` and `append` of folders: all files, and columns of folders named `key=value`."""

from __future__ import annotations

import datetime
import functools
import json
import re
import socketserver
import sys
import threading
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import obstore
import obstore.store
import pyarrow as pa
import pyarrow.dataset
import pytest
from pyarrow import csv, feather, parquet

import alance.sync
from alance.command import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alance.testing.lab import Lab


class RangeHandler(SimpleHTTPRequestHandler):
    """Serves files whole or by range."""

    def do_GET(self) -> None:
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        try:
            with open(self.translate_path(self.path), "rb") as file:
                content = file.read()
        except OSError:
            self.send_error(404)
            return
        total, start, stop = len(content), 0, len(content)
        if span is not None:
            start = int(span[1])
            stop = min(total, int(span[2]) + 1) if span[2] else total
        self.send_response(200 if span is None else 206)
        self.send_header("content-range", f"bytes {start}-{stop - 1}/{total}")
        self.send_header("content-length", str(stop - start))
        self.end_headers()
        self.wfile.write(content[start:stop])

    def log_message(self, *_: object) -> None: ...


def write_lines(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "parquet": parquet.write_table,
    "csv": csv.write_csv,
    "jsonl": write_lines,
    "arrow": lambda table, path: feather.write_feather(table, str(path)),
}


def hive(folder: Path, ending: str = "parquet") -> Path:
    """Write a table as Spark does: two levels of folders, and files without rows."""
    ids = iter(range(100))
    for year in ("2020", "2021"):
        for kind in ("a%2Fb", "__HIVE_DEFAULT_PARTITION__"):
            below = folder / f"year={year}" / f"kind={kind}"
            below.mkdir(parents=True)
            WRITERS[ending](pa.table({"id": [next(ids), next(ids)]}), below / f"part-0.{ending}")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").touch()
    return folder


def rows_of(uri: Path) -> list[dict[str, Any]]:
    rows = alance.sync.dataset(uri).to_table().to_pylist()
    return sorted(rows, key=lambda row: str(row.get("id")))


@pytest.mark.parametrize("ending", WRITERS)
def test_folders_named_key_and_value_are_columns(tmp_path: Path, ending: str) -> None:
    folder, uri = hive(tmp_path / "hive", ending), tmp_path / "table"
    assert main(["write", str(uri), str(folder)]) == 0
    stored = rows_of(uri)
    pairs = {(row["year"], row["kind"]) for row in stored}
    assert pairs == {(year, kind) for year in (2020, 2021) for kind in (None, "a/b")}
    whole = pa.dataset.dataset(
        folder, format={"jsonl": "json"}.get(ending, ending), partitioning="hive"
    )
    theirs = whole.to_table().select(["id", "year", "kind"]).to_pylist()
    assert stored == sorted(theirs, key=lambda row: str(row["id"]))
    types = alance.sync.dataset(uri).schema.types
    assert types == [pa.int64(), pa.int32(), pa.string()]


def test_a_folder_of_a_column_whose_name_begins_with_a_line_is_read(tmp_path: Path) -> None:
    for year in (2020, 2021):
        (tmp_path / "hive" / f"_year={year}").mkdir(parents=True)
        path = tmp_path / "hive" / f"_year={year}" / "part.parquet"
        parquet.write_table(pa.table({"id": [year]}), path)
    (tmp_path / "hive" / "_temporary").mkdir()
    (tmp_path / "hive" / "_temporary" / "part.parquet").write_bytes(b"unfinished")
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "hive")]) == 0
    years = [{"id": year, "_year": year} for year in (2020, 2021)]
    assert rows_of(tmp_path / "t") == years


def test_files_and_inner_folders_have_the_same_partition_columns(tmp_path: Path) -> None:
    folder = hive(tmp_path / "hive")
    whole = tmp_path / "whole"
    assert main(["write", str(whole), str(folder), "--format", "parquet"]) == 0
    years = sorted(folder.glob("year=*"))
    files = sorted(folder.glob("*/*/*.parquet"))
    for name, paths in (("years", years), ("files", files)):
        assert main(["write", str(tmp_path / name), *map(str, paths)]) == 0
        assert rows_of(tmp_path / name) == rows_of(whole)
    more = ["--without-folders"]
    assert main(["write", str(tmp_path / "plain"), str(folder), *more]) == 0
    assert alance.sync.dataset(tmp_path / "plain").schema.names == ["id"]


@pytest.mark.parametrize(
    ("texts", "type_", "values"),
    [
        (["1", "-2"], pa.int32(), [1, -2]),
        (["1", "3000000000"], pa.int64(), [1, 3_000_000_000]),
        (["007", "1"], pa.string(), ["007", "1"]),
        (["1", "x"], pa.string(), ["1", "x"]),
        (["2024-02-29", "2024-01-01"], pa.date32(),
         [datetime.date(2024, 2, 29), datetime.date(2024, 1, 1)]),
        (["2024-02-30", "2024-01-01"], pa.string(), ["2024-02-30", "2024-01-01"]),
        (["__HIVE_DEFAULT_PARTITION__", "5"], pa.int32(), [None, 5]),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string(), [None]),
    ],
)  # fmt: skip
def test_the_type_of_a_partition_column_fits_all_values(
    tmp_path: Path, texts: list[str], type_: pa.DataType, values: list[Any]
) -> None:
    for number, text in enumerate(texts):
        (tmp_path / "hive" / f"k={text}").mkdir(parents=True)
        parquet.write_table(pa.table({"id": [number]}), tmp_path / f"hive/k={text}/a.parquet")
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "hive")]) == 0
    table = alance.sync.dataset(tmp_path / "t").to_table()
    assert table["k"].type == type_
    assert [row["k"] for row in sorted(table.to_pylist(), key=lambda row: row["id"])] == values


def test_a_column_in_a_file_wins_over_its_folder(tmp_path: Path) -> None:
    (tmp_path / "hive/year=2020").mkdir(parents=True)
    parquet.write_table(pa.table({"year": [1999, 2020]}), tmp_path / "hive/year=2020/a.parquet")
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "hive")]) == 0
    assert rows_of(tmp_path / "t") == [{"year": 1999}, {"year": 2020}]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_folders_are_appended_in_the_types_of_the_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], ending: str
) -> None:
    uri = tmp_path / "t"
    alance.sync.write_dataset(pa.table({"id": [0], "day": pa.array(["007"])}), uri)
    (tmp_path / "hive/day=5").mkdir(parents=True)
    WRITERS[ending](pa.table({"id": [1]}), tmp_path / f"hive/day=5/a.{ending}")
    assert main(["append", str(uri), str(tmp_path / "hive")]) == 0
    assert rows_of(uri) == [{"id": 0, "day": "007"}, {"id": 1, "day": "5"}]
    (tmp_path / "other/dax=5").mkdir(parents=True)
    WRITERS[ending](pa.table({"id": [1], "day": ["6"]}), tmp_path / f"other/dax=5/a.{ending}")
    assert main(["append", str(uri), str(tmp_path / "other")]) == 1
    assert "dax" in capfd.readouterr().err
    assert main(["append", str(uri), str(tmp_path / "other"), "--without-folders"]) == 0


@pytest.mark.parametrize("ending", WRITERS)
def test_a_column_that_only_a_later_file_of_a_folder_has_is_not_dropped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], ending: str
) -> None:
    (tmp_path / "files").mkdir()
    WRITERS[ending](pa.table({"id": [1]}), tmp_path / f"files/a.{ending}")
    WRITERS[ending](pa.table({"id": [2], "late": [3]}), tmp_path / f"files/b.{ending}")
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "files")]) == 1
    assert f"b.{ending}: columns id, late; expected those of" in capfd.readouterr().err


def test_folders_without_files_and_other_files_are_errors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "empty")]) == 1
    assert "expected files, found none" in capfd.readouterr().err
    (tmp_path / "empty" / "notes.txt").touch()
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "empty")]) == 1
    assert "notes.txt: unknown ending" in capfd.readouterr().err


@pytest.mark.parametrize(
    "pattern", ["hive/**", "hive/*", "hive/*/*/*.parquet", "hive/**/*.parquet", "hive/year=202[01]"]
)
def test_patterns_name_the_files_that_match(tmp_path: Path, pattern: str) -> None:
    hive(tmp_path / "hive")
    assert main(["write", str(tmp_path / "t"), str(tmp_path / pattern)]) == 0
    stored = rows_of(tmp_path / "t")
    assert sorted(row["id"] for row in stored) == list(range(8))
    assert {row["year"] for row in stored} == {2020, 2021}


def test_a_pattern_without_a_match_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "*.csv")]) == 1
    assert capsys.readouterr().err.endswith(
        "*.csv: no file matches; `**` stands for folders of any depth\n"
    )
    (tmp_path / "a[1].csv").write_text("id\n1\n")
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "a[1].csv")]) == 0


def put_all(lab: Lab, folder: Path, prefix: str) -> None:
    """Copy the files of a folder to the S3 server."""
    store = obstore.store.from_url("s3://lab", **s3_arguments(lab))
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            obstore.put(store, f"{prefix}/{path.relative_to(folder)}", path.read_bytes())


def s3_arguments(lab: Lab) -> dict[str, Any]:
    options = lab.lance_options()
    client = {"allow_http": options.pop("allow_http")}
    return {"config": options, "client_options": client}


@pytest.mark.parametrize(
    ("ending", "pattern"),
    [*((ending, "") for ending in WRITERS), ("csv", "/**/*.*"), ("csv", "/year=202*/*/part-0.*")],
)
def test_files_of_a_store_are_read_like_local_ones(
    tmp_path: Path, lab: Lab, ending: str, pattern: str
) -> None:
    local = hive(tmp_path / "hive", ending)
    prefix = f"sources-{ending}"
    put_all(lab, local, prefix)
    options = [f"--from-storage={key}={value}" for key, value in lab.lance_options().items()]
    uri = str(tmp_path / "table")
    assert main(["write", uri, f"s3://lab/{prefix}{pattern}", *options]) == 0
    assert main(["write", f"{uri}-local", str(local)]) == 0
    stored = rows_of(tmp_path / "table")
    assert stored == rows_of(tmp_path / "table-local")
    assert main(["append", uri, f"s3://lab/{prefix}{pattern}", *options]) == 0
    assert len(rows_of(tmp_path / "table")) == 2 * len(stored)


def test_a_file_of_a_web_server_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "web").mkdir()
    write_lines(pa.table({"id": [1, 2]}), tmp_path / "web" / "rows.jsonl")
    handler = functools.partial(RangeHandler, directory=str(tmp_path / "web"))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            host = f"http://127.0.0.1:{server.server_address[1]}"
            assert main(["write", str(tmp_path / "t"), f"{host}/rows.jsonl"]) == 0
            assert main(["append", str(tmp_path / "t"), f"{host}/none.jsonl"]) == 1
        finally:
            server.shutdown()
            thread.join()
    assert rows_of(tmp_path / "t") == [{"id": 1}, {"id": 2}]
    assert "none.jsonl" in capsys.readouterr().err


def test_sources_in_stores_name_the_package_that_they_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore.fsspec", None)
    assert main(["write", str(tmp_path / "t"), "s3://lab/a.csv"]) == 1
    assert "alance's extra `cli`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ftp://host/a.csv", "scheme 'ftp'; expected a path, or one of s3://"),
        ("s3://lab/nowhere/", "no such file, or no file below it"),
        ("s3://lab/nowhere/*.csv", "no such file, or no file below it"),
    ],
)
def test_sources_that_are_not_there_are_one_line(
    tmp_path: Path, lab: Lab, capsys: pytest.CaptureFixture[str], source: str, message: str
) -> None:
    options = [f"--from-storage={key}={value}" for key, value in lab.lance_options().items()]
    assert main(["write", str(tmp_path / "t"), source, *options]) == 1
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1
