"""Field: a node of a schema, with its ids, its Arrow type and its special kinds.

Metadata of a field can make it part of an unenforced primary or clustering key:

  lance-schema:unenforced-primary-key              true, 1 or yes, in any case
  lance-schema:unenforced-primary-key:position     from 1 on; 0: in the order of the fields
  lance-schema:unenforced-clustering-key:position  from 1 on

A position alone also makes a field part of the key. A position that is not a number is ignored.

Source: docs/format/table.md, "Field"; docs/format/file.md, "Logical types".
"""

from __future__ import annotations

import re
from dataclasses import field as attribute
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.format.types import (
    BFLOAT16,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    is_nested,
    leaf_type,
    nested_type,
    with_extension,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from alance.format.proto import file_pb2

T = TypeVar("T")

PRIMARY_KEY: Final = "lance-schema:unenforced-primary-key"
PRIMARY_POSITION: Final = "lance-schema:unenforced-primary-key:position"
CLUSTERING_POSITION: Final = "lance-schema:unenforced-clustering-key:position"
PRIMARY_KEYS: Final = (PRIMARY_KEY, PRIMARY_POSITION)
KEY_PROPERTIES: Final = (*PRIMARY_KEYS, CLUSTERING_POSITION)
TRUE_TEXTS: Final = ("true", "1", "yes")
NUMBER: Final = re.compile(r"\+?[0-9]+", re.ASCII)
MAX_POSITION: Final = (1 << 32) - 1
BLOB: Final = "lance-encoding:blob"
BLOB_V2: Final = "lance.blob.v2"
PACKED_KEYS: Final = ("lance-encoding:packed", "packed")
JSON_EXTENSION: Final = "lance.json"
BFLOAT16_LISTS: Final = f"fixed_size_list:{BFLOAT16}:"

# Types of the descriptions that blob columns store.
BLOB_V1_TYPE: Final = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
BLOB_V2_TYPE: Final = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)


