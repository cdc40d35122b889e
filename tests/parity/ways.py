"""Every way to read a table, each beside what the plain model of its rows says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import alance
import alance.sync
from tests.parity.reads import PICKED, pick
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tests.parity.stored import Stored

OpenFile: TypeAlias = Callable[[str], Awaitable[alance.FileReader]]


@dataclass(frozen=True, slots=True)
class Reading:
    """One call of a way: an open table, its model, and what to draw from.

    Attributes:
        file: opens a data file by its path in the table.
    """

    dataset: alance.Dataset
    model: Stored
    rng: random.Random
    file: OpenFile

    @property
    def count(self) -> int:
        return len(self.model.rows)

    def columns(self) -> list[str]:
        """Half of the columns at least, in any order."""
        names = self.model.rows.column_names
        return self.rng.sample(names, self.rng.randint(len(names) // 2, len(names)))

    def part(self) -> tuple[int, int]:
        """The first of some rows, and how many."""
        start = self.rng.randrange(self.count)
        return start, self.rng.choice([1, 5, 40, self.count // 2])

    def filter(self) -> tuple[str, np.ndarray]:
        """A condition, and the places of the rows for which it is true."""
        numbers = self.model.numbers
        key, team, number = numbers.values()
        low = int(self.rng.choice(number))
        several = self.rng.choices(key.tolist(), k=5)
        condition, is_true = self.rng.choice(
            [
                (f"key in ({', '.join(map(str, several))})", np.isin(key, several)),
                ("team % 3 = 1", team % 3 == 1),
                (f"key = {several[0]}", key == several[0]),
                (
                    f"{self.model.number} between {low} and {low + 30}",
                    (number >= low) & (number <= low + 30),
                ),
                (f"key > {several[0]} or team = 2", (key > several[0]) | (team == 2)),
                ("key >= 0", key >= 0),
                ("key < 0", key < 0),
            ]
        )
        return condition, np.flatnonzero(is_true)

    def rows(self, places: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of the model."""
        table = self.model.rows if columns is None else self.model.rows.select(columns)
        return rows_of(table, places)


def rows_of(table: pa.Table, places: Any) -> pa.Table:
    """Rows by place; a slice where they are neighbours, since `take` copies."""
    places = np.asarray(places, np.int64)
    if len(places) and (np.diff(places) == 1).all():
        return table.slice(places[0], len(places))
    return table.take(pa.array(places))


Way: TypeAlias = Callable[[Reading], Awaitable[None]]
WAYS: dict[str, Way] = {}


def way(function: Way) -> Way:
    """Note a way to read by its name."""
    WAYS[function.__name__.replace("_", " ")] = function
    return function


@way
async def all_rows(r: Reading) -> None:
    assert_equal_rows(await r.dataset.to_table(), r.model.rows)


@way
async def column_subset(r: Reading) -> None:
    names = r.columns()
    assert_equal_rows(await r.dataset.to_table(names), r.model.rows.select(names))


@way
async def each_column_by_itself(r: Reading) -> None:
    for name in r.model.rows.column_names:
        assert_equal_rows(await r.dataset.to_table([name]), r.model.rows.select([name]))


@way
async def members_of_structs(r: Reading) -> None:
    """Each member of each struct, by its dotted name."""
    for field in r.model.rows.schema:
        if not pa.types.is_struct(field.type) or field.metadata or not field.type.num_fields:
            continue
        member = r.rng.choice(list(field.type))
        path = f"`{field.name}`.`{member.name}`"
        column = await r.dataset.to_table([path])
        expected = pc.struct_field(r.model.rows[field.name], [member.name])
        assert column[0].to_pylist() == expected.to_pylist(), path


@way
async def batches(r: Reading) -> None:
    names, most = r.columns(), r.rng.choice([7, 64, 1000])
    several = [batch async for batch in r.dataset.to_batches(names, batch_size=most)]
    assert all(0 < len(batch) <= most for batch in several)
    schema = r.model.rows.select(names).schema
    assert_equal_rows(pa.Table.from_batches(several, schema), r.model.rows.select(names))


