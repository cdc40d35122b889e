"""Extension types: what is kept of them in a field, and the types that this makes again.

A field names its extension type in `ARROW:extension:name`, and has the parameters as Arrow
serialises them in `ARROW:extension:metadata`.

Source: Arrow columnar format, "Extension Types"; the C data interface, `ArrowSchema.metadata`.
"""

from __future__ import annotations

import ctypes
import warnings
from typing import Final

import pyarrow as pa

EXTENSION_NAME: Final = "ARROW:extension:name"
EXTENSION_METADATA: Final = "ARROW:extension:metadata"


class _ArrowSchema(ctypes.Structure):
    """The first members of the C data interface's struct."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def parameters_of(arrow: pa.BaseExtensionType) -> bytes:
    """The parameters of an extension type, as Arrow serialises them.

    Arrow's own types have no method for it in Python; the C data interface tells those of all.
    """
    capsule = arrow.__arrow_c_schema__()  # owns what is pointed to
    schema = _ArrowSchema.from_address(_pointer_of(capsule, b"arrow_schema"))
    return _pairs(schema.metadata)[EXTENSION_METADATA.encode()]


def _pairs(address: int) -> dict[bytes, bytes]:
    """Metadata as the C data interface has it: a count, then lengths and bytes, all in order."""

    def number() -> int:
        nonlocal address
        value = ctypes.c_int32.from_address(address).value
        address += 4
        return value

    def text() -> bytes:
        nonlocal address
        length = number()
        value = ctypes.string_at(address, length)
        address += length
        return value

    return {text(): text() for _ in range(number())}


def with_extension(field: pa.Field) -> pa.Field:
    """The field with the extension type that its metadata names, where pyarrow has it registered.

    Where the parameters do not make the type it stays of its storage type, without the metadata,
    and a warning says so.
    """
    try:
        return pa.ipc.read_schema(pa.schema([field]).serialize()).field(0)
    except Exception as error:  # extension types are anybody's code
        metadata = dict(field.metadata)
        name = metadata.pop(EXTENSION_NAME.encode())
        parameters = metadata.pop(EXTENSION_METADATA.encode(), None)
        warnings.warn(
            f"field {field.name!r}: its parameters {parameters!r} do not make the extension type "
            f"{name.decode()!r} ({error}); its values are read as {field.type}",
            stacklevel=2,
        )
        return field.with_metadata(metadata or None)
