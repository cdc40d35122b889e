"""Commands for versions: `versions`, `diff`, `tail`, `tags`, `branches`, `files`, ..."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from alance import InvalidInputError
from alance.command.arguments import add, add_rows, add_version, confirm, opened, pair, version
from alance.command.output import OutputFacts, OutputRows, Size, Text, as_json
from alance.serve.json_rows import json_rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

    import pyarrow as pa

    from alance import Dataset
    from alance.command.arguments import Parsers


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    parser = add(parsers, "versions", versions, "all versions that are still there")
    parser.add_argument("--branch", help="of this branch; default: main")
    parser = add(parsers, "diff", diff, "what changed from one version to another")
    parser.add_argument("begin", type=version, help="the older version: a number or a tag")
    parser.add_argument(
        "version", type=version, nargs="?", metavar="end", help="the newer one; default: the latest"
    )
    parser.add_argument("--branch", help="versions of this branch; default: main, or that of a tag")
    parser = add(
        parsers, "tail", tail, "rows that versions insert, update and delete, as they come"
    )
    parser.add_argument(
        "--since",
        metavar="VERSION|TOKEN|snapshot",
        help="begin after a version, behind a token, or with all rows; default: the latest version",
    )
    parser.add_argument("--before", action="store_true", help="also print rows as they were")
    parser.add_argument("--no-wait", action="store_true", help="end at the latest version")
    parser.add_argument("--branch", help="versions of this branch; default: main")
    add_rows(parser)
    parser = add(parsers, "restore", restore, "make an older version the newest one")
    parser.add_argument("version", type=version, help="a number or a tag")
    for name, run, verbs in (
        ("tags", tags, "list, make, move or delete"),
        ("branches", branches, "list, make or delete"),
    ):
        parser = add(parsers, name, run, f"{verbs} {name}")
        parser.add_argument("--create", metavar="NAME", help="make one of the version --at")
        parser.add_argument("--delete", metavar="NAME", help="delete one")
        parser.add_argument("--at", type=version, help="a version or tag; default: the latest")
        if name == "tags":
            parser.add_argument("--move", metavar="NAME", help="move a tag to the version --at")
        else:
            parser.add_argument("--yes", action="store_true", help="delete without a question")
    parser = add(parsers, "fragments", fragments, "the fragments: rows, deletions, files")
    add_version(parser)
    parser = add(parsers, "files", files, "the data files: fields, rows, bytes")
    add_version(parser)
    parser = add(parsers, "config", config, "show or change the table's configuration")
    parser.add_argument("--set", action="append", type=pair, metavar="KEY=VALUE")
    parser.add_argument("--unset", action="append", metavar="KEY")


async def versions(args: argparse.Namespace) -> OutputRows:
    """List all versions of a branch."""
    dataset = await opened(args)
    rows = [
        {"version": info.version, "committed": info.timestamp, **_totals(info.metadata)}
        for info in await dataset.versions()
    ]
    return OutputRows(rows, right=frozenset(rows[0]) - {"committed"} if rows else frozenset())


def _totals(metadata: Any) -> dict[str, int]:
    """Return the totals of a version, by short names."""
    short = {
        "rows": "total_rows",
        "deleted_rows": "total_deletion_file_rows",
        "fragments": "total_fragments",
        "data_files": "total_data_files",
        "bytes": "total_files_size",
    }
    return {
        name: (Size if name == "bytes" else int)(metadata[key])
        for name, key in short.items()
        if key in metadata
    }


async def diff(args: argparse.Namespace) -> OutputFacts:
    """Show the operations between two versions; with stable row ids, also the changed rows."""
    dataset = await opened(args)
    delta = dataset.delta(await _number(dataset, args.begin))
    done = await delta.list_transactions()
    numbers = range(delta.begin_version + 1, delta.end_version + 1)
    facts: dict[str, Any] = {
        "begin_version": delta.begin_version,
        "end_version": delta.end_version,
        "operations": [
            f"{number}: {'unknown' if change is None else change.operation}"
            for number, change in zip(numbers, done, strict=True)
        ],
    }
    if dataset.has_stable_row_ids:
        facts["inserted_rows"] = await _count(delta.get_inserted_rows([]))
        facts["updated_rows"] = await _count(delta.get_updated_rows([]))
    return OutputFacts(facts)


async def tail(args: argparse.Namespace) -> None:
    """Print changes as JSON lines: one per row, and one for each change without rows."""
    dataset = await opened(args)
    since = args.since
    changes = dataset.follow(
        int(since) if since is not None and since.isdecimal() else since,
        columns=args.columns,
        filter=args.filter,
        before=args.before,
        wait=not args.no_wait,
    )
    async with aclosing(changes) as stream:
        async for change in stream:
            head = {"version": change.version, "kind": change.kind, "token": change.token}
            if change.rows is None:
                print(as_json(head))
            else:
                before = json_rows(change.before) if change.before is not None else None
                for number, row in enumerate(json_rows(change.rows)):
                    line = head | {"row": row}
                    if before is not None:
                        line["before"] = before[number]
                    print(as_json(line))
            sys.stdout.flush()


async def _number(dataset: Dataset, reference: int | str) -> int:
    """Return the number of a version or of a tag of the dataset's branch.

    Raises:
        InvalidInputError: the tag is on another branch.
    """
    if isinstance(reference, int):
        return reference
    tag = await dataset.tags.get(reference)
    if tag.branch != dataset.branch:
        raise InvalidInputError(
            f"tag {reference!r} is on branch {tag.branch or 'main'!r}, expected one of branch "
            f"{dataset.branch or 'main'!r}"
        )
    return tag.version


async def _count(batches: AsyncIterator[pa.RecordBatch]) -> int:
    async with aclosing(batches) as rows:  # type: ignore[type-var]
        return sum([batch.num_rows async for batch in rows])


async def restore(args: argparse.Namespace) -> Text:
    """Restore an older version as a new version."""
    number, args.version = args.version, None
    dataset = await (await opened(args)).restore(number)
    return Text(f"version {dataset.version} restores {number}", {"version": dataset.version})


async def tags(args: argparse.Namespace) -> OutputRows:
    """Change tags, then list them."""
    dataset = await opened(args)
    if args.create:
        await dataset.tags.create(args.create, args.at)
    if args.move:
        if args.at is None:
            raise InvalidInputError(f"--move {args.move}: expected --at with a version")
        await dataset.tags.update(args.move, args.at)
    if args.delete:
        await dataset.tags.delete(args.delete)
    rows = [
        {"tag": name, "version": tag.version, "branch": tag.branch, "created": tag.created_at}
        for name, tag in (await dataset.tags.list()).items()
    ]
    return OutputRows(rows, ("tag", "version", "branch", "created"), right=frozenset({"version"}))


async def branches(args: argparse.Namespace) -> OutputRows:
    """Change branches, then list them."""
    dataset = await opened(args)
    if args.create:
        await dataset.create_branch(args.create, args.at)
    if args.delete:
        confirm(args, f"delete branch {args.delete} with all its versions")
        await dataset.branches.delete(args.delete)
    rows = [
        {
            "branch": name,
            "parent": branch.parent_branch or "main",
            "parent_version": branch.parent_version,
            "created": branch.created_at,
        }
        for name, branch in (await dataset.branches.list()).items()
    ]
    names = ("branch", "parent", "parent_version", "created")
    return OutputRows(rows, names, right=frozenset({"parent_version"}))


async def fragments(args: argparse.Namespace) -> OutputRows:
    """List fragments."""
    dataset = await opened(args)
    rows = [
        {
            "fragment": fragment.fragment_id,
            "physical_rows": record.physical_rows,
            "deleted_rows": 0
            if record.deletion_file is None
            else record.deletion_file.num_deleted_rows or None,
            "files": len(record.files),
            "bytes": Size(sum(file.num_bytes for file in record.files)),
        }
        for fragment in dataset.fragments
        for record in [fragment.metadata]
    ]
    names = ("fragment", "physical_rows", "deleted_rows", "files", "bytes")
    return OutputRows(rows, names, right=frozenset(names))


async def files(args: argparse.Namespace) -> OutputRows:
    """List data files."""
    dataset = await opened(args)
    paths = {field.id: field.name for root in dataset.fields for field in root.walk()}
    rows = [
        {
            "fragment": fragment.fragment_id,
            "path": file.path,
            "version": file.version.value,
            "bytes": Size(file.num_bytes) if file.num_bytes else None,
            "fields": [paths.get(field, f"dropped {field}") for field in file.columns],
        }
        for fragment in dataset.fragments
        for file in fragment.metadata.files
    ]
    names = ("fragment", "path", "version", "bytes", "fields")
    return OutputRows(rows, names, right=frozenset({"fragment", "bytes"}))


async def config(args: argparse.Namespace) -> OutputFacts:
    """Change the configuration, then show it."""
    dataset = await opened(args)
    if args.set:
        dataset = await dataset.update_config(dict(args.set))
    if args.unset:
        dataset = await dataset.delete_config_keys(args.unset)
    return OutputFacts(dict(sorted(dataset.config.items())))
