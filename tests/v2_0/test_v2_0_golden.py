"""Tables that old releases wrote read as those releases read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import alance
from alance.errors import UnsupportedError
from tests.reference.golden import expected, rows

GOLDEN = Path(__file__).parent.parent / "golden" / "v2_0"
ALL = sorted(path.with_suffix("") for path in GOLDEN.glob("*/*.arrow"))
BLOBS = [path for path in ALL if path.name == "blobs"]
TABLES = [path for path in ALL if path.name != "blobs"]


def test_releases_are_there() -> None:
    """Each release has tables of all kinds that it writes."""
    assert {path.parent.name for path in TABLES} >= {
        "0.12.1",
        "0.13.0",
        "0.14.1",
        "0.16.1",
        "0.18.2",
        "0.20.0",
        "0.33.0",
        "1.0.0",
        "4.0.0",
    }


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parent.name}-{path.name}")
async def test_reads_as_its_release(path: Path) -> None:
    """All rows, single rows, single columns, in the types of the schema."""
    want = expected(path)
    dataset = await alance.dataset(f"{path}.lance")
    table = await dataset.to_table()
    assert table.schema.equals(want.schema)
    assert rows(table) == rows(want)
    places = [want.num_rows - 1, 0, 3, 20, 21, 3]
    assert rows(await dataset.take(places)) == rows(want.take(places))
    for name in want.column_names:
        result = await dataset.to_table(columns=[name], offset=2, limit=29)
        assert rows(result) == rows(want.select([name]).slice(2, 29))


@pytest.mark.parametrize(
    "path",
    [table for table in TABLES if table.name == "numbers"],
    ids=lambda path: path.parent.name,
)
async def test_filters_of_old_tables_keep_the_right_rows(path: Path) -> None:
    """Filters, with the columns that are read late."""
    want = expected(path).filter(pa.compute.field("int32") > 20)
    dataset = await alance.dataset(f"{path}.lance")
    assert rows(await dataset.to_table(filter="int32 > 20")) == rows(want)


@pytest.mark.parametrize("path", BLOBS, ids=lambda path: path.parent.name)
async def test_blobs_of_old_tables_have_their_bytes(path: Path) -> None:
    """The bytes that were written, of releases that store blobs as strings too."""
    want = expected(path).column("blob").to_pylist()
    dataset = await alance.dataset(f"{path}.lance")
    if path.parent.name in ("0.12.1", "0.13.0"):
        with pytest.raises(UnsupportedError, match="lists of bytes"):
            await dataset.to_table()
        return
    places = list(range(len(want)))[::-1]
    blobs = await dataset.take_blobs("blob", indices=places)
    assert [item and await item.read() for item in blobs] == [want[n] for n in places]
    scanned = await dataset.to_table(blob_handling="all_binary")
    assert scanned.column("blob").to_pylist() == want
