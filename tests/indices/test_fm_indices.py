"""FM indices of both writers: built, asked, kept up to date, moved and damaged, beside scans."""

from __future__ import annotations

import pickle
import random
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, Final

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader, LanceFileWriter
from lance.indices import IndexConfig

import alance
from alance.errors import CorruptFileError, InvalidInputError
from alance.format.index import fm
from alance.ops.index.values import runs as index_runs
from tests.indices.index_cases import agree, coverage, entries, ids, opened_with_sizes, plan_of
from tests.reference.thinned import paired
from tests.spoiling import spoiled_copies

WHO: Final = ("alance", "pylance")
WORDS: Final = ("river", "stone", "Fox", "日本語", "naïve", "it's", "a b", "e\u0301", "%_", "")
# Filters on which pylance agrees: its index has no rows for an empty part, takes a zero byte for a
# blank, and lets NOT give rows that are null.
FILTERS: Final = (
    "contains(s, 'iver 1')",
    "contains(s, 'e')",
    "contains(s, 'x')",
    "contains(s, '本')",
    "contains(s, 'FOX')",
    "contains(s, 'Fox 77')",
    "contains(s, 'no such text')",
    "contains(s, 'a b') and contains(s, '7')",
    "contains(s, 'a b') or contains(s, '77')",
    "contains(s, '%') and id > 900",
    "contains(s, 'stone') and not contains(s, '1')",
)
# The index of pylance answers none of these.
MORE: Final = (
    "s like '%iver%11'",
    "s like 'river%'",
    "starts_with(s, 'Fox 1')",
    "ends_with(s, '77')",
    "s = 'river 1010'",
    "s in ('river 1010', 'stone 11', '')",
    "s ilike '%FOX%'",
    "regexp_like(s, 'iver 10|77$')",
    "regexp_like(s, 'FOX', 'i')",
    "s is null",
)
OURS: Final = ("contains(s, '')", "not contains(s, 'ive')", "contains(s, 'o z')", "s like '%'")


def rows(count: int = 2_600, first: int = 0) -> pa.Table:
    """Rows with nulls, empty texts, zero bytes, and parts that few or many rows have."""
    numbers = range(first, first + count)

    def text(k: int) -> str | None:
        if k % 19 == 4:
            return None
        return f"{WORDS[k % len(WORDS)]} {k}" if k % 23 else "o\0z"[: k % 4]

    texts = pa.array(map(text, numbers), pa.string())
    return pa.table({"id": pa.array(numbers, pa.int64()), "s": texts})


async def create(path: Path, who: str, column: str = "s") -> None:
    if who == "alance":
        await (await alance.dataset(path)).create_scalar_index(column, "FM")
    else:
        # Text is no index type that pylance takes here; what it accepts is a configuration.
        lance.dataset(path).create_scalar_index(column, IndexConfig("fm", {}))


async def checked(path: Path) -> alance.Dataset:
    """The table, on which both libraries answer as if there were no index."""
    dataset = await agree(path, (*FILTERS, *MORE))
    for condition in OURS:
        matches = await ids(dataset, condition)
        assert matches == await ids(dataset, condition, use_scalar_index=False), condition
        assert await dataset.count_rows(condition) == len(matches)
    return dataset


def contents(path: Path) -> dict[str, Any]:
    """Columns and metadata of the files of the only segment; the fingerprint is not compared."""
    (entry,) = entries(lance.dataset(path))
    by_name = {}
    for file in (path / "_indices" / entry["uuid"]).iterdir():
        reader = LanceFileReader(str(file))
        schema = reader.metadata().schema
        metadata = {key: value for key, value in schema.metadata.items() if key != b"fingerprint"}
        fields = [(field.name, field.type, field.nullable) for field in schema]
        by_name[file.name] = (fields, metadata, reader.read_all().to_table().to_pydict())
    return by_name


def few_rows_a_partition(monkeypatch: pytest.MonkeyPatch, count: int = 300) -> None:
    monkeypatch.setattr(fm, "FM_PARTITION_ROWS", count)


