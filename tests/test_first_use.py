"""Modules that `import alance` loads; the event loop never loads the others.

Each test is a program of its own: what is imported once is there for good.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from alance import sync
from alance.testing.lab import Lab

ROOT = Path(__file__).parents[1]

READER = """
import asyncio, pathlib, sys
import numpy as np
import pyarrow as pa
import alance

def rows(count, start=0):
    ids = np.arange(start, start + count)
    return pa.table({"id": pa.array(ids), "v": pa.array(ids.astype(np.float64))})
"""

# No module is looked for while a loop runs in this thread, but those that are named.
WATCHED = (
    READER
    + """
FEW = set(_few_)
found = []

class Watch:
    @staticmethod
    def find_spec(name, path=None, target=None):
        ours = name.startswith(("alance.", "sqlglot", "pyarrow."))
        if ours and name not in FEW and asyncio._get_running_loop() is not None:
            found.append(name)

pa.array([1]).to_pandas()  # pyarrow's own imports
sys.meta_path.insert(0, Watch)

async def main(root):
_body_

asyncio.run(main(_root_))
assert not found, found
"""
)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_loads_what_opens_takes_and_scans() -> None:
    loaded = run("import alance, sys; print(*sys.modules)").split()
    assert "alance.ops.read.take" in loaded
    assert "alance.ops.read.scan" in loaded
    for name in ("sqlglot", "pandas", "pyarrow.compute", "pyarrow.dataset", "alance.sync"):
        assert name not in loaded
    rare = (
        "alance.expr",
        "alance.file.older.v0_1",
        "alance.file.older.v2_0",
        "alance.file.write.writer",
        "alance.format.encode",
        "alance.format.index",
        "alance.format.table.operations",
        "alance.format.v2_0",
        "alance.ops.cleanup",
        "alance.ops.columns",
        "alance.ops.merge",
        "alance.ops.read.explain",
        "alance.ops.upkeep",
        "alance.ops.write",
        "alance.testing",
        "alance.viz",
    )
    assert [item for item in loaded if item.startswith(rare)] == []


def test_a_search_by_words_does_without_pandas(tmp_path: Path) -> None:
    program = f"""
import sys
import alance.sync
from alance import MatchQuery
dataset = alance.sync.dataset({str(tmp_path / "t")!r})
assert len(dataset.search_text("one", columns=["id"])) == 1
assert len(dataset.search_text(MatchQuery("onn", fuzziness=1), filter="id < 5")) == 1
assert len(dataset.search(text="one", vector=[0.0, 1.0])) == 3
assert "pandas" not in sys.modules
"""
    vectors = pa.array([[0.0, 1.0]] * 3, pa.list_(pa.float32(), 2))
    rows = pa.table({"id": range(3), "text": ["one", "two", "three"], "vector": vectors})
    sync.write_dataset(rows, tmp_path / "t").create_index("text", "FTS")
    run(program)


def test_a_first_write_does_without_functions_of_arrow_and_older_files(tmp_path: Path) -> None:
    fields = [pa.field("n", pa.int64()), pa.field("t", pa.string())]
    schema = pa.schema([*fields, ("l", pa.list_(pa.int64())), ("s", pa.struct(fields))])
    rows = [{"n": n, "t": "t", "l": [n], "s": {"n": n, "t": None}} for n in range(9)]
    with pa.ipc.new_file(tmp_path / "rows", schema) as file:
        file.write_table(pa.Table.from_pylist([*rows, *[{}] * 9], schema=schema))
    program = f"""
import asyncio, sys
import pyarrow as pa
import alance
root = {str(tmp_path)!r}
batch = pa.ipc.open_file(root + "/rows").get_batch(0)  # to make an array of a list imports pandas
dataset = asyncio.run(alance.write_dataset(batch, root + "/t"))
writers = ["alance.file.older.v0_1_writer", "alance.file.older.v2_0_writer"]
for name in ("pandas", "pyarrow.compute", "pyarrow._compute", "numpy.ma", *writers):
    assert name not in sys.modules, name
