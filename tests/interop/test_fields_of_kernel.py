"""Fields of all types and encodings: the kernel builds them, with the values that were written."""

from __future__ import annotations

import random
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.file.rows.placing import PageBytes
from alance.file.rows.tasks import FragmentTask
from alance.format import layouts
from alance.format.layouts.fullzip import zipped_form
from tests.reference.thinned import paired, thinned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

ROWS: Final = 2600
FILE_ROWS: Final = 1000
Make: TypeAlias = "Callable[[int], Any]"
PACKED: Final = {"lance-encoding:packed": "true"}
ZIPPED: Final = {"lance-encoding:structural-encoding": "fullzip"}
INDEX_TYPES: Final = (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64())


def or_null(make: Make, step: int = 7) -> Make:
    """Some values, and nulls."""
    return lambda n: None if n % step == 0 else make(n)


def lists(make: Make, most: int = 4) -> Make:
    """Lists of up to three values; some are null, some empty."""
    return or_null(lambda n: [make(7 * n + i) for i in range(n % most)], 11)


def vectors(make: Make, length: int) -> Make:
    """Lists of one length."""
    return lambda n: [make(n * length + i) for i in range(length)]


def structs(**members: Make) -> Make:
    """Structs, of which some are null."""
    return or_null(lambda n: {name: make(n) for name, make in members.items()}, 13)


def entries(key: Make, value: Make) -> Make:
    """Maps of up to three entries."""
    return lambda n: [(key(4 * n + i), value(n + i)) for i in range(n % 4)]


def number(n: int) -> int:
    return n * 7919 % 10007


def flag(n: int) -> bool:
    return (n * 2654435761 >> 7) % 3 == 0


def word(n: int) -> str:
    return f"word {n * 7919 % 1009} of many"


def few(n: int) -> str:
    return f"värd {n * 31 % 17} of few"


def large(n: int) -> str:
    return word(n) * 40


def quarters(n: int) -> float:
    return n % 1000 / 4


def vector(items: pa.DataType, *lengths: int) -> pa.DataType:
    for length in reversed(lengths):
        items = pa.list_(items, length)
    return items


def few_of(index: pa.DataType, values: pa.DataType | None = None) -> pa.DataType:
    return pa.dictionary(index, values or pa.string())


FEW: Final = few_of(pa.int8())
EMPTY: Final = pa.struct([])


def mixed_of(text: Make) -> Make:
    """Packed structs with members of any length."""
    return lambda n: {"a": n, "t": text(n), "b": b"%d" % n * (n % 3), "d": n / 4}


PAIR: Final = pa.struct([("a", pa.int32()), ("b", pa.float64())])


def nothing(n: int) -> dict[str, Any]:
    """Value of a struct without fields."""
    return {}


def pair(n: int) -> dict[str, Any]:
    return {"a": number(n), "b": quarters(n)}


DEEP: Final = pa.list_(
    pa.struct([("x", pa.list_(pa.struct([("y", pa.list_(pa.bool_())), ("z", FEW)])))])
)

