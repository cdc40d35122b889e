"""Rows for training, beside pylance's datasets for PyTorch: `make bench-training`.

python -m benchmarks.training [--rows 200000] [--rounds 5]

A table of labels and vectors in four files is read in batches of 1,024. In each round all loaders
run in turn, in another order; the ratios are medians over the rounds. No number makes the command
fail. It prints the lines of the table in docs/training.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import torch
from lance.torch.data import LanceDataset, SafeLanceDataset
from torch.utils.data import DataLoader

from alance.torch import IterableDataset, MapDataset, collate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Loader = Callable[[], Iterable[Any]]

BATCH: Final = 1024
DIMENSIONS: Final = 128
FILES: Final = 4
PART: Final = 10  # loaders of single random rows get a tenth of the rows


def write(uri: str, num_rows: int) -> None:
    """Write the table with pylance."""
    rng = np.random.default_rng(1)
    vectors = rng.random(num_rows * DIMENSIONS, np.float32)
    rows = pa.table(
        {
            "label": rng.integers(0, 10, num_rows),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, DIMENSIONS),
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=num_rows // FILES)


def loaders(uri: str, num_rows: int) -> dict[str, dict[str, Loader]]:
    """Return the loaders of each kind of work by name; the first of a kind is pylance's."""
    places = range(num_rows // PART)
    theirs = torch.utils.data.Subset(SafeLanceDataset(uri), places)
    ours = MapDataset(uri)

    def chosen() -> Any:
        return torch.utils.data.BatchSampler(
            torch.utils.data.SubsetRandomSampler(places), BATCH, drop_last=False
        )

    return {
        "stream": {
            "`lance.torch.data.LanceDataset`, in order": lambda: LanceDataset(uri, BATCH),
            "`IterableDataset`, in order": lambda: DataLoader(
                IterableDataset(uri, BATCH), batch_size=None
            ),
            "`IterableDataset`, `shuffle=True`": lambda: DataLoader(
                IterableDataset(uri, BATCH, shuffle=True, seed=7), batch_size=None
            ),
        },
        "at random": {
            "`lance.torch.data.SafeLanceDataset`, at random": lambda: DataLoader(
                theirs, BATCH, shuffle=True, collate_fn=tensors
            ),
            "`MapDataset`, at random, PyTorch's own collation": lambda: DataLoader(
                ours, batch_sampler=chosen()
            ),
            "`MapDataset`, at random, `collate`": lambda: DataLoader(
                ours, batch_sampler=chosen(), collate_fn=collate
            ),
        },
    }


def tensors(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Convert samples of pylance, which are lists of Python objects, to tensors."""
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}


def measure(loader: Loader) -> tuple[float, float]:
    """Return rows per second, by the clock and by processor time."""
    clock, worked, num_rows = time.perf_counter(), time.process_time(), 0
    for batch in loader():
        assert batch["vector"].shape[1] == DIMENSIONS
        num_rows += len(batch["label"])
    return num_rows / (time.perf_counter() - clock), num_rows / (time.process_time() - worked)


def main(num_rows: int, rounds: int) -> None:
    """Measure, and print the lines of a table."""
    with tempfile.TemporaryDirectory() as folder:
        uri = f"{folder}/training.lance"
        write(uri, num_rows)
        seen: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        kinds = loaders(uri, num_rows)
        works = [(name, loader) for kind in kinds.values() for name, loader in kind.items()]
        for number in range(rounds + 1):
            random.Random(number).shuffle(works)
            for name, loader in works:
                rates = measure(loader)
                if number:  # the first round warms up
                    seen[name].append(rates)
    print("| | rows a second | ratio | rows a second of processor time | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for kind in kinds.values():
        first = seen[next(iter(kind))]
        for name in kind:
            cells = []
            for side in range(2):
                middle = statistics.median(rates[side] for rates in seen[name])
                ratio = statistics.median(
                    ours[side] / theirs[side]
                    for ours, theirs in zip(seen[name], first, strict=True)
                )
                cells.append(f"{middle:,.0f} | {ratio:.2f}x")
            print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    main(args.rows, args.rounds)
