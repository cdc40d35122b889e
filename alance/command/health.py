"""Command `health`: the state on which maintenance decides, of a table or of a whole catalog."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import alance
from alance import InvalidInputError
from alance.command.arguments import add, add_reclaimable, add_version, opened
from alance.command.catalogs import each_table, names_below, table_or_catalog
from alance.command.output import Lines, OutputFacts, OutputRows, Size

if TYPE_CHECKING:
    import argparse

    from alance import Catalog, Dataset
    from alance.command.arguments import Parsers
    from alance.types import MaintenanceStep, TableHealth

TABLES_AT_ONCE: Final = 8  # tables of a catalog that are looked at concurrently
COLUMNS: Final = (
    "table",
    "due",
    "rows",
    "bytes",
    "deleted_share",
    "small_fragments",
    "unindexed_rows",
    "versions",
    "last_run",
)


@dataclass(frozen=True, slots=True)
class _State:
    """State of a table of a catalog.

    Attributes:
        health: None if the table cannot be read.
        steps: the steps of maintenance that are due.
        error: text of the error; None if the table can be read.
    """

    name: str
    health: TableHealth | None
    steps: tuple[MaintenanceStep, ...] = ()
    error: str | None = None

    @property
    def rank(self) -> tuple[bool, int, int, str]:
        """Key of the order from the worst table to the best: unreadable tables, then by steps."""
        num_bytes = sum(step.num_bytes for step in self.steps)
        return self.error is None, -len(self.steps), -num_bytes, self.name


def add_to(parsers: Parsers) -> None:
    """Add the subcommand of this module."""
    parser = add(
        parsers,
        "health",
        health,
        "small files, deleted rows, rows that indices lack: of a table, or of all tables of a "
        "catalog, the worst first",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit status 2 if maintenance is due, by the policy of each table",
    )
    add_version(parser)
    add_reclaimable(parser)


async def health(args: argparse.Namespace) -> OutputFacts | OutputRows:
    """Show the state of a table, or of each table of a catalog."""
    is_latest = args.version is None and args.branch is None
    if args.check and not is_latest:
        raise InvalidInputError("--check is of the latest version: omit --version and --branch")
    tables = await (table_or_catalog(args) if is_latest else opened(args))
    if isinstance(tables, alance.Catalog):
        return await _of_catalog(tables, args)
    state, steps = await _state(tables, reclaimable=args.reclaimable, check=args.check)
    facts = _facts(state, as_json=args.json)
    if args.check:
        args.status = 2 if steps else 0
        facts["due"] = _due(steps, as_json=args.json)
    return OutputFacts(facts)


async def _state(
    dataset: Dataset, *, reclaimable: bool, check: bool
) -> tuple[TableHealth, tuple[MaintenanceStep, ...]]:
    """Return the state of a table, and with `check` the due steps of its latest version."""
    if not check:
        return await dataset.health(reclaimable=reclaimable), ()
    report = await dataset.maintain(dry_run=True)
    state = await dataset.health(reclaimable=True) if reclaimable else report.health
    return state, report.steps


def _facts(state: TableHealth, *, as_json: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {name: getattr(state, name) for name in state.__dataclass_fields__}
    facts["deleted_share"] = state.deleted_share
    if state.num_reclaimable_bytes is None:
        del facts["num_reclaimable_bytes"], facts["num_reclaimable_files"]
    else:
        facts["num_reclaimable_bytes"] = Size(state.num_reclaimable_bytes)
    facts["num_bytes"] = Size(state.num_bytes)
    if as_json:
        facts["indices"] = [asdict(index) for index in state.indices]
        facts["last_run"] = state.last_run and asdict(state.last_run)
        return facts
    facts["indices"] = [
        f"{index.name} ({index.index_type}): {index.num_segments} segments, "
        f"{index.num_unindexed_rows:,} rows not indexed"
        for index in state.indices
    ]
    run = state.last_run
    facts["last_run"] = run and f"{run.finished_at:%Y-%m-%d %H:%M:%S} UTC by {run.holder}"
    return facts


def _due(steps: tuple[MaintenanceStep, ...], *, as_json: bool) -> Any:
    if as_json:
        return [{"kind": step.kind, "target": step.target, "reason": step.reason} for step in steps]
    return Lines(
        [f"{step.kind} {step.target or ''}".rstrip() + f": {step.reason}" for step in steps]
    )


async def _of_catalog(catalog: Catalog, args: argparse.Namespace) -> OutputRows:
    """Show all tables, from the worst to the best.

    The exit status is 1 if a table cannot be read, and with `--check` 2 if maintenance is due.
    """

    async def look(name: tuple[str, ...]) -> _State:
        text = "/".join(name)
        try:
            dataset = await catalog.open_table(name)
            state = await _state(dataset, reclaimable=args.reclaimable, check=True)
        except alance.AlanceError as error:
            return _State(text, None, error=str(error))
        return _State(text, *state)

    states = await each_table(look, await names_below(catalog), TABLES_AT_ONCE)
    states.sort(key=lambda state: state.rank)
    if any(state.error is not None for state in states):
        args.status = 1
    elif args.check and any(state.steps for state in states):
        args.status = 2
    if args.json:
        return OutputRows([_values(state) for state in states])
    columns = [*COLUMNS, *["reclaimable"] * args.reclaimable]
    right = frozenset(COLUMNS) - {"table", "due", "last_run"} | {"reclaimable"}
    return OutputRows([_row(state) for state in states], columns, right=right)


def _values(state: _State) -> dict[str, Any]:
    if state.health is None:
        return {"table": state.name, "error": state.error}
    due = _due(state.steps, as_json=True)
    return {"table": state.name, "due": due, **_facts(state.health, as_json=True)}


def _row(state: _State) -> dict[str, Any]:
    if (health := state.health) is None:
        return {"table": state.name, "due": f"error: {state.error}"}
    return {
        "table": state.name,
        "due": _due(state.steps, as_json=False) if state.steps else None,
        "rows": health.num_rows,
        "bytes": Size(health.num_bytes),
        "deleted_share": health.deleted_share,
        "small_fragments": health.num_small_fragments,
        "unindexed_rows": sum(index.num_unindexed_rows for index in health.indices),
        "versions": health.num_versions,
        "last_run": health.last_run and f"{health.last_run.finished_at:%Y-%m-%d %H:%M:%S}",
        "reclaimable": health.num_reclaimable_bytes and Size(health.num_reclaimable_bytes),
    }