TYPES: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    **{f"dictionary {index}": (few_of(index), or_null(few)) for index in INDEX_TYPES},
    "dictionary of binary": (few_of(pa.int16(), pa.binary()), or_null(lambda n: few(n).encode())),
    "dictionary of large text": (few_of(pa.int32(), pa.large_string()), few),
    "dictionary of numbers": (few_of(pa.int8(), pa.float64()), or_null(lambda n: n % 5 * 1.5)),
    "dictionary of many": (few_of(pa.int32()), word),
    "dictionary of one": (FEW, or_null(lambda n: "same")),
    "dictionary of none": (FEW, lambda n: None),
    "dictionary of long texts": (few_of(pa.int16()), or_null(lambda n: few(n) * 30)),
    "dictionary in struct": (
        pa.struct([("a", FEW), ("b", pa.int32())]),
        structs(a=or_null(few), b=number),
    ),
    "dictionary in list": (pa.list_(FEW), lists(or_null(few))),
    "dictionary in map": (pa.map_(FEW, few_of(pa.int16())), entries(few, few)),
    "bits in list": (pa.list_(pa.bool_()), lists(or_null(flag))),
    "bits in large lists": (pa.large_list(pa.large_list(pa.bool_())), lists(lists(flag))),
    "bits in struct": (
        pa.struct([("a", pa.bool_()), ("b", pa.int32())]),
        lambda n: {"a": or_null(flag)(n), "b": n},
    ),
    "bits in map": (pa.map_(pa.string(), pa.bool_()), entries(word, flag)),
    "deep": (DEEP, lists(structs(x=lists(structs(y=lists(or_null(flag)), z=or_null(few)))))),
    "eight bits": (vector(pa.bool_(), 8), or_null(vectors(flag, 8))),
    "five bits": (vector(pa.bool_(), 5), or_null(vectors(flag, 5))),
    "eight bits or nulls": (vector(pa.bool_(), 8), or_null(vectors(or_null(flag), 8))),
    "bits in struct of bits": (
        pa.struct([("a", vector(pa.bool_(), 8))]),
        structs(a=vectors(flag, 8)),
    ),
    "vectors": (vector(pa.float32(), 4), or_null(vectors(quarters, 4))),
    "vectors of nulls": (vector(pa.float32(), 4), or_null(vectors(or_null(quarters), 4))),
    "vectors of vectors": (vector(pa.int16(), 2, 3), or_null(vectors(vectors(number, 3), 2))),
    "vectors of nulls in vectors": (
        vector(pa.int16(), 2, 3),
        or_null(vectors(or_null(vectors(or_null(number), 3), 5), 2)),
    ),
    "vectors of halves": (vector(pa.float16(), 4), vectors(lambda n: np.float16(n % 50), 4)),
    "vectors of dates": (vector(pa.date32(), 4), vectors(number, 4)),
    "vectors of decimals": (vector(pa.decimal128(10, 2), 2), vectors(lambda n: Decimal(n), 2)),
    "vectors of bytes": (vector(pa.binary(3), 2), vectors(lambda n: b"%03d" % (n % 999), 2)),
    "vectors of times": (vector(pa.timestamp("us", "UTC"), 2), vectors(number, 2)),
    "lists of vectors": (
        pa.list_(vector(pa.float32(), 4)),
        lists(or_null(vectors(or_null(quarters), 4))),
    ),
    "lists of bits": (pa.list_(vector(pa.bool_(), 4)), lists(or_null(vectors(or_null(flag), 4)))),
    "lists of long vectors": (pa.list_(vector(pa.float32(), 64)), lists(vectors(quarters, 64))),
    "no values": (pa.null(), lambda n: None),
    "lists of no values": (pa.list_(pa.null()), lists(lambda n: None)),
    "long texts": (pa.string(), or_null(large)),
    "long bytes": (pa.large_binary(), or_null(lambda n: b"%d" % n * 500)),
    "lists of long texts": (pa.list_(pa.list_(pa.string())), lists(lists(or_null(large)))),
    "structs of long texts": (
        pa.struct([("a", pa.string()), ("b", pa.int8())]),
        structs(a=or_null(large), b=lambda n: n % 9),
    ),
    "long documents": (pa.json_(), or_null(lambda n: f'{{"a":"{large(n)}"}}')),
    "lists of packed": (pa.list_(pa.field("item", PAIR, metadata=PACKED)), lists(pair)),
    "structs of packed": (
        pa.struct([pa.field("p", PAIR, metadata=PACKED)]),
        lambda n: {"p": pair(n)},
    ),
}
# Packed structs with members of any length, which files of 2.1 have not.
MIXED: Final = pa.struct(
    [("a", pa.int32()), ("t", pa.string()), ("b", pa.large_binary()), ("d", pa.float64())]
)
PACKED_TEXTS: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    f"{name} packed texts": (
        pa.struct([pa.field("p", MIXED, metadata=PACKED)]),
        structs(p=or_null(mixed_of(text))),
    )
    for name, text in (("few", few), ("long", large), ("different", word), ("empty", lambda n: ""))
} | {
    "texts alone": (
        pa.struct([pa.field("p", pa.struct([("t", pa.string())]), metadata=PACKED)]),
        lambda n: {"p": {"t": word(n)}},
    ),
    "lists of packed texts": (
        pa.list_(pa.field("item", MIXED, metadata=PACKED)),
        lists(or_null(mixed_of(word))),
    ),
    "no packed texts": (
        pa.struct([("n", pa.int8()), pa.field("p", MIXED, metadata=PACKED)]),
        lambda n: {"n": n % 5, "p": None if n else mixed_of(word)(n)},
    ),
}
# Packed structs with members of one width that are no plain values, which files of 2.1 have not.
INNER: Final = pa.struct([("x", pa.int16()), ("y", pa.float64())])
# Structs of fixed width in others, which files of 2.2 have not.
PACKED_PAIRS: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    "packed pairs": (
        pa.struct([pa.field("p", pa.struct([("i", INNER), ("t", pa.string())]), metadata=PACKED)]),
        structs(p=or_null(lambda n: {"i": {"x": n, "y": n / 2}, "t": word(n)})),
    ),
}
DEEPER: Final = pa.struct([("x", pa.int32()), ("b", pa.large_binary())])
PACKED_MEMBERS: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    "packed vectors": (
        pa.struct(
            [
                pa.field(
                    "p",
                    pa.struct([("a", pa.int8()), ("v", vector(pa.float32(), 3))]),
                    metadata=PACKED,
                )
            ]
        ),
        structs(p=or_null(lambda n: {"a": n % 100, "v": vectors(quarters, 3)(n)})),
    ),
    "packed vectors of nulls": (
        pa.struct(
            [
                pa.field(
                    "p",
                    pa.struct([("v", vector(pa.int16(), 2, 3)), ("t", pa.string())]),
                    metadata=PACKED,
                )
            ]
        ),
        lambda n: {
            "p": {"v": vectors(or_null(vectors(or_null(number), 3), 5), 2)(n), "t": word(n)}
        },
    ),
    "packed structs of structs": (
        pa.struct(
            [
                pa.field(
                    "p",
                    pa.struct(
                        [
                            ("s", pa.struct([("t", pa.string()), ("d", DEEPER)])),
                            ("a", pa.int8()),
                            ("v", pa.struct([("v", vector(pa.float32(), 3))])),
                        ]
                    ),
                    metadata=PACKED,
                )
            ]
        ),
        structs(
            p=or_null(
                lambda n: {
                    "s": {"t": word(n), "d": {"x": n, "b": word(n + 1).encode()}},
                    "a": n % 100,
                    "v": {"v": vectors(or_null(quarters), 3)(n)},
                }
            )
        ),
    ),
}
# Lists of structs of one length, which files of 2.1 have not.
STRUCTS: Final = pa.struct([("a", pa.int32()), ("b", pa.string())])
LISTS_OF_STRUCTS: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    "pairs": (
        vector(STRUCTS, 2),
        or_null(vectors(or_null(lambda n: {"a": n, "b": or_null(word)(n)}, 5), 2)),
    ),
    "full pairs": (vector(STRUCTS, 2), vectors(lambda n: {"a": n, "b": word(n)}, 2)),
    "pairs of triples": (
        vector(pa.struct([("v", vector(STRUCTS, 3)), ("d", pa.json_())]), 2),
        or_null(
            vectors(
                lambda n: {
                    "v": or_null(vectors(or_null(lambda m: {"a": m, "b": few(m)}, 5), 3))(n),
                    "d": or_null(lambda m: f'{{"n":{m}}}')(n),
                },
                2,
            )
        ),
    ),
    "pairs in structs": (
        pa.struct([("n", pa.int8()), ("v", vector(pa.struct([("x", pa.bool_())]), 3))]),
        structs(n=lambda n: n % 5, v=or_null(vectors(lambda n: {"x": or_null(flag)(n)}, 3))),
    ),
}
# The same with lists inside, which alance does not write in files of 2.2.
LISTS_IN_STRUCTS: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    "lists in pairs": (
        vector(
            pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.bool_()))]), 2
        ),
        or_null(
            vectors(
                or_null(
                    lambda n: {
                        "l": lists(or_null(number))(n),
                        "m": entries(word, or_null(flag))(n),
                    },
                    5,
                ),
                2,
            )
        ),
    ),
}
# pylance scans rows of these, but cannot take them.
WITHOUT_FIELDS: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    "no fields": (EMPTY, nothing),
    "structs of no fields": (
        pa.struct([("e", pa.struct([("e", EMPTY)])), ("b", pa.int8()), ("f", EMPTY)]),
        lambda n: {"e": {"e": {}}, "b": n % 9, "f": {}},
    ),
}
# pylance writes no levels of structs without fields.
NOT_OF_PYLANCE: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    **WITHOUT_FIELDS,
    "null structs of no fields": (
        pa.struct([("e", pa.struct([("e", EMPTY)])), ("b", pa.int8())]),
        structs(e=structs(e=nothing), b=lambda n: n % 9),
    ),
    "lists of no fields": (pa.list_(EMPTY), lists(nothing)),
    "lists of structs of no fields": (
        pa.list_(pa.large_list(pa.struct([("e", EMPTY), ("b", pa.string())]))),
        lists(lists(structs(e=nothing, b=or_null(word)))),
    ),
}
VALUES: Final[Mapping[str, tuple[pa.DataType, Make]]] = {
    "numbers": (pa.int32(), or_null(lambda n: n // 10)),
    "floats": (pa.float64(), quarters),
    "texts": (pa.string(), or_null(word)),
    "few texts": (pa.string(), or_null(few)),
    "long texts": (pa.string(), or_null(large)),
    "bits": (pa.bool_(), or_null(flag)),
    "bytes": (pa.binary(7), or_null(lambda n: b"%07d" % n)),
    "decimals": (pa.decimal128(12, 2), or_null(lambda n: Decimal(n) / 4)),
    "vectors": (vector(pa.float32(), 4), or_null(vectors(or_null(quarters), 4))),
    "dictionary": (few_of(pa.int32()), or_null(few)),
    "lists": (pa.list_(pa.int32()), lists(or_null(number))),
    "lists of texts": (pa.list_(pa.string()), lists(or_null(word))),
    "packed": (PAIR, or_null(lambda n: {"a": n, "b": n / 2})),
}
COMPRESSED: Final = {
    scheme: {"lance-encoding:compression": scheme} for scheme in ("lz4", "zstd", "fsst", "none")
}
HINTS: Final[Mapping[str, Mapping[str, str]]] = {
    **COMPRESSED,
    "split": {"lance-encoding:bss": "on"} | COMPRESSED["lz4"],
    "zipped": ZIPPED,
    **{f"zipped {scheme}": ZIPPED | COMPRESSED[scheme] for scheme in ("lz4", "zstd", "fsst")},
}


def array(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    """An array of a type, which may have dictionaries inside."""
    if isinstance(arrow, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(arrow, pa.array(values, arrow.storage_type))
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).dictionary_encode().cast(arrow)
    valid = [value is not None for value in values]
    bitmap = None if all(valid) else pa.array(valid).buffers()[1]
    if pa.types.is_struct(arrow):
        filler = next(
            value for value in values if value is not None
        )  # packed members have no nulls
        members = [
            array(own.type, [(filler if value is None else value)[own.name] for value in values])
            for own in arrow
        ]
        return pa.Array.from_buffers(arrow, len(values), [bitmap], children=members)
    if pa.types.is_fixed_size_list(arrow) and pa.types.is_struct(arrow.value_type):
        empty = [None] * arrow.list_size
        child = array(arrow.value_type, [item for value in values for item in value or empty])
        return pa.Array.from_buffers(arrow, len(values), [bitmap], children=[child])
    if pa.types.is_map(arrow) or pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        items: Any = [item for value in values for item in value or []]
        ends = np.cumsum([0, *[len(value or []) for value in values]])
        ends = ends.astype(np.int64 if pa.types.is_large_list(arrow) else np.int32)
        if pa.types.is_map(arrow):
            halves = [[item[half] for item in items] for half in (0, 1)]
            pair = zip((arrow.key_type, arrow.item_type), halves, strict=True)
            fields = [arrow.key_field, arrow.item_field]
            child = pa.StructArray.from_arrays([array(*part) for part in pair], fields=fields)
        else:
            child = array(arrow.value_type, items)
        buffers = [bitmap, pa.py_buffer(ends)]
        return pa.Array.from_buffers(arrow, len(values), buffers, children=[child])
    return pa.array(values, arrow)


def hinted(arrow: pa.DataType, hints: Mapping[str, str]) -> tuple[pa.DataType, Mapping[str, str]]:
    """The type and the metadata of a field whose leaf has hints."""
    if not pa.types.is_list(arrow):
        own = PACKED if pa.types.is_struct(arrow) else {}
        return arrow, {**hints, **own}
    return pa.list_(pa.field("item", arrow.value_type, metadata=hints)), {}


def table_of(columns: Mapping[str, tuple[pa.DataType, Make, Mapping[str, str]]]) -> pa.Table:
    fields = [pa.field(name, arrow, metadata=hints) for name, (arrow, _, hints) in columns.items()]
    arrays = [array(arrow, [make(n) for n in range(ROWS)]) for arrow, make, _ in columns.values()]
    return pa.table(arrays, pa.schema(fields))


def table_of_types(version: str, types: Mapping[str, tuple[pa.DataType, Make]]) -> pa.Table:
    return table_of(
        {
            name: (arrow, make, {})
            for name, (arrow, make) in types.items()
            if version != "2.1" or "map" not in name  # of which 2.1 has none
        }
    )


def table_of_encodings() -> pa.Table:
    return table_of(
        {
            f"{name} {hint}": (own[0], make, own[1])
            for hint, hints in HINTS.items()
            for name, (arrow, make) in VALUES.items()
            for own in [hinted(arrow, hints)]
            if name != "packed" or not hint.startswith("zipped")  # which pylance cannot write
        }
    )


def check(rows: pa.Table, expected: pa.Table) -> None:
    assert rows.schema.equals(expected.schema)
    for name in expected.column_names:
        for chunk in rows[name].chunks:
            chunk.validate(full=True)
        assert rows[name].to_pylist() == expected[name].to_pylist(), name


async def check_reads(uri: str, table: pa.Table) -> None:
    rng = random.Random(7)
    async with alance.Session() as session:
        ds = await alance.dataset(uri, session=session)
        for rows in ([5, 100, 101, ROWS - 1], [7, 3, 3, 2500, 0, 3], rng.sample(range(ROWS), 700)):
            check(await ds.take(rows), table.take(rows))
        check(await ds.to_table(limit=10), table.slice(0, 10))
        check(await ds.to_table(offset=900, limit=400), table.slice(900, 400))
    check(await (await alance.dataset(uri)).to_table(), table)


def refuse(self: FragmentTask, field: Any) -> pa.Array:
    pytest.fail(f"{field.name} is decoded by the codecs")


@pytest.mark.parametrize(
    ("writer", "version", "which"),
    paired(["pylance", "alance"], ["2.1", "2.2"], ["types", "encodings"]),
)
async def test_the_kernel_builds_fields_of_all_types_and_encodings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, version: Any, writer: str
) -> None:
    table = table_of_types(version, TYPES) if which == "types" else table_of_encodings()
    uri = str(tmp_path / "table")
    if writer == "pylance":
        lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS)
    else:
        await alance.write_dataset(
            table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS
        )
    check(lance.dataset(uri).take([7, 3, 3, 2500]), table.take([7, 3, 3, 2500]))
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)


