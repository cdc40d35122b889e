"""The process killed at many a turn of a compaction or cleanup: no row and no version is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest

from tests.changing.both_ways import META, Twins, read

SCRIPT = Path(__file__).with_name("killed_upkeep.py")
COLUMNS = ["id", "s", "l", "_rowid", *META[2:]]
INDEXED = {f"id = {number}": 1 for number in (0, 7, 12, 19)}


@pytest.mark.parametrize("verb", ["compact", "cleanup", "defer"])
def test_at_many_a_turn(tmp_path: Path, verb: str) -> None:
    twins = Twins.make(tmp_path, enable_stable_row_ids=verb != "defer")
    columns = [column for column in COLUMNS if verb != "defer" or not column.startswith("_")]
    lance.dataset(twins.theirs).delete("id in (1, 5, 6)")
    lance.dataset(twins.theirs).update({"v": "v + 1"}, where="id > 17")
    lance.dataset(twins.theirs).create_scalar_index("id", "BTREE")
    before = read(twins.theirs).select(columns).to_pylist()
    command = [sys.executable, str(SCRIPT), str(twins.ours), verb]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[2])}
    ends = set()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        turn, answer = 0, "killed"
        while answer == "killed":
            turn += 1 + turn // 5  # an end of each phase is met; all turns take a minute
            twins.again()
            print(turn, file=process.stdin, flush=True)
            answer = process.stdout.readline().strip()
            table = lance.dataset(twins.ours)
            for item in table.versions():
                table.checkout_version(item["version"]).validate()
            assert read(twins.ours).select(columns).to_pylist() == before
            assert {question: table.count_rows(question) for question in INDEXED} == INDEXED
            ends.add((len(table.versions()), table.version))
        process.stdin.close()
    assert answer == "done 0"
    assert turn > 20
    if verb == "cleanup":
        assert {version for _, version in ends} == {4}
        assert {count for count, _ in ends} >= {1, 4}
    else:
        assert {(4, 4), (6, 6)} <= ends <= {(4, 4), (5, 5), (6, 6)}
