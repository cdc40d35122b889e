"""Pages of file version 2.3: independent descriptions of structure and of values.

Pages with dense structure are pages of 2.2 with another description:

    chunked   a mini-block page whose chunk words and value sizes have 32 bits
    zipped    a full-zip page
    constant  a constant page without levels or buffers
    none      a page of one layer, all null

Pages with sparse structure store sets of slots, separately from the values:

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

Source: encodings_v2_3.proto, PlanarLayout, SparseStructure, ValuePlane and IndexedValues;
docs/format/file.md, "Planar pages", "Sparse structure" and "Sparse values".
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
from alance.format.layouts.base import MAX_INLINE_BYTES, Layer, code_of, words_of
from alance.format.layouts.fullzip import zipped_form
from alance.format.layouts.miniblock import chunked_form
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

    Layers = list[pb.RepDefLayer]
    DenseLayout: TypeAlias = pb.MiniBlockLayout | pb.FullZipLayout | pb.ConstantLayout
    from alance.format.codecs.words import KernelRuns

    # Sequence and its count.
    _Set: TypeAlias = tuple[SequenceCodec, int]
    # True if the listed slots are valid, False if they are null; the listed slots; dimension;
    # number of children, -1 if the layer is not a list; slots with children; their counts.
    _LayerForm: TypeAlias = tuple[bool, _Set, int, int, _Set, _Set]
    # Indices of slots: a sequence, or runs.
    _Indices: TypeAlias = tuple[SequenceCodec | None, KernelRuns | None]

MAX_COUNT: Final = (1 << 32) - 1  # maximum entries of a zipped page
# Fields of 2.3, and their names in 2.2.
CHUNKS: Final = {
    "compression": "value_compression",
    "dictionary": "dictionary",
    "num_dictionary_items": "num_dictionary_items",
    "num_buffers": "num_buffers",
    "num_items": "num_items",
}
CHUNK_LEVELS: Final = {
    "repetition": "rep_compression",
    "definition": "def_compression",
    "repetition_index_depth": "repetition_index_depth",
}
ZIPPED: Final = {
    "compression": "value_compression",
    "bits_per_value": "bits_per_value",
    "bits_per_offset": "bits_per_offset",
    "num_items": "num_items",
    "num_visible_items": "num_visible_items",
}
ZIP_LEVELS: Final = {"bits_repetition": "bits_rep", "bits_definition": "bits_def"}


def dense_layout(message: pb3.PlanarLayout) -> DenseLayout:
    """Convert the description of a dense page to the equal layout of 2.2."""
    structure = message.structure.WhichOneof("codec")
    values = message.values.WhichOneof("codec")
    if structure is None or values is None:
        raise CorruptFileError(f"planar: structure {structure}, values {values}: both are needed")
    if structure != "dense" or values == "indexed":
        raise CorruptFileError(f"planar: {values} values with {structure} structure")
    layers = list(message.structure.dense.layers)
    plane = getattr(message.values, values)
    if values in ("chunked", "zipped"):
        if not plane.HasField("levels"):
            raise CorruptFileError(
                f"planar: dense {values} values do not say how levels are stored"
            )
        return (as_mini_block if values == "chunked" else as_full_zip)(layers, plane)
    if values == "none":
        if layers != [pb.REPDEF_NULLABLE_ITEM]:
            raise CorruptFileError(f"planar: no values under dense layers {layers[:20]}")
        return pb.ConstantLayout(layers=layers)
    if any(layer != pb.REPDEF_ALL_VALID_ITEM for layer in layers):
        raise CorruptFileError(f"planar: a dense constant under layers {layers[:20]}")
    if not plane.scalar:
        raise CorruptFileError("planar: a constant of 0 bytes")
    return pb.ConstantLayout(layers=layers, inline_value=plane.scalar)


def as_mini_block(layers: Layers, message: pb3.ChunkedValues) -> pb.MiniBlockLayout:
    """Convert a description of chunked values to the layout of 2.1."""
    page = pb.MiniBlockLayout(layers=layers, has_large_chunk=True)
    _copy(message, page, CHUNKS)
    _copy(message.levels, page, CHUNK_LEVELS)
    return page


def as_full_zip(layers: Layers, message: pb3.ZippedValues) -> pb.FullZipLayout:
    """Convert a description of zipped values to the layout of 2.1."""
    bits = max(message.bits_per_value, message.bits_per_offset)
    if max(message.num_items, message.num_visible_items, bits) > MAX_COUNT:
        raise CorruptFileError(f"zipped: {message.num_items} entries of {bits} bits")
    page = pb.FullZipLayout(layers=layers)
    _copy(message, page, ZIPPED)
    _copy(message.levels, page, ZIP_LEVELS)
    return page


def planar_layout(layout: pb.PageLayout | pb3.PlanarLayout) -> pb3.PlanarLayout:
    """Convert the description of a 2.2 page to a description of 2.3."""
    if isinstance(layout, pb3.PlanarLayout):
        return layout
    kind = layout.WhichOneof("layout")
    page, values = getattr(layout, kind or "blob_layout"), pb3.ValuePlane()
    match page:
        case pb.MiniBlockLayout():
            _copy(page, values.chunked, _inverse(CHUNKS))
            values.chunked.levels.SetInParent()
            _copy(page, values.chunked.levels, _inverse(CHUNK_LEVELS))
        case pb.FullZipLayout():
            _copy(page, values.zipped, _inverse(ZIPPED))
            values.zipped.levels.SetInParent()
            _copy(page, values.zipped.levels, _inverse(ZIP_LEVELS))
        case pb.ConstantLayout() if page.HasField("inline_value"):
            values.constant.scalar = page.inline_value
        case pb.ConstantLayout():
            values.none.SetInParent()
        case _:
            raise UnsupportedError("files of version 2.3 have no blobs of version 1")
    structure = pb3.StructuralPlane(dense=pb3.DenseStructure(layers=page.layers))
    return pb3.PlanarLayout(structure=structure, values=values)


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {other: own for own, other in names.items()}


def _copy(source: Message, target: Message, names: Mapping[str, str]) -> None:
    """Copy the fields in `names` to the target's fields of these names."""
    for field, value in source.ListFields():
        name = names.get(field.name)
        if name is None:
            continue
        if field.message_type is None:
            setattr(target, name, value)
        else:
            getattr(target, name).CopyFrom(value)


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
