"""The FM index: texts that are searched for any part of them.

Texts are cut into partitions of at most 10,000 rows or about 16 MiB: `part_N_fm.lance`, N from 0
on. The text of a partition is that of each row and a byte FF, then a byte 00; bytes 00 and FF
inside of texts are blanks. Null rows are left out. Of the Burrows-Wheeler transform of that text
there is a wavelet tree in the shape of a Huffman code, and every 32nd entry of the suffix array.

    node_id u32, block_id u32, words large_binary, prefix_rank u64, bit_len u64

has a row for each 32 KiB of bits of a node (u64 words, first bit lowest; `prefix_rank`: ones in the
blocks before; `bit_len`: bits of the node), then rows of node FFFFFFFF with u64 entries of the
suffix array. The metadata has numbers in decimals, and in hexadecimal digits:

    c_table              257 x u64: symbols below each
    tree_topology        u32 nodes; of each left and right: u8 (1: leaf), u32 node or symbol
    huffman_codes        256 x (u32 bits, u8 length, u16 steps, steps x u32 node)
    row_ids              u64 address of each row
    doc_start_positions  u64 place of each row's text

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import heapq
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.expr.tree import plain
from alance.format.numbers import as_mask, as_numbers, contents_of
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from alance.arrays import Int64s, Mask, UInt64s

VERSION: Final = 10
ENDING: Final = "_fm.lance"
PARTITION_ROWS: Final = 10_000
PARTITION_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 32 << 10  # of bits, or of entries of the suffix array, in a row
RATE: Final = 32
SAMPLES_NODE: Final = 0xFFFF_FFFF
SEPARATOR: Final = 0xFF
BLANK: Final = 0x20
MAX_NODES: Final = 255
MAX_CODE: Final = 32  # bits of a code that the format holds
PARTITION: Final = "partition"  # column of a run: metadata in the first row of a partition
SCHEMA: Final = pa.schema(
    [
        pa.field("node_id", pa.uint32(), nullable=False),
        pa.field("block_id", pa.uint32(), nullable=False),
        pa.field("words", pa.large_binary(), nullable=False),
        pa.field("prefix_rank", pa.uint64(), nullable=False),
        pa.field("bit_len", pa.uint64(), nullable=False),
    ]
)


def file_of(number: int) -> str:
    """Name of the file of a partition."""
    return f"part_{number}{ENDING}"


def number_of(name: str) -> int | None:
    """Number of the partition that a file has; None if it has none."""
    digits = name.removeprefix("part_").removesuffix(ENDING)
    is_partition = digits.isascii() and digits.isdigit() and name == f"part_{digits}{ENDING}"
    return int(digits) if is_partition else None


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A partition that can be searched.

    Attributes:
        rows: address of each row; shape (rows,), int64.
        starts: place of each row's text, ascending; shape (rows,), int64.
        index: None if there is no row.
    """

    rows: Int64s
    starts: Int64s
    index: _kernels.FmIndex | None
    length: int

    @classmethod
    def parse(cls, batch: pa.RecordBatch, metadata: Mapping[str, str]) -> Partition:
        """Parse the rows and the metadata of a file. CPU.

        Raises:
            CorruptFileError: they are not those of a partition.
        """
        try:
            return cls._parse(batch, metadata)
        except (KeyError, ValueError, struct.error) as error:
            raise CorruptFileError(f"FM index: {error!r}") from error

    @classmethod
    def _parse(cls, batch: pa.RecordBatch, metadata: Mapping[str, str]) -> Partition:
        rows, starts = (_numbers(metadata, key) for key in ("row_ids", "doc_start_positions"))
        length, num_blocks = int(metadata["bwt_len"]), int(metadata["total_wavelet_rows"])
        is_ascending = len(starts) == 0 or (starts[0] == 0 and (np.diff(starts) > 0).all())
        if len(rows) != len(starts) or not is_ascending or (rows < 0).any():
            raise ValueError(f"{len(rows)} rows, {len(starts)} places of texts, in order")
        if not length:
            if len(rows):
                raise ValueError(f"{len(rows)} rows without a text")
            return cls(rows, starts, None, 0)
        if not len(starts) or starts[-1] >= length - 1:
            raise ValueError(f"a text that begins behind {length} bytes, or none")
        if [(field.name, field.type) for field in batch.schema] != [
            (field.name, field.type) for field in SCHEMA
        ] or any(column.null_count for column in batch.columns):
            raise ValueError(f"columns {batch.schema}")
        nodes = as_numbers(batch.column(0)).astype(np.int64)
        offsets, content = contents_of(batch.column(2))
        if not 0 < num_blocks <= len(nodes) or (offsets % 8 != offsets[0] % 8).any():
            raise ValueError(f"{num_blocks} blocks of bits of {len(nodes)}")
        words = np.frombuffer(content[offsets[0] : offsets[-1]].tobytes(), np.uint64)
        places = (offsets - offsets[0]) // 8
        children = _children(bytes.fromhex(metadata["tree_topology"]))
        own = nodes[:num_blocks]
        firsts = np.searchsorted(own, np.arange(len(children)))
        is_there = firsts < len(own)
        is_there &= own[np.minimum(firsts, len(own) - 1)] == np.arange(len(children))
        if (np.diff(own) < 0).any() or not is_there.all():
            raise ValueError("blocks of other nodes than the tree has")
        lengths = as_numbers(batch.column(4)).astype(np.int64)[firsts]
        rate = int(metadata.get("sa_sample_rate", RATE))
        index = _kernels.FmIndex(
            words[: places[num_blocks]],
            children,
            places[firsts],
            lengths,
            _numbers(metadata, "c_table"),
            words[places[num_blocks] :],
            rate,
            length,
        )
        return cls(rows, starts, index, length)

    @property
    def num_bytes(self) -> int:
        """Memory, for a cache's budget."""
        return 16 * len(self.rows) + (self.index.num_bytes if self.index is not None else 0) + 2000

    def find(self, pattern: bytes) -> tuple[int, int]:
        """Find the suffixes that begin with a pattern: the first, and behind the last. CPU."""
        if self.index is None:
            return 0, 0
        return self.index.find(np.frombuffer(pattern, np.uint8))

    def rows_of(self, span: tuple[int, int]) -> Int64s:
        """Addresses of the rows in whose texts some suffixes begin. CPU.

        Raises:
            CorruptFileError: bits that lead nowhere.
        """
        if self.index is None or span[0] == span[1]:
            return self.rows[:0]
        try:
            places = self.index.locate(*span)
        except ValueError as error:
            raise CorruptFileError(f"FM index: {error}") from error
        numbers = np.searchsorted(self.starts, places, "right") - 1
        return self.rows[np.unique(numbers)]

    def texts(self, keep: Mask) -> tuple[Int64s, list[bytes]]:
        """Addresses and texts of some rows, from the index itself. CPU."""
        if self.index is None:
            return self.rows, []
        content = self.index.text()
        stops = np.append(self.starts[1:], self.length - 1) - 1
        if (content[stops] != SEPARATOR).any():
            raise CorruptFileError("FM index: texts that end elsewhere than it says")
        spans = zip(self.starts[keep].tolist(), stops[keep].tolist(), strict=True)
        return self.rows[keep], [content[start:stop].tobytes() for start, stop in spans]