assert asyncio.run(dataset.to_table())["s"].to_pylist()[9:] == [None] * 9
for version in ("2.0", "0.1"):
    flat = batch.select(["n"]).slice(0, 9)
    old = asyncio.run(alance.write_dataset(flat, root + version, data_storage_version=version))
    assert asyncio.run(old.count_rows()) == 9
"""
    run(program)


def test_a_first_simple_filter_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    run(READER + f"asyncio.run(alance.write_dataset(rows(1000), {root!r}))")
    program = f"""
import alance, asyncio, sys
async def main():
    t = await alance.dataset({root!r})
    assert (await t.to_table(filter="id >= 990")).num_rows == 10
    assert (await t.to_table(["v"], filter="id >= 10 AND v IN (20.0, 3.0)")).num_rows == 1
    assert await t.count_rows("NOT (v BETWEEN 1 AND 2.5) AND id IS NOT NULL") == 998
    assert (await t.to_table(filter="id IS NULL OR id != 3")).num_rows == 999
asyncio.run(main())
heavy = ("sqlglot", "pandas", "pyarrow.compute", "pyarrow.acero", "pyarrow.dataset", "numpy.ma")
heavy += ("alance.expr.sql.grammar", "alance.expr.functions", "alance.ops.write", "difflib")
assert [name for name in heavy if name in sys.modules] == []
"""
    run(program)


# What a first use may load of alance: a module takes some 0.3 ms of processor time.
FILTER_LOADS = """
base.compute
expr expr.builders expr.sql expr.arithmetic expr.arrow expr.build expr.casts expr.compare
expr.exact expr.sql.lexical
expr.logic expr.builders.nested expr.sql.parameters expr.predicate expr.pruning expr.pruning_checks
expr.pruning_sets expr.builders.regex expr.sql.simple expr.sql.syntax expr.builders.text
expr.builders.text_parts expr.tree
expr.value_budget
file.open.zones
format.statistics
ops.lookup ops.lookup.work ops.read.pruning
"""
APPEND_LOADS = """
base.compute
file.write file.write.blob_placer file.write.page_writer
file.write.small_batches file.write.writer file.budgets
format.encode format.encode.arrays format.encode.blobs format.encode.container
format.encode.leaves format.encode.levels format.encode.options format.encode.page_inputs
format.encode.pages format.encode.rows format.encode.small_file format.encode.statistics
format.proto.encodings_v2_0_pb2 format.proto.encodings_v2_3_pb2
format.statistics
format.table.changes format.table.changes.apply
format.table.changes.apply_rows
format.table.changes.apply_state format.table.changes.lineage
format.table.operations
format.table.transaction
ops.blobs ops.blobs.arrow ops.blobs.files
ops.cleanup ops.cleanup.after
ops.version.commits
ops.write ops.write.annotations ops.write.append ops.write.append_by_uri ops.write.bases
ops.write.files ops.write.options ops.write.sources ops.write.write
versioning.commit versioning.commit_queue versioning.group_queue versioning.known_versions
versioning.manifest_store
versioning.outcome versioning.rules versioning.settle versioning.tokens versioning.waiting_append
writing
"""
FIRST = """
    batch = pa.ipc.open_file(root + "/rows").get_batch(0)
    t = await alance.dataset(root + "/t")
    before = set(sys.modules)
"""


@pytest.mark.parametrize(
    ("call", "loads"),
    [
        ('await t.to_table(filter="v > 5")', FILTER_LOADS),
        ("await t.insert(batch)", APPEND_LOADS),
        ('await alance.write_dataset(batch, root + "/t", mode="append")', APPEND_LOADS),
    ],
    ids=["filter", "insert", "append"],
)
def test_a_first_use_loads_few_modules(call: str, loads: str, tmp_path: Path) -> None:
    """Let a rare path import what it needs where it begins, rather than add its module here."""
    rows = pa.table({"id": range(9), "v": [float(n) for n in range(9)], "t": ["t"] * 9})
    sync.write_dataset(rows, tmp_path / "t")
    with pa.ipc.new_file(tmp_path / "rows", rows.schema) as file:
        file.write_table(rows)
    program = f"""
