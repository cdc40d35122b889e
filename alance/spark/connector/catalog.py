"""The connector's catalog: folders of tables below a folder, the warehouse.

  warehouse/items.lance            the table `items`
  warehouse/sales/.namespace       marks the namespace `sales`, also if it is empty; contains its
                                   properties as JSON, nothing if it has none
  warehouse/sales/day.lance        the table `sales.day`

A name that contains `/` and has no namespace is the path or URI of a table. The catalog stores
nothing else about a table.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle

import alance
from alance import (
    CorruptFileError,
    InvalidInputError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from alance.distributed import (
    get_object,
    is_table,
    list_folders,
    list_tables,
    move_table,
    put_object,
    put_once,
    remove_folder,
)
from alance.spark.connector.altering import alter
from alance.spark.connector.procedures import PROCEDURES, described
from alance.spark.options import NOT_PARTITIONED, SparkWriteOptions, branch_path
from alance.spark.versions import access, open_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.spark.connector.planning import Planner
    from alance.spark.source import AlanceSource

FOLDER_SUFFIX: Final = ".lance"  # of a table
MARK: Final = ".namespace"
EPOCH_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
PROVIDERS: Final = ("alance", "lance")
_NAME_PART: Final = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")  # a part of a name in SQL
# Table properties that Spark sets by itself.
SPARK_PROPERTIES: Final = frozenset({"provider", "owner", "external", "table_type"})


class SparkCatalog:
    """Handler of requests of Spark's catalog, as JSON."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    async def answer(self, request: Mapping[str, Any]) -> object:
        """Answer a request whose verb begins with `catalog.`."""
        return await getattr(self, "_" + request["verb"].removeprefix("catalog."))(request)

    async def _load(self, request: Mapping[str, Any]) -> object:
        """Open a version of a table; return the planner's answer, with the table's URI."""
        uri = uri_of(request, request["namespace"], request["name"])
        options = {"path": uri}
        if request["blobs"] is not None:
            options["blobs"] = request["blobs"]
        text = request.get("version")
        if text is not None:
            options["version" if text.isdecimal() else "tag"] = text
        if "asof" in request:  # alance: before the time; Spark: up to and including it
            options["asof"] = (EPOCH_TIME + timedelta(microseconds=request["asof"] + 1)).isoformat()
        try:
            return {**await self._planner.opened(request, options), "uri": uri}
        except TableNotFoundError:
            return {"missing": True}
        except VersionNotFoundError as error:
            if text is None or "tag" not in options:
                raise
            try:
                options["path"] = branch_path(uri, options.pop("tag"))
                return {**await self._planner.opened(request, options), "uri": options["path"]}
            except TableNotFoundError:
                raise error from None

    async def _new(self, request: Mapping[str, Any]) -> object:
        """Return the options and configuration of a new table, and True if the table exists."""
        properties = request["properties"].items()
        named = {key: text for key, text in properties if not key.startswith("option.")}
        if named.get("provider", PROVIDERS[0]).lower() not in (*PROVIDERS, request["default"]):
            raise UnsupportedError(f"USING {named['provider']}: the catalog has Lance tables alone")
        uri = uri_of(request, request["namespace"], request["name"])
        if request["partitions"]:
            raise UnsupportedError(NOT_PARTITIONED)
        if named.pop("location", uri) != uri:
            raise UnsupportedError(
                "LOCATION: a name's place is in the warehouse; name a table elsewhere by its path: "
                f"{request['catalog']}.`/path/of/table`"
            )
        names = SparkWriteOptions.__dataclass_fields__.keys() - {"path", "storage", "if_exists"}
        settings = {name.replace("_", "") for name in names}
        options, config = {}, {}
        for key, text in named.items():
            if key.lower().replace("_", "") in settings:
                options[key] = text
            elif key not in SPARK_PROPERTIES:
                config[key] = text
        options["path"] = uri
        is_there = await is_table(uri, **access(self._options(request, uri)))
        return {"options": options, "config": config, "there": is_there}

    async def _alter(self, request: Mapping[str, Any]) -> object:
        options = self._options(request, uri_of(request, request["namespace"], request["name"]))
        try:
            dataset = await open_version(options)
        except TableNotFoundError:
            return {"missing": True}
        await alter(dataset, request["changes"])
        return {}

    async def _drop(self, request: Mapping[str, Any]) -> object:
        options = self._options(request, uri_of(request, request["namespace"], request["name"]))
        try:
            await alance.drop(options.path, **access(options))
        except TableNotFoundError:
            return {"dropped": False}
        return {"dropped": True}

    async def _rename(self, request: Mapping[str, Any]) -> object:
        """Rename a table. The new name may begin with the catalog, which Spark does not cut off."""
        old = uri_of(request, request["namespace"], request["name"])
        namespace = request["to_namespace"]
        if namespace[:1] == [request["catalog"]] and not await self._has_namespace(
            request, namespace[:1]
        ):
            namespace = namespace[1:]
        new = uri_of(request, namespace, request["to_name"])
        options = self._options(request, old)
        if not await is_table(old, **access(options)):
            return {"missing": True}
        if await is_table(new, **access(options)):
            return {"there": True}
        if not await self._has_namespace(request, namespace):
            raise InvalidInputError(f"namespace {'.'.join(namespace)!r}: not there")
        await move_table(old, new, **access(options))
        return {}

    async def _tables(self, request: Mapping[str, Any]) -> object:
        namespace = request["namespace"]
        if not await self._has_namespace(request, namespace):
            return {"missing": True}
        folder = folder_of(request, namespace)
        options = self._options(request, folder)
        return {"names": await list_tables(folder, FOLDER_SUFFIX, **access(options))}

    async def _namespaces(self, request: Mapping[str, Any]) -> object:
        if not await self._has_namespace(request, request["namespace"]):
            return {"missing": True}
        return {"names": await self._children(request, request["namespace"])}

    async def _namespace(self, request: Mapping[str, Any]) -> object:
        return {"there": await self._has_namespace(request, request["namespace"])}

    async def _describe_namespace(self, request: Mapping[str, Any]) -> object:
        """Return the properties of a namespace, and its folder as `location`."""
        namespace = request["namespace"]
        if not await self._has_namespace(request, namespace):
            return {"missing": True}
        folder = folder_of(request, namespace)
        return {**await self._properties(request, folder), "location": folder}

    async def _create_namespace(self, request: Mapping[str, Any]) -> object:
        namespace = request["namespace"]
        properties = _placed(request["properties"])
        properties = {key: properties[key] for key in properties.keys() - SPARK_PROPERTIES}
        if await self._has_namespace(request, namespace):
            return {"there": True}
        for depth in range(1, len(namespace) + 1):
            folder = folder_of(request, namespace[:depth])
            content = _as_mark(properties if depth == len(namespace) else {})
            await put_once(f"{folder}/{MARK}", content, **access(self._options(request, folder)))
        return {}

    async def _alter_namespace(self, request: Mapping[str, Any]) -> object:
        """Set properties of a namespace, and remove those that are None; the last writer wins."""
        namespace = request["namespace"]
        if not await self._has_namespace(request, namespace):
            return {"missing": True}
        folder = folder_of(request, namespace)
        after = {**await self._properties(request, folder), **_placed(request["properties"])}
        content = _as_mark({key: text for key, text in after.items() if text is not None})
        await put_object(f"{folder}/{MARK}", content, **access(self._options(request, folder)))
        return {}

    async def _properties(self, request: Mapping[str, Any], folder: str) -> dict[str, str]:
        """Return the properties of a namespace.

        Raises:
            CorruptFileError: the file of the properties is not a JSON object.
        """
        uri = f"{folder}/{MARK}"
        content = await get_object(uri, **access(self._options(request, folder)))
        try:
            properties = json.loads(content or b"{}")
        except ValueError:
            properties = None
        if not isinstance(properties, dict):
            raise CorruptFileError(f"{uri}: expected properties of a namespace in JSON")
        return properties

    async def _drop_namespace(self, request: Mapping[str, Any]) -> object:
        namespace = request["namespace"]
        if not await self._has_namespace(request, namespace):
            return {"missing": True}
        folder = folder_of(request, namespace)
        options = self._options(request, folder)
        folders = await list_folders(folder, **access(options))
        if folders and not request["cascade"]:
            return {"full": True}
        for name in folders:
            if name.endswith(FOLDER_SUFFIX):
                await alance.drop(f"{folder}/{name}", **access(options))
            else:
                await self._drop_namespace({**request, "namespace": [*namespace, name]})
        await remove_folder(folder, (MARK,), **access(options))
        return {}

    async def _procedures(self, request: Mapping[str, Any]) -> object:
        return {"procedures": [described(name) for name in PROCEDURES]}

    async def _call(self, request: Mapping[str, Any]) -> object:
        """Call a procedure on a table; return its result rows."""
        arguments = dict(request["arguments"])
        table = arguments.pop("table")
        catalog = request["catalog"]
        uri = named_uri(table, {catalog: request["warehouse"]}, catalog)
        options = self._options(request, uri)
        present = {name: value for name, value in arguments.items() if value is not None}
        rows = await PROCEDURES[request["procedure"]](await open_version(options), **present)
        return {"rows": rows}

    def _options(self, request: Mapping[str, Any], uri: str) -> SparkWriteOptions:
        kind: type[AlanceSource] = cloudpickle.loads(request["source"])
        return SparkWriteOptions(path=uri, storage=kind.defaults)

    async def _children(self, request: Mapping[str, Any], namespace: Sequence[str]) -> list[str]:
        folder = folder_of(request, namespace)
        names = await list_folders(folder, **access(self._options(request, folder)))
        return [name for name in names if not name.endswith(FOLDER_SUFFIX) and name[0] not in "._"]

    async def _has_namespace(self, request: Mapping[str, Any], namespace: Sequence[str]) -> bool:
        if not namespace:
            return True
        return namespace[-1] in await self._children(request, namespace[:-1])


