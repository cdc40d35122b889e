"""Records of existing data files: written by `FileWriter`, or belonging to a lost version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.base.checks import check_count
from alance.errors import CorruptFileError, InvalidInputError
from alance.file_version import FileVersion
from alance.files import FileReader
from alance.format.encode.container import MANIFEST_NUMBERS
from alance.format.proto import table_pb2
from alance.format.table.fragment import DataFile, inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alance.datasets import Dataset
    from alance.format.field import Field


MAX_MANIFEST_ID: Final = (1 << 32) - 1  # largest id of fragments and base paths


async def create_data_file(
    dataset: Dataset, path: str, *, base_id: int | None = None
) -> table_pb2.DataFile:
    """Return the record of a data file, for operations such as `DataReplacement`.

    Its columns are matched to columns of the table by name.

    Cost: one GET, or two if the footer is larger than 64 KiB.

    Args:
        dataset: the table.
        path: path in the folder `data` of this branch, or below the base path.
        base_id: id of the table's base path that contains the file; None: the table's folder.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: the path is not text or leaves its folder, or the table lacks a column,
            or has it with another type.
        CorruptFileError: the file is not a Lance file, or the version has no such base path.
    """
    return (await _opened(dataset, path, base_id))[0]


async def create_from_file(dataset: Dataset, path: str, fragment_id: int) -> table_pb2.DataFragment:
    """Return the record of a fragment of one data file; see `DatasetFragment.create_from_file`."""
    check_count("fragment_id", fragment_id, 0, MAX_MANIFEST_ID)
    record, num_rows = await _opened(dataset, path, None)
    return table_pb2.DataFragment(id=fragment_id, files=[record], physical_rows=num_rows)


async def _opened(
    dataset: Dataset, path: str, base_id: int | None
) -> tuple[table_pb2.DataFile, int]:
    if not isinstance(path, str):
        raise InvalidInputError(f"path {path!r}: expected a text")
    if base_id is not None:
        check_count("base_id", base_id, 0, MAX_MANIFEST_ID)
    try:
        inside(path, "data file")
    except CorruptFileError as error:  # a manifest's fault elsewhere, the caller's here
        raise InvalidInputError(str(error)) from None
    snapshot = dataset._snapshot
    table = snapshot.table
    named = DataFile(path, {}, FileVersion.V2_1, 0, base_id)
    location = table.data_file(snapshot.manifest, named)
    store, place = table.registry.resolve(location)
    reader = await FileReader.open(place, store=store, session=snapshot.session)
    columns = dict(_columns(snapshot.schema.fields, reader._schema.fields, reader._source.columns))
    major, minor = MANIFEST_NUMBERS[reader.version]
    record = table_pb2.DataFile(
        path=path,
        fields=list(columns),
        column_indices=columns.values() if reader.version > FileVersion.V0_1 else (),
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=reader._source.file_bytes,
    )
    if base_id is not None:
        record.base_id = base_id
    return record, reader.num_rows


def _columns(
    table: Sequence[Field], file: Sequence[Field], places: Mapping[int, int], above: str = ""
) -> Iterator[tuple[int, int]]:
    """Yield the id in the table, and the column in the file, of each field that has a column.

    Args:
        places: column numbers by field id in the file.

    Raises:
        InvalidInputError: the table lacks a field, or has it with another type.
    """
    by_name = {field.name: field for field in table}
    for field in file:
        name, ours = f"{above}{field.name}", by_name.get(field.name)
        if ours is None:
            raise InvalidInputError(f"column {name!r}: the table has none of this name")
        if (ours.logical_type, ours.is_blob_v2) != (field.logical_type, field.is_blob_v2):
            raise InvalidInputError(
                f"column {name!r}: {field.logical_type} in the file, {ours.logical_type} in the "
                "table"
            )
        if field.id in places:
            yield ours.id, places[field.id]
        if not field.is_blob_v2:
            yield from _columns(ours.children, field.children, places, f"{name}.")
