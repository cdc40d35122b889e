"""A catalog that is accessed by a client of Lance namespaces, such as the REST client.

These clients block, so each call runs in a thread. Their errors become alance's errors by the
protocol's error codes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from alance.base.extras import missing
from alance.catalogs.backend import DELIMITER, Place, plain, shown
from alance.catalogs.versions import TableVersions
from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    InvalidInputError,
    MissingPackageError,
    NotFoundError,
    RetryableConflictError,
    StoreError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from alance.io.opening.credentials import CREDENTIALS, apart
from alance.io.stores.uri import clean_path, parse_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.catalogs.backend import Names
    from alance.io.opening.credentials import StorageOptions

TIME_LIMITS: Final = (10.0, 60.0)  # seconds to connect, and to wait for an answer
ANSWER_S: Final = 180.0  # seconds for a whole answer, even if each part arrives in time
PAGE_NAMES: Final = 1000  # names in one answer
TRIES: Final = 3  # retries of a request after the first attempt
MAX_IDLE_PAGES: Final = 1000  # pages without a new name; a server that filters may send some
MAX_NAMES: Final = 10_000_000  # names in one namespace: a gigabyte

# Error codes of the protocol.
_ERRORS: Final[Mapping[int, type[AlanceError]]] = {
    0: UnsupportedError,
    1: NotFoundError,
    2: AlreadyExistsError,
    3: InvalidInputError,  # the namespace is not empty
    4: TableNotFoundError,
    5: AlreadyExistsError,
    11: VersionNotFoundError,
    13: InvalidInputError,
    14: RetryableConflictError,
    15: AccessError,
    16: AccessError,
    22: VersionNotFoundError,  # no such branch
}
# What a code means, because some servers give only a name as the text.
_MEANINGS: Final[Mapping[int, str]] = {
    1: "no such namespace: ",
    2: "it exists already: ",
    3: "it is not empty: ",
    4: "no such table: ",
    5: "it exists already: ",
}
# What to do instead of calls that not all catalogs have.
_INSTEAD: Final[Mapping[str, str]] = {
    "register_table": "write the table by create_table; folders and pylance's servers over folders "
    "with a manifest can register tables",
    "deregister_table": "drop_table deletes a table with its data; folders and pylance's servers "
    "over folders can deregister tables",
    "describe_namespace": "folders and pylance's servers have properties of namespaces",
}
_OVERLOADED: Final = frozenset({17, 21})  # unavailable, throttled: the same call may succeed later
_OVERLOADED_STATUS: Final = frozenset({429, 502, 503, 504})
_BY_STATUS: Final[Mapping[int, type[AlanceError]]] = {
    400: InvalidInputError,
    401: AccessError,
    403: AccessError,
    404: NotFoundError,
    409: AlreadyExistsError,
    501: UnsupportedError,
}


class ClientBackend:
    """Backend that calls a client."""

    def __init__(self, client: Any, uri: str, options: StorageOptions | None) -> None:
        missing = [name for name in ("describe_table", "list_tables") if not hasattr(client, name)]
        if missing:
            raise InvalidInputError(
                f"connect: expected a URI or an object with the methods of a LanceNamespace, found "
                f"{type(client).__name__}, which has no {missing[0]}"
            )
        self._client = client
        self._uri = uri
        self._options = options
        self._versions: WeakValueDictionary[tuple[Names, str], TableVersions] = (
            WeakValueDictionary()
        )

    @property
    def uri(self) -> str:
        return self._uri

    async def list_namespaces(self, parent: Names) -> list[str]:
        return await self._all("list_namespaces", "namespaces", parent)

    async def list_tables(
        self, namespace: Names, *, include_declared: bool, check_hidden: bool = True
    ) -> list[str]:
        return await self._all(
            "list_tables",
            "tables",
            namespace,
            include_declared=include_declared,
        )

    async def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None:
        await self.ask("create_namespace", names, properties=dict(properties))

    async def describe_namespace(self, names: Names) -> dict[str, str]:
        answer = await self.ask("describe_namespace", names)
        return plain(answer.properties)

    async def update_namespace(
        self, names: Names, properties: Mapping[str, str | None], *, replace: bool
    ) -> dict[str, str]:
        raise UnsupportedError(
            f"catalog {self.uri}: properties of {shown(names)!r}: the protocol of Lance namespaces "
            f"sets them only by create_namespace. Change them in the server's own way, or in a "
            f"folder by alance.connect(folder)"
        )

    async def drop_namespace(self, names: Names) -> None:
        await self.ask("drop_namespace", names)

    async def find(self, names: Names) -> Place:
        answer = await self.ask("describe_table", names, vend_credentials=True)
        return self._place(names, answer)

    async def begin(self, names: Names) -> Place:
        answer = await self.ask("declare_table", names, vend_credentials=True)
        return self._place(names, answer)

    async def finish(self, names: Names, place: Place) -> None:
        """Do nothing: the declaration by `begin` is sufficient."""

    async def abandon(self, names: Names, place: Place) -> None:
        with suppress(AlanceError):
            await self.ask("drop_table", names)

    async def drop(self, names: Names) -> None:
        await self.ask("drop_table", names)

    async def rename(self, names: Names, new: Names) -> None:
        await self.ask(
            "rename_table",
            names,
            new_table_name=new[-1],
            new_namespace_id=list(new[:-1]),
        )

    async def register(self, names: Names, location: str) -> None:
        await self.ask("register_table", names, location=location)

    async def deregister(self, names: Names) -> str | None:
        answer = await self.ask("deregister_table", names)
        return getattr(answer, "location", None) or None

    def _place(self, names: Names, answer: Any) -> Place:
        """Return the place of a table from the server's answer.

        Raises:
            StoreError: the answer has no location.
        """
        uri = answer.location
        if not uri:
            raise StoreError(f"catalog {self.uri}: no location of table {shown(names)!r}")
        address = parse_uri(uri)
        versions = None
        if getattr(answer, "managed_versioning", None):
            versions = self._versions_of(names, clean_path(address.path))
        vended = plain(answer.storage_options)
        if not vended:
            return Place(uri, self._options, versions)
        static, expiring = apart(address.kind, vended)
        if not expiring.keys() & {"expires_at", "expires_at_millis"}:
            return Place(uri, vended, versions)
        options = {**static, CREDENTIALS: Vended(self, names, expiring)}
        return Place(uri, options, versions)

    def _versions_of(self, names: Names, path: str) -> TableVersions:
        """Return the versions of a table; the same object for all its users, who share a queue."""
        versions = self._versions.get((names, path))
        if versions is None:
            versions = self._versions[names, path] = TableVersions(self, names, path)
        return versions

    async def _all(self, method: str, field: str, names: Names, **fields: Any) -> list[str]:
        """Return the names of all pages of an answer.

        Raises:
            StoreError: the listing is endless, or a page is not a list of names.
        """
        result: dict[str, None] = {}
        token: str | None = None
        idle = 0  # consecutive pages without a new name
        while True:
            answer = await self.ask(method, names, page_token=token, limit=PAGE_NAMES, **fields)
            before = len(result)
            page = getattr(answer, field, None)
            if not isinstance(page, list | tuple | set | frozenset):
                raise StoreError(
                    f"catalog {self.uri}: {field} of {shown(names)!r}: expected a list of names, "
                    f"found {type(page).__name__}"
                )
            result |= dict.fromkeys(page)
            following = getattr(answer, "page_token", None)
            if not following or following == token:
                return list(result)
            token = following
            idle = idle + 1 if len(result) == before else 0
            if idle > MAX_IDLE_PAGES or len(result) > MAX_NAMES:
                raise StoreError(
                    f"catalog {self.uri}: {field} of {shown(names)!r}: the pages do not end; "
                    f"{len(result)} names so far, none of them in the last {idle} pages"
                )

    async def ask(self, method: str, names: Names, **fields: Any) -> Any:
        """Call the client in a thread; errors are as for `call`.

        Raises:
            StoreError: no answer after `ANSWER_S`.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asyncio.to_thread(self.call, method, names, **fields)
        except TimeoutError as error:
            words = method.replace("_", " ")
            raise StoreError(
                f"catalog {self.uri}: {words} {shown(names)!r}: no answer after {ANSWER_S} s"
            ) from error

    def call(self, method: str, names: Names, **fields: Any) -> Any:
        """Call the client. Blocks.

        Raises:
            AlanceError: the error for the code of the client's error.
        """
        models = _models()
        request = "".join(word.capitalize() for word in method.split("_")) + "Request"
        present = {name: value for name, value in fields.items() if value is not None}
        act = getattr(self._client, method, None)
        if act is None:
            error = NotImplementedError(f"{type(self._client).__name__} has no such method")
            raise self._error_of(error, method, names)
        try:
            message = getattr(models, request)(id=list(names), **present)
            return act(message.to_dict() if _takes_mapping(act) else message)
        except _values_refused() as error:  # the error and its text contain the rejected values
            places = {".".join(map(str, detail["loc"])) for detail in error.errors()}
            what = f"{request} or its answer is not of the protocol: {', '.join(sorted(places))}"
            raise StoreError(f"catalog {self.uri}: {shown(names)!r}: {what}") from None
        except Exception as error:
            raise self._error_of(error, method, names) from error

    def _error_of(self, error: Exception, method: str, names: Names) -> AlanceError:
        """Convert a client's error to an error of alance."""
        code: Any = error.code if _is_of_protocol(error) else None  # type: ignore[attr-defined]
        status: Any = getattr(error, "status", None)
        text = str(error)
        body = getattr(error, "body", None)
        if body is not None:
            with suppress(ValueError, TypeError, AttributeError):
                answer = json.loads(body)
                code, text = answer.get("code", code), str(answer.get("error", text))
        kind: type[AlanceError] = StoreError
        code = int(code) if isinstance(code, int) else None
        if code in _ERRORS:
            kind = _ERRORS[code]
        elif status in _BY_STATUS:
            kind = _BY_STATUS[status]
        elif isinstance(error, NotImplementedError):
            kind = UnsupportedError
        words = method.replace("_", " ")
        meaning = _MEANINGS.get(code or 0, "")
        message = f"catalog {self.uri}: {words} {shown(names)!r}: {meaning}{text}"
        if kind is UnsupportedError and method in _INSTEAD:
            message += f"; {_INSTEAD[method]}"
        if kind is StoreError:
            is_overloaded = code in _OVERLOADED or status in _OVERLOADED_STATUS
            return StoreError(message, retryable=is_overloaded)
        return kind(message)


