"""The command `alance`: what it prints, what it changes, how it fails."""

from __future__ import annotations

import argparse
import io
import json
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from alance.command import main
from alance.command.main import parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.testing.lab import Lab

ROOT = Path(__file__).parents[2]
ROWS = pa.table(
    {
        "id": range(1000),
        "price": [n / 8 for n in range(1000)],
        "name": [None if n == 3 else f"item {n % 7}" for n in range(1000)],
        "raw": [bytes([n % 256]) for n in range(1000)],
        "when": pa.array([n * 10**6 for n in range(1000)], pa.timestamp("us")),
    }
)
Shown = pytest.CaptureFixture[str]


def run(shown: Shown, *arguments: object) -> list[Any]:
    """Run a subcommand, and return its JSON output."""
    assert main([*map(str, arguments), "--json"]) == 0
    return [json.loads(line) for line in shown.readouterr().out.splitlines()]


@pytest.fixture
def shown(capsys: Shown) -> Shown:
    return capsys


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lance.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=400)
    return str(tmp_path / "t")


def test_a_table_is_told_as_it_is(uri: str, shown: Shown) -> None:
    (info,) = run(shown, "info", uri)
    assert (info["version"], info["rows"], info["fragments"]) == (1, 1000, 3)
    assert info["columns"][0] == "id: int64"
    assert info["data_bytes"] == sum(file.stat().st_size for file in Path(uri, "data").iterdir())
    assert [row["column"] for row in run(shown, "schema", uri)] == ROWS.schema.names
    assert [row["physical_rows"] for row in run(shown, "fragments", uri)] == [400, 400, 200]
    assert sum(row["bytes"] for row in run(shown, "files", uri)) == info["data_bytes"]


def test_rows_are_those_of_pylance(uri: str, shown: Shown) -> None:
    rows = run(shown, "take", uri, "3,17,100-101", "--columns", "id,name")
    assert rows == lance.dataset(uri).take([3, 17, 100, 101], columns=["id", "name"]).to_pylist()
    rows = run(shown, "head", uri, "-n", "2", "--filter", "price > 100", "--columns", "id")
    assert rows == [{"id": 801}, {"id": 802}]
    assert run(shown, "count", uri, "--filter", "name = 'item 2'") == [{"rows": 143}]
    (row,) = run(shown, "take", uri, "255", "--columns", "raw,when")
    assert row == {"raw": "/w==", "when": "1970-01-01T00:04:15"}


def test_times_that_python_has_not_are_texts(tmp_path: Path, shown: Shown) -> None:
    times = pa.array([2**62], pa.int64()).view(pa.timestamp("us"))
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"t": times}), uri)
    for command in ("head", "cat"):
        assert run(shown, command, uri) == [{"t": "+148108-07-06T14:00:27.387904"}]


def test_nan_and_infinities_are_text_in_json(tmp_path: Path, capfdbinary: Any) -> None:
    uri = tmp_path / "t"
    lance.write_dataset(pa.table({"x": [float("nan"), 0.5], "l": [[float("inf")], []]}), uri)
    lines = b'{"x": "NaN", "l": ["Infinity"]}\n{"x": 0.5, "l": []}\n'
    for arguments in (["cat"], ["head", "--json"]):
        assert main([arguments[0], str(uri), *arguments[1:]]) == 0
        assert capfdbinary.readouterr().out == lines


@pytest.mark.parametrize("form", ["arrow", "parquet", "csv", "jsonl"])
def test_cat_gives_all_rows_in_each_format(uri: str, form: str) -> None:
    columns = "id,price,name,when"
    done = subprocess.run(
        [sys.executable, "-m", "alance", "cat", uri, "--format", form, "--columns", columns],
        capture_output=True,
        check=True,
        timeout=120,
    )
    expected = ROWS.select(columns.split(","))
    content = io.BytesIO(done.stdout)
    if form == "arrow":
        rows = pa.ipc.open_stream(content).read_all()
    elif form == "parquet":
        rows = pq.read_table(content)
    elif form == "csv":
        types = {field.name: field.type for field in expected.schema}
        rows = pc.read_csv(
            content,
            convert_options=pc.ConvertOptions(column_types=types, strings_can_be_null=True),
        )
    else:
        listed = [json.loads(line) for line in content]
        rows = pa.Table.from_pylist([{**row, "when": None} for row in listed], expected.schema)
        nothing = pa.nulls(1000, pa.timestamp("us"))
        expected = expected.set_column(3, expected.schema.field(3), nothing)
    assert rows.equals(expected)