@pytest.mark.parametrize("writer", ["pylance", "alance"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_the_kernel_builds_structs_without_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, writer: str
) -> None:
    uri = str(tmp_path / "table")
    if writer == "pylance":
        table = table_of_types(version, WITHOUT_FIELDS)
        lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS)
    else:
        table = table_of_types(version, NOT_OF_PYLANCE)
        await alance.write_dataset(
            table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS
        )
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)


@pytest.mark.parametrize("writer", ["pylance", "alance"])
async def test_the_kernel_builds_packed_structs_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    table, uri = table_of_types("2.2", PACKED_TEXTS), str(tmp_path / "table")
    if writer == "pylance":
        lance.write_dataset(table, uri, data_storage_version="2.2", max_rows_per_file=FILE_ROWS)
    else:
        await alance.write_dataset(
            table, uri, data_storage_version="2.2", max_rows_per_file=FILE_ROWS
        )
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)


@pytest.mark.parametrize("writer", ["pylance", "alance"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_the_kernel_builds_descriptions_of_blobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, writer: str
) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = or_null(lambda n: b"%d" % n * (n % 5))
    blobs = pa.array([values(n) for n in range(ROWS)], blob.type)
    inner = pa.StructArray.from_arrays([blobs], fields=[blob])
    valid = pa.array([n % 11 != 0 for n in range(ROWS)]).buffers()[1]
    nulls = pa.Array.from_buffers(inner.type, ROWS, [valid], children=[blobs])
    schema = pa.schema([blob, pa.field("s", inner.type), pa.field("n", inner.type)])
    table, uri = pa.table([blobs, inner, nulls], schema), str(tmp_path / "table")
    if writer == "pylance":
        lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS)
    else:
        await alance.write_dataset(
            table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS
        )
    places = lance.dataset(uri).to_table()
    assert places["b"].null_count == blobs.null_count
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, places)


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        *[(name, "alance") for name in LISTS_OF_STRUCTS],
        *[(name, "pylance") for name in LISTS_OF_STRUCTS if name != "pairs in structs"],
        *[(name, "pylance") for name in LISTS_IN_STRUCTS],
    ],
)
async def test_the_kernel_builds_lists_of_structs_of_one_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, writer: str
) -> None:
    table = table_of_types("2.2", {name: (LISTS_OF_STRUCTS | LISTS_IN_STRUCTS)[name]})
    uri = str(tmp_path / "table")
    await write(table, uri, "2.2", writer)
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)


