"""Requests of calls are those that their docstrings name as cost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.distributed import delete_rows

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab, Recording

URI: Final = "s3://lab/documented-costs"
NUM_ROWS: Final = 1000

# Calls of a session that has opened the latest version of the table and nothing else, and their
# requests. `d` is the table: four fragments, two of which have deletion files, indices of two
# columns, two tags, a branch; eight versions.
READS: Final = """
d.health()                           | 2 LIST
d.health(reclaimable=True)           | 10 LIST, 12 GET
d.versions()                         | 1 LIST, 7 GET
d.latest_version()                   | 1 LIST
d.checkout_version(1)                | 1 GET
d.checkout_version(d.version)        | nothing
d.checkout_version("first")          | 2 GET
d.checkout_version(("dev", 7))       | 2 GET
d.checkout_version(("dev", None))    | 1 LIST, 2 GET
d.checkout_version((None, 3))        | 1 GET
d.checkout_latest()                  | 1 LIST
d.checkout_branch("dev")             | 1 LIST, 2 GET
d.checkout_branch("dev", 7)          | 2 GET
d.checkout_branch(None)              | 1 LIST
d.read_transaction()                 | nothing
d.read_transaction(2)                | 1 GET
d.get_transactions(3)                | 1 LIST, 2 GET
d.describe_indices()                 | nothing
d.index_statistics("id_idx")         | 2 GET
d.index_statistics("vector_idx")     | 2 GET
d.centroids(index_name="vector_idx") | 1 GET
d.remap_row_addrs([1])               | nothing
d.stats()                            | nothing
d.stats(with_column_bytes=True)      | 4 GET
d.count_rows()                       | nothing
d.head(5)                            | 2 GET
d.to_batches()                       | 6 GET
d.scanner().explain()                | 6 GET
d.explain_take([1])                  | 2 GET
d.scanner().count_rows()             | nothing
d.validate()                         | 6 GET, 4 HEAD
d.all_files()                        | 1 LIST
d.tracked_files()                    | 1 LIST, 7 GET
d.explain_cleanup_old_versions()     | 8 LIST, 12 GET
d.maintain(dry_run=True)             | 2 LIST
d.tags.list()                        | 1 LIST, 2 GET
d.tags.list_ordered()                | 1 LIST, 2 GET
d.tags.get("first")                  | 1 GET
d.tags.get_version("first")          | 1 GET
d.branches.list()                    | 1 LIST, 1 GET
d.branches.get("dev")                | 1 GET
d.branches.get("main")               | nothing
d.to_arrow_dataset()                 | nothing
alance.warm_up(session=d.session)    | nothing
"""
# Calls that change the table, in their order, each on the latest version.
WRITES: Final = """
d.deep_clone(DEEP)                      | 6 LIST, 2 HEAD, 10 COPY, 2 PUT
d.tags.create("a", 2)                   | 1 HEAD, 1 PUT
d.tags.create("now")                    | 1 GET, 1 PUT
d.tags.delete("now")                    | 1 GET, 1 BULKDELETE
d.tags.create("b", "first")             | 1 GET, 1 HEAD, 1 PUT
d.tags.create("c", ("dev", None))       | 1 LIST, 1 GET, 1 HEAD, 1 PUT
d.tags.update("a", 3)                   | 1 GET, 1 HEAD, 1 PUT
d.tags.replace_metadata("a", {})        | 1 GET, 1 PUT
d.tags.delete("a")                      | 1 GET, 1 BULKDELETE
d.create_branch("other")                | 1 LIST, 1 GET, 3 PUT
d.branches.delete("other")              | 3 LIST, 6 GET, 2 BULKDELETE
d.branches.replace_metadata("dev", {})  | 1 GET, 1 PUT
d.update_config({"a": "b"})             | 1 LIST, 2 PUT
d.update_metadata({"a": "b"})           | 1 LIST, 2 PUT
d.update_schema_metadata({"a": "b"})    | 1 LIST, 2 PUT
d.update_field_metadata({"id": {}})     | 1 LIST, 2 PUT
d.delete_config_keys(["a"])             | 1 LIST, 2 PUT
d.optimize.disable_auto_cleanup()       | nothing
d.drop_index("id_idx")                  | 1 LIST, 2 PUT
d.insert({"id": [NUM_ROWS]})            | 1 LIST, 3 PUT
d.alter_columns(RENAMED)                | 1 LIST, 2 PUT
d.add_columns(pa.field("n", pa.int8())) | 1 LIST, 2 PUT
d.drop_columns(["n"])                   | 1 LIST, 2 PUT
d.delete("false")                       | 1 LIST, 2 PUT
alance.commit(d, NOTHING)               | 1 LIST, 1 GET, 2 PUT
d.restore(3)                            | 2 LIST, 1 GET, 2 PUT
d.restore()                             | 2 LIST, 1 GET, 2 PUT
d.restore(d.version)                    | 2 LIST, 2 PUT
d.shallow_clone(CLONE)                  | 1 LIST, 2 GET, 3 PUT
d.fragments[-1].delete_rows([0])        | 1 PUT
d.fragments[-1].delete("false")         | nothing
d.fragments[-1].delete("true")          | nothing
alance.write_fragments({"id": [1]}, d)  | 1 PUT
d.cleanup_old_versions(ALL, **ANY)      | 11 LIST, 36 GET, 2 BULKDELETE
d.cleanup_old_versions(ALL, **ANY)      | 11 LIST, 17 GET
delete_rows(d, {0: array([5])}, "x")    | 1 LIST, 3 PUT
delete_rows(d, {0: array([6])}, "x")    | 1 LIST, 1 GET, 3 PUT
d.delete("true")                        | 1 LIST, 2 PUT
"""
# Calls of a catalog in a folder, in their order.
OF_A_CATALOG: Final = """
c.list_tables()                      | 2 LIST
c.list_namespaces()                  | 1 LIST
c.create_table("t", {"id": [1]})     | 4 LIST, 3 PUT
c.place("t")                         | 2 LIST
c.table_exists("nope")               | 2 LIST
c.place("nope")                      | 4 LIST
c.list_tables()                      | 2 LIST, 1 HEAD
c.create_namespace("n")              | 4 LIST, 5 PUT
c.list_namespaces()                  | 1 LIST, 2 GET
c.describe_namespace("n")            | 1 LIST
c.create_table(("n", "u"), [{"id": 1}]) | 5 LIST, 6 PUT
c.place(("n", "u"))                  | 1 LIST, 2 GET
c.list_tables("n")                   | 1 LIST
c.list_tables(include_declared=False) | 3 LIST, 1 HEAD
c.update_namespace("n", {"a": "b"})  | 2 LIST, 3 PUT
c.deregister_table("t")              | 3 LIST, 2 GET, 1 PUT
c.register_table("t", "t.lance")     | 3 LIST, 1 BULKDELETE
"""


@dataclass(frozen=True, slots=True)
class Call:
    """A call, and the number of its requests by their operations."""

    code: str
    requests: Counter[str]


def calls(text: str) -> list[Call]:
    """Parse the calls of a table above."""
    parsed = []
    for line in text.strip().splitlines():
        code, _, cost = line.rpartition(" | ")
        counts = [] if cost == "nothing" else [part.split() for part in cost.split(", ")]
        requests = Counter({operation: int(number) for number, operation in counts})
        parsed.append(Call(code.rstrip(), requests))
    return parsed


async def write_table(uri: str, options: dict[str, str]) -> None:
    """Write a table of eight versions and a branch."""
    vectors = pa.array([[float(n)] * 8 for n in range(NUM_ROWS)], pa.list_(pa.float32(), 8))
    rows = pa.table({"id": range(NUM_ROWS), "name": ["name"] * NUM_ROWS, "vector": vectors})
    async with alance.Session() as session:
        dataset = await alance.write_dataset(
            rows, uri, storage_options=options, session=session, max_rows_per_file=250
        )
        dataset = await dataset.update_config({"key": "value"})
        dataset = await dataset.update_config({"key": None})
        dataset = await dataset.create_scalar_index("id", "BTREE")
        dataset = await dataset.create_index("vector", "IVF_FLAT", num_partitions=2)
        dataset = await dataset.delete("id IN (3, 300)")
        dataset = await dataset.update_metadata({"key": "value"})
        await dataset.create_branch("dev")
        await dataset.update_metadata({"key": None})
        await dataset.tags.create("first", 1)
        await dataset.tags.create("second", 2)


@pytest.fixture(scope="module")
def _table(lab_server: Lab) -> None:
    asyncio.run(write_table(URI, lab_server.lance_options()))


async def requests(lab: Lab, uri: str, code: str) -> Recording:
    """Return the requests of a call on a table, made in a session of its own."""
    names: dict[str, Any] = {
        "alance": alance,
        "array": np.array,
        "delete_rows": delete_rows,
        "pa": pa,
        "CLONE": f"{uri}-clone",
        "DEEP": f"{uri}-deep",
        "NUM_ROWS": NUM_ROWS,
        "RENAMED": {"path": "name", "name": "title"},
        "NOTHING": alance.operations.UpdateConfig(),
        "ALL": timedelta(0),
        "ANY": {"error_if_tagged_old_versions": False},
    }
    async with alance.Session() as session:
        names["d"] = await alance.dataset(uri, storage_options=lab.lance_options(), session=session)
        with lab.recording() as seen:
            result = eval(code, names)
            if hasattr(result, "__aiter__"):
                [batch async for batch in result]
            else:
                await result
    return seen


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize("call", calls(READS), ids=lambda call: call.code)
async def test_a_call_that_reads_sends_the_documented_requests(lab: Lab, call: Call) -> None:
    seen = await requests(lab, URI, call.code)
    assert Counter(record["op"] for record in seen.records) == call.requests


async def test_calls_that_write_send_the_documented_requests(lab: Lab) -> None:
    uri = f"{URI}-changed"
    await write_table(uri, lab.lance_options())
    for call in calls(WRITES):
        seen = await requests(lab, uri, call.code)
        assert Counter(record["op"] for record in seen.records) == call.requests, call.code


@pytest.mark.usefixtures("_table")
async def test_a_version_as_of_a_time_is_read_after_all_manifests(lab: Lab) -> None:
    async with alance.Session() as session:
        with lab.recording() as seen:
            await alance.dataset(
                URI, asof="2999-01-01", storage_options=lab.lance_options(), session=session
            )
    assert Counter(record["op"] for record in seen.records) == {"LIST": 1, "GET": 8 + 1}


async def test_a_catalog_sends_the_documented_requests(lab: Lab) -> None:
    async with alance.Session() as session:
        catalog = await alance.connect(
            "s3://lab/documented-catalog", storage_options=lab.lance_options(), session=session
        )
        for call in calls(OF_A_CATALOG):
            with lab.recording() as seen, suppress(alance.TableNotFoundError):
                await eval(call.code, {"c": catalog})
            assert Counter(record["op"] for record in seen.records) == call.requests, call.code


async def test_a_file_above_8_mib_is_sent_and_read_in_parts(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(9 << 20))
    async with alance.Session() as session:
        files = alance.FileSession.open(
            "s3://lab/files", storage_options=lab.lance_options(), session=session
        )
        with lab.recording() as seen:
            await files.upload_file(tmp_path / "large", "large")
        counts = Counter(record["op"] for record in seen.records)
        assert counts == {"MPCREATE": 1, "PART": 2, "MPCOMPLETE": 1}
        for length, num_gets in ((0, 0), (1, 1), (8 << 20, 1), (9 << 20, 2)):
            with lab.recording() as seen:
                assert await files.read_range("large", 0, length) == bytes(length)
            assert [record["op"] for record in seen.records] == ["GET"] * num_gets


async def test_a_blob_is_read_by_a_request_per_8_mib(lab: Lab) -> None:
    schema = pa.schema([alance.blob_field("blob")])
    rows = pa.table([alance.blob_array([bytes(9 << 20)])], schema=schema)
    async with alance.Session() as session:
        dataset = await alance.write_dataset(
            rows, f"{URI}-blobs", storage_options=lab.lance_options(), session=session
        )
        (file,) = await dataset.take_blobs("blob", indices=[0])
        for read, num_gets in (
            (lambda: file.read_range(0, 10), 1),
            (lambda: file.read_range(0, 9 << 20), 2),
            (file.readall, 2),
        ):
            with lab.recording() as seen:
                await read()
            assert [record["op"] for record in seen.records] == ["GET"] * num_gets


async def test_each_call_reads_a_large_translation_of_addresses_anew(lab: Lab) -> None:
    num_rows = 400_000
    async with alance.Session() as session:
        dataset = await alance.write_dataset(
            {"id": list(range(num_rows))},
            f"{URI}-moved",
            storage_options=lab.lance_options(),
            session=session,
            max_rows_per_file=num_rows // 64,
        )
        dataset = await dataset.create_scalar_index("id", "BTREE")
        dataset = await dataset.delete("id % 3 = 1 OR id % 7 = 2 OR id % 11 = 5")
        dataset = await dataset.optimize.compact_files(defer_index_remap=True)
        for _ in range(2):
            with lab.recording() as seen:
                addresses = await dataset.remap_row_addrs([0, 1])
            assert addresses is not None
            assert addresses.null_count == 1
            assert [record["op"] for record in seen.records] == ["GET"]