@pytest.mark.parametrize(("who", "stable"), [*product(WHO, [False, True])])
async def test_both_libraries_answer_by_an_index_of_either(
    tmp_path: Path, who: str, stable: bool
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(), path, max_rows_per_file=900, enable_stable_row_ids=stable)
    lance.dataset(path).delete("id % 17 = 3")
    await create(path, who)
    dataset = await checked(path)
    condition = "contains(s, 'Fox 77')"
    (line,) = (await plan_of(dataset, condition)).index_lines
    assert line.startswith("index s_idx (FM) on s: ")
    assert "s_idx(Fm)" in lance.dataset(path).scanner(filter=condition).explain_plan()
    theirs = lance.dataset(path)
    assert [index["type"] for index in dataset.list_indices()] == ["Fm"]
    assert [index.index_type for index in await dataset.describe_indices()] == ["Fm"]
    listed = theirs.stats.index_stats("s_idx")
    ours = await dataset.index_statistics("s_idx")
    assert ours["index_type"] == listed["index_type"]
    assert ours["indices"] == listed["indices"]
    (entry,) = entries(theirs)
    record = dataset._snapshot.manifest.indices[0]
    assert record.index_version == 10
    assert sorted(file.path for file in record.files) == sorted(
        file.name for file in (path / "_indices" / entry["uuid"]).iterdir()
    )
    await dataset.validate()


@pytest.mark.parametrize(("version", "stable"), [("2.0", False), ("2.1", True), ("2.2", False)])
async def test_files_are_those_of_pylance(tmp_path: Path, version: str, stable: bool) -> None:
    many = pa.concat_tables([rows(), rows(12_000, 10_000)])
    large = many.set_column(1, "s", many["s"].cast(pa.large_binary()))
    for number, table in enumerate((many, large, many.slice(4, 1), many.slice(0, 0))):
        options: dict[str, Any] = {"data_storage_version": version, "enable_stable_row_ids": stable}
        for who in WHO:
            path = tmp_path / f"{number} {who}"
            lance.write_dataset(table, path, max_rows_per_file=5_000, **options)
            if number < 2:
                lance.dataset(path).delete("id % 7 = 3")
            await create(path, who)
        ours, theirs = (contents(tmp_path / f"{number} {who}") for who in WHO)
        assert ours == theirs
        assert len(ours) == (2 if number < 2 else 1)


@pytest.mark.parametrize(("maker", "keeper", "stable"), paired(WHO, WHO, [False, True]))
async def test_changes_leave_answers_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: str, keeper: str, stable: bool
) -> None:
    few_rows_a_partition(monkeypatch)
    monkeypatch.setattr("alance.ops.index.values.carried.RESCANNED_ROWS", 0)
    path = tmp_path / "t"
    lance.write_dataset(rows(), path, max_rows_per_file=900, enable_stable_row_ids=stable)
    await create(path, maker)
    dataset = await alance.dataset(path)
    dataset = await dataset.insert(rows(500, 10_000))
    dataset = await dataset.delete("id % 11 = 3 or (id > 300 and id < 600)")
    dataset = await dataset.update({"s": "'river 1010'"}, where="id % 29 = 2")
    await checked(path)
    if keeper == "alance":
        await dataset.optimize.compact_files()
        moved = coverage(path)["s_idx"]
        assert len(moved) == 1
        assert moved != [[]]
    else:
        lance.dataset(path).optimize.compact_files()
    await checked(path)
    lance.write_dataset(rows(500, 20_000), path, mode="append")
    await checked(path)
    if keeper == "alance":
        await (await alance.dataset(path)).optimize.optimize_indices()
    else:
        lance.dataset(path).optimize.optimize_indices()
    dataset = await checked(path)
    live = {fragment.fragment_id for fragment in lance.dataset(path).get_fragments()}
    assert {number for part in coverage(path)["s_idx"] for number in part} >= live
    assert (await plan_of(dataset, "contains(s, 'Fox 77')")).picked is not None
    await dataset.validate()


