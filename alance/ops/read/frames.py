"""Scans as pandas DataFrames with blobs as files: `to_pandas(blob_mode="lazy")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from alance.errors import UnsupportedError
from alance.format.numbers import as_numbers, text_array
from alance.ops.blobs.places import check_structure, has_blobs, leaves_of, places_of, rebuilt
from alance.ops.read.blob_bytes import output_fields
from alance.ops.read.blobs import BlobFile
from alance.ops.version.projection import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from alance.format.field import Field
    from alance.ops.blobs.places import BlobPlace
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

    Files: TypeAlias = list[object]
    AsFile: TypeAlias = Callable[[BlobFile], object]

HEADER_NUMBER_BYTES: Final = 8


def file_columns(snapshot: Snapshot, columns: Columns) -> dict[str, Field]:
    """Return the fields of output columns whose blobs can be returned as files."""
    fields = output_fields(snapshot, columns)
    return {name: field for name, field in fields if _is_reachable(field)}


def _is_reachable(field: Field) -> bool:
    try:
        check_structure(field)
    except UnsupportedError:
        return False  # such columns keep their descriptions
    return True


async def frame_with_files(
    snapshot: Snapshot,
    table: pa.Table,
    fields: Mapping[str, Field],
    as_file: AsFile,
    arguments: Mapping[str, Any],
    *,
    keep_address: bool,
) -> pd.DataFrame:
    """Return a table as a DataFrame, with files (None for nulls) instead of blob descriptions.

    Cost: a HEAD per object that rows refer to as a whole by URI.

    Args:
        table: table with the column `_rowaddr`.
        fields: fields of the columns with blobs.
        as_file: converts a blob to the object in the frame; called in a thread.
        arguments: arguments of pyarrow's `Table.to_pandas`.
        keep_address: True to leave `_rowaddr` in the output.
    """
    run = snapshot.engine.pool.run
    fragments = as_numbers(table.column(ROW_ADDRESS)) >> np.uint64(32)
    arrays = {name: table.column(name).combine_chunks() for name in fields}
    places: dict[str, list[list[BlobPlace | None]]] = {}
    for name, field in fields.items():
        leaves = await run(
            lambda field=field, array=arrays[name]: list(leaves_of(field, array, fragments))  # type: ignore[misc]
        )
        places[name] = [await places_of(snapshot, *leaf) for leaf in leaves]

    def build() -> pd.DataFrame:
        rest = table if keep_address else table.drop_columns([ROW_ADDRESS])
        names = rest.column_names
        files: Files = []
        numbered: dict[str, list[list[int]]] = {}
        for name, field in fields.items():
            numbered[name] = [_numbered(snapshot, leaf, as_file, files) for leaf in places[name]]
            rest = _with_numbers(rest, name, field, arrays[name], numbered[name])
        if rest.num_columns:
            frame = rest.to_pandas(**arguments)
        else:
            frame = pd.DataFrame(index=range(len(table)))
        for index, name in enumerate(names):
            if name in fields and _is_blob(fields[name]):
                values = [None if number < 0 else files[number] for number in numbered[name][0]]
                column = pd.Series(values, frame.index, object)
                frame.insert(min(index, frame.shape[1]), name, column)
            elif name in fields:
                values = [_with_files(fields[name], value, files) for value in frame[name]]
                frame[name] = pd.Series(values, frame.index, object)
        return frame

    return await run(build)


def _is_blob(field: Field) -> bool:
    return field.is_blob_v1 or field.is_blob_v2


def _with_numbers(
    table: pa.Table, name: str, field: Field, array: pa.Array, numbered: Sequence[list[int]]
) -> pa.Table:
    """Replace blobs inside a column by indices into the list of files; drop a column of blobs."""
    index = table.schema.get_field_index(name)
    if _is_blob(field):
        return table.remove_column(index)
    array = rebuilt(field, array, iter(map(_as_binary, numbered)))
    return table.set_column(index, pa.field(name, array.type), array)


def _numbered(
    snapshot: Snapshot, places: Sequence[BlobPlace | None], as_file: AsFile, files: Files
) -> list[int]:
    """Append the blobs to `files`, and return the number of each; -1 for a null."""
    numbers = []
    for place in places:
        numbers.append(-1 if place is None else len(files))
        if place is not None:
            files.append(as_file(BlobFile(snapshot, place)))
    return numbers


def _as_binary(numbers: list[int]) -> pa.Array:
    # pandas does not change bytes, but converts integers in a column with nulls to floats.
    parts = [number.to_bytes(HEADER_NUMBER_BYTES, "little", signed=True) for number in numbers]
    return text_array(parts, pa.large_binary(), np.array(numbers, np.int64) >= 0)


def _with_files(field: Field, value: Any, files: Files) -> Any:
    """Replace file numbers in a pandas value by the files; see `_with_numbers`."""
    if _is_blob(field):
        return files[int.from_bytes(value, "little")] if isinstance(value, bytes) else None
    if isinstance(value, dict):
        changed = {
            child.name: _with_files(child, value[child.name], files)
            for child in field.children
            if has_blobs(child)
        }
        return {**value, **changed}
    if isinstance(value, np.ndarray | list):
        items = np.empty(len(value), object)
        for number, item in enumerate(value):
            items[number] = _with_files(field.children[0], item, files)
        return items
    return value
