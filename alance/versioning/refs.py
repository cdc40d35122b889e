"""Reading of the tags and branches of a table."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from alance.base.checks import did_you_mean
from alance.errors import AlanceError, BucketNotFoundError, InvalidInputError, NotFoundError
from alance.format.table.refs import (
    MAIN,
    BranchContents,
    TagContents,
    check_branch_name,
    check_tag_name,
    parse_branch,
    parse_ref_file_name,
    parse_tag,
)
from alance.io.loop.tasks import all_of
from alance.versioning.load import read_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.io.reading.engine import Engine
    from alance.versioning.table import Table

R = TypeVar("R", TagContents, BranchContents)


async def list_tags(engine: Engine, table: Table) -> dict[str, TagContents]:
    """Return all tags by name, sorted. Cost: one LIST, then all GETs concurrently."""
    return await _read_all(engine, table.tags_folder, parse_tag, "tag")


async def list_branches(engine: Engine, table: Table) -> dict[str, BranchContents]:
    """Return all branches except main by name, sorted.

    Cost: one LIST, then all GETs concurrently.
    """
    return await _read_all(engine, table.branches_folder, parse_branch, "branch")


async def load_tag(engine: Engine, table: Table, name: str) -> TagContents:
    """Read a tag. Cost: one GET, and one LIST if there is no such tag.

    Raises:
        NotFoundError: there is no such tag.
        InvalidInputError: the name is not text.
        CorruptFileError: the JSON is invalid.
    """
    location = table.tag(_checked(table, name, check_tag_name, "tag"))
    return parse_tag(await read_record(engine, table, location, "tag", name), location)


async def load_branch(engine: Engine, table: Table, name: str) -> BranchContents | None:
    """Read a branch; None for main. Cost: one GET, and one LIST if there is none; none for main.

    Raises:
        NotFoundError: there is no such branch.
        InvalidInputError: the name is not text.
        CorruptFileError: the JSON is invalid.
    """
    if name == MAIN:
        return None
    location = table.branch_record(_checked(table, name, check_branch_name, "branch"))
    return parse_branch(await read_record(engine, table, location, "branch", name), location)


async def read_record(
    engine: Engine, table: Table, location: str, kind: str, name: str
) -> memoryview:
    """Read the record of a tag or branch. Cost: one GET, and one LIST if there is none.

    Raises:
        NotFoundError: there is no such tag or branch.
    """
    try:
        return await read_object(engine, location, None, kind)
    except BucketNotFoundError:
        raise
    except NotFoundError as error:
        is_number = kind == "tag" and name.isdecimal()
        hint = f"; the number of a version is an int: version={name}" * is_number
        hint = hint or did_you_mean(name, await _names_beside(engine, location))
        raise table.lacks(name, f"no {kind} {name!r}{hint}") from error


async def _names_beside(engine: Engine, location: str) -> list[str]:
    """Return the names of the tags or branches beside a missing one; empty if the LIST fails."""
    folder = location.rpartition("/")[0]
    try:
        _, files = await engine.scheduler.list_level(folder, reason="similar names")
    except AlanceError:
        return []
    names = (parse_ref_file_name(path[len(folder) + 1 :]) for path in files)
    return [name for name in names if name is not None]


def _checked(table: Table, name: str, check: Callable[[str], str], what: str) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(f"{what} {name!r}: expected a name")
    try:
        return check(name)
    except InvalidInputError as error:
        raise table.lacks(name, f"no {what} {name!r}, and there can be none: {error}") from error


async def _read_all(
    engine: Engine, folder: str, parse: Callable[[memoryview, str], R], reason: str
) -> dict[str, R]:
    sizes: dict[str, int] = {}
    try:
        listing = engine.scheduler.list(folder, reason=reason)
        async with aclosing(listing) as entries:  # type: ignore[type-var]  # a generator
            async for entry in entries:
                if parse_ref_file_name(entry.path[len(folder) + 1 :]) is not None:
                    sizes[entry.path] = entry.num_bytes
    except NotFoundError:
        return {}

    async def read(location: str, num_bytes: int) -> tuple[str, R] | None:
        name = parse_ref_file_name(location[len(folder) + 1 :])
        assert name is not None
        try:
            content = await read_object(engine, location, num_bytes, reason)
        except NotFoundError:
            return None  # deleted meanwhile
        return name, parse(content, location)

    refs = await all_of(read(*size) for size in sizes.items())
    return dict(sorted(ref for ref in refs if ref is not None))