def _numbers(metadata: Mapping[str, str], key: str) -> Int64s:
    return np.frombuffer(bytes.fromhex(metadata[key]), np.int64)


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
    """Cuts rows into partitions, and indexes the text of each.

    Attributes:
        null_rows: stays empty: null rows are left out.
    """

    def __init__(self) -> None:
        self.null_rows: list[Int64s] = []
        self._rows: list[int] = []
        self._texts: list[bytes] = []
        self._num_bytes = 0

    @property
    def run_schema(self) -> pa.Schema:
        """Rows of partitions, one behind the other, each with its metadata."""
        return SCHEMA.append(pa.field(PARTITION, pa.binary()))

    def add(self, values: pa.Array, addresses: pa.Array) -> list[pa.RecordBatch]:
        """Note the next rows. Return the partitions that are ready. CPU."""
        values, rows = plain(values), as_numbers(addresses).astype(np.int64)
        rows, values = rows[as_mask(values.is_valid())], values.drop_null()
        offsets, content = contents_of(values)
        start = int(offsets[0])
        content = np.array(content[start : offsets[-1]])
        content[(content == 0) | (content == SEPARATOR)] = BLANK
        whole, ends = content.tobytes(), (offsets - start).tolist()
        texts = [whole[at:end] for at, end in pairwise(ends)]
        return self.add_texts(rows, texts)

    def add_texts(self, rows: Int64s, texts: Sequence[bytes]) -> list[pa.RecordBatch]:
        """Note the next rows and their texts, which have no bytes 00 and FF."""
        ready = []
        for row, text in zip(rows.tolist(), texts, strict=True):
            self._rows.append(row)
            self._texts.append(text)
            self._num_bytes += len(text) + 1
            if len(self._rows) >= PARTITION_ROWS or self._num_bytes >= PARTITION_BYTES:
                ready.append(self._partition())
        return ready

    def finish(self) -> list[pa.RecordBatch]:
        """Return the partition that is left. CPU."""
        return [self._partition()] if self._rows else []

    def _partition(self) -> pa.RecordBatch:
        rows, texts = self._rows, self._texts
        self._rows, self._texts, self._num_bytes = [], [], 0
        return partition_rows(rows, texts)


