"""The subcommands `health` and `maintain`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance.command import main

if TYPE_CHECKING:
    from pathlib import Path

Shown = pytest.CaptureFixture[str]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = tmp_path / "t"
    for number in range(6):
        rows = pa.table({"id": range(10 * number, 10 * number + 10)})
        dataset = lance.write_dataset(rows, path, mode="append" if number else "create")
        if number == 2:
            dataset.create_scalar_index("id", "BTREE")
    return str(path)


def run(shown: Shown, *arguments: str) -> list[Any]:
    assert main([*arguments, "--json"]) == 0
    return [json.loads(line) for line in shown.readouterr().out.splitlines()]


def test_health_shows_what_maintenance_judges(uri: str, capsys: Shown) -> None:
    (state,) = run(capsys, "health", uri)
    assert (state["num_fragments"], state["num_versions"], state["deleted_share"]) == (6, 7, 0)
    assert state["last_run"] is None
    (index,) = state["indices"]
    assert index == {
        "name": "id_idx",
        "index_type": "BTree",
        "num_segments": 1,
        "num_unindexed_rows": 30,
        "num_unindexed_fragments": 3,
    }
    assert main(["health", uri]) == 0
    assert "id_idx (BTree): 1 segments, 30 rows not indexed" in capsys.readouterr().out


def test_health_and_info_show_what_a_cleanup_frees(uri: str, capsys: Shown) -> None:
    assert "num_reclaimable_bytes" not in run(capsys, "health", uri)[0]
    assert "reclaimable_bytes" not in run(capsys, "info", uri)[0]
    lance.dataset(uri).update_config(
        {"alance.maintenance.older_than": "0s", "alance.maintenance.retain_versions": "1"}
    )
    (state,) = run(capsys, "health", uri, "--reclaimable")
    (facts,) = run(capsys, "info", uri, "--reclaimable")
    assert state["num_reclaimable_bytes"] == facts["reclaimable_bytes"] > 0
    # Seven manifests, and their transactions; the latest version needs all data.
    assert state["num_reclaimable_files"] == facts["reclaimable_files"] == 14
    assert main(["health", uri, "--reclaimable"]) == 0
    assert "KiB" in capsys.readouterr().out


def test_info_shows_rows_that_indices_lack_and_the_age_of_the_last_maintenance(
    uri: str, capsys: Shown
) -> None:
    (facts,) = run(capsys, "info", uri)
    assert (facts["unindexed_rows"], facts["last_maintenance"]) == ({"id_idx": 30}, None)
    assert main(["maintain", uri, "--rule", "min_small_fragments=3"]) == 0
    capsys.readouterr()
    (facts,) = run(capsys, "info", uri)
    assert facts["unindexed_rows"] == {"id_idx": 0}
    assert facts["last_maintenance"]["steps"] == ["compact", "index"]
    assert facts["last_maintenance"]["age_seconds"] >= 0
    assert main(["info", uri]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"unindexed rows +id_idx=0 ", shown)
    assert re.search(r"last maintenance +\d+:\d\d:\d\d ago, by \S+:\d+ ", shown)


def test_maintain_does_what_a_dry_run_shows(uri: str, capsys: Shown) -> None:
    rule = ("--rule", "min_small_fragments=3")
    planned = run(capsys, "maintain", uri, "--dry-run", *rule)
    assert [(step["kind"], step["outcome"]) for step in planned] == [
        ("compact", "planned"),
        ("index", "planned"),
    ]
    assert main(["maintain", uri, *rule]) == 0
    assert "done        compact: 6 small fragments can be joined" in capsys.readouterr().out
    assert run(capsys, "maintain", uri, *rule) == []
    dataset = lance.dataset(uri)
    assert len(dataset.get_fragments()) == 2
    assert dataset.stats.index_stats("id_idx")["num_unindexed_rows"] == 0


def test_a_wrong_rule_or_time_is_named(uri: str, capsys: Shown) -> None:
    assert main(["maintain", uri, "--rule", "min_fragments=3"]) == 1
    assert "alance.maintenance.min_fragments: no such rule" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["maintain", uri, "--every", "often"])
    assert "'often'" in capsys.readouterr().err


def test_tail_prints_changes_as_json_lines(tmp_path: Path, capsys: Shown) -> None:
    path = str(tmp_path / "followed")
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    dataset = lance.write_dataset(rows, path, enable_stable_row_ids=True)
    dataset.update({"name": "'c'"}, where="id = 2")
    dataset.delete("id = 1")
    lines = run(capsys, "tail", path, "--since", "0", "--no-wait", "--before")
    assert [(line["version"], line["kind"]) for line in lines] == [
        (1, "insert"),
        (1, "insert"),
        (2, "update"),
        (3, "delete"),
    ]
    assert lines[2]["row"] == {"id": 2, "name": "c", "_rowid": 1}
    assert lines[2]["before"] == {"id": 2, "name": "b", "_rowid": 1}
    token = lines[2]["token"]
    assert run(capsys, "tail", path, "--since", token, "--no-wait") == [
        {"version": 3, "kind": "delete", "token": lines[3]["token"], "row": {"_rowid": 0}}
    ]
    assert run(capsys, "tail", path, "--no-wait") == []
