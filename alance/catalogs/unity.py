"""Unity Catalog as a metastore, by its REST API.

`unity://HOST[:PORT]/CATALOG[?root=...]` is a catalog behind HTTPS; `unity+http://` one without
encryption. Tables of Lance are external tables of the format TEXT, the generic one.

Source: Unity implementation specification of lance-namespace (lance-namespace-impls).
"""

from __future__ import annotations

import json
import re
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from alance.base.cancellation import check_cancelled
from alance.catalogs.metastore import LANCE, TABLE_TYPE, Entry
from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMES: Final = ("unity://", "unity+http://")
API: Final = "/api/2.1/unity-catalog"
READ_S: Final = 60.0  # seconds to connect, and for each part of an answer
TRIES: Final = 3  # of a request that reads, if the server is overloaded or cannot be reached
PAUSE_S: Final = 0.3  # seconds before the first retry; doubled for the next
MAX_ANSWER_BYTES: Final = 64 << 20
_OVERLOADED: Final = frozenset({429, 502, 503, 504})
_NO_NAME: Final = frozenset([".", *map(chr, range(33)), "\x7f"])  # source: Unity's "Names"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_KINDS: Final[Mapping[int, type[AlanceError]]] = {
    400: InvalidInputError,
    404: NotFoundError,
    409: AlreadyExistsError,
}


def unity_of_uri(uri: str, headers: Mapping[str, str]) -> tuple[Unity, str | None]:
    """Return the metastore of a URI, and the root of its tables, which is None if not in the URI.

    Args:
        headers: headers of each request, such as `Authorization`.

    Raises:
        InvalidInputError: the URI has no server or catalog, or an unknown parameter; a header is
            not valid in HTTP.
    """
    for name, value in headers.items():
        # A token from a file may end in a line break. urllib's error would show it.
        if not _NAME.fullmatch(str(name)) or not _VALUE.fullmatch(str(value)):
            raise InvalidInputError(
                f"headers: {name!r}: expected a name of HTTP, and a text in Latin-1 without line "
                f"breaks"
            )
    try:
        parts = urlsplit(uri)
        has_server = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a bad port, or a bad address in brackets
        parts, has_server = urlsplit(uri.partition("//")[0]), False
    catalog = parts.path.strip("/")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    is_right = has_server and catalog and "/" not in catalog and "@" not in parts.netloc
    if not is_right or parameters.keys() - {"root"}:
        raise InvalidInputError(
            f"uri '{parts.scheme}://{parts.hostname or ''}/{catalog}…': expected "
            f"{parts.scheme}://HOST[:PORT]/CATALOG[?root=s3://bucket/folder], and a token in "
            f"headers={{'Authorization': 'Bearer ...'}}"
        )
    scheme = "http" if parts.scheme == "unity+http" else "https"
    shown = f"{parts.scheme}://{parts.netloc}/{catalog}"
    return Unity(f"{scheme}://{parts.netloc}{API}", catalog, headers, shown), parameters.get("root")


class _NoRedirect(HTTPRedirectHandler):
    """Handler that refuses redirects, which would send the token to another server."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that the answer is an error."""


