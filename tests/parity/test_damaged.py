"""Damaged pages of every encoding, read by public calls: rows or an error of alance's tree, never
another exception, a crash, or a change of a column that is not damaged.
"""

from __future__ import annotations

import random
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import lance
import pyarrow as pa
import pytest
from obstore.store import MemoryStore

import alance
from tests.parity.columns import KINDS, columns
from tests.parity.tables import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

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
TRIES: Final = 5  # of each file


class Page(NamedTuple):
    """Where bytes of a page are, and which column of the table it belongs to.

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
        pages: those that have bytes; empty in files of 0.1, which do not tell.
    """

    store: MemoryStore
    path: str
    content: bytes
    rows: pa.Table
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
            store.put(f"t/{file.relative_to(path)}", file.read_bytes())
    async with alance.Session() as session:
        dataset = await alance.dataset("t", store=store, session=session)
        rows = await dataset.to_table()
        place = f"t/data/{dataset.fragments[0].metadata.files[0].path}"
        reader = await alance.FileReader.open(place, store=store, session=session)
        pages = await _pages(reader, writer) if version > "0.1" else []
    return Sample(store, place, bytes(store.get(place).bytes()), rows, pages)


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
    """What becomes of a file.

    Attributes:
        column: the one that may have other values, and is read; None: all.
    """

    content: bytes
    column: str | None


def damage(file: Sample, rng: random.Random) -> Damage:
    """Bytes of one page become others; or, one time of two, bytes anywhere, half of them behind the
    pages.
    """
    content = bytearray(file.content)
    encodings = sorted({page.encoding for page in file.pages})
    page, start, stop = None, 0, len(content)
    if encodings and rng.random() < 0.5:
        encoding = rng.choice(encodings)
        page = rng.choice([page for page in file.pages if page.encoding == encoding])
        # lengths and tables stand at the beginnings of pages more often than elsewhere
        start, stop = page.start, rng.choice([page.stop, min(page.stop, page.start + 64)])
    elif file.pages:  # as the footer says where they end
        metadata = int.from_bytes(content[-40:-32], "little")
        start, stop = rng.choice([(0, metadata), (metadata, len(content))])
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(start, stop)
        flipped = content[at] ^ 1 << rng.randrange(8)
        content[at] = rng.choice([flipped, flipped, 0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return Damage(bytes(content), page and page.column)


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
        """What the first has learned is used by others."""
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

    def ways(self) -> list[Callable[[alance.Dataset], Awaitable[None]]]:
        return [self.scan, self.part, self.filter, self.takes, self.file_takes, self.file_part]


# Of spoiled numbers: more digits than a decimal's type says, times of no day.
ANY_NUMBER: Final = ("does not fit in precision", "is not within the acceptable range")


def check(table: pa.Table, num_rows: int) -> None:
    """Rows as many as asked for, and arrays that do not contradict themselves."""
    assert table.num_rows == num_rows
    for column in table.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if not any(text in str(error) for text in ANY_NUMBER):
                raise


async def check_damaged(file: Sample, rng: random.Random) -> None:
    """Damage the file once, and read it in three ways."""
    damaged = damage(file, rng)
    file.store.put(file.path, damaged.content)
    for read in rng.sample(Damaged(file, damaged.column, rng).ways(), 3):
        async with alance.Session() as session:
            with suppress(alance.AlanceError):
                await read(await alance.dataset("t", store=file.store, session=session))
    if damaged.column is not None:
        other = rng.choice([name for name in file.rows.column_names if name != damaged.column])
        async with alance.Session() as session:
            dataset = await alance.dataset("t", store=file.store, session=session)
            assert (await dataset.to_table([other])).equals(file.rows.select([other]))


async def check_often(version: str, kind: str, writer: str, folder: Path, tries: int) -> None:
    file = await sample(version, kind, writer, folder)
    rng = random.Random(f"{version} {kind} {writer} {tries}")
    for number in range(tries):
        try:
            await check_damaged(file, rng)
        except BaseException as error:
            error.add_note(f"try {number} of a file of {version}, {kind}, by {writer}")
            raise


@pytest.mark.parametrize(("version", "kind", "writer"), FILES)
async def test_damaged_files_are_read_or_refused_by_every_call(
    version: str, kind: str, writer: str, tmp_path: Path
) -> None:
    await check_often(version, kind, writer, tmp_path, TRIES)


@pytest.mark.soak
@pytest.mark.parametrize(("version", "kind", "writer"), FILES)
async def test_files_damaged_often(version: str, kind: str, writer: str, tmp_path: Path) -> None:
    await check_often(version, kind, writer, tmp_path, 100_000 // len(FILES) + 1)


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