def test_a_query_gives_rows_in_each_format(uri: str, shown: Shown, tmp_path: Path) -> None:
    query = "select name, count(*) as n from dataset where price > 100 group by all order by all"
    rows = run(shown, "sql", uri, query)
    counts = Counter(f"item {n % 7}" for n in range(801, 1000))
    assert {row["name"]: row["n"] for row in rows} == counts
    assert main(["sql", uri, query, "--format", "csv"]) == 0
    assert shown.readouterr().out.splitlines()[:2] == ['"name","n"', '"item 0",28']
    assert main(["sql", uri, query]) == 0
    assert re.search(r"item 0\s+28", shown.readouterr().out)
    assert run(shown, "sql", uri, "select id from dataset where false") == []
    run(shown, "copy", uri, tmp_path / "other", "--version", "1")
    joined = "select count(*) as n from dataset join other using (id)"
    arguments = ("--table", f"other={tmp_path / 'other'}", "--setting", "threads=1")
    assert run(shown, "sql", uri, joined, *arguments) == [{"n": 1000}]


def test_a_version_is_copied_to_a_store_and_back(
    uri: str, shown: Shown, tmp_path: Path, lab: Lab
) -> None:
    run(shown, "delete", uri, "id < 100")
    options = [f"{key}={value}" for key, value in lab.lance_options().items()]
    texts = [text for pair in options for text in ("--to-storage", pair)]
    (copied,) = run(shown, "copy", uri, "s3://lab/command/copied", *texts)
    assert (copied["version"], copied["rows"], copied["data_files"]) == (2, 900, 3)
    source = [text for pair in options for text in ("--storage", pair)]
    run(shown, "copy", "s3://lab/command/copied", tmp_path / "back", *source)
    assert lance.dataset(tmp_path / "back").to_table().equals(lance.dataset(uri).to_table())


def test_files_become_a_table_that_pylance_reads(tmp_path: Path, shown: Shown) -> None:
    plain = ROWS.drop_columns(["raw", "when"])
    pq.write_table(plain, tmp_path / "a.parquet")
    pc.write_csv(plain, tmp_path / "a.csv")
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, plain.schema) as file,
    ):
        file.write(plain)
    lines = "".join(json.dumps(row) + "\n" for row in plain.to_pylist())
    (tmp_path / "a.jsonl").write_text(lines)
    table = tmp_path / "t"
    (done,) = run(shown, "write", table, tmp_path / "a.parquet", "--max-rows-per-file", "600")
    assert (done["version"], done["rows_written"]) == (1, 1000)
    for ending in ("csv", "arrow", "jsonl"):
        run(shown, "append", table, tmp_path / f"a.{ending}")
    dataset = lance.dataset(table)
    assert dataset.count_rows() == 4000
    assert dataset.to_table(limit=1000).equals(plain)
    assert dataset.to_table(offset=3000, columns=["id"]).equals(plain.select(["id"]))
    run(shown, "write", table, tmp_path / "a.parquet", "--overwrite")
    assert lance.dataset(table).count_rows() == 1000


def test_files_of_several_kinds_are_written_whole(tmp_path: Path, shown: Shown) -> None:
    (tmp_path / "a.csv").write_text("id,price,kind\n1,2,y\n")
    (tmp_path / "b.jsonl").write_text('{"kind": "x", "id": 2, "price": 2.5}\n')
    table = tmp_path / "t"
    (done,) = run(shown, "write", table, tmp_path / "a.csv", tmp_path / "b.jsonl")
    assert done["rows_written"] == 2
    assert lance.dataset(table).to_table().to_pylist() == [
        {"id": 1, "price": 2.0, "kind": "y"},
        {"id": 2, "price": 2.5, "kind": "x"},
    ]


@pytest.mark.parametrize(
    ("other", "message"),
    [("id,cost\n1,2\n", "b.csv: columns id, cost; expected those of "), ("id,price\n1\n", "b.csv")],
)
def test_files_that_do_not_go_together_are_refused(
    tmp_path: Path, shown: Shown, other: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text("id,price\n1,2\n")
    (tmp_path / "b.csv").write_text(other)
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert main(["write", str(tmp_path / "t"), *files]) == 1
    assert message in shown.readouterr().err
    assert not (tmp_path / "t").exists()


def _ipc(folder: Path) -> bytes:
    with pa.ipc.new_file(folder / "a.arrow", pa.schema({"text": pa.string()})) as file:
        file.write(pa.record_batch({"text": ["aaaa", "bbbb"]}))
    return (folder / "a.arrow").read_bytes()


def _parquet(folder: Path) -> bytes:
    pq.write_table(pa.table({"text": [str(n) for n in range(10_000)]}), folder / "a.parquet")
    content = (folder / "a.parquet").read_bytes()
    return content[:1000] + b"\xff" * 200 + content[1200:]  # inside of a page


ENDS = struct.pack("<3i", 0, 4, 8)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.arrow", lambda folder: _ipc(folder).replace(ENDS, ENDS[:8] + b"\1" * 4), "offset"),
        ("a.arrow", lambda folder: _ipc(folder).replace(b"aaaa", b"\xff" * 4), "UTF8"),
        ("a.parquet", _parquet, "Corrupt snappy"),
        ("a.jsonl", lambda _: b'{"a": 1}\n' * 200_000 + b'{"a": 1, "b": 2}\n', "put such a row"),
        ("a.jsonl", lambda _: b'{"a": "\xff"}\n', "UTF8"),
    ],
)
def test_damaged_files_are_refused_in_one_line_and_no_row_is_lost(
    tmp_path: Path, shown: Shown, name: str, content: Callable[[Path], bytes], message: str
) -> None:
    (tmp_path / name).write_bytes(content(tmp_path))
    assert main(["write", str(tmp_path / "t"), str(tmp_path / name)]) == 1
    error = shown.readouterr().err
    assert f"{name}: " in error
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "t").exists()


