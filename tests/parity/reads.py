"""Takes and scans, each as a call of alance and the same one of pylance."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance import LanceDataset

    import alance

TAKEN_BY: Final = ("offsets", "row ids", "addresses", "offsets in a fragment")
PICKED: Final = ("some", "repeated", "descending", "neighbours", "many", "one", "none")
NUMBERS: Final = ("key", "price", "runs", "vector")
COLUMNS: Final[tuple[Sequence[str] | Mapping[str, str] | None, ...]] = (
    None,
    NUMBERS,
    ("text", "wide", "flag"),
    ("wide_vector", "list", "key"),
    ("lists", "texts", "structs", "dictionary"),
    ("struct", "packed"),
    ("struct.in.l", "struct.a"),
    ("group",),
    {"sum": "key + group", "text": "text", "inner": "struct.b"},
)
FILTERS: Final = (
    "key % 3 = 1",
    "key between 40 and 55",
    "key in (3, 17, 44, 170, 1000013)",
    "group = 4",
    "group in (1, 7) and key > 100",
    "runs = 2",
    "price is null",
    "text like '%7' or flag",
    "flag and not (group = 3)",
    "struct.a < 90",
    "key < 0",
    "_rowid % 5 = 1",
)


@dataclass(frozen=True)
class Take:
    """Rows by place."""

    by: str
    picked: str
    columns: Any

    def __str__(self) -> str:
        return f"take {self.picked} by {self.by} of {self.columns}"

    def places(self, table: LanceDataset, seed: int) -> list[int]:
        """Row offsets, ids or addresses to ask for; another seed picks others."""
        rng = random.Random(f"{self.by} {self.picked} {seed}")
        if self.by == "offsets":
            return pick(range(table.count_rows()), self.picked, rng)
        if self.by == "offsets in a fragment":
            return pick(range(table.get_fragments()[-1].count_rows()), self.picked, rng)
        meta = table.to_table(columns=[], with_row_id=True, with_row_address=True)
        name = "_rowid" if self.by == "row ids" else "_rowaddr"
        return pick(meta[name].to_pylist(), self.picked, rng)

    async def ours(self, table: alance.Dataset, places: list[int]) -> pa.Table:
        if self.by == "offsets":
            return await table.take(places, self.columns)
        if self.by == "row ids":
            return await table.take_rows(places, self.columns)
        if self.by == "addresses":
            return await table.take_addresses(places, self.columns)
        return await table.fragments[-1].take(places, self.columns)

    def theirs(self, table: LanceDataset, places: list[int]) -> pa.Table:
        columns = dict(self.columns) if isinstance(self.columns, dict) else self.columns
        columns = list(columns) if isinstance(columns, tuple) else columns
        if self.by == "row ids":
            return table._take_rows(places, columns)
        if self.by == "addresses":  # which pylance has no call for
            addresses = table.to_table(columns=[], with_row_address=True)["_rowaddr"].to_numpy()
            offsets = {address: offset for offset, address in enumerate(addresses.tolist())}
            return table.take([offsets[address] for address in places], columns)
        if self.by == "offsets in a fragment":  # pylance's own wants them in order
            first = table.count_rows() - table.get_fragments()[-1].count_rows()
            places = [first + place for place in places]
        return table.take(places, columns)


@dataclass(frozen=True)
class Scan:
    """Rows in order, by the options of both."""

    columns: Any
    options: Mapping[str, Any]

    def __str__(self) -> str:
        return f"scan of {self.columns} with {self.options}"

    def places(self, table: LanceDataset, seed: int) -> list[int]:
        """None: the options say it all."""
        return []

    async def ours(self, table: alance.Dataset, places: list[int]) -> pa.Table:
        options = dict(self.options)
        if "fragments" in options:
            ids = [fragment.fragment_id for fragment in table.fragments]
            options["fragments"] = ids[options["fragments"]]
        scanner = table.scanner(self.columns, **options)
        batches = [batch async for batch in scanner.to_batches()]
        if (most := options.get("batch_size")) is not None:
            assert all(0 < len(batch) <= most for batch in batches)
        return pa.Table.from_batches(batches, scanner.projected_schema)

    def theirs(self, table: LanceDataset, places: list[int]) -> pa.Table:
        options = dict(self.options)
        if "fragments" in options:
            options["fragments"] = table.get_fragments()[options["fragments"]]
        options.pop("io_buffer_bytes", None)
        if table.data_storage_version == "0.1":  # its indices give rows in an order of their own
            options["use_scalar_index"] = False
        columns = list(self.columns) if isinstance(self.columns, tuple) else self.columns
        return table.scanner(columns, **options).to_table()


def pick(places: Sequence[int], how: str, rng: random.Random) -> list[int]:
    """Choose some of the places."""
    count = len(places)
    if how == "none":
        return []
    if how == "one":
        return [places[rng.randrange(count)]]
    if how == "neighbours":
        start = rng.randrange(count)
        return list(places[start : start + 12])
    numbers = rng.sample(range(count), min(count, count // 3 if how == "many" else 9))
    if how == "repeated":
        numbers = rng.choices(numbers[:3], k=8) + numbers
    if how == "descending":
        numbers.sort(reverse=True)
    return [places[number] for number in numbers]


def drawn_reads(version: str, history: str, seed: str, count: int) -> list[Take | Scan]:
    """Takes and scans, drawn at random: as many of each."""
    rng = random.Random(seed)
    columns = columns_of(version, history)
    takes = [
        Take(TAKEN_BY[n % 4], PICKED[(n + n // 7) % 7], rng.choice(columns))
        for n in rng.sample(range(4 * 7), count)
    ]
    scans = [_scan(rng, version, columns) for _ in range(count)]
    return [*takes, *scans, Scan(None, {})]


def columns_of(version: str, history: str) -> list[Any]:
    """Projections of a table's columns."""
    columns = [*COLUMNS]
    if version != "0.1":
        columns.append(("blob", "key"))
    if history == "widened":
        columns += [("double", "shout", "key"), ("again",), ("text", "again", "struct.b")]
    else:
        columns.append(("few", "constant"))
    return columns


def _scan(rng: random.Random, version: str, columns: list[Any]) -> Scan:
    # pylance's readers of 0.1 filter by no row id
    filters = FILTERS[:-1] if version == "0.1" else FILTERS
    shares: list[tuple[str, float, Any]] = [
        ("filter", 0.6, rng.choice(filters)),
        ("limit", 0.25, rng.choice([0, 1, 7, 60, 10**7])),
        ("offset", 0.2, rng.choice([1, 13, 50, 10**7])),
        ("batch_size", 0.3, rng.choice([1, 7, 64, 1000])),
        ("with_row_id", 0.2, True),
        ("with_row_address", 0.2, True),
        ("late_materialization", 0.3, rng.random() < 0.5),
        ("use_scalar_index", 0.2, False),
        ("use_stats", 0.2, False),
        ("fragments", 0.15, slice(1, None, 2)),
        ("batch_readahead", 0.1, 1),
        ("io_buffer_bytes", 0.2, 4096),
    ]
    options = {name: value for name, share, value in shares if rng.random() < share}
    projected = rng.choice(columns)
    if rng.random() < 0.15:
        projected, options["order_by"] = rng.choice([None, NUMBERS]), ["key"]
        options["limit"] = options.get("limit") or 50
    if options.get("batch_size", 64) < 64:
        options["limit"] = 60
    return Scan(projected, options)
