"""FM index: substring search in texts.

Texts are split into partitions of at most 10,000 rows or about 16 MiB, in files `part_N_fm.lance`
with N from 0. Null rows are omitted. The content of a partition is the text of each row followed by
a byte FF, and a byte 00 at the end; bytes 00 and FF in texts are replaced by blanks. The file
stores the Burrows-Wheeler transform of this content as a wavelet tree in the shape of a Huffman
tree, and every 32nd entry of the suffix array. The rows of the file have the columns

    node_id u32, block_id u32, words large_binary, prefix_rank u64, bit_len u64

Each node has a row per 32 KiB of its bits (u64 words, lowest bit first; `prefix_rank`: number of
one bits in the node's earlier rows; `bit_len`: bits of the node). Rows with node id FFFFFFFF
follow, with u64 entries of the suffix array. The metadata has numbers in decimal, and these arrays
as hexadecimal digits:

    c_table              257 x u64: number of smaller symbols, for each symbol
    tree_topology        u32 nodes; left and right child of each: u8 (1: leaf), u32 node or symbol
    huffman_codes        256 x (u32 bits, u8 length, u16 steps, steps x u32 node)
    row_ids              u64 address of each row
    doc_start_positions  u64 offset of each row's text

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import heapq
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.expr.tree import plain
from alance.format.numbers import as_mask, as_numbers, contents_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s, Mask, UInt64s

FM_VERSION: Final = 10
ENDING: Final = "_fm.lance"
FM_PARTITION_ROWS: Final = 10_000
FM_PARTITION_BYTES: Final = 16 << 20
FM_BLOCK_BYTES: Final = 32 << 10  # bytes of bits or of suffix array entries per row of the file
RATE: Final = 32
SAMPLES_NODE: Final = 0xFFFF_FFFF
SEPARATOR: Final = 0xFF
BLANK: Final = b" "
MAX_NODES: Final = 255
MAX_CODE: Final = 32  # bits; the format holds no longer Huffman code
# Bytes of memory to build a partition, per byte of its text: the text twice, four bytes per suffix,
# up to four for sorting, and the pages being written.
BUILD_BYTES: Final = 14
# Column of a run that holds the metadata of each partition in the partition's first row.
PARTITION_METADATA: Final = "partition"
FM_SCHEMA: Final = pa.schema(
    [
        pa.field("node_id", pa.uint32(), nullable=False),
        pa.field("block_id", pa.uint32(), nullable=False),
        pa.field("words", pa.large_binary(), nullable=False),
        pa.field("prefix_rank", pa.uint64(), nullable=False),
        pa.field("bit_len", pa.uint64(), nullable=False),
    ]
)
RUN_SCHEMA: Final = FM_SCHEMA.append(pa.field(PARTITION_METADATA, pa.binary()))
ROW_IDS_KEY: Final = "row_ids"
FINGERPRINT: Final = "partition_fingerprint"


def file_of(number: int) -> str:
    return f"part_{number}{ENDING}"


@dataclass(frozen=True, slots=True, eq=False)
class FmPartition:
    """A searchable partition.

    Attributes:
        rows: address of each row; shape (rows,), int64.
        starts: offset of each row's text, ascending; shape (rows,), int64.
        index: kernel object that searches the content; None for an empty partition.
    """

    rows: Int64s
    starts: Int64s
    index: _kernels.FmIndex | None
    length: int

    @classmethod
    def parse(cls, batch: pa.RecordBatch, metadata: Mapping[str, str]) -> FmPartition:
        """Parse the rows and the metadata of a file. CPU work."""
        try:
            return cls._parse(batch, metadata)
        except (KeyError, ValueError, struct.error) as error:
            raise CorruptFileError(f"FM index: {error!r}") from error

    @classmethod
    def _parse(cls, batch: pa.RecordBatch, metadata: Mapping[str, str]) -> FmPartition:
        rows, starts = (_numbers(metadata, key) for key in (ROW_IDS_KEY, "doc_start_positions"))
        length = int(metadata["bwt_len"])
        is_ascending = len(starts) == 0 or (starts[0] == 0 and (np.diff(starts) > 0).all())
        if len(rows) != len(starts) or not is_ascending or (rows < 0).any():
            raise ValueError(f"{len(rows)} rows, {len(starts)} places of texts, in order")
        if not length:
            if len(rows):
                raise ValueError(f"{len(rows)} rows without a text")
            return cls(rows, starts, None, 0)
        if not len(starts) or starts[-1] >= length - 1:
            raise ValueError(f"a text that begins behind {length} bytes, or none")
        return cls(rows, starts, _index_of(batch, metadata), length)

    @property
    def num_bytes(self) -> int:
        return 16 * len(self.rows) + (self.index.num_bytes if self.index is not None else 0) + 2000

    def find(self, pattern: bytes) -> tuple[int, int]:
        """Return the range of suffixes that start with a pattern. CPU work."""
        if self.index is None:
            return 0, 0
        return self.index.find(np.frombuffer(pattern, np.uint8))

    def rows_of(self, span: tuple[int, int]) -> Int64s:
        """Return the addresses of the rows in which the suffixes of a range begin.

        CPU work.
        """
        if self.index is None or span[0] == span[1]:
            return self.rows[:0]
        try:
            places = self.index.locate(*span)
        except ValueError as error:
            raise CorruptFileError(f"FM index: {error}") from error
        numbers = np.searchsorted(self.starts, places, "right") - 1
        return self.rows[np.unique(numbers)]

    def texts(self, keep: Mask) -> FmTextRows:
        """Decode the texts of the rows in a mask. CPU work."""
        if self.index is None:
            return FmTextRows.none()
        content = self.index.text()
        ends = np.append(self.starts[1:], self.length - 1)
        separators = np.flatnonzero(content == SEPARATOR)
        if not np.array_equal(separators, ends - 1) or not content[:-1].all():
            raise CorruptFileError("FM index: texts that end elsewhere than it says")
        starts, sizes = self.starts[keep], (ends - self.starts)[keep]
        whole = _kernels.concat_spans(content, starts, sizes)[1]
        return FmTextRows(self.rows[keep], np.cumsum(sizes), whole)


class FmTextRows(NamedTuple):
    """Row addresses with their texts.

    Attributes:
        rows: address of each row; shape (n,).
        ends: end of each text and its separator, as an offset in `content`.
        content: texts, each followed by a separator; their bytes 00 and FF are replaced by blanks.
    """

    rows: Int64s
    ends: Int64s
    content: Bytes

    @classmethod
    def none(cls) -> FmTextRows:
        empty = np.empty(0, np.int64)
        return cls(empty, empty, np.empty(0, np.uint8))

    @classmethod
    def of(cls, values: pa.Array, addresses: pa.Array) -> FmTextRows:
        """Return the non-null values with their rows. CPU work."""
        values, rows = plain(values), as_numbers(addresses).astype(np.int64)
        if values.null_count:
            rows, values = rows[as_mask(values.is_valid())], values.drop_null()
        offsets, content = contents_of(values)
        lengths = np.arange(1, len(rows) + 1)
        return cls(rows, offsets[1:] - offsets[0] + lengths, _kernels.separated(offsets, content))

    @classmethod
    def joined(cls, parts: Sequence[FmTextRows]) -> FmTextRows:
        """Concatenate parts into a copy. CPU work."""
        sizes = np.cumsum([0, *(len(part.content) for part in parts)]).tolist()
        shifted = [part.ends + size for part, size in zip(parts, sizes, strict=False)]
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate(shifted),
            np.concatenate([part.content for part in parts]),
        )

    def part(self, start: int, stop: int) -> FmTextRows:
        """Return the slice of rows from `start` to `stop`; a view."""
        first = int(self.ends[start - 1]) if start else 0
        last = int(self.ends[stop - 1]) if stop else 0
        ends = self.ends[start:stop]
        return FmTextRows(self.rows[start:stop], ends - first, self.content[first:last])


def _numbers(metadata: Mapping[str, str], key: str) -> Int64s:
    return np.frombuffer(bytes.fromhex(metadata[key]), np.int64)


def _index_of(batch: pa.RecordBatch, metadata: Mapping[str, str]) -> _kernels.FmIndex:
    """Build the index from its nodes: blocks of bits, then samples of the suffix array.

    Raises:
        ValueError: the rows are not those of a tree.
    """
    is_known = (batch.schema.names, batch.schema.types) == (FM_SCHEMA.names, FM_SCHEMA.types)
    if not is_known or any(column.null_count for column in batch.columns):
        raise ValueError(f"columns {batch.schema}")
    num_blocks = int(metadata["total_wavelet_rows"])
    nodes = as_numbers(batch.column(0)).astype(np.int64)
    offsets, content = contents_of(batch.column(2))
    if not 0 < num_blocks <= len(nodes) or (offsets % 8 != offsets[0] % 8).any():
        raise ValueError(f"{num_blocks} blocks of bits of {len(nodes)}")
    words = np.empty(int(offsets[-1] - offsets[0]) // 8, np.uint64)
    words.view(np.uint8)[:] = content[offsets[0] : offsets[-1]]  # aligned
    places = (offsets - offsets[0]) // 8
    children = _children(bytes.fromhex(metadata["tree_topology"]))
    own = nodes[:num_blocks]
    firsts = np.searchsorted(own, np.arange(len(children)))
    is_there = firsts < len(own)
    is_there &= own[np.minimum(firsts, len(own) - 1)] == np.arange(len(children))
    if (np.diff(own) < 0).any() or not is_there.all():
        raise ValueError("blocks of other nodes than the tree has")
    lengths = as_numbers(batch.column(4)).astype(np.int64)[firsts]
    return _kernels.FmIndex(
        words[: places[num_blocks]],
        children,
        places[firsts],
        lengths,
        _numbers(metadata, "c_table"),
        words[places[num_blocks] :],
        int(metadata.get("sa_sample_rate", RATE)),
        int(metadata["bwt_len"]),
    )


def _children(content: bytes) -> npt.NDArray[np.int32]:
    (count,) = struct.unpack_from("<I", content)
    if not 0 < count <= MAX_NODES or len(content) != 4 + 10 * count:
        raise ValueError(f"tree of {count} nodes in {len(content)} bytes")
    entries = list(struct.iter_unpack("<BI", content[4:]))
    if any(child > MAX_NODES for _, child in entries):
        raise ValueError("tree with a node or a symbol over 255")
    flat = [-1 - child if is_leaf else child for is_leaf, child in entries]
    return np.array(flat, np.int32).reshape(-1, 2)


class PartitionBuilder:
    """Builder that cuts rows into partitions and indexes the texts of each.

    Attributes:
        null_rows: always empty, because null rows are omitted.
        run_schema: columns of a run, the file that one process of an index build writes before the
            merge. Its rows are those of consecutive partitions, with the metadata of each.

    Args:
        memory: approximate memory budget of the build, in bytes. A single text above the budget
            becomes a partition of its own.
    """

    def __init__(self, memory: int) -> None:
        self.null_rows: list[Int64s] = []
        self.run_schema = RUN_SCHEMA
        self._most = min(FM_PARTITION_BYTES, max(1, memory // BUILD_BYTES))
        self._waiting: list[FmTextRows] = []
        self._num_rows = self._num_bytes = 0

    def add(self, values: pa.Array, addresses: pa.Array) -> list[pa.RecordBatch]:
        """Add values with their row addresses; return the partitions that are complete.

        CPU work.
        """
        return self.add_texts(FmTextRows.of(values, addresses))

    def add_texts(self, texts: FmTextRows) -> list[pa.RecordBatch]:
        """Add rows; return the partitions that are complete. CPU work."""
        ready: list[pa.RecordBatch] = []
        start, num_rows = 0, len(texts.rows)
        while start < num_rows:
            before = int(texts.ends[start - 1]) if start else 0
            room = before + self._most - self._num_bytes
            full = int(np.searchsorted(texts.ends, room, "left")) + 1
            stop = min(num_rows, full, start + FM_PARTITION_ROWS - self._num_rows)
            part = texts.part(start, stop)
            self._waiting.append(part)
            self._num_rows += stop - start
            self._num_bytes += len(part.content)
            if self._num_rows >= FM_PARTITION_ROWS or self._num_bytes >= self._most:
                ready.append(self._partition())
            start = stop
        # Copy pending rows, so that they do not keep their batch in memory.
        self._waiting = [FmTextRows.joined(self._waiting)] if self._waiting else []
        return ready

    def is_half_full(self, num_rows: int, num_bytes: int) -> bool:
        """Return True if a partition of this size is large enough to be copied unchanged."""
        return 2 * num_rows >= FM_PARTITION_ROWS or 2 * num_bytes >= self._most

    def finish(self) -> list[pa.RecordBatch]:
        """Return the last partition; empty if no rows are pending. CPU work."""
        return [self._partition()] if self._waiting else []

    def _partition(self) -> pa.RecordBatch:
        waiting, self._waiting = self._waiting, []
        self._num_rows = self._num_bytes = 0
        return run_rows(*partition_of(FmTextRows.joined(waiting)))


def partition_of(texts: FmTextRows) -> tuple[pa.RecordBatch, dict[str, str]]:
    """Build the rows and the metadata of a partition's file. CPU work."""
    offsets = np.append(0, texts.ends)
    nodes = np.empty(0, np.int64)  # number of bits of each node
    samples, words = np.empty(0, np.uint64), np.empty(0, np.uint64)
    counts = np.zeros(256, np.int64)
    tree, length = _WaveletTree([], {}), 0
    if len(texts.rows):
        symbols = np.append(texts.content, np.uint8(0))
        length = len(symbols)
        if length >> 31:
            raise UnsupportedError(f"FM index: {length} bytes of one text, at most 2 GiB")
        transform, samples, counts = _kernels.burrows_wheeler(symbols, RATE)
        tree = _WaveletTree.of(counts)
        children = np.array(tree.children, np.int32).reshape(-1, 2)
        words, nodes = _kernels.wavelet_words(transform, children)
    columns, num_blocks = _blocks(nodes, words, samples)
    numbers = {
        "num_bwt_nodes": len(tree.children),
        "bwt_len": length,
        "num_sa_blocks": len(columns[0]) - num_blocks,
        "sa_samples_len": len(samples),
        "total_wavelet_rows": num_blocks,
        "sa_sample_rate": RATE,
        "alphabet_size": 256,
    }
    contents = {
        "c_table": np.cumsum([0, *counts.tolist()]).astype("<u8").tobytes(),
        "huffman_codes": tree.codes_bytes(),
        "tree_topology": tree.topology_bytes(),
        ROW_IDS_KEY: texts.rows.astype("<u8").tobytes(),
        "doc_start_positions": offsets[:-1].astype("<u8").tobytes(),
    }
    metadata = {key: str(number) for key, number in numbers.items()}
    # 64-bit FNV-1a hash of the rows, by which pylance resumes a killed build.
    head = b"lance-fmindex-partition-v1" + struct.pack("<Q", len(texts.rows))
    rows = texts.rows, offsets, texts.content
    metadata[FINGERPRINT] = f"{_kernels.fnv1a_rows(np.frombuffer(head, np.uint8), *rows):016x}"
    metadata |= {key: content.hex() for key, content in contents.items()}
    return pa.RecordBatch.from_arrays(columns, schema=FM_SCHEMA), metadata


