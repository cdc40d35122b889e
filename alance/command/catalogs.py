"""Commands on catalogs: `ls`, `namespaces`, `drop`, `rename`, `register`, `deregister`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import alance
from alance import InvalidInputError
from alance.command.arguments import (
    add,
    add_confirmation,
    add_header,
    confirm,
    connected,
    opened,
    pair,
    storage,
    table_name,
)
from alance.command.output import OutputFacts, OutputRows, Size
from alance.distributed import move_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterable

    from alance import Catalog, Dataset
    from alance.command.arguments import Parsers

R = TypeVar("R")

# URIs of catalogs that name no folder, so that no table is looked for there.
SERVERS: Final = ("http://", "https://", "glue://", "unity://", "unity+http://")


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    parser = add(
        parsers, "ls", ls, "the tables of a folder or of a catalog server", in_catalog=False
    )
    add_header(parser)
    parser.add_argument("namespace", nargs="?", help="such as shop or shop/eu; default: the root")
    parser.add_argument("--all", action="store_true", help="also the tables of namespaces below")
    parser.add_argument("--long", action="store_true", help="open each table: version, rows, bytes")
    parser = add(
        parsers,
        "namespaces",
        namespaces,
        "list, make, change or delete the namespaces of a catalog",
        in_catalog=False,
    )
    add_header(parser)
    parser.add_argument("--create", metavar="NAME", help="make one, such as shop or shop/eu")
    parser.add_argument("--delete", metavar="NAME", help="delete one that is empty")
    parser.add_argument("--change", metavar="NAME", help="change properties of one in a folder")
    parser.add_argument(
        "--set",
        action="append",
        type=pair,
        metavar="KEY=VALUE",
        help="a property, with --create or --change; may be repeated",
    )
    parser.add_argument(
        "--unset", action="append", metavar="KEY", help="a property to remove, with --change"
    )
    parser.add_argument("--long", action="store_true", help="show the properties of each")
    parser = add(parsers, "drop", drop, "delete a table with all its versions")
    add_confirmation(parser, what="only show what would be deleted")
    parser = add(parsers, "rename", rename, "rename a table, or move it to another namespace")
    parser.add_argument("new", help="the new name with --in, else the new path or URI")
    parser = add(parsers, "register", register, "give a name in a catalog to a table")
    parser.add_argument(
        "location", help="the table's folder; a relative path begins at the catalog"
    )
    add(parsers, "deregister", deregister, "remove a name from a catalog, and keep the data")


async def ls(args: argparse.Namespace) -> OutputRows:
    """List tables and namespaces."""
    namespace = table_name(args.namespace) if args.namespace else ()
    catalog = await connected(args, args.uri)
    tables = [(*namespace, name) for name in await catalog.list_tables(namespace)]
    below = [(*namespace, name) for name in await catalog.list_namespaces(namespace)]
    if not tables and not below and not namespace:
        await _check_catalog(args)
    if args.all:
        names = [name for inner in below for name in await names_below(catalog, inner)]
        rows = [{"table": "/".join(name)} for name in [*tables, *names]]
    else:
        rows = [{"table": "/".join(name) + "/"} for name in below]
        rows += [{"table": "/".join(name)} for name in tables]
    if not args.long:
        return OutputRows(rows, ("table",))
    rows = [row | await _state(catalog, row["table"]) for row in rows]
    numbers = ("version", "rows", "bytes")
    notes = ("note",) if any("note" in row for row in rows) else ()
    return OutputRows(rows, ("table", *numbers, *notes), right=frozenset(numbers))


async def namespaces(args: argparse.Namespace) -> OutputRows:
    """Change namespaces, then list all of them."""
    properties = dict(args.set or ())
    if (properties and not (args.create or args.change)) or (args.unset and not args.change):
        raise InvalidInputError("--set, --unset: of which namespace? Add --change NAME")
    catalog = await connected(args, args.uri)
    if args.create:
        await catalog.create_namespace(table_name(args.create), properties=properties)
    if args.change:
        changes = properties | dict.fromkeys(args.unset or ())
        await catalog.update_namespace(table_name(args.change), changes)
    if args.delete:
        await catalog.drop_namespace(table_name(args.delete))
    listed = await _namespaces_below(catalog)
    rows: list[dict[str, Any]] = [{"namespace": "/".join(name)} for name in listed]
    if not args.long:
        return OutputRows(rows, ("namespace",))
    for row, name in zip(rows, listed, strict=True):
        row["properties"] = await catalog.describe_namespace(name)
    return OutputRows(rows, ("namespace", "properties"))


async def _namespaces_below(
    catalog: Catalog, parent: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = []
    for name in await catalog.list_namespaces(parent):
        names += [(*parent, name), *await _namespaces_below(catalog, (*parent, name))]
    return names


async def _check_catalog(args: argparse.Namespace) -> None:
    """Check that a place without tables can be a catalog.

    Raises:
        InvalidInputError: the place is a table, or does not exist.
    """
    if args.uri.startswith(SERVERS):
        return
    if "://" not in args.uri and not _is_folder(args.uri):
        raise InvalidInputError(f"{args.uri}: expected a folder of tables, or a catalog's URI")
    try:
        await alance.dataset(args.uri, storage_options=storage(args))
    except alance.AlanceError:
        return
    raise InvalidInputError(f"{args.uri}: is a table; show it by `alance info {args.uri}`")


def _is_folder(path: str) -> bool:
    return Path(path).is_dir()


async def _state(catalog: Catalog, name: str) -> dict[str, Any]:
    """Return version, rows and bytes of a table, or a note why there are none."""
    if name.endswith("/"):
        return {"note": "namespace"}
    try:
        dataset = await catalog.open_table(table_name(name))
        stats = await dataset.stats()
    except alance.TableNotFoundError:
        return {"note": "declared, not written"}
    except alance.AlanceError as error:
        return {"note": str(error)}
    return {"version": dataset.version, "rows": stats.num_rows, "bytes": Size(stats.num_bytes)}


async def names_below(catalog: Catalog, namespace: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the names of all written tables in a namespace and in those below it."""
    names = []
    for place in [namespace, *await _namespaces_below(catalog, namespace)]:
        tables = await catalog.list_tables(place, include_declared=False)
        names += [(*place, table) for table in tables]
    return names


