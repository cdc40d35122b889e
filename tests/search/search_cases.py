"""Tables of vectors, and the same searches of alance and pylance."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    import alance

DIM: Final = 16
NUM_ROWS: Final = 3000
SKIPPED: Final = 5  # rows, at most, that pylance takes for too far by one bit alone (IVF_RQ)
METRICS: Final = ("l2", "cosine", "dot")
KINDS: Final = ("float16", "float32", "float64", "uint8")


def vectors(kind: str, num_rows: int = NUM_ROWS, dim: int = DIM, seed: int = 7) -> pa.Array:
    """Vectors in clusters; some are null."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(20, dim))
    values = centres[rng.integers(0, 20, num_rows)] + rng.normal(size=(num_rows, dim)) * 0.4
    if kind == "uint8":
        values = np.clip(values * 40 + 128, 0, 255)
    items = pa.array(np.ascontiguousarray(values, kind).reshape(-1))
    mask = pa.array(rng.random(num_rows) < 0.03)
    return pa.FixedSizeListArray.from_arrays(items, dim, mask=mask)


def table(kind: str, num_rows: int = NUM_ROWS, first: int = 0, seed: int = 7) -> pa.Table:
    """Rows with an id, a class, a text and a vector."""
    numbers = np.arange(first, first + num_rows)
    return pa.table(
        {
            "id": numbers,
            "kind": numbers % 7,
            "text": [f"row {number}" for number in numbers],
            "vec": vectors(kind, num_rows, seed=seed),
        }
    )


def written(path: Path, kind: str = "float32", *, deletes: bool = True, **options: Any) -> Path:
    """A table of several fragments; some rows are deleted."""
    lance.write_dataset(table(kind), path, max_rows_per_file=1100, **options)
    if deletes:
        lance.dataset(path).delete("id % 13 = 5")
    return path


def drawn(
    path: Path,
    metric: str,
    partitions: int,
    *,
    column: str = "vec",
    num_sub_vectors: int = 0,
    num_bits: int = 8,
) -> dict[str, Any]:
    """Centroids, and a codebook if there are sub-vectors, of rows of the table: the same each time,
    while those that pylance trains are by chance.
    """
    rows = lance.dataset(path).to_table([column])[column].combine_chunks().drop_null()
    values = np.array(rows.flatten()).reshape(len(rows), -1)
    kind = values.dtype
    if metric == "cosine":
        values = values / np.linalg.norm(values.astype(np.float64), axis=1, keepdims=True)
    values = values[np.random.default_rng(1).permutation(len(values))]
    centroids = values[:partitions]
    options: dict[str, Any] = {
        "num_partitions": partitions,
        "ivf_centroids": centroids.astype(kind),
    }
    if num_sub_vectors:
        coded = values[: 1 << num_bits].astype(np.float64)
        if metric != "dot":  # of these the distance from the nearest centroid is coded
            away = ((coded[:, None] - centroids.astype(np.float64)) ** 2).sum(2)
            coded -= centroids[away.argmin(1)]
        book = coded.reshape(len(coded), num_sub_vectors, -1).transpose(1, 0, 2)
        options["pq_codebook"] = np.ascontiguousarray(book, kind)
    return options


def queries(kind: str, count: int = 5) -> npt.NDArray[Any]:
    """Vectors like those of the table."""
    result = vectors(kind, 200, seed=99).drop_null()[:count]
    return np.array(result.to_pylist(), kind)


def theirs(path: Path | str, q: npt.NDArray[Any], **options: Any) -> pa.Table:
    """Return pylance's result; options that its `nearest` has are passed there."""
    nearest = {"column": "vec", "q": q}
    names = (
        "k", "metric", "nprobes", "minimum_nprobes", "maximum_nprobes", "refine_factor",
        "use_index", "ef", "distance_range", "approx_mode",
    )  # fmt: skip
    nearest |= {name: options.pop(name) for name in names if name in options}
    options.setdefault("columns", ["id"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lance.dataset(path).to_table(nearest=nearest, **options)


async def ours(dataset: alance.Dataset, q: npt.NDArray[Any], **options: Any) -> pa.Table:
    options.setdefault("columns", ["id"])
    return await dataset.nearest("vec", q, **options)


def agree(own: pa.Table, other: pa.Table, *, tolerance: float = 1e-5, scale: float = 1.0) -> None:
    """The same rows at the same distances, but for ties by rounding.

    Args:
        scale: by which pylance's distances are to be multiplied.
    """
    actual, right = own["_distance"].to_numpy(), other["_distance"].to_numpy() * scale
    assert len(actual) == len(right)
    bound = tolerance * max(1.0, float(np.abs(right).max(initial=0)))
    np.testing.assert_allclose(actual, right, rtol=tolerance, atol=bound)
    left, present = own["id"].to_pylist(), other["id"].to_pylist()
    for place, (ours_, theirs_) in enumerate(zip(left, present, strict=True)):
        if ours_ != theirs_:  # another row at nearly the same distance
            near = np.abs(right - actual[place]) <= 4 * bound
            at_end = place >= len(left) - 1 or bool(near[-1])
            assert near.sum() > 1 or at_end, (place, ours_, theirs_)


def agree_on_common(own: pa.Table, other: pa.Table, *, but: int = 0, **options: float) -> None:
    """As `agree`, for rows that both have.

    Args:
        but: rows of pylance's that may be missing in ours.
    """
    is_theirs = np.isin(own["id"].to_numpy(), other["id"].to_numpy())
    is_ours = np.isin(other["id"].to_numpy(), own["id"].to_numpy())
    assert np.count_nonzero(~is_ours) <= but
    agree(own.filter(pa.array(is_theirs)), other.filter(pa.array(is_ours)), **options)


def ids(result: pa.Table) -> Sequence[int]:
    numbers: list[int] = result["id"].to_pylist()
    return numbers
