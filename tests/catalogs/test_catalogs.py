"""Tables by name: in a folder, by pylance's client, by a server; the same from all of them."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace_urllib3_client.models import (
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DescribeTableRequest,
    DropTableRequest,
    ListNamespacesRequest,
    ListTablesRequest,
)

import alance
import alance.sync
from alance import (
    AlreadyExistsError,
    Catalog,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    TableNotFoundError,
    UnsupportedError,
)
from alance.catalogs import client
from alance.catalogs.catalog_manifest import CATALOG_SCHEMA, MANIFEST
from tests.reference.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from lance.namespace import DirectoryNamespace

    from alance.testing.lab import Lab

ROWS = pa.table({"id": [1, 2, 3]})


def ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


async def test_a_table_is_followed_by_its_name(catalog: Catalog) -> None:
    users = await catalog.create_table("users", ROWS)
    live = await catalog.open_table("users", follow=0.01)
    assert (live.version, live.staleness is None) == (1, False)
    await users.insert(ROWS)
    await until(lambda: live.version == 2)
    assert await live.count_rows() == 6
    with pytest.raises(InvalidInputError, match="expected neither version nor asof"):
        await catalog.open_table("users", version=1, follow=5.0)


def test_a_table_is_followed_by_its_name_in_blocking_code(root: str) -> None:
    catalog = alance.sync.connect(root)
    users = catalog.create_table("users", ROWS)
    live = catalog.open_table("users", follow=60.0)
    users.insert(ROWS)
    assert (live.version, live.checkout_latest().version, live.version) == (1, 2, 2)


async def test_a_table_is_created_without_rows_and_opened_if_it_exists(catalog: Catalog) -> None:
    empty = await catalog.create_table("users", schema=ROWS.schema)
    assert (empty.version, empty.schema) == (1, ROWS.schema)
    await empty.insert(ROWS)
    again = await catalog.create_table("users", schema=ROWS.schema, exist_ok=True)
    assert (again.version, await again.count_rows()) == (2, 3)
    with pytest.raises(AlreadyExistsError):
        await catalog.create_table("users", ROWS)
    with pytest.raises(InvalidInputError, match="expected rows, or for a table without rows"):
        await catalog.create_table("other")


async def test_tables_are_created_listed_opened_and_dropped(
    catalog: Catalog, root: str, theirs: DirectoryNamespace
) -> None:
    assert await catalog.list_tables() == []
    dataset = await catalog.create_table("users", ROWS)
    assert dataset.version == 1
    await catalog.create_table("orders", ROWS.slice(0, 1))
    assert await catalog.list_tables() == ["orders", "users"]
    assert await catalog.list_namespaces() == []
    assert (await (await catalog.open_table("users")).to_table()).equals(ROWS)
    assert sorted(theirs.list_tables(ListTablesRequest(id=[])).tables) == ["orders", "users"]
    location = theirs.describe_table(DescribeTableRequest(id=["users"])).location
    assert lance.dataset(location).to_table() == ROWS
    assert location.endswith("/users.lance")  # where LanceDB looks
    with pytest.raises(AlreadyExistsError, match="users"):
        await catalog.create_table("users", ROWS)
    await catalog.drop_table("users")
    assert not await catalog.table_exists("users")
    assert await catalog.list_tables() == ["orders"]
    with pytest.raises(TableNotFoundError, match="users"):
        await catalog.open_table("users")
    with pytest.raises(NotFoundError, match="users"):
        await catalog.drop_table("users")


async def test_namespaces_have_tables_of_their_own(
    catalog: Catalog, root: str, theirs: DirectoryNamespace
) -> None:
    await catalog.create_namespace("shop", properties={"owner": "ann"})
    await catalog.create_namespace(("shop", "eu"))
    await catalog.create_table(("shop", "users"), ROWS)
    await catalog.create_table(("shop", "eu", "users"), ROWS.slice(1))
    assert await catalog.list_namespaces() == ["shop"]
    assert await catalog.list_namespaces("shop") == ["eu"]
    assert await catalog.list_tables("shop") == ["users"]
    assert await catalog.list_tables() == []
    dataset = await catalog.open_table(("shop", "eu", "users"))
    assert await dataset.count_rows() == 2
    assert theirs.list_tables(ListTablesRequest(id=["shop", "eu"])).tables == ["users"]
    with pytest.raises(AlreadyExistsError):
        await catalog.create_namespace("shop")
    with pytest.raises(AlreadyExistsError):
        await catalog.create_table(("shop", "users"), ROWS)
    with pytest.raises(InvalidInputError, match="shop"):
        await catalog.drop_namespace("shop")
    for missing in (("shop", "us"), ("nowhere",)):
        if catalog.uri == root:  # pylance takes such names
            with pytest.raises(NotFoundError):
                await catalog.list_tables(missing)
            with pytest.raises(NotFoundError):
                await catalog.create_table((*missing, "users"), ROWS)
    await catalog.drop_table(("shop", "eu", "users"))
    await catalog.drop_namespace(("shop", "eu"))
    assert await catalog.list_namespaces("shop") == []


async def test_what_pylance_made_is_there(catalog: Catalog, theirs: DirectoryNamespace) -> None:
    theirs.create_table(CreateTableRequest(id=["a"]), ipc(ROWS))
    theirs.create_namespace(CreateNamespaceRequest(id=["ns"]))
    theirs.create_table(CreateTableRequest(id=["ns", "b"]), ipc(ROWS.slice(2)))
    assert await catalog.list_tables() == ["a"]
    assert await catalog.list_tables("ns") == ["b"]
    assert await (await catalog.open_table(("ns", "b"))).count_rows() == 1
    await catalog.drop_table(("ns", "b"))
    assert theirs.list_tables(ListTablesRequest(id=["ns"])).tables == []


async def test_tables_that_are_declared_are_listed_or_not(
    catalog: Catalog, theirs: DirectoryNamespace
) -> None:
    await catalog.create_namespace("ns")
    for namespace in ((), ("ns",)):
        theirs.declare_table(DeclareTableRequest(id=[*namespace, "declared"]))
        await catalog.create_table((*namespace, "written"), ROWS)
        assert await catalog.list_tables(namespace) == ["declared", "written"]
        assert await catalog.list_tables(namespace, include_declared=False) == ["written"]
        declared = (*namespace, "declared")
        with pytest.raises(TableNotFoundError):
            await catalog.open_table(declared)
        with pytest.raises(AlreadyExistsError):
            await catalog.create_table(declared, ROWS)
        await catalog.create_table(declared, ROWS, mode="append")
        listed = await catalog.list_tables(namespace, include_declared=False)
        assert listed == ["declared", "written"]


async def test_a_folder_is_kept_by_alance_and_pylance_in_turn(
    root: str, theirs: DirectoryNamespace
) -> None:
    catalog = await alance.connect(root)
    await catalog.create_namespace("one")
    theirs.create_namespace(CreateNamespaceRequest(id=["two"]))
    await catalog.create_table(("two", "t"), ROWS)
    theirs.create_table(CreateTableRequest(id=["one", "t"]), ipc(ROWS))
    theirs.drop_table(DropTableRequest(id=["two", "t"]))
    assert await catalog.list_tables("two") == []
    assert await catalog.list_tables("one") == ["t"]
    namespaces = theirs.list_namespaces(ListNamespacesRequest(id=[])).namespaces
    assert sorted(namespaces) == await catalog.list_namespaces() == ["one", "two"]


async def test_modes_are_those_of_writing(catalog: Catalog) -> None:
    await catalog.create_table("t", ROWS, mode="append")
    dataset = await catalog.create_table("t", ROWS, mode="append", message="more")
    assert await dataset.count_rows() == 6
    dataset = await catalog.create_table("t", ROWS.slice(0, 1), mode="overwrite")
    assert (await dataset.count_rows(), dataset.version) == (1, 3)
    assert await (await catalog.open_table("t", version=2)).count_rows() == 6
    with pytest.raises(InvalidInputError, match="mode"):
        await catalog.create_table("t", ROWS, mode="replace")  # type: ignore[arg-type]


async def test_tables_are_renamed(root: str) -> None:
    catalog = await alance.connect(root)
    await catalog.create_namespace("ns")
    await catalog.create_table(("ns", "old"), ROWS)
    await catalog.create_table(("ns", "other"), ROWS)
    await catalog.rename_table(("ns", "old"), ("ns", "new"))
    assert await catalog.list_tables("ns") == ["new", "other"]
    with pytest.raises(AlreadyExistsError):
        await catalog.rename_table(("ns", "new"), ("ns", "other"))
    with pytest.raises(NotFoundError):
        await catalog.rename_table(("ns", "new"), ("nowhere", "new"))
    with pytest.raises(TableNotFoundError):
        await catalog.rename_table("missing", "new")
    await catalog.create_table("users", ROWS)
    with pytest.raises(AlreadyExistsError):
        await catalog.rename_table("users", ("ns", "new"))
    await catalog.rename_table("users", "people")
    await catalog.rename_table("people", ("ns", "people"))
    await catalog.rename_table(("ns", "new"), "root")
    assert await catalog.list_tables() == ["root"]
    assert await catalog.list_tables("ns") == ["other", "people"]
    for name in ("root", ("ns", "people")):
        assert await (await catalog.open_table(name)).count_rows() == 3


async def test_a_write_that_fails_leaves_no_name(catalog: Catalog) -> None:
    await catalog.create_namespace("ns")

    async def batches() -> Any:
        yield ROWS.to_batches()[0]
        raise RuntimeError("no more")

    for name in ("t", ("ns", "t")):
        with pytest.raises(RuntimeError, match="no more"):
            await catalog.create_table(name, batches(), schema=ROWS.schema)
        assert not await catalog.table_exists(name)
        await catalog.create_table(name, ROWS)


async def test_of_two_that_create_a_table_one_does(root: str) -> None:
    catalogs = [await alance.connect(root) for _ in range(2)]
    await catalogs[0].create_namespace("ns")
    for name in ("t", ("ns", "t")):
        calls = (catalog.create_table(name, ROWS) for catalog in catalogs)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(result, AlreadyExistsError) for result in results) == 1
        assert await (await catalogs[0].open_table(name)).count_rows() == 3


async def test_signs_of_uris_in_names_are_names(tmp_path: Path) -> None:
    for root in (str(tmp_path / "which?"), f"memory://{uuid.uuid4().hex}/lake"):
        catalog = await alance.connect(root)
        await catalog.create_namespace("shop")
        for name in ("a%20b", "what?", "no#1", ("shop", "50%25")):
            await catalog.create_table(name, ROWS)
            assert await (await catalog.open_table(name)).count_rows() == 3
        assert await catalog.list_tables() == ["a%20b", "no#1", "what?"]
        await catalog.rename_table("a%20b", "c%3F")
        assert await (await catalog.open_table("c%3F")).count_rows() == 3
        assert await catalog.list_tables() == ["c%3F", "no#1", "what?"]
    assert os.listdir(tmp_path) == ["which?"]


async def test_a_folder_in_a_store(lab: Lab) -> None:
    options = lab.lance_options()
    catalog = await alance.connect("s3://lab/tables/", storage_options=options)
    assert await catalog.list_tables() == []
    await catalog.create_table("a", ROWS)
    await catalog.create_namespace("ns")
    await catalog.create_table(("ns", "b"), ROWS)
    assert await catalog.list_tables() == ["a"]
    assert lance.dataset("s3://lab/tables/a.lance", storage_options=options).count_rows() == 3
    dataset = await catalog.open_table(("ns", "b"))
    assert await dataset.count_rows() == 3
    assert "secret" not in repr(await catalog.place("a"))


async def test_a_call_opens_the_table_of_namespaces_once(lab: Lab) -> None:
    catalog = await alance.connect("s3://lab/counted-catalog", storage_options=lab.lance_options())
    await catalog.create_namespace("ns")
    await catalog.create_table("a", ROWS)
    await catalog.create_table(("ns", "b"), ROWS)
    await catalog.table_exists("a")  # the rows are in memory
    opened = f"counted-catalog/{MANIFEST}/_versions/"
    root = ["counted-catalog/a.lance/"]
    mark = "counted-catalog/a.lance/.lance-deregistered"
    calls: list[tuple[Any, list[str]]] = [
        (lambda: catalog.place("a"), [opened, *root]),
        (lambda: catalog.place(("ns", "b")), [opened]),
        (lambda: catalog.table_exists("missing"), [opened, "counted-catalog/missing.lance/"]),
        (lambda: catalog.list_tables(), [opened, "counted-catalog/", mark]),
        (lambda: catalog.list_tables("ns"), [opened]),
        (lambda: catalog.list_namespaces(), [opened]),
    ]
    for call, lists in calls:
        before = lab.stats()["requests"]
        await call()
        log = [record for record in lab.log(before) if "counted-catalog/" in str(record)]
        assert [(record["op"], record.get("prefix") or record["key"]) for record in log] == [
            ("HEAD" if prefix == mark else "LIST", prefix) for prefix in lists
        ]


@pytest.mark.parametrize(
    "name", ["", "a/b", "a$b", "..", ".hidden", "__manifest", "a\\b", ("a", 3), 5, None]
)
async def test_bad_names_are_refused(root: str, name: Any) -> None:
    catalog = await alance.connect(root)
    with pytest.raises(InvalidInputError, match=r"expected (a name|names)"):
        await catalog.create_table(name, ROWS)
    with pytest.raises(InvalidInputError):
        await catalog.create_namespace(())
    with pytest.raises(InvalidInputError):
        await catalog.open_table(())


@pytest.mark.parametrize("location", ["../other", "/etc", "s3://bucket/t", "", "."])
async def test_a_manifest_leads_out_of_no_folder(root: str, location: str) -> None:
    row = {"object_id": "t", "object_type": "table", "location": location}
    rows = pa.Table.from_pylist([row], schema=CATALOG_SCHEMA)
    await alance.write_dataset(rows, f"{root}/{MANIFEST}")
    catalog = await alance.connect(root)
    with pytest.raises(CorruptFileError, match="expected a folder below"):
        await catalog.open_table("t")


async def test_wrong_connections_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="LanceNamespace"):
        await alance.connect(3)
    with pytest.raises(InvalidInputError, match="headers"):
        await alance.connect(tmp_path, headers={"a": "b"})
    with pytest.raises(InvalidInputError, match="nfs"):
        await alance.connect("nfs://folder")
    nobody = await alance.connect("http://127.0.0.1:9")
    with pytest.raises(StoreError, match="list tables"):
        await nobody.list_tables()


async def test_names_come_in_pages() -> None:
    requests = []

    class Client:
        def describe_table(self, request: Any) -> None:
            raise NotImplementedError

        def list_tables(self, request: Any) -> Any:
            requests.append(request.page_token)
            number = int(request.page_token or 0)
            following = str(number + 1) if number < 2 else None
            return type("Answer", (), {"tables": [f"t{number}"], "page_token": following})

    catalog = await alance.connect(Client())
    assert await catalog.list_tables() == ["t0", "t1", "t2"]
    assert requests == [None, "1", "2"]
    with pytest.raises(UnsupportedError):
        await catalog.open_table("t0")


def test_the_blocking_face_has_catalogs(root: str) -> None:
    catalog = alance.sync.connect(root)
    catalog.create_table("t", ROWS)
    assert catalog.list_tables() == ["t"]
    assert catalog.open_table("t").to_table() == ROWS


@pytest.mark.parametrize(
    ("names", "message"), [(["a"], "do not end"), (None, "tables of 'the root': expected a list")]
)
async def test_pages_without_an_end_are_an_error(
    names: list[str] | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_IDLE_PAGES", 5)
    numbers = itertools.count(1)

    class Client:
        def describe_table(self, request: Any) -> None: ...

        def list_tables(self, request: Any) -> Any:
            number = next(numbers)
            assert number < 20
            return type("Answer", (), {"tables": names, "page_token": str(number)})

    catalog = await alance.connect(Client())
    with pytest.raises(StoreError, match=message):
        await catalog.list_tables()


async def test_a_client_that_does_not_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_S", 0.01)
    released = threading.Event()

    class Client:
        def describe_table(self, request: Any) -> None:
            released.wait()

        def list_tables(self, request: Any) -> None: ...

    catalog = await alance.connect(Client())
    try:
        with pytest.raises(StoreError, match="describe table 't': no answer after"):
            await catalog.open_table("t")
    finally:
        released.set()


async def test_headers_do_not_follow_a_redirect_to_another_host() -> None:
    seen: list[tuple[int, str | None, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            port = self.server.server_address[1]
            seen.append((port, self.headers["x-api-key"], self.headers["authorization"]))
            is_first = port == servers[0].server_address[1]
            self.send_response(307 if is_first else 200)
            self.send_header("location", f"http://localhost:{servers[1].server_address[1]}/v1")
            body = b"" if is_first else b'{"tables": ["a"]}'
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    servers = [HTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        headers = {"x-api-key": "secret", "authorization": "Bearer secret"}
        uri = f"http://127.0.0.1:{servers[0].server_address[1]}"
        catalog = await alance.connect(uri, headers=headers)
        assert await catalog.list_tables() == ["a"]
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
    (first, second) = (server.server_address[1] for server in servers)
    assert seen == [(first, "secret", "Bearer secret"), (second, None, None)]


class OfItsOwn(Exception):
    """Error of another library, in which `code` means something else."""

    code = 4


async def test_codes_are_read_only_from_errors_of_the_protocol() -> None:
    errors: list[Exception] = [lance_namespace.TableNotFoundError("gone"), OfItsOwn("timed out")]

    class Client:
        def describe_table(self, request: Any) -> None:
            raise errors.pop(0)

        def list_tables(self, request: Any) -> None: ...

    catalog = await alance.connect(Client())
    with pytest.raises(TableNotFoundError, match="'t': no such table: gone"):
        await catalog.open_table("t")
    with pytest.raises(StoreError, match="'t': timed out"):
        await catalog.open_table("t")
