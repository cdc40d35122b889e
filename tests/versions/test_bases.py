"""Tables whose data files lie at several places, by alance and by pylance."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import DatasetBasePath, operations, sync
from alance.ops.write.bases import message_of
from alance.testing.lab import Lab
from tests.versions.conftest import manifest_of

if TYPE_CHECKING:
    from pathlib import Path


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": range(start, stop), "text": [f"text {n}" for n in range(start, stop)]})


def bases_at(folder: Path, kind: Any = DatasetBasePath) -> list[Any]:
    return [
        kind(str(folder / "one"), name="one"),
        kind(str(folder / "two"), name="two", is_dataset_root=True),
        kind(f"file://{folder}/three"),
    ]


def files_below(folder: Path, names: str = "*.lance") -> Counter[str]:
    """Data files by the folder that they are in, seen from `folder`."""
    return Counter(str(path.parent.relative_to(folder)) for path in folder.rglob(names))


async def spread(folder: Path, num_rows: int) -> alance.Dataset:
    """A table whose files of 10 rows lie at all places in turn."""
    return await alance.write_dataset(
        rows(0, num_rows),
        str(folder / "table"),
        initial_bases=bases_at(folder),
        target_all_bases=True,
        max_rows_per_file=10,
    )


def base_ids(uri: str | Path) -> list[int | None]:
    fragments = lance.dataset(uri).get_fragments()
    return [file.base_id for fragment in fragments for file in fragment.data_files()]


WRITES: list[dict[str, Any]] = [
    {},
    {"target_bases": ["one"]},
    {"target_bases": ["two", "one"]},
    {"target_bases": ["one", "one", "two"]},
    {"target_all_bases": True},
    {"target_all_bases": False},
    {"target_bases": ["{uri}", "file://{folder}/three"]},
    {"target_bases": ["{folder}/two"]},
]


def named(options: dict[str, Any], folder: Path, uri: str) -> dict[str, Any]:
    if not options.get("target_bases"):
        return options
    return {"target_bases": [n.format(folder=folder, uri=uri) for n in options["target_bases"]]}


@pytest.mark.parametrize("options", WRITES)
async def test_files_go_where_those_of_pylance_go(tmp_path: Path, options: dict[str, Any]) -> None:
    places = []
    for name in ("theirs", "ours"):
        folder = tmp_path / name
        uri = str(folder / "table")
        more = {"max_rows_per_file": 10, **named(options, folder, uri)}
        if name == "theirs":
            bases = bases_at(folder, lance.DatasetBasePath)
            lance.write_dataset(rows(0, 45), uri, initial_bases=bases, **more)
            lance.write_dataset(rows(45, 75), uri, mode="append", **more)
        else:
            await alance.write_dataset(rows(0, 45), uri, initial_bases=bases_at(folder), **more)
            await alance.write_dataset(rows(45, 75), uri, mode="append", **more)
        paths = {key: base.path for key, base in lance.dataset(uri).base_paths().items()}
        assert paths == {
            1: f"{folder}/one",
            2: f"{folder}/two",
            3: f"file://{folder}/three",
        }
        places.append((base_ids(uri), files_below(folder)))
        dataset = await alance.dataset(uri)
        assert (await dataset.to_table()).equals(rows(0, 75))
        assert lance.dataset(uri).to_table().equals(rows(0, 75))
        assert (await dataset.take([3, 60])).equals(rows(0, 75).take([3, 60]))
        assert {key: base.path for key, base in dataset.base_paths.items()} == paths
    assert places[0] == places[1]


async def test_every_change_of_such_a_table_by_both(tmp_path: Path) -> None:
    uri, targets = str(tmp_path / "table"), ["one", "two"]
    dataset = await alance.write_dataset(
        rows(0, 100),
        uri,
        initial_bases=bases_at(tmp_path),
        target_bases=targets,
        max_rows_per_file=10,
    )
    lance.dataset(uri).delete("id in (3, 44)")
    dataset = await (await dataset.checkout_latest()).delete("id in (5, 91)")
    dataset = await dataset.update({"text": "'new'"}, "id < 3")
    dataset = await dataset.add_columns({"twice": "id * 2"})
    dataset = await dataset.create_scalar_index("id", "BTREE")
    merged = rows(98, 120).append_column("twice", pa.array(range(98, 120)))
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    dataset = await builder.target_bases(["two"]).execute(merged)
    assert base_ids(uri)[-1] == 2
    lance.dataset(uri).merge_insert("id").when_not_matched_insert_all().target_bases(
        ["one"]
    ).execute(merged.set_column(0, "id", pa.array(range(200, 222))))
    dataset = await dataset.checkout_latest()
    assert base_ids(uri)[-1] == 1
    expected = lance.dataset(uri).to_table()
    assert (await dataset.to_table()).equals(expected)
    assert (await dataset.to_table(filter="id in (44, 45, 98, 110, 205)"))["id"].to_pylist() == [
        45,
        98,
        110,
        205,
    ]
    assert not (await dataset.validate())
    assert await dataset.count_rows() == len(expected) == 138


@pytest.mark.parametrize("who", ["ours", "theirs"])
async def test_compaction_brings_rows_home_and_cleanup_leaves_bases_alone(
    tmp_path: Path, who: str
) -> None:
    """Nobody knows what else is below a base path: pylance removes nothing there either."""
    dataset = await spread(tmp_path, 100)
    uri = dataset.uri
    before = files_below(tmp_path)
    assert before == {"table/data": 3, "one": 3, "two/data": 2, "three": 2}
    for place in ("one", "two/data"):
        (tmp_path / place / "of-somebody-else.lance").write_bytes(b"precious")
    if who == "ours":
        dataset = await dataset.optimize.compact_files()
        stats = await dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
        assert stats.data_files_removed == 3
    else:
        theirs = lance.dataset(uri)
        theirs.optimize.compact_files()
        assert (
            theirs.cleanup_old_versions(timedelta(0), delete_unverified=True).data_files_removed
            == 3
        )
    after = files_below(tmp_path)
    assert after == {"table/data": 1, "one": 4, "two/data": 3, "three": 2}
    assert base_ids(uri) == [None]
    dataset = await alance.dataset(uri)
    assert (await dataset.to_table()).equals(rows(0, 100))
    assert (await dataset.insert(rows(0, 5), target_bases=["three", "one"][1:])).version


async def test_files_of_a_base_within_the_data_folder_are_not_swept(tmp_path: Path) -> None:
    """pylance makes such base paths; alance refuses to, and does not take their files for lost."""
    uri = str(tmp_path / "table")
    inside = lance.DatasetBasePath(f"{uri}/data/inner", name="inner")
    lance.write_dataset(rows(0, 20), uri, initial_bases=[inside], target_bases=["inner"])
    dataset = await (await alance.dataset(uri)).insert(rows(20, 30), target_bases=["inner"])
    dataset = await dataset.update({"text": "'x'"}, "id = 3")
    await dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert (await dataset.to_table(["id"])).num_rows == 30
    assert lance.dataset(uri).count_rows("id < 100") == 30
    with pytest.raises(alance.InvalidInputError, match="is within the folder of dataset"):
        await dataset.add_bases([DatasetBasePath(f"{uri}/data/other")])


async def test_bases_are_added_by_both(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    dataset = await alance.write_dataset(rows(0, 5), uri)
    dataset = await dataset.add_bases([DatasetBasePath(str(tmp_path / "one"), "one")])
    lance.dataset(uri).add_bases([lance.DatasetBasePath(str(tmp_path / "two"), "two", True)])
    dataset = await dataset.checkout_latest()
    dataset = await dataset.add_bases(
        [DatasetBasePath("memory://elsewhere/x"), DatasetBasePath(f"file://{tmp_path}/nine", id=9)],
        properties={"why": "room"},
    )
    transaction = await dataset.read_transaction()
    assert transaction is not None
    assert transaction.properties["why"] == "room"
    theirs = lance.dataset(uri).base_paths()
    assert {key: (base.path, base.name, base.is_dataset_root) for key, base in theirs.items()} == {
        key: (base.path, base.name, base.is_dataset_root)
        for key, base in dataset.base_paths.items()
    }
    assert [*sorted(theirs)] == [1, 2, 3, 9]
    dataset = await dataset.insert(rows(5, 9), target_bases=["two"])
    lance.write_dataset(rows(9, 12), uri, mode="append", target_bases=[f"file://{tmp_path}/nine"])
    assert files_below(tmp_path) == {"table/data": 1, "two/data": 1, "nine": 1}
    dataset = await dataset.checkout_latest()
    assert (await dataset.to_table())["id"].to_pylist() == list(range(12))


def test_the_blocking_face_and_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = sync.write_dataset(rows(0, 5), "table", initial_bases=[DatasetBasePath("far", "far")])
    dataset = dataset.insert(rows(5, 9), target_bases=["far"])
    assert dataset.base_paths == {1: DatasetBasePath(str(tmp_path / "far"), "far", id=1)}
    assert dataset.add_bases([DatasetBasePath("x")]).version == 3
    monkeypatch.chdir("/")
    assert sync.dataset(str(tmp_path / "table")).to_table().num_rows == 9
    assert lance.dataset(tmp_path / "table").count_rows("id > 5") == 3


async def test_what_is_wrong_is_told_before_anything_is_written(tmp_path: Path) -> None:
    uri, new = str(tmp_path / "table"), str(tmp_path / "new")
    other = str(tmp_path / "other")
    await alance.write_dataset(rows(0, 5), other)
    bases = [*bases_at(tmp_path), DatasetBasePath(other, "other", is_dataset_root=True)]
    dataset = await alance.write_dataset(rows(0, 5), uri, initial_bases=bases)
    before = files_below(tmp_path)

    async def append(**options: Any) -> object:
        return await alance.write_dataset(rows(0, 5), uri, mode="append", **options)

    async def create(*bases: Any) -> object:
        return await alance.write_dataset(rows(0, 5), new, initial_bases=bases)

    first = DatasetBasePath(str(tmp_path / "one"), "one")
    for call, message in (
        (append(target_bases=["nope"]), r"'nope': dataset .* has no such base path; it has 'one'"),
        (append(target_bases=[]), "target_bases: empty"),
        (append(target_bases="one"), "expected a list of names"),
        (append(target_bases=5), "expected a list of names"),
        (append(initial_bases=5), "initial_bases=5: expected a list"),
        (append(target_bases=[3]), "expected names and paths"),
        (append(target_bases=["one"], target_all_bases=True), "expected one of them"),
        (append(initial_bases=[first]), "exists; expected a new one, or add_bases"),
        (append(target_bases=["other"]), "is the folder of another table"),
        (create(first, first), "same id, name or path"),
        (create(first, DatasetBasePath("/x", "one")), "same id, name or path"),
        (create(DatasetBasePath("/x", id=2), DatasetBasePath("/y", id=2)), "same id, name"),
        (create("/x"), "expected a DatasetBasePath"),
        (create(DatasetBasePath("ftp://x/y")), "scheme 'ftp' is not known"),
        (create(DatasetBasePath("/x", name="")), "its name is empty"),
        (create(DatasetBasePath(new)), "is within the folder of dataset"),
        (dataset.add_bases([first]), "is there as 1"),
        (dataset.add_bases([]), "expected a base path"),
        (dataset.add_bases([DatasetBasePath("/x", id=2)]), "id 2 is there"),
        (dataset.insert(rows(0, 1), target_bases=["nope"]), "has no such base path"),
        (
            dataset.merge_insert("id")
            .when_not_matched_insert_all()
            .target_bases(["nope"])
            .execute(rows(3, 9)),
            "has no such base path",
        ),
    ):
        with pytest.raises(alance.InvalidInputError, match=message):
            await call
    with pytest.raises(alance.InvalidInputError, match="there are no base paths"):
        await alance.write_dataset(rows(0, 5), new, target_all_bases=False)
    assert files_below(tmp_path) == before
    assert (await dataset.checkout_latest()).version == 1


async def test_distributed_writers_name_bases_too(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    bases = [DatasetBasePath(str(tmp_path / "one"), "one", id=1)]
    fragments = await alance.write_fragments(
        rows(0, 20), uri, initial_bases=bases, target_bases=["one"], max_rows_per_file=10
    )
    create = operations.Overwrite(
        new_schema=manifest_fields(tmp_path),
        fragments=tuple(fragments),
        initial_bases=tuple(map(message_of, bases)),
    )
    dataset = await alance.commit(uri, create)
    for where in (dataset, uri):
        more = await alance.write_fragments(rows(20, 30), where, target_bases=["one"])
        assert more[0].files[0].base_id == 1
        dataset = await alance.commit(dataset, operations.Append(tuple(more)))
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [*range(30), *range(20, 30)]
    assert files_below(tmp_path) == {"one": 4, "like/data": 1}


def manifest_fields(folder: Path) -> tuple[Any, ...]:
    lance.write_dataset(rows(0, 1), folder / "like")
    return tuple(manifest_of(str(folder / "like")).message.fields)


async def test_files_of_a_write_that_fails_are_removed_from_bases(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    dataset = await alance.write_dataset(rows(0, 5), uri, initial_bases=bases_at(tmp_path))

    async def batches() -> Any:
        for start in range(0, 50, 10):
            yield rows(start, start + 10)
        raise RuntimeError("the source ends")

    with pytest.raises(RuntimeError, match="the source ends"):
        await dataset.insert(batches(), target_all_bases=False, max_rows_per_file=10)
    assert files_below(tmp_path) == {"table/data": 1}


async def test_blobs_go_along_with_their_data_file(tmp_path: Path) -> None:
    values = [b"x" * (1 << n) for n in range(0, 23, 2)]
    table = pa.table([lance.blob_array(values)], pa.schema([lance.blob_field("blob")]))
    uri = str(tmp_path / "table")
    dataset = await alance.write_dataset(
        table,
        uri,
        initial_bases=bases_at(tmp_path),
        target_bases=["one", "two"],
        max_rows_per_file=6,
        blobs=alance.BlobOptions(),
    )
    assert {place.partition("/")[0] for place in files_below(tmp_path, "*.blob")} == {"two"}
    for opened in (dataset, await alance.dataset(uri)):
        blobs = await opened.read_blobs("blob", indices=range(len(values)))
        assert [content for _, content in blobs] == values
    theirs = lance.dataset(uri).take_blobs("blob", indices=list(range(len(values))))
    assert [blob.read() for blob in theirs] == values
    clone = await dataset.shallow_clone(str(tmp_path / "clone"))
    assert len(await clone.read_blobs("blob", indices=[11])) == 1


async def test_clones_of_such_tables(tmp_path: Path) -> None:
    dataset = await spread(tmp_path, 40)
    shallow = await dataset.shallow_clone(str(tmp_path / "shallow"))
    shallow = await shallow.insert(rows(40, 50), target_bases=["two"])
    assert sorted(shallow.base_paths) == [1, 2, 3, 4]
    assert lance.dataset(shallow.uri).to_table().equals(rows(0, 50))
    deep = await dataset.deep_clone(str(tmp_path / "deep"))
    assert deep.base_paths == {}
    for name in ("one", "two", "three", "table"):
        shutil.rmtree(tmp_path / name)
    assert (await (await alance.dataset(deep.uri)).to_table()).equals(rows(0, 40))
    assert lance.dataset(deep.uri).to_table().equals(rows(0, 40))


async def test_old_versions_that_are_restored_keep_later_bases(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    dataset = await alance.write_dataset(rows(0, 5), uri)
    dataset = await dataset.add_bases([DatasetBasePath(str(tmp_path / "one"), "one")])
    dataset = await dataset.insert(rows(5, 9), target_bases=["one"])
    dataset = await dataset.restore(1)
    assert [base.name for base in dataset.base_paths.values()] == ["one"]
    dataset = await dataset.insert(rows(5, 7), mode="overwrite", target_bases=["one"])
    assert lance.dataset(uri).to_table().equals(rows(5, 7))
    assert files_below(tmp_path)["one"] == 2


async def test_bases_in_other_stores_and_those_that_credentials_are_not_for(
    lab: Lab, tmp_path: Path
) -> None:
    uri, options = "s3://lab/bases-table", lab.lance_options()
    bases = [
        DatasetBasePath("s3://lab/bases-one", "one"),
        DatasetBasePath("s3://theirs/bases", "two", is_dataset_root=True),
        DatasetBasePath(f"file://{tmp_path}", "here"),
        DatasetBasePath("gs://somebody/else", "cloud"),
    ]
    with Lab(buckets=("theirs",)) as other:
        allowed = {**options, "base:s3://theirs": other.lance_options()}
        dataset = await alance.write_dataset(
            rows(0, 40),
            uri,
            initial_bases=bases,
            target_bases=["one", "two"],
            max_rows_per_file=10,
            storage_options=allowed,
        )
        for name in ("here", "cloud"):
            with pytest.raises(alance.AccessError, match="pass"):
                await dataset.insert(rows(40, 50), target_bases=[name])
        assert not files_below(tmp_path)
        allowed[f"base:file://{tmp_path}"] = {}
        dataset = await alance.dataset(uri, storage_options=allowed)
        more = {"target_bases": ["here", "two"], "max_rows_per_file": 10}
        dataset = await dataset.insert(rows(40, 60), **more)
        assert files_below(tmp_path) == {".": 1}
        assert (await dataset.to_table()).equals(rows(0, 60))
        since = lab.stats()["requests"]
        await dataset.insert(rows(60, 70), target_bases=["one"])
        lists = [request for request in lab.log(since) if request["op"] == "LIST"]
        assert len(lists) == 1, "a base that is no dataset's folder costs no request"


async def test_pylance_reads_bases_of_the_same_store_and_the_reverse(lab: Lab) -> None:
    uri, options = "s3://lab/bases-both", lab.lance_options()
    bases = [DatasetBasePath("s3://lab/bases-two", "two", is_dataset_root=True)]
    await alance.write_dataset(
        rows(0, 10), uri, initial_bases=bases, target_bases=["two"], storage_options=options
    )
    lance.write_dataset(
        rows(10, 20), uri, mode="append", target_all_bases=True, storage_options=options
    )
    theirs = lance.write_dataset(
        rows(20, 30), uri, mode="append", target_bases=["two"], storage_options=options
    )
    assert theirs.to_table().equals(rows(0, 30))
    dataset = await alance.dataset(uri, storage_options=options)
    assert (await dataset.to_table()).equals(rows(0, 30))


async def test_places_are_looked_at_in_one_round(lab: Lab) -> None:
    uri, options = "s3://lab/bases-rounds", lab.lance_options()
    bases = [
        DatasetBasePath(f"s3://lab/bases-round-{n}", str(n), is_dataset_root=True) for n in range(5)
    ]
    dataset = await alance.write_dataset(
        rows(0, 5), uri, initial_bases=bases, storage_options=options
    )
    lab.config(waits_for=os.getpid())
    with lab.recording() as seen:
        await dataset.insert(rows(5, 10), target_all_bases=False, max_rows_per_file=1)
    listed = [request["prefix"] for request in seen.records if request["op"] == "LIST"]
    assert sorted(listed[:5]) == [f"bases-round-{n}/_versions/" for n in range(5)]
    assert seen.rounds == 3, "one more than an append to the table's own folder"
