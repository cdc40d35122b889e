"""Conversion of Arrow batches to tensors, without copying numbers and fixed-size lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import torch

from alance import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

Fill: TypeAlias = bool | int | float | Mapping[str, bool | int | float] | None

EXTENSION_NAME_KEY: Final = b"ARROW:extension:name"
BFLOAT16_EXTENSION: Final = "lance.bfloat16"


def to_tensors(
    batch: pa.RecordBatch, *, fill: Fill = None
) -> dict[str, torch.Tensor | list[object]]:
    """Convert the columns of a batch to tensors or lists, by name.

    | Arrow | result |
    | --- | --- |
    | integers and floats, `lance.bfloat16` | a tensor of the same type, shape (rows,) |
    | booleans | a tensor of bool: a copy, since Arrow stores them as bits |
    | fixed-size lists of these, of lists too | a tensor of shape (rows, size, ...) |
    | fixed-shape tensors | a tensor of shape (rows, *shape) |
    | others: texts, bytes, times, lists of any length, structs | a list of Python objects |

    Tensors are views of the batch's memory, except booleans and columns with filled nulls: changing
    them in place changes the batch.

    Args:
        fill: value that replaces nulls in tensors: a number for all columns, or numbers by column.
            It replaces each item of a null fixed-size list. In lists of Python objects, nulls are
            None.

    Raises:
        InvalidInputError: a column has nulls and there is no `fill`, or `fill` does not fit its
            type.
    """
    columns: dict[str, torch.Tensor | list[object]] = {}
    for field, values in zip(batch.schema, batch.columns, strict=True):
        if not _is_tensor(field):
            columns[field.name] = values.to_pylist()
            continue
        filled = fill.get(field.name) if isinstance(fill, Mapping) else fill
        try:
            columns[field.name] = _tensor(field, values, filled)
        except (InvalidInputError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInputError(f"column {field.name!r} ({field.type}): {error}") from error
    return columns


def _is_tensor(field: pa.Field) -> bool:
    kind = field.type
    if _is_bfloat16(field):
        return True
    if isinstance(kind, pa.FixedShapeTensorType):
        return _is_tensor(pa.field("item", kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return _is_tensor(kind.value_field)
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _is_bfloat16(field: pa.Field) -> bool:
    """True for bfloat16: by the extension type if pylance registered it, else by the metadata."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == BFLOAT16_EXTENSION)
    return (field.metadata or {}).get(EXTENSION_NAME_KEY) == BFLOAT16_EXTENSION.encode()


def _tensor(field: pa.Field, values: pa.Array, fill: float | None) -> torch.Tensor:
    """Convert an array to a tensor; the first dimension is the array's length."""
    kind = values.type
    if isinstance(kind, pa.FixedShapeTensorType):
        shape = (len(values), *kind.shape)
        tensor = _tensor(pa.field("item", values.storage.type), values.storage, fill).view(shape)
        order = kind.permutation
        return tensor if order is None else tensor.permute(0, *(1 + axis for axis in order))
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        items = values.values.slice(values.offset * size, len(values) * size)
        return _with_fill(
            values,
            fill,
            # Items of a null list are arbitrary, possibly null, and are overwritten.
            lambda: _tensor(
                kind.value_field, items, 0 if fill is None and values.null_count else fill
            ).unflatten(0, (len(values), size)),
        )
    if _is_bfloat16(field):
        return _with_fill(values, fill, lambda: _bfloat16(values))
    if values.null_count:
        _check(values, fill)
        values = pc.fill_null(values, pa.scalar(fill, kind))
    if pa.types.is_boolean(kind):
        # A tensor needs a byte per boolean.
        return torch.from_dlpack(values.cast(pa.uint8())).view(torch.bool)
    return torch.from_dlpack(values)


def _bfloat16(values: pa.Array) -> torch.Tensor:
    """View values of two bytes as bfloat16; nulls are arbitrary."""
    storage = values.storage if isinstance(values, pa.ExtensionArray) else values
    buffers = [None, storage.buffers()[1]]
    numbers = pa.Array.from_buffers(pa.int16(), len(storage), buffers, offset=storage.offset)
    return torch.from_dlpack(numbers).view(torch.bfloat16)


def _with_fill(
    values: pa.Array, fill: float | None, make: Callable[[], torch.Tensor]
) -> torch.Tensor:
    """Return the tensor of `make`, after replacing nulls by the fill in a copy."""
    if not values.null_count:
        return make()
    _check(values, fill)
    tensor = make().clone()
    tensor[_tensor(pa.field("null", pa.bool_()), values.is_null(), None)] = fill
    return tensor


def _check(values: pa.Array, fill: float | None) -> None:
    """Check that there is a fill for nulls, and that it fits their type."""
    if fill is None:
        raise InvalidInputError(
            f"{values.null_count} nulls of {len(values)} values: give `fill=`, a value for them, "
            "or a filter that leaves them out"
        )
    kind = values.type
    while pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    fits = True
    if pa.types.is_boolean(kind):
        fits = isinstance(fill, bool)
    elif pa.types.is_integer(kind):
        fits = isinstance(fill, int)
        pa.scalar(fill, kind)  # raises if out of range
    if not fits:
        raise InvalidInputError(f"fill={fill!r}: expected a value of {kind}")
