"""Options of the data source: parses Spark's texts to checked values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypedDict, TypeVar

from alance import InvalidInputError, UnsupportedError
from alance.distributed import MAX_RETRIES, is_for_base

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from alance.types import BlobHandling

STORAGE_PREFIX: Final = "storage."
# encoded bytes; Spark's default for files is 128 MiB, of columns that are less compressed
SPARK_PARTITION_BYTES: Final = 64 << 20
WORKER_MEMORY_BYTES: Final = 64 << 20
# Options that Spark passes for a table of its own catalog.
OF_CATALOG: Final = frozenset({"location", "provider", "owner"})
NO_PATH: Final = (
    "no path: expected .load(uri), .save(uri) or option 'path'. Spark does not hand the place of "
    "a table of its catalog (saveAsTable, CREATE TABLE) to data sources in Python, so such a "
    "table is neither read nor written. Instead: a table of the catalog `lance`, lance.name, after "
    "alance.spark.register(spark, warehouse=uri); alance.spark.write(frame, uri); or for SQL "
    "CREATE OR REPLACE TEMPORARY VIEW name USING alance OPTIONS (path 'uri')"
)
NOT_PARTITIONED: Final = (
    "tables of Lance are not partitioned, clustered or bucketed: leave it out, and order the rows "
    "by these columns before they are written, so that queries skip rows by statistics"
)
PARTITIONS: Final = "__partition_columns"  # Spark's option for `partitionBy`
MANY_PATHS: Final = (
    ".load() of a list of paths: expected one path, a table has one place. Several tables of the "
    "same columns: alance.spark.read(spark, [uri, ...]), or load each, and union the DataFrames"
)
# Option names of other formats, in lower case without `_`.
OPTION_ALIASES: Final = {"timestamp": "asof", "timestampasof": "asof", "versionasof": "version"}
BRANCH_FOLDER: Final = "tree"  # folder of a table's branches
# Options that Spark adds to those of a source or a sink.
SPARK_OPTIONS: Final = frozenset({"path", "checkpointlocation", "queryname"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Place of a table, and the memory of a task.

    Attributes:
        path: URI or path of the table, as for `alance.dataset`; with `branch`, of the branch.
        branch: name of the branch; None: the main branch, or the branch of the path.
        storage: options of the store; never shown in plans or logs.
        memory_bytes: memory for prefetched bytes and for caches in one Python worker.
        decode_threads: threads that decode in one Python worker.
    """

    LISTS: ClassVar[frozenset[str]] = frozenset()

    path: str
    branch: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    memory_bytes: int = WORKER_MEMORY_BYTES
    decode_threads: int = 2

    @classmethod
    def parse(cls, texts: Mapping[str, str], defaults: Mapping[str, str] | None = None) -> Self:
        """Parse and check the options of a source.

        Args:
            texts: options by name; names are compared without case and `_`: `withRowId` equals
                `with_row_id`.
            defaults: storage options from `register`.

        Raises:
            InvalidInputError: an unknown option, a malformed value, no path, or several.
            UnsupportedError: the table belongs to Spark's own catalog, or has partitions.
        """
        names = {option.name.replace("_", ""): option.name for option in fields(cls)}
        values: dict[str, Any] = {"storage": dict(defaults or {})}
        types = {option.name: str(option.type) for option in fields(cls)}
        if not OF_CATALOG.isdisjoint(key.lower() for key in texts):
            raise UnsupportedError(NO_PATH)
        if PARTITIONS in texts:
            raise UnsupportedError(NOT_PARTITIONED)
        for key, text in texts.items():
            if key.lower().startswith(STORAGE_PREFIX):
                values["storage"][key[len(STORAGE_PREFIX) :]] = text
                continue
            if key.lower().replace("_", "") == "storageoptions":
                values["storage"] |= _mapping(key, text)
                continue
            if key.lower() == "paths":
                raise InvalidInputError(MANY_PATHS)
            plain = key.lower().replace("_", "")
            name = names.get(OPTION_ALIASES.get(plain, plain))
            if name is None or name == "storage":
                if key.lower() in SPARK_OPTIONS:
                    continue
                shown = sorted({*names.values()} - {"storage"})
                raise InvalidInputError(
                    f"option {key!r}: not known, expected one of {', '.join(shown)}, "
                    f"storage_options or {STORAGE_PREFIX}<name>"
                )
            values[name] = _value(name, types[name], text, is_list=name in cls.LISTS)
        if not values.get("path"):
            raise InvalidInputError(NO_PATH)
        if branch := values.get("branch"):
            values["path"] = branch_path(values["path"], branch)
        options = cls(**values)
        options.check()
        return options

    def check(self) -> None:
        """Raise `InvalidInputError` if a value is invalid, or values contradict each other."""
        at_least("memory_bytes", self.memory_bytes, 1 << 20)
        at_least("decode_threads", self.decode_threads, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(TableOptions):
    """Options for reading a table.

    Attributes:
        version, tag, asof: the version to read; at most one of them may be set; none: the latest
            version.
        columns: names of columns, possibly `_rowid` and `_rowaddr`; None: all columns of the table.
        filter: SQL text, applied while reading.
        limit: maximum number of rows, which one task reads; None: no limit.
        with_row_id, with_row_address: True to add `_rowid`, `_rowaddr`.
        partition_bytes: approximate encoded bytes per partition.
        min_partitions: minimum number of partitions, if there are enough rows.
        parallelism: number of cores; partitions shrink, down to 1 MiB, until all cores have work.
        batch_size: maximum number of rows in an Arrow batch.
        blobs: `descriptions`: position and size of blobs; `bytes`: their contents.
        pushdown: True to push filters of the query down; see docs/spark.md before using it.
    """

    LISTS: ClassVar[frozenset[str]] = frozenset({"columns"})

    version: int | None = None
    tag: str | None = None
    asof: str | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    limit: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    partition_bytes: int = SPARK_PARTITION_BYTES
    min_partitions: int = 1
    parallelism: int = 1
    batch_size: int | None = None
    blobs: str = "descriptions"
    pushdown: bool = False

    @property
    def blob_handling(self) -> BlobHandling:
        """Value of a scan's `blob_handling`."""
        return "all_binary" if self.blobs == "bytes" else "blobs_descriptions"

    def check(self) -> None:
        """Raise `InvalidInputError` if a value is invalid, or values contradict each other."""
        TableOptions.check(self)
        if sum(choice is not None for choice in (self.version, self.tag, self.asof)) > 1:
            raise InvalidInputError("version, tag and asof: expected one of them")
        at_least("limit", self.limit, 0)
        at_least("partition_bytes", self.partition_bytes, 1)
        at_least("min_partitions", self.min_partitions, 1)
        at_least("parallelism", self.parallelism, 1)
        at_least("batch_size", self.batch_size, 1)
        check_option("blobs", self.blobs, ("descriptions", "bytes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWriteOptions(TableOptions):
    """Options for writing rows, with the names of `alance.write_dataset`.

    Attributes:
        if_exists: effect of an append to an existing table: `append`, `error` or `ignore`.
        keep_schema: for rows that replace all rows: True to cast them to the columns of the table;
            False to give the table the rows' columns. Always set when a table of a catalog is
            overwritten.
        merge_schema: True to add columns that the table lacks, null in its rows; False to refuse
            rows with unknown columns.
        vectors: array columns that a new table stores as vectors: `name:dimension`, ...
        txn_app, txn_version: a name and an increasing number; rows that are already committed under
            them are not committed again.
    """

    LISTS: ClassVar[frozenset[str]] = frozenset({"vectors"})

    if_exists: str = "append"
    keep_schema: bool = False
    merge_schema: bool = False
    max_rows_per_file: int = 1 << 20
    max_bytes_per_file: int = 90 << 30
    data_storage_version: str | None = None
    stable_row_ids: bool = False
    vectors: tuple[str, ...] = ()
    message: str | None = None
    txn_app: str | None = None
    txn_version: int | None = None
    max_retries: int = MAX_RETRIES

    def check(self) -> None:
        """Raise `InvalidInputError` if a value is invalid, or values contradict each other."""
        TableOptions.check(self)
        check_option("if_exists", self.if_exists, ("append", "error", "ignore"))
        at_least("max_rows_per_file", self.max_rows_per_file, 1)
        at_least("max_bytes_per_file", self.max_bytes_per_file, 1)
        at_least("max_retries", self.max_retries, 0)
        if (self.txn_app is None) != (self.txn_version is None):
            raise InvalidInputError("txn_app and txn_version: expected both or none")

    def vector_lengths(self) -> dict[str, int]:
        """Parse `vectors` to dimensions by column.

        Raises:
            InvalidInputError: an entry that is not `name:dimension`.
        """
        lengths = {}
        for text in self.vectors:
            name, _, length = text.rpartition(":")
            if not name or not length.isdecimal() or int(length) < 1:
                raise InvalidInputError(f"vectors: {text!r}, expected name:dimension")
            lengths[name] = int(length)
        return lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(ReadOptions):
    """Options for following a table.

    Attributes:
        start: `snapshot`: all rows of the version at the start, then new rows; `latest`: only new
            rows; or the number of a version: rows added after that version.
        max_rows_per_batch, max_bytes_per_batch, max_fragments_per_batch: rate limit, at most one of
            these; a batch has whole fragments, at least one.
        on_change: reaction to versions that replace rows (update, overwrite): `fail` or `skip`.
    """

    start: str = "snapshot"
    max_rows_per_batch: int | None = None
    max_bytes_per_batch: int | None = None
    max_fragments_per_batch: int | None = None
    on_change: str = "fail"

    def check(self) -> None:
        """Raise `InvalidInputError` if a value is invalid, or an option is not for streams."""
        ReadOptions.check(self)
        if self.start not in ("snapshot", "latest") and not self.start.isdecimal():
            raise InvalidInputError(
                f"start={self.start!r}: expected snapshot, latest or a version's number"
            )
        check_option("on_change", self.on_change, ("fail", "skip"))
        for name in ("limit", "version", "tag", "asof"):
            if getattr(self, name) is not None:
                raise InvalidInputError(f"option {name!r}: not for a stream")
        limits = ("max_rows_per_batch", "max_bytes_per_batch", "max_fragments_per_batch")
        names = [name for name in limits if getattr(self, name) is not None]
        if len(names) > 1:
            raise InvalidInputError(f"{' and '.join(names)}: expected one of them")
        for name in names:
            at_least(name, getattr(self, name), 1)


ReadT = TypeVar("ReadT", bound=ReadOptions)


def for_cores(options: ReadT, names: Iterable[str], cores: int) -> ReadT:
    """Set `parallelism` to the number of cores, unless the user set it.

    Args:
        names: names of the options that the user has set.
    """
    if "parallelism" in {name.lower() for name in names}:
        return options
    return replace(options, parallelism=cores)


def branch_path(path: str, branch: str) -> str:
    """Return the path of a branch of a table."""
    return f"{path.rstrip('/')}/{BRANCH_FOLDER}/{branch}"


def at_least(name: str, value: int | None, least: int) -> None:
    """Raise `InvalidInputError` if a number is less than a minimum; None is valid."""
    if value is not None and value < least:
        raise InvalidInputError(f"{name}={value}: expected at least {least}")


def check_option(name: str, value: str, allowed: Iterable[str]) -> None:
    """Raise `InvalidInputError` if a value is not allowed."""
    if value not in allowed:
        raise InvalidInputError(f"{name}={value!r}: expected one of {', '.join(allowed)}")


def _value(name: str, kind: str, text: str, *, is_list: bool) -> object:
    if is_list:
        return _words(name, text)
    if kind.startswith("bool"):
        if text.lower() not in ("true", "false"):
            raise InvalidInputError(f"{name}={text!r}: expected true or false")
        return text.lower() == "true"
    if kind.startswith("int"):
        try:
            return int(text)
        except ValueError:
            raise InvalidInputError(f"{name}={text!r}: expected an integer") from None
    return text


def _words(name: str, text: str) -> tuple[str, ...]:
    """Parse names of columns: separated by commas, or a JSON list if names contain commas."""
    if not text.lstrip().startswith("["):
        return tuple(word for part in text.split(",") if (word := part.strip()))
    try:
        words = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"{name}={text!r}: {error}") from error
    if not all(isinstance(word, str) for word in words):
        raise InvalidInputError(f"{name}={text!r}: expected a list of names")
    return tuple(words)


def _mapping(key: str, text: str) -> dict[str, str]:
    """Parse a JSON object of texts. Errors do not show the text, which may contain secrets.

    The options of a base path (`base:<uri>`) may be an object as well.
    """
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if isinstance(values, dict):
        values = {
            name: json.dumps(value) if is_for_base(name) and isinstance(value, dict) else value
            for name, value in values.items()
        }
    if not isinstance(values, dict) or not all(isinstance(text, str) for text in values.values()):
        raise InvalidInputError(f"option {key!r}: expected a JSON object of texts")
    return values


class SourceArguments(TypedDict, total=False):
    """Keyword arguments: the fields of `TableOptions` except `path` and `storage`."""

    branch: str | None
    memory_bytes: int
    decode_threads: int


class ReadArguments(SourceArguments, total=False):
    """Keyword arguments: the fields of `ReadOptions` except `columns` and `filter`."""

    version: int | None
    tag: str | None
    asof: str | None
    limit: int | None
    with_row_id: bool
    with_row_address: bool
    partition_bytes: int
    min_partitions: int
    parallelism: int
    batch_size: int | None
    blobs: Literal["descriptions", "bytes"]
    pushdown: bool


class SelectArguments(ReadArguments, total=False):
    """Keyword arguments: the fields of `ReadOptions`, with `columns` and `filter`."""

    columns: Sequence[str] | None
    filter: str | None


class WriteArguments(SourceArguments, total=False):
    """Keyword arguments of a write: the fields of `SparkWriteOptions` except `if_exists`."""

    keep_schema: bool
    merge_schema: bool
    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: str | None
    stable_row_ids: bool
    vectors: Sequence[str]
    message: str | None
    txn_app: str | None
    txn_version: int | None
    max_retries: int