import alance, asyncio, sys
import pyarrow as pa
root = {str(tmp_path)!r}
async def main():
{FIRST}
    {call}
    print(*(sys.modules.keys() - before))
asyncio.run(main())
"""
    loaded = {name for name in run(program).split() if name.startswith("alance.")}
    assert loaded - {f"alance.{name}" for name in loads.split()} == set()


def test_a_first_use_compiles_few_functions(tmp_path: Path) -> None:
    """Dataclasses compile a method when it is first called; the rest are named tuples."""
    rows = pa.table({"id": range(9), "v": [float(n) for n in range(9)]})
    sync.write_dataset(rows, tmp_path / "t")
    with pa.ipc.new_file(tmp_path / "rows", rows.schema) as file:
        file.write_table(rows)
    counts = run(
        f"""
import asyncio, sys
import pyarrow as pa
root = {str(tmp_path)!r}
count = 0

def note(event, args):
    global count
    count += event == "exec" and args[0].co_filename == "<string>"

sys.addaudithook(note)
import alance

async def main():
    print(count)
    t = await alance.dataset(root + "/t")
    await t.to_table(filter="v > 5")
    print(count)
    await t.insert(pa.ipc.open_file(root + "/rows").get_batch(0))
    print(count)

asyncio.run(main())
"""
    )
    imported, filtered, inserted = map(int, counts.split())
    assert imported < 150
    assert filtered - imported < 80
    assert inserted - filtered < 60


def test_importing_the_blocking_face_loads_little_more() -> None:
    program = """
import sys
import alance
before = set(sys.modules)
import alance.sync
more = {name for name in sys.modules.keys() - before if name.startswith("alance")}
assert more == {"alance.sync", "alance.blocking"}, more
assert issubclass(alance.sync.Compaction, object)
assert "alance.optimize" in sys.modules
assert set(alance.sync.__all__) <= set(dir(alance.sync))
assert {name for name in alance.sync.__all__ if not hasattr(alance.sync, name)} == set()
assert alance.sync.Dataset is alance.sync.Dataset
try:
    alance.sync.nothing
except AttributeError as error:
    assert "no attribute 'nothing'" in str(error)
else:
    raise AssertionError
"""
    run(program)


def test_taking_and_scanning_load_nothing_more(tmp_path: Path) -> None:
    run(
        READER + f"asyncio.run(alance.write_dataset(rows(1000), {str(tmp_path / 't')!r}))",
    )
    loaded = run(
        f"""
import alance, asyncio, sys
before = set(sys.modules)
async def main():
    dataset = await alance.dataset({str(tmp_path / "t")!r})
    await dataset.take([3, 1], ["v"])
    await dataset.to_table(["id"], limit=10)
    await dataset.count_rows()
asyncio.run(main())
print(*(one for one in sys.modules if one not in before and one.startswith("alance")))
"""
    )
    assert loaded.split() == ["alance.base.compute"]  # for Arrow's kernel that puts rows in order


def test_public_names_are_found_and_listed() -> None:
    run(
        """
import alance, pydoc
assert set(alance.__all__) <= set(dir(alance))
from alance import FileWriter, Recorder, operations, write_dataset
assert alance.FileWriter is FileWriter
assert alance.operations is operations
for name in alance.__all__:
    getattr(alance, name)
for name in alance.optimize.__all__:
    getattr(alance.optimize, name)
for module in (alance, alance.optimize):
    try:
        module.nothing
    except AttributeError as error:
        assert "nothing" in str(error)
    else:
        raise AssertionError
