"""Procedures of `CALL catalog.system.NAME(...)`: table maintenance in the driver's Python.

Each returns rows. Large work runs on the executors by `alance.spark.jobs`.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from alance import InvalidInputError, MaintenancePolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from alance import Dataset

OF_VECTORS: Final = "IVF_"  # prefix of vector index types


async def compact(dataset: Dataset, *, target_rows_per_fragment: int | None = None) -> list[Any]:
    """Rewrite small fragments, and fragments with many deleted rows."""
    options: Any = {}
    if target_rows_per_fragment is not None:
        options["target_rows_per_fragment"] = target_rows_per_fragment
    after = await dataset.optimize.compact_files(**options)
    counts = after.summary
    return [
        [
            after.version,
            int(counts.get("fragments_removed", 0)),
            int(counts.get("fragments_added", 0)),
        ]
    ]


async def cleanup(
    dataset: Dataset, *, older_than_days: float | None = None, retain_versions: int | None = None
) -> list[Any]:
    """Remove old versions and the files that no version needs."""
    age = None if older_than_days is None else timedelta(days=older_than_days)
    stats = await dataset.cleanup_old_versions(age, retain_versions)
    return [[stats.old_versions, stats.bytes_removed]]


async def maintain(dataset: Dataset, *, dry_run: bool = False, **rules: float | str) -> list[Any]:
    """Run the maintenance that is due. Arguments override the table's configuration."""
    policy = MaintenancePolicy.from_config(dataset.config, rules)
    report = await dataset.maintain(policy, dry_run=dry_run)
    return [
        [
            step.kind,
            step.target,
            step.reason,
            step.outcome == "done",
            step.num_bytes,
            step.num_requests,
            step.outcome if step.error is None else f"{step.outcome}: {step.error}",
        ]
        for step in report.steps
    ]


async def create_index(
    dataset: Dataset,
    *,
    column: str,
    index_type: str = "BTREE",
    name: str | None = None,
    metric: str | None = None,
    options: str | None = None,
) -> list[Any]:
    """Create an index of values, vectors or texts on a column; `options` is a JSON object.

    Texts in it that are JSON are parsed, because OPTIONS of CREATE INDEX are texts.
    """
    more = _parsed(options or "{}")
    if not isinstance(more, dict):
        raise InvalidInputError(f"options={options!r}: expected a JSON object")
    more = {key: _parsed(value) if isinstance(value, str) else value for key, value in more.items()}
    kind: Any = index_type.upper()  # alance refuses an unknown one
    by: Any = metric or "l2"
    if kind.startswith(OF_VECTORS):
        after = await dataset.create_index(column, kind, name, by, replace=True, **more)
    else:
        after = await dataset.create_scalar_index(column, kind, name, **more)
    return [[after.version]]


async def drop_index(dataset: Dataset, *, name: str) -> list[Any]:
    """Drop an index."""
    return [[(await dataset.drop_index(name)).version]]


async def indices(dataset: Dataset) -> list[Any]:
    """List the indices of a table, with the number of their segments."""
    segments = dataset.list_indices()
    counts = Counter(segment["name"] for segment in segments)
    by_name = {segment["name"]: segment for segment in segments}
    return [
        [name, index["type"], ", ".join(index["fields"]), counts[name]]
        for name, index in by_name.items()
    ]


async def optimize_indices(dataset: Dataset) -> list[Any]:
    """Extend the indices to rows that they do not cover."""
    return [[(await dataset.optimize.optimize_indices()).version]]


async def restore(dataset: Dataset, *, version: str) -> list[Any]:
    """Make an older version, given by number or tag, the latest one."""
    return [[(await dataset.restore(_version(version))).version]]


async def create_tag(dataset: Dataset, *, tag: str, version: int | None = None) -> list[Any]:
    """Tag a version; by default the latest one."""
    number = dataset.version if version is None else version
    await dataset.tags.create(tag, number)
    return [[number]]


async def delete_tag(dataset: Dataset, *, tag: str) -> list[Any]:
    """Delete a tag."""
    await dataset.tags.delete(tag)
    return [[dataset.version]]


async def create_branch(dataset: Dataset, *, branch: str, version: str | None = None) -> list[Any]:
    """Create a branch from a version; by default from the latest one."""
    base = None if version is None else _version(version)
    begun = await dataset.create_branch(branch, base)
    return [[begun.version]]


async def delete_branch(dataset: Dataset, *, branch: str) -> list[Any]:
    """Delete a branch."""
    await dataset.branches.delete(branch)
    return [[dataset.version]]


async def versions(dataset: Dataset) -> list[Any]:
    """List the versions of a table, oldest first."""
    return [
        [info.version, None if info.timestamp is None else info.timestamp.isoformat()]
        for info in await dataset.versions()
    ]


PROCEDURES: Final[Mapping[str, Callable[..., Awaitable[list[Any]]]]] = {
    procedure.__name__: procedure
    for procedure in (
        compact,
        cleanup,
        maintain,
        create_index,
        drop_index,
        indices,
        optimize_indices,
        restore,
        create_tag,
        delete_tag,
        create_branch,
        delete_branch,
        versions,
    )
}
RESULTS: Final[Mapping[str, str]] = {
    "compact": "version long, fragments_removed long, fragments_added long",
    "cleanup": "old_versions long, bytes_removed long",
    "maintain": "step string, target string, why string, done boolean, bytes long, requests long, "
    "outcome string",
    "indices": "name string, type string, columns string, segments long",
    "versions": "version long, timestamp string",
}
VERSION_COLUMN: Final = "version long"
_SPARK_TYPES: Final = {
    "int": "long",
    "float": "double",
    "str": "string",
    "bool": "boolean",
    "timedelta": "string",
}


def described(name: str) -> dict[str, object]:
    """Describe a procedure for Spark: its parameters and their types, and its result columns."""
    parameters = [{"name": "table", "type": "string", "optional": False}]
    for parameter in list(inspect.signature(PROCEDURES[name]).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            parameters += [
                {"name": rule.name, "type": _type(rule.type), "optional": True}
                for rule in fields(MaintenancePolicy)
            ]
            continue
        is_optional = parameter.default is not parameter.empty
        parameters.append(
            {"name": parameter.name, "type": _type(parameter.annotation), "optional": is_optional}
        )
    return {
        "name": name,
        "description": inspect.getdoc(PROCEDURES[name]),
        "parameters": parameters,
        "result": RESULTS.get(name, VERSION_COLUMN),
    }


def _type(annotation: object) -> str:
    """Return Spark's type of a parameter, from the first type in its Python annotation."""
    return _SPARK_TYPES[str(annotation).partition(" ")[0]]


def _parsed(text: str) -> Any:
    """Parse JSON; other texts are returned as they are."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _version(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
