"""Conversion between Spark and Arrow types, and the types of new tables.

For each of its types, Spark accepts batches only in one Arrow type. An Arrow type without a Spark
type is read as the next wider type: unsigned integers as signed integers of twice the width (uint64
as decimal(20, 0)), half floats as floats, vectors as arrays, dictionaries as their values. Times
are truncated to microseconds, Spark's finest unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    CharType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from alance import InvalidInputError, UnsupportedError
from alance.distributed import META
from alance.spark.notes import is_noted, metadata_of, noted, noted_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import DataType

MAX_PRECISION: Final = 38

_SIMPLE: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("ns"),
    pa.time32("ms"): pa.time64("ns"),
    pa.time64("us"): pa.time64("ns"),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of a table's columns.

    Raises:
        UnsupportedError: decimals of more than 38 digits, types that Spark does not have.
    """
    struct = StructType()
    for field in schema:
        if field.name in META:  # uint64, in practice below 2^63
            struct.add(StructField(field.name, LongType(), True))
            continue
        try:
            kind = _spark_type(field)
        except UnsupportedError as error:
            error.add_note(f"in column {field.name!r}")
            raise
        except Exception as error:
            raise UnsupportedError(
                f"column {field.name!r}: Spark has no type for {field.type}"
            ) from error
        struct.add(StructField(field.name, kind, field.nullable, metadata_of(field)))
    return struct


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark accepts batches.

    Raises:
        UnsupportedError: a type that Arrow does not have.
    """
    return pa.schema([_arrow_field(field) for field in schema])


def _arrow_field(field: StructField) -> pa.Field:
    unlimited = StructField(field.name, _unlimited(field.dataType), field.nullable, field.metadata)
    try:
        return to_arrow_schema(StructType([unlimited]), timezone="UTC").field(0)
    except PySparkTypeError as error:
        kind = field.dataType.simpleString()
        raise UnsupportedError(
            f"column {field.name!r}: tables of Lance do not have Spark's type {kind}"
        ) from error


def _unlimited(kind: DataType) -> DataType:
    """Return the type with texts of any length in the place of CHAR and VARCHAR."""
    if isinstance(kind, (CharType, VarcharType)):
        return StringType()
    if isinstance(kind, StructType):
        return StructType(
            [
                StructField(part.name, _unlimited(part.dataType), part.nullable, part.metadata)
                for part in kind
            ]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_unlimited(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        key, value = _unlimited(kind.keyType), _unlimited(kind.valueType)
        return MapType(key, value, kind.valueContainsNull)
    return kind


def new_table_schema(
    schema: StructType, vectors: Mapping[str, int], *, keeps_required: bool = False
) -> pa.Schema:
    """Return the Arrow schema of a new table for the rows of a DataFrame.

    Args:
        vectors: length of each array column that is stored with a fixed length.
        keeps_required: True to keep required columns required (their members become nullable);
            False to make all columns nullable.

    Raises:
        InvalidInputError: a vector that is not a column, or not an array.
    """
    for name in vectors:
        if name not in schema.names:
            raise InvalidInputError(f"vectors: no column {name!r}, there are {schema.names}")
    fields = []
    for field in arrow_schema(schema):
        kind = nullable(field.type)
        if field.name in vectors:
            if not pa.types.is_list(kind):
                raise InvalidInputError(f"vectors: column {field.name!r} is {kind}, no array")
            item = pa.field("item", kind.value_type, nullable=True)
            kind = pa.list_(item, vectors[field.name])
        is_nullable = field.nullable or not keeps_required
        named = field.with_type(kind).with_nullable(is_nullable)
        fields.append(noted(named, schema[field.name].dataType, schema[field.name].metadata))
    return pa.schema(fields)


def _spark_type(field: pa.Field) -> DataType:
    """Return Spark's type of a field, with the notes of the field and of its members."""
    kind = field.type
    if not is_noted(field):
        return from_arrow_type(plain(kind))
    if (special := noted_type(field, plain(kind))) is not None:
        return special
    if pa.types.is_struct(kind):
        recognized = from_arrow_type(plain(kind))
        if not isinstance(recognized, StructType):  # PySpark marks variants by a member's metadata
            return recognized
        parts = [
            StructField(part.name, _spark_type(part), part.nullable, metadata_of(part))
            for part in kind
        ]
        return StructType(parts)
    if is_list(kind):
        return ArrayType(_spark_type(kind.value_field), kind.value_field.nullable)
    if pa.types.is_map(kind):
        item = kind.item_field
        return MapType(_spark_type(kind.key_field), _spark_type(item), item.nullable)
    return from_arrow_type(plain(kind))


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type, supported by Spark, in which values of a type are read.

    Raises:
        UnsupportedError: a decimal of more than 38 digits.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_decimal(kind):
        if kind.precision > MAX_PRECISION:
            raise UnsupportedError(f"{kind}: Spark has decimals of up to {MAX_PRECISION} digits")
        return pa.decimal128(kind.precision, kind.scale)
    if is_list(kind):
        return pa.list_(_with(kind.value_field, plain, "element"))
    return _SIMPLE.get(kind) or _nested(kind, plain)


