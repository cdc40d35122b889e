"""Damaged pages of every encoding, read by public calls: rows or an error of alance's tree, never
another exception, a crash, a change of a column that is not damaged, or memory for what a number
claims.

Short runs here; `make fuzz` tries 100 000 others, and prints how many of each encoding.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import lance
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from obstore.store import MemoryStore

import alance
from alance.file.rows.fragment import FileSource, open_fragment
from alance.file.rows.whole import FragmentFiles, read_whole
from alance.format.proto import encodings_v2_3_pb2, table_pb2
from tests.parity.columns import KINDS, columns
from tests.parity.tables import VERSIONS
from tests.reference.damaged import (
    LOCATION,
    run,
    with_other_field,
    with_other_metadata,
    with_other_numbers,
)
from tests.reference.driven import Known
from tests.v2_3.page_file import PageFile
from tests.v2_3.sparse_pages import VALUES, sparse_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from alance.file.rows.fragment import OpenFragment
    from alance.format.plans import Plan
    from alance.format.schema import Schema

T = TypeVar("T")
pytestmark = pytest.mark.filterwarnings("ignore:file version 2.3 is unstable")

ROWS: Final = 600
WRITERS: Final = ("alance", "pylance")
FILES: Final = [
    (version, kind, writer)
    for version in VERSIONS
    for kind in KINDS
    for writer in WRITERS
    if version > "0.1" or kind not in ("special", "no members")
    if writer == "alance" or kind != "no members"
]
TRIES: Final = 2  # of each file, by public calls
PLANNED_TRIES: Final = 8  # by plans
SPARSE_TRIES: Final = 60  # of sparse pages of a kind
MANY_TRIES: Final = 100_000  # of all files
NO_PAGES: Final = "metadata"  # what is damaged, where it is no page


class Page(NamedTuple):
    """Range of a page's bytes, and its column of the table.

    Attributes:
        stop: the end of the bytes that are certainly the page's.
        encoding: its layout and the encodings of its values.
    """

    column: str
    start: int
    stop: int
    encoding: str


class Sample(NamedTuple):
    """A table of one data file in memory.

    Attributes:
        schema, places: what plans are told: of the table, and the column of each field by its id.
        pages: those that have bytes; empty in files of 0.1, which do not tell.
    """

    store: MemoryStore
    path: str
    content: bytes
    rows: pa.Table
    schema: Schema
    places: Mapping[int, int]
    pages: list[Page]


_SAMPLES: dict[tuple[str, str, str], Sample] = {}


async def sample(version: str, kind: str, writer: str, folder: Path) -> Sample:
    """A file of a version with columns of a kind, whose first column are numbers of rows."""
    key = version, kind, writer
    if key not in _SAMPLES:
        _SAMPLES[key] = await _written(version, kind, writer, folder)
    return _SAMPLES[key]


async def _written(version: str, kind: str, writer: str, folder: Path) -> Sample:
    table = columns(kind, version, ROWS).add_column(0, "row", pa.array(range(ROWS)))
    path = folder / f"{version} {kind} {writer}"
    if writer == "alance":
        await alance.write_dataset(table, path, data_storage_version=version)
    else:
        lance.write_dataset(table, path, data_storage_version=version, max_rows_per_group=200)
    store = MemoryStore()
    for file in path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            content = _without_sizes(content) if file.suffix == ".manifest" else content
            store.put(f"t/{file.relative_to(path)}", content)
    async with alance.Session() as session:
        dataset = await alance.dataset("t", store=store, session=session)
        rows = await dataset.to_table()
        place = f"t/data/{dataset.fragments[0].metadata.files[0].path}"
        reader = await alance.FileReader.open(place, store=store, session=session)
        pages = await _pages(reader, writer) if version > "0.1" else []
        snapshot = dataset._snapshot
        (source,) = snapshot.handle(dataset.fragments[0].metadata.id).sources
    content = bytes(store.get(place).bytes())
    schema = snapshot.manifest.schema
    return Sample(store, place, content, rows, schema, source.columns, pages)


def _without_sizes(manifest: bytes) -> bytes:
    """A manifest that does not know how many bytes its files have, since damage may add some."""
    place = int.from_bytes(manifest[-16:-8], "little")
    size = int.from_bytes(manifest[place : place + 4], "little")
    message = table_pb2.Manifest.FromString(manifest[place + 4 : place + 4 + size])
    for fragment in message.fragments:
        for file in fragment.files:
            file.ClearField("file_size_bytes")
    changed = message.SerializeToString()
    return manifest[:place] + len(changed).to_bytes(4, "little") + changed + manifest[-16:]


async def _pages(reader: alance.FileReader, writer: str) -> list[Page]:
    described = [
        (column.path.split(".")[0], page)
        for column in (await reader.describe()).columns
        for page in column.pages
        if page.num_bytes
    ]
    starts = sorted(page.start for _, page in described)
    pages = []
    for column, page in described:
        stop = page.start + page.num_bytes
        if writer == "alance":  # whose small files have the large buffers of all pages elsewhere
            stop = min([stop, page.start + 64, *(start for start in starts if start > page.start)])
        if column != "row":
            pages.append(Page(column, page.start, stop, f"{page.layout} {page.encoding}"))
    return pages


class Damage(NamedTuple):
    """A damaged file.

    Attributes:
        column: name of the column to read; None: all.
        encoding: encodings of the damaged page; `NO_PAGES` if any column may be damaged.
    """

    content: bytes
    column: str | None
    encoding: str = NO_PAGES


def damage(file: Sample, rng: random.Random) -> Damage:
    """Bytes or a number of one page become others; or what is said of the pages; or, one time of
    four, bytes anywhere, half of them behind the pages.
    """
    where = rng.random()
    if file.pages and where < 0.5:
        encoding = rng.choice(sorted({page.encoding for page in file.pages}))
        page = rng.choice([page for page in file.pages if page.encoding == encoding])
        # lengths and tables stand at the beginnings of pages more often than elsewhere
        stop = rng.choice([page.stop, min(page.stop, page.start + 64)])
        if rng.random() < 0.4 and stop - page.start >= 8:
            content = with_other_numbers(rng, file.content, page.start, stop)
        else:
            content = _with_other_bytes(rng, file.content, page.start, stop)
        return Damage(content, page.column, page.encoding)
    if not file.pages:
        return Damage(_with_other_bytes(rng, file.content, 0, len(file.content)), None)
    if where < 0.75:
        field = rng.choice(file.schema.fields)
        numbers = [file.places[own.id] for own in field.walk() if own.id in file.places]
        return Damage(with_other_metadata(rng, file.content, numbers or [0]), field.name)
    metadata = int.from_bytes(file.content[-40:-32], "little")  # as the footer says where pages end
    start, stop = rng.choice([(0, metadata), (metadata, len(file.content))])
    return Damage(_with_other_bytes(rng, file.content, start, stop), None)


def _with_other_bytes(rng: random.Random, content: bytes, start: int, stop: int) -> bytes:
    spoiled = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(start, stop)
        flipped = spoiled[at] ^ 1 << rng.randrange(8)
        spoiled[at] = rng.choice([flipped, flipped, 0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(spoiled)


class Damaged:
    """A damaged file, as each read opens it: by a session that knows nothing of it."""

    def __init__(self, file: Sample, column: str | None, rng: random.Random) -> None:
        self.file, self.rng = file, rng
        self.columns = None if column is None else [column]

    def places(self) -> list[int]:
        """Single rows, neighbours, or repeated ones."""
        start = self.rng.randrange(ROWS - 12)
        several = self.rng.choices(range(ROWS), k=9)
        return self.rng.choice([several, several[:1], list(range(start, start + 12))])

    async def scan(self, dataset: alance.Dataset) -> None:
        check(await dataset.to_table(self.columns), ROWS)

    async def part(self, dataset: alance.Dataset) -> None:
        start = self.rng.randrange(ROWS - 70)
        check(await dataset.to_table(self.columns, offset=start, limit=70, batch_size=30), 70)

    async def filter(self, dataset: alance.Dataset) -> None:
        is_late = self.rng.random() < 0.5
        table = await dataset.to_table(
            self.columns, filter="row % 50 = 7", late_materialization=is_late
        )
        # the filter's column may be what is damaged
        check(table, ROWS // 50 if self.columns else table.num_rows)

    async def takes(self, dataset: alance.Dataset) -> None:
        """Take rows three times: later takes use the facts that the first has cached."""
        for _ in range(3):
            places = self.places()
            check(await dataset.take(places, self.columns), len(places))

    async def file_takes(self, dataset: alance.Dataset) -> None:
        reader = await self._reader(dataset)
        for _ in range(2):
            places = self.places()
            check(await reader.take(places, self.columns), len(places))

    async def file_part(self, dataset: alance.Dataset) -> None:
        reader = await self._reader(dataset)
        start = self.rng.randrange(ROWS)
        stop = self.rng.randrange(start, ROWS) + 1
        check(await reader.to_table(self.columns, start=start, stop=stop), stop - start)

    async def _reader(self, dataset: alance.Dataset) -> alance.FileReader:
        file, session = self.file, dataset.session
        reader = await alance.FileReader.open(file.path, store=file.store, session=session)
        if reader.num_rows != ROWS:  # which the manifest is not asked for here
            raise alance.CorruptFileError(f"{reader.num_rows} rows")
        return reader

    async def blobs(self, dataset: alance.Dataset) -> None:
        """The bytes that descriptions tell of."""
        blobs = await dataset.take_blobs("blob", indices=[*{*self.places()}])
        for blob in blobs:
            if blob is not None:
                await blob.read()

    def ways(self) -> list[Callable[[alance.Dataset], Awaitable[None]]]:
        ways = [self.scan, self.part, self.filter, self.takes, self.file_takes, self.file_part]
        return [*ways, self.blobs] if "blob" in self.file.rows.column_names else ways


class Planned:
    """A damaged file, read by plans over bytes in memory: some hundred reads a second. What one of
    them learns is used by others.
    """

    def __init__(self, file: Sample, damaged: Damage, rng: random.Random) -> None:
        self.content, self.rng, self.states = damaged.content, rng, Known()
        self.schema = (
            file.schema if damaged.column is None else file.schema.project([damaged.column])
        )
        self.source = FileSource(LOCATION, len(damaged.content), dict(file.places))

    def opened(self) -> OpenFragment:
        plan = open_fragment(self.schema, [self.source], ROWS, self.states)
        return self.run(plan)

    def run(self, plan: Plan[T]) -> T:
        return run(plan, self.content)

    def take(self) -> None:
        rows = sorted({*self.rng.choices(range(ROWS), k=self.rng.choice([1, 9, 60]))})
        task = self.run(self.opened().take(np.array(rows, np.int64), self.states))
        check(task.decode(), len(rows))

    def part(self) -> None:
        start = self.rng.randrange(ROWS)
        stop = self.rng.randrange(start, ROWS) + 1
        check(self.run(self.opened().read(start, stop, self.states)).decode(), stop - start)

    def spans(self) -> None:
        starts = sorted(self.rng.sample(range(0, ROWS, 50), 3))
        spans = [(start, start + self.rng.randrange(1, 50)) for start in starts]
        task = self.run(self.opened().read_spans(spans, self.states))
        check(task.decode(), sum(stop - start for start, stop in spans))

    def whole(self) -> None:
        files = FragmentFiles(None, [self.source], ROWS)
        check(self.run(read_whole(self.schema, [files])).decode(), ROWS)

    def ways(self) -> list[Callable[[], None]]:
        return [self.take, self.take, self.part, self.spans, self.whole]


# Of spoiled numbers: more digits than a decimal's type says, times of no day.
ANY_NUMBER: Final = ("does not fit in precision", "is not within the acceptable range")


def check(table: pa.Table | pa.RecordBatch, num_rows: int) -> None:
    """Rows as many as asked for, and arrays that do not contradict themselves."""
    assert table.num_rows == num_rows
    for column in table.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if not any(text in str(error) for text in ANY_NUMBER):
                raise


async def check_damaged(file: Sample, rng: random.Random) -> str:
    """Damage the file once, and read it in three ways; gives the encoding of the damaged page."""
    damaged = damage(file, rng)
    file.store.put(file.path, damaged.content)
    for read in rng.sample(Damaged(file, damaged.column, rng).ways(), 3):
        async with alance.Session() as session:
            with suppress(alance.AlanceError):
                await read(await alance.dataset("t", store=file.store, session=session))
    if damaged.encoding != NO_PAGES:
        other = rng.choice([name for name in file.rows.column_names if name != damaged.column])
        async with alance.Session() as session:
            dataset = await alance.dataset("t", store=file.store, session=session)
            assert (await dataset.to_table([other])).equals(file.rows.select([other]))
    return damaged.encoding


def check_planned(file: Sample, rng: random.Random) -> str:
    """Damage the file once, and read it by plans in three ways; gives the damaged encoding."""
    damaged = damage(file, rng)
    for read in rng.sample(Planned(file, damaged, rng).ways(), 3):
        with suppress(alance.AlanceError):
            read()
    return damaged.encoding


@contextmanager
def noting(place: str) -> Iterator[None]:
    """Errors say where they come from."""
    try:
        yield
    except BaseException as error:
        error.add_note(place)
        raise


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(("version", "kind", "writer"), FILES)
async def test_damaged_files_are_read_or_refused_by_every_call(
    version: str, kind: str, writer: str, tmp_path: Path
) -> None:
    file = await sample(version, kind, writer, tmp_path)
    for number in range(TRIES):
        with noting(f"try {number}"):
            await check_damaged(file, random.Random(number))
    for number in range(PLANNED_TRIES):
        with noting(f"planned try {number}"):
            check_planned(file, random.Random(number))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("values", VALUES)
def test_damaged_sparse_pages_are_read_or_refused(values: str) -> None:
    """Of random structure, whose sets have all encodings; numbers of them, or their descriptions,
    become others.
    """
    rng, numbers = random.Random(values), np.random.default_rng([*values.encode()])
    for number in range(SPARSE_TRIES):
        own = sparse_page(numbers, rng.choice(["", "l", "sls"]), values, 40, 0.3)
        buffers, description = [*own.buffers], own.description.SerializeToString()
        at = rng.randrange(len(buffers) + 1)
        if at < len(buffers) and len(buffers[at]) >= 8:
            buffers[at] = with_other_numbers(rng, buffers[at], 0, min(200, len(buffers[at])))
        else:
            description = with_other_field(rng, description)
        with noting(f"try {number}"), suppress(alance.AlanceError, DecodeError):
            message = encodings_v2_3_pb2.PlanarLayout.FromString(description)
            file = PageFile(pa.field("x", own.arrow), [(message, buffers, 40)])
            for read in (partial(file.read, 3, 40), partial(file.take, [1, 7, 39]), file.whole):
                with suppress(alance.AlanceError):
                    read()


@pytest.mark.soak
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(("version", "kind", "writer"), FILES)
async def test_files_damaged_often(
    version: str, kind: str, writer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = await sample(version, kind, writer, tmp_path)
    first = random.SystemRandom().getrandbits(40)
    counts: Counter[str] = Counter()
    for seed in range(first, first + MANY_TRIES // len(FILES) + 1):
        with noting(f"random numbers of {seed}"):
            counts[check_planned(file, random.Random(seed))] += 1
    with capsys.disabled():
        for encoding, count in counts.most_common():
            print(f"\n{count:6} {version} {encoding}", end="")


# Words of the descriptions of pages with bytes, of all files of a version together.
CODECS: Final = frozenset(
    [
        *("flat", "variable", "dictionary", "fsst", "general(lz4)", "general(zstd)", "rle"),
        *("inline-bitpacking", "byte-stream-split", "fixed-size-list", "packed-struct"),
    ]
)
WORDS: Final = {
    "2.0": {
        *("array", "flat", "binary", "dictionary", "fsst", "lz4", "zstd"),
        *("list", "fixed-size-list", "nullable", "packed-struct"),
    },
    "2.1": {*CODECS, "mini-block", "full-zip", "blob", "constant"},
    "2.2": {*CODECS, "mini-block", "full-zip", "constant"},
    "2.3": {
        *CODECS,
        *("dense", "sparse", "chunked", "zipped", "constant", "none"),
        *("delta", "out-of-line-bitpacking"),
    },
}


@pytest.mark.parametrize("version", WORDS)
async def test_damaged_files_have_all_encodings(version: str, tmp_path: Path) -> None:
    texts = [
        page.encoding
        for file in FILES
        if file[0] == version
        for page in (await sample(*file, tmp_path)).pages
    ]
    words = set(re.findall(r"general\(\w+\)|[a-z][a-z0-9-]+", " ".join(texts)))
    assert words - {"of"} >= WORDS[version], sorted(words)