def named_uri(table: str, warehouses: Mapping[str, str | None], default: str) -> str:
    """Return the URI of a table named by its path, its URI or its SQL name.

    Args:
        warehouses: folders of tables, by catalog name.
        default: catalog for names without a catalog.

    Raises:
        InvalidInputError: a catalog without a warehouse, or a name that is not valid for a folder.
    """
    if "/" in table and "`" not in table:
        return table
    parts = [quoted.replace("``", "`") or plain for quoted, plain in _NAME_PART.findall(table)]
    if not parts:
        raise InvalidInputError(f"table {table!r}: expected a path, a URI or a name")
    if "/" in parts[-1]:
        return str(parts[-1])
    catalog = parts.pop(0) if len(parts) > 1 and parts[0] in warehouses else default
    where = {"warehouse": warehouses.get(catalog), "catalog": catalog}
    return uri_of(where, parts[:-1], parts[-1])


def uri_of(request: Mapping[str, Any], namespace: Sequence[str], name: str) -> str:
    """Return the URI of a table by its name.

    Raises:
        InvalidInputError: a name that is not valid for a folder, or a catalog without a warehouse.
    """
    if not namespace and "/" in name:
        return name
    return f"{folder_of(request, namespace)}/{_checked(name)}{FOLDER_SUFFIX}"