def is_exact(kind: pa.DataType) -> bool:
    """True if Spark holds the exact values of a type, without truncation to microseconds."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_exact(kind.storage_type)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit != "ns")
    return all(is_exact(kind.field(number).type) for number in range(kind.num_fields))


def nullable(kind: pa.DataType) -> pa.DataType:
    """Return the type with all members nullable, as in Spark's own files."""
    if pa.types.is_list(kind):
        return pa.list_(_with(kind.value_field, nullable, "item").with_nullable(True))
    return _nested(kind, nullable, relaxed=True)


def is_list(kind: pa.DataType) -> bool:
    """True if the type is a list of any kind, also of fixed size."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to a schema, by column name.

    Raises:
        InvalidInputError: values that do not fit.
    """
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        array = batch.column(field.name)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if array.type != field.type:
            # Members of null structs are null even if their type is not nullable, which a direct
            # cast refuses.
            options = pc.CastOptions(nullable(field.type), allow_time_truncate=True)
            try:
                array = _required(array.cast(options=options), field.type)
            except pa.ArrowException as error:
                raise InvalidInputError(
                    f"column {field.name!r}: {array.type} as {field.type}: {error}"
                ) from error
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _required(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert an array from `nullable(kind)` to `kind`, in which some members are not nullable.

    Raises:
        ArrowInvalid: a member that is not nullable is null in a struct that is not null.
    """
    if array.type == kind:
        return array
    if not len(array):
        return pa.array([], kind)
    valid = array.is_valid()
    bits = valid.buffers()[1] if array.null_count else None
    if pa.types.is_struct(kind):
        children = []
        for number, field in enumerate(kind):
            child = array.field(number)
            if not field.nullable and pc.any(pc.and_(child.is_null(), valid)).as_py():
                raise pa.ArrowInvalid(f"a null in {field.name!r}, which has none")
            children.append(_required(child, field.type))
        return pa.Array.from_buffers(kind, len(array), [bits], children=children)
    if not pa.types.is_map(kind) and not pa.types.is_list(kind):
        return array
    starts = array.offsets.to_numpy()
    offsets = pa.py_buffer((starts - starts[0]).astype("int32"))
    count = int(starts[-1] - starts[0])
    if pa.types.is_map(kind):
        parts = (array.keys, array.items)
        types = (kind.key_type, kind.item_type)
        sliced = [part.slice(int(starts[0]), count) for part in parts]
        columns = [
            _required(part, part_type) for part, part_type in zip(sliced, types, strict=True)
        ]
        items = pa.struct([kind.key_field, kind.item_field])
        children = [pa.Array.from_buffers(items, count, [None], children=columns)]
    else:
        children = [_required(array.values.slice(int(starts[0]), count), kind.value_type)]
    return pa.Array.from_buffers(kind, len(array), [bits, offsets], children=children)


def _nested(
    kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType], *, relaxed: bool = False
) -> pa.DataType:
    """Apply `change` to the members of a struct or map; return other types unchanged."""
    if pa.types.is_struct(kind):
        fields = [_with(field, change, field.name) for field in kind]
        return pa.struct([member.with_nullable(True) for member in fields] if relaxed else fields)
    if pa.types.is_map(kind):
        key = _with(kind.key_field, change, "key").with_nullable(False)
        item = _with(kind.item_field, change, "value")
        return pa.map_(key, item.with_nullable(True) if relaxed else item)
    return kind


def _with(field: Any, change: Callable[[pa.DataType], pa.DataType], name: str) -> Any:
    return field.with_type(change(field.type)).with_name(name)