async def test_segments_are_merged_without_reading_indexed_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_rows_a_partition(monkeypatch, 100)
    monkeypatch.setattr("alance.ops.index.values.carried.RESCANNED_ROWS", 0)
    path = tmp_path / "t"
    lance.write_dataset(rows(950), path, max_rows_per_file=300)
    await create(path, "alance")
    dataset = await alance.dataset(path)
    old = {file.path for file in dataset._snapshot.manifest.indices[0].files}
    assert len(old) == 9
    dataset = await dataset.delete("id % 50 = 3 or id > 800")
    dataset = await dataset.insert(rows(130, 5_000))
    dataset = await alance.dataset(path, session=alance.Session())
    with alance.trace() as recorder:
        dataset = await dataset.optimize.optimize_indices()
    (new,) = lance.dataset(path).get_fragments()[-1].data_files()
    read = {event.location for event in recorder.events if "/data/" in event.location}
    assert {location.split("/")[-1] for location in read} == {new.path}
    await checked(path)
    # What lost many rows is joined with what is new; few deleted rows stay where they are.
    (message,) = (await dataset.index_statistics("s_idx"))["indices"]
    assert message["num_partitions"] == 9
    assert 700 < message["total_docs"] < 900


async def test_rows_of_fragments_that_an_index_lost_do_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_rows_a_partition(monkeypatch, 100)
    monkeypatch.setattr("alance.ops.index.values.carried.RESCANNED_ROWS", 0)
    path = tmp_path / "t"
    table = rows(800).append_column("other", pa.array(range(800)))
    lance.write_dataset(table, path, max_rows_per_file=200)
    await create(path, "pylance")
    dataset = await alance.dataset(path)
    changed = pa.table({"id": range(200, 400), "s": ["new text"] * 200})
    merge = dataset.merge_insert("id").when_matched_update_all()
    await merge.write_mode("rewrite_columns").execute(changed)
    assert coverage(path) == {"s_idx": [[0, 2, 3]]}
    await checked(path)
    dataset = await (await alance.dataset(path)).optimize.optimize_indices()
    assert await dataset.count_rows("contains(s, 'new text')") == 200
    await checked(path)


async def test_parts_of_several_tasks_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    monkeypatch.setattr(index_runs, "READ_BYTES", 5_000)
    few_rows_a_partition(monkeypatch, 100)
    path = tmp_path / "t"
    lance.write_dataset(rows(1_000), path, max_rows_per_file=400)
    dataset = await alance.dataset(path)
    plan = await alance.IndexBuild.plan(dataset, "s", "FM", task_bytes=1)
    assert plan.num_tasks() == 3
    plan = pickle.loads(pickle.dumps(plan))
    parts = [await task.execute(dataset) for task in reversed(plan.tasks)]
    parts = pickle.loads(pickle.dumps(parts))
    assert await alance.IndexBuild.ranges(dataset, plan, parts, range_bytes=1) == []
    segment = await alance.IndexBuild.merge(dataset, plan, parts, memory_bytes=1 << 16)
    dataset = await alance.IndexBuild.commit(dataset, plan, segment)
    await checked(path)
    assert (await dataset.index_statistics("s_idx"))["indices"][0]["num_partitions"] == 10
    assert not list((path / "_indices").glob("*/*.run"))
    await dataset.validate()


async def test_of_no_rows_and_of_nulls_alone(tmp_path: Path) -> None:
    for count in (0, 5):
        for who in WHO:
            path = tmp_path / f"{count} {who}"
            table = pa.table({"id": pa.array(range(count), pa.int64())})
            table = table.append_column("s", pa.nulls(count, pa.string()))
            lance.write_dataset(table, path)
            await create(path, who)
            dataset = await alance.dataset(path)
            assert await dataset.count_rows("contains(s, 'a')") == 0
            assert await ids(dataset, "s is null") == list(range(count))
            assert lance.dataset(path).count_rows("contains(s, 'a')") == 0
            dataset = await dataset.insert([{"id": 7, "s": "abc"}])
            dataset = await dataset.optimize.optimize_indices()
            assert await ids(dataset, "contains(s, 'b')") == [7]
            assert lance.dataset(path).count_rows("contains(s, 'b')") == 1
    dataset = await dataset.create_scalar_index("s", "FM", name="later", train=False)
    assert await ids(dataset, "contains(s, 'b')") == [7]


