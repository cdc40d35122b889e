"""Commands for upkeep: `health`, `maintain`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import alance
from alance.command.arguments import add, add_reclaimable, add_version, opened, pair
from alance.command.output import OutputFacts, OutputRows, Text, human_bytes
from alance.command.terminal import escaped
from alance.optimize import parse_duration

if TYPE_CHECKING:
    import argparse
    from datetime import timedelta

    from alance.command.arguments import Parsers
    from alance.types import MaintenanceReport


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    parser = add(parsers, "health", health, "small files, deleted rows, rows that indices lack")
    add_version(parser)
    add_reclaimable(parser)
    parser = add(
        parsers,
        "maintain",
        maintain,
        "do the upkeep that is due: compact, extend indices, expire rows, remove versions",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show what is due, and its cost"
    )
    parser.add_argument(
        "--every", type=parse_duration, metavar="TIME", help="run again and again, such as 1m or 2h"
    )
    parser.add_argument(
        "--rule",
        action="append",
        type=pair,
        metavar="NAME=VALUE",
        help="a rule instead of the table's own, such as min_small_fragments=8; may be repeated",
    )


async def health(args: argparse.Namespace) -> OutputFacts:
    """Show the state of the table by which maintenance decides."""
    state = await (await opened(args)).health(reclaimable=args.reclaimable)
    values = {name: getattr(state, name) for name in state.__dataclass_fields__}
    values["deleted_share"] = state.deleted_share
    if not args.reclaimable:
        del values["num_reclaimable_bytes"], values["num_reclaimable_files"]
    if not args.json:
        values["num_bytes"] = human_bytes(state.num_bytes)
        if state.num_reclaimable_bytes is not None:
            values["num_reclaimable_bytes"] = human_bytes(state.num_reclaimable_bytes)
        values["indices"] = [
            f"{index.name} ({index.index_type}): {index.num_segments} segments, "
            f"{index.num_unindexed_rows:,} rows not indexed"
            for index in state.indices
        ]
        run = state.last_run
        values["last_run"] = run and f"{run.finished_at:%Y-%m-%d %H:%M:%S} UTC by {run.holder}"
    else:
        values["indices"] = [asdict(index) for index in state.indices]
        values["last_run"] = state.last_run and asdict(state.last_run)
    return OutputFacts(values)


async def maintain(args: argparse.Namespace) -> OutputRows | Text | None:
    """Run maintenance once, or periodically until it is interrupted.

    The exit status is 1 if a step failed.
    """
    dataset = await opened(args)
    while True:
        policy = None
        if args.rule:  # rules are added to the table's own, which may change
            dataset = await dataset.checkout_latest()
            rules = {f"alance.maintenance.{name}": value for name, value in args.rule}
            policy = alance.MaintenancePolicy.from_config({**dataset.config, **rules})
        report = await dataset.maintain(policy, dry_run=args.dry_run)
        args.status = int(any(step.outcome == "failed" for step in report.steps))
        if args.every is None:
            return _output(report, args)
        if report.steps:
            print(escaped(str(report), allowed="\n"), file=sys.stderr, flush=True)
        await _pause(args.every)


async def _pause(time: timedelta) -> None:
    await asyncio.sleep(time.total_seconds())


def _output(report: MaintenanceReport, args: argparse.Namespace) -> OutputRows | Text:
    if not args.json:
        return Text(str(report))
    rows: list[dict[str, Any]] = [asdict(step) for step in report.steps]
    return OutputRows(rows)
