"""`docs/from-lancedb.md` leaves out no public name of LanceDB; those of alance in it are there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import lancedb
import pytest
from lancedb.db import LanceDBConnection
from lancedb.query import LanceVectorQueryBuilder
from lancedb.table import LanceTable

import alance
import alance.sync
from alance.verbs.peer_names import COUNTERPARTS, OF_LANCEDB
from tests.pages import ROOT
from tests.test_from_pylance import CODE, NONE, public, tables

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = (ROOT / "docs" / "from-lancedb.md").read_text()
TABLES: Final = tables(PAGE)
OWNERS: Final = {
    "Connections": LanceDBConnection,
    "Tables": LanceTable,
    "Queries": LanceVectorQueryBuilder,
}
ENTERPRISE: Final = re.compile(r"function|job|secret|view|quer")


@pytest.mark.parametrize("section", OWNERS)
def test_each_name_has_a_row(section: str) -> None:
    listed = [name for theirs, _, _ in TABLES[section] for name in CODE.findall(theirs)]
    assert len(listed) == len(set(listed))
    names = public(OWNERS[section])
    if section == "Connections":
        names = {name for name in names if not ENTERPRISE.search(name)}
    assert set(listed) == names


@pytest.mark.parametrize("section", OWNERS)
def test_names_of_alance_in_the_tables_exist(section: str) -> None:
    for _, ours, _ in TABLES[section]:
        if ours == NONE:
            continue
        value: Any = alance
        for part in CODE.findall(ours)[0].split("."):
            value = getattr(value, part)


async def test_a_missing_attribute_is_an_error_that_names_the_counterpart(tmp_path: Path) -> None:
    expected = {
        name: ours.strip("`").removeprefix("Dataset.")
        for theirs, ours, _ in TABLES["Tables"]
        for name in CODE.findall(theirs)
        if ours != NONE and not hasattr(alance.Dataset, name) and name not in COUNTERPARTS
    }
    assert expected == OF_LANCEDB
    dataset = await alance.write_dataset({"x": [1]}, tmp_path / "t")
    with pytest.raises(AttributeError, match="'add'; its counterpart is `insert`"):
        dataset.add([{"x": 2}])  # type: ignore[attr-defined]


def test_both_write_and_read_the_tables_of_a_folder(tmp_path: Path) -> None:
    rows = [{"id": 1, "vector": [1.0, 2.0]}, {"id": 2, "vector": [3.0, 4.0]}]
    ours, theirs = alance.sync.connect(tmp_path), lancedb.connect(str(tmp_path))
    ours.create_table("a", rows)
    theirs.create_table("b", rows)
    assert list(ours) == sorted(theirs.list_tables().tables) == ["a", "b"]
    assert ours["a"].schema == ours["b"].schema == theirs.open_table("a").schema
    for name in ("a", "b"):
        near = ours[name].nearest("vector", [3.0, 4.0], k=1)
        assert near["id"].to_pylist() == [2]
        assert theirs.open_table(name).search([3.0, 4.0]).limit(1).to_list()[0]["id"] == 2


def test_a_blocking_catalog_is_a_mapping_of_tables(tmp_path: Path) -> None:
    catalog = alance.sync.connect(tmp_path)
    catalog.create_table("a", {"id": [1, 2]})
    assert "a" in catalog
    assert "b" not in catalog
    assert len(catalog) == 1
    assert catalog["a"].count_rows() == 2
    with pytest.raises(alance.TableNotFoundError):
        catalog["b"]
