"""Command for upkeep: `maintain`, of a table or of all tables of a catalog."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import alance
from alance.command.arguments import add, duration, pair, size
from alance.command.budget import MaintenanceBudget
from alance.command.catalogs import each_table, names_below, table_or_catalog
from alance.command.output import OutputRows, Text
from alance.command.terminal import escaped, is_terminal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from alance import Catalog, Dataset
    from alance.command.arguments import Parsers
    from alance.types import MaintenanceReport

NOT_REACHED: Final = "not reached: the budget is spent"


def add_to(parsers: Parsers) -> None:
    """Add the subcommands of this module."""
    parser = add(
        parsers,
        "maintain",
        maintain,
        "do the upkeep that is due, of a table or of all tables of a catalog: compact, extend "
        "indices, expire rows, remove versions",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show what is due, and its cost"
    )
    parser.add_argument(
        "--every", type=duration, metavar="TIME", help="run again and again, such as 1m or 2h"
    )
    parser.add_argument(
        "--at-once",
        type=int,
        default=1,
        metavar="N",
        help="tables of a catalog at a time; default: 1",
    )
    _add_budgets(parser)
    parser.add_argument(
        "--rule",
        action="append",
        type=pair,
        metavar="NAME=VALUE",
        help="a rule instead of the table's own, such as min_small_fragments=8; may be repeated",
    )


def _add_budgets(parser: argparse.ArgumentParser) -> None:
    for name in ("bytes", "requests"):
        parser.add_argument(
            f"--max-{name}",
            type=size if name == "bytes" else int,
            metavar="SIZE" if name == "bytes" else "N",
            help=f"budget of {name} of a run over all tables, by the estimates of the steps",
        )
    parser.add_argument(
        "--max-seconds",
        type=float,
        metavar="N",
        help="time after which no further step begins",
    )


async def maintain(args: argparse.Namespace) -> OutputRows | Text | None:
    """Run maintenance once, or periodically until it is interrupted.

    The exit status is 1 if a step failed.
    """
    with _ended_by_sigterm():
        tables = await table_or_catalog(args)
        start = 0
        while True:
            results, start = await _round(args, tables, start)
            failed = [result for result in results if _has_failed(result)]
            args.status = int(bool(failed))
            if args.every is None:
                return _output(results, args)
            news = [result for result in results if result in failed or _num_steps(result)]
            for result in news:
                print(escaped(_shown(result), allowed="\n"), file=sys.stderr, flush=True)
            await asyncio.sleep(args.every.total_seconds())


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Cancel this task at SIGTERM: a step under way is dropped, and the lease is released.

    SIGINT would not do, because a shell starts background commands with SIGINT ignored.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    try:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


@dataclass(frozen=True)
class _Result:
    """Result for one table: the report of its run, or the text of the error.

    Attributes:
        name: name of the table in its catalog; empty if the command names the table itself.
    """

    name: str
    report: MaintenanceReport | None
    error: str | None


def _num_steps(result: _Result) -> int:
    return 0 if result.report is None else len(result.report.steps)


def _has_failed(result: _Result) -> bool:
    if result.report is None:
        return result.error != NOT_REACHED
    return any(step.outcome == "failed" for step in result.report.steps)


def _is_waiting(result: _Result) -> bool:
    """True if the budget was too small for the table or for one of its steps."""
    if result.report is None:
        return result.error == NOT_REACHED
    return any(step.outcome == "over budget" for step in result.report.steps)


def _shown(result: _Result) -> str:
    """Format the effects of a run for users."""
    text = str(result.error if result.report is None else result.report)
    if not result.name:
        return text
    if _num_steps(result):
        return f"{result.name}:\n  " + text.replace("\n", "\n  ")
    return text if result.report is not None else f"{result.name}: {text}"


async def _round(
    args: argparse.Namespace, tables: Catalog | Dataset, start: int
) -> tuple[list[_Result], int]:
    """Maintain the table, or each table of the catalog.

    Args:
        start: number of the table to begin with, so that all tables get a turn if budgets are
            small.

    Returns:
        The results in the order of the tables, and `start` for the next round.
    """
    budget = MaintenanceBudget(args.max_bytes, args.max_requests, args.max_seconds, args.at_once)
    if not isinstance(tables, alance.Catalog):
        result = await _tried("", partial(_itself, tables), args, budget)
        return [result], 0
    catalog = tables
    try:
        names = await names_below(catalog)
    except alance.AlanceError as error:
        if args.every is None:
            raise
        return [_Result(catalog.uri, None, str(error))], start
    start %= max(1, len(names))

    async def run(name: tuple[str, ...]) -> _Result:
        return await _tried("/".join(name), partial(catalog.open_table, name), args, budget)

    results = await each_table(run, names[start:] + names[:start], args.at_once)
    passed = (place for place, result in enumerate(results) if _is_waiting(result))
    following = (start + next(passed, 0)) % max(1, len(names))
    return sorted(results, key=lambda result: result.name), following


async def _itself(dataset: Dataset) -> Dataset:
    return dataset  # `maintain` itself opens the latest version


async def _tried(
    name: str,
    opening: Callable[[], Awaitable[Dataset]],
    args: argparse.Namespace,
    budget: MaintenanceBudget,
) -> _Result:
    """Maintain a table; a failure becomes the error of the result.

    Raises:
        AlanceError: the only table of a single run failed.
    """
    share = budget.take()
    if share is None:
        return _Result(name, None, NOT_REACHED)
    report = None
    try:
        dataset = await opening()
        policy = None
        if args.rule or share.is_limited:  # in addition to the rules of the table, which may change
            dataset = await dataset.checkout_latest()
            own = alance.MaintenancePolicy.from_config(dataset.config, dict(args.rule or ()))
            policy = share.limit(own)
        progress = not name and is_terminal()  # bars of several tables would mix
        report = await dataset.maintain(policy, dry_run=args.dry_run, progress=progress)
    except alance.AlanceError as error:
        if not name and args.every is None:
            raise
        return _Result(name, None, str(error))
    finally:
        budget.give_back(share, report)
    return _Result(name, report, None)


def _output(results: Sequence[_Result], args: argparse.Namespace) -> OutputRows | Text:
    if not args.json:
        return Text("\n".join(map(_shown, results)))
    rows: list[dict[str, Any]] = []
    for result in results:
        table = {"table": result.name} if result.name else {}
        if result.report is None:
            rows.append({**table, "error": result.error})
        else:
            rows += [{**table, **asdict(step)} for step in result.report.steps]
    return OutputRows(rows)
