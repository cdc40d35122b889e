"""Sparse pages (2.3): structure as sets of slots, stored separately from the values.

    buffers of the values, see below
    buffers of the sets, layer by layer from the outside; for a list: slots, counts, validity

A set has one buffer, or none if its codec has no payload. The page's state has the sets, chunk
words, indices and dictionary. With it, a read of rows takes one round. Values are

    chunked   a value for every slot, nulls included: words, chunks, dictionary if there is one
    zipped    a value for every valid slot: the values, and their offsets if their lengths vary
    constant  all valid slots have the same value
    none      all slots are null, by themselves or by an outer layer
    indexed   an index for every slot, nulls included, into distinct strings: indices, one block of
              u32; the items, each after its length; their offsets

Items of up to 1 MiB in all are read with the indices, larger ones when a read covers many slots.
The kernel decodes all of it (`kernels/rows/pages/sparse.hpp`).

Source: encodings_v2_3.proto, SparseStructure, ValuePlane and IndexedValues; docs/format/file.md,
"Sparse structure" and "Sparse values".
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import variant
from alance.format.codecs.block import block_codec
from alance.format.codecs.sequence import (
    EMPTY_SEQUENCE,
    SequenceCodec,
    SequenceForm,
    check_count,
    sequence_codec,
)
from alance.format.layouts.base import Layer
from alance.format.layouts.constant import MAX_INLINE_BYTES
from alance.format.layouts.fullzip import zipped_form
from alance.format.layouts.levels import code_of, words_of
from alance.format.layouts.miniblock import chunked_form
from alance.format.layouts.planar import as_full_zip, as_mini_block
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from alance.format.codecs.words import KernelRuns

    # Sequence and its count.
    _Set: TypeAlias = tuple[SequenceCodec, int]
    # True if the listed slots are valid, False if they are null; the listed slots; dimension;
    # number of children, -1 if the layer is not a list; slots with children; their counts.
    _LayerForm: TypeAlias = tuple[bool, _Set, int, int, _Set, _Set]
    # Indices of slots: a sequence, or runs.
    _Indices: TypeAlias = tuple[SequenceCodec | None, KernelRuns | None]

MAX_SLOTS: Final = 1 << 48  # slots of a page; sums of slots still fit into 64 bits
MAX_NUMBERS: Final = 1 << 27  # maximum numbers of a set in memory: 1 GiB
MAX_INDEX_BYTES: Final = (1 << 63) - 1  # any index of values is loaded and kept
LEAF_LAYERS: Final = [pb.REPDEF_ALL_VALID_ITEM]
MEANINGS: Final = (
    pb3.SparseValiditySet.NULL_POSITIONS,
    pb3.SparseValiditySet.VALID_POSITIONS,
)
SEQUENCE_CODECS: Final = frozenset(["constant", "range", "delta", "dictionary"])
EACH, VALID, INDEXED = 0, 1, 2  # slots that have values, by the kernel's number
NO_SET: Final = (EMPTY_SEQUENCE, 0)


def sparse_form(message: pb3.SparseStructure, values: pb3.ValuePlane) -> _kernels.PageForm:
    layers = _layers(message)
    indices: _Indices = None, None
    kind, num_buffers = EACH, 0
    match values.WhichOneof("codec"):
        case "chunked":
            form = _chunked(values.chunked)
            num_buffers = 2 + values.chunked.HasField("dictionary")
        case "zipped":
            form = _zipped(values.zipped)
            kind = VALID
            num_buffers = 1 + (values.zipped.WhichOneof("addressing") == "bits_per_offset")
        case "constant":
            scalar = values.constant.scalar
            if not 0 < len(scalar) <= MAX_INLINE_BYTES:
                raise CorruptFileError(
                    f"sparse: a constant of {len(scalar)} bytes, expected 1 to {MAX_INLINE_BYTES}"
                )
            form = _kernels.PageForm.constant(scalar, (0, 0, 0), 0, None, None)
        case "indexed":
            items = values.indexed.items
            if items.WhichOneof("addressing") != "bits_per_offset":
                raise CorruptFileError("sparse: indexed values that are no strings")
            form, kind, num_buffers = _zipped(items), INDEXED, 3
            indices = _indices(values.indexed.indices)
        case "none":
            form = _kernels.PageForm.constant(None, (0, 1, 0), 1, None, None)
        case _:
            raise CorruptFileError("planar: structure sparse, values None: both are needed")
    form.set_sparse(layers, kind, num_buffers, *indices)
    form.set_layers(*_code(layers))
    return form


def _chunked(message: pb3.ChunkedValues) -> _kernels.PageForm:
    if message.HasField("levels") or message.num_items:
        raise CorruptFileError("sparse: chunks that describe levels or count items")
    return chunked_form(as_mini_block(LEAF_LAYERS, message))


def _zipped(message: pb3.ZippedValues) -> _kernels.PageForm:
    if message.HasField("levels") or message.num_items != message.num_visible_items:
        raise CorruptFileError("sparse: zipped values that describe levels")
    return zipped_form(as_full_zip(LEAF_LAYERS, message), MAX_INDEX_BYTES)


def _indices(encoding: pb.CompressiveEncoding) -> _Indices:
    indices: SequenceCodec | None = None
    runs: KernelRuns | None = None
    if variant(encoding) in SEQUENCE_CODECS:
        indices = sequence_codec(encoding, bits=32)
        bits = indices.bits
    else:
        codec = block_codec(encoding)
        bits = codec.bits
        numbers, runs = words_of(codec)
        if numbers is not None:
            indices = SequenceCodec(SequenceForm.PLAIN, numbers)
    if bits != 32:
        raise CorruptFileError(f"sparse: indices of {bits} bits, expected 32")
    return indices, runs


def _layers(message: pb3.SparseStructure) -> list[_LayerForm]:
    """Parse the layers, outermost first."""
    layers = [_layer(layer) for layer in message.layers]
    dimensions = [dimension for _, _, dimension, *_ in layers]
    if not 0 < prod(dimensions) <= MAX_SLOTS:
        raise CorruptFileError(f"sparse: lists of {dimensions[:20]} items")
    if not message.layers or message.layers[-1].WhichOneof("layer") != "validity":
        raise CorruptFileError("sparse: the innermost layer is not the validity of the values")
    return layers


def _layer(layer: pb3.SparseStructuralLayer) -> _LayerForm:
    match layer.WhichOneof("layer"):
        case "validity":
            return (*_validity(layer.validity), 1, -1, NO_SET, NO_SET)
        case "fixed_size_list":
            fixed = layer.fixed_size_list
            dimension = min(fixed.dimension, MAX_SLOTS + 1)
            return (*_validity(fixed.validity), dimension, -1, NO_SET, NO_SET)
        case "list":
            lists = layer.list
            if lists.num_child_slots > MAX_SLOTS:
                raise CorruptFileError(f"sparse: {lists.num_child_slots} slots of a layer")
            count = lists.num_non_empty_positions
            non_empty, counts = _set(lists.non_empty_positions, count), _set(lists.counts, count)
            return (*_validity(lists.validity), 1, lists.num_child_slots, non_empty, counts)
    raise UnsupportedError("sparse: a layer that is neither validity nor lists")


def _validity(message: pb3.SparseValiditySet) -> tuple[bool, _Set]:
    """Parse a validity set. Returns True if it lists valid slots (not null slots), and the set."""
    if message.meaning not in MEANINGS:
        raise CorruptFileError(f"sparse: slots listed with meaning {message.meaning}")
    is_valid = message.meaning == pb3.SparseValiditySet.VALID_POSITIONS
    return is_valid, _set(message.positions, message.num_positions)


def _set(encoding: pb.CompressiveEncoding, count: int) -> _Set:
    codec = sequence_codec(encoding)
    if codec.bits != 64:
        raise UnsupportedError(f"sparse: a set of numbers of {codec.bits} bits, expected 64")
    if codec.is_arithmetic:
        check_count(codec.items, count)
        if count > MAX_SLOTS:
            raise CorruptFileError(f"sparse: a set of {count} slots")
    elif count > MAX_NUMBERS:
        raise UnsupportedError(f"sparse: a set of {count} numbers, at most {MAX_NUMBERS}")
    return codec, count


def _code(layers: list[_LayerForm]) -> tuple[int, bytes]:
    """Return layers in the kernel's form, see `Shape.code`."""
    return code_of(
        [
            Layer.NULLABLE_ITEM if num_children < 0 else Layer.NULL_AND_EMPTY_LIST
            for _, _, _, num_children, *_ in reversed(layers)
        ]
    )
