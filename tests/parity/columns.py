"""Columns of every kind that a file version can hold, of random values."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

import alance
from tests.reference.types import TYPES, column

# Names of types, and what their columns ask of the writer.
HINTED: Final[dict[str, list[tuple[str, dict[str, str]]]]] = {
    "numbers": [
        (name, {})
        for name in (
            *("int8", "uint16", "int32", "int64", "uint64", "halffloat", "float", "double", "bool"),
            *("date32", "timestamp us UTC", "duration ms", "time64 ns", "decimal128", "decimal256"),
        )
    ],
    "compressed": [
        ("small ints", {}),
        ("runs", {}),
        ("constant", {}),
        ("constant text", {}),
        ("few strings", {}),
        ("dictionary", {}),
        ("dictionary of bytes", {}),
        ("double", {"bss": "on", "compression": "lz4"}),
        ("float", {"bss": "off", "compression": "zstd"}),
        ("int64", {"compression": "none"}),
        ("string", {"compression": "fsst"}),
        ("binary", {"compression": "lz4"}),
        ("large string", {"compression": "zstd"}),
    ],
    "texts": [
        *((name, {}) for name in ("string", "large string", "binary", "large binary")),
        *((name, {}) for name in ("long string", "wide large string", "fixed-size binary")),
        ("long binary", {"compression": "zstd"}),
        ("list of strings", {"compression": "fsst"}),
    ],
    "wide": [
        ("wide vector", {}),
        ("wide vector with nulls", {}),
        ("wide fixed-size binary", {}),
        ("vector", {}),
        ("vector with nulls", {}),
        ("vector of bools", {}),
        ("vector of vectors", {}),
        ("string", {"structural-encoding": "fullzip"}),
        ("int32", {"structural-encoding": "fullzip"}),
        ("long string", {"structural-encoding": "miniblock"}),
        ("string", {"structural-encoding": "sparse"}),
        ("int64", {"structural-encoding": "sparse"}),
        ("list", {"structural-encoding": "sparse"}),
        ("long binary", {"structural-encoding": "sparse"}),
        ("list of long strings", {"structural-encoding": "fullzip"}),
    ],
    "lists": [
        *((name, {}) for name in ("list", "large list", "list of bool", "list of strings")),
        *((name, {}) for name in ("list of long strings", "list of vectors", "list of lists")),
        *((name, {}) for name in ("long lists", "list of dictionaries", "list without nulls")),
    ],
    "structs": [
        *((name, {}) for name in ("struct", "struct of struct", "struct of lists")),
        *((name, {}) for name in ("list of structs", "list of structs of lists")),
        *((name, {}) for name in ("map", "map of lists", "list of maps")),
    ],
}
# pyarrow takes and filters slices of vectors of vectors without nulls wrongly.
EXCLUDED: Final = (("0.1", "vector of vectors"),)
KINDS: Final = (*HINTED, "deep", "nulls", "no members", "special")
TEXTS: Final = (
    *("string", "large string", "binary", "large binary"),
    *("long string", "wide large string", "long binary"),
)
# Types inside of each other from the outside: lists, large lists, structs, vectors, maps.
CHAINS: Final = ("lslsl", "sllss", "lLlLl", "sssss", "slLsv", "llsLv", "lssll")
MAP_CHAINS: Final = ("mlsms", "lmlsl", "smmls", "lsmlv")
LEAVES: Final = (pa.int32(), pa.string(), pa.bool_(), pa.float64(), pa.large_binary())


class Nulls(NamedTuple):
    """The share of nulls that a file version can tell, by what is null."""

    values: float
    lists: float
    structs: float


NULLS: Final = {"0.1": Nulls(0, 0, 0), "2.0": Nulls(0.15, 0.15, 0)}
ALL_NULLS: Final = Nulls(0.15, 0.15, 0.15)


@lru_cache(maxsize=32)
def columns(kind: str, version: str, count: int) -> pa.Table:
    """Columns of a kind; some values are null where the file version can tell."""
    if kind == "deep":
        chains = CHAINS if version < "2.2" else CHAINS + MAP_CHAINS
        types = [_chain(chain, LEAVES[n % len(LEAVES)]) for n, chain in enumerate(chains)]
        arrays = [_random(arrow, version, count) for arrow in types]
        return pa.table(arrays, list(chains))
    if kind == "nulls":
        return _nulls(version, count)
    if kind == "no members":
        return _no_members(count)
    if kind == "special":
        return _special(version, count)
    fields, arrays = [], []
    for name, hints in HINTED[kind]:
        if ("map" in name and version < "2.2") or (version, name) in EXCLUDED:
            continue
        if version < "2.3" and hints.get("structural-encoding") == "sparse":
            continue
        array = _column(name, version, count)
        metadata = {f"lance-encoding:{key}": value for key, value in hints.items()}
        label = " ".join([name, *hints.values()])
        fields.append(pa.field(label, array.type, metadata=metadata or None))
        arrays.append(array)
    table = pa.table(arrays, pa.schema(fields))
    return _with_compressible(table, count) if kind == "compressed" else table


def _with_compressible(table: pa.Table, count: int) -> pa.Table:
    """The table with columns that each general compression makes smaller."""
    rng = np.random.default_rng(count)
    numbers = 100 + np.arange(count) / 64
    texts = [f"{'a word that comes again ' * 4}{n}" for n in rng.integers(0, 1 << 40, count)]
    for scheme in ("lz4", "zstd"):
        metadata = {"lance-encoding:compression": scheme, "lance-encoding:bss": "on"}
        for array in (pa.array(numbers), pa.array(texts)):
            field = pa.field(f"smooth {array.type} {scheme}", array.type, metadata=metadata)
            table = table.append_column(field, array)
    return table


def _column(name: str, version: str, count: int) -> pa.Array:
    arrow = TYPES[name][0]
    if (version == "0.1" and name in TEXTS) or (version < "2.1" and pa.types.is_nested(arrow)):
        return _random(arrow, version, count)  # without nulls inside, or empty strings
    return column(name, count, NULLS.get(version, ALL_NULLS).values)


def _chain(kinds: str, leaf: pa.DataType) -> pa.DataType:
    """Types inside of each other; a struct has a number beside what it is there for."""
    arrow = leaf
    for kind in reversed(kinds):
        if kind == "s":
            arrow = pa.struct([("in", arrow), ("x", pa.int16())])
        elif kind == "v":
            arrow = pa.list_(pa.float32(), 3)
        elif kind == "m":
            arrow = pa.map_(pa.string(), arrow)
        else:
            arrow = pa.list_(arrow) if kind == "l" else pa.large_list(arrow)
    return arrow


def _random(arrow: pa.DataType, version: str, count: int) -> pa.Array:
    """Random values of any type, null wherever the file version can tell."""
    rng = np.random.default_rng([count, *str(arrow).encode()])
    return _array(arrow, rng, count, NULLS.get(version, ALL_NULLS))


def _array(arrow: pa.DataType, rng: np.random.Generator, count: int, nulls: Nulls) -> pa.Array:
    mask = _mask(rng, count, nulls.structs)
    if pa.types.is_struct(arrow):
        members = [_array(member.type, rng, count, nulls) for member in arrow]
        return pa.StructArray.from_arrays(members, fields=list(arrow), mask=pa.array(mask))
    if pa.types.is_fixed_size_list(arrow):
        items = _array(arrow.value_type, rng, count * arrow.list_size, nulls)
        mask = _mask(rng, count, nulls.values)
        return pa.FixedSizeListArray.from_arrays(items, type=arrow, mask=pa.array(mask))
    if pa.types.is_map(arrow) or pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        mask = _mask(rng, count, nulls.lists)
        sizes = rng.choice([0, 1, 1, 2, 3], count)
        sizes[mask] = 0
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if pa.types.is_map(arrow):
            names = pa.array([f"k{n}" for n in rng.integers(0, 99, offsets[-1])], pa.string())
            items = _array(arrow.item_type, rng, offsets[-1], nulls)
            return pa.MapArray.from_arrays(
                _offsets(offsets, mask, pa.int32()), names, items, type=arrow
            )
        items = _array(arrow.value_type, rng, offsets[-1], nulls)
        is_large = pa.types.is_large_list(arrow)
        kind, width = (pa.LargeListArray, pa.int64()) if is_large else (pa.ListArray, pa.int32())
        return kind.from_arrays(pa.array(offsets, width), items, type=arrow, mask=pa.array(mask))
    numbers = rng.integers(0, 1000, count)
    mask = _mask(rng, count, nulls.values)
    if pa.types.is_dictionary(arrow):
        texts = [f"item {number % 7}" for number in numbers]
        return pa.array(texts, arrow.value_type, mask=mask).dictionary_encode().cast(arrow)
    if pa.types.is_boolean(arrow):
        return pa.array(numbers < 500, arrow, mask=mask)
    if not (pa.types.is_integer(arrow) or pa.types.is_floating(arrow)):
        texts = [f"{'é' * (n % 4)}{n}" * (1 + n % 5) for n in numbers.tolist()]
        return pa.array([text.encode() for text in texts], pa.binary(), mask=mask).cast(arrow)
    return pa.array(numbers % 100, mask=mask).cast(arrow)


def _mask(rng: np.random.Generator, count: int, share: float) -> np.ndarray:
    return rng.random(count) < share


def _offsets(offsets: np.ndarray, mask: np.ndarray, width: pa.DataType) -> pa.Array:
    """Offsets that are null where a map is: its constructor takes no mask."""
    nulls = np.concatenate([mask, [False]])
    return pa.array(offsets, width, mask=nulls if nulls.any() else None)


def _nulls(version: str, count: int) -> pa.Table:
    """Columns of nulls and of empty values alone."""
    lists = {"0.1": [[]], "2.0": [[], None]}.get(version, [[], None, []])
    several = {
        "nulls": pa.nulls(count),
        "empty lists": pa.array((lists * count)[:count], pa.list_(pa.int32())),
    }
    if version > "0.1":
        several["null numbers"] = pa.nulls(count, pa.int64())
        several["null texts"] = pa.nulls(count, pa.string())
        several["null vectors"] = pa.nulls(count, pa.list_(pa.float32(), 4))
        several["null lists"] = pa.nulls(count, pa.list_(pa.string()))
        several["empty texts"] = pa.array(["", None, ""] * count)[:count]
    if version > "2.0":
        members = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))])
        several["null structs"] = pa.nulls(count, members)
        several["lists of nulls"] = pa.array([[None] * (n % 3) for n in range(count)])
    return pa.table(several)


def _no_members(count: int) -> pa.Table:
    """Structs without fields, by themselves and in others."""
    empty = pa.struct([])
    inside = [{"e": {}, "l": [{}] * (n % 2), "x": n} for n in range(count)]
    arrow = pa.struct([("e", empty), ("l", pa.list_(empty)), ("x", pa.int16())])
    several = {
        "alone": pa.array([{}] * count, empty),
        "in lists": pa.array([[{}] * (n % 3) for n in range(count)], pa.list_(empty)),
        "in structs": pa.array(inside, arrow),
    }
    return pa.table(several)


def _special(version: str, count: int) -> pa.Table:
    """Blobs as the file version has them, documents, and a packed struct."""
    values = [None if n % 11 == 3 else b"%d " % n * (n % 9) for n in range(count)]
    values[count // 2] = bytes(range(256)) * 3
    documents = [{"a": n, "b": [n / 4, None, {"c": str(n)}]} for n in range(count)]
    texts = [json.dumps(document, separators=(",", ":")) for document in documents]
    texts[3::7] = [None] * len(texts[3::7])
    json_array = pa.array(texts, pa.json_())
    if version < "2.2":
        field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        blobs = pa.array(values, pa.large_binary())
    else:
        field = alance.blob_field("blob", inline_size_threshold=20, dedicated_size_threshold=150)
        blobs = alance.blob_array(values)
    numbers = pa.array(range(count), pa.int32())
    packed = pa.StructArray.from_arrays([numbers, numbers.cast(pa.float64())], ["a", "b"])
    fields = [
        field,
        pa.field("json", pa.json_()),
        pa.field("packed", packed.type, metadata={"lance-encoding:packed": "true"}),
    ]
    return pa.table([blobs, json_array, packed], pa.schema(fields))
