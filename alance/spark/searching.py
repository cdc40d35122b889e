"""Table functions of SQL, `alance_nearest` and `alance_search`; they need no connector.

Python table functions declare their columns from constant arguments when a query is analyzed. They
produce their rows in one task, or after LATERAL in the tasks of the preceding rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import UserDefinedType
from pyspark.sql.udtf import AnalyzeResult

from alance import InvalidInputError, TableNotFoundError
from alance.spark.connector.catalog import named_uri
from alance.spark.options import ReadOptions
from alance.spark.types import arrow_schema, converted, spark_schema
from alance.spark.versions import open_version
from alance.spark.worker import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.udtf import AnalyzeArgument

    from alance import Dataset

DEFAULT_CATALOG: Final = "lance"  # catalog for names without a catalog
DISTANCE_COLUMN: Final = "_distance"
SCORE_COLUMN: Final = "_score"
RELEVANCE_COLUMN: Final = "_relevance_score"
OF_SEARCHES: Final = (RELEVANCE_COLUMN, SCORE_COLUMN, DISTANCE_COLUMN)


@dataclass(frozen=True, slots=True)
class TablePlaces:
    """Places of tables that the session knew when the functions were registered.

    Attributes:
        storage: options of the store.
        warehouses: folders of tables, by catalog name.
    """

    storage: Mapping[str, str] = field(repr=False)
    warehouses: Mapping[str, str]

    def uri(self, table: str) -> str:
        """Return a path or URI as it is, and the URI for a table's name in a catalog.

        Raises:
            InvalidInputError: a catalog without a warehouse, or a name that is not valid for a
                folder.
        """
        return named_uri(table, self.warehouses, DEFAULT_CATALOG)


@dataclass
class SearchPlan(AnalyzeResult):
    """Columns of a search, and the version that it reads.

    Attributes:
        options: the place of the table, and the number of its version.
    """

    options: ReadOptions | None = None


def register_functions(spark: SparkSession, places: TablePlaces) -> None:
    """Register the functions in a session, replacing those already registered."""
    from pyspark.sql.functions import udtf

    functions = {"alance_nearest": _nearest_of(places), "alance_search": _search_of(places)}
    for name, function in functions.items():
        spark.udtf.register(name, udtf(function, useArrow=False).asDeterministic())  # type: ignore[union-attr]


def _nearest_of(places: TablePlaces) -> type:
    class NearestFunction:
        """Table function `alance_nearest(table, column, query, k)`; see docs/spark.md."""

        def __init__(self, plan: SearchPlan) -> None:
            self._table = _SearchedTable(plan)

        @staticmethod
        def analyze(
            table: AnalyzeArgument,
            column: AnalyzeArgument,
            query: AnalyzeArgument,
            k: AnalyzeArgument | None = None,
            filter: AnalyzeArgument | None = None,
            columns: AnalyzeArgument | None = None,
            version: AnalyzeArgument | None = None,
            options: AnalyzeArgument | None = None,
        ) -> SearchPlan:
            return _analyzed(places, table, columns, version, (DISTANCE_COLUMN,))

        def eval(
            self,
            table: str,
            column: str,
            query: Any,
            k: int = 10,
            filter: str | None = None,
            columns: Any = None,
            version: Any = None,
            options: str | None = None,
        ) -> Iterator[tuple[Any, ...]]:
            if query is None:
                return iter(())
            keywords = {"filter": filter, **_json(options)}
            names, vector = self._table.names, _numbers(query)
            return self._table.rows(
                lambda dataset: dataset.nearest(column, vector, k, columns=names, **keywords)
            )

    return NearestFunction


def _search_of(places: TablePlaces) -> type:
    class SearchFunction:
        """Table function `alance_search(table, text, k)`; see docs/spark.md."""

        def __init__(self, plan: SearchPlan) -> None:
            self._table = _SearchedTable(plan)

        @staticmethod
        def analyze(
            table: AnalyzeArgument,
            text: AnalyzeArgument,
            k: AnalyzeArgument | None = None,
            vector: AnalyzeArgument | None = None,
            on: AnalyzeArgument | None = None,
            filter: AnalyzeArgument | None = None,
            columns: AnalyzeArgument | None = None,
            version: AnalyzeArgument | None = None,
            options: AnalyzeArgument | None = None,
        ) -> SearchPlan:
            measures = (SCORE_COLUMN,) if vector is None else OF_SEARCHES
            return _analyzed(places, table, columns, version, measures)

        def eval(
            self,
            table: str,
            text: str | None,
            k: int = 10,
            vector: Any = None,
            on: str | None = None,
            filter: str | None = None,
            columns: Any = None,
            version: Any = None,
            options: str | None = None,
        ) -> Iterator[tuple[Any, ...]]:
            if text is None:
                return iter(())
            keywords = {"filter": filter, "on": on, **_json(options)}
            return self._table.matches(text, vector, k=k, **keywords)

    return SearchFunction


class _SearchedTable:
    """Table of a call, opened once for all rows that LATERAL passes to it."""

    def __init__(self, plan: SearchPlan) -> None:
        assert plan.options is not None
        self._options = plan.options
        self._dataset: Dataset | None = None
        self.schema = plan.schema
        self.names = [name for name in plan.schema.names if name not in OF_SEARCHES]

    def rows(self, search: Callable[[Dataset], Awaitable[pa.Table]]) -> Iterator[tuple[Any, ...]]:
        """Run a search and yield its rows in Spark's types."""

        async def searched() -> pa.Table:
            if self._dataset is None:
                self._dataset = await open_version(self._options, self._options.version)
            return await search(self._dataset)

        table, schema = run(searched()), arrow_schema(self.schema)
        for batch in table.to_batches():
            columns = [
                _values(array, field.dataType)
                for array, field in zip(converted(batch, schema).columns, self.schema, strict=True)
            ]
            yield from zip(*columns, strict=True)

    def matches(self, text: str, vector: Any, **keywords: Any) -> Iterator[tuple[Any, ...]]:
        """Search by text; if the result has `_relevance_score`, also by vector.

        Yields no rows if the search needs `vector`, and it is None.
        """
        names = self.names
        if RELEVANCE_COLUMN not in self.schema.names:
            return self.rows(lambda dataset: dataset.search_text(text, columns=names, **keywords))
        if vector is None:
            return iter(())
        query = _numbers(vector)
        return self.rows(
            lambda dataset: dataset.search(text=text, vector=query, columns=names, **keywords)
        )