# Not frozen, because that would triple the time to build a field; a table may have thousands.
@dataclass(slots=True)
class Field:
    """Field with its children. Immutable.

    Attributes:
        id: id of the field in its table, or in its file.
        message: the protobuf field, including members that this release of alance does not know.
        derived: memo of values computed from the field.
    """

    name: str
    id: int
    parent_id: int
    logical_type: str
    nullable: bool
    metadata: Mapping[str, str]
    children: tuple[Field, ...]
    message: file_pb2.Field = attribute(compare=False, repr=False)
    derived: dict[str, Any] = attribute(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def is_packed(self) -> bool:
        """True if the field is a struct that is stored as a single column."""
        if self.logical_type != "struct":
            return False
        return any(self.metadata.get(key, "").lower() in ("true", "1") for key in PACKED_KEYS)

    @property
    def is_blob_v1(self) -> bool:
        """True if the field is binary, and its bytes are stored outside of its pages."""
        return BLOB in self.metadata and self.logical_type in ("large_binary", "binary", "blob")

    @property
    def is_blob_v2(self) -> bool:
        """True if the field is a struct that describes blobs, in the file or outside of it."""
        return self.logical_type == "struct" and (
            self.metadata.get(EXTENSION_NAME) == BLOB_V2 or BLOB in self.metadata
        )

    @property
    def is_json(self) -> bool:
        """True if the field stores JSONB, which is read as JSON text."""
        return self.logical_type == "json" or self.metadata.get(EXTENSION_NAME) == JSON_EXTENSION

    def as_stored(self) -> Field:
        """Return this JSON field as a field of plain binary, to read the stored JSONB."""
        hidden = (EXTENSION_NAME, EXTENSION_METADATA)
        metadata = {key: text for key, text in self.metadata.items() if key not in hidden}
        own = (self.name, self.id, self.parent_id, "large_binary", self.nullable)
        return Field(*own, metadata, (), self.message)

    @property
    def is_leaf(self) -> bool:
        """True if this field has no child fields."""
        return not is_nested(self.logical_type)

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the stored values, without extension types.

        For blobs, it is the type of their descriptions.
        """
        if self.is_blob_v1:
            return BLOB_V1_TYPE
        if self.is_blob_v2:
            return BLOB_V2_TYPE
        if self.is_leaf:
            return self._leaf_type()
        return nested_type(
            self.logical_type,
            [
                pa.field(child.name, child.arrow_type, child.nullable, child.metadata or None)
                for child in self.children
            ],
        )

    def _leaf_type(self) -> pa.DataType:
        try:
            return leaf_type(self.logical_type)
        except UnsupportedError as error:
            error.add_note(f"in field {self.name!r}: read other columns by name, or drop this one")
            raise

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field of read batches, with the extension types that pyarrow knows."""
        return self.derive("arrow", lambda field: field._arrow(as_stored=False))

    def derive(self, name: str, make: Callable[[Field], T]) -> T:
        """Return a value computed from this field alone; memoized by name.

        Args:
            name: key of the memo.
            make: computes the value, which must not be None.
        """
        value: T | None = self.derived.get(name)
        if value is None:
            value = self.derived[name] = make(self)
        return value

    def logical_arrow(self) -> pa.Field:
        """Return the Arrow field of the table's schema.

        For blobs, it differs from that of read batches.
        """
        return self._arrow(as_stored=True)

    def _arrow(self, *, as_stored: bool) -> pa.Field:
        metadata = dict(self.metadata)
        if (self.is_blob_v1 or self.is_blob_v2) and not as_stored:
            if self.is_blob_v2:
                metadata = {"lance-encoding:packed": "true", BLOB: "true"}
            return pa.field(self.name, self.arrow_type, self.nullable, metadata)
        if self.is_json:
            metadata.pop(EXTENSION_NAME, None)
            metadata.pop(EXTENSION_METADATA, None)
            return pa.field(self.name, pa.json_(), self.nullable, metadata or None)
        if self.is_leaf:
            arrow = self._leaf_type()
        else:
            arrow = nested_type(
                self.logical_type, [child._arrow(as_stored=as_stored) for child in self.children]
            )
        of_bfloat16 = self.logical_type.startswith(BFLOAT16_LISTS)
        if of_bfloat16:
            named = {EXTENSION_NAME: BFLOAT16, EXTENSION_METADATA: ""}
            arrow = pa.list_(pa.field("item", arrow.value_type, metadata=named), arrow.list_size)
        nullable = self.nullable or arrow.id == pa.lib.Type_NA
        plain = pa.field(self.name, arrow, nullable, metadata or None)
        return with_extension(plain) if of_bfloat16 or EXTENSION_NAME in metadata else plain

    def walk(self) -> Iterator[Field]:
        """Yield this field and its descendants, depth-first."""
        yield self
        for child in self.children:
            yield from child.walk()


def set_keys(field: file_pb2.Field) -> None:
    """Set the key members of a protobuf field from its metadata."""
    texts = {key: field.metadata[key].decode() for key in KEY_PROPERTIES if key in field.metadata}
    position = _position(texts.get(PRIMARY_POSITION, ""))
    is_key = texts.get(PRIMARY_KEY, "").lower() in TRUE_TEXTS
    field.unenforced_primary_key = is_key or position is not None
    field.unenforced_primary_key_position = position or 0
    field.unenforced_clustering_key_position = _position(texts.get(CLUSTERING_POSITION, "")) or 0


def _position(text: str) -> int | None:
    number = int(text) if NUMBER.fullmatch(text) else MAX_POSITION + 1
    return number if number <= MAX_POSITION else None


def check_primary_key(fields: Sequence[file_pb2.Field]) -> None:
    """Check the fields of a table's primary key.

    Raises:
        InvalidInputError: a key field has child fields, is in a list or map, is nullable, or has a
            nullable parent.
    """
    by_id = {field.id: field for field in fields}
    for field in fields:
        if not field.unenforced_primary_key:
            continue
        if is_nested(field.logical_type):
            raise _refused(field, f"a {field.logical_type}, expected one without fields of its own")
        around: file_pb2.Field | None = field
        while around is not None:
            if around.nullable:
                raise _refused(field, f"{around.name!r} is nullable, expected a key without nulls")
            around = by_id.get(around.parent_id)
            if around is not None and around.logical_type != "struct":
                raise _refused(field, f"it is in {around.logical_type} {around.name!r}")


def _refused(field: file_pb2.Field, reason: str) -> InvalidInputError:
    return InvalidInputError(f"primary key field {field.name!r}: {reason}")


def field_paths(
    fields: Iterable[Field],
    inside: Callable[[Field], Iterable[Field]] = attrgetter("children"),
    above: tuple[str, ...] = (),
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yield the path of each field and of its descendants, depth-first.

    Args:
        inside: returns the fields to visit below a field.
    """
    for field in fields:
        path = (*above, field.name)
        yield path, field
        yield from field_paths(inside(field), inside, path)


def struct_paths(fields: Sequence[Field]) -> dict[int, tuple[str, ...]]:
    """Return the path of each field with one value per row (columns, members of structs), by id."""
    members = field_paths(fields, lambda field: field.children * (field.logical_type == "struct"))
    return {field.id: path for path, field in members}