@way
async def batches_of_bytes(r: Reading) -> None:
    options: dict[str, Any] = {"batch_size_bytes": 4096, "io_buffer_bytes": 4096}
    several = [batch async for batch in r.dataset.to_batches(batch_readahead=1, **options)]
    assert_equal_rows(pa.Table.from_batches(several, r.model.rows.schema), r.model.rows)


@way
async def batches_in_no_order(r: Reading) -> None:
    table = await r.dataset.to_table(scan_in_order=False)
    order = np.argsort(table["key"].to_numpy())
    assert_equal_rows(table.take(pa.array(order)), r.rows(np.argsort(r.model.numbers["key"])))


@way
async def part(r: Reading) -> None:
    start, count = r.part()
    names = r.columns()
    table = await r.dataset.to_table(names, offset=start, limit=count)
    assert_equal_rows(table, r.rows(range(start, min(r.count, start + count)), names))


@way
async def first_rows(r: Reading) -> None:
    count = r.rng.choice([1, 10, r.count])
    assert_equal_rows(await r.dataset.head(count), r.rows(range(count)))
    assert_equal_rows(await r.dataset.to_table(limit=0), r.rows([]))


@way
async def reader(r: Reading) -> None:
    """The stream that other libraries take, by the blocking face of a local table."""
    condition, places = r.filter()
    names = r.columns()

    def read() -> pa.Table:
        table = alance.sync.dataset(r.model.path)
        return table.to_reader(names, filter=condition, batch_size=50).read_all()

    assert_equal_rows(await asyncio.to_thread(read), r.rows(places, names))


@way
async def rows_with_their_ids(r: Reading) -> None:
    condition, places = r.filter()
    table = await r.dataset.to_table(
        ["key"], filter=condition, with_row_id=True, with_row_address=True
    )
    assert_equal_rows(table.select(["key"]), r.rows(places, ["key"]))
    for name in ("_rowid", "_rowaddr"):
        assert table[name].to_pylist() == r.model.addresses[places].tolist()


async def _filtered(r: Reading, **options: Any) -> None:
    condition, places = r.filter()
    names = r.columns()
    table = await r.dataset.to_table(names, filter=condition, **options)
    offset = options.get("offset", 0)
    stop = offset + options.get("limit", r.count)
    assert_equal_rows(table, r.rows(places[offset:stop], names))


@way
async def filter(r: Reading) -> None:
    await _filtered(r)


@way
async def filter_then_columns(r: Reading) -> None:
    await _filtered(r, late_materialization=True)


@way
async def filter_with_columns(r: Reading) -> None:
    await _filtered(r, late_materialization=False, use_scalar_index=False, use_stats=False)


@way
async def filter_of_other_columns(r: Reading) -> None:
    condition, places = r.filter()
    names = [name for name in r.columns() if name not in r.model.numbers] or ["label"]
    table = await r.dataset.to_table(names, filter=condition, batch_size=30)
    assert_equal_rows(table, r.rows(places, names))


@way
async def filter_by_expression(r: Reading) -> None:
    names = r.columns()
    places = np.flatnonzero(r.model.numbers["team"] == 4)
    table = await r.dataset.to_table(names, filter=pc.field("team") == 4)
    assert_equal_rows(table, r.rows(places, names))


@way
async def limit_of_filter(r: Reading) -> None:
    await _filtered(r, limit=r.rng.choice([1, 20]), offset=r.rng.choice([0, 3]))


@way
async def order(r: Reading) -> None:
    condition, places = r.filter()
    is_ascending = r.rng.random() < 0.5
    order_by = [alance.ColumnOrdering("key", ascending=is_ascending)]
    names = r.columns()
    table = await r.dataset.to_table(names, filter=condition, order_by=order_by, limit=25)
    ordered = places[np.argsort(r.model.numbers["key"][places])]
    ordered = ordered if is_ascending else ordered[::-1]
    assert_equal_rows(table, r.rows(ordered[:25], names))