def test_a_bad_row_far_behind_is_one_line_without_a_trace(tmp_path: Path, shown: Shown) -> None:
    (tmp_path / "a.csv").write_text("id\n" + "1234567\n" * 400_000 + "oops\n")
    assert main(["write", str(tmp_path / "t"), str(tmp_path / "a.csv")]) == 1
    error = shown.readouterr().err
    assert "a.csv: " in error
    assert "'oops'" in error
    assert len(error.splitlines()) == 1


def test_versions_are_made_named_compared_and_restored(uri: str, shown: Shown) -> None:
    run(shown, "delete", uri, "id < 100")
    assert [row["rows"] for row in run(shown, "versions", uri)] == [1000, 900]
    (tag,) = run(shown, "tags", uri, "--create", "first", "--at", "1")
    assert (tag["tag"], tag["version"]) == ("first", 1)
    assert run(shown, "count", uri, "--version", "first") == [{"rows": 1000}]
    (branch,) = run(shown, "branches", uri, "--create", "dev")
    assert branch["parent_version"] == 2
    assert run(shown, "count", uri, "--branch", "dev") == [{"rows": 900}]
    (difference,) = run(shown, "diff", uri, "1")
    assert difference["operations"] == ["2: Delete"]
    run(shown, "tags", uri, "--create", "second", "--at", "2")
    assert run(shown, "diff", uri, "first", "second") == [difference]
    lance.dataset(uri).checkout_version(("dev", None)).delete("id < 200")
    (difference,) = run(shown, "diff", uri, "2", "--branch", "dev")
    assert (difference["end_version"], difference["operations"]) == (3, ["3: Delete"])
    assert main(["diff", uri, "first", "--branch", "dev"]) == 1
    assert "expected one of branch 'dev'" in shown.readouterr().err
    run(shown, "restore", uri, "first")
    assert lance.dataset(uri).count_rows() == 1000
    assert run(shown, "tags", uri, "--move", "first", "--at", "2")[0]["version"] == 2
    (tag,) = run(shown, "tags", uri, "--delete", "first")
    assert tag["tag"] == "second"


def test_upkeep_and_indices(uri: str, shown: Shown) -> None:
    (segment,) = run(shown, "index", uri, "--create", "id", "--type", "btree")
    assert (segment["index"], segment["type"]) == ("id_idx", "BTree")
    (plan,) = run(shown, "explain", uri, "--filter", "id = 5")
    assert any("id_idx" in line for line in plan["plan"])
    run(shown, "delete", uri, "id < 300")
    (done,) = run(shown, "compact", uri)
    assert done["fragments_added"] == 1
    (stats,) = run(shown, "cleanup", uri, "--older-than", "0", "--dry-run")
    assert stats["old_versions"] == done["version"] - 1
    run(shown, "tags", uri, "--create", "first", "--at", "1")
    assert main(["cleanup", uri, "--older-than", "0", "--yes"]) == 1
    assert "first" in shown.readouterr().err
    (stats,) = run(shown, "cleanup", uri, "--older-than", "0", "--keep-tagged", "--yes")
    assert stats["old_versions"] == done["version"] - 2
    assert lance.dataset(uri, version="first").count_rows() == 1000
    assert run(shown, "index", uri, "--drop", "id_idx") == []
    assert run(shown, "config", uri, "--set", "a.b=c")[0]["a.b"] == "c"
    assert run(shown, "validate", uri) == [{"valid": True, "findings": []}]
    run(shown, "alter", uri, "--drop", "raw")
    assert "raw" not in lance.dataset(uri).schema.names


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_file_is_inspected(tmp_path: Path, shown: Shown, version: str) -> None:
    lance.write_dataset(ROWS, tmp_path / "<t>", data_storage_version=version)
    (file,) = (tmp_path / "<t>" / "data").iterdir()
    columns = run(shown, "inspect", file)
    assert [row["column"] for row in columns] == ROWS.schema.names
    assert all(row["encoding"] for row in columns)
    pages = run(shown, "inspect", file, "--pages")
    assert sum(page["bytes"] for page in pages) == sum(row["bytes"] for row in columns)
    assert sum(row["bytes"] for row in columns) < file.stat().st_size
    assert {page["rows"] for page in pages} == {1000}
    run(shown, "inspect", file, "--html", tmp_path / "file.html")
    page = (tmp_path / "file.html").read_text()
    assert "&lt;t&gt;" in page
    assert "<t>" not in page
    assert page.count("<tr>") == 1 + len(columns)


