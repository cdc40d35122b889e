"""A table with deleted rows, on which changes are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

from tests.changing.both_ways import Twins

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [
    pytest.param({}, id="addresses"),
    pytest.param({"enable_stable_row_ids": True, "data_storage_version": "2.2"}, id="stable"),
]


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """20 rows in 4 fragments, of which 17 are live."""
    ours = Twins.make(tmp_path, **request.param).ours
    lance.dataset(str(ours)).delete("id in (0, 9, 12)")
    return ours
