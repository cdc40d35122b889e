"""The measured tables, written once (most by pylance) to `build/bench`."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import vortex

from alance.sync import write_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

FOLDER: Final = Path(__file__).parents[1] / "build" / "bench"
ROWS_PER_FILE: Final = 1 << 20
PIECE_ROWS: Final = 100


def table(name: str, scale: float) -> Path:
    """Return the path of a table; write the table if it does not exist."""
    path = FOLDER / f"{name}-{scale:g}.lance"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        write = write_dataset if name in OURS else lance.write_dataset
        rows_per_file = PIECE_ROWS if name == "pieces" else ROWS_PER_FILE
        options = {"enable_stable_row_ids": True} if name == "stable" else {}
        write(
            MAKERS[name](scale),
            str(partial),
            max_rows_per_file=rows_per_file,
            mode="overwrite",
            **options,  # type: ignore[arg-type]
        )
        if name in VECTOR_INDICES:
            kind, parts = VECTOR_INDICES[name]
            lance.dataset(str(partial)).create_index("vec", kind, **parts)
        for column, kind in INDICES.get(name, {}).items():
            lance.dataset(str(partial)).create_scalar_index(column, kind)  # type: ignore[arg-type]
        partial.rename(path)
    return path


def vortex_file(name: str, scale: float) -> Path:
    """Return the path of a table as a Vortex file; convert the Lance table if it does not exist."""
    name = "lineitem" if name in INDICES else name
    path = FOLDER / f"{name}-{scale:g}.vortex"
    if not path.exists():
        source = lance.dataset(str(table(name, scale)))
        partial = path.with_suffix(".partial")
        vortex.io.write(source.scanner().to_reader(), str(partial))
        partial.rename(path)
    return path


def lineitem(scale: float) -> pa.RecordBatchReader:
    """TPC-H lineitem; 6 million rows at scale 1."""
    path = FOLDER / f"lineitem-{scale:g}.parquet"
    if not path.exists():
        command = [Path(sys.executable).parent / "tpchgen-cli", "parquet", "-s", str(scale)]
        subprocess.run([*command, "-T", "lineitem", "-o", FOLDER], check=True)
        (FOLDER / "lineitem.parquet").rename(path)
    file = pq.ParquetFile(path)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(1 << 16))


def events(scale: float) -> pa.RecordBatchReader:
    """Web events: ids, text, lists, structs; 2 million rows at scale 1."""

    def batches() -> Iterator[pa.RecordBatch]:
        rng = random.Random(11)
        words = [f"{'abcdefghij'[n % 10]}{n:x}" for n in range(5000)]
        for start in range(0, max(1, int(2e6 * scale)), 1 << 14):
            numbers = range(start, start + (1 << 14))
            yield pa.RecordBatch.from_pydict(
                {
                    "id": pa.array(numbers, pa.int64()),
                    "at": pa.array([10**15 + n * 997 for n in numbers], pa.timestamp("us")),
                    "user": pa.array([rng.randrange(1 << 40) for _ in numbers]),
                    "kind": [rng.choice(["view", "click", "buy", "leave"]) for _ in numbers],
                    "url": [f"https://example.org/{rng.choice(words)}/{n % 9973}" for n in numbers],
                    "referrer": [
                        None if n % 3 else f"https://{rng.choice(words)}.net" for n in numbers
                    ],
                    "tags": [rng.choices(words, k=rng.randrange(6)) for _ in numbers],
                    "scores": pa.array(
                        [[rng.random() for _ in range(rng.randrange(5))] for _ in numbers],
                        pa.list_(pa.float32()),
                    ),
                    "device": pa.array(
                        [{"os": rng.choice("abc"), "width": rng.randrange(4000)} for _ in numbers]
                    ),
                    "text": [" ".join(rng.choices(words, k=rng.randrange(20))) for _ in numbers],
                    "bot": [n % 50 == 0 for n in numbers],
                }
            )

    stream = batches()
    first = next(stream)

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        yield from stream

    return pa.RecordBatchReader.from_batches(first.schema, all_batches())


def embeddings(scale: float) -> pa.RecordBatchReader:
    """Vectors of 768 floats with a text and a label; 200 thousand rows at scale 1."""
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("vector", pa.list_(pa.float32(), 768)),
            ("text", pa.string()),
            ("label", pa.int32()),
        ]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(5)
        for start in range(0, max(1, int(2e5 * scale)), 4096):
            flat = pa.array(rng.standard_normal(4096 * 768, np.float32))
            labels = [None if n % 7 == 0 else n % 100 for n in range(4096)]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(range(start, start + 4096)),
                    pa.FixedSizeListArray.from_arrays(flat, 768),
                    pa.array([f"text {start + n} of the set" for n in range(4096)]),
                    pa.array(labels, pa.int32()),
                ],
                schema=schema,
            )

    return pa.RecordBatchReader.from_batches(schema, batches())


def by_date(scale: float) -> pa.RecordBatchReader:
    """Lineitem, sorted by the date of shipping."""
    rows = lineitem(scale).read_all()
    texts = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in rows.schema]
    return rows.cast(pa.schema(texts)).sort_by("l_shipdate").to_reader(1 << 16)


def pieces(scale: float) -> pa.RecordBatchReader:
    """A key and a text in 300 fragments of 100 rows; 30 thousand rows at any scale."""
    numbers = range(300 * PIECE_ROWS)
    rows = pa.table({"id": numbers, "name": [f"name {number:06}" for number in numbers]})
    return rows.to_reader()


def wide(scale: float) -> pa.RecordBatchReader:
    """2 000 columns of integers, floats, texts and integers with nulls; 10 thousand rows at 1."""
    rng, count = np.random.default_rng(9), max(1, int(10_000 * scale))
    words = pa.array([f"word-{number:05d}-{number * 7919 % 1000}" for number in range(5000)])
    makers: list[Callable[[], pa.Array]] = [
        lambda: pa.array(rng.integers(0, 1 << 20, count)),
        lambda: pa.array(rng.random(count)),
        lambda: words.take(pa.array(rng.integers(0, 5000, count))),
        lambda: pa.array(rng.integers(0, 1000, count), pa.int32(), mask=rng.random(count) < 0.1),
    ]
    columns = {f"c{number:04}": makers[number % 4]() for number in range(2000)}
    return pa.table(columns).to_reader()


def nested(_: float) -> pa.RecordBatchReader:
    """100 structs of a number and a list of structs, 300 columns of the file; 2 thousand rows."""
    columns = [
        pa.array(
            {"a": row, "items": [{"x": row + at, "y": f"{number}-{at}"} for at in range(row % 3)]}
            for row in range(2000)
        )
        for number in range(100)
    ]
    return pa.table(columns, [f"c{number:02}" for number in range(100)]).to_reader()


def integers(scale: float) -> pa.RecordBatchReader:
    """1 000 columns of 32 bits; 100 thousand rows at scale 1."""
    rng, count = np.random.default_rng(10), max(1, int(100_000 * scale))
    columns = {f"c{n:04}": rng.integers(0, 1 << 30, count, np.int32) for n in range(1000)}
    return pa.table(columns).to_reader()


def narrow(scale: float) -> pa.RecordBatchReader:
    """Three columns of numbers; 10 million rows at scale 1."""
    rng, count = np.random.default_rng(11), max(1, int(1e7 * scale))
    columns = {
        "a": rng.integers(0, 1 << 20, count),
        "b": rng.random(count),
        "c": rng.integers(0, 1000, count, np.int32),
    }
    return pa.table(columns).to_reader()


def vectors(scale: float) -> pa.RecordBatchReader:
    """Vectors of 128 floats that differ mostly in 24 directions; 100 thousand rows at scale 1."""
    count = max(10_000, int(1e5 * scale))
    values = near_directions(count, seed=5)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 128)
    return pa.table({"id": range(count), "vec": lists}).to_reader()


def many_vectors(scale: float) -> pa.RecordBatchReader:
    """A million vectors at scale 1, as in `vectors` but without an index."""
    return _near(max(10_000, int(1e6 * scale)), 128)


def wide_vectors(scale: float) -> pa.RecordBatchReader:
    """Vectors of 768 floats, without an index; 100 thousand rows at scale 1."""
    return _near(max(10_000, int(1e5 * scale)), 768)


def _near(count: int, dim: int) -> pa.RecordBatchReader:
    schema = pa.schema([("id", pa.int64()), ("vec", pa.list_(pa.float32(), dim))])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, 10_000):
            stop = min(count, start + 10_000)
            values = near_directions(stop - start, seed=100 + start, dim=dim)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), dim)
            yield pa.record_batch([pa.array(range(start, stop)), lists], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def near_directions(count: int, seed: int, dim: int = 128) -> npt.NDArray[np.float32]:
    """Return vectors as in the table `vectors`; shape (count, dim)."""
    strong = 0.5 * np.random.default_rng(24).normal(size=(24, dim))
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, 24)) @ strong + 0.6 * rng.normal(size=(count, dim))
    return values.astype(np.float32)


def drawn_words() -> list[str]:
    """Return the 30 000 words of the table `documents`, the most frequent first."""
    rng = np.random.default_rng(12)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = {"".join(rng.choice(letters, rng.integers(4, 11))) for _ in range(31_000)}
    return np.random.default_rng(13).permutation(sorted(words)[:30_000]).tolist()


def documents(scale: float) -> pa.RecordBatchReader:
    """Texts of 5 to 59 words; the n-th word is 1/n as frequent as the first. 300 thousand rows."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    words = np.array(drawn_words())
    shares = 1 / np.arange(1, len(words) + 1)

    def batches() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(14)
        count = max(10_000, int(3e5 * scale))
        for start in range(0, count, 10_000):
            sizes = rng.integers(5, 60, min(10_000, count - start))
            chosen = words[rng.choice(len(words), int(sizes.sum()), p=shares / shares.sum())]
            texts = [" ".join(part) for part in np.split(chosen, np.cumsum(sizes)[:-1])]
            numbers = range(start, start + len(texts))
            yield pa.record_batch([pa.array(numbers), pa.array(texts)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


OURS: Final = ("ours", "shipped", "pieces")  # written by alance: with statistics
INDICES: Final = {
    "indexed": {"l_shipmode": "BITMAP", "l_orderkey": "BTREE"},
    "stable": {"l_shipmode": "BITMAP"},  # with stable row ids, which the index holds
    "documents": {"text": "INVERTED"},
    "tagged": {"tags": "LABEL_LIST", "url": "NGRAM", "id": "ZONEMAP", "user": "BLOOMFILTER"},
}
VECTOR_INDICES: Final[dict[str, tuple[Any, dict[str, int]]]] = {
    "vectors": ("IVF_PQ", {"num_partitions": 128, "num_sub_vectors": 16}),
    "many_searched": ("IVF_PQ", {"num_partitions": 1000, "num_sub_vectors": 16}),
    "wide_searched": ("IVF_PQ", {"num_partitions": 128, "num_sub_vectors": 96}),
    "linked": ("IVF_HNSW_SQ", {"num_partitions": 4}),
}
MAKERS: Final[dict[str, Callable[[float], pa.RecordBatchReader]]] = {
    "lineitem": lineitem,
    "ours": lineitem,
    "shipped": by_date,
    "indexed": lineitem,
    "stable": lineitem,
    "events": events,
    "tagged": events,
    "embeddings": embeddings,
    "pieces": pieces,
    "wide": wide,
    "nested": nested,
    "integers": integers,
    "narrow": narrow,
    "vectors": vectors,
    "linked": vectors,
    "many_vectors": many_vectors,
    "wide_vectors": wide_vectors,
    "many_searched": many_vectors,
    "wide_searched": wide_vectors,
    "documents": documents,
}
