"""Tags and branches that alance writes, as pylance reads and changes them; and the reverse."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any, Literal

import lance
import pytest

import alance
from alance.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from tests.versions.conftest import manifest_of, numbers, plain, rows_by_pylance, transaction_of

ROWS_WITHOUT_3 = [n for n in range(15) if n != 3]


def record(path: str, kind: str, name: str) -> dict[str, Any]:
    """A tag's or branch's JSON."""
    entries: dict[str, Any] = json.loads((Path(path) / "_refs" / kind / f"{name}.json").read_text())
    return entries


def files(path: str, folder: str, pattern: str = "*") -> list[str]:
    """The files below a folder of a table, as paths inside the table."""
    result = (Path(path) / folder).rglob(pattern)
    return sorted(str(item.relative_to(path)) for item in result if item.is_file())


def remove(path: str, inside: str) -> None:
    (Path(path) / inside).unlink()


def steady(item: dict[str, Any]) -> dict[str, Any]:
    """A record without its times and ids."""
    item = {key: value for key, value in item.items() if key not in ("createdAt", "updatedAt")}
    item.pop("createAt", None)
    if "identifier" in item:
        item["identifier"] = [pair[0] for pair in item["identifier"]["version_mapping"]]
    return item


async def test_tags_of_both(table: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.lance")
    lance.dataset(table).create_branch("dev", 2).insert(numbers(20, 22))
    shutil.copytree(table, other)
    theirs = lance.dataset(table)
    ours = await alance.dataset(other)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("create", ("now",)),
        ("create", ("one", 1)),
        ("create", ("main", "one")),
        ("create", ("dev", ("dev", 3))),
        ("create", ("dev-latest", ("dev", None))),
        ("create", ("latest", (None, None))),
        ("create", ("two", ("main", 2))),
        ("update", ("one", 3)),
        ("update", ("two", ("dev", 2))),
        ("update", ("dev", "main")),
        ("replace_metadata", ("one", {"k": "ü"})),
        ("delete", ("main",)),
    ]
    for name, arguments in calls:
        getattr(theirs.tags, name)(*arguments)
        await getattr(ours.tags, name)(*arguments)
    folder = Path(table) / "_refs/tags"
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        path.name for path in (Path(other) / "_refs/tags").iterdir()
    )
    for file in folder.iterdir():
        entry, two = record(table, "tags", file.stem), record(other, "tags", file.stem)
        assert steady(entry) == steady(two), file.stem
        assert list(entry) == list(two)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", two["createdAt"])
        assert (entry["createdAt"] == entry["updatedAt"]) == (two["createdAt"] == two["updatedAt"])
        text = (Path(other) / "_refs/tags" / file.name).read_text()
        assert text == json.dumps(two, indent=2, ensure_ascii=False)
    listed = lance.dataset(other).tags.list()
    assert {name: item["version"] for name, item in listed.items()} == {
        name: item.version for name, item in (await ours.tags.list()).items()
    }
    assert lance.dataset(other, version="dev-latest").count_rows() == 17
    lance.dataset(other).tags.update("now", 1)
    assert await ours.tags.get_version("now") == 1
    await ours.tags.delete("dev-latest")
    with pytest.raises(ValueError, match="does not exist"):
        lance.dataset(other).tags.get_version("dev-latest")


async def test_bad_names_of_tags_are_refused(table: str) -> None:
    dataset = await alance.dataset(table, version=1)
    tags = dataset.tags
    await tags.create("here", metadata={"who": "us"})
    assert (await tags.get("here")).metadata == {"who": "us"}
    assert (await tags.get("here")).version == 1
    before = record(table, "tags", "here")
    with pytest.raises(AlreadyExistsError, match="tag 'here'"):
        await tags.create("here", 2)
    for wrong in ("a/b", "", ".a", "a..b", "a.lock", 7):
        with pytest.raises(InvalidInputError):
            await tags.create(wrong, 1)  # type: ignore[arg-type]
    for missing in (99, "nope", ("dev", 1), (None, 99)):
        with pytest.raises(NotFoundError):
            await tags.create("there", missing)
        with pytest.raises(NotFoundError):
            await tags.update("here", missing)
    for strange in (("dev", "x"), (1, 2, 3), True, 1.5):
        with pytest.raises(InvalidInputError, match="reference"):
            await tags.create("there", strange)  # type: ignore[arg-type]
    for call in (tags.update("nope", 1), tags.delete("nope"), tags.replace_metadata("nope", {})):
        with pytest.raises(NotFoundError, match="no tag 'nope'"):
            await call
    with pytest.raises(InvalidInputError, match="expected text"):
        await tags.replace_metadata("here", {"a": 1})  # type: ignore[dict-item]
    assert record(table, "tags", "here") == before
    assert list(await tags.list()) == ["here"]


async def test_one_of_many_makes_a_tag(table: str) -> None:
    dataset = await alance.dataset(table)
    calls = [dataset.tags.create("t", 1 + number % 3) for number in range(12)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(item is None for item in results) == 1
    assert sum(isinstance(item, AlreadyExistsError) for item in results) == 11
    assert await dataset.tags.get_version("t") == 1 + results.index(None) % 3


async def test_members_of_newer_writers_stay(table: str) -> None:
    dataset = await alance.dataset(table)
    await dataset.tags.create("t", 1)
    file = Path(table) / "_refs/tags/t.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "more": [1]}))
    await dataset.tags.update("t", 2)
    await dataset.tags.replace_metadata("t", {"k": "v"})
    result = record(table, "tags", "t")
    assert (result["more"], result["version"], result["metadata"]) == ([1], 2, {"k": "v"})


async def test_branches_of_both(table: str, tmp_path: Path) -> None:
    other = str(tmp_path / "o.lance")  # as long as the other's, for the sizes of manifests
    lance.dataset(table).tags.create("two", 2)
    shutil.copytree(table, other)
    calls: list[tuple[str, Any]] = [
        ("now", None),
        ("dev", 2),
        ("feat/x", "two"),
        ("deeper", ("dev", None)),
        ("ünder", ("feat/x", 2)),
        ("dev/more", (None, None)),
    ]
    theirs, ours = lance.dataset(table), await alance.dataset(other)
    for name, reference in calls:
        item = theirs.create_branch(name, reference)
        two = await ours.create_branch(name, reference)
        assert (two.version, two.branch) == (item.version, name)
        folder = f"tree/{name}"
        message = transaction_of(f"{table}/{folder}")
        message["clone"]["ref_path"] = message["clone"]["ref_path"].replace(table, other)
        assert transaction_of(f"{other}/{folder}") == message
        first = plain(manifest_of(f"{table}/{folder}").message)
        for base in first["base_paths"]:
            base["path"] = base["path"].replace(table, other)
        assert plain(manifest_of(f"{other}/{folder}").message) == first
        encoded = name.replace("/", "%2F").replace("ü", "%C3%BC")
        their_events, reported = (
            record(table, "branches", encoded),
            record(other, "branches", encoded),
        )
        assert list(reported) == list(their_events)
        if parent := reported["parentBranch"]:
            # Its manifest is of the test; the time in it takes a byte less in some moments.
            for size, place in ((reported, other), (their_events, table)):
                manifest = manifest_of(f"{place}/tree/{parent}").message
                size["manifestSize"] -= manifest.timestamp.ByteSize()
        assert steady(reported) == steady(their_events)
    assert set(lance.dataset(other).branches.list()) == {name for name, _ in calls}
    assert set(await ours.branches.list()) == {name for name, _ in calls}
    assert await (await ours.checkout_branch("deeper")).count_rows() == 15


async def test_both_write_to_a_branch(table: str) -> None:
    main = await alance.dataset(table)
    dev = await main.create_branch("dev", 2)
    dev = await dev.insert(numbers(20, 22))
    theirs = lance.dataset(table).checkout_version(("dev", None))
    assert (theirs.version, theirs.count_rows()) == (3, 17)
    theirs.validate()
    theirs.insert(numbers(22, 24))
    theirs.delete("a = 20")
    dev = await dev.checkout_latest()
    assert dev.version == 5
    dev = await dev.insert(numbers(30, 31))
    dev = await dev.update_config({"on": "dev"})
    deeper = await dev.create_branch("deeper")
    deeper = await deeper.insert(numbers(40, 41))
    expected = [*range(15), 21, 22, 23, 30]
    assert (await dev.to_table(["a"]))["a"].to_pylist() == expected
    assert (await deeper.to_table(["a"]))["a"].to_pylist() == [*expected, 40]
    theirs = lance.dataset(table).checkout_version(("deeper", None))
    theirs.validate()
    assert theirs.to_table()["a"].to_pylist() == [*expected, 40]
    theirs.insert(numbers(41, 42))
    theirs = lance.dataset(table).checkout_version(("dev", None))
    assert theirs.to_table()["a"].to_pylist() == expected
    assert theirs.config() == {"on": "dev"}
    assert rows_by_pylance(table) == ROWS_WITHOUT_3
    assert await main.latest_version() == 3
    assert (await main.checkout_version(("deeper", None))).version == deeper.version + 1
    assert (await deeper.checkout_version((None, 1))).branch is None
    by_folder = await alance.dataset(f"{table}/tree/dev")
    assert (await by_folder.insert(numbers(50, 51))).branch == "dev"
    assert lance.dataset(table).checkout_version(("dev", None)).count_rows() == 20


async def test_delete_a_branch(table: str) -> None:
    main = await alance.dataset(table)
    dev = await (await main.create_branch("dev", 2)).insert(numbers(20, 22))
    inner = await (await main.create_branch("dev/inner", 1)).insert(numbers(30, 31))
    lance.dataset(table).create_branch("late", ("dev", 3)).create_branch("later", ("late", 3))
    await main.tags.create("there", ("dev", 3))
    branches = main.branches
    with pytest.raises(InvalidInputError, match=r"'late' was made from it|'later' was made"):
        await branches.delete("dev")
    await branches.delete("later")
    await branches.delete("late")
    with pytest.raises(InvalidInputError, match=r"tags \['there'\]"):
        await branches.delete("dev")
    await main.tags.delete("there")
    await branches.delete("dev")
    assert list(lance.dataset(table).branches.list()) == ["dev/inner"]
    with pytest.raises(NotFoundError, match="no branch 'dev'"):
        await main.checkout_branch("dev")
    remaining = files(table, "tree")
    assert remaining
    assert all(item.startswith("tree/dev/inner/") for item in remaining)
    assert await inner.count_rows() == 11
    with pytest.raises(NotFoundError):
        await branches.delete("dev")
    again = await main.create_branch("dev", 1)
    assert (again.version, await again.count_rows()) == (1, 10)
    assert dev.version == 3
    lance.dataset(table).branches.delete("dev")
    assert list(await branches.list()) == ["dev/inner"]
    assert rows_by_pylance(table) == ROWS_WITHOUT_3


async def test_bad_names_of_branches_are_refused(table: str) -> None:
    main = await alance.dataset(table)
    await main.create_branch("dev", 2)
    for reference in (2, 3):
        with pytest.raises(AlreadyExistsError, match="branch 'dev'"):
            await main.create_branch("dev", reference)
    for name in ("main", "", "a b", "../x", "a//b", "/a", "x.lock", 3):
        with pytest.raises(InvalidInputError, match="branch"):
            await main.create_branch(name, 2)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="branch"):
            await main.branches.delete(name)  # type: ignore[arg-type]
    for missing in (99, "nope", ("nope", None), ("dev", 3)):
        with pytest.raises(NotFoundError):
            await main.create_branch("new", missing)
    with pytest.raises(NotFoundError, match="no branch 'nope'"):
        await main.branches.replace_metadata("nope", {})
    await main.branches.replace_metadata("dev", {"k": "v"})
    assert lance.dataset(table).branches.list()["dev"]["metadata"] == {"k": "v"}
    assert list(await main.branches.list()) == ["dev"]
    assert all(path.startswith("tree/dev/") for path in files(table, "tree"))


async def test_one_of_many_makes_a_branch(table: str) -> None:
    main = await alance.dataset(table)
    calls = [main.create_branch("dev", 1 + number % 3) for number in range(9)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    items = [item for item in results if isinstance(item, alance.Dataset)]
    assert len(items) == 1
    assert sum(isinstance(item, AlreadyExistsError) for item in results) == 8
    assert len(files(table, "tree/dev/_versions", "*.manifest")) == 1
    assert (await main.checkout_branch("dev")).version == items[0].version


async def test_what_is_left_of_a_branch(table: str) -> None:
    main = await alance.dataset(table)
    await main.create_branch("dev", 2)
    remove(table, "_refs/branches/dev.json")
    with pytest.raises(AlreadyExistsError, match="force=True"):
        await main.create_branch("dev", 1)
    assert await main.branches.list() == {}
    with pytest.raises(NotFoundError):
        await main.branches.delete("dev")
    await main.branches.delete("dev", force=True)
    assert (await main.create_branch("dev", 1)).version == 1
    lance.dataset(table).checkout_version(("dev", None)).validate()


async def test_references_are_listed_in_the_order_of_pylance(table: str) -> None:
    theirs = lance.dataset(table)
    for tag, version in (("b", 2), ("c", 1), ("a", 2), ("d", 3)):
        theirs.tags.create(tag, version)
        theirs.create_branch(f"on-{tag}", version)
    dataset = await alance.dataset(table)
    orders: tuple[Literal["asc"], Literal["desc"]] = ("asc", "desc")
    for order in orders:
        ours = [tag for tag, _ in await dataset.tags.list_ordered(order)]
        assert ours == [tag for tag, _ in theirs.tags.list_ordered(order)]
    assert [name for name, _ in await dataset.branches.list_ordered()] == [
        "on-d",
        "on-a",
        "on-b",
        "on-c",
    ]
    with pytest.raises(InvalidInputError, match="order='up'"):
        await dataset.tags.list_ordered("up")  # type: ignore[arg-type]


async def test_detached_versions_can_have_tags(table: str) -> None:
    main = await alance.dataset(table)
    committed = await alance.commit(main, alance.operations.Append(()), detached=True)
    await committed.tags.create("aside")
    assert lance.dataset(table, version="aside").version == committed.version
    lance.dataset(table).tags.create("too", committed.version)
    assert (await alance.dataset(table, version="too")).version == committed.version
    assert [version.version for version in await main.versions()] == [1, 2, 3]
    assert (await main.restore("aside")).version == 4
    assert rows_by_pylance(table) == ROWS_WITHOUT_3
    with pytest.raises(InvalidInputError, match="is detached"):
        await main.create_branch("dev", "aside")
    assert await main.branches.list() == {}


async def test_tags_and_branches_are_made_without_await(table: str) -> None:
    def use() -> None:
        from alance import sync

        dataset = sync.dataset(table)
        dataset.tags.create("t", 1)
        assert dataset.tags.get_version("t") == 1
        branch = dataset.create_branch("dev", "t").insert(numbers(20, 21))
        assert (branch.version, branch.branch) == (2, "dev")
        assert dataset.checkout_version(("dev", None)).count_rows() == 11
        assert dataset.restore("t").update_config({"k": "v"}).config == {"k": "v"}
        sync.drop(table)

    await asyncio.to_thread(use)
    with pytest.raises(NotFoundError):
        await alance.dataset(table)
