"""Glue and Unity as catalogs: databases and schemas are namespaces, some tables are of Lance."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import boto3
import pytest

import alance
from alance.catalogs.glue import Glue
from alance.command import main
from alance.errors import (
    AccessError,
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    MissingPackageError,
    NotFoundError,
    StoreError,
    TableNotFoundError,
)
from tests.access.foreign import serving
from tests.catalogs.unity_server import UnityServer, serving_unity
from tests.moto_server import KEYS, moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from alance import Catalog
    from alance.testing.lab import Lab

ROWS = {"id": [1, 2, 3]}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture(scope="module")
def _client(endpoint: str) -> Any:
    return boto3.client("glue", region_name="us-east-1", endpoint_url=endpoint, **KEYS)


@pytest.fixture
def client(_client: Any) -> Any:
    """A client of boto3, on a Glue without databases."""
    for database in _client.get_databases()["DatabaseList"]:
        _client.delete_database(Name=database["Name"])
    return _client


async def shop_of_glue(client: Any, tmp_path: Path) -> Catalog:
    catalog = await alance.connect(client)
    await catalog.create_namespace("shop", properties={"location": f"{tmp_path}/lake/shop"})
    return catalog


@pytest.fixture
async def glue(client: Any, tmp_path: Path) -> Catalog:
    return await shop_of_glue(client, tmp_path)


@pytest.fixture
def unity() -> Iterator[UnityServer]:
    with serving_unity() as server:
        yield server


@pytest.fixture(params=["glue", "unity"])
async def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    """A catalog with the namespace `shop`, whose tables are in `lake/shop`."""
    if request.param == "glue":
        return await shop_of_glue(request.getfixturevalue("client"), tmp_path)
    unity: UnityServer = request.getfixturevalue("unity")
    catalog = await alance.connect(f"{unity.uri}?root={tmp_path}/lake")
    await catalog.create_namespace("shop")
    return catalog


async def test_tables_are_created_opened_listed_and_dropped(
    catalog: Catalog, tmp_path: Path
) -> None:
    await catalog.create_table(("shop", "users"), ROWS)
    assert await catalog.list_namespaces() == ["shop"]
    assert await catalog.list_tables("shop") == ["users"]
    assert await catalog.list_tables() == []
    users = await catalog.open_table(("shop", "users"))
    assert await users.count_rows() == 3
    assert users.uri.removeprefix("file://").startswith(f"{tmp_path}/lake/shop/users-")
    await catalog.create_table(("shop", "users"), {"id": [4]}, mode="append")
    assert await (await catalog.open_table(("shop", "users"))).count_rows() == 4
    with pytest.raises(AlreadyExistsError, match=r"there is a table 'shop\.users' already"):
        await catalog.create_table(("shop", "users"), ROWS)
    with pytest.raises(InvalidInputError, match="it has tables"):
        await catalog.drop_namespace("shop")
    await catalog.drop_table(("shop", "users"))
    assert await catalog.list_tables("shop") == []
    assert [*(tmp_path / "lake" / "shop").iterdir()] == []
    await catalog.drop_namespace("shop")
    assert await catalog.list_namespaces() == []


async def test_other_programs_see_a_table_as_lance_namespace_marks_it(
    glue: Catalog, client: Any
) -> None:
    await glue.create_table(("shop", "users"), ROWS)
    table = client.get_table(DatabaseName="shop", Name="users")["Table"]
    assert table["TableType"] == "EXTERNAL_TABLE"
    assert table["Parameters"]["table_type"] == "lance"
    place = await glue.place(("shop", "users"))
    assert table["StorageDescriptor"]["Location"] == place.uri


async def test_tables_of_other_formats_are_no_tables_here(
    glue: Catalog, client: Any, tmp_path: Path
) -> None:
    for name, kind in (("theirs", "LANCE"), ("ice", "ICEBERG")):
        folder = tmp_path / name
        table = {
            "Name": name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {"table_type": kind, "owner": "ann"},
            "StorageDescriptor": {"Location": str(folder)},
        }
        client.create_table(DatabaseName="shop", TableInput=table)
    assert await glue.list_tables("shop") == ["theirs"]
    assert await glue.list_tables("shop", include_declared=False) == []
    with pytest.raises(TableNotFoundError, match="no table of Lance, but of ICEBERG format"):
        await glue.open_table(("shop", "ice"))
    with pytest.raises(AlreadyExistsError):
        await glue.create_table(("shop", "ice"), ROWS)
    await glue.create_table(("shop", "theirs"), ROWS, mode="overwrite")
    assert await glue.list_tables("shop", include_declared=False) == ["theirs"]
    await glue.rename_table(("shop", "theirs"), ("shop", "ours"))
    assert await (await glue.open_table(("shop", "ours"))).count_rows() == 3
    renamed = client.get_table(DatabaseName="shop", Name="ours")["Table"]
    assert renamed["Parameters"]["owner"] == "ann"
    assert sorted(await glue.list_tables("shop")) == ["ours"]


async def test_a_table_is_registered_deregistered_and_renamed(
    catalog: Catalog, tmp_path: Path
) -> None:
    await alance.write_dataset(ROWS, tmp_path / "elsewhere.lance")
    await catalog.create_namespace("eu")
    await catalog.register_table(("shop", "visits"), tmp_path / "elsewhere.lance")
    with pytest.raises(AlreadyExistsError):
        await catalog.register_table(("shop", "visits"), tmp_path / "elsewhere.lance")
    with pytest.raises(TableNotFoundError, match="there is no table in"):
        await catalog.register_table(("shop", "none"), tmp_path / "absent.lance")
    await catalog.rename_table(("shop", "visits"), ("eu", "visits"))
    assert await catalog.list_tables("shop") == []
    assert await (await catalog.open_table(("eu", "visits"))).count_rows() == 3
    uri = await catalog.deregister_table(("eu", "visits"))
    assert (uri or "").removeprefix("file://") == f"{tmp_path}/elsewhere.lance"
    assert await (await alance.dataset(uri)).count_rows() == 3
    with pytest.raises(TableNotFoundError):
        await catalog.deregister_table(("eu", "visits"))


async def test_a_database_has_properties_and_a_location(
    glue: Catalog, client: Any, tmp_path: Path
) -> None:
    location = str(tmp_path / "far")
    await glue.create_namespace("eu", properties={"owner": "ann", "location": location})
    client.create_table(DatabaseName="eu", TableInput={"Name": "other"})
    assert client.get_database(Name="eu")["Database"]["LocationUri"] == location
    changed = await glue.update_namespace("eu", {"owner": None, "description": "of EU"})
    assert changed == {"location": location, "description": "of EU"}
    assert await glue.describe_namespace("eu") == changed
    await glue.create_table(("eu", "orders"), ROWS)
    assert (await glue.place(("eu", "orders"))).uri.startswith(f"{location}/orders-")
    assert await glue.update_namespace("eu", {"tier": "1"}, replace=True) == {"tier": "1"}


async def test_a_database_without_a_location_has_no_place_for_tables(
    client: Any, tmp_path: Path
) -> None:
    catalog = await alance.connect(client)
    await catalog.create_namespace("eu")
    with pytest.raises(InvalidInputError, match=r"no location for tables; set it by update_name"):
        await catalog.create_table(("eu", "orders"), ROWS)
    await catalog.update_namespace("eu", {"location": str(tmp_path)})
    await catalog.create_table(("eu", "orders"), ROWS)
    assert await catalog.list_tables("eu") == ["orders"]


def test_names_of_all_pages_are_listed() -> None:
    """Also if the last page, or a server that does not end, repeats its token."""

    class Pages:
        def get_databases(self, **fields: str) -> dict[str, Any]:
            number = int(fields.get("NextToken", "0"))
            return {
                "DatabaseList": [{"Name": f"d{number}"}],
                "NextToken": str(min(number + 1, 2)),
            }

    assert Glue(Pages()).databases() == ["d0", "d1", "d2"]


async def test_what_is_missing_or_wrong_is_said(catalog: Catalog) -> None:
    await catalog.create_table(("shop", "users"), ROWS)
    with pytest.raises(TableNotFoundError, match="did you mean 'users'"):
        await catalog.open_table(("shop", "user"))
    for name in ("users", ("absent", "users"), ("a", "b", "c")):
        with pytest.raises(TableNotFoundError):
            await catalog.open_table(name)
        assert not await catalog.table_exists(name)
    with pytest.raises(InvalidInputError, match="expected two names"):
        await catalog.create_table("users", ROWS)
    for work in (
        lambda: catalog.list_tables("absent"),
        lambda: catalog.describe_namespace("absent"),
        lambda: catalog.drop_namespace("absent"),
        lambda: catalog.create_table(("absent", "t"), ROWS),
    ):
        with pytest.raises(NotFoundError):
            await work()
    with pytest.raises(AlreadyExistsError):
        await catalog.create_namespace("shop")
    with pytest.raises(InvalidInputError, match="expected one name"):
        await catalog.create_namespace(("shop", "eu"))


async def test_glue_has_names_in_lower_case(glue: Catalog) -> None:
    await glue.create_table(("shop", "users"), ROWS)
    with pytest.raises(InvalidInputError, match="in lower case only; write 'users'"):
        await glue.rename_table(("shop", "users"), ("shop", "Users"))


async def test_of_many_creators_of_a_name_one_succeeds(catalog: Catalog, tmp_path: Path) -> None:
    works = [catalog.create_table(("shop", "users"), {"id": [i]}) for i in range(4)]
    results = await asyncio.gather(*works, return_exceptions=True)
    refused = [result for result in results if isinstance(result, AlreadyExistsError)]
    assert len(refused) == 3
    assert len([*(tmp_path / "lake" / "shop").iterdir()]) == 1  # nothing of the others is there
    assert await (await catalog.open_table(("shop", "users"))).count_rows() == 1


async def test_a_name_stands_for_a_whole_table_though_answers_are_lost(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    metastore = catalog._backend._metastore  # type: ignore[attr-defined]
    add = metastore.add_table

    def lose_the_answer(*entry: str) -> None:
        add(*entry)
        raise StoreError("no answer", retryable=True)

    def add_twice(*entry: str) -> None:  # as the retry of a client
        add(*entry)
        add(*entry)

    def be_silent(*_: str) -> None:
        raise StoreError("no answer", retryable=True)

    def be_refused(*_: str) -> None:
        raise StoreError("overloaded", retryable=True, status=503)

    for name, work in (("first", lose_the_answer), ("second", add_twice)):
        monkeypatch.setattr(metastore, "add_table", work)
        await catalog.create_table(("shop", name), ROWS)
        assert await (await catalog.open_table(("shop", name))).count_rows() == 3
    with pytest.raises(AlreadyExistsError):
        await catalog.create_table(("shop", "second"), ROWS)
    lake = tmp_path / "lake" / "shop"
    for work, kind, num_tables in (
        (be_refused, StoreError, 2),
        (be_silent, CommitStateUnknownError, 3),  # the entry may be added still
    ):
        monkeypatch.setattr(metastore, "add_table", work)
        with pytest.raises(kind):
            await catalog.create_table(("shop", "third"), ROWS)
        assert len([*lake.iterdir()]) == num_tables


async def test_a_table_has_one_name_though_answers_to_a_rename_are_lost(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore = catalog._backend._metastore  # type: ignore[attr-defined]
    remove = metastore.remove_table
    removed: list[str] = []

    def lose_answers(database: str, name: str) -> None:
        if removed:
            remove(database, name)
        removed.append(name)
        raise (NotFoundError if len(removed) > 1 else StoreError)("lost")

    await catalog.create_table(("shop", "a"), ROWS)
    await catalog.create_table(("shop", "b"), ROWS)
    with pytest.raises(AlreadyExistsError, match=r"there is a table 'shop\.b' already"):
        await catalog.rename_table(("shop", "a"), ("shop", "b"))
    monkeypatch.setattr(metastore, "remove_table", lose_answers)
    await catalog.rename_table(("shop", "a"), ("shop", "c"))
    assert removed == ["a", "a"]
    assert await catalog.list_tables("shop") == ["b", "c"]


async def test_no_data_stays_though_answers_to_a_removal_are_lost(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    metastore = catalog._backend._metastore  # type: ignore[attr-defined]
    remove, databases, lake = (
        metastore.remove_table,
        metastore.databases,
        tmp_path / "lake" / "shop",
    )

    def lose_the_answer(database: str, name: str) -> None:
        remove(database, name)
        raise StoreError("no answer", retryable=True)

    def remove_twice(database: str, name: str) -> None:  # as the retry of a client
        remove(database, name)
        remove(database, name)

    def be_silent(*_: str) -> None:
        raise StoreError("silent", retryable=True)

    def be_refused(*_: str) -> None:
        raise AccessError("no")

    await catalog.create_table(("shop", "other"), ROWS)
    for work in (lose_the_answer, remove_twice):
        await catalog.create_table(("shop", "users"), ROWS)
        monkeypatch.setattr(metastore, "remove_table", work)
        await catalog.drop_table(("shop", "users"))
        assert len([*lake.iterdir()]) == 1
        with pytest.raises(TableNotFoundError):
            await catalog.drop_table(("shop", "users"))
    for work, is_removed in ((be_refused, False), (be_silent, False), (lose_the_answer, True)):
        monkeypatch.setattr(metastore, "remove_table", remove)
        await catalog.create_table(("shop", "users"), ROWS)
        monkeypatch.setattr(metastore, "remove_table", work)
        monkeypatch.setattr(metastore, "databases", be_silent)
        with pytest.raises(StoreError):
            await catalog.drop_table(("shop", "users"))
        assert len([*lake.iterdir()]) == 2
        assert ("users" in await catalog.list_tables("shop")) is not is_removed
        monkeypatch.setattr(metastore, "remove_table", remove)
        monkeypatch.setattr(metastore, "databases", databases)
        await catalog.drop_table(("shop", "users"))
        assert len([*lake.iterdir()]) == 1
    assert await (await catalog.open_table(("shop", "other"))).count_rows() == 3


async def test_a_table_that_others_renamed_meanwhile_keeps_its_data(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore = catalog._backend._metastore  # type: ignore[attr-defined]
    remove = metastore.remove_table

    def be_late(database: str, name: str) -> None:
        monkeypatch.setattr(metastore, "remove_table", remove)
        metastore.rename_table((database, name), (database, "renamed"))
        remove(database, name)

    await catalog.create_table(("shop", "users"), ROWS)
    monkeypatch.setattr(metastore, "remove_table", be_late)
    for _ in range(2):
        with pytest.raises(NotFoundError):
            await catalog.drop_table(("shop", "users"))
    assert await (await catalog.open_table(("shop", "renamed"))).count_rows() == 3


async def test_a_deregistered_table_is_kept_after_a_removal_that_failed(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: str) -> None:
        raise StoreError("overloaded", retryable=True)

    dataset = await catalog.create_table(("shop", "users"), ROWS)
    with monkeypatch.context() as patched:
        patched.setattr(catalog._backend._metastore, "remove_table", fail)  # type: ignore[attr-defined]
        with pytest.raises(StoreError):
            await catalog.drop_table(("shop", "users"))
    await catalog.deregister_table(("shop", "users"))
    with pytest.raises(TableNotFoundError):
        await catalog.drop_table(("shop", "users"))
    assert await (await alance.dataset(dataset.uri)).count_rows() == 3


async def test_a_table_that_clones_need_keeps_its_name(catalog: Catalog, tmp_path: Path) -> None:
    dataset = await catalog.create_table(("shop", "users"), ROWS)
    await dataset.shallow_clone(str(tmp_path / "clone"))
    with pytest.raises(InvalidInputError, match="shallow clones"):
        await catalog.drop_table(("shop", "users"))
    assert await (await catalog.open_table(("shop", "users"))).count_rows() == 3


async def test_a_cancelled_creation_leaves_neither_name_nor_data(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    metastore = catalog._backend._metastore  # type: ignore[attr-defined]
    add, entered, released = metastore.add_table, threading.Event(), threading.Event()

    def add_slowly(*entry: str) -> None:
        entered.set()
        released.wait(20)
        add(*entry)

    monkeypatch.setattr(metastore, "add_table", add_slowly)
    creating = asyncio.create_task(catalog.create_table(("shop", "users"), ROWS))
    await asyncio.to_thread(entered.wait, 20)
    creating.cancel()
    asyncio.get_running_loop().call_later(0.02, released.set)
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert await catalog.list_tables("shop") == []
    assert [*(tmp_path / "lake" / "shop").iterdir()] == []


def test_a_hung_server_holds_neither_the_caller_nor_its_loop(
    unity: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, released = threading.Event(), threading.Event()

    def hang(*_: object) -> list[str]:
        entered.set()
        released.wait(20)
        return []

    async def cancel_a_call() -> None:
        catalog = await alance.connect(unity.uri)
        monkeypatch.setattr(catalog._backend._metastore, "databases", hang)  # type: ignore[attr-defined]
        listing = asyncio.create_task(catalog.list_namespaces())
        await asyncio.to_thread(entered.wait, 20)
        listing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listing

    timer = threading.Timer(10, released.set)
    timer.start()
    asyncio.run(cancel_a_call())
    assert not released.is_set()
    timer.cancel()
    released.set()


async def test_names_are_quoted_in_the_uris_of_their_folders(client: Any) -> None:
    catalog = await alance.connect(client)
    await catalog.create_namespace("far", properties={"location": "memory://quoted-names/lake"})
    for name in ("a#b", "a?b", "a%41b"):
        await catalog.create_table(("far", name), ROWS)
        assert await (await catalog.open_table(("far", name))).count_rows() == 3
        await catalog.drop_table(("far", name))


async def test_names_that_unity_cannot_have_are_refused(unity: UnityServer, tmp_path: Path) -> None:
    catalog = await alance.connect(f"{unity.uri}?root={tmp_path}")
    await catalog.create_namespace("shop")
    await catalog.create_table(("shop", "users"), ROWS)
    unity.requests.clear()
    for work in (
        lambda: catalog.create_namespace("a.b"),
        lambda: catalog.create_table(("shop", "a b"), ROWS),
        lambda: catalog.rename_table(("shop", "users"), ("shop", "a.b")),
    ):
        with pytest.raises(InvalidInputError, match="no names with a dot, a space"):
            await work()
    assert not any(request.startswith("POST") for request in unity.requests)


async def test_a_uri_names_a_root_and_options_are_those_of_tables(
    client: Any, endpoint: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name.upper(), value)
    options = lab.lance_options()
    uri = f"glue://?region=us-east-1&endpoint={endpoint}&root=s3://lab/glue"
    catalog = await alance.connect(uri, storage_options=options)
    await catalog.create_namespace("far")
    await catalog.create_table(("far", "t"), ROWS)
    place = await catalog.place(("far", "t"))
    assert (place.uri[:17], place.storage_options) == ("s3://lab/glue/far", options)
    assert "secret" not in repr(place) + repr(catalog)


async def test_the_command_lists_tables_of_glue(
    glue: Catalog,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await glue.create_table(("shop", "users"), ROWS)
    for name, value in KEYS.items():
        monkeypatch.setenv(name.upper(), value)
    uri = f"glue://?region=us-east-1&endpoint={endpoint}"
    assert await asyncio.to_thread(main, ["ls", uri, "--json"]) == 0
    assert capsys.readouterr().out == '{"table": "shop/"}\n'
    assert await asyncio.to_thread(main, ["head", "shop/users", "--in", uri, "--json"]) == 0
    assert capsys.readouterr().out.count('"id"') == 3


async def test_uris_and_environments_that_are_wrong_are_refused(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=r"expected the parameters region.*boto3\.client"):
        await alance.connect("glue://?regin=x")
    with pytest.raises(InvalidInputError, match="headers"):
        await alance.connect("glue://?region=us-east-1", headers={"a": "b"})
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, str(tmp_path / "absent"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(InvalidInputError, match=r"region.* Expected glue://\[CATALOG_ID\]"):
        await alance.connect("glue://")
    catalog = await alance.connect(f"glue://1234?region=us-east-1&endpoint={endpoint}")
    assert catalog.uri == "glue://1234"
    with pytest.raises(AccessError, match="credentials"):
        await catalog.list_namespaces()
    monkeypatch.setitem(sys.modules, "botocore.config", None)
    with pytest.raises(MissingPackageError, match="glue:// needs boto3"):
        await alance.connect("glue://?region=us-east-1")


async def test_a_server_that_does_not_answer_is_a_store_error(client: Any) -> None:
    catalog = await alance.connect(
        boto3.client(
            "glue",
            region_name="us-east-1",
            endpoint_url="http://127.0.0.1:9",
            config=boto3.session.Config(retries={"max_attempts": 0}),
            **KEYS,
        )
    )
    with pytest.raises(StoreError, match="Could not connect") as refused:
        await catalog.list_namespaces()
    assert refused.value.retryable


async def test_unity_sees_a_table_as_lance_namespace_marks_it(
    unity: UnityServer, tmp_path: Path
) -> None:
    location = f"file://{tmp_path}/eu"
    catalog = await alance.connect(unity.uri)
    await catalog.create_namespace("eu", properties={"location": location, "description": "EU"})
    assert unity.schemas["main.eu"]["comment"] == "EU"
    await catalog.create_table(("eu", "orders"), ROWS)
    table = unity.tables["main.eu.orders"]
    assert (table["table_type"], table["data_source_format"]) == ("EXTERNAL", "TEXT")
    assert table["properties"] == {"table_type": "lance"}
    assert table["storage_location"].startswith(f"{location}/orders-")
    unity.tables["main.eu.other"] = {"name": "other", "data_source_format": "DELTA"}
    assert await catalog.list_tables("eu") == ["orders"]
    with pytest.raises(TableNotFoundError, match="no table of Lance"):
        await catalog.open_table(("eu", "other"))
    changed = await catalog.update_namespace("eu", {"description": None, "tier": "1"})
    assert changed == {"location": location, "tier": "1"}
    assert await catalog.describe_namespace("eu") == changed


async def test_pages_of_unity_are_joined_and_an_overloaded_one_is_asked_again(
    unity: UnityServer,
) -> None:
    catalog = await alance.connect(unity.uri)
    for name in "abcde":
        await catalog.create_namespace(name)
    unity.failing = [503, 429]
    assert await catalog.list_namespaces() == [*"abcde"]
    unity.requests.clear()
    unity.failing = [503]
    with pytest.raises(StoreError, match="status 503") as refused:  # a POST is sent once
        await catalog.create_namespace("f")
    assert refused.value.retryable
    assert len(unity.requests) == 1


async def test_a_token_goes_to_unity_alone(unity: UnityServer, tmp_path: Path) -> None:
    unity.token = "s3cret"
    with pytest.raises(AccessError, match="token"):
        await (await alance.connect(unity.uri)).list_namespaces()
    headers = {"Authorization": f"Bearer {unity.token}"}
    catalog = await alance.connect(unity.uri, headers=headers)
    assert await catalog.list_namespaces() == []
    assert unity.token not in repr(catalog) + repr(catalog._backend._metastore)  # type: ignore[attr-defined]
    with serving(tmp_path) as foreign:
        unity.redirect = foreign.url
        with pytest.raises(StoreError, match="status 307"):
            await catalog.list_namespaces()
        assert foreign.requests == []


async def test_uris_of_unity_that_are_wrong_are_refused() -> None:
    wrong = ("unity://host", "unity:///main", "unity://h/a/b", "unity://h/a?regon=x")
    for uri in (*wrong, "unity://h:port/a", "unity://h:99999/a", "unity://[::1/a"):
        with pytest.raises(InvalidInputError, match=r"expected unity://HOST\[:PORT\]/CATALOG"):
            await alance.connect(uri)
    with pytest.raises(InvalidInputError) as refused:
        await alance.connect("unity://me:s3cret@host/main")
    assert "s3cret" not in str(refused.value)
    for value in ("Bearer s3cret\n", "Bearer s3cret\u20ac"):
        with pytest.raises(InvalidInputError, match="without line breaks") as refused:
            await alance.connect("unity://host/main", headers={"Authorization": value})
        assert "s3cret" not in str(refused.value)
    catalog = await alance.connect("unity+http://127.0.0.1:9/main")
    with pytest.raises(StoreError, match="refused"):
        await catalog.list_namespaces()