async def write(table: pa.Table, uri: str, version: Any, writer: str) -> None:
    if writer == "pylance":
        lance.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS)
    else:
        await alance.write_dataset(
            table, uri, data_storage_version=version, max_rows_per_file=FILE_ROWS
        )


@pytest.mark.filterwarnings("ignore:file version 2.3 is unstable")
@pytest.mark.parametrize("writer", ["pylance", "alance"])
@pytest.mark.parametrize("version", ["2.2", "2.3"])
async def test_the_kernel_builds_packed_structs_of_vectors_and_structs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, writer: str
) -> None:
    types = PACKED_MEMBERS | (PACKED_PAIRS if version == "2.3" else {})
    table, uri = table_of_types(version, types), str(tmp_path / "table")
    await write(table, uri, version, writer)
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)


def deep(make: Make, depth: int) -> tuple[pa.DataType, Make]:
    """Lists and structs in each other, some of them null."""
    arrow: pa.DataType = pa.int32()
    for level in range(depth):
        if level % 3:
            arrow, make = pa.struct([("s", arrow)]), structs(s=make)
        else:
            arrow, make = (
                pa.list_(arrow),
                or_null(lambda n, own=make: [own(n + i) for i in range(1 + n % 2)], 19),
            )
    return arrow, make


@pytest.mark.parametrize(("writer", "version"), thinned(["pylance", "alance"], ["2.1", "2.2"]))
async def test_the_kernel_builds_fields_of_any_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, writer: str
) -> None:
    types = {f"of depth {depth}": deep(or_null(number), depth) for depth in (15, 16, 17, 24)}
    table, uri = table_of_types(version, types), str(tmp_path / "table")
    await write(table, uri, version, writer)
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)