async def test_columns_that_do_not_suit_are_refused(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(pa.table({"i": [1]}), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="no FM index of it; expected text or bytes"):
        await dataset.create_scalar_index("i", "FM")
    with pytest.raises(alance.UnsupportedError, match="expected BTREE"):
        await dataset.create_scalar_index("i", "JSON", path="a", target_index_type="FM")


async def test_counts_are_told_by_the_index_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(), path, max_rows_per_file=900)
    await create(path, "pylance")
    dataset = await alance.dataset(path, session=alance.Session())
    with alance.trace() as recorder:
        count = await dataset.count_rows("contains(s, 'Fox') and contains(s, '77')")
    assert (
        count
        == await dataset.scanner(
            filter="contains(s, 'Fox') and contains(s, '77')", use_scalar_index=False
        ).count_rows()
    )
    assert not [event for event in recorder.events if "/data/" in event.location]


async def test_prewarming_reads_all_partitions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(), path, max_rows_per_file=900)
    await create(path, "alance")
    dataset = await alance.dataset(path, session=alance.Session())
    await dataset.prewarm_index("s_idx")
    with alance.trace() as recorder:
        await dataset.count_rows("contains(s, 'Fox 77')")
    assert not [event for event in recorder.events if "/_indices/" in event.location]


async def test_what_costs_more_than_a_scan_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(), path)
    await create(path, "alance")
    async with alance.Session(cache_bytes=1_000) as session:
        dataset = await alance.dataset(path, session=session)
        (line,) = (await plan_of(dataset, "contains(s, 'Fox 77')")).index_lines
        assert "are more than cache_bytes=1,000" in line
        assert await ids(dataset, "contains(s, 'Fox 77')") != []
    monkeypatch.setattr("alance.ops.lookup.look_up.MAX_LOOKUP_ROWS", 8 << 10)
    monkeypatch.setattr("alance.ops.lookup.look_up.USEFUL_ROWS", 8 << 10)
    dataset = await alance.dataset(path)
    (line,) = (await plan_of(dataset, "contains(s, '1')")).index_lines
    assert line.endswith("a scan of 2,600 rows costs less")
    (line,) = (await plan_of(dataset, "contains(s, 'Fox 77')")).index_lines
    assert "not used" not in line


async def test_small_budgets_make_small_partitions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    texts = [chr(97 + n % 26) * 30_000 + str(n) for n in range(20)]
    table = pa.table({"id": range(20), "s": texts})
    dataset = await alance.write_dataset(table, path)
    dataset = await dataset.create_scalar_index("s", "FM", memory_bytes=1 << 20)
    (message,) = (await dataset.index_statistics("s_idx"))["indices"]
    assert message["num_partitions"] == 7
    condition = "contains(s, 'c12') or contains(s, 'd3') or contains(s, 'zz')"
    assert await ids(dataset, condition) == [3]
    theirs = lance.dataset(path)
    assert theirs.to_table(["id"], filter=condition)["id"].to_pylist() == [3]