def _analyzed(
    places: TablePlaces,
    table: AnalyzeArgument,
    columns: AnalyzeArgument | None,
    version: AnalyzeArgument | None,
    measures: Iterable[str],
) -> SearchPlan:
    uri = places.uri(_constant("table", table))
    version_name = None if version is None else str(_constant("version", version))
    names = None if columns is None else _names(_constant("columns", columns))
    options = ReadOptions(path=uri, storage=places.storage)

    async def opened() -> tuple[int, pa.Schema]:
        number = (
            int(version_name)
            if version_name is not None and version_name.isdecimal()
            else version_name
        )
        try:
            dataset = await open_version(options, number)
        except TableNotFoundError as error:
            catalogs = ", ".join(places.warehouses) or "no catalog"
            error.add_note(
                f"the functions know the warehouses of {catalogs}; after setting others, call "
                "alance.spark.register again"
            )
            raise
        return dataset.version, dataset.scanner(names).projected_schema

    number, schema = run(opened())
    fields = [column for column in schema if column.name not in OF_SEARCHES]
    fields += [pa.field(name, pa.float32()) for name in measures]
    pinned = ReadOptions(path=uri, storage=places.storage, version=number)
    return SearchPlan(spark_schema(pa.schema(fields)), options=pinned)


def _constant(name: str, argument: AnalyzeArgument) -> Any:
    if argument.value is None:
        raise InvalidInputError(f"{name}: expected a constant, by which the columns are known")
    return argument.value


def _names(value: Any) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    return [word.strip() for word in words if word.strip() not in OF_SEARCHES]


def _numbers(value: Any) -> Any:
    """Convert decimals in a query to floats; SQL parses `0.5` as a decimal."""
    if hasattr(value, "toArray"):
        return value.toArray().tolist()
    if isinstance(value, list | tuple):
        return [_numbers(part) for part in value]
    return value if isinstance(value, int | bytes) or value is None else float(value)


def _json(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise InvalidInputError(f"options={text!r}: expected a JSON object")
    return options


def _values(array: pa.Array, kind: Any) -> list[Any]:
    values: list[Any] = array.to_pylist(maps_as_pydicts="lossy")
    if isinstance(kind, UserDefinedType):
        return [
            None if value is None else kind.deserialize(tuple(value.values())) for value in values
        ]
    return values
