"""Tables that are registered and deregistered, and properties of namespaces, beside pylance."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace
import lancedb
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace_urllib3_client.models import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    ListTablesRequest,
    RegisterTableRequest,
)

import alance
import alance.sync
from alance import (
    AlanceError,
    AlreadyExistsError,
    Catalog,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from alance.catalogs.catalog_manifest import CATALOG_SCHEMA, MANIFEST
from alance.distributed.folder_walk import DEREGISTERED

if TYPE_CHECKING:
    from alance.testing.lab import Lab

ROWS = pa.table({"id": [1, 2, 3]})
# pylance lists a root table only if its folder is `name.lance`, unless folders are not listed.
BY_ROWS = {"dir_listing_enabled": "false"}


@pytest.fixture
async def catalog(catalog: Catalog, root: str) -> Catalog:
    """With a namespace, and a table that has no name."""
    await catalog.create_namespace("ns")
    await alance.write_dataset(ROWS, f"{root}/old/items")
    return catalog


def names(theirs: DirectoryNamespace, *namespace: str) -> list[str]:
    return sorted(theirs.list_tables(ListTablesRequest(id=list(namespace))).tables)


async def test_a_table_is_registered_and_deregistered(
    catalog: Catalog, root: str, theirs: DirectoryNamespace
) -> None:
    name = ("ns", "it ems %20ü")
    await catalog.register_table(name, "old/items")
    assert await catalog.list_tables("ns") == names(theirs, "ns") == [name[1]]
    location = theirs.describe_table(DescribeTableRequest(id=list(name))).location
    assert lance.dataset(location).to_table() == ROWS
    assert await (await catalog.open_table(name)).count_rows() == 3
    with pytest.raises(AlreadyExistsError, match="it ems"):
        await catalog.register_table(name, Path("old/items"))
    with pytest.raises(NotFoundError, match="nowhere"):
        await catalog.register_table(("nowhere", "t"), "old/items")
    with pytest.raises(InvalidInputError, match=r"\.\./items"):
        await catalog.register_table("t", "../items")
    uri = await catalog.deregister_table(name)
    assert uri is not None
    assert uri.removeprefix("file://") == f"{root}/old/items"
    assert await (await alance.dataset(uri)).count_rows() == 3
    assert await catalog.list_tables("ns") == names(theirs, "ns") == []
    with pytest.raises(TableNotFoundError, match="it ems"):
        await catalog.deregister_table(name)


async def test_what_pylance_registered_is_there(
    catalog: Catalog, root: str, theirs: DirectoryNamespace
) -> None:
    theirs.register_table(RegisterTableRequest(id=["ns", "a"], location="old/items"))
    assert await (await catalog.open_table(("ns", "a"))).count_rows() == 3
    await catalog.deregister_table(("ns", "a"))
    assert names(theirs, "ns") == []
    await catalog.register_table(("ns", "b"), "old/items")
    theirs.deregister_table(DeregisterTableRequest(id=["ns", "b"]))
    assert not await catalog.table_exists(("ns", "b"))
    assert os.listdir(f"{root}/old") == ["items"]


async def test_a_name_in_the_root_stands_for_another_folder(root: str) -> None:
    theirs = DirectoryNamespace(root=root, **BY_ROWS)
    catalog = await alance.connect(root)
    await alance.write_dataset(ROWS, f"{root}/old/items")
    await catalog.create_namespace("old")
    await catalog.register_table("items", "old/items")
    await catalog.register_table(("old", "items"), f"{root}/old/items")
    assert await catalog.list_tables() == names(theirs) == ["items"]
    theirs.register_table(RegisterTableRequest(id=["more"], location="old/items"))
    assert await (await catalog.open_table("more")).count_rows() == 3
    await catalog.rename_table("items", "things")
    await catalog.rename_table(("old", "items"), ("old", "things"))
    assert os.listdir(f"{root}/old") == ["items"]  # only names have changed
    assert await catalog.list_tables() == names(theirs) == ["more", "things"]
    await catalog.deregister_table("things")
    await catalog.drop_table("more")
    assert await catalog.list_tables("old", include_declared=False) == []
    assert os.listdir(f"{root}/old") == []


async def test_a_name_in_a_namespace_follows_a_folder_of_the_root(root: str) -> None:
    catalog = await alance.connect(root)
    await catalog.create_namespace("a")
    await catalog.create_table("a", ROWS)
    await catalog.register_table(("a", "x"), "a.lance")
    await catalog.rename_table(("a", "x"), ("a", "y"))
    assert await catalog.list_tables() == ["a"]
    await catalog.rename_table("a", "b")  # moves the folder, and the other name with it
    assert await catalog.deregister_table(("a", "y")) == f"{root}/b.lance"
    assert await (await catalog.open_table("b")).count_rows() == 3


async def test_a_table_of_the_root_is_hidden_and_restored(root: str) -> None:
    catalog = await alance.connect(root)
    without = DirectoryNamespace(root=root, manifest_enabled="false")
    for name in ("a", "b"):
        await catalog.create_table(name, ROWS)
    assert await catalog.deregister_table("a") == f"{root}/a.lance"
    for theirs in (without, DirectoryNamespace(root=root)):
        assert await catalog.list_tables() == names(theirs) == ["b"]
        with pytest.raises(lance_namespace.TableNotFoundError, match="deregistered"):
            theirs.describe_table(DescribeTableRequest(id=["a"]))
    assert await catalog.list_tables(include_declared=False) == ["b"]
    assert lancedb.connect(root).list_tables().tables == ["a", "b"]  # it lists folders alone
    for call in (catalog.open_table, catalog.deregister_table, catalog.drop_table):
        with pytest.raises(TableNotFoundError, match=r"restore it by register_table\('a', 'a.lan"):
            await call("a")
    with pytest.raises(TableNotFoundError, match="restore"):
        await catalog.create_table("a", ROWS, mode="overwrite")
    for taken in (catalog.create_table("a", ROWS), catalog.rename_table("b", "a")):
        with pytest.raises(AlreadyExistsError, match="restore"):
            await taken
    with pytest.raises(AlreadyExistsError, match="restore"):
        await catalog.register_table("a", "b.lance")
    await catalog.register_table("a", f"{root}/a.lance")
    assert await catalog.list_tables() == names(without) == ["a", "b"]
    with pytest.raises(AlreadyExistsError, match="there is a table 'a' already"):
        await catalog.register_table("a", "a.lance")
    without.deregister_table(DeregisterTableRequest(id=["b"]))
    assert await catalog.list_tables() == ["a"]
    await catalog.register_table("b", "b.lance")
    assert names(without) == ["a", "b"]
    await catalog.deregister_table("b")
    await alance.drop(f"{root}/b.lance")
    await catalog.create_table("b", ROWS)


async def test_a_row_of_the_root_is_hidden_with_its_folder(
    root: str, theirs: DirectoryNamespace
) -> None:
    catalog = await alance.connect(root)
    for name in ("a", "b"):
        location = theirs.declare_table(DeclareTableRequest(id=[name])).location
        lance.write_dataset(ROWS, location)
    await catalog.deregister_table("a")
    DirectoryNamespace(root=root, manifest_enabled="false").deregister_table(
        DeregisterTableRequest(id=["b"])
    )
    assert await catalog.list_tables() == []
    for name in ("a", "b"):
        await catalog.register_table(name, f"{name}.lance")
        assert await (await catalog.open_table(name)).count_rows() == 3
    theirs.declare_table(DeclareTableRequest(id=["c"]))
    with pytest.raises(TableNotFoundError, match="declared, not written"):
        await catalog.deregister_table("c")


async def test_locations_without_a_table_or_outside_are_refused(root: str) -> None:
    catalog = await alance.connect(root)
    await catalog.create_table("a", ROWS)
    await alance.write_dataset(ROWS, f"{root}-beside")
    for location in ("nothing", "a.lance/data", "__", f"{root}/nothing", f"file://{root}/none"):
        with pytest.raises(TableNotFoundError, match=r"location .* there is no table in"):
            await catalog.register_table("t", location)
    outside = ["", ".", "..", f"{root}-beside", "/", "s3://bucket/t", root, f"file://{root}-beside"]
    for location in [*outside, MANIFEST, f"a.lance/../{MANIFEST}", f"{root}/{MANIFEST}"]:
        with pytest.raises(InvalidInputError, match="expected a table's folder below"):
            await catalog.register_table("t", location)
    for wrong in (None, 3, "a\ud800"):
        with pytest.raises(InvalidInputError, match="location"):
            await catalog.register_table("t", wrong)  # type: ignore[arg-type]
    assert await catalog.list_tables() == ["a"]


async def test_of_calls_that_register_a_name_only_the_first_succeeds(root: str) -> None:
    catalogs = [await alance.connect(root) for _ in range(4)]
    await catalogs[0].create_namespace("ns")
    await catalogs[0].create_table("a", ROWS)
    calls = (each.register_table(("ns", "t"), "a.lance") for each in catalogs)
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert results.count(None) == 1
    refusal = f"catalog {root!r}: there is a table 'ns.t' already"
    assert sum(str(result) == refusal for result in results) == 3
    assert await catalogs[0].list_tables("ns") == ["t"]


@pytest.mark.parametrize("action", ["apply_reset", "status"])
async def test_an_answer_that_is_lost_is_found_out(lab: Lab, action: str) -> None:
    uri = f"s3://lab/registered-{action}"
    catalog = await alance.connect(uri, storage_options=lab.lance_options())
    await catalog.create_namespace("ns", properties={"n": "0"})
    await catalog.create_table("a?%20", ROWS)
    fault = {"op": "PUT", "times": 1, "action": action, "status": 503}

    async def unlucky(key: str, call: Any) -> Any:
        lab.config(faults=[{**fault, "key": key}])
        try:
            return await call
        finally:
            lab.calm()

    name = ("ns", "t")
    await unlucky("_versions", catalog.register_table(name, "a?%20.lance"))
    assert await unlucky("_versions", catalog.update_namespace("ns", {"n": "1"})) == {"n": "1"}
    assert await unlucky(DEREGISTERED, catalog.deregister_table("a?%20")) is not None
    assert await catalog.list_tables() == []
    location = await catalog.deregister_table(name)
    assert location is not None
    await catalog.register_table("a?%20", location)
    assert await (await catalog.open_table("a?%20")).count_rows() == 3


async def test_a_call_that_is_cancelled_has_happened_or_not(lab: Lab) -> None:
    catalog = await alance.connect("s3://lab/half", storage_options=lab.lance_options())
    await catalog.create_namespace("ns")
    await catalog.create_table("a", ROWS)
    for turns in range(0, 60, 6):
        for name in ("a", ("ns", "t")):
            for call in (
                lambda name=name: catalog.register_table(name, "a.lance"),
                lambda name=name: catalog.deregister_table(name),
            ):
                task = asyncio.ensure_future(call())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                exists = await catalog.table_exists(name)
                listed = await catalog.list_tables(name[:-1] if isinstance(name, tuple) else ())
                assert exists == bool(listed)
    if not await catalog.table_exists("a"):
        await catalog.register_table("a", "a.lance")
    assert await (await catalog.open_table("a")).count_rows() == 3


async def test_namespaces_have_properties(catalog: Catalog, theirs: DirectoryNamespace) -> None:
    await catalog.create_namespace(("ns", "eu"), properties={"owner": "ann", "ü": ""})
    assert await catalog.describe_namespace("ns") == {}
    assert await catalog.describe_namespace(("ns", "eu")) == {"owner": "ann", "ü": ""}
    seen_by_pylance = theirs.describe_namespace(
        DescribeNamespaceRequest(id=["ns", "eu"])
    ).properties
    assert seen_by_pylance == {"owner": "ann", "ü": ""}
    theirs.create_namespace(CreateNamespaceRequest(id=["us"], properties={"a": "b"}))
    assert await catalog.describe_namespace("us") == {"a": "b"}
    with pytest.raises(NotFoundError, match="asia"):
        await catalog.describe_namespace("asia")
    with pytest.raises(InvalidInputError, match="root"):
        await catalog.describe_namespace(())
    for wrong in ({"a": 1}, {1: "a"}, {"a": None}, ["a"]):
        with pytest.raises(InvalidInputError, match="propert"):
            await catalog.create_namespace("new", properties=wrong)  # type: ignore[arg-type]
    assert await catalog.list_namespaces() == ["ns", "us"]


async def test_properties_change_only_in_folders(
    catalog: Catalog, root: str, theirs: DirectoryNamespace
) -> None:
    if catalog.uri != root:
        with pytest.raises(UnsupportedError, match=r"only by create_namespace.*alance\.connect"):
            await catalog.update_namespace("ns", {"a": "b"})
        return
    for changes, replace, after in (
        ({"a": "1", "b": "2"}, False, {"a": "1", "b": "2"}),
        ({"a": None, "c": "'?\"\n"}, False, {"b": "2", "c": "'?\"\n"}),
        ({"missing": None}, True, {}),
    ):
        assert await catalog.update_namespace("ns", changes, replace=replace) == after
        seen_by_pylance = theirs.describe_namespace(DescribeNamespaceRequest(id=["ns"])).properties
        assert seen_by_pylance == await catalog.describe_namespace("ns") == after
    changes = [catalog.update_namespace("ns", {f"k{number}": "v"}) for number in range(6)]
    await asyncio.gather(*changes)
    assert len(await catalog.describe_namespace("ns")) == 6
    with pytest.raises(NotFoundError, match="nowhere"):
        await catalog.update_namespace("nowhere", {"a": "b"})
    with pytest.raises(InvalidInputError, match="property 'a'"):
        await catalog.update_namespace("ns", {"a": 1})  # type: ignore[dict-item]
    await catalog.create_table(("ns", "t"), ROWS)
    assert await catalog.list_tables("ns") == ["t"]


@pytest.mark.parametrize("text", ["no json", "[]", '"a"'])
async def test_properties_that_are_no_properties_are_an_error(root: str, text: str) -> None:
    row = {"object_id": "ns", "object_type": "namespace", "metadata": text}
    rows = pa.Table.from_pylist([row], schema=CATALOG_SCHEMA)
    await alance.write_dataset(rows, f"{root}/{MANIFEST}")
    catalog = await alance.connect(root)
    with pytest.raises(CorruptFileError, match="expected an object in JSON"):
        await catalog.describe_namespace("ns")
    assert await catalog.update_namespace("ns", {"a": "b"}, replace=True) == {"a": "b"}


class Poor:
    """A client without the calls of this file."""

    def list_tables(self, request: Any) -> Any: ...

    def describe_table(self, request: Any) -> Any: ...


@pytest.mark.parametrize("kind", ["poor", "unmanaged"])
async def test_catalogs_that_cannot_say_what_to_do_instead(root: str, kind: str) -> None:
    unmanaged = DirectoryNamespace(root=root, manifest_enabled="false")
    catalog = await alance.connect(Poor() if kind == "poor" else unmanaged)
    with pytest.raises(UnsupportedError, match="write the table by create_table; folders and"):
        await catalog.register_table("t", "t.lance")
    if kind == "poor":
        with pytest.raises(UnsupportedError, match="drop_table deletes a table with its data"):
            await catalog.deregister_table("t")
        with pytest.raises(UnsupportedError, match="have properties of namespaces"):
            await catalog.describe_namespace("ns")


def test_the_blocking_face_registers_tables(root: str) -> None:
    catalog = alance.sync.connect(root)
    catalog.create_namespace("ns", properties={"a": "b"})
    catalog.create_table("t", ROWS)
    assert catalog.deregister_table("t") == f"{root}/t.lance"
    assert "t" not in catalog
    catalog.register_table(("ns", "t"), "t.lance")
    assert catalog.open_table(("ns", "t")).count_rows() == 3
    assert catalog.update_namespace("ns", {"c": "d"}) == {"a": "b", "c": "d"}
    assert catalog.describe_namespace("ns") == {"a": "b", "c": "d"}
    with pytest.raises(AlanceError):
        catalog.register_table("t", "t")
