"""Reader of files for `write` and `append`: streams the rows file by file.

A folder stands for all files below it. The folders `key=value` directly above a file are partition
columns, as in Hive, Spark and DuckDB: each gives one value for all rows of the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from io import BufferedReader
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from alance import InvalidInputError
from alance.command.lakes import lake_reader
from alance.command.sources import SourceFile, source_files
from alance.serve.json_columns import parsed, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# pyarrow's name of each file format, by the suffix of file names.
FORMAT_BY_ENDING = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "ipc",
    ".ipc": "ipc",
    ".feather": "ipc",
}
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # name for null
JSON_BLOCK_BYTES = 1 << 20  # bytes of JSON lines that become one batch
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_PARTITION_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True)  # without slots, for the cached schema
class RowFile:
    """A file with rows.

    Attributes:
        source: the file.
        form: pyarrow's name of the file's format.
        folders: partition values as text, by key; None stands for null.
    """

    source: SourceFile
    form: str
    folders: Mapping[str, str | None]

    def schema(self, partitions: pa.Schema, types: pa.Schema | None) -> pa.Schema:
        """Return the columns in the file, followed by the partition columns that it lacks.

        Args:
            partitions: the partition columns of all files.
            types: schema of the target table, by which JSON files are read; None: types are
                inferred.
        """
        own = types if types is not None and self.form == "json" else self.own_schema
        return pa.schema([*own, *(f for f in partitions if f.name not in own.names)])

    @cached_property
    def own_schema(self) -> pa.Schema:
        """The columns in the file, as pyarrow infers them."""
        return self.arrow_dataset(None).schema

    def arrow_dataset(self, schema: pa.Schema | None) -> Any:
        """Return pyarrow's dataset of the file."""
        from pyarrow import dataset

        return dataset.dataset(
            self.source.path, schema, format=self.form, filesystem=self.source.files
        )


