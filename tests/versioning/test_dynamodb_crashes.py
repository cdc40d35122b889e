"""A committer through DynamoDB that dies between two of its steps; pylance or we find what it left.

| died after       | DynamoDB has  | staged object | final object | the version |
| ---------------- | ------------- | ------------- | ------------ | ----------- |
| nothing          | -             | -             | -            | is not there |
| PUT staged       | -             | is there      | -            | is not there |
| put              | staged        | is there      | -            | is there    |
| COPY             | staged        | is there      | is there     | is there    |
| put              | final         | is there      | is there     | is there    |
| DELETE           | final         | -             | is there     | is there    |
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest

import alance
from alance.format.table.naming import NamingScheme, manifest_name
from alance.versioning.external_store import Entry, ExternalManifests
from alance.versioning.load import load_latest
from tests.simulation.append_rules import append
from tests.versioning import dynamodb

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.format.table.manifest import Manifest
    from alance.testing.lab import Lab
    from alance.versioning.dynamodb_store import DynamoDbStore
    from tests.versioning.conftest import Committer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
endpoint = dynamodb.endpoint
external = dynamodb.external
ROWS: Final = pa.table({"a": [1, 2, 3]})
STEPS: Final = ("put_staged", "put_if_not_exists", "copy", "put_if_exists", "delete")
FINAL: Final = manifest_name(2, NamingScheme.V2)


class Died(BaseException):
    """The process is no more."""


class Dying:
    """Passes calls on until a step; that one and all after it do nothing but die."""

    def __init__(self, inner: Any, life: list[str], names: dict[str, str]) -> None:
        self._inner = inner
        self._life = life
        self._names = names

    def __getattr__(self, name: str) -> Any:
        result = getattr(self._inner, name)
        step = self._names.get(name)
        if step is None:
            return result

        async def call(*args: Any, **more: Any) -> Any:
            if step not in self._life:
                raise Died
            return await result(*args, **more)

        return call


def append_again(base: Manifest) -> Any:
    """A transaction that appends the rows of a version once more."""
    transaction = append(base.version, ["x"])
    fragment = transaction.message.append.fragments[0]
    fragment.CopyFrom(base.message.fragments[0])
    fragment.id = 0
    return transaction


async def crashed(
    lab: Lab, endpoint: str, external: DynamoDbStore, num_steps: int
) -> tuple[Committer, str, dict[str, Any], Any]:
    """A table of pylance where version 2 of ours has got so far; a committer that lives."""
    committer, uri, options = dynamodb.opened(lab, endpoint)
    await asyncio.to_thread(lance.write_dataset, ROWS, uri, storage_options=options)
    base = await load_latest(committer.engine, committer.table)
    transaction = append_again(base)
    life = list(STEPS[:num_steps])
    store = Dying(
        committer.table.store,
        life,
        {"put_in_order": "put_staged", "copy": "copy", "delete": "delete"},
    )
    dying = ExternalManifests(
        committer.engine,
        committer.table,
        Dying(external, life, {name: name for name in ("put_if_not_exists", "put_if_exists")}),
    )
    dying._store = store  # type: ignore[assignment]
    if num_steps == len(STEPS):
        await replace(committer, manifests=dying).run(base, transaction)
    else:
        with pytest.raises(Died):
            await replace(committer, manifests=dying).run(base, transaction)
    return committer, uri, options, transaction


def objects(lab: Lab, committer: Committer) -> tuple[int, int]:
    """Staged objects, and final ones, of version 2."""
    folder = lab.root / "lab" / committer.table.path / "_versions"
    names = [path.name for path in folder.iterdir()]
    return sum(name.startswith(f"{FINAL}-") for name in names), names.count(FINAL)


async def is_final(external: DynamoDbStore, committer: Committer, version: int) -> bool:
    entry = await external.get(committer.table.path, version)
    return entry is not None and entry.path.endswith(manifest_name(version, NamingScheme.V2))


@pytest.mark.parametrize("num_steps", range(len(STEPS) + 1))
async def test_the_table_is_true(
    lab: Lab, endpoint: str, external: DynamoDbStore, num_steps: int
) -> None:
    committer, *_ = await crashed(lab, endpoint, external, num_steps)
    entry = await external.get(committer.table.path, 2)
    assert (entry is not None) == (num_steps >= 2)
    assert await is_final(external, committer, 2) == (num_steps >= 4)
    assert objects(lab, committer) == (int(1 <= num_steps < 5), int(num_steps >= 3))
    await committer.aclose()


@pytest.mark.parametrize("num_steps", range(len(STEPS) + 1))
async def test_pylance_finds_it(
    lab: Lab, endpoint: str, external: DynamoDbStore, num_steps: int
) -> None:
    """It reads the version if it is there, and finishes it; it goes on, and so do we."""
    committer, uri, options, transaction = await crashed(lab, endpoint, external, num_steps)
    version = 2 if num_steps >= 2 else 1

    def go_on() -> tuple[int, int, int, int]:
        dataset = lance.dataset(uri, storage_options=options)
        dataset.validate()
        before = dataset.version, dataset.count_rows()
        written = lance.write_dataset(ROWS, uri, mode="append", storage_options=options)
        return *before, written.version, written.count_rows()

    assert await asyncio.to_thread(go_on) == (version, 3 * version, version + 1, 3 * version + 3)
    assert await is_final(external, committer, version + 1)
    assert await is_final(external, committer, version)
    # The committer is started again, with the same transaction: it has landed, or lands now.
    base = await committer.store().version(1)
    assert (await committer.run(base, transaction)).version == (2 if version == 2 else 3)
    latest = await load_latest(committer.engine, committer.table)
    assert (latest.version, len(latest.message.fragments)) == (3, 3)
    await committer.aclose()


@pytest.mark.parametrize("num_steps", range(len(STEPS) + 1))
async def test_we_find_it(lab: Lab, endpoint: str, external: DynamoDbStore, num_steps: int) -> None:
    """We read the version if it is there, and finish it; pylance goes on."""
    committer, uri, options, transaction = await crashed(lab, endpoint, external, num_steps)
    version = 2 if num_steps >= 2 else 1
    latest = await committer.store().latest()
    assert latest is not None
    assert latest.version == version
    assert await is_final(external, committer, version)
    staged, final = objects(lab, committer)
    assert final == version - 1
    assert staged == int(num_steps in (1, 4))  # nobody knows of these; cleanup removes them
    base = await committer.store().version(1)
    assert (await committer.run(base, transaction)).version == 2
    output = await committer.run(base, append_again(base))
    assert output.version == 3

    def go_on() -> tuple[int, int]:
        output = lance.write_dataset(ROWS, uri, mode="append", storage_options=options)
        output.validate()
        return output.version, output.count_rows()

    assert await asyncio.to_thread(go_on) == (4, 12)
    await committer.aclose()


@pytest.mark.parametrize("num_steps", [2, 3, 4])
async def test_many_find_it_at_once(
    lab: Lab, endpoint: str, external: DynamoDbStore, num_steps: int
) -> None:
    """Readers and committers of both kinds; all see version 2, none breaks it."""
    committer, uri, options, _ = await crashed(lab, endpoint, external, num_steps)

    def look() -> int:
        return lance.dataset(uri, storage_options=options).count_rows()

    async def ours() -> int:
        results = await committer.store().latest()
        assert results is not None
        return results.version * 3

    calls: list[Callable[[], Any]] = [ours, lambda: asyncio.to_thread(look)] * 3
    base = await committer.store().version(1)
    results = await asyncio.gather(
        *(call() for call in calls), committer.run(base, append_again(base))
    )
    assert results.pop().version == 3
    assert set(results) <= {6, 9}
    assert await is_final(external, committer, 2)
    assert await asyncio.to_thread(look) == 9
    await committer.aclose()


@pytest.mark.parametrize("num_steps", [2, 3])
async def test_a_repair_that_dies_too(
    lab: Lab, endpoint: str, external: DynamoDbStore, num_steps: int
) -> None:
    committer, uri, options, _ = await crashed(lab, endpoint, external, num_steps)
    for life in ([], ["copy"], ["copy", "put_if_exists"]):
        manifests = ExternalManifests(
            committer.engine,
            committer.table,
            Dying(external, life, {"put_if_exists": "put_if_exists"}),
        )
        manifests._store = Dying(  # type: ignore[assignment]
            committer.table.store, life, {"copy": "copy", "delete": "delete"}
        )
        with pytest.raises(Died):
            await manifests.latest()
    rows = await asyncio.to_thread(lambda: lance.dataset(uri, storage_options=options).count_rows())
    assert rows == 6
    assert await is_final(external, committer, 2)
    await committer.aclose()


async def test_cleanup_removes_what_is_staged_in_vain(
    lab: Lab, endpoint: str, external: DynamoDbStore
) -> None:
    """Once there is a final object beside it; before, it may be all that there is."""
    for num_steps, remaining in ((1, 1), (2, 0), (3, 0), (4, 0)):
        committer, uri, options, _ = await crashed(lab, endpoint, external, num_steps)
        dataset = await alance.dataset(uri, storage_options=options)
        await dataset.cleanup_old_versions(older_than=timedelta(days=1), delete_unverified=True)
        assert objects(lab, committer) == (remaining, int(num_steps > 1))

        def count(uri: str = uri, options: Any = options) -> int:
            return lance.dataset(uri, storage_options=options).count_rows()

        assert await asyncio.to_thread(count) == (6 if num_steps > 1 else 3)
        await committer.aclose()


async def test_a_staged_object_that_is_gone_is_told(
    lab: Lab, endpoint: str, external: DynamoDbStore
) -> None:
    """Someone cleaned up too much: an error, not an older version."""
    committer, *_ = await crashed(lab, endpoint, external, 2)
    entry = await external.get(committer.table.path, 2)
    assert entry is not None
    await committer.table.store.delete([entry.path])
    with pytest.raises(FileNotFoundError):
        await committer.store().latest()
    await external.put_if_exists(committer.table.path, replace(entry, path="nonsense"))
    with pytest.raises(FileNotFoundError, match="no manifest"):
        await committer.store().latest()
    assert await external.get(committer.table.path, 2) == Entry(2, "nonsense", entry.num_bytes)
    await committer.aclose()
