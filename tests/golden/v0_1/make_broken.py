"""Makes tables of 0.1 that old releases left half-broken, in `broken/`.

Run it in environments of 0.7.5, 0.8.0, 0.10.5 and 0.16.1, in this order, then in that of a present
release, which writes `<name>.arrow`: the rows as it reads them.

    python make_broken.py tests/golden/v0_1
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import lance
import pyarrow as pa


def fresh(path: Path) -> str:
    shutil.rmtree(path, ignore_errors=True)
    return str(path)


def make_deleted(folder: Path) -> None:
    """Rows are deleted, and no row counts told."""
    for name in ("deleted", "migrated"):
        table = pa.table({"x": list(range(40)), "s": [f"s{n}" for n in range(40)]})
        dataset = lance.write_dataset(table, fresh(folder / f"{name}.lance"), max_rows_per_group=9)
        dataset.delete("x >= 5 and x < 12")


def migrate(folder: Path) -> None:
    """The release tells the rows that are left, where it should tell those that are stored."""
    table = pa.table({"x": [100, 101], "s": ["a", "b"]})
    lance.write_dataset(table, str(folder / "migrated.lance"), mode="append")


def make_repeated_ids(folder: Path) -> None:
    """Columns get the ids of others that were dropped, whose files are still there."""
    path = fresh(folder / "repeated_ids.lance")
    dataset = lance.write_dataset(pa.table({"x": [0, 1]}), path)
    dataset.add_columns({"y": "x * 2", "z": "x * 3"})
    dataset.add_columns({"a": "-x"})
    rows = {"x": [2, 3], "y": [4, 6], "z": [6, 9], "a": [-2, -3]}
    dataset = lance.write_dataset(pa.table(rows), path, mode="append")
    dataset.drop_columns(["a", "z"])
    dataset.add_columns({"b": "x * 4", "c": "x * 5"})


def make_names(folder: Path) -> None:
    """A rename of the manifests to the newer names has ended halfway."""
    for name, renamed in (("names_old", [1]), ("names_new", [3])):
        path = fresh(folder / f"{name}.lance")
        for number in range(3):
            table = pa.table({"x": [number]})
            lance.write_dataset(table, path, mode="append" if number else "create")
        for version in renamed:
            old = Path(path) / "_versions" / f"{version}.manifest"
            old.rename(old.with_name(f"{(1 << 64) - 1 - version:020}.manifest"))


def expect(folder: Path) -> None:
    for path in sorted(folder.glob("*.lance")):
        shutil.rmtree(path / "_transactions", ignore_errors=True)
        try:
            with tempfile.TemporaryDirectory() as copy:
                shutil.copytree(path, copy, dirs_exist_ok=True)
                # A present release repairs ids that are there twice before it commits.
                lance.dataset(copy).delete("false")
                table = lance.dataset(copy).to_table(with_row_id=True)
        except ValueError as error:
            print(path.stem, "is refused:", error)
            continue
        with pa.ipc.new_file(str(path.with_suffix(".arrow")), table.schema) as writer:
            writer.write_table(table)


def main() -> None:
    folder = Path(sys.argv[1]) / "broken"
    folder.mkdir(parents=True, exist_ok=True)
    steps = {"0.7.5": make_deleted, "0.8.0": migrate, "0.10.5": make_repeated_ids}
    steps["0.16.1"] = make_names
    steps.get(lance.__version__, expect)(folder)


main()