def test_a_read_is_traced(uri: str, shown: Shown, tmp_path: Path) -> None:
    (totals,) = run(shown, "trace", uri, "--take", "5", "--html", tmp_path / "trace.html")
    assert totals["num_requests"] >= 3
    assert "<script" in (tmp_path / "trace.html").read_text()
    (totals,) = run(shown, "trace", uri, "--filter", "id = 5")
    assert totals["num_bytes"] > 0


def test_a_store_is_named_by_options(lab: Lab, shown: Shown, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    pairs = lab.lance_options().items()
    storage = [text for pair in pairs for text in ("--storage", "=".join(pair))]
    table = "s3://lab/command/t"
    run(shown, "write", table, tmp_path / "a.parquet", *storage)
    assert run(shown, "count", table, *storage) == [{"rows": 1000}]
    (report,) = run(shown, "check-store", "s3://lab/command", *storage)
    assert all(check["failure"] is None for check in report["checks"])


def test_people_get_tables(uri: str, shown: Shown) -> None:
    assert main(["head", uri, "-n", "1", "--columns", "id,raw"]) == 0
    assert re.search(r"id\s+raw", shown.readouterr().out)
    assert main(["info", uri]) == 0
    assert re.search(r"^rows +1000 *$", shown.readouterr().out, re.M)


def test_without_rich_json_works_and_tables_say_what_is_missing(
    uri: str, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert run(shown, "count", uri) == [{"rows": 1000}]
    assert main(["info", uri]) == 1
    assert "'rich>=13'` (alance's extra `cli`)" in shown.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["count", "{}/none"], "alance count: dataset "),
        (["count", "{}", "--filter", "pric > 5"], "pric"),
        (["count", "{}", "--version", "99"], "99"),
        (["write", "{}", "none.parquet"], "none.parquet: no such file"),
        (["write", "{}", "{}/_versions"], "unknown ending"),
        (["append", "{}/none", __file__, "--format", "csv"], "no such folder"),
        (["index", "{}", "--drop", "none"], "none"),
        (["index", "{}", "--create", "id", "--type", "IFV_PQ"], "INVERTED, or of vectors IVF_"),
        (["sql", "{}", "select pric from dataset"], "pric"),
        (["copy", "{}", "{}"], "exists already"),
        (["count", "{}", "--branch", "b", "--version", "tag"], "a tag names its own branch"),
    ],
)
def test_failures_are_one_line_without_a_trace(
    uri: str, shown: Shown, arguments: list[str], message: str
) -> None:
    assert main([text.format(uri) for text in arguments]) == 1
    error = shown.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


def test_findings_end_with_status_2(uri: str, shown: Shown) -> None:
    next(Path(uri, "data").iterdir()).unlink()
    assert main(["validate", uri]) == 2
    assert "1 finding" in shown.readouterr().out


def test_a_reader_that_leaves_is_no_error(uri: str) -> None:
    command = f"{sys.executable} -m alance cat {uri} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0
    assert done.stderr == b""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_know_all_subcommands(shell: str, shown: Shown) -> None:
    assert main(["completions", shell]) == 0
    script = shown.readouterr().out
    for name in _subcommands().choices:
        assert name in script
    if shell == "bash":
        probe = f"{script}\nCOMP_WORDS=(alance ver) COMP_CWORD=1; _alance; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", probe], capture_output=True, check=True, text=True)
        assert done.stdout.split()[:1] == ["versions"]


def test_the_page_of_the_command_has_all_subcommands() -> None:
    page = (ROOT / "docs" / "command.md").read_text()
    subcommands = _subcommands()
    assert set(re.findall(r"^\| `alance ([\w-]+)", page, re.M)) == set(subcommands.choices)


def _subcommands() -> argparse._SubParsersAction[argparse.ArgumentParser]:
    (action,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    return action
