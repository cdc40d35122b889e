"""Command line of the jobs: `alance-spark JOB ...`, or `python -m alance.spark JOB ...`.

In a cluster, `spark-submit --py-files ... -m alance.spark` runs it in the submitted session.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from alance import AlanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance import Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job. The summary goes to stdout, progress and errors to stderr."""
    args = vars(_parser().parse_args(arguments))
    job, as_json, quiet = args.pop("job"), args.pop("json"), args.pop("quiet")
    master, conf = args.pop("master"), dict(args.pop("conf") or ())
    level = args.pop("log_level")
    storage = dict(args.pop("storage") or ())
    options = dict(args.pop("option", None) or ())
    arguments_of_job = {name: value for name, value in args.items() if value is not None}
    for name in ("checks", "policy", "source_options", "target_options"):
        if name in arguments_of_job:
            arguments_of_job[name] = dict(arguments_of_job[name])
    try:
        from alance.spark import jobs
        from alance.spark.session import session

        spark = session(f"alance {job}", master=master, conf=conf)
        _without_stacks(spark, level)
        _prepare(spark, job, arguments_of_job)
        run: Callable[..., Any] = getattr(jobs, job.replace("-", "_"))
        done = run(
            spark,
            **arguments_of_job,
            **options,
            storage_options=storage or None,
            on_progress=None if quiet else partial(_show, job),
        )
    except (AlanceError, ImportError) as error:
        print(f"alance-spark {job}: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        from alance.spark.failures import error_message, is_of_spark

        if not is_of_spark(error):
            raise
        print(f"alance-spark {job}: {error_message(error)}", file=sys.stderr)
        return 1
    print(_as_json(done) if as_json else done)
    counts = done.counts.items()
    bad = [name for name, value in counts if value and name.startswith(("violations.", "findings"))]
    return 2 if bad else int("failed" in done.counts)


def _show(job: str, now: Progress) -> None:
    print(f"{job}: {now}", file=sys.stderr)


def _as_json(done: Any) -> str:
    return json.dumps(
        {
            "job": done.job,
            "uri": done.uri,
            "version": done.version,
            "seconds": round(done.seconds, 3),
            "counts": dict(done.counts),
            "lines": list(done.lines),
        }
    )


def _without_stacks(spark: Any, level: str) -> None:
    """Stop Spark from logging the errors that it also raises, with JVM stacks or as JSON."""
    from pyspark.logger import PySparkLogger

    context = getattr(spark, "_sc", None)
    if context is not None:
        context.setLogLevel(level)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _prepare(spark: Any, job: str, arguments: dict[str, Any]) -> None:
    """Load sources and keys into DataFrames for the jobs that need DataFrames."""
    if job == "merge":
        arguments["source"] = spark.read.format(arguments.pop("format")).load(arguments["source"])
        _clauses(arguments)
    elif job == "delete":
        kind = arguments.pop("format")
        if "keys" in arguments:
            arguments["keys"] = spark.read.format(kind).load(arguments["keys"])
    elif job in ("backfill", "update"):
        name = "columns" if job == "backfill" else "updates"
        arguments[name] = dict(arguments[name])


def _clauses(arguments: dict[str, Any]) -> None:
    """Build the clauses of a merge from actions, conditions and values."""
    from alance.spark.jobs import When

    for name in ("when_matched", "when_not_matched", "when_not_matched_by_source"):
        condition, values = arguments.pop(f"{name}_if", None), arguments.pop(f"{name}_set", None)
        action: Any = arguments.get(name) or ("insert" if name == "when_not_matched" else "update")
        if condition is not None or values is not None:
            arguments[name] = When(action, condition, dict(values) if values else None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="alance-spark", description="Lance tables by Spark.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--master", help="of Spark, such as local[4]")
    common.add_argument("--conf", action="append", type=_pair, metavar="NAME=VALUE")
    common.add_argument(
        "--storage", action="append", type=_pair, metavar="NAME=VALUE", help="storage options"
    )
    common.add_argument(
        "--log-level",
        default="OFF",
        choices=("OFF", "ERROR", "WARN", "INFO", "DEBUG"),
        help="log level of Spark (OFF); its errors are printed without stacks",
    )
    common.add_argument("--json", action="store_true", help="the summary as JSON")
    common.add_argument("--quiet", action="store_true", help="no progress")
    jobs = parser.add_subparsers(dest="job", required=True)

    def job(name: str, text: str) -> argparse.ArgumentParser:
        command = jobs.add_parser(name, help=text, description=text, parents=[common])
        if name in ("ingest", "export", "validate"):
            command.add_argument("--option", action="append", type=_pair, metavar="NAME=VALUE")
        return command

    _add_transfer_jobs(job)
    _add_row_jobs(job)
    _add_upkeep_jobs(job)
    return parser


def _add_transfer_jobs(job: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the jobs that move rows between tables and other formats."""
    command = job("ingest", "files that Spark reads to a table")
    command.add_argument("source")
    command.add_argument("uri")
    command.add_argument("--format", default="parquet")
    command.add_argument("--source-option", dest="source_options", action="append", type=_pair)
    command.add_argument("--schema")
    command.add_argument("--column", dest="columns", action="append", help="SQL that is selected")
    command.add_argument(
        "--mode", default="append", choices=("create", "append", "overwrite", "ignore")
    )
    command.add_argument("--sort-by", action="append", default=[])
    command.add_argument("--target-bytes", type=int)

    command = job("export", "a table to files of a format of Spark")
    command.add_argument("uri")
    command.add_argument("target")
    command.add_argument("--format", default="parquet")
    command.add_argument(
        "--mode", default="error", choices=("error", "append", "overwrite", "ignore")
    )
    command.add_argument("--target-option", dest="target_options", action="append", type=_pair)


def _add_row_jobs(job: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the jobs that change rows or columns."""
    command = job("backfill", "new columns from SQL")
    command.add_argument("uri")
    command.add_argument("columns", nargs="+", type=_pair, metavar="COLUMN=SQL")
    command.add_argument("--checkpoint", help="folder: with the same one the job goes on")

    command = job("delete", "rows by condition, or by the keys in files")
    command.add_argument("uri")
    command.add_argument("--where", dest="predicate")
    command.add_argument("--keys")
    command.add_argument("--on", action="append", default=[])
    command.add_argument("--format", default="parquet")

    command = job("merge", "rows of files by key: update and insert")
    command.add_argument("uri")
    command.add_argument("source")
    command.add_argument("--on", action="append", required=True)
    command.add_argument("--format", default="parquet")
    changes = ("update", "delete", "nothing")
    for clause, actions in (
        ("--when-matched", changes),
        ("--when-not-matched", ("insert", "nothing")),
        ("--when-not-matched-by-source", changes),
    ):
        command.add_argument(clause, choices=actions)
        command.add_argument(f"{clause}-if", metavar="SQL", help="over source.a and target.a")
        command.add_argument(f"{clause}-set", action="append", type=_pair, metavar="COLUMN=SQL")

    command = job("update", "new values for the rows that meet a condition")
    command.add_argument("uri")
    command.add_argument("updates", nargs="+", type=_pair, metavar="COLUMN=SQL")
    command.add_argument("--where")


def _add_upkeep_jobs(job: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the jobs that change how a table is stored, or validate it."""
    command = job("compact", "small fragments to larger ones")
    command.add_argument("uri")
    command.add_argument("--target-rows-per-fragment", type=int)
    command.add_argument("--max-bytes-per-file", type=int)

    command = job("maintain", "the upkeep that is due: compact, extend indices, remove versions")
    command.add_argument("uri")
    command.add_argument("--dry-run", action="store_true", help="only show what is due")
    command.add_argument(
        "--rule",
        dest="policy",
        action="append",
        type=_pair,
        metavar="NAME=VALUE",
        help="a rule instead of the table's own, such as min_small_fragments=8",
    )

    command = job("build-index", "an index of a column: of values, texts or vectors")
    command.add_argument("uri")
    command.add_argument("column")
    command.add_argument("--index-type", type=str.upper)
    command.add_argument("--metric", choices=("l2", "cosine", "dot", "hamming"))
    command.add_argument("--name")
    command.add_argument("--task-bytes", type=int)
    command.add_argument("--max-tasks", type=int)
    command.add_argument("--sort-bytes", type=int)
    command.add_argument("--merge-bytes", type=int)
    command.add_argument("--range-bytes", type=int)

    command = job("cleanup", "old versions, and files that none needs")
    command.add_argument("uri")
    command.add_argument("--older-than-hours", type=float)
    command.add_argument("--retain-versions", type=int)
    command.add_argument("--dry-run", action="store_true")

    command = job("validate", "files, counts, nulls and conditions; status 2 where one is not met")
    command.add_argument("uri")
    command.add_argument("--check", dest="checks", action="append", type=_pair, metavar="NAME=SQL")
    command.add_argument("--nulls", action="append", help="columns whose nulls are counted")
    command.add_argument("--unique", action="append", default=[])


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
