"""What fields of a table note for Spark beside their Arrow types.

A column's comment is the field's metadata `comment`, which others read as well. Collations, and the
types of Spark's machine learning, have keys of their own; other metadata of Spark is kept as
PySpark writes it into Arrow.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from alance import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType, UserDefinedType

COMMENT: Final = "comment"
METADATA: Final = "SPARK::metadata::json"  # PySpark's own key
# Which type of Spark's machine learning the structs of a field are. Only these are made of it: a
# table may come from others, and a type's name is code that would be imported.
USER_TYPE: Final = "spark:user-type"
USER_TYPES: Final = ("VectorUDT", "MatrixUDT")
COLLATION: Final = "spark:collation"
_COLLATION_NAME: Final = re.compile(r"\w+")
_HIDDEN: Final = ("lance", "ARROW:", "PARQUET:", "SPARK::", "spark:")


def noted(field: pa.Field, kind: DataType, metadata: Mapping[str, Any] | None = None) -> pa.Field:
    """A field of a new table with notes of what its Arrow type does not say, its members as well.

    Args:
        metadata: of Spark's field.
    """
    notes = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    notes = {key: value for key, value in {**notes, METADATA: None}.items() if value is not None}
    notes.update({key: text for key, text in notes_of(kind, metadata).items() if text is not None})
    field = field.with_metadata(notes or None)
    if isinstance(kind, StructType):
        pairs = zip(field.type, kind, strict=True)
        members = [noted(member, part.dataType, part.metadata) for member, part in pairs]
        return field.with_type(pa.struct(members))
    if isinstance(kind, ArrayType):
        item = noted(field.type.value_field, kind.elementType)
        is_vector = pa.types.is_fixed_size_list(field.type)
        return field.with_type(pa.list_(item, field.type.list_size if is_vector else -1))
    if isinstance(kind, MapType):
        key = noted(field.type.key_field, kind.keyType)
        return field.with_type(pa.map_(key, noted(field.type.item_field, kind.valueType)))
    return field


def notes_of(kind: DataType, metadata: Mapping[str, Any] | None = None) -> dict[str, str | None]:
    """The notes of a field itself; None: it has no such note."""
    values = dict(metadata or {})
    comment = values.pop(COMMENT, None)
    name = type(kind).__name__
    collation = kind.collation if isinstance(kind, StringType) else None
    return {
        USER_TYPE: name if name in USER_TYPES else None,
        COLLATION: None if collation == StringType().collation else collation,
        COMMENT: comment,
        METADATA: json.dumps(values) if values else None,
    }


def metadata_of(field: pa.Field) -> dict[str, Any]:
    """The metadata of a field as Spark shows it, without what says how values are stored."""
    texts = texts_of(field)
    try:
        values = json.loads(texts.pop(METADATA, "{}"))
    except ValueError:  # of another writer
        return texts
    return {**values, **texts} if isinstance(values, dict) else texts


def texts_of(field: pa.Field) -> dict[str, str]:
    """The metadata of a field that does not say how its values are stored."""
    texts = {}
    for key, value in (field.metadata or {}).items():
        try:
            name, text = key.decode(), value.decode()
        except UnicodeDecodeError:
            continue
        if name == METADATA or not name.startswith(_HIDDEN):
            texts[name] = text
    return texts


def is_noted(field: pa.Field) -> bool:
    """Whether a field, or one inside of it, is more to Spark than its Arrow type says."""
    kind = field.type
    members = [kind.field(number) for number in range(kind.num_fields)]
    return bool(field.metadata) or any(map(is_noted, members))


def is_collated(field: pa.Field) -> bool:
    """Whether Spark compares values of a field in another way than by their bytes."""
    return COLLATION.encode() in (field.metadata or {})


def noted_type(field: pa.Field, storage: pa.DataType) -> DataType | None:
    """The type that a field is noted to have; None: that of its Arrow type.

    Args:
        storage: of its values, in one of the types that Spark takes.

    Raises:
        InvalidInputError: a collation that Spark cannot have.
    """
    notes = field.metadata or {}
    if is_collated(field) and pa.types.is_string(storage):
        name = notes[COLLATION.encode()].decode("utf-8", "replace")
        if not _COLLATION_NAME.fullmatch(name):
            raise InvalidInputError(f"column {field.name!r}: collation {name!r} is none of Spark")
        return StringType(name)
    name = notes.get(USER_TYPE.encode(), b"").decode("utf-8", "replace")
    if name not in USER_TYPES or not pa.types.is_struct(field.type):
        return None
    from pyspark.ml import linalg  # needs numpy, and 0.1 s

    kind: UserDefinedType = getattr(linalg, name)()
    stored, members = from_arrow_type(storage), kind.sqlType()
    return kind if stored.simpleString() == members.simpleString() else None
