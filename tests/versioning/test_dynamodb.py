"""Commits through DynamoDB, as pylance does them: both write one table in turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from alance.errors import AccessError, AlreadyExistsError, InvalidInputError, NotFoundError
from alance.versioning.dynamodb_store import DynamoDbStore, parse_dynamodb_uri
from alance.versioning.external_store import Entry
from alance.versioning.load import load_latest
from tests.moto_server import KEYS
from tests.simulation.append_rules import append, paths_of
from tests.versioning import dynamodb
from tests.versioning.dynamodb import opened

if TYPE_CHECKING:
    from alance.testing.lab import Lab

endpoint = dynamodb.endpoint
external = dynamodb.external
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


async def test_entries_are_put_once_and_found_by_version(external: DynamoDbStore) -> None:
    assert await external.get("t", 1) is None
    assert await external.get_latest("t") is None
    await external.put_if_not_exists("t", Entry(9, "nine", None))
    await external.put_if_not_exists("t", Entry(10, "ten", 5))
    await external.put_if_not_exists("other", Entry(11, "eleven", 5))
    with pytest.raises(AlreadyExistsError):
        await external.put_if_not_exists("t", Entry(10, "again", 5))
    assert await external.get_latest("t") == Entry(10, "ten", 5)
    await external.put_if_exists("t", Entry(9, "final", 3))
    assert await external.get("t", 9) == Entry(9, "final", 3)
    with pytest.raises(NotFoundError, match="no version 8"):
        await external.put_if_exists("t", Entry(8, "x", 1))


async def test_one_of_many_adds_a_version(external: DynamoDbStore) -> None:
    calls = [external.put_if_not_exists("race", Entry(1, str(number), 1)) for number in range(8)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(item, AlreadyExistsError) for item in results) == 7


async def test_tables_that_do_not_fit(endpoint: str) -> None:
    arguments = {"endpoint_url": endpoint, "region_name": "us-east-1", **KEYS}
    with pytest.raises(InvalidInputError, match="has the keys"):
        await DynamoDbStore("wrong", arguments).get("t", 1)
    with pytest.raises(InvalidInputError, match="no such table"):
        await DynamoDbStore("missing", arguments).get("t", 1)


async def test_missing_credentials_are_an_access_error(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    arguments = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    with pytest.raises(AccessError, match="credentials"):
        await DynamoDbStore("versions", arguments).get("t", 1)


async def test_concurrent_commits_all_land(lab: Lab, endpoint: str) -> None:
    committer, _, _ = opened(lab, endpoint)
    first = await committer.create()
    names = [f"n{number}" for number in range(6)]
    await asyncio.gather(*(committer.commit(first, name) for name in names))
    assert sorted(await committer.paths()) == names
    await committer.aclose()


async def test_pylance_and_alance_in_turns(lab: Lab, endpoint: str) -> None:
    committer, uri, options = opened(lab, endpoint)
    table = pa.table({"a": [1, 2, 3]})
    await asyncio.to_thread(lance.write_dataset, table, uri, storage_options=options)
    base = await load_latest(committer.engine, committer.table)
    (path,) = paths_of(base)
    transaction = append(1, [path])
    fragment = transaction.message.append.fragments[0]
    fragment.CopyFrom(base.message.fragments[0])
    fragment.id = 0
    assert (await committer.run(base, transaction)).version == 2

    def write() -> tuple[int, list[int]]:
        dataset = lance.write_dataset(table, uri, mode="append", storage_options=options)
        return dataset.version, dataset.to_table()["a"].to_pylist()

    assert await asyncio.to_thread(write) == (3, [1, 2, 3] * 3)
    committed = await committer.commit(base, detached=True)
    assert committed.version >> 63
    last = await committer.run(base, append(1, []))
    assert last.version == 4
    assert len(paths_of(last)) == 3

    def rows() -> int:
        return lance.dataset(uri, storage_options=options).version

    assert await asyncio.to_thread(rows) == 4
    await committer.aclose()


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/path",
        "s3+ddb://bucket/path",
        "s3+ddb://bucket/path?table=t",
        "s3+ddb://bucket/path?ddbTableName=",
        "s3+ddb://bucket/path?ddbTableName=t&more=1",
    ],
)
def test_uris_that_name_no_table(uri: str) -> None:
    with pytest.raises(InvalidInputError, match=r"ddbTableName|is empty"):
        parse_dynamodb_uri(uri)