def _blocks(nodes: Int64s, words: UInt64s, samples: UInt64s) -> tuple[list[pa.Array], int]:
    """Return the file's columns (nodes, then suffix array samples) and the number of node rows.

    Args:
        nodes: number of bits of each node.
        words: words of all nodes, one node after the other.
    """
    step = FM_BLOCK_BYTES // 8
    sizes = [*(-(-nodes // 64)).tolist(), len(samples)]
    bits = [*nodes.tolist(), len(samples)]
    rows: list[tuple[int, int, int, int]] = []
    offsets, at = [0], 0
    for node, (size, length) in enumerate(zip(sizes, bits, strict=True)):
        is_node = node < len(nodes)
        rank = 0
        for block, start in enumerate(range(0, size, step)):
            stop = min(size, start + step)
            rows.append((node if is_node else SAMPLES_NODE, block, rank, length))
            offsets.append(8 * (at + stop))
            if is_node:
                rank += int(np.bitwise_count(words[at + start : at + stop]).sum())
        at += size
    numbers = np.array(rows, np.uint64).reshape(-1, 4)
    content = [None, pa.py_buffer(np.array(offsets)), pa.py_buffer(np.append(words, samples))]
    blocks = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), content)
    node_ids, block_ids = (pa.array(numbers[:, column].astype(np.uint32)) for column in (0, 1))
    ranks, lengths = (pa.array(np.ascontiguousarray(numbers[:, column])) for column in (2, 3))
    num_blocks = int(np.count_nonzero(numbers[:, 0] != SAMPLES_NODE))
    return [node_ids, block_ids, blocks, ranks, lengths], num_blocks


def run_rows(batch: pa.RecordBatch, metadata: Mapping[str, str]) -> pa.RecordBatch:
    """Return a non-empty partition as rows of a run.

    The last column has the partition's metadata in the first row, and nulls in the others.
    """
    packed = b"\0".join(f"{key}={value}".encode() for key, value in metadata.items())
    marks = pa.array([packed, *[None] * (batch.num_rows - 1)], pa.binary())
    return pa.RecordBatch.from_arrays([*batch.columns, marks], schema=RUN_SCHEMA)


def with_rows(metadata: Mapping[str, str], rows: Int64s) -> dict[str, str]:
    """Return the metadata of a partition for other row addresses.

    The fingerprint is omitted: pylance only uses it to resume its own builds.
    """
    changed = {key: value for key, value in metadata.items() if key != FINGERPRINT}
    return changed | {ROW_IDS_KEY: rows.astype("<u8").tobytes().hex()}


def metadata_of(packed: bytes) -> dict[str, str]:
    """Parse the metadata of a partition from the value that `run_rows` stores."""
    pairs = (pair.decode().partition("=") for pair in packed.split(b"\0"))
    return {key: value for key, _, value in pairs}


@dataclass(frozen=True, slots=True)
class _WaveletTree:
    """Shape of the wavelet tree: the Huffman tree of the bytes of a text.

    Attributes:
        children: left and right child of each node: the number of a node, or -1 minus a symbol for
            a leaf. Nodes are numbered in preorder.
        codes: code of each symbol: its bits, and the nodes on the path from the root.
    """

    children: list[tuple[int, int]]
    codes: dict[int, tuple[int, tuple[int, ...]]]

    @classmethod
    def of(cls, counts: Int64s) -> _WaveletTree:
        # Among equal frequencies, the earlier node goes left, as in pylance.
        symbols = np.flatnonzero(counts).tolist()
        heap: list[tuple[int, int, object]] = [
            (int(counts[symbol]), at, symbol) for at, symbol in enumerate(symbols)
        ]
        heapq.heapify(heap)
        for order in range(len(symbols), 2 * len(symbols) - 1):
            low, high = heapq.heappop(heap), heapq.heappop(heap)
            heapq.heappush(heap, (low[0] + high[0], order, (low[2], high[2])))
        tree = cls([], {})
        tree._number(heap[0][2], 0, ())
        if any(len(way) > MAX_CODE for _, way in tree.codes.values()):
            raise UnsupportedError(
                f"FM index: texts whose code has symbols of more than {MAX_CODE} bits"
            )
        return tree

    def _number(self, node: object, bits: int, way: tuple[int, ...]) -> int:
        if not isinstance(node, tuple):
            assert isinstance(node, int)
            self.codes[node] = bits, way
            return -1 - node
        number = len(self.children)
        self.children.append((0, 0))
        below = (*way, number)
        zero = self._number(node[0], bits << 1, below)
        self.children[number] = zero, self._number(node[1], bits << 1 | 1, below)
        return number

    def codes_bytes(self) -> bytes:
        parts = []
        for symbol in range(256):
            bits, way = self.codes.get(symbol, (0, ()))
            parts.append(struct.pack(f"<IBH{len(way)}I", bits, len(way), len(way), *way))
        return b"".join(parts)

    def topology_bytes(self) -> bytes:
        flat = [child for pair in self.children for child in pair]
        entries = (struct.pack("<BI", child < 0, max(child, -1 - child)) for child in flat)
        return struct.pack("<I", len(self.children)) + b"".join(entries)