def partition_rows(rows: Sequence[int], texts: Sequence[bytes]) -> pa.RecordBatch:
    """Build a partition: its rows, with its metadata in the first. CPU.

    Raises:
        UnsupportedError: a code of more bits than the format holds; 2 GiB of texts.
    """
    joined = b"".join(text + b"\xff" for text in texts) + (b"\x00" if texts else b"")
    length = len(joined)
    if length >> 31:
        raise UnsupportedError(f"FM index: {length} bytes of one text, at most 2 GiB")
    starts = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
    columns: list[list[object]] = [[], [], [], [], []]
    symbols = np.frombuffer(joined, np.uint8)
    counts = np.bincount(symbols, minlength=256)
    tree = _Tree.of(counts) if length else _Tree([], {})
    samples = np.empty(0, np.uint64)
    if length:
        suffixes = _kernels.suffix_array(symbols)
        transform = symbols[suffixes - 1]  # of suffix 0 the last symbol
        samples = suffixes[::RATE].astype(np.uint64)
        children = np.array(tree.children, np.int32).reshape(-1, 2)
        lengths = tree.lengths(counts)
        words_of = -(-lengths // 64)
        places = np.cumsum([0, *words_of.tolist()])
        words = _kernels.wavelet_words(transform, children, places)
        for node, bits in enumerate(lengths.tolist()):
            own = words[places[node] : places[node + 1]]
            _add_blocks(columns, node, own, bits, has_ranks=True)
    num_blocks = len(columns[0])
    _add_blocks(columns, SAMPLES_NODE, samples, len(samples), has_ranks=False)
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
        "row_ids": np.array(rows, "<u8").tobytes(),
        "doc_start_positions": starts.astype("<u8").tobytes(),
    }
    metadata = {key: str(number) for key, number in numbers.items()}
    metadata["partition_fingerprint"] = _fingerprint(rows, texts)
    metadata |= {key: content.hex() for key, content in contents.items()}
    return with_metadata(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        metadata,
    )


def with_metadata(columns: Sequence[pa.Array], metadata: Mapping[str, str]) -> pa.RecordBatch:
    """Rows of a partition as a run has them."""
    packed = b"\0".join(f"{key}={value}".encode() for key, value in metadata.items())
    num_rows = len(columns[0])
    if not num_rows:  # a partition without texts
        raise ValueError("FM index: a partition without rows")
    marks = pa.array([packed, *[None] * (num_rows - 1)], pa.binary())
    schema = SCHEMA.append(pa.field(PARTITION, pa.binary()))
    return pa.RecordBatch.from_arrays([*columns, marks], schema=schema)


def metadata_of(packed: bytes) -> dict[str, str]:
    """The metadata that the first row of a partition has in a run."""
    pairs = (pair.decode().partition("=") for pair in packed.split(b"\0"))
    return {key: value for key, _, value in pairs}


def _add_blocks(
    columns: list[list[object]], node: int, words: UInt64s, length: int, *, has_ranks: bool
) -> None:
    step, rank = BLOCK_BYTES // 8, 0
    for block, at in enumerate(range(0, len(words), step)):
        part = words[at : at + step]
        for column, value in zip(columns, (node, block, part.tobytes(), rank, length), strict=True):
            column.append(value)
        if has_ranks:
            rank += int(np.bitwise_count(part).sum())


@dataclass(frozen=True, slots=True)
class _Tree:
    """A Huffman tree.

    Attributes:
        children: left and right of each node: a node, or -1 minus a symbol; nodes before those
            below them, left ones first.
        codes: of each symbol its bits, and the nodes on its way.
    """

    children: list[tuple[int, int]]
    codes: dict[int, tuple[int, tuple[int, ...]]]

    @classmethod
    def of(cls, counts: Int64s) -> _Tree:
        # Of equal frequencies the one that came first goes left, as in pylance.
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
        left = self._number(node[0], bits << 1, below)
        self.children[number] = left, self._number(node[1], bits << 1 | 1, below)
        return number

    def lengths(self, counts: Int64s) -> Int64s:
        """Bits of each node."""
        lengths = np.zeros(len(self.children), np.int64)
        for symbol, (_, way) in self.codes.items():
            lengths[list(way)] += counts[symbol]
        return lengths

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


def _fingerprint(rows: Sequence[int], texts: Sequence[bytes]) -> str:
    """Hash of the rows, FNV-1a of 64 bits: pylance resumes a killed build by it."""
    parts = [b"lance-fmindex-partition-v1", struct.pack("<Q", len(rows))]
    for row, text in zip(rows, texts, strict=True):
        parts += [struct.pack("<QQ", row, len(text)), text]
    return f"{_kernels.fnv1a(np.frombuffer(b''.join(parts), np.uint8)):016x}"
