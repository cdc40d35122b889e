"""A DynamoDB of moto, and tables in the lab whose versions it keeps."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import boto3
import pytest

from alance.versioning.dynamodb_store import DynamoDbStore, parse_dynamodb_uri
from alance.versioning.external_store import ExternalManifests
from tests.moto_server import KEYS, moto_server
from tests.versioning.conftest import Committer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.testing.lab import Lab


@contextmanager
def serving(**tables: Literal["N", "S"]) -> Iterator[str]:
    """The URL of a DynamoDB with some tables, by name the type of the sort key `version`."""
    with moto_server() as endpoint:
        client = connect(endpoint)
        TableNames = client.list_tables()["TableNames"]  # of the last one in the process
        for name, kind in tables.items():
            if name in TableNames:
                continue
            client.create_table(
                TableName=name,
                KeySchema=[
                    {"AttributeName": "base_uri", "KeyType": "HASH"},
                    {"AttributeName": "version", "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": "base_uri", "AttributeType": "S"},
                    {"AttributeName": "version", "AttributeType": kind},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        client.close()
        yield endpoint


def connect(endpoint: str) -> Any:
    """A client, which is to be closed."""
    return boto3.client("dynamodb", endpoint_url=endpoint, region_name="us-east-1", **KEYS)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A DynamoDB with the table `versions`, and one with other keys."""
    with serving(versions="N", wrong="S") as url:
        yield url


@pytest.fixture
def external(endpoint: str) -> DynamoDbStore:
    """The DynamoDB table."""
    arguments = {"endpoint_url": endpoint, "region_name": "us-east-1", **KEYS}
    return DynamoDbStore("versions", arguments)


def opened(lab: Lab, endpoint: str) -> tuple[Committer, str, dict[str, Any]]:
    """A committer of a new table in the lab, and what pylance needs to open it."""
    uri = f"s3+ddb://lab/ddb-{uuid.uuid4()}?ddbTableName=versions"
    options = {**lab.lance_options(), "dynamodb_endpoint": endpoint}
    plain, remaining, external = parse_dynamodb_uri(uri, options)
    assert "dynamodb_endpoint" not in remaining
    built = Committer.of(plain, storage_options=remaining)
    manifests = ExternalManifests(built.engine, built.table, external)
    return replace(built, manifests=manifests), uri, options
