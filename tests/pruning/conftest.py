"""Small tables are asked as large ones are."""

from __future__ import annotations

import pytest

from alance.ops.read import pruning


@pytest.fixture(autouse=True)
def nothing_is_too_small_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "LEAST_WORK", -1)