class Unity:
    """Metastore of Unity Catalog; see `Metastore` for its methods.

    Args:
        api: URL of the API.
        catalog: name of the catalog, whose schemas are the databases.
        headers: headers of each request.
        uri: for messages.
    """

    def __init__(self, api: str, catalog: str, headers: Mapping[str, str], uri: str) -> None:
        self.uri = uri
        self._api = api
        self._catalog = catalog
        self._headers = {**headers, "Content-Type": "application/json"}
        self._opener = build_opener(_NoRedirect)

    def __repr__(self) -> str:
        return f"Unity({self.uri!r})"

    def databases(self) -> list[str]:
        pages = self._pages("/schemas", "schemas", {"catalog_name": self._catalog})
        return [schema["name"] for schema in pages]

    def database(self, name: str) -> dict[str, str]:
        schema = self._ask("GET", f"/schemas/{self._full(name)}")
        location = schema.get("storage_location") or schema.get("storage_root")
        fields = {"location": location, "description": schema.get("comment")}
        return {
            **{key: text for key, text in fields.items() if text},
            **(schema.get("properties") or {}),
        }

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        self._check_name("namespace", name)
        body = {"name": name, "catalog_name": self._catalog, **_properties(properties)}
        self._ask("POST", "/schemas", body)

    def update_database(self, name: str, properties: Mapping[str, str]) -> None:
        self._ask("PATCH", f"/schemas/{self._full(name)}", _properties(properties))

    def drop_database(self, name: str) -> None:
        self._ask("DELETE", f"/schemas/{self._full(name)}")

    def tables(self, database: str) -> dict[str, Entry]:
        place = {"catalog_name": self._catalog, "schema_name": database}
        return {table["name"]: _entry(table) for table in self._pages("/tables", "tables", place)}

    def table(self, database: str, name: str) -> Entry:
        return _entry(self._table(database, name))

    def add_table(self, database: str, name: str, location: str) -> None:
        self._check_name("table", name)
        uri = location if "://" in location else f"file://{quote(location)}"
        self._add(database, name, {"storage_location": uri, "properties": {TABLE_TYPE: LANCE}})

    def remove_table(self, database: str, name: str) -> None:
        self._ask("DELETE", f"/tables/{self._full(database, name)}")

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Add the entry under its new name, then remove the old one: Unity has no such call."""
        self._check_name("table", new[1])
        table = self._table(*old)
        fields = ("storage_location", "properties", "columns", "comment")
        self._add(*new, {field: table[field] for field in fields if table.get(field)})
        self.remove_table(*old)

    def _add(self, database: str, name: str, fields: Mapping[str, Any]) -> None:
        body = {
            "name": name,
            "catalog_name": self._catalog,
            "schema_name": database,
            "table_type": "EXTERNAL",
            "data_source_format": "TEXT",
            "columns": [],
            **fields,
        }
        self._ask("POST", "/tables", body)

    def _table(self, database: str, name: str) -> dict[str, Any]:
        try:
            return self._ask("GET", f"/tables/{self._full(database, name)}")
        except NotFoundError as error:
            text = f"catalog {self.uri!r}: no table {f'{database}.{name}'!r}"
            raise TableNotFoundError(text) from error

    def _check_name(self, kind: str, name: str) -> None:
        if set(name) & _NO_NAME:
            raise InvalidInputError(
                f"catalog {self.uri!r}: {kind} {name!r}: Unity has no names with a dot, a space or "
                f"a control character"
            )

    def _full(self, *names: str) -> str:
        return ".".join(quote(name, safe="") for name in (self._catalog, *names))

    def _pages(self, path: str, field: str, parameters: Mapping[str, str]) -> Iterator[Any]:
        token: str | None = None
        while True:
            more = {"page_token": token} if token else {}
            answer = self._ask("GET", f"{path}?{urlencode({**parameters, **more})}")
            yield from answer.get(field) or ()
            following = answer.get("next_page_token")
            if not following or following == token:
                return
            token = following

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        tries = TRIES if method == "GET" else 1
        for attempt in range(1, tries + 1):
            try:
                return self._send(method, path, body)
            except StoreError as error:
                if not error.retryable or attempt == tries:
                    raise
                check_cancelled()
                time.sleep(PAUSE_S * 2 ** (attempt - 1))
        raise AssertionError

    def _send(self, method: str, path: str, body: object) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._api + path, data, self._headers, method=method)
        where = f"catalog {self.uri!r}: {method} {path.partition('?')[0]}"
        try:
            with self._opener.open(request, timeout=READ_S) as answer:
                content = answer.read(MAX_ANSWER_BYTES)
            parsed = json.loads(content) if content.strip() else {}
        except HTTPError as error:
            with error:
                raise _failure(where, error.code, error.read(1 << 16)) from error
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise StoreError(f"{where}: {reason}", retryable=True) from error
        except ValueError as error:
            raise StoreError(f"{where}: the answer is no JSON") from error
        if not isinstance(parsed, dict):
            raise StoreError(f"{where}: expected an object as an answer")
        return parsed


def _failure(where: str, status: int, content: bytes) -> AlanceError:
    try:
        answer = json.loads(content)
        code, text = str(answer.get("error_code", "")), str(answer.get("message", ""))
    except (ValueError, AttributeError):
        code, text = "", f"status {status}"
    message = f"{where}: {text or code}"
    if status in (401, 403):
        return AccessError(message, status=status)
    if "ALREADY_EXISTS" in code:
        return AlreadyExistsError(message)
    kind = _KINDS.get(status)
    if kind is not None:
        return kind(message)
    return StoreError(message, retryable=status in _OVERLOADED, status=status)


def _properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a schema for the properties of a namespace."""
    others = {key: text for key, text in properties.items() if key != "description"}
    return {"properties": others, "comment": properties.get("description", "")}


def _entry(table: Mapping[str, Any]) -> Entry:
    return Entry(str(table.get("storage_location") or ""), table.get("properties") or {})
