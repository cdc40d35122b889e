"""Notes: field metadata that stores properties of Spark columns which Arrow types lack.

A comment is the metadata `comment`, which other engines read as well. Collations, lengths of texts
and the types of Spark's machine learning have keys of their own. Other metadata of Spark is stored
under the key that PySpark uses in Arrow.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, CharType, MapType, StringType, StructType, VarcharType

from alance import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType, UserDefinedType

COMMENT: Final = "comment"
METADATA: Final = "SPARK::metadata::json"  # PySpark's own key
# Key for the Spark machine learning type that a struct represents. Only `USER_TYPES` are
# recognized: a table may be untrusted, and the name of any other type would be code to import.
USER_TYPE: Final = "spark:user-type"
USER_TYPES: Final = ("VectorUDT", "MatrixUDT")
COLLATION: Final = "spark:collation"
LENGTH: Final = "spark:length"  # a text's type with its length, such as char(3) or varchar(9)
CHAR: Final = b"char("
# Spark's own metadata of a text column that it reads from CHAR or VARCHAR.
_READ_TYPE: Final = "__CHAR_VARCHAR_TYPE_STRING"
_COLLATION_NAME: Final = re.compile(r"\w+")
_LENGTH: Final = re.compile(r"(char|varchar)\((\d+)\)")
_HIDDEN: Final = ("lance", "ARROW:", "PARQUET:", "SPARK::", "spark:")


def noted(field: pa.Field, kind: DataType, metadata: Mapping[str, Any] | None = None) -> pa.Field:
    """Add notes to a field of a new table and to all of its members.

    Args:
        kind: Spark's type of the field.
        metadata: metadata of Spark's field.
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
    """Return the notes of a field by key, None for absent ones; omits notes of its members."""
    values = dict(metadata or {})
    comment = values.pop(COMMENT, None)
    read_type = values.pop(_READ_TYPE, "")
    limit = kind.simpleString() if isinstance(kind, (CharType, VarcharType)) else read_type
    name = type(kind).__name__
    collation = kind.collation if isinstance(kind, StringType) else None
    return {
        USER_TYPE: name if name in USER_TYPES else None,
        COLLATION: None if collation == StringType().collation else collation,
        LENGTH: limit if _LENGTH.fullmatch(limit) else None,
        COMMENT: comment,
        METADATA: json.dumps(values) if values else None,
    }


def metadata_of(field: pa.Field) -> dict[str, Any]:
    """Return the field metadata that Spark shows: all keys but those about storage."""
    texts = texts_of(field)
    try:
        values = json.loads(texts.pop(METADATA, "{}"))
    except ValueError:  # not JSON: another writer uses this key
        return texts
    return {**values, **texts} if isinstance(values, dict) else texts


def texts_of(field: pa.Field) -> dict[str, str]:
    """Return the metadata of a field as text, without keys about the storage of its values."""
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
    """True if a field or any of its descendants has metadata."""
    kind = field.type
    members = [kind.field(number) for number in range(kind.num_fields)]
    return bool(field.metadata) or any(map(is_noted, members))


def is_compared_by_bytes(field: pa.Field) -> bool:
    """False if Spark compares a field's texts by a collation, or pads them to their CHAR length."""
    notes = field.metadata or {}
    return COLLATION.encode() not in notes and not notes.get(LENGTH.encode(), b"").startswith(CHAR)


def noted_type(field: pa.Field, storage: pa.DataType) -> DataType | None:
    """Return the Spark type in a field's notes; None if they have none and the Arrow type is used.

    Args:
        storage: type in which the field's values are read, which Spark supports.

    Raises:
        InvalidInputError: the noted collation is not a valid name in Spark.
    """
    notes = field.metadata or {}
    if COLLATION.encode() in notes and pa.types.is_string(storage):
        name = notes[COLLATION.encode()].decode("utf-8", "replace")
        if not _COLLATION_NAME.fullmatch(name):
            raise InvalidInputError(f"column {field.name!r}: collation {name!r} is none of Spark")
        return StringType(name)
    limit = _LENGTH.fullmatch(notes.get(LENGTH.encode(), b"").decode("utf-8", "replace"))
    if limit is not None and pa.types.is_string(storage):
        return (CharType if limit[1] == "char" else VarcharType)(int(limit[2]))
    name = notes.get(USER_TYPE.encode(), b"").decode("utf-8", "replace")
    if name not in USER_TYPES or not pa.types.is_struct(field.type):
        return None
    from pyspark.ml import linalg  # needs numpy, and takes 0.1 s

    kind: UserDefinedType = getattr(linalg, name)()
    stored, members = from_arrow_type(storage), kind.sqlType()
    return kind if stored.simpleString() == members.simpleString() else None
