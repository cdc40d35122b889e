"""Subcommands on catalogs, and those that change rows or remove for good."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from lance.namespace import RestAdapter

import alance
import alance.sync
from alance.command import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Shown = pytest.CaptureFixture[str]


@pytest.fixture(params=["folder", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A catalog with tables `a` and `eu/b`: a folder, or pylance's server over it."""
    folder = str(tmp_path / "shop")
    with RestAdapter("dir", {"root": folder}, port=0) as server:
        place = folder if request.param == "folder" else f"http://127.0.0.1:{server.port}"
        catalog = alance.sync.connect(place)
        catalog.create_namespace("eu")
        catalog.create_table("a", {"id": [1, 2, 3], "name": ["x", "y", "z"]})
        catalog.create_table(("eu", "b"), {"id": [7]})
        yield place


@pytest.fixture
def uri(tmp_path: Path) -> str:
    rows = {"id": [1, 2, 3], "name": ["one", "two", "two"], "vector": [[0.0, 1.0]] * 3}
    alance.sync.write_dataset(rows, tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


def run(shown: Shown, *arguments: str) -> list[Any]:
    assert main([*arguments, "--json"]) == 0
    return [json.loads(line) for line in shown.readouterr().out.splitlines()]


def failure(shown: Shown, *arguments: str) -> str:
    """Return the only line of a command that fails."""
    try:
        status = main(arguments)
    except SystemExit as error:
        status = int(error.code or 0)
    assert status in (1, 2)
    line = shown.readouterr().err
    assert line.count("\n") == 1
    return line


def test_tables_are_listed_read_and_changed_by_name(place: str, capsys: Shown) -> None:
    assert run(capsys, "ls", place) == [{"table": "eu/"}, {"table": "a"}]
    assert run(capsys, "ls", place, "eu") == [{"table": "eu/b"}]
    assert run(capsys, "ls", place, "--all") == [{"table": "a"}, {"table": "eu/b"}]
    rows = run(capsys, "ls", place, "--long")
    assert rows[0] == {"table": "eu/", "note": "namespace"}
    assert (rows[1]["table"], rows[1]["version"], rows[1]["rows"]) == ("a", 1, 3)
    assert run(capsys, "head", "eu/b", "--in", place) == [{"id": 7}]
    (done,) = run(capsys, "update", "a", "--in", place, "--set", "name='w'", "--filter", "id = 1")
    assert done["num_updated_rows"] == 1
    assert run(capsys, "count", "a", "--in", place, "--filter", "name = 'w'") == [{"rows": 1}]


def test_tables_are_written_to_a_catalog(place: str, tmp_path: Path, capsys: Shown) -> None:
    (tmp_path / "new.csv").write_text("id,name\n1,q\n9,r\n")
    new = str(tmp_path / "new.csv")
    (done,) = run(capsys, "write", "eu/c", new, "--in", place, "--file-version", "2.1")
    assert done["rows_written"] == 2
    (info,) = run(capsys, "info", "eu/c", "--in", place)
    assert info["file_version"] == "2.1"
    run(capsys, "append", "a", new, "--in", place)
    (done,) = run(capsys, "upsert", "eu/c", new, "--on", "id", "--in", place)
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (2, 0)
    assert run(capsys, "count", "a", "--in", place) == [{"rows": 5}]
    assert "already" in failure(capsys, "write", "eu/c", new, "--in", place)


def test_a_table_is_dropped_only_if_told_so(place: str, capsys: Shown) -> None:
    (shown,) = run(capsys, "drop", "a", "--in", place, "--dry-run")
    assert (shown["dropped"], shown["rows"], shown["version"]) == (False, 3, 1)
    assert "add --yes to do it, or --dry-run" in failure(capsys, "drop", "a", "--in", place)
    assert run(capsys, "ls", place, "--all") == [{"table": "a"}, {"table": "eu/b"}]
    assert run(capsys, "drop", "a", "--in", place, "--yes")[0]["dropped"] is True
    assert run(capsys, "ls", place, "--all") == [{"table": "eu/b"}]
    assert "no table 'a'" in failure(capsys, "drop", "a", "--in", place, "--yes") or "http" in place


def test_a_terminal_is_asked(uri: str, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert main(["drop", uri]) == 1
    question = f"drop {uri} with all its versions (3 rows)? [y/N] "
    assert capsys.readouterr().err == f"{question}alance drop: nothing was done\n"
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert main(["drop", uri]) == 0
    with pytest.raises(alance.TableNotFoundError):
        alance.sync.dataset(uri)


def test_tables_are_renamed_by_name_or_path(tmp_path: Path, capsys: Shown) -> None:
    folder = str(tmp_path / "shop")
    alance.sync.connect(folder).create_table("a", {"id": [1]})
    run(capsys, "rename", "a", "b", "--in", folder)
    assert run(capsys, "ls", folder) == [{"table": "b"}]
    run(capsys, "rename", f"{folder}/b.lance", f"{folder}/c.lance")
    assert run(capsys, "ls", folder) == [{"table": "c"}]


def test_namespaces_are_made_listed_and_deleted(place: str, capsys: Shown) -> None:
    run(capsys, "namespaces", place, "--create", "eu/north")
    rows = run(capsys, "namespaces", place, "--create", "us")
    assert rows == [{"namespace": name} for name in ("eu", "eu/north", "us")]
    assert run(capsys, "namespaces", place, "--delete", "us") == rows[:2]
    assert "not empty" in failure(capsys, "namespaces", place, "--delete", "eu")
    assert run(capsys, "ls", place, "--long", "eu")[1]["table"] == "eu/b"


def test_namespaces_have_properties(place: str, capsys: Shown) -> None:
    create = ("namespaces", place, "--create", "us", "--set", "owner=ann", "--set", "tier=")
    rows = run(capsys, *create, "--long")
    assert rows[1] == {"namespace": "us", "properties": {"owner": "ann", "tier": ""}}
    change = ("namespaces", place, "--change", "us", "--set", "owner=bob", "--unset", "tier")
    if place.startswith("http"):
        assert "only by create_namespace" in failure(capsys, *change)
        return
    assert run(capsys, *change, "--long")[1]["properties"] == {"owner": "bob"}
    assert main(["namespaces", place, "--long"]) == 0
    assert "owner" in capsys.readouterr().out


def test_names_are_registered_and_deregistered(place: str, capsys: Shown) -> None:
    run(capsys, "register", "eu/c", "a.lance", "--in", place)
    assert run(capsys, "count", "eu/c", "--in", place) == [{"rows": 3}]
    (done,) = run(capsys, "deregister", "eu/c", "--in", place)
    assert done["location"].endswith("shop/a.lance")
    assert run(capsys, "ls", place, "--all") == [{"table": "a"}, {"table": "eu/b"}]


def test_rows_to_change_are_counted_first(uri: str, capsys: Shown) -> None:
    condition = "name = 'two'"
    assert run(capsys, "delete", uri, condition, "--dry-run") == [{"rows_to_delete": 2}]
    arguments = ("update", uri, "--set", "id=id + 1", "--filter", condition)
    assert run(capsys, *arguments, "--dry-run") == [{"rows_to_update": 2}]
    assert alance.sync.dataset(uri).version == 1
    run(capsys, *arguments)
    assert sorted(alance.sync.dataset(uri).to_table()["id"].to_pylist()) == [1, 3, 4]


def test_rows_are_searched_by_words_and_vectors(uri: str, capsys: Shown) -> None:
    run(capsys, "index", uri, "--create", "name", "--type", "INVERTED")
    rows = run(capsys, "search", uri, "--columns", "id", "-k", "5", "two")
    assert sorted(row["id"] for row in rows) == [2, 3]
    rows = run(capsys, "search", uri, "--vector", "[0,1]", "-k", "1", "--columns", "id")
    assert rows == [{"id": 1, "_distance": 0.0}]
    rows = run(capsys, "search", uri, "one", "--vector", "0,1", "-k", "1", "--columns", "id")
    assert rows[0]["id"] == 1


def test_old_versions_are_removed_only_if_told_so(uri: str, capsys: Shown) -> None:
    dataset = alance.sync.dataset(uri)
    dataset.delete("id = 1")
    assert run(capsys, "cleanup", uri, "--older-than", "7d")[0]["old_versions"] == 0
    line = failure(capsys, "cleanup", uri, "--older-than", "0s")
    assert "remove 1 versions" in line
    assert "KiB" in line or " B: " in line
    assert run(capsys, "cleanup", uri, "--older-than", "0", "--dry-run")[0]["old_versions"] == 1
    assert run(capsys, "cleanup", uri, "--older-than", "0", "--yes")[0]["old_versions"] == 1
    dataset.checkout_latest().create_branch("dev")
    assert "--yes" in failure(capsys, "branches", uri, "--delete", "dev")
    assert run(capsys, "branches", uri, "--delete", "dev", "--yes") == []


MISTAKES = [
    (["drop", "PLACE", "a"], "a table of a catalog is named by `alance drop a --in PLACE`"),
    (["head", "PLACE"], "list it by `alance ls`, and name a table of it by `NAME --in FOLDER`"),
    (["head", "b", "--in", "PLACE"], "no table 'b'"),
    (["ls", "PLACE/a.lance"], "is a table; show it by `alance info PLACE/a.lance`"),
    (["ls", "PLACE/none"], "expected a folder of tables, or a catalog's URI"),
    (["ls", "PLACE", "us"], "no namespace 'us'"),
    (["rename", "b", "c", "--in", "PLACE"], "no table 'b'"),
    (["register", "PLACE/b.lance", "a.lance"], "alance register NAME a.lance --in FOLDER"),
    (["register", "b", "c.lance", "--in", "PLACE"], "there is no table in 'PLACE/c.lance'"),
    (["deregister", "PLACE/a.lance"], "a name is of a catalog: alance deregister NAME --in"),
    (["deregister", "b", "--in", "PLACE"], "no table 'b'"),
    (["namespaces", "PLACE", "--set", "a=b"], "of which namespace? Add --change NAME"),
    (["cleanup", "PLACE/a.lance", "--older-than", "7 dogs"], "expected such as 90s, 7d or 2w"),
    (["maintain", "PLACE", "--every", "often"], "expected such as 90s, 7d or 2w"),
    (["maintain", "PLACE", "--max-bytes", "much"], "expected bytes, such as 1000000 or 512MiB"),
    (["search", "PLACE/a.lance"], "expected words, or --vector 0.1,0.2,..."),
    (["search", "PLACE/a.lance", "--vector", "0,1"], "0 columns of vectors; add --vector-column"),
    (["search", "PLACE/a.lance", "--vector", "near"], "expected numbers with commas between"),
    (["update", "PLACE/a.lance", "--set", "name"], "expected KEY=VALUE"),
    (["update", "PLACE/a.lance"], "required: --set"),
    (["update", "a", "--in", "PLACE", "--set", "name=y"], """quotes: --set "name='y'\""""),
    (["upsert", "PLACE/a.lance", "PLACE/x.csv", "--on", "id"], "no such file"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_gives_a_line_that_says_what_to_write(
    tmp_path: Path, capsys: Shown, arguments: list[str], message: str
) -> None:
    folder = str(tmp_path / "shop")
    alance.sync.connect(folder).create_table("a", {"id": [1], "name": ["x"]})
    line = failure(capsys, *(text.replace("PLACE", folder) for text in arguments))
    assert message.replace("PLACE", folder) in line
