"""Structure to levels: what is null or empty at each depth, in one level an entry; and compressed.

Layers are given from the row to the leaf. The kind of each comes from what occurs in these rows:
a layer without nulls or empty lists has no levels. What is inside a null struct is null too, up to
the next list: the reference implementation does not read lists that say otherwise. An entry says
the outermost reason of absence.

In the chunks of a mini-block page levels are u16 before coding, by one codec a page. The least of
four is taken: flat; bit-packed with the width in front, at most 1024 levels a chunk; bit-packed at
one width; runs, from 2.2 on.

Source: docs/format/file.md, "Arrow to levels"; encodings_v2_1.proto, message MiniBlockLayout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from alance import _kernels
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.encode import encodings
from alance.format.layouts.base import Layer, max_definition, max_repetition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alance.arrays import Bytes, Int64s, Mask, UInt16s
    from alance.format.proto import encodings_v2_1_pb2 as pb

BITS: Final = 16
PACKED_LEVELS: Final = 1024  # that are bit-packed together
MAX_CHUNK_BYTES: Final = 65535  # sizes of level buffers are u16

NO_NULLS = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class ItemLayer:
    """The slots of a leaf, struct or structural fixed-size list."""

    nulls: Mask | None  # shape (slots,): null here, or in a struct around it; None: nowhere
    repeats: int = 1  # slots further in for each slot: the dimension of a fixed-size list
    is_nullable: bool = False  # says the schema

    @property
    def kind(self) -> Layer:
        return Layer.ALL_VALID_ITEM if self.nulls is None else Layer.NULLABLE_ITEM


@dataclass(frozen=True, slots=True)
class ListLayer:
    """The slots of a list or map; what is absent has no children."""

    offsets: Int64s  # shape (slots + 1,), from 0
    nulls: Mask | None  # shape (slots,): null here, or in a struct around it; None: nowhere
    has_empty: bool  # lists without children that are not null

    @property
    def kind(self) -> Layer:
        if self.nulls is None:
            return Layer.EMPTYABLE_LIST if self.has_empty else Layer.ALL_VALID_LIST
        return Layer.NULL_AND_EMPTY_LIST if self.has_empty else Layer.NULLABLE_LIST


Path: TypeAlias = "tuple[ItemLayer | ListLayer, ...]"  # outermost first, the leaf last


def levels_of(
    path: Path, num_rows: int
) -> tuple[tuple[Layer, ...], UInt16s | None, UInt16s | None]:
    """The layers of a leaf, inner-most first, and its repetition and definition levels.

    Args:
        path: the structure from the row to the leaf.
        num_rows: slots of the first layer.

    Raises:
        UnsupportedError: structural fixed-size lists inside lists or around them.
    """
    layers = tuple(reversed(_kinds(path)))
    max_rep, max_def = max_repetition(layers), max_definition(layers)
    if max_rep == 0:
        return layers, None, _flat_levels(path, num_rows, max_def) if max_def else None
    if any(isinstance(layer, ItemLayer) and layer.repeats > 1 for layer in path):
        raise UnsupportedError("fixed-size lists of structs together with lists")
    rep = np.zeros(num_rows, np.uint16)
    definition = np.zeros(num_rows, np.uint16)
    level, list_number = max_def, max_rep
    closed_above = max_def
    for layer, kind in zip(path, reversed(layers), strict=True):
        level -= kind.num_levels
        if isinstance(layer, ItemLayer):
            if layer.nulls is not None:
                _kernels.mark_nulls(definition, closed_above, layer.nulls.view(np.uint8), level + 1)
            continue
        nulls = NO_NULLS if layer.nulls is None else layer.nulls.view(np.uint8)
        rep, definition = _kernels.expand_lists(
            rep,
            definition,
            closed_above,
            layer.offsets,
            nulls,
            list_number,
            level + 1,
            level + kind.num_levels if layer.has_empty else -1,
        )
        list_number -= 1
        closed_above = level
    return layers, rep, definition if max_def else None


def _kinds(path: Path) -> list[Layer]:
    """The kind of each layer.

    A nullable struct around a list counts as one with nulls even where it has none, and so does
    what is inside it up to the last list: the reference implementation does not read such columns
    if pages differ in whether the struct has nulls.
    """
    kinds = [layer.kind for layer in path]
    last_list = max((n for n, kind in enumerate(kinds) if kind.is_list), default=-1)
    outer = False
    for number, layer in enumerate(path[: last_list + 1]):
        if isinstance(layer, ItemLayer):
            outer |= layer.is_nullable
        if outer:
            kinds[number] = with_nulls(kinds[number])
    return kinds


def with_nulls(kind: Layer) -> Layer:
    """The kind of a layer that has nulls too."""
    return {
        Layer.ALL_VALID_ITEM: Layer.NULLABLE_ITEM,
        Layer.ALL_VALID_LIST: Layer.NULLABLE_LIST,
        Layer.EMPTYABLE_LIST: Layer.NULL_AND_EMPTY_LIST,
    }.get(kind, kind)


def layer_names(layers: Sequence[Layer]) -> list[str]:
    """Layers by the names that page descriptions have for them."""
    return [f"REPDEF_{layer.name}" for layer in layers]


def _flat_levels(path: Sequence[ItemLayer | ListLayer], num_rows: int, max_def: int) -> UInt16s:
    """Definition levels without lists: every slot of the leaf is an entry."""
    definition = np.zeros(num_rows, np.uint16)
    level = max_def
    for layer in path:
        assert isinstance(layer, ItemLayer)
        if layer.nulls is not None:
            definition[layer.nulls & (definition == 0)] = level
            level -= 1
        if layer.repeats > 1:
            definition = np.repeat(definition, layer.repeats)
    return definition


def level_blocks(
    levels: UInt16s, counts: Int64s, max_level: int, version: FileVersion | None = None
) -> tuple[pb.CompressiveEncoding, Bytes, Int64s]:
    """Compress the levels of all chunks of a page.

    Args:
        levels: of all chunks, end to end; shape (n,).
        counts: levels of each chunk, shape (c,), their sum is n.
        max_level: no level is above it.
        version: of the file; run lengths are legal from 2.2 on. None: of 2.1.

    Returns:
        The description, the bytes of all chunks end to end, and the bytes of each chunk, shape
        (c,); a chunk has at most 65535.

    Raises:
        InvalidInputError: so many levels in a chunk that no codec makes them small enough.
    """
    data = np.ascontiguousarray(levels).view(np.uint8)
    width = int(_kernels.widths_and_runs(data, BITS)[0].max(initial=0))
    if width > max_level.bit_length():
        raise InvalidInputError(f"levels of {width} bits, at most {max_level} is expected")
    candidates = _candidates(data, counts, width, version)
    legal = [x for x in candidates if x.sizes.max(initial=0) <= MAX_CHUNK_BYTES]
    if not legal:
        raise InvalidInputError(f"{int(counts.max())} levels in a chunk of a mini-block")
    best = min(legal, key=lambda candidate: int(candidate.sizes.sum()))
    # Packing has to gain something: of two equals the one that is read faster is better.
    if int(best.sizes.sum()) >= int((counts * (BITS // 8)).sum()):
        best = legal[-1]
    return best.encoding, best.content(), best.sizes


class _Candidate(NamedTuple):
    """A way to store the levels: what it takes, and the bytes on demand."""

    encoding: pb.CompressiveEncoding
    sizes: Int64s  # bytes of each chunk
    content: Callable[[], Bytes]


def _candidates(
    data: Bytes, counts: Int64s, width: int, version: FileVersion | None
) -> Iterator[_Candidate]:
    """The ways to store levels of `width` bits, in the order of what is taken among equals."""
    if version is not None and version >= FileVersion.V2_2:
        run_bytes = _kernels.run_block_sizes(data, counts, BITS)
        yield _Candidate(
            encodings.rle(BITS), run_bytes, lambda: _kernels.run_blocks(data, counts, BITS)
        )
    if int(counts.sum()) > PACKED_LEVELS and width < BITS:
        packed_width = max(width, 1)
        blocks, rest = np.divmod(counts, PACKED_LEVELS)
        block_bytes = 128 * packed_width
        yield _Candidate(
            encodings.out_of_line_bitpacking(BITS, packed_width),
            blocks * block_bytes + np.minimum(rest * (BITS // 8), block_bytes),
            lambda: _kernels.pack_blocks(data, counts, BITS, packed_width)[0],
        )
    if counts.max(initial=0) <= PACKED_LEVELS:
        packed, sizes = _kernels.pack_inline(data, counts, BITS)
        yield _Candidate(encodings.inline_bitpacking(BITS), sizes, lambda: packed)
    yield _Candidate(encodings.flat(BITS), counts * (BITS // 8), lambda: data)
