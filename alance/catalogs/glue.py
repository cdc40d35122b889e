"""AWS Glue as a metastore, by botocore.

`glue://[CATALOG_ID][?region=...&endpoint=...&root=...]`, or a client of boto3. Glue has its own
credentials: those of AWS's default chain, or of the client. Storage options are only used to access
the tables.

Source: Glue implementation specification of lance-namespace (lance-namespace-impls).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from alance.base.checks import did_you_mean
from alance.base.extras import missing
from alance.catalogs.metastore import LANCE, TABLE_TYPE, Entry
from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StoreError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEME: Final = "glue://"
TIME_LIMITS: Final = (10, 60)  # seconds to connect, and to wait for an answer
_PARAMETERS: Final = ("region", "endpoint", "root")
_ERRORS: Final[Mapping[str, type[AlanceError]]] = {
    "EntityNotFoundException": NotFoundError,
    "AlreadyExistsException": AlreadyExistsError,
    "InvalidInputException": InvalidInputError,
    "ValidationException": InvalidInputError,
    "ConcurrentModificationException": RetryableConflictError,
    "AccessDeniedException": AccessError,
    "ExpiredTokenException": AccessError,
    "UnrecognizedClientException": AccessError,
    "InvalidSignatureException": AccessError,
    "MissingAuthenticationTokenException": AccessError,
}
# Fields of Glue's answers that it takes back.
_DATABASE_INPUT: Final = (
    "Name", "CreateTableDefaultPermissions", "TargetDatabase",
)  # fmt: skip
_TABLE_INPUT: Final = (
    "Name", "Description", "Owner", "Retention", "StorageDescriptor", "PartitionKeys", "TableType",
    "Parameters",
)  # fmt: skip
# Properties of a namespace that are fields of a database.
_FIELDS: Final = {"location": "LocationUri", "description": "Description"}


def is_client(value: object) -> bool:
    """Return True for a client of boto3 for Glue."""
    model = getattr(getattr(value, "meta", None), "service_model", None)
    return getattr(model, "service_name", None) == "glue"


def glue_of_uri(uri: str) -> tuple[Glue, str | None]:
    """Return the metastore of a URI, and the root of tables; None if the URI has none.

    Raises:
        InvalidInputError: an unknown parameter.
        MissingPackageError: boto3 is not installed.
    """
    catalog, _, query = uri.removeprefix(SCHEME).partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    for name in parameters:
        if name not in _PARAMETERS:
            raise InvalidInputError(
                f"uri {SCHEME}{catalog}?{name}=…: expected the parameters {', '.join(_PARAMETERS)}"
                f"{did_you_mean(name, _PARAMETERS)}; Glue's credentials are those of AWS's default "
                f"chain, or of a client: alance.connect(boto3.client('glue', ...))"
            )
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ImportError as error:
        raise missing("glue:// needs boto3", "glue") from error
    connect_s, read_s = TIME_LIMITS
    config = Config(connect_timeout=connect_s, read_timeout=read_s, retries={"max_attempts": 3})
    try:
        client = get_session().create_client(
            "glue",
            region_name=parameters.get("region"),
            endpoint_url=parameters.get("endpoint"),
            config=config,
        )
    except (BotoCoreError, ValueError) as error:  # no region; an endpoint that is no URL
        raise InvalidInputError(
            f"uri {uri!r}: {error} Expected {SCHEME}[CATALOG_ID]?region=eu-central-1"
        ) from error
    return Glue(client, f"{SCHEME}{catalog}", catalog), parameters.get("root")


class Glue:
    """Metastore of Glue; see `Metastore` for its methods.

    Args:
        client: a client of boto3.
        uri: for messages.
        catalog_id: AWS account of the catalog; empty: the caller's.
    """

    def __init__(self, client: Any, uri: str = SCHEME, catalog_id: str = "") -> None:
        self.uri = uri
        self._client = client
        self._catalog = {"CatalogId": catalog_id} if catalog_id else {}

    def __repr__(self) -> str:
        return f"Glue({self.uri!r})"

    def databases(self) -> list[str]:
        return [database["Name"] for database in self._pages("get_databases", "DatabaseList")]

    def database(self, name: str) -> dict[str, str]:
        database = self._database(name)
        fields = {key: database[field] for key, field in _FIELDS.items() if database.get(field)}
        return {**database.get("Parameters", {}), **fields}

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        self._check_name("namespace", name)
        self._ask("create_database", name, DatabaseInput={"Name": name} | _fields_of(properties))

    def update_database(self, name: str, properties: Mapping[str, str]) -> None:
        before = self._database(name)
        others = {key: before[key] for key in _DATABASE_INPUT if key in before}
        self._ask("update_database", name, Name=name, DatabaseInput=others | _fields_of(properties))

    def drop_database(self, name: str) -> None:
        self._ask("delete_database", name, Name=name)

    def tables(self, database: str) -> dict[str, Entry]:
        self._database(database)  # servers may list nothing for a database that does not exist
        pages = self._pages("get_tables", "TableList", database, DatabaseName=database)
        return {table["Name"]: _entry(table) for table in pages}

    def table(self, database: str, name: str) -> Entry:
        return _entry(self._table(database, name))

    def add_table(self, database: str, name: str, location: str) -> None:
        self._check_name("table", name)
        table = {
            "Name": name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {TABLE_TYPE: LANCE, "EXTERNAL": "TRUE"},
            "StorageDescriptor": {"Location": location, "Columns": []},
        }
        what = f"{database}.{name}"
        self._ask("create_table", what, DatabaseName=database, TableInput=table)

    def remove_table(self, database: str, name: str) -> None:
        what = f"{database}.{name}"
        self._ask("delete_table", what, DatabaseName=database, Name=name)

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Add the entry under its new name, then remove the old one: Glue has no such call."""
        self._check_name("table", new[1])
        before = self._table(*old)
        table = {key: before[key] for key in _TABLE_INPUT if key in before} | {"Name": new[1]}
        self._ask("create_table", ".".join(new), DatabaseName=new[0], TableInput=table)
        self.remove_table(*old)

    def _database(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask("get_database", name, Name=name)["Database"]
        return answer

    def _table(self, database: str, name: str) -> dict[str, Any]:
        what = f"{database}.{name}"
        try:
            answer = self._ask("get_table", what, DatabaseName=database, Name=name)
        except NotFoundError as error:
            raise TableNotFoundError(f"catalog {self.uri!r}: no table {what!r}") from error
        table: dict[str, Any] = answer["Table"]
        return table

    def _check_name(self, kind: str, name: str) -> None:
        if name != name.lower():
            raise InvalidInputError(
                f"catalog {self.uri!r}: {kind} {name!r}: Glue has names in lower case only; write "
                f"{name.lower()!r}"
            )

    def _pages(self, method: str, field: str, what: str = "", **fields: Any) -> Iterator[Any]:
        token: str | None = None
        while True:
            more = {"NextToken": token} if token else {}
            answer = self._ask(method, what, **fields, **more)
            yield from answer.get(field, ())
            following = answer.get("NextToken")
            if not following or following == token:
                return
            token = following

    def _ask(self, method: str, what: str, **fields: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            return getattr(self._client, method)(**self._catalog, **fields)
        except ClientError as error:
            raise self._failure(error, method, what) from error
        except NoCredentialsError as error:
            raise AccessError(f"catalog {self.uri!r}: {error}") from error
        except BotoCoreError as error:
            raise StoreError(f"catalog {self.uri!r}: {error}", retryable=True) from error

    def _failure(self, error: Any, method: str, what: str) -> AlanceError:
        code = error.response["Error"].get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        text = f"catalog {self.uri!r}: {method.replace('_', ' ')} {what!r}: {error}"
        kind = _ERRORS.get(code)
        if kind is AccessError:
            return AccessError(text, status=status)
        if kind is not None:
            return kind(text)
        is_passing = status is None or status >= 500 or "Throttl" in code or "Timeout" in code
        return StoreError(text, retryable=is_passing, status=status)


def _fields_of(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a database for the properties of a namespace."""
    fields: dict[str, Any] = {
        field: properties[key] for key, field in _FIELDS.items() if properties.get(key)
    }
    others = {key: text for key, text in properties.items() if key not in _FIELDS}
    return fields | {"Parameters": others}


def _entry(table: Mapping[str, Any]) -> Entry:
    location = table.get("StorageDescriptor", {}).get("Location", "")
    return Entry(str(location or ""), table.get("Parameters", {}))
