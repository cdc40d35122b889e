"""Blob columns as Arrow fields: declarations by callers, and conversion from version 1 to 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.base.calls import public
from alance.base.checks import check_count, check_text, check_type, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.encode.blobs import DEDICATED_KEY, INLINE_KEY, PACK_KEY, PREPARED_TYPE
from alance.format.field import BLOB, BLOB_V2
from alance.format.numbers import is_variable_list
from alance.format.types import EXTENSION_METADATA, EXTENSION_NAME, MAX_FIELD_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

LOGICAL: Final = pa.struct(
    [
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
    ]
)


@public
@public_arguments
@dataclass(frozen=True, slots=True)
class Blob:
    """A value of a blob column for `blob_array`: bytes, or the URI of an object.

    Attributes:
        data: the bytes.
        uri: URI of an object, instead of `data`.
        position: offset of the blob in the object; None if the blob is the whole object.
        size: size of the blob in bytes; None if the blob is the whole object.

    Raises:
        InvalidInputError: not exactly one of `data` and `uri` is set, or `position` and `size` are
            not a part of an object.
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.uri is None) or self.uri == "":
            raise InvalidInputError("blob: expected `data` or `uri`, and one of them alone")
        if (self.position is None) != (self.size is None) or (self.size and self.uri is None):
            raise InvalidInputError("blob: `position` and `size` go together, and with a `uri`")
        if self.size is not None and self.position is not None:
            check_count("position", self.position, 0)
            check_count("size", self.size)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Blob:
        """Return a blob of bytes.

        Args:
            data: copied.
        """
        return cls(bytes(data))

    @classmethod
    def from_uri(cls, uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """Return a blob that is an object, or a part of an object.

        Args:
            uri: URI of the object.
            position, size: offset and size of the part in bytes; None: the whole object.

        Raises:
            InvalidInputError: an empty URI, or only one of `position` and `size`.
        """
        return cls(uri=uri, position=position, size=size)

    @classmethod
    def empty(cls) -> Blob:
        """Return a blob without bytes, which is not null."""
        return cls(b"")


@public
def blob_array(values: Iterable[Blob | bytes | bytearray | memoryview | str | None]) -> pa.Array:
    """Convert values of a blob column to an Arrow array of the type of `blob_field`.

    Args:
        values: bytes, URIs as text, `Blob`s, and None for nulls.

    Raises:
        InvalidInputError: other values.
    """
    check_type("values", values, Iterable, "a list of bytes, URIs, Blobs and None")
    return pa.array([_logical(value) for value in values], LOGICAL)


def blob_values(values: Iterable[object], field: pa.Field) -> pa.Array:
    """Build a column from Python values, for a field that is a blob or contains blobs.

    Args:
        values: a blob is a value that `blob_array` takes, or a mapping of its members; a struct is
            a mapping, a list an iterable.

    Raises:
        InvalidInputError: a blob has another type.
        ArrowException, TypeError, ValueError: a value does not fit the field.
    """
    return pa.array([_with_blobs(value, field) for value in values], _values_type(field))


def _with_blobs(value: Any, field: pa.Field) -> Any:
    """Replace the blobs inside a value by their structs."""
    if value is None:
        return None
    if _is_blob_v2(field):
        return value if isinstance(value, Mapping) else _logical(value)
    if pa.types.is_struct(field.type) and isinstance(value, Mapping):
        return {name: _with_blobs(value.get(name), field.type.field(name)) for name in value}
    if is_variable_list(field.type) and not isinstance(value, str | bytes):
        return [_with_blobs(item, field.type.value_field) for item in value]
    return value


def _values_type(field: pa.Field) -> pa.DataType:
    """Return the Arrow type of a field, with each blob as a struct of all its members."""
    arrow = field.type
    if _is_blob_v2(field):
        return LOGICAL
    if pa.types.is_struct(arrow):
        members = [arrow.field(number) for number in range(arrow.num_fields)]
        return pa.struct([member.with_type(_values_type(member)) for member in members])
    if not is_variable_list(arrow) or not has_blobs(field):
        return arrow
    item = arrow.value_field.with_type(_values_type(arrow.value_field))
    return pa.large_list(item) if pa.types.is_large_list(arrow) else pa.list_(item)


def _logical(value: object) -> dict[str, object] | None:
    """Convert a value of a blob column to a struct; None for a null."""
    if isinstance(value, str):
        value = Blob(uri=value)
    elif isinstance(value, bytes | bytearray | memoryview):
        value = Blob(bytes(value))
    if value is None:
        return None
    if not isinstance(value, Blob):
        raise InvalidInputError(f"blob {value!r:.100}: expected bytes, a URI, a Blob or None")
    return {name: getattr(value, name) for name in ("data", "uri", "position", "size")}


@public
def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """Return the field of a blob column, for schemas of new tables.

    Rows of the column are binary values, or structs of `data` or `uri` (with `position` and `size`
    for a part of an object), as from `blob_array` and `lance.blob_array`.

    Args:
        name: name of the column.
        nullable: False forbids nulls.
        inline_size_threshold: bytes of the largest blob that is stored in the data file; None: 64
            KiB.
        dedicated_size_threshold: bytes of the largest blob that shares an object; None: 4 MiB.
        pack_file_size_threshold: maximum bytes of an object of several blobs; None: 1 GiB.

    Raises:
        InvalidInputError: the name is not text.
    """
    check_text("name", name)
    limits = {
        INLINE_KEY: inline_size_threshold,
        DEDICATED_KEY: dedicated_size_threshold,
        PACK_KEY: pack_file_size_threshold,
    }
    metadata = {key: str(value) for key, value in limits.items() if value is not None}
    named = {EXTENSION_NAME: BLOB_V2, EXTENSION_METADATA: ""}
    return pa.field(name, LOGICAL, nullable, {**named, **metadata})


def has_blobs(field: pa.Field) -> bool:
    """True if the field or any of its descendants is a blob of version 2."""
    return any(_is_blob_v2(below) for below in _walk(field))


def may_be_blobs(field: pa.Field) -> bool:
    """True if the field or any of its descendants is a blob of any version."""
    return any(
        _is_blob_v2(below) or BLOB.encode() in (below.metadata or {}) for below in _walk(field)
    )


def blobs_of_version(schema: pa.Schema, version: FileVersion) -> pa.Schema:
    """Return the schema of a new table: in files of 2.2 or later, all blobs have version 2."""
    if version < FileVersion.V2_2:
        return schema
    changed = [_newer(root) for root in schema]
    return schema if changed == list(schema) else pa.schema(changed, schema.metadata)


def _walk(field: pa.Field) -> Iterator[pa.Field]:
    yield field
    if not isinstance(field.type, pa.BaseExtensionType):
        for number in range(field.type.num_fields):
            yield from _walk(field.type.field(number))


def _is_blob_v2(field: pa.Field) -> bool:
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == BLOB_V2)
    return bool((field.metadata or {}).get(EXTENSION_NAME.encode()) == BLOB_V2.encode())


def _newer(field: pa.Field, depth: int = 0) -> pa.Field:
    """Return a field with all blobs in it converted to version 2."""
    if depth > MAX_FIELD_DEPTH:
        return field  # the schema is refused later
    arrow, metadata = field.type, dict(field.metadata or {})
    if arrow == PREPARED_TYPE and _is_blob_v2(field):
        return field.with_type(pa.struct(list(LOGICAL)[:2]))  # these rows have only data, no URIs
    if pa.types.is_struct(arrow) and not isinstance(arrow, pa.BaseExtensionType):
        members = [arrow.field(number) for number in range(arrow.num_fields)]
        return field.with_type(pa.struct([_newer(member, depth + 1) for member in members]))
    is_binary = pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow)
    if not is_binary or BLOB.encode() not in metadata:
        return field
    del metadata[BLOB.encode()]
    metadata[EXTENSION_NAME.encode()] = BLOB_V2.encode()
    return pa.field(field.name, pa.struct(list(LOGICAL)[:2]), field.nullable, metadata)
