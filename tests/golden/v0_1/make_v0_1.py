"""Makes the golden tables of file version 0.1 with an old release of pylance.

Run it in an environment of that release (pylance and pyarrow alone, on Python 3.9 or 3.10):

    python make_v0_1.py tests/golden/v0_1

It writes `<release>/<name>.lance` and beside each table `<name>.arrow`: the rows as the release
itself reads them, with their row ids where it gives them. Where it cannot read what it wrote, they
are those that were written, and the name ends in `_written`. A column that it cannot write is left
out, and told.
"""

from __future__ import annotations

import datetime
import decimal
import shutil
import sys
from pathlib import Path

import lance
import pyarrow as pa

ROWS = 30
GROUP = 7  # rows of a batch


def sparse(values: list) -> list:
    return [None if row % 7 == 3 else value for row, value in enumerate(values)]


def numbers(n: int) -> dict[str, pa.Array]:
    ints = list(range(-5, n - 5))
    return {
        "int8": pa.array(ints, pa.int8()),
        "uint16": pa.array([abs(number) for number in ints], pa.uint16()),
        "int32": pa.array(sparse(ints), pa.int32()),
        "int64": pa.array([number << 33 for number in ints], pa.int64()),
        "uint64": pa.array([number * number << 40 for number in ints], pa.uint64()),
        "float": pa.array([number / 3 for number in ints], pa.float32()),
        "double": pa.array([number / 7 for number in ints], pa.float64()),
        "bool": pa.array([row % 3 == 0 for row in range(n)]),
        "bools": pa.array(sparse([row % 2 == 0 for row in range(n)])),
        "decimal": pa.array(
            [decimal.Decimal(number).scaleb(-2) for number in ints], pa.decimal128(10, 2)
        ),
        "date": pa.array([datetime.date(2020, 1, 1 + row % 28) for row in range(n)]),
        "date64": pa.array([number * 86400000 for number in ints], pa.date64()),
        "timestamp": pa.array([number * 1000003 for number in ints], pa.timestamp("us")),
        "zoned": pa.array([number * 1000003 for number in ints], pa.timestamp("ns", "UTC")),
        "time": pa.array([abs(number) for number in ints], pa.time64("us")),
        "duration": pa.array(ints, pa.duration("ms")),
        "null": pa.nulls(n),
        "fixed": pa.array([b"%03d" % row for row in range(n)], pa.binary(3)),
        "vector": pa.array([[row / 2, row + 1.0] for row in range(n)], pa.list_(pa.float32(), 2)),
    }


def nested(n: int) -> dict[str, pa.Array]:
    texts = [f"text {row * row} é" * (row % 4) for row in range(n)]
    return {
        "string": pa.array(texts),
        "strings": pa.array(sparse(texts)),
        "large": pa.array(sparse(texts), pa.large_string()),
        "binary": pa.array(sparse([text.encode() for text in texts])),
        "no_text": pa.array([None] * n, pa.string()),
        "list": pa.array(sparse([list(range(row % 4)) for row in range(n)]), pa.list_(pa.int32())),
        "words": pa.array([[f"w{number}" for number in range(row % 3)] for row in range(n)]),
        "lists": pa.array(
            [[["a" * at] for at in range(row % 4)] for row in range(n)],
            pa.large_list(pa.list_(pa.string())),
        ),
        "struct": pa.array(
            [{"x": row, "y": f"y{row}", "z": [row] * (row % 3)} for row in range(n)]
        ),
        "structs": pa.array([[{"p": row, "q": str(row)}] * (row % 3) for row in range(n)]),
    }


def dictionaries(n: int) -> dict[str, pa.Array]:
    return {
        "dictionary": pa.DictionaryArray.from_arrays(
            pa.array(sparse([row % 5 for row in range(n)]), pa.int32()),
            pa.array([f"item {row}" for row in range(5)]),
        ),
        "keys": pa.DictionaryArray.from_arrays(
            pa.array([row % 3 for row in range(n)], pa.int8()), pa.array([10, 20, 30])
        ),
    }