async def each_table(
    work: Callable[[tuple[str, ...]], Awaitable[R]], names: Iterable[tuple[str, ...]], at_once: int
) -> list[R]:
    """Return the results of `work` for tables by name, in order, with up to `at_once` under way."""
    turns = asyncio.Semaphore(at_once)

    async def limited(name: tuple[str, ...]) -> R:
        async with turns:
            return await work(name)

    return await asyncio.gather(*map(limited, names))


async def table_or_catalog(args: argparse.Namespace) -> Catalog | Dataset:
    """Open the table at the URI, or the catalog if there is no table.

    Raises:
        TableNotFoundError: there is neither a table nor a catalog.
    """
    if args.catalog is not None:  # the URI is the name of a table
        return await opened(args)
    if args.uri.startswith(SERVERS):
        return await connected(args, args.uri)
    try:
        return await opened(args)
    except alance.TableNotFoundError:
        catalog = await connected(args, args.uri)
        if not await names_below(catalog):
            raise
        return catalog


async def drop(args: argparse.Namespace) -> OutputFacts:
    """Delete a table; show it with `--dry-run`."""
    facts: dict[str, Any] = {"uri": args.uri}
    catalog = None if args.catalog is None else await connected(args, args.catalog)
    try:
        dataset = await opened(args)
        stats = await dataset.stats()
        size = Size(stats.num_bytes)
        facts |= {"uri": dataset.uri, "version": dataset.version}
        facts |= {"rows": stats.num_rows, "data_bytes": size}
    except alance.TableNotFoundError:
        if catalog is None:
            raise
        await catalog.place(table_name(args.uri))
        facts["note"] = "declared, not written"
    if args.dry_run:
        return OutputFacts({"dropped": False, **facts})
    confirm(args, f"drop {args.uri} with all its versions ({facts.get('rows', 0)} rows)")
    if catalog is None:
        await alance.drop(args.uri, storage_options=storage(args))
    else:
        await catalog.drop_table(table_name(args.uri))
    return OutputFacts({"dropped": True, **facts})


async def rename(args: argparse.Namespace) -> OutputFacts:
    """Rename a table in its catalog, or move the folder of a table."""
    if args.catalog is None:
        await move_table(args.uri, args.new, storage_options=storage(args))
    else:
        catalog = await connected(args, args.catalog)
        await catalog.rename_table(table_name(args.uri), table_name(args.new))
    return OutputFacts({"renamed": args.uri, "to": args.new})


async def register(args: argparse.Namespace) -> OutputFacts:
    """Give a name in a catalog to a table that is already written."""
    catalog = await _named_catalog(args, f"alance register NAME {args.location} --in FOLDER")
    await catalog.register_table(table_name(args.uri), args.location)
    return OutputFacts({"registered": args.uri, "location": args.location})


async def deregister(args: argparse.Namespace) -> OutputFacts:
    """Remove a name from its catalog; its table stays."""
    catalog = await _named_catalog(args, "alance deregister NAME --in FOLDER")
    location = await catalog.deregister_table(table_name(args.uri))
    return OutputFacts({"deregistered": args.uri, "location": location})


async def _named_catalog(args: argparse.Namespace, usage: str) -> Catalog:
    """Open the catalog of `--in`.

    Raises:
        InvalidInputError: there is no `--in`.
    """
    if args.catalog is None:
        raise InvalidInputError(f"a name is of a catalog: {usage}")
    return await connected(args, args.catalog)
