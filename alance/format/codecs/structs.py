"""Codecs for packed structs: all children of a struct in one value per row.

Source: encodings_v2_1.proto, messages PackedStruct and VariablePackedStruct;
docs/format/encodings.md, "PackedStruct" and "VariablePackedStruct".
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError, kernel_errors
from alance.format.blocks import Block, FixedWidth, StructBlock, VariableWidth
from alance.format.codecs.base import PerValueCodec, expect
from alance.format.codecs.fixed import Flat, column_of
from alance.format.codecs.strings import check_variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes, Int64s
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class PackedStruct:
    """Structs of fixed-width children; rows are stored as Flat.

    A row has the bytes of the children in the order of the struct, without padding. All
    children must be whole bytes, because no reader supports others.
    """

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["fixed"]] = "fixed"

    child_bits: tuple[int, ...]  # bits of each child, a multiple of 8
    rows: Flat

    @property
    def bits_per_value(self) -> int:
        return self.rows.bits_per_value

    @classmethod
    def from_proto(cls, message: pb.PackedStruct) -> PackedStruct:
        expect(message.values, ("flat",), "packed struct")
        rows = Flat.from_proto(message.values.flat)
        child_bits = tuple(message.bits_per_value)
        if any(bits % 8 for bits in child_bits):
            raise UnsupportedError(f"packed struct with children of {child_bits} bits")
        if not all(child_bits) or sum(child_bits) != rows.bits_per_value:
            raise CorruptFileError(
                f"packed struct: children of {child_bits} bits in rows of {rows.bits_per_value}"
            )
        return cls(child_bits, rows)

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> StructBlock:
        return self._unzip(self.rows.decode_chunk(buffers, num_values))

    def decode_values(self, values: FixedWidth | VariableWidth) -> StructBlock:
        return self._unzip(self.rows.decode_values(values))

    def _unzip(self, rows: FixedWidth) -> StructBlock:
        starts = accumulate((bits // 8 for bits in self.child_bits), initial=0)
        children = tuple(
            FixedWidth(bits, rows.num_values, column_of(rows, start, bits))
            for bits, start in zip(self.child_bits, starts, strict=False)
        )
        return StructBlock(rows.num_values, children)

    def max_bytes(self, num_values: int) -> int:
        return self.rows.max_bytes(num_values)


class Child(NamedTuple):
    """Child of a packed struct.

    In each row, it has a value of fixed size, or a length and a value.
    """

    codec: PerValueCodec
    bits_per_length: int | None  # 32 or 64; None if all encoded values have the same size

    @classmethod
    def from_proto(
        cls, message: pb.VariablePackedStruct.FieldEncoding, codec: PerValueCodec
    ) -> Child:
        layout = message.WhichOneof("layout")
        if layout is None:
            raise CorruptFileError("variable packed struct: a child without its layout")
        expected = "bits_per_value" if codec.encoded == "fixed" else "bits_per_length"
        if layout != expected:
            raise CorruptFileError(f"variable packed struct: {layout}, its codec has {expected}")
        if layout == "bits_per_length":
            if message.bits_per_length not in (32, 64):
                raise UnsupportedError(
                    f"variable packed struct: lengths of {message.bits_per_length} bits"
                )
            return cls(codec, message.bits_per_length)
        if message.bits_per_value != codec.bits_per_value or message.bits_per_value % 8:
            raise CorruptFileError(
                f"variable packed struct: a child of {message.bits_per_value} bits, "
                f"its codec has {codec.bits_per_value}"
            )
        return cls(codec, None)

    def place(self, data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
        """Return the starts and the sizes in bytes of the child's values.

        Args:
            starts: start of the child in each row.
            ends: end of each row.

        Raises:
            CorruptFileError: a row ends before the end of the child.
        """
        if self.bits_per_length is None:
            assert self.codec.bits_per_value is not None
            sizes = np.full(len(starts), self.codec.bits_per_value // 8, np.int64)
            if (sizes > ends - starts).any():
                raise CorruptFileError("packed rows: a row ends inside a value")
            return starts, sizes
        width = self.bits_per_length // 8
        if (ends - starts < width).any():
            raise CorruptFileError("packed rows: a row ends inside a length")
        lengths = data[starts[:, None] + np.arange(width)].view(f"<u{width}").reshape(-1)
        starts = starts + width
        beyond = lengths > (ends - starts).astype(np.uint64)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise CorruptFileError(
                f"packed rows: a value of {lengths[row]} bytes where the row has "
                f"{ends[row] - starts[row]}"
            )
        return starts, lengths.astype(np.int64)

    def decode(self, rows: VariableWidth, starts: Int64s, sizes: Int64s) -> Block:
        """Decode the values of the child at positions in the rows."""
        with kernel_errors:
            offsets, data = _kernels.concat_spans(rows.data, starts, sizes)
        if self.bits_per_length is not None:
            return self.codec.decode_values(VariableWidth(offsets, data))
        assert self.codec.bits_per_value is not None
        return self.codec.decode_values(FixedWidth(self.codec.bits_per_value, len(starts), data))


@dataclass(frozen=True, slots=True)
class VariablePackedStruct:
    """Structs with a variable-width child, or with fixed-size lists (2.2 and later).

    Each child has its own per-value codec. A row has, for each child:

        encoded value                   if encoded values of the child have a fixed size
        u32 or u64, encoded value       else: the length of the value, then the value
    """

    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    parts: tuple[Child, ...]

    @classmethod
    def from_proto(
        cls, message: pb.VariablePackedStruct, codecs: Sequence[PerValueCodec]
    ) -> VariablePackedStruct:
        """Parse a description.

        Args:
            codecs: codec of each child.
        """
        if not codecs:
            raise CorruptFileError("variable packed struct: no children")
        parts = zip(message.fields, codecs, strict=True)
        return cls(tuple(Child.from_proto(field, codec) for field, codec in parts))

    def decode_values(self, values: FixedWidth | VariableWidth) -> StructBlock:
        rows = check_variable(values)
        bounds = rows.offsets.astype(np.int64)
        if (np.diff(bounds) < 0).any() or bounds[0] < 0 or bounds[-1] > len(rows.data):
            raise CorruptFileError("packed rows: offsets decrease or leave the buffer")
        places, ends = bounds[:-1], bounds[1:]
        children = []
        for part in self.parts:
            starts, sizes = part.place(rows.data, places, ends)
            children.append(part.decode(rows, starts, sizes))
            places = starts + sizes
        if len(surplus := (ends - places)[places != ends]):
            raise CorruptFileError(f"packed rows: {surplus[0]} bytes are left in a row")
        return StructBlock(rows.num_values, tuple(children))
