"""Finds words like others by the vectors of their letters, in a table on a local S3 server.

python examples/search.py
"""

from __future__ import annotations

import asyncio

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import alance
from alance.testing.lab import Lab

URI = "s3://lab/words.lance"
STEMS = ("light", "water", "stone", "river", "cloud", "paper", "glass", "night")
ENDS = ("", "s", "y", "er", "ing", "less", "fall", "house", "maker", "work")
DIM = 64


def vector_of(text: str) -> npt.NDArray[np.float32]:
    """Where texts with the same pairs of letters are near each other; a model would do better."""
    vector = np.zeros(DIM, np.float32)
    for pair in zip(f" {text}", f"{text} ", strict=True):
        vector[(ord(pair[0]) * 31 + ord(pair[1])) % DIM] += 1
    return vector


async def main(options: dict[str, str]) -> None:
    words = [stem + end for stem in STEMS for end in ENDS]
    values = pa.array(np.concatenate([vector_of(word) for word in words]))
    table = pa.table(
        {
            "word": words,
            "letters": [len(word) for word in words],
            "vector": pa.FixedSizeListArray.from_arrays(values, DIM),
        }
    )
    dataset = await alance.write_dataset(table, URI, storage_options=options)

    near = await dataset.nearest(
        "vector", vector_of("waterfall"), 5, columns=["word"], metric="cosine"
    )
    for word, distance in zip(*near.to_pydict().values(), strict=True):
        print(f"{distance:6.3f}  {word}")

    chosen_words = ["papers", "nightly"]
    nearest = await dataset.nearest_many(
        "vector",
        [vector_of(word) for word in chosen_words],
        3,
        columns=["word"],
        filter="letters > 6",
        metric="cosine",
    )
    for number, word, _ in zip(*nearest.to_pydict().values(), strict=True):
        print(f"near {chosen_words[number]}, of more than six letters: {word}")


if __name__ == "__main__":
    with Lab() as lab:
        asyncio.run(main(lab.lance_options()))