def reader_of(
    paths: Sequence[str],
    form: str | None,
    types: pa.Schema | None,
    *,
    with_folders: bool,
    storage: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Stream the rows of all files, without holding a whole file in memory.

    Args:
        paths: paths or URIs of files, of folders of files, and patterns of both, such as
            `2024-*/**/*.parquet`.
        form: format of all files, or of a table in `LAKE_FORMATS`; None: the format is that of each
            file's suffix, and folders that are tables are recognized.
        types: schema of the target table, by which JSON is read, because JSON has few types; None:
            types are inferred from the files.
        with_folders: True to make partition columns of folders named `key=value`.
        storage: options of the stores of URIs.

    Raises:
        InvalidInputError: there are no files; or a file does not exist, cannot be read, is of an
            unknown format, or has columns that differ from those of the first file.
        MissingPackageError: a Delta or Iceberg table needs a package.
    """
    if (reader := lake_reader(paths, form, storage or {})) is not None:
        return reader
    files = [
        _row_file(source, form, with_folders=with_folders)
        for path in paths
        for source in source_files(path, storage or {})
    ]
    if not files:
        raise InvalidInputError(f"{', '.join(paths)}: expected files, found none")
    try:
        partitions = _partitions(files, types)
        schemas = [file.schema(partitions, types) for file in files]
        for file, schema in zip(files, schemas, strict=True):
            if set(schema.names) != set(schemas[0].names):
                raise InvalidInputError(
                    f"{file.source.name}: columns {', '.join(schema.names)}; "
                    f"expected those of {files[0].source.name}: {', '.join(schemas[0].names)}"
                )
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"{', '.join(paths)}: {error}") from error
    by_types = types is not None
    batches = chain.from_iterable(_batches(file, schema, by_types=by_types) for file in files)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _row_file(source: SourceFile, form: str | None, *, with_folders: bool) -> RowFile:
    folders = _folders(source) if with_folders else {}
    return RowFile(source, form or _format_of(source), folders)


def _folders(source: SourceFile) -> dict[str, str | None]:
    """Parse the `key=value` folders directly above a file, outermost first; None means null."""
    folders: dict[str, str | None] = {}
    for name in source.folders:
        key, sign, text = name.partition("=")
        if not sign or not key:
            break
        folders.setdefault(unquote(key), None if text == HIVE_NULL else unquote(text))
    return dict(reversed(folders.items()))


def _partitions(files: Sequence[RowFile], types: pa.Schema | None) -> pa.Schema:
    """Return the partition columns, typed as in the table or by the values of all files."""
    texts: dict[str, set[str]] = {}
    for file in files:
        for key, text in file.folders.items():
            texts.setdefault(key, set()).update([] if text is None else [text])
    by_name = {} if types is None else {field.name: field for field in types}
    return pa.schema(
        [by_name.get(key) or pa.field(key, _type_of(among)) for key, among in texts.items()]
    )


def _type_of(texts: set[str]) -> pa.DataType:
    """Infer a type: integer or date if all texts have that form, else text (`007` is text)."""
    if not texts:
        return pa.string()
    if all(_INTEGER.fullmatch(text) and str(int(text)) == text for text in texts):
        fits = all(-(1 << 31) <= int(text) < 1 << 31 for text in texts)
        return pa.int32() if fits else pa.int64()
    return pa.date32() if all(map(_is_date, texts)) else pa.string()


def _is_date(text: str) -> bool:
    if not _PARTITION_DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _batches(file: RowFile, schema: pa.Schema, *, by_types: bool) -> Iterator[pa.RecordBatch]:
    """Read a file and validate its batches, because pyarrow does not check offsets and UTF-8.

    Raises:
        InvalidInputError: the file cannot be read, or its rows do not fit the schema.
    """
    try:
        for batch in _own_batches(file, schema, by_types=by_types):
            batch.validate(full=True)
            yield batch
    except (pa.ArrowException, OSError) as error:
        message = str(error)
        if "unexpected field" in message:
            message += "; a row has a field that the first rows do not have; put such a row first"
        raise InvalidInputError(f"{file.source.name}: {message}") from error


def _own_batches(file: RowFile, schema: pa.Schema, *, by_types: bool) -> Iterator[pa.RecordBatch]:
    from pyarrow import json

    if file.form == "json" and by_types:
        rows: Iterable[pa.RecordBatch] = _typed_lines(file.source, schema)
    else:
        names = file.own_schema.names if file.folders else schema.names
        own = pa.schema([field for field in schema if field.name in names])
        if file.form == "json":  # a dataset would omit fields that only late rows have
            options = json.ParseOptions(explicit_schema=own, unexpected_field_behavior="error")
            lines = file.source.files.open_input_stream(file.source.path)
            rows = json.open_json(lines, parse_options=options)
        else:
            rows = file.arrow_dataset(own).to_batches()
    for batch in rows:
        yield _completed(batch, file, schema)


def _completed(batch: pa.RecordBatch, file: RowFile, schema: pa.Schema) -> pa.RecordBatch:
    """Complete a batch to a schema: add partition columns, and nulls for other columns."""
    if batch.schema.names == schema.names:
        return batch
    columns = []
    for field in schema:
        if field.name in batch.schema.names:
            columns.append(batch[field.name])
        else:
            text = pa.scalar(file.folders.get(field.name), pa.string())
            value = text.cast(field.type) if text.is_valid else pa.nulls(1, field.type)[0]
            columns.append(pa.repeat(value, batch.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _typed_lines(source: SourceFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read JSON lines by the types of a table. A batch has the columns that its rows name.

    The Z of a time of UTC, such as 2024-01-01T00:00:00Z, is ignored if the column has no zone:
    from such times pyarrow infers a column without a zone when `write` creates a table.

    Raises:
        InvalidInputError: a line is not a JSON object, or a column cannot represent a value.
    """
    path = source.name
    naive = [field.name for field in schema if getattr(field.type, "tz", "none") is None]
    with BufferedReader(source.files.open_input_stream(source.path)) as file:
        first = 1
        while lines := file.readlines(JSON_BLOCK_BYTES):
            rows = []
            for number, line in enumerate(lines, first):
                if line.strip():
                    row = _object(path, number, line)
                    for name in naive:
                        if isinstance(row.get(name), str):
                            row[name] = row[name].rstrip("Zz")
                    rows.append(row)
            try:
                columns = table_of(rows, schema)
            except InvalidInputError as error:
                last = first + len(lines) - 1
                raise InvalidInputError(f"{path}, lines {first} to {last}: {error}") from error
            first += len(lines)
            yield from columns.to_batches()


def _object(path: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = parsed(line.removeprefix(b"\xef\xbb\xbf"), exact=True)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}, line {number}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InvalidInputError(f"{path}, line {number}: expected a JSON object")
    return row


def _format_of(source: SourceFile) -> str:
    """Return pyarrow's name of a file's format.

    Raises:
        InvalidInputError: the suffix of the file's name is unknown.
    """
    form = FORMAT_BY_ENDING.get(source.ending)
    if form is None:
        endings = ", ".join(sorted(FORMAT_BY_ENDING))
        raise InvalidInputError(f"{source.name}: unknown ending; expected {endings}, or --format")
    return form