@way
async def order_of_all(r: Reading) -> None:
    names = ["key", *r.columns()]
    names = list(dict.fromkeys(names))
    table = await r.dataset.to_table(names, order_by=["team", "key"])
    numbers = r.model.numbers
    assert_equal_rows(table, r.rows(np.lexsort([numbers["key"], numbers["team"]]), names))


@way
async def computed_columns(r: Reading) -> None:
    table = await r.dataset.to_table({"sum": "key + team", "text": "label"}, limit=60)
    key, team, _ = r.model.numbers.values()
    assert table["sum"].to_pylist() == (key + team)[:60].tolist()
    assert table["text"].to_pylist() == r.model.rows["label"].to_pylist()[:60]


@way
async def counts(r: Reading) -> None:
    condition, places = r.filter()
    assert await r.dataset.count_rows() == r.count
    assert await r.dataset.count_rows(condition) == len(places)
    assert await r.dataset.scanner(["key"], filter=condition).count_rows() == len(places)


@way
async def aggregates(r: Reading) -> None:
    condition, places = r.filter()
    table = await r.dataset.aggregate(
        {"n": "count(*)", "sum": "sum(key)", "least": "min(label)"}, filter=condition
    )
    labels = [text for text in r.rows(places, ["label"])["label"].to_pylist() if text is not None]
    total = int(r.model.numbers["key"][places].sum()) if len(places) else None
    expected = (len(places), total, min(labels, default=None))
    assert tuple(table.to_pylist()[0].values()) == expected


@way
async def query(r: Reading) -> None:
    if pa.float16() in r.model.rows.schema.types:  # of which DuckDB has none
        return
    text = "select key, label from dataset where {} order by key limit 20"
    condition, places = r.filter()
    table = await r.dataset.sql(text.format(condition))
    ordered = places[np.argsort(r.model.numbers["key"][places])][:20]
    assert table.to_pylist() == r.rows(ordered, ["key", "label"]).to_pylist()


@way
async def sample(r: Reading) -> None:
    count, names = min(30, r.count), list(dict.fromkeys(["key", *r.columns()]))
    table = await r.dataset.sample(count, names, seed=r.rng.randrange(1000))
    place_of = {key: place for place, key in enumerate(r.model.numbers["key"].tolist())}
    places = [place_of[key] for key in table["key"].to_pylist()]
    assert len({*places}) == count
    assert_equal_rows(table, r.rows(places, names))


@way
async def fragments_of_a_scan(r: Reading) -> None:
    numbers = [fragment.fragment_id for fragment in r.dataset.fragments][1::2]
    places = np.flatnonzero(np.isin(r.model.addresses >> np.uint64(32), numbers))
    names = r.columns()
    assert_equal_rows(await r.dataset.to_table(names, fragments=numbers), r.rows(places, names))


def _fragment(r: Reading) -> tuple[alance.DatasetFragment, np.ndarray]:
    """A fragment, and the places of its rows."""
    fragment = r.rng.choice(r.dataset.fragments)
    numbers = r.model.addresses >> np.uint64(32)
    return fragment, np.flatnonzero(numbers == fragment.fragment_id)


@way
async def fragment(r: Reading) -> None:
    fragment, places = _fragment(r)
    names, start = r.columns(), r.rng.randrange(len(places))
    assert await fragment.count_rows() == len(places)
    assert_equal_rows(await fragment.to_table(names), r.rows(places, names))
    table = await fragment.to_table(names, offset=start, limit=5, batch_size=3)
    assert_equal_rows(table, r.rows(places[start : start + 5], names))
    condition, true = r.filter()
    several = [batch async for batch in fragment.to_batches(names, filter=condition)]
    table = pa.Table.from_batches(several, r.model.rows.select(names).schema)
    assert_equal_rows(table, r.rows(np.intersect1d(places, true), names))


def _file(r: Reading) -> tuple[str, pa.Table, list[str]]:
    """A data file, its rows, and some of its columns; descriptions of blobs are the table's."""
    path, rows = r.rng.choice(list(r.model.files.items()))
    names = [name for name in rows.column_names if name != "blob"]
    return path, rows, r.rng.sample(names, r.rng.randint(1, len(names)))


