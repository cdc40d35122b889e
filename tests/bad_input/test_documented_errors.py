"""Calls with wrong arguments raise an error that the docstring of the method lists."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import alance
from tests.docstrings import documented

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FUNCTIONS: Final = {function.name: function for function in documented()}
URI: Final = "memory://documented-errors/table"
VECTOR: Final = [1.0] * 8
CODES: Final = pa.dictionary(pa.int32(), pa.string())
TOO_WIDE: Final = {"AlanceError", "Exception", "BaseException", "object"}

# Names of methods, and wrong calls: `d` is the table, `f` a fragment, `merge` a merge by key, `c` a
# catalog without tables, `files` a folder of files.
CALLS: Final = """
Dataset.stats                   d.stats(small_rows=-1)
Dataset.head                    d.head(-1)
Dataset.head                    d.head("x")
Dataset.head                    d.head(1, ["nope"])
Dataset.to_pandas               d.to_pandas(blob_mode="x")
Dataset.to_pandas               d.to_pandas(["nope"])
Dataset.to_polars               d.to_polars(["nope"])
Dataset.to_table                d.to_table(["nope"])
Dataset.to_batches              d.to_batches(filter="nope(")
Dataset.to_batches              d.to_batches(["nope"])
Dataset.to_batches              d.to_batches(limit=-1)
Dataset.scanner                 d.scanner(limit=-1)
Dataset.take                    d.take([1000])
Dataset.take                    d.take([-1])
Dataset.take                    d.take(["x"])
Dataset.take                    d.take([1], {"x": "nope("})
Dataset.explain_take            d.explain_take([1000])
Dataset.explain_take            d.explain_take([1], ["nope"])
Dataset.take_rows               d.take_rows([10**9])
Dataset.take_rows               d.take_rows([3])
Dataset.take_rows               d.take_rows([-1])
Dataset.take_rows               d.take_rows([1], ["nope"])
Dataset.take_addresses          d.take_addresses([99 << 32])
Dataset.take_addresses          d.take_addresses([3])
Dataset.take_addresses          d.take_addresses(["x"])
Dataset.take_blobs              d.take_blobs("id", indices=[1])
Dataset.take_blobs              d.take_blobs("nope", indices=[1])
Dataset.read_blobs              d.read_blobs("id", indices=[1])
Dataset.read_blob_ranges        d.read_blob_ranges("id", [(0, 0, 1)], selector="x")
Dataset.fragment                d.fragment(99)
Dataset.count_rows              d.count_rows("nope = 1")
Dataset.count_rows              d.count_rows("id = ?", params=[1, 2])
Dataset.aggregate               d.aggregate({"x": "nope(id)"})
Dataset.aggregate               d.aggregate({"x": "count(distinct id)"})
Dataset.aggregate               d.aggregate({"x": "sum(kind)"})
Dataset.aggregate               d.aggregate({"x": "count(*)"}, ["id"], memory_bytes=10)
Dataset.sample                  d.sample(1000)
Dataset.sample                  d.sample(1, ["nope"])
Dataset.sample                  d.sample(1, seed="x")
Dataset.sample                  d.sample(1, seed=-1)
Dataset.get                     d.get("x", "id")
Dataset.get                     d.get(1, "nope")
Dataset.get                     d.get(1)
Dataset.get                     d.get("k1", "kind")
Dataset.get_arrow               d.get_arrow("k1", "kind")
Dataset.get_many                d.get_many([1000], "id")
Dataset.get_many                d.get_many([1], "id", missing="x")
Dataset.explain_get             d.explain_get("x", "id")
Dataset.nearest                 d.nearest("id", [1.0])
Dataset.nearest                 d.nearest("vector", [1.0])
Dataset.nearest                 d.nearest("vector", [float("nan")] * 8)
Dataset.nearest_many            d.nearest_many("vector", VECTOR)
Dataset.search_text             d.search_text('"quick fox"')
Dataset.search_text             d.search_text("fox", k=0)
Dataset.search                  d.search(text="fox", vector=VECTOR, combine="x")
Dataset.explain_search          d.explain_search(text="fox", vector=VECTOR, combine="x")
Dataset.sql                     d.sql("selec")
Dataset.sql                     d.sql("select nope from dataset")
Dataset.sql_batches             d.sql_batches("selec")
Dataset.checkout_version        d.checkout_version(99)
Dataset.checkout_version        d.checkout_version("nope")
Dataset.checkout_version        d.checkout_version(1.5)
Dataset.checkout_version        d.checkout_version((1, 2, 3))
Dataset.checkout_branch         d.checkout_branch("nope")
Dataset.checkout_branch         d.checkout_branch("dev", 99)
Dataset.checkout_branch         d.checkout_branch(3)
Dataset.read_transaction        d.read_transaction(99)
Dataset.get_transactions        d.get_transactions(-1)
Dataset.delta                   d.delta()
Dataset.delta                   d.delta(begin_version=5, end_version=99)
Dataset.restore                 d.restore(99)
Dataset.create_branch           d.create_branch("dev")
Dataset.create_branch           d.create_branch("a b")
Dataset.create_branch           d.create_branch("e", 99)
Dataset.create_branch           d.create_branch("e", metadata={1: 2})
Dataset.shallow_clone           d.shallow_clone(URI)
Dataset.shallow_clone           d.shallow_clone("memory://documented-errors/clone", 99)
Dataset.shallow_clone           d.shallow_clone("memory://documented-errors/clone", 1.5)
Dataset.shallow_clone           d.shallow_clone("nope://clone")
Dataset.deep_clone              d.deep_clone(URI)
Dataset.deep_clone              d.deep_clone("memory://documented-errors/clone", 99)
Dataset.deep_clone              d.deep_clone("memory://documented-errors/clone", 1.5)
Dataset.deep_clone              d.deep_clone("nope://clone")
Dataset.insert                  d.insert({"id": ["x"]})
Dataset.insert                  d.insert({"nope": [1]})
Dataset.insert                  d.insert({"id": [1]}, mode="x")
Dataset.insert                  d.insert({"id": [1]}, target_bases=["x"])
Dataset.insert                  d.insert(3)
Dataset.delete                  d.delete("nope = 1")
Dataset.delete                  d.delete("id")
Dataset.update                  d.update({"nope": "1"})
Dataset.update                  d.update({})
Dataset.upsert                  d.upsert({"id": [1]}, "nope")
Dataset.upsert                  d.upsert({"id": [1]})
MergeInsert.execute             merge.execute({"id": [1]})
MergeInsert.execute             merge.when_matched_update_all("nope(").execute({"id": [1]})
MergeInsert.execute             merge.when_matched_fail().execute({"id": [1]})
MergeInsert.analyze_plan        merge.when_matched_fail().analyze_plan({"id": [1]})
MergeInsert.execute_uncommitted merge.when_matched_fail().execute_uncommitted({"id": [1]})
MergeInsert.explain             d.merge_insert("nope").when_matched_delete().explain()
MergeInsert.explain_plan        d.merge_insert("nope").when_matched_delete().explain_plan()
MergeInsert.conflict_retries    merge.conflict_retries(-1)
MergeInsert.retry_timeout       merge.retry_timeout(-1)
MergeInsert.memory_budget       merge.memory_budget(0)
MergeInsert.write_mode          merge.write_mode("x")
MergeInsert.data_storage_version merge.data_storage_version("9.9")
MergeInsert.target_bases        merge.target_bases("x")
MergeInsert.commit_options      merge.commit_options(max_retries=-1)
Dataset.add_columns             d.add_columns({"id": "1"})
Dataset.add_columns             d.add_columns({"x": "nope("})
Dataset.add_columns             d.add_columns({"x": "id"}, read_columns=["id"])
Dataset.add_columns             d.add_columns(pa.field("x", pa.month_day_nano_interval()))
Dataset.alter_columns           d.alter_columns({"path": "nope", "name": "x"})
Dataset.alter_columns           d.alter_columns({"path": "id", "data_type": pa.string()})
Dataset.alter_columns           d.alter_columns({"path": "kind", "data_type": CODES})
Dataset.drop_columns            d.drop_columns(["nope"])
Dataset.drop_columns            d.drop_columns(["id", "kind", "text", "vector"])
Dataset.merge                   d.merge({"id": [1], "z": [1]}, "nope")
Dataset.replace_columns         d.replace_columns({"nope": "1"})
Dataset.replace_columns         d.replace_columns(pa.field("id", pa.int64()))
Dataset.create_scalar_index     d.create_scalar_index("nope", "BTREE")
Dataset.create_scalar_index     d.create_scalar_index("id", "NOPE")
Dataset.create_scalar_index     d.create_scalar_index("vector", "BTREE")
Dataset.create_scalar_index     d.create_scalar_index("id", "BTREE", replace=False)
Dataset.create_scalar_index     d.create_scalar_index("kind", "BTREE", "id_idx")
Dataset.create_index            d.create_index("vector", "IVF_FLAT", num_partitions=2)
Dataset.create_index            d.create_index("vector", "NOPE")
Dataset.create_index            d.create_index("id", "IVF_FLAT")
Dataset.create_index            d.create_index("text", "FTS", progress=5)
Dataset.drop_index              d.drop_index("nope")
Dataset.follow                  d.follow(since=99, wait=False)
Dataset.follow                  d.follow(columns="id", wait=False)
Dataset.follow                  d.follow(columns=["nope"], since=0, wait=False)
Dataset.index_statistics        d.index_statistics("nope")
Dataset.centroids               d.centroids()
Dataset.centroids               d.centroids(index_name="nope")
Dataset.centroids               d.centroids(index_name="id_idx")
Dataset.centroids               d.centroids(column="id")
Dataset.remap_row_addrs         d.remap_row_addrs([-1])
Dataset.prewarm_index           d.prewarm_index("nope")
Dataset.prewarm_index           d.prewarm_index("text_idx", with_position=True)
Dataset.prewarm_index           d.prewarm_index("id_idx", index_segments=["x"])
Dataset.update_config           d.update_config({1: 2})
Dataset.delete_config_keys      d.delete_config_keys([1])
Dataset.delete_config_keys      d.delete_config_keys("abc")
Dataset.update_metadata         d.update_metadata({1: 2})
Dataset.update_schema_metadata  d.update_schema_metadata({1: 2})
Dataset.update_field_metadata   d.update_field_metadata({"nope": {"a": "b"}})
Dataset.cleanup_old_versions    d.cleanup_old_versions(retain_versions=-1)
Dataset.cleanup_old_versions    d.cleanup_old_versions(delete_rate_limit=0)
Dataset.cleanup_old_versions    d.cleanup_old_versions(retain_versions=1)
Dataset.explain_cleanup_old_versions d.explain_cleanup_old_versions(retain_versions=1)
Dataset.explain_cleanup_old_versions d.explain_cleanup_old_versions(max_files=-1)
Dataset.tracked_files           d.tracked_files(min_version=-1)
Scanner.to_batches              d.scanner(["nope"]).to_batches()
Scanner.to_table                d.scanner(["nope"]).to_table()
Scanner.to_pandas               d.scanner(["nope"]).to_pandas()
Scanner.to_polars               d.scanner(["nope"]).to_polars()
Scanner.count_rows              d.scanner(filter="nope = 1").count_rows()
Scanner.explain                 d.scanner(["nope"]).explain()
Scanner.explain_plan            d.scanner(["nope"]).explain_plan()
Scanner.analyze_plan            d.scanner(["nope"]).analyze_plan()
Scanner.aggregate               d.scanner().aggregate({"x": "median(id)"})
Tags.create                     d.tags.create("t")
Tags.create                     d.tags.create("a b")
Tags.create                     d.tags.create("tt", 99)
Tags.get                        d.tags.get("a b")
Tags.get                        d.tags.get(7)
Tags.get_version                d.tags.get_version("nope")
Tags.get_version                d.tags.get_version(7)
Tags.create                     d.tags.create("tt", 1.5)
Tags.update                     d.tags.update("nope", 1)
Tags.update                     d.tags.update("t", 99)
Tags.update                     d.tags.update("t", 1.5)
Tags.update                     d.tags.update("t", "nope")
Tags.delete                     d.tags.delete("nope")
Tags.delete                     d.tags.delete("a b")
Tags.replace_metadata           d.tags.replace_metadata("nope", {})
Tags.replace_metadata           d.tags.replace_metadata("t", {1: 2})
Tags.list_ordered               d.tags.list_ordered("x")
Branches.get                    d.branches.get("nope")
Branches.get                    d.branches.get(7)
Branches.create                 d.branches.create("dev")
Branches.create                 d.branches.create("new", 1.5)
Branches.create                 d.branches.create("a b")
Branches.delete                 d.branches.delete("nope")
Branches.delete                 d.branches.delete("main")
Branches.delete                 d.branches.delete("a b")
Branches.replace_metadata       d.branches.replace_metadata("nope", {})
Branches.replace_metadata       d.branches.replace_metadata("dev", {1: 2})
Branches.list_ordered           d.branches.list_ordered("x")
Optimize.compact_files          d.optimize.compact_files(target_rows_per_fragment=0)
Optimize.optimize_indices       d.optimize.optimize_indices(index_names=["nope"])
Optimize.optimize_indices       d.optimize.optimize_indices(num_indices_to_merge=-1)
Optimize.enable_auto_cleanup    d.optimize.enable_auto_cleanup({"x": 1})
DatasetFragment.take            f.take([1000])
DatasetFragment.head            f.head(-1)
DatasetFragment.count_rows      f.count_rows("nope = 1")
DatasetFragment.to_table        f.to_table(["nope"])
DatasetFragment.to_pandas       f.to_pandas(["nope"])
DatasetFragment.delete          f.delete("nope = 1")
DatasetFragment.delete_rows     f.delete_rows([1000])
DatasetFragment.add_columns     f.add_columns({"id": "1"})
DatasetFragment.merge           f.merge({"k": [1], "z": [7]}, "k")
DatasetFragment.replace_columns f.replace_columns({"nope": "1"})
DatasetFragment.update_columns  f.update_columns({"k": [1], "id": [7]}, "k")
DatasetFragment.create          alance.DatasetFragment.create(URI, {"id": pa.array([], pa.int64())})
DatasetFragment.create_from_file alance.DatasetFragment.create_from_file("nope.lance", d)
DatasetFragment.create_from_file alance.DatasetFragment.create_from_file("../nope.lance", d)
DatasetFragment.create_from_file alance.DatasetFragment.create_from_file("nope.lance", d, -1)
dataset                         alance.dataset("memory://documented-errors/nope")
dataset                         alance.dataset(URI, version=99)
dataset                         alance.dataset(URI, version="nope")
dataset                         alance.dataset("nope://table")
write_dataset                   alance.write_dataset({"id": [1]}, URI)
write_dataset                   alance.write_dataset({"id": [1]}, URI, mode="x")
write_dataset                   alance.write_dataset(3, URI, mode="append")
write_fragments                 alance.write_fragments({"id": ["x"]}, d)
write_fragments                 alance.write_fragments({"id": [1]}, URI, mode="create")
commit                          alance.commit(d, operations.Delete((), (77,)))
commit                          alance.commit(URI, operations.Delete((), (0,)), read_version=99)
commit                          alance.commit(d, operations.Delete((), (0,)), commit_timeout=0)
commit                          alance.commit(URI, operations.Overwrite((), ()), read_version=0)
commit_batch                    alance.commit_batch(d, [])
drop                            alance.drop("memory://documented-errors")
drop                            alance.drop("memory://documented-errors/nope")
repair                          alance.repair("memory://documented-errors/nope")
tokenize                        alance.tokenize(3)
tokenize                        alance.tokenize("a", language="nope")
tokenize                        alance.tokenize("a", nope=1)
blob_array                      alance.blob_array([1])
Blob.from_uri                   alance.Blob.from_uri("")
IndexBuild.plan                 alance.IndexBuild.plan(d, "nope", "BTREE")
IndexBuild.plan                 alance.IndexBuild.plan(d, "id", "NOPE")
Catalog.list_tables             c.list_tables("nope")
Catalog.list_tables             c.list_tables("a/b")
Catalog.list_namespaces         c.list_namespaces("nope")
Catalog.list_namespaces         c.list_namespaces("a/b")
Catalog.create_namespace        c.create_namespace(())
Catalog.create_namespace        c.create_namespace(("nope", "x"))
Catalog.describe_namespace      c.describe_namespace("nope")
Catalog.update_namespace        c.update_namespace("nope", {})
Catalog.update_namespace        c.update_namespace("nope", {1: 2})
Catalog.drop_namespace          c.drop_namespace("nope")
Catalog.create_table            c.create_table("t")
Catalog.create_table            c.create_table(("nope", "t"), {"id": [1]})
Catalog.open_table              c.open_table("nope")
Catalog.table_exists            c.table_exists("a/b")
Catalog.place                   c.place("nope")
Catalog.rename_table            c.rename_table("nope", "x")
Catalog.drop_table              c.drop_table("nope")
Catalog.register_table          c.register_table("t", "nope")
Catalog.register_table          c.register_table("t", "../t")
Catalog.deregister_table        c.deregister_table("nope")
FileSession.open_reader         files.open_reader("nope")
FileSession.open_reader         files.open_reader("../x")
FileSession.contains            files.contains("../x")
FileSession.list                files.list("../x")
FileSession.read_range          files.read_range("nope", 0, 1)
FileSession.read_range          files.read_range("nope", -1, 1)
FileSession.delete_file         files.delete_file("nope")
FileSession.delete_file         files.delete_file("../x")
FileSession.upload_file         files.upload_file("/nope/nope", "x")
FileSession.upload_file         files.upload_file("/nope/nope", "../x")
FileSession.download_file       files.download_file("nope", "/nope/x")
FileSession.download_file       files.download_file("../x", "/nope/x")
Compaction.plan                 alance.Compaction.plan(d, target_rows_per_fragment=0)
"""
CASES: Final = [line.split(maxsplit=1) for line in CALLS.strip().splitlines()]


async def write_table() -> None:
    """Write a table with indices, a deleted row, a tag and a branch."""
    rows = pa.table(
        {
            "id": range(100),
            "kind": [f"k{n % 3}" for n in range(100)],
            "text": [f"quick fox {n}" for n in range(100)],
            "vector": pa.array([[float(n)] * 8 for n in range(100)], pa.list_(pa.float32(), 8)),
        }
    )
    async with alance.Session() as session:
        dataset = await alance.write_dataset(rows, URI, max_rows_per_file=50, session=session)
        dataset = await dataset.delete("id = 3")
        dataset = await dataset.create_scalar_index("id", "BTREE")
        dataset = await dataset.create_index("vector", "IVF_FLAT", num_partitions=2)
        dataset = await dataset.create_index("text", "INVERTED")
        await dataset.tags.create("t", 1)
        await dataset.create_branch("dev")


@pytest.fixture(scope="module")
def _table() -> None:
    asyncio.run(write_table())


@pytest.fixture
async def dataset(_table: None) -> AsyncIterator[alance.Dataset]:
    yield await alance.dataset(URI)
    await alance.Session.of_loop().aclose()


async def answer(code: str, names: dict[str, Any]) -> object:
    """Evaluate a call, await its result, and read it to its end."""
    result = eval(
        code, {"alance": alance, "pa": pa, "URI": URI, "VECTOR": VECTOR, "CODES": CODES, **names}
    )
    if hasattr(result, "__aiter__"):
        return [batch async for batch in result]
    return await result if hasattr(result, "__await__") else result


@pytest.mark.parametrize(("method", "code"), CASES, ids=[code for _, code in CASES])
async def test_a_wrong_call_raises_a_documented_error(
    method: str, code: str, dataset: alance.Dataset
) -> None:
    function = FUNCTIONS[method]
    names = {
        "d": dataset,
        "f": dataset.fragments[0],
        "merge": dataset.merge_insert("id"),
        "operations": alance.operations,
        "c": await alance.connect("memory://documented-errors-catalog"),
        "files": alance.FileSession.open("memory://documented-errors-files"),
    }
    with pytest.raises((alance.AlanceError, TypeError)) as caught:
        await answer(code, names)
    kinds = {kind.__name__ for kind in type(caught.value).__mro__} - TOO_WIDE
    assert kinds & set(function.names("Raises")), caught.value