text = pydoc.plain(pydoc.render_doc(alance))
assert "write_dataset(" in text
exec("from alance import *")
"""
    )


# Names, modules of a few lines, the faces of rooms: they take a millisecond.
FEW = (
    "alance.file.budgets",
    "alance.files",
    "alance.format.index",
    "alance.format.table.changes.apply_indices",
    "alance.format.table.indices",
    "alance.ingesting",
    "alance.operations",
    "alance.ops.blobs",
    "alance.ops.blobs.files",
    "alance.ops.index",
    "alance.ops.index.listing",
    "alance.ops.merge",
    "alance.ops.merge.options",
    "alance.ops.read.blob_bytes",
    "alance.ops.read.delta",
    "alance.ops.refs",
    "alance.ops.refs.refs",
    "alance.ops.write",
    "alance.ops.write.ingest_options",
    "alance.ops.write.options",
    "alance.writing",
)

READS = """
    async with alance.Session() as session:
        t = await alance.dataset(root + "/t", session=session)
        t.list_indices()
        await t.take([1], {"x": "id + 1"})
        await t.to_table(filter="id > 5")
        await t.to_table({"double": "id * 2"}, filter="v < 7.5 AND id IN (1, 2, 3)")
        await t.count_rows("id < 3")
        str(await t.scanner(filter="id > 3").explain())
        str(await t.explain_take([3]))
        await t.sample(3)
        await t.sql("select sum(v) from dataset where id > 5")
        await (await t.to_polars_lazy()).head(3).collect_async()
        await t.to_pandas(limit=3)
        await t.stats()
        await t.validate()
        async for _ in t.delta(1).get_inserted_rows():
            pass
        await t.versions()
        await t.get_transactions()
        await t.tags.list()
    for version in ("0.1", "2.0"):
        t = await alance.dataset(root + "/t" + version)
        await t.to_table()
        await t.take([1])
        (path,) = pathlib.Path(root + "/t" + version + "/data").iterdir()
        await (await alance.FileReader.open(path)).to_table()
"""

WRITES = """
    t = await alance.write_dataset(rows(100), root + "/w", stable_row_ids=True)
    t = await t.insert(rows(10, 100))
    t = await t.delete("id = 3")
    t = await t.update({"v": "v + 1"}, "id = 4")
    merge = t.merge_insert("id").when_matched_update_all("source.v > target.v")
    t = await merge.when_not_matched_by_source_delete("id > 1000").execute(rows(5, 108))
    t = await t.upsert(rows(2, 3), "id")
    t = await t.add_columns({"w": "v * 2"})
    t = await t.alter_columns({"path": "w", "name": "x"})
    t = await t.alter_columns({"path": "x", "data_type": pa.float32()})
    t = await t.replace_columns({"x": "id"})
    t = await t.drop_columns(["x"])
    t = await t.create_scalar_index("id", "BTREE")
    await t.to_table(filter="id = 7")
    await t.index_statistics("id_idx")
    t = await t.optimize.compact_files()
    t = await t.optimize.optimize_indices()
    await alance.Compaction.plan(t)
    t = await t.drop_index("id_idx")
    await t.tags.create("a", 1)
    await t.create_branch("b")
    await t.shallow_clone(root + "/c")
    await t.deep_clone(root + "/d")
    t = await t.update_config({"a": "b"})
    await t.cleanup_old_versions(dry_run=True)
    t = await t.restore(1)
    await t.fragments[0].add_columns({"q": "id"})
    fragments = await alance.write_fragments(rows(3), root + "/w")
    await alance.commit(t, alance.operations.Append(tuple(fragments)))
    async with alance.ingest(root + "/i", rows(1).schema) as sink:
        await sink.write(rows(5))
    async with alance.FileWriter.open(root + "/f.lance") as writer:
        await writer.write(rows(5))
"""


@pytest.mark.parametrize("body", [READS, WRITES], ids=["reads", "writes"])
def test_the_loop_imports_nothing_large(body: str, tmp_path: Path) -> None:
    """Verbs have a thread import what they need: the loop goes on meanwhile."""
    root = str(tmp_path)
    run(
        READER
        + f"""