def folder_of(request: Mapping[str, Any], namespace: Sequence[str]) -> str:
    """Return the folder that contains the tables of a namespace.

    Raises:
        InvalidInputError: a name that is not valid for a folder, or a catalog without a warehouse.
    """
    warehouse = request["warehouse"]
    if warehouse is None:
        raise InvalidInputError(
            f"catalog {request['catalog']!r} has no folder of tables: "
            "alance.spark.register(spark, warehouse=uri); or name a table by its path, "
            f"{request['catalog']}.`/path/of/table`"
        )
    return "/".join([warehouse.rstrip("/"), *map(_checked, namespace)])


def _placed(properties: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Check that properties of a namespace say nothing about its place, and return them.

    Raises:
        UnsupportedError: there is a location.
    """
    if "location" in properties:
        raise UnsupportedError("LOCATION: the place of a namespace is its folder in the warehouse")
    return properties


def _as_mark(properties: Mapping[str, str | None]) -> bytes:
    return json.dumps(properties, sort_keys=True).encode() if properties else b""


def _checked(name: str) -> str:
    if not name or name[0] in "._" or "/" in name or "\\" in name or name.endswith(FOLDER_SUFFIX):
        raise InvalidInputError(
            f"name {name!r}: expected one without '/', that does not begin with '.' or '_' nor end "
            f"with {FOLDER_SUFFIX!r}"
        )
    return name
