"""The subcommands `add-columns` and `alter`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance.command import main

if TYPE_CHECKING:
    from pathlib import Path

Shown = pytest.CaptureFixture[str]
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "price": [0.5, None, 2.5],
        "at": pa.array([{"lat": 1, "lon": 2}] * 3),
    }
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lance.write_dataset(ROWS, tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


def run(shown: Shown, *arguments: str) -> list[Any]:
    assert main([*arguments, "--json"]) == 0
    return [json.loads(line) for line in shown.readouterr().out.splitlines()]


def refused(shown: Shown, *arguments: str) -> str:
    assert main([*arguments]) == 1
    return shown.readouterr().err


def test_columns_are_computed_or_null(uri: str, capsys: Shown) -> None:
    rows = run(capsys, "add-columns", uri, "twice=id * 2", "text='a=b'", "--dry-run")
    assert rows[0] == {"twice": 2, "text": "a=b"}
    assert lance.dataset(uri).version == 1
    name = ("t", "--in", uri.removesuffix("/t.lance"))
    (facts,) = run(capsys, "add-columns", *name, "twice=id * 2", "text='a=b'")
    assert facts["columns"][-2:] == ["twice: int64", "text: string"]
    (plan,) = run(capsys, "add-columns", uri, "--nulls", "paid=decimal(10, 2)", "--dry-run")
    assert plan == {"column": "paid", "type": "decimal128(10, 2)"}
    run(capsys, "add-columns", uri, "--nulls", "paid=decimal(10, 2)", "--nulls", "seen=date32[day]")
    table = lance.dataset(uri).to_table()
    assert table["twice"].to_pylist() == [2, 4, 6]
    assert table.schema.field("paid").type == pa.decimal128(10, 2)
    assert table.schema.field("seen").type == pa.date32()
    assert "which columns?" in refused(capsys, "add-columns", uri)
    assert "two changes" in refused(capsys, "add-columns", uri, "x=1", "--nulls", "y=text")
    assert "already" in refused(capsys, "add-columns", uri, "id=1")


def test_columns_are_renamed_cast_and_dropped(uri: str, capsys: Shown) -> None:
    changes = ("--rename", "id=key", "--cast", "at.lat=double", "--nullable", "id")
    plan = run(capsys, "alter", uri, *changes, "--dry-run")
    assert [(row["column"], row["change"]) for row in plan] == [
        ("id", "rename to key, allow nulls"),
        ("at.lat", "cast to double"),
    ]
    assert plan[1]["rewrites_rows"] == 3
    run(capsys, "alter", uri, *changes)
    schema = lance.dataset(uri).schema
    assert schema.names == ["key", "price", "at"]
    assert schema.field("at").type.field("lat").type == pa.float64()
    assert main(["alter", uri, "--drop", "at.lon,price", "--dry-run"]) == 0
    assert "loses indices" in capsys.readouterr().out.replace("_", " ")
    (facts,) = run(capsys, "alter", uri, "--drop", "at.lon,price")
    assert facts["columns"] == ["key: int64", "at: struct<lat: double>"]


def test_a_dry_run_shows_what_prevents_a_change(uri: str, capsys: Shown) -> None:
    assert main(["index", uri, "--create", "id"]) == 0
    capsys.readouterr()
    (row,) = run(capsys, "alter", uri, "--not-null", "price", "--dry-run")
    assert row["prevented_by_nulls"] == 1
    assert "null" in refused(capsys, "alter", uri, "--not-null", "price")
    (row,) = run(capsys, "alter", uri, "--cast", "id=text", "--dry-run")
    assert row["prevented_by_indices"] == ["id_idx"]
    assert "id_idx" in refused(capsys, "alter", uri, "--cast", "id=text")
    (row,) = run(capsys, "alter", uri, "--drop", "id", "--dry-run")
    assert row["loses_indices"] == ["id_idx"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("", "nothing to change"),
        ("--drop price --rename id=x", "a change of its own"),
        ("--cast id=textt", "type 'textt': expected a type of SQL"),
        ("--rename pirce=x --dry-run", "no field 'pirce', did you mean 'price'?"),
        ("--rename pirce=x", "no field 'pirce'"),
        ("--rename id=price", "price"),
    ],
)
def test_mistakes_say_what_to_write(uri: str, capsys: Shown, changes: str, message: str) -> None:
    assert message in refused(capsys, "alter", uri, *changes.split())