@pytest.mark.parametrize("writer", ["pylance", "alance"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_the_kernel_builds_lists_of_one_bit_and_many_lists_of_one_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, writer: str
) -> None:
    types = {
        "one bit": (vector(pa.bool_(), 1), or_null(vectors(flag, 1))),
        "one bit or null": (vector(pa.bool_(), 1), or_null(vectors(or_null(flag), 1))),
        "one bit of one": (vector(pa.bool_(), 1, 1), or_null(vectors(vectors(flag, 1), 1))),
        "twelve lists": (
            vector(pa.int16(), *[1] * 11, 2),
            or_null(_nested(vectors(or_null(number), 2), 11)),
        ),
    }
    table, uri = table_of_types(version, types), str(tmp_path / "table")
    await write(table, uri, version, writer)
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)


def _nested(make: Make, depth: int) -> Make:
    for _ in range(depth):
        make = vectors(make, 1)
    return make


@pytest.mark.parametrize("writer", ["pylance", "alance"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_an_index_of_rows_may_stay_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, writer: str
) -> None:
    names = ("long texts", "long bytes", "lists of long texts", "lists of long vectors")
    table = table_of_types(version, {name: TYPES[name] for name in names})
    uri = str(tmp_path / "table")
    await write(table, uri, version, writer)
    monkeypatch.setattr(FragmentTask, "column", refuse)
    places: list[bool] = []
    read_rows = PageBytes.read_rows

    def read(own: PageBytes, plan: Any, paths: Any, **more: Any) -> Any:
        places.append(more.get("places", False))
        return read_rows(own, plan, paths, **more)

    monkeypatch.setattr(PageBytes, "read_rows", read)
    monkeypatch.setattr(layouts, "zipped_form", partial(zipped_form, most_index_bytes=16))
    layouts._shared_form.cache_clear()
    try:
        await check_reads(uri, table)
    finally:
        layouts._shared_form.cache_clear()
    assert any(places)


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
async def test_the_kernel_decodes_dictionaries_of_any_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any
) -> None:
    few_numbers = or_null(lambda n: n * 31 % 17 * 1000)
    types = {
        "numbers": (pa.int64(), few_numbers),
        "halves": (pa.int64(), or_null(lambda n: n * 31 % 40 // 20 * (1 << 40))),
        "decimals": (pa.decimal128(30, 2), or_null(lambda n: Decimal(n * 31 % 17 * 10**20))),
        "texts": (pa.string(), or_null(lambda n: few(n) * 9)),
        "large bytes": (pa.large_binary(), or_null(lambda n: few(n).encode() * 9)),
        "vectors": (vector(pa.int32(), 6), or_null(vectors(lambda n: n // 6 % 5, 6))),
        "numbers of a type": (few_of(pa.int16(), pa.int32()), few_numbers),
    }
    table = table_of(
        {
            f"{name} {scheme}": (arrow, make, {"lance-encoding:dict-values-compression": scheme})
            for name, (arrow, make) in types.items()
            for scheme in ("lz4", "zstd", "none")
        }
    )
    uri = str(tmp_path / "table")
    await write(table, uri, version, "pylance")
    monkeypatch.setattr(FragmentTask, "column", refuse)
    await check_reads(uri, table)
