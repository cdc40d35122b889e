"""A shared table beside files that are no tables, and the check of a mistake's message."""

from __future__ import annotations

import shlex
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pytest

import alance.sync as alance
from alance.command import main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SIZE: Final = 8
VECTOR: Final = [1.0] * SIZE
PRIVATE: Final = "AKIAPRIVATE"
ROWS: Final = pa.table(
    {
        "id": pa.array(range(16), pa.int64()),
        "price": [float(number) for number in range(16)],
        "title": [f"title {number}" for number in range(16)],
        "day": [date(2024, 1, 1)] * 16,
        "tags": [["a", "b"]] * 16,
        "point": [{"x": 1, "y": 2}] * 16,
        "vector": pa.FixedSizeListArray.from_arrays(np.arange(16 * SIZE, dtype=np.float32), SIZE),
    }
)


class Place:
    """A folder with the table `items`, beside files that are no tables; and the blocking API."""

    def __init__(self, folder: Any) -> None:
        self.folder = folder
        self.api: Any = alance
        table: Any = alance.write_dataset(ROWS, folder / "items.lance")
        table = table.create_index("title", "INVERTED").create_scalar_index("id", "BTREE")
        table.tags.create("gold", 1)
        self.table = table
        self.uri = str(folder / "items.lance")
        self.new = folder / "new"
        self.catalog: Any = alance.connect(folder)
        (folder / "notes.txt").write_text("x")
        self.file: Any = alance.FileReader.open(next((folder / "items.lance" / "data").iterdir()))

    def insert(self, **values: object) -> object:
        """Insert a row of some columns."""
        return self.table.insert([values])


def check(act: Callable[[], object], parts: Sequence[str]) -> None:
    """Check the kind of an error and its message, with its notes."""
    with pytest.raises((alance.AlanceError, TypeError, AttributeError)) as caught:
        act()
    error = caught.value
    message = "\n".join([str(error), *getattr(error, "__notes__", [])])
    assert [part for part in parts if part not in message] == [], message
    assert PRIVATE not in message
    assert len(message) < 600, "a message shows names, no data"
    if isinstance(error, TypeError | AttributeError) and not isinstance(error, alance.AlanceError):
        words = ("unexpected keyword", "has no attribute", "its arguments are")
        assert any(word in message for word in words), message


def check_command(
    line: tuple[Any, ...], folder: Path, patch: pytest.MonkeyPatch, out: pytest.CaptureFixture[str]
) -> None:
    """Run a line of the command in a folder, and check its exit status and its line of error.

    Args:
        line: the text, the exit status, and parts of the message.
    """
    text, status, *parts = line
    patch.chdir(folder)
    try:
        code: object = main(shlex.split(text))
    except SystemExit as end:
        code = end.code
    message = out.readouterr().err
    assert code == status
    assert [part for part in parts if part not in message] == [], message
    assert len(message.splitlines()) == 1
    assert PRIVATE not in message


def rows_of(mistakes: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return rows as parameters, with ids that begin with what the message names."""
    return [
        pytest.param(act, parts, id=f"{number} {parts[0][:40]}")
        for number, (act, *parts) in enumerate(mistakes)
    ]