class Vended:
    """Provider of a table's credentials, which the catalog issues and renews."""

    def __init__(self, backend: ClientBackend, names: Names, first: dict[str, Any]) -> None:
        self._backend = backend
        self._names = names
        self._first: dict[str, Any] | None = first

    def __repr__(self) -> str:
        return f"Vended({shown(self._names)!r})"

    def fetch_storage_options(self) -> dict[str, Any]:
        """Return credentials and their expiry: first those that came with the table's place."""
        first, self._first = self._first, None
        if first is not None:
            return first
        answer = self._backend.call("describe_table", self._names, vend_credentials=True)
        return apart(parse_uri(answer.location).kind, plain(answer.storage_options))[1]


class RestClient:
    """Client of a server, with the methods of a `LanceNamespace`."""

    def __init__(self, tables: Any, namespaces: Any) -> None:
        self._tables = tables
        self._namespaces = namespaces

    def list_namespaces(self, request: Any) -> Any:
        return self._listed(self._namespaces.list_namespaces, request)

    def list_tables(self, request: Any) -> Any:
        more = {"include_declared": request.include_declared}
        return self._listed(self._namespaces.list_tables, request, **more)

    def create_namespace(self, request: Any) -> Any:
        return self._sent(self._namespaces.create_namespace, request)

    def describe_namespace(self, request: Any) -> Any:
        return self._sent(self._namespaces.describe_namespace, request)

    def drop_namespace(self, request: Any) -> Any:
        return self._sent(self._namespaces.drop_namespace, request)

    def describe_table(self, request: Any) -> Any:
        return self._sent(self._tables.describe_table, request)

    def declare_table(self, request: Any) -> Any:
        return self._sent(self._tables.declare_table, request)

    def register_table(self, request: Any) -> Any:
        return self._sent(self._tables.register_table, request)

    def deregister_table(self, request: Any) -> Any:
        return self._sent(self._tables.deregister_table, request)

    def rename_table(self, request: Any) -> Any:
        return self._sent(self._tables.rename_table, request)

    def list_table_versions(self, request: Any) -> Any:
        more = {"descending": request.descending, "branch": request.branch}
        return self._listed(self._tables.list_table_versions, request, **more)

    def describe_table_version(self, request: Any) -> Any:
        return self._sent(self._tables.describe_table_version, request)

    def create_table_version(self, request: Any) -> Any:
        return self._sent(self._tables.create_table_version, request)

    def batch_delete_table_versions(self, request: Any) -> Any:
        return self._sent(self._tables.batch_delete_table_versions, request)

    def drop_table(self, request: Any) -> Any:
        return self._tables.drop_table(_joined(request), **_OPTIONS)

    def _listed(self, method: Any, request: Any, **more: Any) -> Any:
        return method(
            _joined(request), page_token=request.page_token, limit=request.limit, **more, **_OPTIONS
        )

    def _sent(self, method: Any, request: Any) -> Any:
        return method(_joined(request), request, **_OPTIONS)


