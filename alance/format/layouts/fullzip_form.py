"""How the entries of a full-zip page are written, and taking them apart.

    control word    repetition << bits_def | definition, in 0, 1, 2 or 4 bytes
    fixed width     the value's bytes, also where it is null
    variable width  a length of 4 or 8 bytes and the value's bytes, nothing where it is null

An entry without a value slot is only its control word. Nothing is aligned.

Source: encodings_v2_1.proto, FullZipLayout; docs/format/file.md, "Full-zip layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs import per_value_codec
from alance.format.layouts.levels import NO_LEVELS, Levels, Shape
from alance.format.layouts.place import joined, unpinned
from alance.format.layouts.selection import spread

if TYPE_CHECKING:
    from alance.arrays import Bytes, Int64s
    from alance.format.blocks import Block
    from alance.format.codecs.base import PerValueCodec
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.place import PagePlace
    from alance.format.proto import encodings_v2_1_pb2 as pb


class ZipForm(NamedTuple):
    """How entries are written."""

    shape: Shape
    bits_rep: int
    bits_def: int
    is_fixed: bool
    width: int  # fixed: bytes of a value; variable: bytes of a length
    codec: PerValueCodec

    @classmethod
    def from_proto(cls, message: pb.FullZipLayout) -> ZipForm:
        """The form that a description says.

        Raises:
            CorruptFileError: it contradicts itself.
            UnsupportedError: a codec that is not known, or not legal here.
        """
        if message.bits_rep > 16 or message.bits_def > 16:
            raise CorruptFileError(
                f"full-zip: levels of {message.bits_rep} and {message.bits_def} bits, at most 16"
            )
        codec = per_value_codec(message.value_compression)
        details = message.WhichOneof("details")
        is_fixed = details == "bits_per_value"
        if is_fixed:
            bits = message.bits_per_value
            if bits % 8:
                raise CorruptFileError(f"full-zip: values of {bits} bits are not whole bytes")
            if codec.encoded != "fixed" or codec.bits_per_value != bits:
                raise CorruptFileError(
                    f"full-zip: values of {bits} bits, the codec gives {codec.encoded} "
                    f"{codec.bits_per_value or 'width'}"
                )
        else:
            bits = message.bits_per_offset
            if details is None or bits not in (32, 64):
                raise CorruptFileError(f"full-zip: lengths of {bits} bits, expected 32 or 64")
            if codec.encoded != "variable":
                raise CorruptFileError("full-zip: values have lengths, the codec gives fixed width")
        shape = Shape.from_proto(message.layers)
        return cls(shape, message.bits_rep, message.bits_def, is_fixed, bits // 8, codec)

    @property
    def control_bytes(self) -> int:
        """Bytes of a control word."""
        bits = self.bits_rep + self.bits_def
        return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4

    @property
    def row_bytes(self) -> int | None:
        """Bytes of a row, if all rows have the same."""
        if self.is_fixed and not self.shape.has_lists:
            return self.control_bytes + self.width
        return None


class FullZipTask(NamedTuple):
    """Whole rows of a page, zipped."""

    place: PagePlace
    form: ZipForm
    pieces: tuple[memoryview, ...]
    piece_rows: Int64s  # rows in each piece, shape (pieces,)
    num_entries: int | None = None  # in all pieces, where known
    num_visible: int | None = None  # entries with a value slot, where known
    stops: Int64s | None = None  # ends of runs of rows in one piece; None: of the pieces

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        return sum(len(piece) for piece in self.pieces)

    def decode(self) -> PageValues:
        """Decode all rows of the pieces.

        Raises:
            CorruptFileError: the rows contradict the description.
        """
        with self.place.checking():
            data = joined(self.pieces)
            num_rows = int(self.piece_rows.sum())
            stops = self.stops
            if stops is None:
                stops = np.cumsum([len(piece) for piece in self.pieces], dtype=np.int64)
            if self.form.row_bytes is not None:
                self._check_sizes(num_rows, stops)
            if self.form.row_bytes is not None and self.form.control_bytes == 0:
                # Without control words the rows are a plain array.
                if len(self.pieces) == 1:
                    data = unpinned(self.pieces[0])
                values: Block = FixedWidth(8 * self.form.width, num_rows, data)
                self._check_counts(num_rows, num_rows)
                levels = Levels(self.form.shape, num_rows, None, None)
            else:
                levels, values = self._unzip(data, stops)
            return levels.all_rows(self._decoded(values, levels), num_rows)

    def _check_sizes(self, num_rows: int, stops: Int64s) -> None:
        expected = np.cumsum(self.piece_rows) * (self.form.row_bytes or 0)
        if not np.array_equal(stops, expected):
            raise CorruptFileError(f"{self.num_bytes} bytes of {num_rows} rows of equal length")

    def _check_counts(self, entries: int, visible: int) -> None:
        if self.num_entries not in (None, entries) or self.num_visible not in (None, visible):
            raise CorruptFileError(
                f"{entries} entries, {visible} of them with values, "
                f"expected {self.num_entries} and {self.num_visible}"
            )

    def _unzip(self, data: Bytes, stops: Int64s) -> tuple[Levels, Block]:
        """Levels, and the encoded bytes of the values that have any."""
        form, shape = self.form, self.form.shape
        if form.is_fixed and not form.width:
            return self._levels_alone(data, stops)
        walk = (
            data,
            stops,
            self.piece_rows,
            form.control_bytes,
            form.bits_def,
            shape.max_rep,
            shape.max_def,
            shape.max_visible,
            form.width,
        )
        counts = np.empty(4, np.int64)
        _kernels.count_zipped(*walk, form.is_fixed, counts)
        entries, visible, present, num_bytes = counts.tolist()
        self._check_counts(entries, visible)
        rep = np.empty(entries, np.uint16) if shape.has_lists else NO_LEVELS
        definition = np.empty(entries, np.uint16) if shape.max_def else NO_LEVELS
        content = np.empty(num_bytes, np.uint8)
        if form.is_fixed:
            _kernels.unzip_fixed(*walk, rep, definition, content)
            values: Block = FixedWidth(8 * form.width, visible, content)
        elif form.width == 4 and num_bytes < 1 << 31:
            offsets = np.empty(present + 1, np.int32)
            _kernels.unzip_variable_32(*walk, rep, definition, offsets, content)
            values = VariableWidth(offsets, content)
        else:
            long_offsets = np.empty(present + 1, np.int64)
            _kernels.unzip_variable_64(*walk, rep, definition, long_offsets, content)
            values = VariableWidth(long_offsets, content)
        return (
            Levels(
                shape,
                entries,
                rep if shape.has_lists else None,
                definition if shape.max_def else None,
            ),
            values,
        )

    def _levels_alone(self, data: Bytes, stops: Int64s) -> tuple[Levels, Block]:
        """Control words, where all values are the same and take no bytes."""
        form, shape = self.form, self.form.shape
        size = form.control_bytes
        if len(data) % size or (stops % size).any() or int(stops[-1:].sum()) != len(data):
            raise CorruptFileError(f"{len(data)} bytes of control words of {size} bytes")
        words = data.view(f"<u{size}").astype(np.int64)
        rep, definition = words >> form.bits_def, words & ((1 << form.bits_def) - 1)
        if (rep > shape.max_rep).any() or (definition > shape.max_def).any():
            raise CorruptFileError(
                f"levels up to {rep.max()} and {definition.max()}, at most {shape.max_rep} and "
                f"{shape.max_def} are possible"
            )
        begins = np.concatenate([[0], np.cumsum(rep == shape.max_rep)])
        edges = np.concatenate([[0], stops // size])
        if not np.array_equal(np.diff(begins[edges]), self.piece_rows) or (
            len(words) and (rep[edges[:-1][np.diff(edges) > 0]] != shape.max_rep).any()
        ):
            raise CorruptFileError("rows of control words that are not as many as are expected")
        visible = int(np.count_nonzero(definition <= shape.max_visible))
        self._check_counts(len(words), visible)
        levels = Levels(
            shape,
            len(words),
            rep.astype(np.uint16) if shape.has_lists else None,
            definition.astype(np.uint16) if shape.max_def else None,
        )
        return levels, FixedWidth(0, visible, np.empty(0, np.uint8))

    def _decoded(self, values: Block, levels: Levels) -> Block:
        """One decoded value a visible entry."""
        assert isinstance(values, FixedWidth | VariableWidth)
        block = self.form.codec.decode_values(values)
        if block.num_values != values.num_values:
            raise CorruptFileError(
                f"{block.num_values} values decoded, expected {values.num_values}"
            )
        if self.form.is_fixed or levels.definition is None:
            return block
        # Nulls have no bytes, so the codec has not seen them.
        present = levels.definition[levels.definition <= self.form.shape.max_visible] == 0
        return block if present.all() else spread(block, present)
