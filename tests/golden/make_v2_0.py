"""Makes the golden tables of file version 2.0 with an old release of pylance.

Run it in an environment of that release (pylance and pyarrow alone, on Python 3.9 to 3.12):

    python make_v2_0.py tests/golden/v2_0

It writes `<release>/<name>.lance`, two fragments with deleted rows, and beside each table
`<name>.arrow`: the rows as the release itself reads them. Where it cannot read what it wrote, or
reads something else, the rows are those that were written, and the name ends in `_written`.
"""

from __future__ import annotations

import datetime
import decimal
import shutil
import sys
from pathlib import Path

import lance
import pyarrow as pa

ROWS = 36


def sparse(values: list) -> list:
    return [None if row % 7 == 3 else value for row, value in enumerate(values)]


def numbers(n: int) -> dict[str, pa.Array]:
    ints = list(range(-5, n - 5))
    return {
        "int8": pa.array(sparse(ints), pa.int8()),
        "uint16": pa.array([abs(number) for number in ints], pa.uint16()),
        "int32": pa.array(ints, pa.int32()),
        "int64": pa.array(sparse([number << 33 for number in ints]), pa.int64()),
        "uint64": pa.array([number * number << 40 for number in ints], pa.uint64()),
        "float": pa.array(sparse([number / 3 for number in ints]), pa.float32()),
        "double": pa.array([number / 7 for number in ints], pa.float64()),
        "bool": pa.array([row % 3 == 0 for row in range(n)]),
        "bools": pa.array(sparse([row % 2 == 0 for row in range(n)])),
        "decimal": pa.array(
            sparse([decimal.Decimal(number).scaleb(-2) for number in ints]), pa.decimal128(10, 2)
        ),
        "date": pa.array([datetime.date(2020, 1, 1 + row % 28) for row in range(n)]),
        "timestamp": pa.array(sparse([number * 1000003 for number in ints]), pa.timestamp("us")),
        "zoned": pa.array([number * 1000003 for number in ints], pa.timestamp("ns", "UTC")),
        "time": pa.array(sparse([abs(number) for number in ints]), pa.time64("us")),
        "duration": pa.array(ints, pa.duration("ms")),
        "missing": pa.array([None] * n, pa.int32()),
        "null": pa.nulls(n),
        "fixed": pa.array(sparse([b"%03d" % row for row in range(n)]), pa.binary(3)),
    }


def strings(n: int) -> dict[str, pa.Array]:
    texts = [f"text {row * row} é" * (row % 4) for row in range(n)]
    return {
        "string": pa.array(texts),
        "strings": pa.array(sparse(texts)),
        "large": pa.array(sparse(texts), pa.large_string()),
        "binary": pa.array(sparse([text.encode() for text in texts])),
        "no_text": pa.array([None] * n, pa.string()),
        "dictionary": pa.array(sparse([f"item {row % 5}" for row in range(n)])).dictionary_encode(),
        "keys": pa.DictionaryArray.from_arrays(
            pa.array(sparse([row % 3 for row in range(n)]), pa.int8()), pa.array([10, 20, 30])
        ),
    }


def nested(n: int) -> dict[str, pa.Array]:
    return {
        "vector": pa.array(
            sparse([[row / 2, row + 1.0] for row in range(n)]), pa.list_(pa.float32(), 2)
        ),
        "flags": pa.array(
            sparse([[True, False, row % 2 == 0] for row in range(n)]), pa.list_(pa.bool_(), 3)
        ),
        "list": pa.array(sparse([list(range(row % 4)) for row in range(n)]), pa.list_(pa.int32())),
        "lists": pa.array(
            sparse(
                [[["a" * at] if at != 1 else None for at in range(row % 4)] for row in range(n)]
            ),
            pa.large_list(pa.list_(pa.string())),
        ),
        "struct": pa.array(
            [
                {"x": row if row % 3 else None, "y": f"y{row}", "z": [row] * (row % 3)}
                for row in range(n)
            ]
        ),
        "structs": pa.array(sparse([[{"p": row, "q": str(row)}] * (row % 3) for row in range(n)])),
    }


