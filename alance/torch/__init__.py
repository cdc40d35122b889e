"""Training with PyTorch from Lance tables: datasets for `torch.utils.data.DataLoader`.

    from torch.utils.data import DataLoader

    samples = alance.torch.MapDataset("s3://bucket/images", columns=["pixels", "label"])
    loader = DataLoader(samples, 256, shuffle=True, collate_fn=alance.torch.collate)

    stream = alance.torch.IterableDataset("s3://bucket/images", 256, shuffle=True, seed=7)
    for epoch in range(10):
        stream.set_epoch(epoch)
        for batch in DataLoader(stream, batch_size=None):
            train(batch["pixels"], batch["label"])

Both block, as PyTorch does: reads run in an event loop in a thread of this module. A dataset
remains at the version with which it was created, also in the workers of a loader. See
docs/training.md.
"""

from alance.base.extras import missing

try:
    import torch  # noqa: F401  # before the modules below, which need it
except ImportError as error:
    raise missing("alance.torch needs PyTorch", "torch") from error

from alance.torch.iterable import IterableDataset
from alance.torch.mapped import MapDataset, Samples, collate
from alance.torch.table import Source
from alance.torch.tensors import Fill, to_tensors

__all__ = ["Fill", "IterableDataset", "MapDataset", "Samples", "Source", "collate", "to_tensors"]
