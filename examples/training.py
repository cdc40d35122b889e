"""Trains a classifier from a table: epochs in their own order, a stop in the middle, and on.

Needs PyTorch: `pip install ".[torch]"`.
"""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import DataLoader

import alance.sync
from alance.torch import IterableDataset, MapDataset, collate


def points(count: int) -> pa.Table:
    """Points of a plane, and on which side of a line they are."""
    values = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
    labels = (values[:, 0] + 2 * values[:, 1] > 0).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(values.ravel(), 2)
    return pa.table({"id": np.arange(count), "point": vectors, "label": labels})


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        alance.sync.write_dataset(points(20_000), f"{folder}/points")
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        checkpoint = None
        for stop in (40, None):  # the first run is cut off after 40 steps
            batches = IterableDataset(
                f"{folder}/points", 128, ["point", "label"], filter="id < 16000",
                shuffle=True, seed=1, drop_last=True,
            )  # fmt: skip
            if checkpoint is not None:
                batches.load_state_dict(checkpoint)
            for step, batch in enumerate(DataLoader(batches, batch_size=None)):
                if step == stop:
                    break
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    model(batch["point"]).squeeze(1), batch["label"]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                checkpoint = batches.state_dict()
            print(f"at batch {checkpoint['next']} of {len(batches)}")

        held_back = MapDataset(f"{folder}/points", ["point", "label"], filter="id >= 16000")
        right = 0
        for batch in DataLoader(held_back, 500, collate_fn=collate):
            right += int(((model(batch["point"]).squeeze(1) > 0) == (batch["label"] > 0.5)).sum())
        print(f"{len(held_back)} rows, more than nine in ten right: {right > 0.9 * len(held_back)}")


if __name__ == "__main__":
    main()
