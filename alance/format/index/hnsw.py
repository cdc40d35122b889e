"""HNSW graphs of partitions (IVF_HNSW_*), stored as the rows of `index.idx`.

A row is a vector on a level, with its links to other vectors of the level. Level 0 has all vectors;
each higher level has fewer. Rows are sorted by partition, then by level.

    __vector_id   uint32: row of the vector within the partition
    __neighbors   list<uint32>: rows of the linked vectors
    _distance     list<float>: distances of the linked vectors

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.index.ivf import json_of, partition_offsets
from alance.format.numbers import as_numbers
from alance.format.proto import parsed, vector_index_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.base.arrays import Int64s

GRAPH_VECTORS: Final = "__vector_id"
LINKS: Final = "__neighbors"
DISTANCES: Final = "_distance"
GRAPHS_KEY: Final = "lance:hnsw"  # key of the schema's metadata
SEARCHED: Final = (GRAPH_VECTORS, LINKS)  # columns that a search reads
FIELDS: Final = (
    pa.field(GRAPH_VECTORS, pa.uint32()),
    pa.field(LINKS, pa.list_(pa.uint32())),
    pa.field(DISTANCES, pa.list_(pa.float32())),
)

# A graph search costs as much per link and candidate as a comparison of this many rows in sequence.
# Measured with 2,000 to 32,000 rows, m of 20, ef of 15 to 150, and all kinds of codes.
GRAPH_LINK_ROWS: Final = 3
# Approximate number of candidates, in addition to ef, that a search visits on its way.
SPREAD: Final = 15


def walked_rows(m: int, ef: int) -> int:
    """Return the number of rows above which a graph search is faster than comparing all rows.

    Args:
        m: maximum number of links of a row on the upper levels; level 0 has up to twice as many.
    """
    return GRAPH_LINK_ROWS * m * (ef + SPREAD)


class Links(NamedTuple):
    """Options of a graph build.

    Attributes:
        m: links of a row on the upper levels; up to twice as many on level 0.
        ef_construction: number of nearest candidates from which a row's links are chosen.
    """

    m: int
    ef_construction: int
    max_level: int


DEFAULT_LINKS: Final = Links(m=20, ef_construction=150, max_level=7)
MAX_LINKS: Final = Links(m=1024, ef_construction=1 << 20, max_level=64)  # limits of the kernel


class GraphShape(NamedTuple):
    """Metadata of a graph.

    Attributes:
        entry: row at which a search starts.
        levels: first row of each level, then the end of the last.
    """

    entry: int
    levels: tuple[int, ...]
    links: Links

    @classmethod
    def parse(cls, text: object) -> GraphShape:
        try:
            graph = json.loads(text) if isinstance(text, str) else {}
            params = graph["params"]
            levels = graph["level_offsets"]
            numbers = [graph["entry_point"], params["m"], params["ef_construction"]]
            numbers += [params["max_level"], *levels]
        except (ValueError, TypeError, KeyError):
            numbers = [-1]
        if any(type(number) is not int or not 0 <= number < 1 << 32 for number in numbers):
            raise CorruptFileError(f"vector index: graph {text!r}")
        return cls(numbers[0], tuple(levels), Links(*numbers[1:4]))

    def text(self) -> str:
        """Return the JSON metadata, with keys in the order in which pylance writes them.

        Pylance's compaction compares these texts.
        """
        m, ef_construction, max_level = self.links
        params = {
            "max_level": max_level,
            "m": m,
            "ef_construction": ef_construction,
            "prefetch_distance": 2,
        }
        graph = {"entry_point": self.entry, "params": params, "level_offsets": self.levels}
        return json.dumps(graph, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Graphs:
    """Graphs of partitions in the rows of `index.idx`.

    Attributes:
        offsets: first row of each graph, then the number of rows; shape (partitions + 1,).
        sizes: number of vectors of each partition; shape (partitions,).
        shapes: metadata of each graph; None for an empty partition.
    """

    offsets: Int64s
    sizes: Int64s
    shapes: tuple[GraphShape | None, ...]

    @classmethod
    def parse(
        cls, metadata: Mapping[str, str], content: memoryview, sizes: Int64s, num_rows: int
    ) -> Graphs:
        """Parse the schema's metadata and the `IVF` message."""
        offsets = partition_offsets(content, len(sizes), num_rows)
        listed = json_of(metadata, GRAPHS_KEY)
        if not isinstance(listed, list) or len(listed) != len(sizes):
            raise CorruptFileError(f"vector index: no graphs of {len(sizes)} partitions")
        shapes = tuple(
            GraphShape.parse(text) if size else None
            for size, text in zip(sizes.tolist(), listed, strict=True)
        )
        return cls(offsets, sizes, shapes)

    def span(self, number: int) -> tuple[int, int]:
        """Return the first and end row of a partition's graph in `index.idx`."""
        first, stop = self.offsets[number : number + 2].tolist()
        return first, stop

    def num_bytes(self, number: int) -> int:
        """Estimate the memory of a partition's graph in bytes, with 2 m links per row."""
        first, stop = self.span(number)
        shape = self.shapes[number]
        return (stop - first) * (8 + 8 * shape.links.m) if shape else 0

    def pays(self, number: int, num_eligible: int, ef: int) -> bool:
        """True if a graph search is faster than comparing a partition's eligible rows."""
        shape = self.shapes[number]
        return shape is not None and num_eligible > walked_rows(shape.links.m, ef)

    def graph(self, number: int, batch: pa.RecordBatch) -> _kernels.Graph:
        """Build the graph of a partition from its rows in `index.idx`, columns `SEARCHED`."""
        vectors, links = batch.column(GRAPH_VECTORS), batch.column(LINKS)
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
    """Check that a file has the columns of graphs."""
    for field in FIELDS[:2]:
        if schema.get_field_index(field.name) < 0 or schema.field(field.name).type != field.type:
            raise CorruptFileError(f"vector index: columns {schema.names} of graphs")


def describe(links: Links, details: vector_index_pb2.VectorIndexDetails) -> None:
    """Store the options of graphs in the details message of an index's record."""
    config = details.hnsw_index_config
    config.max_connections, config.construction_ef, config.max_level = links


def described(details: bytes) -> Links | None:
    """Return the options of the graphs from an index's record; None if the index has no graphs."""
    message = parsed(vector_index_pb2.VectorIndexDetails, details, "vector index")
    if not message.HasField("hnsw_index_config"):
        return None
    config = message.hnsw_index_config
    values = (config.max_connections, config.construction_ef, config.max_level)
    bounds = zip(values, DEFAULT_LINKS, MAX_LINKS, strict=True)
    m, *rest = (min(value or default, most) for value, default, most in bounds)
    return Links(max(m, 2), *rest)