def hinted(n: int) -> pa.Table:
    """Columns with an encoding that their metadata ask for."""
    texts = sparse([f"hello world {row % 9}" for row in range(n)])
    packed = pa.StructArray.from_arrays(
        [pa.array(range(n), pa.int16()), pa.array([row / 2 for row in range(n)])], ["a", "b"]
    )
    columns = [
        ("packed", packed, {"packed": "true"}),
        ("zstd", pa.array(texts), {"lance-encoding:compression": "zstd"}),
        ("fsst", pa.array(texts), {"lance-encoding:compression": "fsst"}),
    ]
    fields = [pa.field(name, array.type, metadata=metadata) for name, array, metadata in columns]
    return pa.table([array for _, array, _ in columns], schema=pa.schema(fields))


def write(table: pa.Table, path: Path) -> lance.LanceDataset:
    """Two fragments. Rows are written in whole arrays: old releases lose the nulls of slices."""
    shutil.rmtree(path, ignore_errors=True)
    half = table.num_rows // 2
    for mode, part in (("create", table.slice(0, half)), ("append", table.slice(half))):
        whole = part.take(list(range(part.num_rows)))
        try:
            dataset = lance.write_dataset(whole, str(path), mode=mode, data_storage_version="2.0")
        except TypeError:
            dataset = lance.write_dataset(whole, str(path), mode=mode, use_legacy_format=False)
    return dataset


def save(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def plain(table: pa.Table) -> list:
    column = table.column(0)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


def make(table: pa.Table, folder: Path, name: str) -> None:
    """One table of the columns that this release writes and reads, others one by one."""
    good = []
    for column in table.column_names:
        single, path = table.select([column]), folder / "one.lance"
        try:
            dataset = write(single, path)
        except BaseException as error:
            print(f"  {name}.{column} is not written: {str(error)[:100]}")
            continue
        try:
            read = dataset.to_table()
            if plain(read) == plain(single):
                good.append(column)
                continue
            print(f"  {name}.{column}: reads others than were written")
        except BaseException as error:
            print(f"  {name}.{column} is not read: {str(error)[:100]}")
        target = folder / f"{name}_{column}_written"
        shutil.rmtree(f"{target}.lance", ignore_errors=True)
        shutil.move(str(path), f"{target}.lance")
        save(single, Path(f"{target}.arrow"))
    shutil.rmtree(folder / "one.lance", ignore_errors=True)
    if not good:
        return
    dataset = write(table.select(good), folder / f"{name}.lance")
    column = good[0]
    if column == "int8":
        dataset.delete("int8 = 2 or int8 = 20")
        dataset = lance.dataset(str(folder / f"{name}.lance"))
    save(dataset.to_table(), folder / f"{name}.arrow")
    shutil.rmtree(folder / f"{name}.lance" / "_transactions", ignore_errors=True)


def make_blobs(folder: Path) -> None:
    """Blobs, which some releases store as strings; the rows beside them are their bytes."""
    payloads = [b"hello", None, b"", b"x" * 70, b"yy"] * 3
    metadata = {"lance-encoding:blob": "true"}
    schema = pa.schema([pa.field("blob", pa.large_binary(), metadata=metadata)])
    table = pa.table([pa.array(payloads, pa.large_binary())], schema=schema)
    write(table, folder / "blobs.lance")
    save(table, folder / "blobs.arrow")


def main() -> None:
    folder = Path(sys.argv[1]) / lance.__version__
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(lance.__version__)
    make(pa.table({**numbers(ROWS)}), folder, "numbers")
    make(pa.table({**strings(ROWS), **nested(ROWS)}), folder, "nested")
    make(hinted(ROWS), folder, "asked_for")
    make_blobs(folder)
    # With the item that stands for null, more items than the keys can number.
    items = pa.array([f"item {number}" for number in range(128)])
    keys = pa.array([None if row % 130 > 127 else row % 130 for row in range(260)], pa.int8())
    make(pa.table({"keys": pa.DictionaryArray.from_arrays(keys, items)}), folder, "full_keys")
    few = sparse([f"word {row % 4}" for row in range(240)])
    make(
        pa.table({"few": few, "lists": [few[row : row + row % 3] for row in range(240)]}),
        folder,
        "few",
    )


main()
