"""The committed protobuf code is what `make protos` generates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_generated_code_is_current(tmp_path: Path) -> None:
    subprocess.run(
        [ROOT / "protos" / "generate.sh", str(tmp_path)],
        check=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    fresh = {path.name: path.read_text() for path in tmp_path.rglob("*_pb2.py*")}
    committed = {
        path.name: path.read_text() for path in (ROOT / "alance/format/proto").glob("*_pb2.py*")
    }
    assert fresh == committed
