"""Scans as pandas DataFrames with blobs as files: `to_pandas(blob_mode="lazy")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from alance.errors import UnsupportedError
from alance.ops.blobs.places import check_structure, has_blobs, rebuilt
from alance.ops.read.blob_bytes import output_fields, places_in
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
    arrays = {name: table.column(name).combine_chunks() for name in fields}
    places = {
        name: await places_in(snapshot, field, arrays[name], table.column(ROW_ADDRESS))
        for name, field in fields.items()
    }

    def build() -> pd.DataFrame:
        rest = table if keep_address else table.drop_columns([ROW_ADDRESS])
        files: Files = []
        for name, field in fields.items():
            numbers = [_numbered(snapshot, leaf, as_file, files) for leaf in places[name]]
            array = rebuilt(field, arrays[name], iter(numbers))
            index = rest.schema.get_field_index(name)
            rest = rest.set_column(index, pa.field(name, array.type), array)
        frame = rest.to_pandas(**arguments)
        for name, field in fields.items():
            values = [_with_files(field, value, files) for value in frame[name]]
            frame[name] = pd.Series(values, frame.index, object)
        return frame

    return await snapshot.engine.pool.run(build)


def _numbered(
    snapshot: Snapshot, places: Sequence[BlobPlace | None], as_file: AsFile, files: Files
) -> pa.Array:
    """Append the blobs to `files`, and return the number of each; -1 for a null.

    There are no nulls, because pandas converts integers in a column with nulls to floats.
    """
    numbers = []
    for place in places:
        numbers.append(-1 if place is None else len(files))
        if place is not None:
            files.append(as_file(BlobFile(snapshot, place)))
    return pa.array(numbers, pa.int64())


def _with_files(field: Field, value: Any, files: Files) -> Any:
    """Replace file numbers in a pandas value by the files; see `_numbered`."""
    if field.is_blob_v1 or field.is_blob_v2:
        return None if value < 0 else files[int(value)]
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
