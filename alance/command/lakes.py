"""Reader of Delta and Iceberg tables for `write` and `append`, by the packages of these formats.

A Delta table is a folder with `_delta_log`. An Iceberg table is a folder with files
`metadata/*.metadata.json`, such a file, or a name in a catalog of pyiceberg:
`iceberg://CATALOG/NAMESPACE/TABLE`. Deleted rows, renamed columns and partitions are applied by the
packages. Plain reading of the Parquet files would ignore these.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance import AlanceError, InvalidInputError
from alance.base.extras import missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LAKE_FORMATS: Final = ("delta", "iceberg")
DELTA_LOG: Final = "_delta_log"
METADATA: Final = "metadata"
METADATA_ENDING: Final = ".metadata.json"
CATALOG_SCHEME: Final = "iceberg://"
_METADATA_NUMBER: Final = re.compile(r"v?(\d+)")


def lake_reader(
    paths: Sequence[str], form: str | None, storage: Mapping[str, str]
) -> pa.RecordBatchReader | None:
    """Stream the rows of a Delta or Iceberg table; None if the paths are files.

    Rows are streamed batch by batch from a Delta table, and file by file from an Iceberg table.

    Args:
        paths: paths or URIs, which may also be of files.
        form: `delta`, `iceberg`, or the format of files; None: the format of local folders is
            recognized.
        storage: options of the store, by the names of the format's package.

    Raises:
        InvalidInputError: the table cannot be read, or is one of several paths.
        MissingPackageError: the package of the format is not installed.
    """
    forms = {path: form or _lake_format(path) for path in paths}
    lakes = [path for path, lake in forms.items() if lake in LAKE_FORMATS]
    if not lakes:
        return None
    path = lakes[0]
    if len(paths) > 1:
        raise InvalidInputError(
            f"{path}: a {forms[path]} table is read alone; append the others by further commands"
        )
    try:
        read = _read_delta if forms[path] == "delta" else _read_iceberg
        schema, batches = read(path, storage)
    except AlanceError:
        raise
    except Exception as error:  # each package has errors of its own
        raise _failure(path, error) from error
    return pa.RecordBatchReader.from_batches(schema, _checked(path, schema, batches))


def _failure(path: str, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"{path}: {type(error).__name__}: {error}")


def _checked(
    path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Cast batches to the table's schema; a failure names the table.

    Raises:
        InvalidInputError: a file cannot be read.
    """
    try:
        for batch in batches:
            yield batch.cast(schema)
    except Exception as error:  # each package has errors of its own
        raise _failure(path, error) from error


def _lake_format(path: str) -> str | None:
    """Return the format of a local folder, or of a name in a catalog; None if it is neither."""
    if path.startswith(CATALOG_SCHEME) or path.endswith(METADATA_ENDING):
        return "iceberg"
    if "://" in path:
        return None
    folder = Path(path)
    if (folder / DELTA_LOG).is_dir():
        return "delta"
    return "iceberg" if _metadata_files(folder) else None


def _metadata_files(folder: Path) -> list[Path]:
    return list((folder / METADATA).glob(f"*{METADATA_ENDING}"))


def refuse_lake(uri: str, paths: Sequence[str]) -> None:
    """Check that the files below the URI of a folder are not those of a Delta or Iceberg table.

    Raises:
        InvalidInputError: they are, so that plain reading would return rows that are deleted.
    """
    for form, mark in (("delta", f"/{DELTA_LOG}/"), ("iceberg", METADATA_ENDING)):
        if any(mark in path for path in paths):
            raise InvalidInputError(f"{uri}: a {form} table; read it by --format {form}")


def _read_delta(
    path: str, storage: Mapping[str, str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise missing("Delta tables need the package deltalake", "delta") from error
    table = DeltaTable(path, storage_options=dict(storage) or None)
    schema = pa.schema(table.schema().to_arrow())
    return _plain(schema), iter(pa.RecordBatchReader.from_stream(table.scan()))


def _read_iceberg(
    path: str, storage: Mapping[str, str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise missing("Iceberg tables need the package pyiceberg", "iceberg") from error
    if path.startswith(CATALOG_SCHEME):
        catalog, _, name = path.removeprefix(CATALOG_SCHEME).partition("/")
        table: Any = load_catalog(catalog, **storage).load_table(tuple(name.split("/")))
    else:
        table = StaticTable.from_metadata(_metadata_place(path), dict(storage))
    scan = table.scan()
    reader = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)

    def batches() -> Iterator[pa.RecordBatch]:
        for task in scan.plan_files():  # all at once would be read far ahead of the consumer
            yield from reader.to_record_batches([task])

    return _plain(schema_to_pyarrow(scan.projection())), batches()


def _metadata_place(path: str) -> str:
    """Return the newest metadata file of a local folder; other paths and URIs as they are.

    Raises:
        InvalidInputError: several files have the greatest number, of which any may be the newest.
    """
    folder = Path(path)
    files = [] if "://" in path else _metadata_files(folder)
    if not files or (folder / METADATA / "version-hint.text").exists():
        return path
    numbers: dict[int, list[Path]] = {}
    for file in files:
        match = _METADATA_NUMBER.match(file.name)
        numbers.setdefault(int(match[1]) if match else -1, []).append(file)
    newest = sorted(numbers[max(numbers)])
    if len(newest) > 1:
        listed = " or ".join(map(str, newest))
        raise InvalidInputError(f"{path}: the newest metadata file is not clear; name it: {listed}")
    return str(newest[0].absolute())


def _plain(schema: pa.Schema) -> pa.Schema:
    """Remove the metadata of a schema and of all its fields, such as Iceberg's ids of fields."""
    return pa.schema([_plain_field(field) for field in schema])


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_plain_field(type_.field(place)) for place in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_field(type_.item_field))
    if pa.types.is_large_list(type_):
        return pa.large_list(_plain_field(type_.value_field))
    if pa.types.is_list(type_):
        return pa.list_(_plain_field(type_.value_field))
    return type_
