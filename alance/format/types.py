"""Conversion between the format's logical type strings and Arrow types.

A type without children is a single string: `int32`, `timestamp:us:UTC`,
`fixed_size_list:float:768`. The children of lists, structs and maps are fields of their own;
`nested_type` builds these types. Field metadata name the extension type in `ARROW:extension:name`,
and have its parameters, as serialized by Arrow, in `ARROW:extension:metadata`.

Source: docs/format/file.md, "Logical types"; Arrow columnar format, "Extension Types".
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.numbers import is_variable_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

EXTENSION_NAME: Final = "ARROW:extension:name"
EXTENSION_METADATA: Final = "ARROW:extension:metadata"

# Levels of nested fields; Python's stack overflows at a few times as many.
MAX_FIELD_DEPTH: Final = 200
BFLOAT16: Final = "lance.bfloat16"  # extension type, and logical type of list items
SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "blob": pa.large_binary(),
    "json": pa.large_binary(),  # JSONB
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
    BFLOAT16: pa.binary(2),
}
TIME_UNITS: Final = ("s", "ms", "us", "ns")
NESTED: Final = ("struct", "list", "list.struct", "large_list", "large_list.struct", "map")

_NAME_OF: Final = {
    arrow: name for name, arrow in SIMPLE.items() if name not in ("blob", "json", BFLOAT16)
}


def is_nested(logical_type: str) -> bool:
    """True if the type has children that are fields of their own."""
    return logical_type in NESTED or (
        logical_type.startswith("fixed_size_list:struct:") and logical_type.count(":") == 2
    )


def leaf_type(logical_type: str) -> pa.DataType:
    """Return the Arrow type of a logical type without child fields."""
    simple = SIMPLE.get(logical_type)
    if simple is not None:
        return simple
    kind = logical_type.split(":", 1)[0]
    parse = _TYPE_PARSERS.get(kind)
    try:
        if parse is not None:
            return parse(logical_type)
    except RecursionError:
        raise UnsupportedError(f"logical type {logical_type:.100}: too many levels") from None
    except (LookupError, ValueError, TypeError, pa.ArrowException, OverflowError) as error:
        raise UnsupportedError(f"logical type {logical_type!r}: {error}") from error
    raise UnsupportedError(f"logical type {logical_type!r}: not known to this alance")


def nested_type(logical_type: str, children: Sequence[pa.Field]) -> pa.DataType:
    """Return the Arrow type of a struct, list, map or fixed-size list of structs."""
    if logical_type == "struct":
        return pa.struct(children)
    if len(children) != 1:
        raise UnsupportedError(f"{logical_type!r} with {len(children)} children, expected one")
    (child,) = children
    if logical_type.startswith("fixed_size_list:"):
        return pa.list_(child, _dimension(logical_type.rsplit(":", 1)[1]))
    if logical_type == "map":
        if not pa.types.is_struct(child.type) or child.type.num_fields != 2:
            raise UnsupportedError(f"map of {child.type}, expected a struct of key and value")
        return pa.map_(child.type.field(0).with_nullable(False), child.type.field(1))
    large = logical_type.startswith("large_list")
    return pa.large_list(child) if large else pa.list_(child)


def logical_type(arrow: pa.DataType) -> str:
    """Return the logical type string of an Arrow type, without the children of a nested type.

    Raises:
        InvalidInputError: fixed-size lists are nested too deeply.
    """
    if isinstance(arrow, pa.BaseExtensionType):
        raise UnsupportedError(
            f"{arrow} in a fixed-size list or a dictionary: the format has no place for its name"
        )
    name = _NAME_OF.get(arrow)
    if name is not None:
        return name
    for matches, write in _WRITERS:
        if matches(arrow):
            return write(arrow)
    raise UnsupportedError(f"Arrow type {arrow}: the format has no such type")


def _dimension(text: str) -> int:
    value = int(text)
    if not 0 < value < 1 << 31:
        raise ValueError(f"dimension {value}")
    return value


def _timestamp(text: str) -> pa.DataType:
    _, unit, zone = text.split(":", 2)
    if unit not in TIME_UNITS:
        raise ValueError(f"time unit {unit!r}")
    return pa.timestamp(unit, None if zone == "-" else zone)


def _decimal(text: str) -> pa.DataType:
    _, bits, precision, scale = text.split(":")
    make = {"128": pa.decimal128, "256": pa.decimal256}[bits]
    return make(int(precision), int(scale))


def _fixed_size_list(text: str) -> pa.DataType:
    item, dimension = text.removeprefix("fixed_size_list:").rsplit(":", 1)
    return pa.list_(leaf_type(item), _dimension(dimension))


def _dictionary(text: str) -> pa.DataType:
    value, index, _ordered = text.removeprefix("dict:").rsplit(":", 2)
    return pa.dictionary(leaf_type(index), leaf_type(value))


_TYPE_PARSERS: Final[Mapping[str, Callable[[str], pa.DataType]]] = {
    "timestamp": _timestamp,
    "decimal": _decimal,
    "fixed_size_binary": lambda text: pa.binary(_dimension(text.split(":")[1])),
    "fixed_size_list": _fixed_size_list,
    "dict": _dictionary,
}


def _write_list(arrow: pa.DataType) -> str:
    prefix = "large_list" if pa.types.is_large_list(arrow) else "list"
    item = arrow.value_type
    if isinstance(item, pa.BaseExtensionType):
        item = item.storage_type
    return f"{prefix}.struct" if pa.types.is_struct(item) else prefix


def _write_fixed_size_list(arrow: pa.DataType) -> str:
    inner, depth = arrow, 0
    while pa.types.is_fixed_size_list(inner):
        inner, depth = inner.value_type, depth + 1
        if depth > MAX_FIELD_DEPTH:
            raise InvalidInputError(f"fixed-size lists: more than {MAX_FIELD_DEPTH} levels deep")
    item = arrow.value_type
    metadata = arrow.value_field.metadata or {}
    if isinstance(item, pa.BaseExtensionType):
        metadata = {EXTENSION_NAME.encode(): item.extension_name.encode()}
        if pa.types.is_struct(item.storage_type):
            item = item.storage_type
    if pa.types.is_struct(item):
        return f"fixed_size_list:struct:{arrow.list_size}"
    if pa.types.is_nested(item) and not pa.types.is_fixed_size_list(item):
        raise UnsupportedError(f"Arrow type {arrow}: the format has no fixed-size list of {item}")
    if metadata.get(EXTENSION_NAME.encode()) == BFLOAT16.encode():
        return f"fixed_size_list:{BFLOAT16}:{arrow.list_size}"
    return f"fixed_size_list:{logical_type(item)}:{arrow.list_size}"


def _write_dictionary(arrow: pa.DataType) -> str:
    value = logical_type(arrow.value_type)
    if ":" in value or pa.types.is_nested(arrow.value_type):
        raise UnsupportedError(f"Arrow type {arrow}: the format has no dictionary of {value}")
    return f"dict:{value}:{logical_type(arrow.index_type)}:false"


def _write_map(arrow: pa.DataType) -> str:
    if arrow.keys_sorted:
        raise UnsupportedError(
            f"Arrow type {arrow}: the format does not say that keys are sorted; cast it to "
            "pa.map_(key, item)"
        )
    return "map"


_WRITERS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str]]]] = (
    (pa.types.is_timestamp, lambda arrow: f"timestamp:{arrow.unit}:{arrow.tz or '-'}"),
    (pa.types.is_decimal128, lambda arrow: f"decimal:128:{arrow.precision}:{arrow.scale}"),
    (pa.types.is_decimal256, lambda arrow: f"decimal:256:{arrow.precision}:{arrow.scale}"),
    (pa.types.is_fixed_size_binary, lambda arrow: f"fixed_size_binary:{arrow.byte_width}"),
    (pa.types.is_dictionary, _write_dictionary),
    (pa.types.is_fixed_size_list, _write_fixed_size_list),
    (pa.types.is_struct, lambda _: "struct"),
    (pa.types.is_map, _write_map),
    (is_variable_list, _write_list),
    (lambda arrow: arrow == pa.string_view(), lambda _: "string"),
    (lambda arrow: arrow == pa.binary_view(), lambda _: "binary"),
)


def parameters_of(arrow: pa.BaseExtensionType) -> bytes:
    """Return the parameters of an extension type as Arrow serializes them.

    Arrow's own types have no Python method for it. So a field of the type is serialized, and read
    again under another key than that of its name, as a field of the storage type with metadata.
    """
    name = EXTENSION_NAME.encode()
    content = pa.schema([pa.field("", arrow)]).serialize().to_pybytes()
    read = pa.ipc.read_schema(pa.py_buffer(content.replace(name, name.swapcase())))
    parameters: bytes = read.field(0).metadata[EXTENSION_METADATA.encode()]
    return parameters.replace(name.swapcase(), name)


def with_extension(field: pa.Field) -> pa.Field:
    """Apply the extension type in a field's metadata, if it is registered in pyarrow.

    If the parameters do not fit the type, warns and returns a field of the storage type without
    this metadata.
    """
    try:
        return pa.ipc.read_schema(pa.schema([field]).serialize()).field(0)
    except Exception as error:  # because extension types run arbitrary code
        metadata = dict(field.metadata)
        name = metadata.pop(EXTENSION_NAME.encode())
        parameters = metadata.pop(EXTENSION_METADATA.encode(), None)
        warnings.warn(
            f"field {field.name!r}: its parameters {parameters!r} do not make the extension type "
            f"{name.decode()!r} ({error}); its values are read as {field.type}",
            stacklevel=2,
        )
        return field.with_metadata(metadata or None)
