"""Job `validate`: the files of a table, and what its rows should be like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance import CorruptFileError
from alance.spark import read
from alance.spark.jobs.base import Watch, place
from alance.spark.versions import open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from pyspark.sql import SparkSession

    from alance.spark.arguments import SelectArguments
    from alance.spark.jobs.base import OnProgress, Summary
    from alance.spark.options import WriteOptions


def validate(
    spark: SparkSession,
    uri: str,
    *,
    checks: Mapping[str, str] | None = None,
    nulls: Sequence[str] | None = None,
    unique: Sequence[str] = (),
    files: bool = True,
    storage_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    **options: Unpack[SelectArguments],
) -> Summary:
    """Check one version of a table: its files from the driver, its rows on the executors.

    `counts` of the summary: `rows`, and that they are as many as the manifest says, in
    `rows_in_manifest`; `nulls.<column>`; `violations.<name>` of checks and unique columns;
    `findings`: what `Dataset.validate` said, None where it said nothing.

    Args:
        checks: conditions of Spark SQL by name, which each row should meet; one that gives null
            is not met.
        nulls: columns whose nulls are counted; None: all.
        unique: columns without a value twice.
        files: check the files, too.
        options: of the reader, such as `version`.

    Raises:
        AnalysisException: a check that is no SQL, an unknown column.
    """
    from pyspark.sql import functions as f

    with Watch(spark, "validate", on_progress) as watch:
        where = place(spark, uri, storage_options)
        pinned = options.get("version") or options.get("tag")
        dataset = run(open_version(where, pinned))
        findings = run(_findings(where, dataset.version)) if files else None
        watch.step = "rows"
        options["version"] = dataset.version
        options.pop("tag", None)
        frame = read(spark, uri, storage_options=storage_options, **options)
        counted = list(frame.columns if nulls is None else nulls)
        totals = [f.count(f.lit(1)).alias("rows")]
        totals += [f.count_if(f.isnull(_quoted(one))).alias(f"nulls.{one}") for one in counted]
        totals += [
            f.count_if(~f.coalesce(f.expr(text).cast("boolean"), f.lit(False))).alias(
                f"violations.{name}"
            )
            for name, text in (checks or {}).items()
        ]
        row = frame.agg(*totals).collect()[0]
        counts: dict[str, Any] = dict(zip(row.__fields__, row, strict=True))
        counts["rows_in_manifest"] = run(_num_rows(where, dataset.version))
        for name in unique:
            groups = frame.groupBy(_quoted(name)).count().where("count > 1")
            counts[f"violations.unique {name}"] = groups.count()
        counts["findings"] = findings
        return watch.summary(uri, dataset.version, **counts)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


async def _findings(where: WriteOptions, version: int) -> str | None:
    try:
        await (await open_version(where, version)).validate()
    except CorruptFileError as error:
        return str(error)
    return None


async def _num_rows(where: WriteOptions, version: int) -> int:
    return await (await open_version(where, version)).count_rows()
