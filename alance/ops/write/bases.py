"""Base paths of new and existing tables, and the choice of base paths for new files.

A data file of a base path is in its folder `data/`, or directly in the base path if that is not a
dataset's folder. New deletion files, indices and manifests are always in the table's own folder;
a clone also reads the deletion files and indices of its source, whose folder is a base path.

Source: docs/format/table.md, "Base paths".
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError
from alance.format.proto import table_pb2
from alance.format.table.fragment import DatasetBasePath
from alance.format.table.naming import VERSIONS
from alance.format.table.operations import UpdateBases
from alance.io.loop.tasks import all_of
from alance.io.stores.store import without_number
from alance.io.stores.uri import parse_uri
from alance.ops.version.commits import PreparedChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.format.table.manifest import Manifest
    from alance.io.reading.engine import Engine
    from alance.io.stores.uri import Address
    from alance.ops.version.options import BaseOptions, CommitOptions
    from alance.ops.version.snapshot import Snapshot
    from alance.versioning.table import Table

OWN: Final = None  # target of new files: the table's own folder


async def add_bases(
    snapshot: Snapshot, new_bases: Iterable[DatasetBasePath], options: CommitOptions
) -> Snapshot:
    """Add base paths to a table. Cost: a commit.

    Raises:
        InvalidInputError: there are no base paths, or one is invalid or has an existing name, path
            or id.
        CommitConflictError: a concurrent commit added the same name, path or id.
    """
    bases = checked(new_bases, snapshot.table)
    if not bases:
        raise InvalidInputError("add_bases: expected a base path")
    change = UpdateBases(tuple(map(message_of, bases)))
    return await PreparedChange(snapshot, change, options).commit()


def registered(
    options: BaseOptions, table: Table, base: Manifest | None
) -> Mapping[int, DatasetBasePath]:
    """Return the base paths that a table has after a write.

    Raises:
        InvalidInputError: new base paths for an existing table, or invalid base paths.
    """
    if base is not None:
        if options.initial_bases:
            raise InvalidInputError(
                f"initial_bases: dataset {table.uri!r} exists; expected a new one, or add_bases"
            )
        return base.base_paths
    bases: dict[int, DatasetBasePath] = {}
    for new in checked(options.initial_bases, table):
        base_id = new.id or max(bases, default=0) + 1
        for other in bases.values():
            is_name_taken = new.name is not None and new.name == other.name
            if is_name_taken or base_id == other.id or new.path == other.path:
                raise InvalidInputError(
                    f"initial_bases: {new} and {other} have the same id, name or path"
                )
        bases[base_id] = replace(new, id=base_id)
    return bases


async def places_of(
    options: BaseOptions, engine: Engine, table: Table, bases: Mapping[int, DatasetBasePath]
) -> Sequence[DatasetBasePath | None]:
    """Return the targets of new data files, to be used in turn; None is the table's own folder.

    Cost: a LIST for each target that is the folder of a dataset, all in one round; else none.

    Raises:
        InvalidInputError: a target is not a base path, or is another table's folder.
        AccessError: a target is outside the scope of the table's credentials.
    """
    if options.target_all_bases is not None:
        places = [bases[base_id] for base_id in sorted(bases)]
        if not places and not options.target_all_bases:
            raise InvalidInputError("target_all_bases=False: there are no base paths")
        chosen = [OWN, *places] if options.target_all_bases else places
    elif options.target_bases is None:
        return [OWN]
    else:
        chosen = [_named(reference, table, bases) for reference in options.target_bases]
    once = {base.id: base for base in chosen if base is not None}
    await all_of(_check_is_free(engine, table, base) for base in once.values())
    return chosen


def checked(bases: Iterable[DatasetBasePath], table: Table) -> list[DatasetBasePath]:
    """Check base paths for the manifest of a table, and return them; local ones become absolute.

    Raises:
        InvalidInputError: `bases` is not a list of base paths, or a base path has an empty name, or
            a path of no known kind or within the table's folder.
    """
    if isinstance(bases, DatasetBasePath | str | bytes):
        raise InvalidInputError("base paths: expected a list of DatasetBasePath")
    own_root = without_number(table.store.root)
    ready = []
    for base in bases:
        if not isinstance(base, DatasetBasePath):
            raise InvalidInputError(f"base path {base!r}: expected a DatasetBasePath")
        if base.name == "":
            raise InvalidInputError(f"base path {base.path!r}: its name is empty; expected None")
        address = parse_uri(base.path)
        if address.root == own_root and f"{address.path}/".startswith(f"{table.path}/"):
            raise InvalidInputError(
                f"base path {base.path!r}: is within the folder of dataset {table.uri!r}"
            )
        path = base.path if "://" in base.path else f"/{address.path}"
        ready.append(replace(base, path=path))
    return ready


def message_of(base: DatasetBasePath) -> table_pb2.BasePath:
    """Return a base path as a message of manifests and transactions."""
    message = table_pb2.BasePath(id=base.id, path=base.path, is_dataset_root=base.is_dataset_root)
    if base.name is not None:
        message.name = base.name
    return message


def _named(
    reference: str, table: Table, bases: Mapping[int, DatasetBasePath]
) -> DatasetBasePath | None:
    if reference == table.uri:
        return OWN
    for base in bases.values():
        if reference in (base.name, base.path):
            return base
    place = _address(reference)
    for base in bases.values():
        if place is not None and _address(base.path) == place:
            return base
    if place is not None and place == _address(table.uri):
        return OWN
    names = ", ".join(repr(base.name or base.path) for base in bases.values()) or "none"
    raise InvalidInputError(
        f"target base {reference!r}: dataset {table.uri!r} has no such base path; it has {names}"
    )


def _address(path: str) -> Address | None:
    try:
        return parse_uri(path)
    except InvalidInputError:  # a name, not a path
        return None


async def _check_is_free(engine: Engine, table: Table, base: DatasetBasePath) -> None:
    """Check that no other table's cleanup would remove files written to a base path.

    Raises:
        InvalidInputError: the base path is the folder of another table.
    """
    folder = table.folder_of(base)
    if not base.is_dataset_root:
        return
    entries = engine.scheduler.list(f"{folder}/{VERSIONS}", reason="bases")
    async with aclosing(entries):  # type: ignore[type-var]  # a generator
        async for _ in entries:
            raise InvalidInputError(
                f"target base {base.path!r}: is the folder of another table, whose cleanup would "
                f"remove new files; expected a folder of its own"
            )
