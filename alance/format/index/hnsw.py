"""Graphs of the rows of a partition (IVF_HNSW_*): the rows of `index.idx`, beside the centroids.

A row stands for a vector of a level, with its links to others there. Level 0 has all vectors, the
levels above fewer and fewer. Those of a partition are one behind the other, partition by partition.

    __vector_id   uint32: its row within the partition
    __neighbors   list<uint32>: the rows that it is linked to
    _distance     list<float>: how far these are

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.index.ivf import json_of, partition_offsets
from alance.format.numbers import as_numbers
from alance.format.proto import vector_index_pb2
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.arrays import Int64s

VECTORS: Final = "__vector_id"
LINKS: Final = "__neighbors"
DISTANCES: Final = "_distance"
GRAPHS: Final = "lance:hnsw"  # key of the schema's metadata
SEARCHED: Final = (VECTORS, LINKS)  # what a search reads
FIELDS: Final = (
    pa.field(VECTORS, pa.uint32()),
    pa.field(LINKS, pa.list_(pa.uint32())),
    pa.field(DISTANCES, pa.list_(pa.float32())),
)


# A walk compares about so many rows for each link of a row and each row that it looks for, or takes
# the time of as many that lie side by side: measured of 2 000 to 32 000 rows, m of 20, ef of 15 to
# 150, of all kinds of codes.
STEPS: Final = 3
SPREAD: Final = 15  # rows beyond ef, about, that it meets before it is near


def walked_rows(m: int, ef: int) -> int:
    """Rows that may as well be compared one by one as by a walk along a graph's links.

    Args:
        m: links of a row on the upper levels; on level 0 they are up to twice as many.
        ef: rows that the walk looks for.
    """
    return STEPS * m * (ef + SPREAD)


class Links(NamedTuple):
    """What a graph is built by.

    Attributes:
        m: links of a row above level 0, where there are up to twice as many.
        ef_construction: near rows of which these are chosen.
        max_level: levels, at most.
    """

    m: int
    ef_construction: int
    max_level: int


DEFAULT: Final = Links(m=20, ef_construction=150, max_level=7)
MOST: Final = Links(m=1024, ef_construction=1 << 20, max_level=64)  # the kernel takes no more


class GraphShape(NamedTuple):
    """What is told of a graph.

    Attributes:
        levels: where each begins, and the end.
    """

    entry: int
    levels: tuple[int, ...]
    links: Links

    @classmethod
    def parse(cls, text: object) -> GraphShape:
        """From its JSON.

        Raises:
            CorruptFileError: it is none.
        """
        try:
            told = json.loads(text) if isinstance(text, str) else {}
            params = told["params"]
            levels = told["level_offsets"]
            numbers = [told["entry_point"], params["m"], params["ef_construction"]]
            numbers += [params["max_level"], *levels]
        except (ValueError, TypeError, KeyError):
            numbers = [-1]
        if any(type(number) is not int or not 0 <= number < 1 << 32 for number in numbers):
            raise CorruptFileError(f"vector index: graph {text!r}")
        return cls(numbers[0], tuple(levels), Links(*numbers[1:4]))

    def text(self) -> str:
        """The inverse of `parse`: in pylance's order, as its compaction compares texts."""
        m, ef_construction, max_level = self.links
        params = {
            "max_level": max_level,
            "m": m,
            "ef_construction": ef_construction,
            "prefetch_distance": 2,
        }
        told = {"entry_point": self.entry, "params": params, "level_offsets": self.levels}
        return json.dumps(told, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Graphs:
    """Where the graphs of partitions are among the rows of `index.idx`.

    Attributes:
        offsets: the first of each partition, and the number of all; shape (partitions + 1,).
        sizes: the rows of each partition; shape (partitions,).
        shapes: None of partitions without rows.
    """

    offsets: Int64s
    sizes: Int64s
    shapes: tuple[GraphShape | None, ...]

    @classmethod
    def parse(
        cls, metadata: Mapping[str, str], content: memoryview, sizes: Int64s, num_rows: int
    ) -> Graphs:
        """From the schema's metadata and the `IVF` message.

        Args:
            sizes: the rows of each partition.
            num_rows: of `index.idx`.

        Raises:
            CorruptFileError: metadata that contradict themselves, or the partitions.
        """
        offsets = partition_offsets(content, len(sizes), num_rows)
        listed = json_of(metadata, GRAPHS)
        if not isinstance(listed, list) or len(listed) != len(sizes):
            raise CorruptFileError(f"vector index: no graphs of {len(sizes)} partitions")
        shapes = tuple(
            GraphShape.parse(text) if size else None
            for size, text in zip(sizes.tolist(), listed, strict=True)
        )
        return cls(offsets, sizes, shapes)

    def span(self, number: int) -> tuple[int, int]:
        """The rows of `index.idx` with the graph of a partition."""
        first, stop = self.offsets[number : number + 2].tolist()
        return first, stop

    def num_bytes(self, number: int) -> int:
        """Memory of the graph of a partition, about: most rows have twice m links."""
        first, stop = self.span(number)
        shape = self.shapes[number]
        return (stop - first) * (8 + 8 * shape.links.m) if shape else 0

    def pays(self, number: int, num_eligible: int, ef: int) -> bool:
        """Whether a walk takes less time than comparing a partition's rows.

        Args:
            num_eligible: rows that count: of fewer ones a walk has to look at more.
            ef: rows that are looked for.
        """
        shape = self.shapes[number]
        return shape is not None and num_eligible > walked_rows(shape.links.m, ef)

    def graph(self, number: int, batch: pa.RecordBatch) -> _kernels.Graph:
        """The graph of a partition, from its rows of `index.idx`; see `SEARCHED`.

        Raises:
            CorruptFileError: links that lead nowhere, levels that contradict each other.
        """
        vectors, links = batch.column(VECTORS), batch.column(LINKS)
        if vectors.null_count or links.null_count or links.values.null_count:
            raise CorruptFileError(f"vector index: nulls in the graph of partition {number}")
        shape = self.shapes[number]
        assert shape is not None
        rows, starts = as_numbers(vectors), as_numbers(links.offsets)
        levels = np.array(shape.levels, np.int64)
        try:
            return _kernels.Graph(
                rows, starts, as_numbers(links.values), levels, shape.entry, int(self.sizes[number])
            )
        except ValueError as error:
            raise CorruptFileError(f"vector index: partition {number}: {error}") from None


def check(schema: pa.Schema) -> None:
    """Raises CorruptFileError where the columns are not those of graphs."""
    for field in FIELDS[:2]:
        if schema.get_field_index(field.name) < 0 or schema.field(field.name).type != field.type:
            raise CorruptFileError(f"vector index: columns {schema.names} of graphs")


def describe(links: Links, details: vector_index_pb2.VectorIndexDetails) -> None:
    """Note what graphs are built by in the details of the index's record."""
    config = details.hnsw_index_config
    config.max_connections, config.construction_ef, config.max_level = links


def described(details: bytes) -> Links | None:
    """What the details in an index's record tell of graphs; None: there are none.

    Raises:
        CorruptFileError: no such details.
    """
    try:
        told = vector_index_pb2.VectorIndexDetails.FromString(details)
    except DecodeError as error:
        raise CorruptFileError(f"vector index: {error}") from error
    if not told.HasField("hnsw_index_config"):
        return None
    config = told.hnsw_index_config
    values = (config.max_connections, config.construction_ef, config.max_level)
    bounds = zip(values, DEFAULT, MOST, strict=True)
    m, *rest = (min(value or default, most) for value, default, most in bounds)
    return Links(max(m, 2), *rest)
