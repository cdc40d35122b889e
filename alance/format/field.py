"""Field: a node of a schema, with its ids, its Arrow type, and what is special about it.

Source: docs/format/table.md, "Field"; docs/format/file.md, "Logical types".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from alance.format.extensions import EXTENSION_METADATA, EXTENSION_NAME, with_extension
from alance.format.types import BFLOAT16, is_nested, leaf_type, nested_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alance.format.proto import file_pb2

BLOB: Final = "lance-encoding:blob"
BLOB_V2: Final = "lance.blob.v2"
PACKED: Final = ("lance-encoding:packed", "packed")
JSON: Final = "lance.json"
BFLOAT16_LISTS: Final = f"fixed_size_list:{BFLOAT16}:"

# What a blob column holds: its description.
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


@dataclass(frozen=True, slots=True)
class Field:
    """A field with its children.

    Attributes:
        id: the field's id in its table, or in its file.
        message: the protobuf field as it came, with what this alance does not know.
        derived: what was made of the field before, so that it is made once.
    """

    name: str
    id: int
    parent_id: int
    logical_type: str
    nullable: bool
    metadata: Mapping[str, str]
    children: tuple[Field, ...]
    message: file_pb2.Field = field(compare=False, repr=False)
    derived: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def is_packed(self) -> bool:
        """Whether this struct is one column."""
        values = [self.metadata.get(key, "") for key in PACKED]
        return self.logical_type == "struct" and any(
            value.lower() in ("true", "1") for value in values
        )

    @property
    def is_blob_v1(self) -> bool:
        """Whether this is a binary column whose bytes lie outside its pages."""
        return BLOB in self.metadata and self.logical_type in ("large_binary", "binary", "blob")

    @property
    def is_blob_v2(self) -> bool:
        """Whether this is a struct that stands for blobs anywhere."""
        return self.logical_type == "struct" and (
            self.metadata.get(EXTENSION_NAME) == BLOB_V2 or BLOB in self.metadata
        )

    @property
    def is_json(self) -> bool:
        """Whether the column stores JSONB, which is given as JSON text."""
        return self.logical_type == "json" or self.metadata.get(EXTENSION_NAME) == JSON

    @property
    def is_leaf(self) -> bool:
        """Whether this has no child fields."""
        return not is_nested(self.logical_type)

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the stored values: no extension types, descriptions for blobs."""
        if self.is_blob_v1:
            return BLOB_V1_TYPE
        if self.is_blob_v2:
            return BLOB_V2_TYPE
        if self.is_leaf:
            return leaf_type(self.logical_type)
        return nested_type(
            self.logical_type,
            [
                pa.field(child.name, child.arrow_type, child.nullable, child.metadata or None)
                for child in self.children
            ],
        )

    def to_arrow(self) -> pa.Field:
        """The Arrow field of a read: extension types where pyarrow knows them."""
        found: pa.Field | None = self.derived.get("arrow")
        if found is None:
            found = self.derived["arrow"] = self._arrow(as_stored=False)
        return found

    def logical_arrow(self) -> pa.Field:
        """The Arrow field of the table's schema: as of a read, but for blobs."""
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
            arrow = leaf_type(self.logical_type)
        else:
            arrow = nested_type(
                self.logical_type, [child._arrow(as_stored=as_stored) for child in self.children]
            )
        of_bfloat16 = self.logical_type.startswith(BFLOAT16_LISTS)
        if of_bfloat16:
            named = {EXTENSION_NAME: BFLOAT16, EXTENSION_METADATA: ""}
            arrow = pa.list_(pa.field("item", arrow.value_type, metadata=named), arrow.list_size)
        nullable = self.nullable or arrow.id == pa.lib.Type_NA
        made = pa.field(self.name, arrow, nullable, metadata or None)
        return with_extension(made) if of_bfloat16 or EXTENSION_NAME in metadata else made

    def walk(self) -> Iterator[Field]:
        """This field and all below it, depth-first, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()