@way
async def file(r: Reading) -> None:
    path, rows, names = _file(r)
    reader = await r.file(path)
    assert reader.num_rows == len(rows)
    start = r.rng.randrange(len(rows))
    stop = r.rng.randint(start, len(rows))
    assert_equal(await reader.to_table(names), rows.select(names))
    assert_equal(
        await reader.to_table(names, start=start, stop=stop), rows.select(names)[start:stop]
    )
    several = [
        batch async for batch in reader.to_batches(names, start=start, stop=stop, batch_size=9)
    ]
    assert all(0 < len(batch) <= 9 for batch in several)
    if several:
        assert_equal(pa.Table.from_batches(several), rows.select(names)[start:stop])


def assert_equal(ours: pa.Table, rows: pa.Table) -> None:
    """The same rows; a file keeps other metadata of its fields than a table."""
    assert_equal_rows(ours, rows.cast(ours.schema) if ours.schema != rows.schema else rows)


@way
async def bytes_of_blobs(r: Reading) -> None:
    if r.model.blobs is None:
        return
    places = r.rng.choices(range(r.count), k=9)
    pairs = await r.dataset.read_blobs("blob", indices=places)
    assert [value for _, value in pairs] == [r.model.blobs[place] for place in places]
    table = await r.dataset.to_table(["blob"], blob_handling="all_binary")
    assert table["blob"].to_pylist() == r.model.blobs


@way
async def row_of_a_key(r: Reading) -> None:
    place = r.rng.randrange(r.count)
    names = r.columns()
    key = int(r.model.numbers["key"][place])
    values = [name for name in names if name != "blob"]
    row = await r.dataset.get(key, "key", values)
    assert repr(row) == repr(r.rows([place], values).to_pylist()[0])
    assert await r.dataset.get(-1, "key", values) is None
    table = await r.dataset.get_arrow(key, "key", names)
    assert table is not None
    assert_equal_rows(table, r.rows([place], names))


@way
async def rows_of_keys(r: Reading) -> None:
    places = r.rng.sample(range(r.count), 7)
    names = r.columns()
    keys = r.model.numbers["key"][places].tolist()
    assert_equal_rows(await r.dataset.get_many(keys, "key", names), r.rows(places, names))


TAKEN: Final = (*PICKED, "all")


def _picked(r: Reading, how: str, places: Sequence[int]) -> list[int]:
    return [*places] if how == "all" else pick(places, how, r.rng)


def _takes(how: str) -> None:
    """Note the ways to take rows that are picked so."""

    async def take(r: Reading) -> None:
        places, names = _picked(r, how, range(r.count)), r.columns()
        assert_equal_rows(await r.dataset.take(places, names), r.rows(places, names))

    async def take_rows(r: Reading) -> None:
        places = _picked(r, how, range(r.count))
        addresses = r.model.addresses[places].tolist()
        assert_equal_rows(await r.dataset.take_rows(addresses), r.rows(places))

    async def take_addresses(r: Reading) -> None:
        places, names = _picked(r, how, range(r.count)), r.columns()
        addresses = r.model.addresses[places].tolist()
        assert_equal_rows(await r.dataset.take_addresses(addresses, names), r.rows(places, names))

    async def take_of_fragment(r: Reading) -> None:
        fragment, own = _fragment(r)
        places, names = _picked(r, how, range(len(own))), r.columns()
        assert_equal_rows(await fragment.take(places, names), r.rows(own[places], names))

    async def take_of_file(r: Reading) -> None:
        path, rows, names = _file(r)
        places = _picked(r, how, range(len(rows)))
        reader = await r.file(path)
        assert_equal(await reader.take(places, names), rows_of(rows.select(names), places))

    for function in (take, take_rows, take_addresses, take_of_fragment, take_of_file):
        WAYS[f"{function.__name__.replace('_', ' ')}: {how}"] = function


for _how in TAKEN:
    _takes(_how)