_OPTIONS: Final[Mapping[str, Any]] = {"delimiter": DELIMITER, "_request_timeout": TIME_LIMITS}


def _joined(request: Any) -> str:
    """Return the identifier of a request as it is in URLs; the root is the delimiter alone."""
    return DELIMITER.join(request.id) or DELIMITER


def rest_client(uri: str, headers: Mapping[str, str]) -> RestClient:
    """Return a client of a server.

    Raises:
        MissingPackageError: the package is not installed.
    """
    try:
        from lance_namespace_urllib3_client.api.namespace_api import NamespaceApi
        from lance_namespace_urllib3_client.api.table_api import TableApi
        from lance_namespace_urllib3_client.api_client import ApiClient
        from lance_namespace_urllib3_client.configuration import Configuration
        from urllib3 import Retry
    except ImportError as error:
        raise _no_client() from error
    configuration: Any = Configuration(host=uri.rstrip("/"))
    # Headers may contain secrets under any name, so they are not sent to other servers after a
    # redirect.
    secrets = Retry.DEFAULT_REMOVE_HEADERS_ON_REDIRECT.union(headers)
    configuration.retries = Retry(TRIES, remove_headers_on_redirect=secrets)
    client = ApiClient(configuration)
    client.default_headers.update(headers)
    return RestClient(TableApi(client), NamespaceApi(client))


def _takes_mapping(method: Any) -> bool:
    """True if a method's request is annotated as a dict, as in pylance for calls about versions."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False
    return getattr(parameters.get("request"), "annotation", None) in (dict, "dict")


def _is_of_protocol(error: Exception) -> bool:
    """True if an error is one of lance_namespace; codes of other libraries mean other things."""
    errors = sys.modules.get("lance_namespace.errors")  # not imported: no such error exists
    return errors is not None and isinstance(error, errors.LanceNamespaceError)


def _values_refused() -> Any:
    """Return the exception type that messages raise for values that the protocol does not allow."""
    from pydantic import ValidationError

    return ValidationError


def _models() -> Any:
    """Return the module of the protocol's messages.

    Raises:
        MissingPackageError: the package is not installed.
    """
    try:
        from lance_namespace_urllib3_client import models
    except ImportError as error:
        raise _no_client() from error
    return models


def _no_client() -> MissingPackageError:
    return missing("catalogs by a server need its client", "catalog")
