"""Versions in a DynamoDB table: `s3+ddb://bucket/path?ddbTableName=table`.

  base_uri   S  hash key    path of the Lance table inside its bucket
  version    N  range key
  path       S              path of the manifest inside the bucket, staged or final
  size       N              bytes of the manifest
  committer  S              name of the writer: `lancedb`, as other implementations write

Two buckets with equal paths need two DynamoDB tables. Source: docs/format/table.md, "DynamoDB".
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from alance.base.calls import public
from alance.base.extras import missing
from alance.errors import (
    AccessError,
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StoreError,
)
from alance.versioning.external_store import Entry
from alance.versioning.keepers import ENDPOINT, SCHEME

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMITTER: Final = "lancedb"
_PARAMETER: Final = "ddbTableName"
_KEYS: Final = [("base_uri", "HASH", "S"), ("version", "RANGE", "N")]
_NEW: Final = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
_OLD: Final = "attribute_exists(base_uri) AND attribute_exists(version)"
_DYNAMODB_REFUSALS: Final = frozenset(
    {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException"}
)
# Argument of boto3's client for each S3 storage option.
_CLIENT: Final = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "token": "aws_session_token",
    "region": "region_name",
    "default_region": "region_name",
}


@public
class DynamoDbStore:
    """Versions in a DynamoDB table, accessed through boto3 in threads.

    The first call also reads the DynamoDB table's key schema. Each call may raise `AccessError`
    for a refusal, `InvalidInputError` if there is no such DynamoDB table or it has other keys, and
    `MissingPackageError` without boto3.

    Args:
        table: name of the DynamoDB table.
        client: arguments of boto3's client: credentials, region, endpoint.
    """

    def __init__(self, table: str, client: Mapping[str, str] | None = None) -> None:
        self._table = table
        self._arguments = dict(client or {})
        self._client: Any = None
        self._lock = threading.Lock()

    async def get(self, table: str, version: int) -> Entry | None:
        """Return a version of a table. Returns None if there is no such version.

        Cost: one GetItem.

        Args:
            table: path of the table's folder inside the object store.
            version: number of the version.

        Raises:
            StoreError: DynamoDB failed.
        """
        response = await self._call("get_item", Key=_key(table, version), ConsistentRead=True)
        return _entry(response.get("Item"))

    async def get_latest(self, table: str) -> Entry | None:
        """Return the version with the highest number. Returns None if there is no version.

        Cost: one Query.

        Args:
            table: as for `get`.

        Raises:
            StoreError: DynamoDB failed.
        """
        response = await self._call(
            "query",
            KeyConditionExpression="base_uri = :base_uri",
            ExpressionAttributeValues={":base_uri": {"S": table}},
            ScanIndexForward=False,
            Limit=1,
            ConsistentRead=True,
        )
        return _entry(next(iter(response["Items"]), None))

    async def put_if_not_exists(self, table: str, entry: Entry) -> None:
        """Add a version.

        Cost: one PutItem.

        Args:
            table: as for `get`.
            entry: the version.

        Raises:
            AlreadyExistsError: the version exists. This call may have made it, because boto3 may
                send a request twice.
            StoreError: DynamoDB failed; the version may exist, or appear later.
        """
        await self._call("put_item", Item=_item(table, entry), ConditionExpression=_NEW)

    async def put_if_exists(self, table: str, entry: Entry) -> None:
        """Replace the entry of a version.

        Cost: one PutItem.

        Args:
            table: as for `get`.
            entry: the version.

        Raises:
            NotFoundError: no such version.
            StoreError: DynamoDB failed.
        """
        try:
            await self._call("put_item", Item=_item(table, entry), ConditionExpression=_OLD)
        except AlreadyExistsError as error:
            raise NotFoundError(
                f"DynamoDB table {self._table!r}: no version {entry.version} of {table!r}"
            ) from error

    async def delete_table(self, table: str) -> None:
        """Delete the entries of all versions of a table.

        Cost: a Query per MiB of versions and one after the last, and a DeleteItem per version.

        Args:
            table: as for `get`.

        Raises:
            StoreError: DynamoDB failed.
        """
        while True:
            response = await self._call(
                "query",
                KeyConditionExpression="base_uri = :base_uri",
                ExpressionAttributeValues={":base_uri": {"S": table}},
                ProjectionExpression="version",
                ConsistentRead=True,
            )
            if not response["Items"]:
                return
            for item in response["Items"]:
                await self._call("delete_item", Key=_key(table, int(item["version"]["N"])))

    def __getstate__(self) -> dict[str, object]:
        return {"table": self._table, "client": self._arguments}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["table"], state["client"])  # type: ignore[misc]  # connects anew

    async def _call(self, name: str, **arguments: object) -> dict[str, Any]:
        return await asyncio.to_thread(self._send, name, arguments)

    def _send(self, name: str, arguments: dict[str, object]) -> dict[str, Any]:
        boto = _boto()
        try:
            with self._lock:  # because creating a client is slow and not thread-safe
                if self._client is None:
                    self._client = self._connect(boto)
            answer = getattr(self._client, name)(TableName=self._table, **arguments)
        except boto.exceptions.ClientError as error:
            raise self._failure(error) from error
        except boto.exceptions.NoCredentialsError as error:
            raise AccessError(f"DynamoDB table {self._table!r}: {error}") from error
        except boto.exceptions.BotoCoreError as error:
            raise StoreError(f"DynamoDB table {self._table!r}: {error}", retryable=True) from error
        return dict(answer)

    def _connect(self, boto: Any) -> Any:
        client = boto.session.get_session().create_client("dynamodb", **self._arguments)
        about = client.describe_table(TableName=self._table)["Table"]
        types = {
            attribute["AttributeName"]: attribute["AttributeType"]
            for attribute in about["AttributeDefinitions"]
        }
        keys = [
            (key["AttributeName"], key["KeyType"], types[key["AttributeName"]])
            for key in about["KeySchema"]
        ]
        if keys != _KEYS:
            raise InvalidInputError(
                f"DynamoDB table {self._table!r} has the keys {keys}, expected {_KEYS}"
            )
        return client

    def _failure(self, error: Any) -> Exception:
        code = error.response["Error"]["Code"]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        where = f"DynamoDB table {self._table!r}"
        if code == "ConditionalCheckFailedException":
            return AlreadyExistsError(f"{where}: the condition of the put does not hold")
        if code == "ResourceNotFoundException":
            return InvalidInputError(f"{where}: no such table")
        if code in _DYNAMODB_REFUSALS:
            return AccessError(f"{where}: {error}", status=status)
        # When DynamoDB throttles, the status is 400.
        retryable = status is None or status >= 500 or "Throttl" in code or "Exceeded" in code
        return StoreError(f"{where}: {error}", retryable=retryable, status=status)


def parse_dynamodb_uri(
    uri: str, storage_options: Mapping[str, object] | None = None
) -> tuple[str, dict[str, object], DynamoDbStore]:
    """Split a URI into the table's `s3://` URI, the store's options and the DynamoDB store.

    Args:
        storage_options: options of S3, and `dynamodb_endpoint` for a DynamoDB outside of AWS. Its
            default is the environment variable `DYNAMODBENDPOINT`.

    Raises:
        InvalidInputError: the URI is not `s3+ddb://bucket/path?ddbTableName=table`.
    """
    place, _, query = uri.removeprefix(SCHEME).partition("?")
    parameters = parse_qsl(query, keep_blank_values=True)
    if not uri.startswith(SCHEME) or [name for name, _ in parameters] != [_PARAMETER]:
        raise InvalidInputError(f"uri {uri!r}: expected {SCHEME}bucket/path?{_PARAMETER}=table")
    if not parameters[0][1]:
        raise InvalidInputError(f"uri {uri!r}: the name of the DynamoDB table is empty")
    others = dict(storage_options or {})
    endpoint = others.pop(ENDPOINT, None) or os.environ.get("DYNAMODBENDPOINT")
    client: dict[str, str] = {}
    for name, value in others.items():
        argument = _CLIENT.get(name.lower().removeprefix("aws_"))
        if argument is not None:
            client.setdefault(argument, str(value))
    if endpoint:
        client["endpoint_url"] = str(endpoint)
    return "s3://" + place, others, DynamoDbStore(parameters[0][1], client)


def _boto() -> Any:
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError as error:
        raise missing("commits through DynamoDB need boto3", "dynamodb") from error
    return botocore


def _key(table: str, version: int) -> dict[str, dict[str, str]]:
    return {"base_uri": {"S": table}, "version": {"N": str(version)}}


def _item(table: str, entry: Entry) -> dict[str, dict[str, str]]:
    item = _key(table, entry.version)
    item |= {"path": {"S": entry.path}, "committer": {"S": COMMITTER}}
    if entry.num_bytes is not None:
        item["size"] = {"N": str(entry.num_bytes)}
    return item


def _entry(item: dict[str, dict[str, str]] | None) -> Entry | None:
    if item is None:
        return None
    size = item.get("size")
    num_bytes = None if size is None else int(size["N"])
    return Entry(int(item["version"]["N"]), item["path"]["S"], num_bytes)
