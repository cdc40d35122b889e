"""Collector of statistics of written batches; the module `statistics` explains their meaning.

Bounds of strings are truncated to 64 bytes. If a string of a batch was truncated, the batch's upper
bound is raised to the next larger string.

Source: docs/format/file-0.1.md, "Page statistics".
"""

from __future__ import annotations

import decimal
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.format.numbers import as_numbers, numpy_type
from alance.format.numbers import is_text as is_text_type
from alance.format.proto import file_pb2
from alance.format.types import leaf_type
from alance.format.v0_1.fields import is_text
from alance.format.v0_1.statistics import MAX_VALUE, MIN_VALUE, NULL_COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.field import Field

MAX_BOUND_BYTES: Final = 64  # maximum length of a bound
DECIMAL_MOST: Final = (1 << 127) - 1
_STATISTICS_CONTEXT: Final = decimal.Context(prec=60)


@dataclass(slots=True)
class Gathered:
    """Null counts and bounds of a field, one of each per batch."""

    field: Field
    null_counts: list[int] = attribute(default_factory=list)
    least: list[Any] = attribute(default_factory=list)
    most: list[Any] = attribute(default_factory=list)

    def add(self, array: pa.Array) -> None:
        """Add the values of the next batch; their type must be the field's storage type."""
        self.null_counts.append(array.null_count)
        least, most = _bounds(array, is_texts=is_text(self.field))
        self.least.append(least)
        self.most.append(most)

    def messages(self, first_id: int) -> list[file_pb2.Field]:
        """Return the statistics struct of the field and its children; ids start at `first_id`."""
        own, kind = self.field.message, self.field.logical_type
        messages = [
            file_pb2.Field(
                name=str(self.field.id), id=first_id, parent_id=-1, logical_type="struct"
            )
        ]
        for number, name in enumerate((NULL_COUNT, MIN_VALUE, MAX_VALUE), 1):
            is_count = name == NULL_COUNT
            messages.append(
                file_pb2.Field(
                    name=name,
                    id=first_id + number,
                    parent_id=first_id,
                    logical_type="int64" if is_count else kind,
                    nullable=not is_count and own.nullable,
                    encoding=file_pb2.VAR_BINARY
                    if is_text(self.field) and not is_count
                    else file_pb2.PLAIN,
                )
            )
        return messages

    def pages(self) -> list[bytes | list[bytes]]:
        """Return the pages of null counts, minima and maxima: bytes or a list of strings each."""
        counts = np.array(self.null_counts, "<i8").tobytes()
        if is_text(self.field):
            return [counts, self.least, self.most]
        return [counts, _plain(self.field, self.least), _plain(self.field, self.most)]


def _plain(field: Field, values: Sequence[Any]) -> bytes:
    arrow = leaf_type(field.logical_type)
    if pa.types.is_boolean(arrow):
        return np.packbits(np.array(values, np.bool_), bitorder="little").tobytes()
    if pa.types.is_decimal(arrow):
        return b"".join(int(value).to_bytes(16, "little", signed=True) for value in values)
    return np.array(values, numpy_type(arrow)).tobytes()


def _bounds(array: pa.Array, *, is_texts: bool) -> tuple[Any, Any]:
    arrow = array.type
    values = array.drop_null() if array.null_count else array
    if is_texts:
        return _text_bounds(values)
    if pa.types.is_boolean(arrow):
        if not len(values):
            return False, True
        trues = values.true_count
        return trues == len(values), trues > 0
    if pa.types.is_decimal(arrow):
        if not len(values):
            return -DECIMAL_MOST - 1, DECIMAL_MOST
        ends = pc.min_max(values)
        return _digits(ends["min"], arrow), _digits(ends["max"], arrow)
    if pa.types.is_date(arrow):
        values = values.view(pa.int32() if pa.types.is_date32(arrow) else pa.int64())
    numbers = as_numbers(values)
    if pa.types.is_floating(arrow):
        numbers = numbers[~np.isnan(numbers)]
        if not len(numbers):
            return -np.inf, np.inf
        least, most = numbers.min(), numbers.max()
        # A zero in the batch may have either sign.
        return (least if least else -0.0), (most if most else 0.0)
    if not len(numbers):
        limits = np.iinfo(numpy_type(arrow))
        return limits.min, limits.max
    return numbers.min(), numbers.max()


def _digits(value: pa.Scalar, arrow: pa.DataType) -> int:
    return int(value.as_py().scaleb(arrow.scale, _STATISTICS_CONTEXT))


def _text_bounds(array: pa.Array) -> tuple[bytes, bytes]:
    """Return the truncated bounds of strings; empty if unknown."""
    if not len(array):
        return b"", b""
    is_text = is_text_type(array.type)
    ends = pc.min_max(array)
    least, most = _content(ends["min"]), _content(ends["max"])
    is_cut = pc.max(pc.binary_length(array)).as_py() > MAX_BOUND_BYTES
    least, most = _cut(least, is_text=is_text), _cut(most, is_text=is_text)
    return least, (_raised(most, is_text=is_text) if is_cut else most)


def _content(value: pa.Scalar) -> bytes:
    return bytes(value.as_buffer())


def _cut(value: bytes, *, is_text: bool) -> bytes:
    if len(value) <= MAX_BOUND_BYTES:
        return value
    stop = MAX_BOUND_BYTES
    while is_text and stop and value[stop] & 0xC0 == 0x80:  # do not cut inside a character
        stop -= 1
    return value[:stop]


def _raised(value: bytes, *, is_text: bool) -> bytes:
    """Return the smallest value above all values with a prefix; empty if there is none."""
    if not is_text:
        retained = value.rstrip(b"\xff")
        return retained[:-1] + bytes([retained[-1] + 1]) if retained else b""
    for stop in range(len(text := value.decode()), 0, -1):
        code = ord(text[stop - 1]) + 1
        if code == 0xD800:
            code = 0xE000  # skip surrogates
        if code <= 0x10FFFF:
            return (text[: stop - 1] + chr(code)).encode()
    return b""