async def main():
    t = await alance.write_dataset(rows(100), {root!r} + "/t", stable_row_ids=True)
    await t.insert(rows(10))
    for version in ("0.1", "2.0"):
        await alance.write_dataset(rows(9), {root!r} + "/t" + version, data_storage_version=version)
asyncio.run(main())
"""
    )
    program = WATCHED.replace("_few_", repr(FEW)).replace("_root_", repr(root))
    run(program.replace("_body_", body))


def test_first_takes_of_a_crowd_import_nothing_on_the_loop() -> None:
    """Arrow's functions are imported beside the reads; masked arrays of numpy are not at all."""
    with Lab(buckets=("firstuse",)) as lab:
        options = lab.lance_options()
        rows = pa.table({"id": range(1000)})
        sync.write_dataset(rows, "s3://firstuse/t", storage_options=options)
        run(
            f"""
import alance, asyncio, sys

class Watch:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith(("numpy.", "pyarrow.")) and asyncio._get_running_loop() is not None:
            found.append(name)

async def main():
    async with alance.Session(block_cache_bytes=1 << 20) as session:
        t = await alance.dataset("s3://firstuse/t", storage_options={options!r}, session=session)
        for count in (1, 64, 64):
            crowd = (t.take([900 - n, n, n]) for n in range(count))
            for n, rows in enumerate(await asyncio.gather(*crowd)):
                assert rows["id"].to_pylist() == [900 - n, n, n]

found = []
sys.meta_path.insert(0, Watch)
asyncio.run(main())
assert "alance.base.compute" in sys.modules
assert "pyarrow.compute" not in sys.modules
assert not found, found
"""
        )


def test_a_first_filter_does_not_keep_the_loop(tmp_path: Path) -> None:
    """Neither its imports nor the parsing of its text: the loop's own time is counted."""
    root = str(tmp_path / "t")
    run(READER + f"asyncio.run(alance.write_dataset(rows(1000), {root!r}))")
    run(
        f"""
import alance, asyncio
from alance.testing.stalls import Stalls
async def main():
    dataset = await alance.dataset({root!r})
    await dataset.take([1])
    async with Stalls() as stalls:
        assert (await dataset.to_table(filter="id >= 990")).num_rows == 10
    assert stalls.longest_callback < 0.02, stalls.slowest
asyncio.run(main())
"""
    )


def test_threads_may_import_at_once(tmp_path: Path) -> None:
    """The loops of several threads filter for the first time at the same time."""
    root = str(tmp_path / "t")
    run(READER + f"asyncio.run(alance.write_dataset(rows(1000), {root!r}))")
    run(
        f"""
import alance, asyncio, threading
counts = []
async def count():
    async with alance.Session() as session:
        dataset = await alance.dataset({root!r}, session=session)
        counts.append(await dataset.count_rows("id < 7 AND v >= 2.0"))
threads = [threading.Thread(target=lambda: asyncio.run(count())) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
assert counts == [5] * 4, counts
"""
    )


def test_a_fork_waits_for_imports(tmp_path: Path) -> None:
    """A child has no thread that would finish a module which is half imported."""
    (tmp_path / "slow.py").write_text("import time, begun\ntime.sleep(0.3)\ndone = True\n")
    (tmp_path / "begun.py").write_text("")
    run(
        f"""
import asyncio, os, sys
sys.path.insert(0, {str(tmp_path)!r})
from alance.io.reading.pool import DecodePool
async def main():
    pool = DecodePool(1)
    loading = asyncio.ensure_future(pool.load("slow"))
    while "begun" not in sys.modules:
        await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        import slow
        os._exit(0 if slow.done else 1)
    assert os.waitpid(child, 0)[1] == 0
    await loading
    await pool.aclose()
asyncio.run(main())
"""
    )