TEXT: Final = st.text("ab é漢\0%_'\U0001f600", max_size=7)


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.none() | TEXT, min_size=1, max_size=60),
    parts=st.lists(TEXT, min_size=4, max_size=4),
    who=st.sampled_from(WHO),
    stable=st.booleans(),
)
async def test_random_parts_of_random_texts(
    texts: list[str | None], parts: list[str], who: str, stable: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        table = pa.table({"id": range(len(texts)), "s": pa.array(texts, pa.string())})
        lance.write_dataset(table, path, max_rows_per_file=20, enable_stable_row_ids=stable)
        await create(path, who)
        async with alance.Session() as session:
            dataset = await alance.dataset(path, session=session)
            for part in parts:
                expected = [n for n, text in enumerate(texts) if text is not None and part in text]
                matches = await dataset.to_table(["id"], filter="contains(s, ?)", params=[part])
                assert matches["id"].to_pylist() == expected
                assert await dataset.count_rows("contains(s, ?)", params=[part]) == len(expected)
                if part and "\0" not in part and not any("\0" in (text or "") for text in texts):
                    condition = f"contains(s, '{part.replace(chr(39), chr(39) * 2)}')"
                    theirs = lance.dataset(path).to_table(["id"], filter=condition)
                    assert sorted(theirs["id"].to_pylist()) == expected


async def test_every_spoiled_file_gives_rows_that_are_asked_for_or_an_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(), path, max_rows_per_file=900)
    await create(path, "pylance")
    dataset = await alance.dataset(path)
    condition = "contains(s, 'iver 1')"
    expected = set(await ids(dataset, condition))
    unused = 0
    for place, _ in spoiled_copies(path, 60, seed=5):
        async with alance.Session() as session:
            copied = await alance.dataset(place, session=session)
            try:
                assert set(await ids(copied, condition)) <= expected
            except CorruptFileError:
                continue
            unused += any(
                "not used" in line for line in (await plan_of(copied, condition)).index_lines
            )
            try:
                await copied.optimize.compact_files()
            except CorruptFileError:
                continue
    assert unused > 8


def rewrite(path: Path, **changed: str) -> None:
    """Write the index's file again, with other metadata, as long as before or not."""
    (file,) = (path / "_indices").glob("*/*.lance")
    reader = LanceFileReader(str(file))
    stored = reader.read_all().to_table()
    metadata = {
        key.decode(): value.decode() for key, value in reader.metadata().schema.metadata.items()
    }
    file.unlink()
    schema = stored.schema.with_metadata({**metadata, **changed})
    with LanceFileWriter(str(file), schema) as writer:
        writer.write_batch(stored.replace_schema_metadata({**metadata, **changed}))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"row_ids": (900).to_bytes(8, "little").hex() * 3}, "row 900 of fragment 0"),
        ({"row_ids": "00"}, "FM index"),
        ({"bwt_len": "12"}, "FM index"),
    ],
)
async def test_what_contradicts_itself_is_not_used(
    tmp_path: Path, changed: dict[str, str], why: str
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(3), "s": ["abc", "bcd", "cde"]}), path)
    await create(path, "pylance")
    rewrite(path, **changed)
    async with alance.Session() as session:
        dataset = await opened_with_sizes(path, session)
        assert await ids(dataset, "contains(s, 'bc')") == [0, 1]
        (line,) = (await plan_of(dataset, "contains(s, 'bc')")).index_lines
        assert "not used" in line
        assert why in line


async def test_a_row_without_the_part_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(3), "s": ["abc", "bcd", "cde"]}), path)
    await create(path, "pylance")
    rewrite(path, row_ids="".join((2 - n).to_bytes(8, "little").hex() for n in range(3)))
    async with alance.Session() as session:
        dataset = await opened_with_sizes(path, session)
        with pytest.raises(CorruptFileError, match=r"is not what an index says.*s_idx"):
            await ids(dataset, "contains(s, 'ab')")


async def test_long_texts_of_many_rows(tmp_path: Path) -> None:
    chance = random.Random(3)
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(2, 7))) for _ in range(400)]
    texts = [" ".join(chance.choices(words, k=60)) for _ in range(21_000)]
    path = tmp_path / "t"
    lance.write_dataset(
        pa.table({"id": range(len(texts)), "s": texts}), path, max_rows_per_file=8_000
    )
    await create(path, "alance")
    dataset, theirs = await alance.dataset(path), lance.dataset(path)
    for part in (*words[:4], f"{words[5]} {words[6]}", texts[77][5:60], texts[20_999][-30:]):
        expected = [n for n, text in enumerate(texts) if part in text]
        assert await ids(dataset, f"contains(s, '{part}')") == expected
        matches = theirs.to_table(["id"], filter=f"contains(s, '{part}')")["id"].to_pylist()
        assert sorted(matches) == expected
