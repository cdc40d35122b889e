"""Sparse pages of random structure, each set of which has one of the encodings that it may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from alance.format.codecs.general import Scheme, compress
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3
from tests.reference.encodings import (
    flat,
    general,
    inline_bitpacking,
    out_of_line_bitpacking,
    variable,
)
from tests.reference.fastlanes import pack

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Coded = tuple[pb.CompressiveEncoding, bytes | None]


class Page(NamedTuple):
    """A page, and what its rows are."""

    arrow: pa.DataType
    description: pb3.PlanarLayout
    buffers: list[bytes]
    rows: list[Any]


def sparse_page(
    rng: np.random.Generator, chain: str, values: str, count: int, nulls: float
) -> Page:
    """A page of some rows.

    Args:
        chain: what is around the leaf, from the outside: `s` for structs, `l` for lists.
        values: how they are stored, and of which type.
        nulls: share of nulls in each layer.
    """
    layers: list[pb3.SparseStructuralLayer] = []
    sets: list[bytes] = []
    masks, all_sizes = [], []
    present = np.ones(count, np.bool_)
    for kind in chain:
        valid = present & (rng.random(len(present)) >= nulls)
        masks.append(valid)
        if kind == "s":
            layers.append(pb3.SparseStructuralLayer(validity=_validity(rng, valid, sets)))
            all_sizes.append(None)
            present = valid
            continue
        sizes = np.where(valid, rng.choice([0, 0, 1, 2, 5], len(valid)), 0)
        full = np.flatnonzero(sizes)
        positions = _set(rng, full, sets)
        counts = _set(rng, sizes[full], sets)
        lists = pb3.SparseListLayer(
            num_child_slots=int(sizes.sum()),
            non_empty_positions=positions,
            num_non_empty_positions=len(full),
            counts=counts,
            validity=_validity(rng, valid, sets),
        )
        layers.append(pb3.SparseStructuralLayer(list=lists))
        all_sizes.append(sizes)
        present = np.ones(sizes.sum(), np.bool_)
    valid = present & (rng.random(len(present)) >= nulls)
    if values == "none":
        valid[:] = False
    layers.append(pb3.SparseStructuralLayer(validity=_validity(rng, valid, sets)))
    arrow, plane, buffers, items = VALUES[values](rng, valid)
    rows: list[Any] = [item if ok else None for item, ok in zip(items, valid, strict=True)]
    for kind, own, sizes in zip(reversed(chain), reversed(masks), reversed(all_sizes), strict=True):
        if kind == "s":
            arrow = pa.struct([("x", arrow)])
            rows = [{"x": row} if ok else None for row, ok in zip(rows, own, strict=True)]
            continue
        arrow = pa.list_(arrow)
        ends = np.cumsum(sizes)
        rows = [
            rows[end - size : end] if ok else None
            for end, size, ok in zip(ends, sizes, own, strict=True)
        ]
    structure = pb3.StructuralPlane(sparse=pb3.SparseStructure(layers=layers))
    description = pb3.PlanarLayout(structure=structure, values=plane)
    return Page(arrow, description, [*buffers, *sets], rows)


def _validity(
    rng: np.random.Generator, valid: npt.NDArray[np.bool_], sets: list[bytes]
) -> pb3.SparseValiditySet:
    means_valid = rng.random() < 0.5
    slots = np.flatnonzero(valid == means_valid)
    return pb3.SparseValiditySet(
        meaning=2 if means_valid else 1, positions=_set(rng, slots, sets), num_positions=len(slots)
    )


def _set(rng: np.random.Generator, numbers: Numbers, sets: list[bytes]) -> pb.CompressiveEncoding:
    """Encode numbers in one of the ways that are allowed; adds their buffer, if they have one."""
    encoding, payload = coded(rng, numbers, 64)
    if payload is not None:
        sets.append(payload)
    return encoding


def coded(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    """Encode numbers as a sequence, in one of the ways that these have."""
    ways = [_flat, _packed, _compressed, _runs, _distinct]
    if len(numbers):
        ways.append(_delta if (np.diff(numbers) >= 0).all() else _flat)
    if len({*numbers.tolist()}) < 2:
        ways = [_constant]
    elif len({*np.diff(numbers).tolist()}) == 1 and numbers[1] > numbers[0]:
        ways.append(_range)
    return ways[rng.integers(len(ways))](rng, numbers, bits)


def _constant(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    constant = pb.Constant()
    if len(numbers):
        constant.value = int(numbers[0]).to_bytes(bits // 8, "little")
    return pb.CompressiveEncoding(constant=constant), None


def _range(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    start, second = numbers[:2].tolist()
    described = pb.Range(uncompressed_bits_per_value=bits, start=start, step=second - start)
    return pb.CompressiveEncoding(range=described), None


def _flat(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    return flat(bits), numbers.astype(f"<u{bits // 8}").tobytes()


def _packed(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    width = max(1, int(numbers.max(initial=0)).bit_length())
    blocks = [
        pack(np.pad(part, (0, 1024 - len(part))), bits, width)
        for part in np.split(numbers, range(1024, len(numbers), 1024))
        if len(part)
    ]
    if 0 < len(numbers) <= 1024 and rng.random() < 0.5:
        head = width.to_bytes(bits // 8, "little")
        return inline_bitpacking(bits), head + blocks[0]
    if len(numbers) % 1024 and rng.random() < 0.5:  # the rest is raw
        blocks[-1] = numbers[len(numbers) // 1024 * 1024 :].astype(f"<u{bits // 8}").tobytes()
    return out_of_line_bitpacking(bits, width), b"".join(blocks)


def _compressed(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    scheme = Scheme(rng.choice([Scheme.LZ4, Scheme.ZSTD]))
    data = numbers.astype(f"<u{bits // 8}").view(np.uint8)
    unit = compress(scheme, None, data)
    return general(scheme, None, flat(bits)), unit.tobytes()


def _delta(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    deltas = np.diff(numbers)
    if len({*deltas.tolist()}) < 2:
        encoding, payload = _constant(rng, deltas, bits)
    else:
        encoding, payload = [_flat, _packed][rng.integers(2)](rng, deltas, bits)
    delta = pb.Delta(uncompressed_bits_per_value=bits, base=int(numbers[0]), deltas=encoding)
    return pb.CompressiveEncoding(delta=delta), payload


def _runs(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    lengths = np.diff(starts, append=len(numbers))
    values, value_part = _flat(rng, numbers[starts], bits)
    sizes, size_part = [_flat, _constant][len({*lengths.tolist()}) < 2](rng, lengths, 32)
    payload = len(value_part or b"").to_bytes(8, "little") + (value_part or b"")
    rle = pb.Rle(values=values, run_lengths=sizes)
    return pb.CompressiveEncoding(rle=rle), payload + (size_part or b"")


def _distinct(rng: np.random.Generator, numbers: Numbers, bits: int) -> Coded:
    items, indices = np.unique(numbers, return_inverse=True)
    index_encoding, index_part = _flat(rng, indices, 32)
    item_encoding, item_part = _flat(rng, items, bits)
    sizes = np.array([len(index_part or b""), len(item_part or b"")], "<u8").tobytes()
    dictionary = pb.Dictionary(
        indices=index_encoding, items=item_encoding, num_dictionary_items=len(items)
    )
    encoding = pb.CompressiveEncoding(dictionary=dictionary)
    return encoding, sizes + (index_part or b"") + (item_part or b"")


Stored = tuple[pa.DataType, pb3.ValuePlane, list[bytes], list[Any]]
Mask = "npt.NDArray[np.bool_]"


def _none(rng: np.random.Generator, valid: Mask) -> Stored:
    return pa.int32(), pb3.ValuePlane(none=pb3.NoValues()), [], [None] * len(valid)


def _equal_numbers(rng: np.random.Generator, valid: Mask) -> Stored:
    plane = pb3.ValuePlane(constant=pb3.ConstantValue(scalar=(77).to_bytes(4, "little")))
    return pa.int32(), plane, [], [77] * len(valid)


def _chunked(
    arrow: pa.DataType,
    compression: pb.CompressiveEncoding,
    chunks: list[list[bytes]],
    items: list[Any],
    num_buffers: int = 1,
) -> Stored:
    """Chunks of 32 values each, but for the last."""
    words, content = [], b""
    for number, buffers in enumerate(chunks):
        head = b"\0\0" + b"".join(len(buffer).to_bytes(4, "little") for buffer in buffers)
        parts = [part + b"\xfe" * (-len(part) % 8) for part in (head, *buffers)]
        chunk = b"".join(parts)
        words.append((len(chunk) // 8 - 1) << 4 | (5 if number + 1 < len(chunks) else 0))
        content += chunk
    plane = pb3.ChunkedValues(compression=compression, num_buffers=num_buffers)
    return (
        arrow,
        pb3.ValuePlane(chunked=plane),
        [np.array(words, "<u4").tobytes(), content],
        items,
    )


def _numbers(rng: np.random.Generator, valid: Mask) -> Stored:
    numbers = rng.integers(0, 1 << 30, len(valid))
    chunks = [[part.astype("<i4").tobytes()] for part in _parts(numbers)]
    return _chunked(pa.int32(), flat(32), chunks, numbers.tolist())


def _coded_runs(rng: np.random.Generator, valid: Mask) -> Stored:
    """Runs whose lengths have 16 bits, the last of which may be too long."""
    numbers = np.sort(rng.integers(0, 9, len(valid)))
    chunks = []
    for part in _parts(numbers):
        starts = np.flatnonzero(np.diff(part, prepend=-1))
        lengths = np.diff(starts, append=len(part))
        lengths[-1:] += rng.integers(3)
        chunks.append([part[starts].astype("<i4").tobytes(), lengths.astype("<u2").tobytes()])
    rle = pb.Rle(values=flat(32), run_lengths=flat(16))
    encoding = pb.CompressiveEncoding(rle=rle)
    return _chunked(pa.int32(), encoding, chunks, numbers.tolist(), 2)


def _texts(rng: np.random.Generator, valid: Mask) -> Stored:
    """Strings of two letters each, whose offsets need no bytes."""
    texts = [f"{number:02x}" for number in rng.integers(0, 256, len(valid))]
    chunks = [["".join(part).encode()] for part in _parts(texts)]
    offsets = pb.CompressiveEncoding(
        range=pb.Range(uncompressed_bits_per_value=32, start=0, step=2)
    )
    encoding = pb.CompressiveEncoding(variable=pb.Variable(offsets=offsets))
    return _chunked(pa.string(), encoding, chunks, texts)


def _sized_texts(rng: np.random.Generator, valid: Mask) -> Stored:
    """Strings with differences of offsets."""
    texts = ["é" * (number % 5) for number in rng.integers(0, 256, len(valid))]
    chunks = []
    for part in _parts(texts):
        content = [text.encode() for text in part]
        sizes = np.array([len(text) for text in content], "<u4")
        chunks.append([sizes.tobytes(), b"".join(content)])
    delta = pb.Delta(uncompressed_bits_per_value=32, deltas=flat(32))
    offsets = pb.CompressiveEncoding(delta=delta)
    encoding = pb.CompressiveEncoding(variable=pb.Variable(offsets=offsets))
    return _chunked(pa.string(), encoding, chunks, texts, 2)


def _parts(items: Any) -> list[Any]:
    return [items[first : first + 32] for first in range(0, len(items), 32)]


def _zipped_words(rng: np.random.Generator, valid: Mask) -> Stored:
    numbers = rng.integers(0, 1 << 30, len(valid))
    count = int(valid.sum())
    plane = pb3.ZippedValues(
        compression=flat(32), bits_per_value=32, num_items=count, num_visible_items=count
    )
    content = numbers[valid].astype("<i4").tobytes()
    return pa.int32(), pb3.ValuePlane(zipped=plane), [content], numbers.tolist()


def _zipped(items: list[bytes]) -> tuple[pb3.ZippedValues, list[bytes]]:
    content = b"".join(len(item).to_bytes(4, "little") + item for item in items)
    ends = np.cumsum([0, *[4 + len(item) for item in items]]).astype("<u4")
    plane = pb3.ZippedValues(
        compression=variable(32),
        bits_per_offset=32,
        num_items=len(items),
        num_visible_items=len(items),
    )
    return plane, [content, ends.tobytes()]


def _zipped_texts(rng: np.random.Generator, valid: Mask) -> Stored:
    texts = [
        bytes([97 + number % 26]) * (number % 90) for number in rng.integers(0, 99, len(valid))
    ]
    own = [text for text, ok in zip(texts, valid, strict=True) if ok]
    plane, buffers = _zipped(own)
    return pa.binary(), pb3.ValuePlane(zipped=plane), buffers, texts


def _indexed(rng: np.random.Generator, valid: Mask, size: int = 10) -> Stored:
    items = [rng.bytes(size) for _ in range(9)]
    numbers = rng.integers(0, len(items), len(valid))
    plane, buffers = _zipped(items)
    indices, payload = coded(rng, numbers, 32)
    if indices.rle.run_lengths.HasField("constant"):  # which blocks of runs do not have
        indices, payload = _flat(rng, numbers, 32)
    described = pb3.ValuePlane(indexed=pb3.IndexedValues(indices=indices, items=plane))
    return (
        pa.large_binary(),
        described,
        [payload or b"", *buffers],
        [items[number] for number in numbers],
    )


def _large_items(rng: np.random.Generator, valid: Mask) -> Stored:
    """More bytes of items than are read with the indices."""
    return _indexed(rng, valid, 120_000)


VALUES = {
    "none": _none,
    "constant": _equal_numbers,
    "numbers": _numbers,
    "runs": _coded_runs,
    "texts": _texts,
    "sized texts": _sized_texts,
    "zipped words": _zipped_words,
    "zipped texts": _zipped_texts,
    "indexed": _indexed,
    "large items": _large_items,
}
