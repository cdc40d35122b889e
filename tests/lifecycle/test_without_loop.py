"""Coroutines that something else than asyncio drives, as trio does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
from alance.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("call", ["open", "write", "session"])
def test_without_a_loop_of_asyncio_the_error_says_what_to_use(tmp_path: Path, call: str) -> None:
    calls: dict[str, Any] = {
        "open": lambda: alance.dataset(tmp_path / "t"),
        "write": lambda: alance.write_dataset(pa.table({"a": [1]}), tmp_path / "t"),
        "session": lambda: alance.dataset(tmp_path / "t", session=alance.Session()),
    }
    coroutine = calls[call]()
    with pytest.raises(UnsupportedError, match=r"no event loop of asyncio .*`alance\.sync`"):
        coroutine.send(None)
    assert not (tmp_path / "t").exists()