def write(table: pa.Table, path: Path, mode: str = "create") -> lance.LanceDataset:
    """Rows are written in whole arrays: old releases mix up slices."""
    whole = table.take(list(range(table.num_rows)))
    options = {"mode": mode, "max_rows_per_group": GROUP}
    try:
        return lance.write_dataset(whole, str(path), data_storage_version="0.1", **options)
    except TypeError:
        pass
    try:
        return lance.write_dataset(whole, str(path), use_legacy_format=True, **options)
    except TypeError:
        return lance.write_dataset(whole, str(path), **options)


def write_halves(table: pa.Table, path: Path) -> lance.LanceDataset:
    shutil.rmtree(path, ignore_errors=True)
    if lance.__version__ == "0.3.19" and pa.types.is_dictionary(table.schema[0].type):
        return write(table, path)  # it refuses to append the same dictionary
    half = table.num_rows // 2
    write(table.slice(0, half), path)
    write(table.slice(half), path, "append")
    return lance.dataset(str(path))


def save(path: Path, written: pa.Table = None) -> None:
    """Keep what the release reads; `written` is kept where it reads nothing."""
    shutil.rmtree(path / "_transactions", ignore_errors=True)
    dataset, target = lance.dataset(str(path)), path.with_suffix(".arrow")
    try:
        try:
            table = dataset.to_table(with_row_id=True)
        except TypeError:
            table = dataset.to_table()
    except Exception as error:
        print(f"  {path.stem} is not read: {str(error)[:100]}")
        assert written is not None
        table, target = written, path.with_name(f"{path.stem}_written.arrow")
        shutil.move(str(path), str(target.with_suffix(".lance")))
    with pa.ipc.new_file(str(target), table.schema) as writer:
        writer.write_table(table)


def plain(table: pa.Table) -> list:
    column = table.column(0)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


def good_columns(table: pa.Table, folder: Path) -> list[str]:
    """Return the columns that this release writes and reads."""
    good = []
    for column in table.column_names:
        path = folder / "one.lance"
        try:
            plain(write_halves(table.select([column]), path).to_table())
            good.append(column)
        except BaseException as error:
            print(f"  {column} does not work: {str(error)[:100]}")
    shutil.rmtree(folder / "one.lance", ignore_errors=True)
    return good


def make(columns: dict[str, pa.Array], folder: Path, name: str) -> None:
    table = pa.table(columns)
    good = good_columns(table, folder)
    path = folder / f"{name}.lance"
    dataset = write_halves(table.select(good), path)
    if "int8" in good and hasattr(dataset, "delete"):
        dataset.delete("int8 = 2 or int8 = 20")
    save(path)


def make_grown(folder: Path) -> None:
    """Columns that were added to a table are in files of their own, and one was dropped."""
    path = folder / "grown.lance"
    rows = pa.table({"id": list(range(ROWS)), "s": [f"s{row}" for row in range(ROWS)]})
    dataset = write_halves(rows, path)
    if not hasattr(dataset, "merge"):
        return
    columns = {
        "word": pa.array([f"word {row}" for row in range(ROWS)]),
        "pair": pa.array([{"a": row, "b": [row] * (row % 2)} for row in range(ROWS)]),
    }
    dataset.merge(pa.table({"id": rows["id"], **columns}), "id")
    dataset = lance.dataset(str(path))
    written = pa.table({**{name: rows[name] for name in ("id", "s")}, **columns})
    if hasattr(dataset, "drop_columns"):
        dataset.drop_columns(["s"])
        written = written.drop(["s"])
    save(path, written)


def make_emptied(folder: Path) -> None:
    """No row is left of the second of three fragments."""
    path = folder / "emptied.lance"
    shutil.rmtree(path, ignore_errors=True)
    for number in range(3):
        start = number * 10
        part = pa.table({"id": list(range(start, start + 10)), "s": ["x"] * 10})
        dataset = write(part, path, "append" if number else "create")
    if not hasattr(dataset, "delete"):
        return
    dataset.delete("id >= 10 and id < 20")
    dataset = lance.dataset(str(path))
    dataset.delete("id = 3")
    save(path)


def main() -> None:
    folder = Path(sys.argv[1]) / lance.__version__
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(lance.__version__)
    make(numbers(ROWS), folder, "numbers")
    make(nested(ROWS), folder, "nested")
    make(dictionaries(ROWS), folder, "dictionaries")
    make_grown(folder)
    make_emptied(folder)


main()
