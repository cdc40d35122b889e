"""Text indices of old releases are refused by name; other indices and searches still work."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import lance
import pytest

import alance

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "text_index" / "0.27.0" / "t.lance"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "t.lance"))


async def test_a_search_says_what_to_do(path: Path) -> None:
    dataset = await alance.dataset(path)
    message = "index text_idx of .*old release.*create the index again, or .*use_index=False"
    with pytest.raises(alance.UnsupportedError, match=message):
        await dataset.search_text("fox")
    with pytest.raises(alance.UnsupportedError, match=message):
        await dataset.prewarm_index("text_idx")
    rows = await dataset.search_text("fox", on="text", use_index=False, columns=["id"])
    assert rows["id"].to_pylist() == [5, 1, 3]
    dataset = await dataset.create_index("text", "INVERTED", replace=True)
    rows = await dataset.search_text("fox", columns=["id"])
    expected = lance.dataset(path).to_table(columns=["id"], full_text_query="fox")
    assert sorted(rows["id"].to_pylist()) == sorted(expected["id"].to_pylist()) == [0, 1, 3, 5, 6]


async def test_other_indices_are_brought_up_to_date(path: Path) -> None:
    dataset = await alance.dataset(path)
    dataset = await dataset.optimize.optimize_indices()
    covered = {index["name"]: index["fragment_ids"] for index in dataset.list_indices()}
    assert covered == {"text_idx": {0}, "key_idx": {0, 1}}
    message = str(await dataset.scanner(filter="key = 'k6'").explain())
    assert "1 rows of 2 fragments" in message
