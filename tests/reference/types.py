"""Every Arrow type that the format keeps, each with a maker of random values."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Make: TypeAlias = Callable[[random.Random], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def integers(bits: int, *, signed: bool) -> Make:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return lambda rng: (
        rng.choice([low, high, 0, 1]) if rng.random() < 0.1 else rng.randint(low, high)
    )


def text(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return ""
    letters = "abcxyz äß€𝄞" if rng.random() < 0.2 else "abcdefgh"
    return "".join(rng.choices(letters, k=rng.randrange(1, 12)))


def very_wide(rng: random.Random) -> str:
    """A few of 40 KB, which writers compress unasked, among short ones."""
    return text(rng) * (10_000 if rng.random() < 0.03 else 1)


def binary(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(12))


def lists(make: Make, longest: int = 5, nulls: float = 0.2) -> Make:
    def make_list(rng: random.Random) -> list[Any]:
        count = 0 if rng.random() < 0.2 else rng.randrange(longest)
        return [None if rng.random() < nulls else make(rng) for _ in range(count)]

    return make_list


def vectors(make: Make, dimension: int, nulls: float = 0.0) -> Make:
    return lambda rng: [None if rng.random() < nulls else make(rng) for _ in range(dimension)]


def structs(nulls: float = 0.2, **makers: Make) -> Make:
    return lambda rng: {
        name: None if rng.random() < nulls else make(rng) for name, make in makers.items()
    }


def maps(make: Make, nulls: float = 0.2) -> Make:
    return lambda rng: [
        (f"k{number}", None if rng.random() < nulls else make(rng))
        for number in range(rng.randrange(4))
    ]


def half(rng: random.Random) -> Any:
    return np.float16(rng.randrange(-2048, 2048) / 4)


def number(rng: random.Random) -> float:
    special = [math.inf, -math.inf, 0.0, -0.0]
    return rng.choice(special) if rng.random() < 0.05 else rng.gauss(0, 1000)


def single(rng: random.Random) -> float:
    return float(np.float32(rng.gauss(0, 1000)))


def amounts(digits: int, scale: int) -> Make:
    def amount(rng: random.Random) -> decimal.Decimal:
        value = rng.randint(-(10**digits) + 1, 10**digits - 1)
        sign, numerals, _ = decimal.Decimal(value).as_tuple()
        return decimal.Decimal((sign, numerals, -scale))

    return amount


def whole(rng: random.Random) -> int:
    return rng.randrange(1 << 20)


def few(rng: random.Random) -> str:
    return rng.choice(["red", "green", "blue", "a rather long colour name"])


def when(rng: random.Random) -> datetime:
    return EPOCH + timedelta(seconds=rng.randrange(-(10**9), 2 * 10**9))


def flag(rng: random.Random) -> bool:
    return rng.random() < 0.5


INT = pa.int32()

TYPES: dict[str, tuple[pa.DataType, Make]] = {
    "null": (pa.null(), lambda _: None),
    "bool": (pa.bool_(), flag),
    **{
        f"{'' if signed else 'u'}int{bits}": (
            getattr(pa, f"{'' if signed else 'u'}int{bits}")(),
            integers(bits, signed=signed),
        )
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    },
    "small ints": (pa.int64(), lambda rng: rng.randrange(100)),
    "runs": (pa.int32(), lambda rng: int(rng.random() < 0.02)),
    "constant": (pa.int32(), lambda _: 7),
    "constant text": (pa.string(), lambda _: "always"),
    "halffloat": (pa.float16(), half),
    "float": (pa.float32(), single),
    "double": (pa.float64(), number),
    "decimal128": (pa.decimal128(38, 6), amounts(37, 6)),
    "decimal128 small": (pa.decimal128(9, 2), amounts(9, 2)),
    "decimal256": (pa.decimal256(60, 10), amounts(60, 10)),
    "date32": (pa.date32(), lambda rng: date(1970, 1, 1) + timedelta(rng.randrange(-9999, 29999))),
    "date64": (pa.date64(), lambda rng: date(1970, 1, 1) + timedelta(rng.randrange(-9999, 29999))),
    "time32 s": (pa.time32("s"), lambda rng: time(rng.randrange(24), rng.randrange(60))),
    "time32 ms": (pa.time32("ms"), lambda rng: time(1, 2, 3, rng.randrange(1000) * 1000)),
    "time64 us": (pa.time64("us"), lambda rng: time(1, 2, 3, rng.randrange(10**6))),
    "time64 ns": (pa.time64("ns"), lambda rng: time(1, 2, 3, rng.randrange(10**6))),
    **{
        f"timestamp {unit}{' ' + zone if zone else ''}": (
            pa.timestamp(unit, zone),
            when if zone else lambda rng: when(rng).replace(tzinfo=None),
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+02:30")
    },
    **{
        f"duration {unit}": (pa.duration(unit), lambda rng: timedelta(seconds=rng.randrange(10**6)))
        for unit in ("s", "ms", "us", "ns")
    },
    "string": (pa.string(), text),
    "large string": (pa.large_string(), text),
    "long string": (pa.string(), lambda rng: text(rng) * rng.randrange(1, 200)),
    "wide large string": (pa.large_string(), lambda rng: text(rng) * rng.randrange(1, 200)),
    "very wide string": (pa.string(), very_wide),
    "very wide large string": (pa.large_string(), very_wide),
    "few strings": (pa.string(), few),
    "binary": (pa.binary(), binary),
    "large binary": (pa.large_binary(), binary),
    "long binary": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(3000))),
    "very wide large binary": (pa.large_binary(), lambda rng: very_wide(rng).encode()),
    "fixed-size binary": (pa.binary(5), lambda rng: rng.randbytes(5)),
    "wide fixed-size binary": (pa.binary(300), lambda rng: rng.randbytes(300)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), few),
    "dictionary of bytes": (
        pa.dictionary(pa.int8(), pa.large_binary()),
        lambda rng: few(rng).encode(),
    ),
    "dictionary of ints": (pa.dictionary(pa.uint16(), pa.int64()), lambda rng: rng.randrange(9)),
    "vector": (pa.list_(pa.float32(), 4), vectors(single, 4)),
    "vector with nulls": (pa.list_(pa.int16(), 3), vectors(lambda rng: rng.randrange(99), 3, 0.2)),
    "wide vector": (pa.list_(pa.float32(), 80), vectors(single, 80)),
    "wide vector with nulls": (pa.list_(pa.int64(), 70), vectors(whole, 70, 0.2)),
    "vector of bools": (pa.list_(pa.bool_(), 5), vectors(flag, 5)),
    "vector of nulls": (pa.list_(pa.null(), 2), lambda _: [None, None]),
    "vector of vectors": (pa.list_(pa.list_(pa.float64(), 2), 3), vectors(vectors(number, 2), 3)),
    "struct": (pa.struct({"a": INT, "b": pa.string()}), structs(a=whole, b=text)),
    "struct of struct": (
        pa.struct({"s": pa.struct({"a": INT, "v": pa.list_(INT, 2)}), "b": pa.bool_()}),
        structs(s=structs(a=whole, v=vectors(whole, 2)), b=flag),
    ),
    "list": (pa.list_(INT), lists(whole)),
    "list of bool": (pa.list_(pa.bool_()), lists(flag)),
    "list without nulls": (pa.list_(INT), lists(whole, nulls=0)),
    "large list": (pa.large_list(pa.int64()), lists(whole)),
    "long lists": (pa.list_(INT), lists(whole, 400)),
    "list of strings": (pa.list_(pa.string()), lists(text)),
    "list of long strings": (pa.list_(pa.string()), lists(lambda rng: text(rng) * 99)),
    "list of vectors": (pa.list_(pa.list_(pa.float32(), 3)), lists(vectors(single, 3))),
    "list of lists": (pa.list_(pa.list_(INT)), lists(lists(whole))),
    "list of large lists of lists": (
        pa.list_(pa.large_list(pa.list_(pa.string()))),
        lists(lists(lists(text))),
    ),
    "list of structs": (
        pa.list_(pa.struct({"a": INT, "b": pa.string()})),
        lists(structs(a=whole, b=text)),
    ),
    "list of structs of lists": (
        pa.list_(pa.struct({"a": INT, "l": pa.list_(pa.string()), "z": pa.float64()})),
        lists(structs(a=whole, l=lists(text), z=number)),
    ),
    "struct of lists": (
        pa.struct({"l": pa.list_(INT), "m": pa.list_(pa.struct({"x": pa.string()}))}),
        structs(l=lists(whole), m=lists(structs(x=text))),
    ),
    "list of dictionaries": (pa.list_(pa.dictionary(pa.int16(), pa.string())), lists(few)),
    "map": (pa.map_(pa.string(), INT), maps(whole)),
    "map of lists": (pa.map_(pa.string(), pa.list_(INT)), maps(lists(whole))),
    "list of maps": (pa.list_(pa.map_(pa.string(), pa.string())), lists(maps(text))),
    "vector of structs": (
        pa.list_(pa.struct({"a": INT, "b": pa.string()}), 2),
        vectors(structs(a=whole, b=text), 2, 0.2),
    ),
    "struct with vector of structs": (
        pa.struct({"a": INT, "v": pa.list_(pa.struct({"x": INT}), 3)}),
        structs(a=whole, v=vectors(structs(x=whole), 3)),
    ),
}
ONLY_2_2 = (
    "map",
    "map of lists",
    "list of maps",
    "vector of structs",
    "struct with vector of structs",
)
CASES = [
    (name, version)
    for name in TYPES
    for version in ("2.1", "2.2")
    if version == "2.2" or name not in ONLY_2_2
]
# Their columns are longer than those beside them, which pylance takes for an error.
NOT_BESIDE_OTHERS = ("vector of structs", "struct with vector of structs")


def column(name: str, num_rows: int, nulls: float, seed: int = 0) -> pa.Array:
    """Random values of a type; `nulls` is the share of null rows."""
    arrow, make = TYPES[name]
    rng = random.Random(f"{name} {nulls} {seed}")
    values = [None if rng.random() < nulls else make(rng) for _ in range(num_rows)]
    return pa.array(values, arrow)
