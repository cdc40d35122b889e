"""Inner loops in C++: contiguous buffers in and out, every bound checked, no GIL held."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

# --- bitpacking.cpp ---

def unpack_blocks(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    bits: int,
    width: int,
    baseline: bool = False,
) -> npt.NDArray[np.uint8]: ...

# --- fsst.cpp ---

def decode_fsst(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    symbols: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int32] | npt.NDArray[np.int64], npt.NDArray[np.uint8], bool]: ...

# --- lz4.cpp ---

def decode_lz4(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    limits: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...

# --- strings.cpp ---

def concat_spans(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...
def gather_strings(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    indices: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32] | npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...

# --- fullzip.cpp ---

def zipped_entries(
    data: npt.NDArray[np.uint8],
    stops: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    control_bytes: int,
    bits_def: int,
    max_rep: int,
    max_def: int,
    max_visible: int,
    width: int,
    fixed: bool,
) -> tuple[
    npt.NDArray[np.uint16],
    npt.NDArray[np.uint16],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
]: ...

# --- utf8.cpp ---

def first_bad_utf8(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.uint8],
) -> int: ...

# --- jsonb.cpp ---

def jsonb_to_text(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]: ...

# --- json_find.cpp ---

# The text of the value at a path in each JSON text, and its kind: 0 nothing, 1 null, 2 boolean,
# 3 number, 4 text, 5 array, 6 object. A step takes the member of a name (where `has_name`) or the
# item of an index (-1: none, -2 - n: the n-th before the last; the least int64: all items, or what
# is no array; one more: all members). `has_name` 2: a step beside the one before. `plain`: texts
# without their quotes and escapes. `answer`: of several values 0 an array of them, 1 the first; 2
# always an array.
def json_find(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    name_ends: npt.NDArray[np.int64],
    names: npt.NDArray[np.uint8],
    indices: npt.NDArray[np.int64],
    has_name: npt.NDArray[np.uint8],
    plain: bool,
    answer: int = 0,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]: ...

# The same of JSONB values, of which those may be anything that are not `valid` (empty: all are).
def jsonb_find(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.uint8],
    name_ends: npt.NDArray[np.int64],
    names: npt.NDArray[np.uint8],
    indices: npt.NDArray[np.int64],
    has_name: npt.NDArray[np.uint8],
    plain: bool,
    answer: int = 0,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]: ...

# The numbers that texts of some kinds say, booleans as 1 and 0; 0 of nothing and of null. Then the
# first row whose text is no such number, or -1. Whole ones are rounded, half away from zero.
def json_whole(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    kinds: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], int]: ...
def json_real(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    kinds: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.float64], int]: ...

# Items of each JSON array; 0 of what is none.
def json_lengths(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]
) -> npt.NDArray[np.int64]: ...

# Whether any of the values in each JSON array is an array with an item of just this text.
def json_has(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], item: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]: ...

# --- coalesce.cpp ---

# See `format.coalesce`: spans, and which of them covers each range.
def coalesce(
    ranges: Sequence[tuple[int, int]] | npt.NDArray[np.int64], max_gap_bytes: int, max_bytes: int
) -> tuple[list[tuple[int, int]], list[int]]: ...

# --- memory.cpp ---

def blank(num_bytes: int) -> npt.NDArray[np.uint8]: ...
def release_memory(num_bytes: int) -> None: ...
def trim_memory(num_bytes: int) -> None: ...

# --- pieces.cpp ---

# What gives bytes of files while they are decoded; kernels do not know from where.
class Source: ...

# For `alance.io` alone, as the next: every other function is given bytes, and these files.
class FileSource(Source):
    def __init__(self, fds: Sequence[int], max_gap_bytes: int, patience: int = ...) -> None: ...
    @property
    def status(self) -> int: ...
    @property
    def file(self) -> int: ...
    @property
    def reads(self) -> int: ...
    @property
    def waits(self) -> int: ...

def begin_sync(fd: int) -> None: ...
def folder_keys(path: bytes, after: bytes, most: int) -> tuple[int, bytes]: ...
def sizes_now(names: Sequence[bytes], identities: Sequence[tuple[int, int]]) -> list[int]: ...
def read_pieces(
    fds: Sequence[int],
    sizes: Sequence[int],
    ends: Sequence[int],
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    max_gap_bytes: int,
    nowait: bool,
) -> tuple[int, int, npt.NDArray[np.uint8]]: ...

# --- held.cpp ---

# Bytes of a file that are in memory: buffer i holds those from `begins[i]` on.
class HeldFile:
    def __init__(self, begins: Sequence[int], buffers: Sequence[memoryview]) -> None: ...
    def add(self, begin: int, buffer: memoryview) -> None: ...
    def cut(self, start: int, stop: int) -> npt.NDArray[np.uint8]: ...
    # The buffer has the bytes of pieces, one behind the other.
    def add_pieces(
        self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], buffer: memoryview
    ) -> None: ...

class HeldSource(Source):
    def __init__(self, files: Sequence[HeldFile]) -> None: ...

def gather(
    files: Sequence[HeldFile],
    ends: Sequence[int],
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint8]: ...

# --- pages_levels.cpp ---

def mark_nulls(
    definition: npt.NDArray[np.uint16],
    closed_above: int,
    nulls: npt.NDArray[np.uint8],
    level: int,
) -> None: ...
def expand_lists(
    rep: npt.NDArray[np.uint16],
    definition: npt.NDArray[np.uint16],
    closed_above: int,
    offsets: npt.NDArray[np.int64],
    nulls: npt.NDArray[np.uint8],
    rep_level: int,
    null_level: int,
    empty_level: int,
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]: ...

# --- pages_chunks.cpp ---

def place_strings(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    total: int,
    filler: int,
) -> npt.NDArray[np.uint8]: ...

# --- pages_zip.cpp ---

def zip_fixed(
    rep: npt.NDArray[np.uint16],
    definition: npt.NDArray[np.uint16],
    num_entries: int,
    control_bytes: int,
    bits_def: int,
    max_rep: int,
    max_visible: int,
    values: npt.NDArray[np.uint8],
    width: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...
def zip_variable(
    rep: npt.NDArray[np.uint16],
    definition: npt.NDArray[np.uint16],
    num_entries: int,
    control_bytes: int,
    bits_def: int,
    max_rep: int,
    max_visible: int,
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    length_bytes: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...

# --- row_pages.cpp ---

# Gives the content of a unit of ZSTD of at most so many bytes; ValueError: there is none.
def set_zstd(decoder: Callable[[bytes, int], bytes]) -> None: ...

# --- items.cpp ---

def decode_items(
    content: bytes | memoryview, compressed: bool, strings: bool, bits: int, count: int
) -> tuple[bytes | None, bytes] | None: ...

# --- column_metadata.cpp ---

class ColumnPages(RowTable):
    def __init__(self, pages: Sequence[tuple[tuple[tuple[int, int], ...], int, bytes]]) -> None: ...
    def __len__(self) -> int: ...
    def page(self, number: int) -> tuple[tuple[tuple[int, int], ...], int, bytes]: ...
    def first_rows(self) -> bytes: ...
    @property
    def num_rows(self) -> int: ...
    # What plans in Python know of a page; None: nothing.
    def state(self, number: int) -> Any: ...
    # Gives the bytes of memory that this takes.
    def set_state(self, number: int, state: object, num_bytes: int) -> int: ...
    def chunks(self, number: int) -> ChunkTable | None: ...
    @property
    def state_bytes(self) -> int: ...
    @property
    def buffer_bytes(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...

# What is known so far; each learns for itself.
def copied_pages(columns: Sequence[ColumnPages]) -> list[ColumnPages]: ...

# (pages of each column; columns with encodings of their own that none before has)
def column_pages(
    contents: list[memoryview],
    numbers: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    file_bytes: npt.NDArray[np.int64],
    alignments: npt.NDArray[np.int64],
) -> tuple[list[ColumnPages | None], list[tuple[int, bytes]]]: ...

# --- chunk_table.cpp ---

class ChunkTable:
    @property
    def first_bytes(self) -> npt.NDArray[np.int64]: ...
    @property
    def first_values(self) -> npt.NDArray[np.int64]: ...
    @property
    def first_rows(self) -> npt.NDArray[np.int64]: ...
    @property
    def carries(self) -> npt.NDArray[np.uint8] | None: ...
    @property
    def num_bytes(self) -> int: ...

def chunk_table(
    words: bytes | memoryview,
    index: bytes | memoryview | None,
    large: bool,
    num_items: int,
    num_rows: int,
    chunk_bytes: int,
) -> ChunkTable: ...

# --- new_pages.cpp ---

class PageForm:
    def __init__(
        self,
        kind: tuple[int, int, int, int, int, bool],
        lists: tuple[int, int, int, int] | None,
        num_items: int,
        has_items: bool,
    ) -> None: ...
    @staticmethod
    def constant(
        value: bytes | None,
        maxima: tuple[int, int, int],
        null_level: int,
        reps: tuple[int, int, int] | None,
        defs: tuple[int, int, int] | None,
    ) -> PageForm: ...
    def set_layers(self, layers: int) -> None: ...
    # Values are lists of one length: how many items a value has at each depth, from the outside,
    # where it has their validity, too; else 0.
    def set_masks(self, masks: Sequence[int]) -> None: ...
    # The first buffer of values of each chunk is compressed; 0: it is not, 1: LZ4, 2: ZSTD.
    def set_scheme(self, scheme: int) -> None: ...
    def set_symbols(
        self, symbols: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint8]
    ) -> None: ...
    def set_items(self, compressed: bool, strings: bool, bits: int, count: int) -> None: ...
    def page(self, chunks: ChunkTable, start: int, size: int, num_rows: int) -> RowPage: ...

class NewPages:
    # Pages `unknown[i][1]` of `tables[unknown[i][0]]`. Table i is of a column of `files[i]`.
    def __init__(
        self,
        tables: Sequence[RowTable | None],
        unknown: Sequence[tuple[int, int]],
        files: Sequence[int],
    ) -> None: ...
    @property
    def descriptions(self) -> list[bytes]: ...
    @property
    def left(self) -> list[int]: ...
    @property
    def far(self) -> list[int]: ...
    @property
    def page(self) -> int: ...
    def spans(
        self, far: bool
    ) -> tuple[list[int], list[int], npt.NDArray[np.int64], npt.NDArray[np.int64], int]: ...
    def find(self, forms: Sequence[PageForm | None], tails: Sequence[int]) -> None: ...
    def leave(self, numbers: Sequence[int]) -> None: ...
    # Files of which more is known, and bytes of memory of that.
    def learn(self, content: memoryview, far: bool) -> list[tuple[int, int]]: ...

class RowPage:
    def __init__(
        self,
        first_rows: npt.NDArray[np.int64],
        first_bytes: npt.NDArray[np.int64],
        start: int,
        size: int,
        num_rows: int,
        values: int,
        bits: int,
        nulls: int,
        level_bits: int,
        max_level: int,
        large: bool,
        masks: Sequence[int] = (),
    ) -> None: ...
    @staticmethod
    def constant(
        num_rows: int,
        reps: tuple[int, int, int, npt.NDArray[np.uint8]],
        defs: tuple[int, int, int, npt.NDArray[np.uint8]],
        maxima: tuple[int, int, int],
        null_level: int,
        is_null: bool,
    ) -> RowPage: ...
    # Zipped rows: row i is from `ends[i]` to `ends[i + 1]` of the page's buffer. `width`: bytes of
    # a value, or, below 0, of the length in front of it; `bits`: of levels in a control word.
    @staticmethod
    def zipped(
        ends: npt.NDArray[np.int64],
        place: tuple[int, int],
        num_rows: int,
        width: int,
        bits: tuple[int, int],
        maxima: tuple[int, int, int],
        masks: Sequence[int],
        symbols: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]] | None,
        scheme: int,
    ) -> RowPage: ...
    def set_items(self, items: npt.NDArray[np.uint8], width: int, /) -> None: ...
    def set_strings_32(
        self, offsets: npt.NDArray[np.int32], items: npt.NDArray[np.uint8], /
    ) -> None: ...
    def set_strings_64(
        self, offsets: npt.NDArray[np.int64], items: npt.NDArray[np.uint8], /
    ) -> None: ...
    @property
    def chunks(self) -> ChunkTable | None: ...
    @property
    def width(self) -> int: ...

# --- place_rows.cpp ---

def place_rows(
    wanted: npt.NDArray[np.int64], firsts: npt.NDArray[np.int64]
) -> tuple[list[int], npt.NDArray[np.int64], list[int], npt.NDArray[np.int64] | None]: ...

# --- row_table.cpp ---

class RowTable:
    def __init__(self, first_rows: npt.NDArray[np.int64]) -> None: ...
    def set(self, number: int, kernel: RowPage, layers: int, start: int = 0) -> None: ...

class RowPlan:
    @property
    def is_ranges(self) -> bool: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def unknown(self) -> list[tuple[int, int]]: ...
    @property
    def num_groups(self) -> int: ...
    @property
    def column_bytes(self) -> list[int]: ...
    def fitting(
        self, trees: Sequence[int], columns: Sequence[int], widths: Sequence[int]
    ) -> list[int]: ...
    # The table of a page, and where the page begins in its file.
    def place(self, number: int, /) -> tuple[int, int]: ...
    def groups(self, column: int) -> tuple[int, int]: ...
    def pieces(
        self, first: int, last: int, /
    ) -> tuple[list[int], list[int], npt.NDArray[np.int64], npt.NDArray[np.int64], int]: ...
    def num_bytes(self, first: int, last: int, /) -> int: ...
    # Where the pieces of each file end, and these: what is not held of the plan. `files`: of each
    # table of the plan, the number of its file among those held.
    def missing(
        self, held: Sequence[HeldFile], files: Sequence[int], max_gap_bytes: int
    ) -> tuple[list[int], npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...

def plan_rows(
    columns: Sequence[Sequence[RowTable]], rows: npt.NDArray[np.int64], ends: Sequence[int]
) -> RowPlan: ...

# The spans (start, stop) of table t end at `ends[t]`. Pages that are not known are left out.
def plan_spans(
    columns: Sequence[Sequence[RowTable]], spans: Sequence[tuple[int, int]], ends: Sequence[int]
) -> RowPlan: ...

# --- row_batch.cpp ---

class RowBatch:
    def __init__(
        self,
        trees: Sequence[int],
        columns: Sequence[int],
        widths: Sequence[int],
        texts: Sequence[bool],
        order: npt.NDArray[np.int64] | None = None,
        shares: int = 1,
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> None: ...
    @property
    def address(self) -> int: ...
    def place(self, share: int = 0) -> tuple[int, int]: ...
    def decode(self, plan: RowPlan, content: memoryview) -> None: ...
    def read(self, plan: RowPlan, source: Source, share: int = 0) -> int: ...

# --- encode_bitpacking.cpp ---

def pack_blocks(
    data: npt.NDArray[np.uint8],
    counts: npt.NDArray[np.int64],
    bits: int,
    width: int,
    baseline: bool = False,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...

# --- encode_streams.cpp ---

def zip_columns(
    columns: list[npt.NDArray[np.uint8]], bits: npt.NDArray[np.int64], num_rows: int
) -> npt.NDArray[np.uint8]: ...
def zip_rows(
    columns: list[npt.NDArray[np.uint8]],
    offsets: list[npt.NDArray[np.int64]],
    wire: npt.NDArray[np.int64],
    num_rows: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...

# --- encode_lz4.cpp ---

def encode_lz4(
    data: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...

# --- encode_strings.cpp ---

def longest_string(offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> int: ...

# --- encode_pages.cpp ---

MadePage: TypeAlias = tuple[bytes, tuple[npt.NDArray[np.uint8], ...], tuple[int, ...]]
PageResult: TypeAlias = int | MadePage | tuple[bytes | None]

def encode_pages(
    inputs: Sequence[tuple[object, ...]], zstd: Callable[[bytes, int], bytes]
) -> list[PageResult]: ...
def choose_dictionary(
    values: tuple[object, ...], options: tuple[object, ...], minor: int
) -> tuple[npt.NDArray[np.uint32], *tuple[npt.NDArray[np.uint8], ...]] | None: ...

# --- container.cpp ---

class Container:
    def __init__(
        self, encodings: list[bytes], major: int, minor: int, search_bytes: int
    ) -> None: ...
    @property
    def num_bytes(self) -> int: ...
    def place(self, size: int) -> int: ...
    def add_page(
        self,
        column: int,
        url: str,
        layout: bytes,
        buffers: Sequence[npt.NDArray[np.uint8]],
        search: Sequence[int],
        num_rows: int,
        priority: int,
    ) -> list[int]: ...
    def add_buffer(self, size: int) -> int: ...
    def end(self, descriptor: bytes) -> bytes: ...

# --- zones.cpp ---

class Zones:
    def __init__(self, column: int, kind: str, zone_rows: int, max_zones: int) -> None: ...
    def add_numbers(self, data: npt.NDArray[np.uint8], valid: npt.NDArray[np.uint8]) -> None: ...
    def add_bits(
        self, data: npt.NDArray[np.uint8], count: int, valid: npt.NDArray[np.uint8]
    ) -> None: ...
    def add_texts(
        self,
        offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
        data: npt.NDArray[np.uint8],
        valid: npt.NDArray[np.uint8],
    ) -> None: ...

def statistics_buffer(columns: list[Zones], compress: Callable[[bytes], bytes]) -> bytes: ...

# --- encode_fsst.cpp ---

def learn_fsst(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    most: int,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], int, int]: ...
def encode_fsst(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    symbols: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int32] | npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...

# --- encode_distinct.cpp ---

def distinct_strings(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    most: int,
    most_bytes: int,
) -> (
    tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.int32] | npt.NDArray[np.int64],
        npt.NDArray[np.uint8],
    ]
    | None
): ...

# --- keys.cpp ---

class Keys:
    @overload
    def __init__(self, data: npt.NDArray[np.uint8], width: int) -> None: ...
    @overload
    def __init__(
        self,
        offsets: npt.NDArray[np.signedinteger[Any]],  # of 32 or 64 bits
        data: npt.NDArray[np.uint8],
    ) -> None: ...
    @staticmethod
    def beside(columns: list[Keys]) -> Keys: ...
    def split(self, widths: npt.NDArray[np.int64]) -> Keys: ...
    def hashes(self, seed: int) -> npt.NDArray[np.uint64]: ...

def joined_keys(columns: list[Keys]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...

class KeyTable:
    def __init__(self, keys: Keys, seed: int) -> None: ...
    def __len__(self) -> int: ...
    def numbers(self) -> npt.NDArray[np.uint32]: ...
    def find(self, others: Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...

# --- encode_jsonb.cpp ---

def text_to_jsonb(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    valid: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...

# --- floats.cpp ---

# The floats' bytes with one zero, 0.0, and one NaN; None where they have no others.
def canonical_floats(values: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8] | None: ...

# --- row_order.cpp ---

# Numbers in ascending order, and where they were; equal ones stay in their order.
def order_of(
    keys: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]: ...

# --- digests.cpp ---

# Of each value, `width` bytes: 16 is MD5, 28, 32, 48 and 64 are SHA-2. `baseline`: without the
# processor's instructions for SHA-256.
def digests(
    offsets: npt.NDArray[np.int64],
    content: npt.NDArray[np.uint8],
    width: int,
    baseline: bool = False,
) -> npt.NDArray[np.uint8]: ...

# Two digits a byte.
def hex_digits(content: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]: ...

# --- patterns.cpp ---

# Which texts match a LIKE pattern, 0 or 1: its byte FE stands for any text, FF for any character.
# `baseline`: without the processor's wide instructions.
def like(
    offsets: npt.NDArray[np.int64],
    content: npt.NDArray[np.uint8],
    pattern: npt.NDArray[np.uint8],
    baseline: bool = False,
) -> npt.NDArray[np.uint8]: ...

# --- distances.cpp ---

# Of each pair of texts: characters to change, add or leave out. `ends` say where the texts are.
def edit_distances(
    ends: npt.NDArray[np.int64],
    codes: npt.NDArray[np.uint32],
    other_ends: npt.NDArray[np.int64],
    other_codes: npt.NDArray[np.uint32],
) -> npt.NDArray[np.int64]: ...

# Edit distances of all prefixes of a text to another one, from those to a prefix of the other one
# and the characters that follow there.
def edit_row(
    row: npt.NDArray[np.int64],
    codes: npt.NDArray[np.uint32],
    other_codes: npt.NDArray[np.uint32],
) -> npt.NDArray[np.int64]: ...

# Of each pair of vectors of equal length three sums of float64, shape (3 * rows,): of products, of
# squares of the first ones, of squares of the others; or, `apart`, of squares of differences, shape
# (rows,). A single vector is that of each row. `there`: a byte a row, 0 for none; or no byte.
# ValueError: lengths that differ.
def vector_sums(
    ends: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32] | npt.NDArray[np.float64],
    other_ends: npt.NDArray[np.int64],
    other_values: npt.NDArray[np.float32] | npt.NDArray[np.float64],
    there: npt.NDArray[np.uint8],
    apart: bool,
) -> npt.NDArray[np.float64]: ...

# --- item_sets.cpp ---

# Places of the items of pairs of lists, and how many each pair has: of either list (kind 0), those
# of the longer one that both have (1), of the first one alone (2), each once. Items of the other
# lists are counted behind `keys`. A single list is that of each row. `there`: as above.
def item_sets(
    kind: int,
    ends: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    other_ends: npt.NDArray[np.int64],
    other_keys: npt.NDArray[np.int64],
    there: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...

# --- blake.cpp ---

# BLAKE2b (kind 0, 64 bytes a value), BLAKE2s (1) or BLAKE3 (2, 32 bytes) of values, of which
# `offsets` say where they begin and the last one ends.
def blake_digests(
    offsets: npt.NDArray[np.int64], content: npt.NDArray[np.uint8], kind: int
) -> npt.NDArray[np.uint8]: ...

# --- bloom.cpp ---

# XXH64 of values, of which `offsets` say where they begin and the last one ends.
def bloom_hashes(
    offsets: npt.NDArray[np.int64], content: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint64]: ...

# Adds values to a filter of blocks of 32 bytes, in place.
def bloom_add(hashes: npt.NDArray[np.uint64], filter: npt.NDArray[np.uint8]) -> None: ...

# Which of some filters may have one of some values: 0 or 1.
def bloom_hits(
    offsets: npt.NDArray[np.int64],
    filters: npt.NDArray[np.uint8],
    hashes: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint8]: ...

# --- row_lookup.cpp ---

# A stored roaring bitmap of 64 bits, to be asked for rows by any thread.
class RowLookup:
    def __init__(self, content: bytes) -> None: ...

# Nonzero for each row that is in `rows`, not in `without`, and of one of the fragments (ascending
# upper halves of rows); None: of any.
def rows_mask(
    ids: npt.NDArray[np.uint64],
    rows: RowLookup | None,
    without: RowLookup | None = None,
    fragments: npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.uint8]: ...

# --- masks.cpp ---

# A bit for each of `count` whole numbers of `bits` bits, from number `first` on: 1 where it is at
# most `span` above `low`, modulo its width. Bits behind the last mean nothing.
def within(
    values: npt.NDArray[np.uint8], first: int, count: int, bits: int, low: int, span: int
) -> npt.NDArray[np.uint8]: ...

# The numbers of rows, counted from the bit `first`, whose bit is 1 in `values` and, where that is
# not empty, in `valid`; ascending.
def true_rows(
    values: npt.NDArray[np.uint8], valid: npt.NDArray[np.uint8], first: int, count: int
) -> npt.NDArray[np.int64]: ...

# --- bitmaps.cpp ---

# The values of a roaring bitmap of 32 bits, ascending. ValueError for bytes that are none, for
# containers of other values than they state, and for values from `limit` on.
def bitmap_values(content: npt.NDArray[np.uint8], limit: int) -> npt.NDArray[np.int64]: ...

# The bytes of the bitmap that bytes begin with, all of it checked likewise.
def bitmap_end(content: npt.NDArray[np.uint8]) -> int: ...

# --- row_sets.cpp ---

# A stored roaring bitmap of 64 bits of rows, not negative, in any order.
def row_set(rows: npt.NDArray[np.int64]) -> bytes: ...

# The address of each row id, -1 where no run has it; `lengths` may be empty: all are 1.
def find_row_ids(
    ids: npt.NDArray[np.uint64],
    highs: npt.NDArray[np.uint64],
    bounds: npt.NDArray[np.int64],
    lows: npt.NDArray[np.uint32],
    addresses: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint32],
) -> npt.NDArray[np.int64]: ...

# --- small_file.cpp ---

class SmallFiles:
    def __init__(
        self,
        kinds: list[tuple[int, int, str, bool]],
        schema: bytes,
        column_encoding: bytes,
        page_url: str,
        major: int,
        minor: int,
        search_bytes: int,
        zone_rows: int,
        max_zones: int,
        compress: Callable[[bytes], bytes],
    ) -> None: ...
    def encode(self, batch: object, statistics: bool, page_bytes: int) -> bytes | None: ...

# --- file_tables.cpp ---

class FileTables:
    # Of whole files, set by set, of each a file of every fragment. Column c is column `columns[c]`
    # of the files of set `sets[c]`, of `num_rows` times `times[c]` rows. None: open them singly.
    @staticmethod
    def of_files(
        contents: list[memoryview],
        sets: npt.NDArray[np.int64],
        columns: npt.NDArray[np.int64],
        times: npt.NDArray[np.int64],
        num_rows: npt.NDArray[np.int64],
    ) -> FileTables | None: ...
    # `files`: of each column of each fragment the number of its file.
    @staticmethod
    def of_columns(
        columns: Sequence[ColumnPages], files: Sequence[int], num_fragments: int
    ) -> FileTables: ...
    @property
    def versions(self) -> list[tuple[int, int]]: ...  # of whole files
    @property
    def column_encodings(self) -> list[bytes]: ...
    @property
    def descriptions(self) -> list[bytes]: ...
    @property
    def files(self) -> list[int]: ...
    # The bytes of all pages of files that are not marked: where those of each file end, starts and
    # stops.
    def spans(
        self, are_here: Sequence[bool], max_gap_bytes: int
    ) -> tuple[list[int], npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
    # All rows of some columns. What the kernel does not know of them is `unknown`.
    def plan(
        self,
        columns: Sequence[int],
        forms: Sequence[PageForm | None],
        held: Sequence[HeldFile],
        num_rows: int,
    ) -> RowPlan: ...

# --- small_files.cpp ---

# Of each file what is wrong with its footer, or (major, minor, what is wrong with its tables,
# these, column metadata, the first table); tables: (of columns, of buffers, where to keep from)
def file_ends(
    tails: list[memoryview], file_bytes: npt.NDArray[np.int64]
) -> list[
    str
    | tuple[
        int,
        int,
        str | None,
        tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int] | None,
        int,
        int,
    ]
]: ...
def gather_spans(
    contents: list[memoryview],
    numbers: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint8]: ...

# --- schema_fields.cpp ---

# The top-level fields of a schema that has no others, by the message of a manifest; None: they are
# unusual.
class SchemaFields:
    def __len__(self) -> int: ...
    @property
    def key(self) -> bytes: ...
    @property
    def types(self) -> list[str]: ...
    @property
    def names(self) -> list[str]: ...
    # Which have metadata.
    @property
    def marked(self) -> list[int]: ...
    # All as one Arrow schema, without metadata; of an Arrow field for each type.
    def arrow(self, kinds: Sequence[object]) -> Any: ...
    def find(self, name: str) -> int: ...

def schema_fields(manifest: bytes) -> SchemaFields | None: ...

# --- manifest_totals.cpp ---

# Of each manifest, whose bytes end at `stops`: 1, version, whether there is a time, its seconds and
# nanoseconds, flags of readers and writers, whether there is a highest field id; and of its
# fragments their number, files, bytes of files, deletion files, deleted rows and rows. A row of 14
# numbers; the first is 0 where the manifest is to be parsed as a whole.
def manifest_totals(content: bytes, stops: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]: ...

# --- manifest_fragments.cpp ---

# The message without its fragments; these as fields of the message; of each where its field ends in
# them, the bytes of its record, its id, its physical rows, its deleted rows (0 where that is not
# told, -1 without a deletion file), the bytes of its files, and the number of its form; the forms:
# records without what differs between fragments of the same columns. None: a record of more than
# the usual fields.
def manifest_fragments(
    message: bytes,
) -> (
    tuple[
        bytes,
        bytes,
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.int64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.int32],
        list[bytes],
    ]
    | None
): ...

# Of each record, whose field ends at a stop and which has so many bytes, the first of its row ids
# and their number, where they are one range. -1: they are not, or lie elsewhere; ask the record.
def based_fragments(content: bytes, base: int | None) -> bytes: ...
def row_id_ranges(
    content: bytes, stops: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]: ...

# --- graph.cpp ---

# The links of a partition's rows, checked. `rows` on each level (`levels`: where each begins, and
# the end), `starts` of their links.
class Graph:
    def __init__(
        self,
        rows: npt.NDArray[np.uint32],
        starts: npt.NDArray[np.int32],
        links: npt.NDArray[np.uint32],
        levels: npt.NDArray[np.int64],
        entry: int,
        num_rows: int,
    ) -> None: ...
    @property
    def num_bytes(self) -> int: ...

# --- graph_rows.cpp ---

# The rows of a partition, compared with each other by what is stored of them, which is held.
class GraphRows: ...

# Vectors. By cosine one without length is at 1 from all others.
class GraphVectors(GraphRows):
    def __init__(self, values: npt.NDArray[np.uint8], type: int, dim: int, metric: int) -> None: ...

# Scaled bytes, as `encode_sq` gives them.
class GraphBytes(GraphRows):
    def __init__(
        self, codes: npt.NDArray[np.uint8], dim: int, low: float, high: float, by_product: bool
    ) -> None: ...

# Product codes, row after row, as `encode_pq` gives them, and its codebook.
class GraphProducts(GraphRows):
    def __init__(
        self,
        codes: npt.NDArray[np.uint8],
        codebook: npt.NDArray[np.float32],
        parts: int,
        bits: int,
        by_product: bool,
    ) -> None: ...

# --- graph_build.cpp ---

# Links rows one by one. `m`: links of a row above level 0, of which there are twice as many; `ef`:
# near rows of which these are chosen; `levels`: at most so many.
class GraphBuilder:
    def __init__(self, rows: GraphRows, m: int, ef: int, levels: int, seed: int) -> None: ...
    # Whether all rows are linked, after `count` more of them.
    def grow(self, count: int) -> bool: ...
    # The rows on each level, where the links of each begin, the links, how far these rows are,
    # where the levels begin, and the entry point.
    def finish(
        self,
    ) -> tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.int32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.float32],
        npt.NDArray[np.int64],
        int,
    ]: ...

# --- vectors.cpp ---

# The k nearest rows of each query so far: distances in [lower, upper), by distance, then by id.
class Nearest:
    # A query is a vector, or `width` of them, one behind the other: then rows are lists of vectors.
    # Of rows below the range so many of each query are kept besides, those that are nearest to it.
    def __init__(
        self,
        queries: npt.NDArray[np.float64],
        dim: int,
        k: int,
        lower: float,
        upper: float,
        width: int = 1,
        below: int = 0,
    ) -> None: ...
    # Of each query the number of rows; the distances and ids of all of them, nearest first.
    def result(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.uint64]]: ...
    # The same of the rows below the range, the farthest first; their distances are negated.
    def below(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.uint64]]: ...

# Adds the rows of which `mask` is not zero (an empty one: all) to the queries of these numbers:
# of those that a graph leads to, if there is one, the `ef` nearest.
def add_vectors(
    nearest: Nearest,
    numbers: npt.NDArray[np.int32],
    ids: npt.NDArray[np.uint64],
    mask: npt.NDArray[np.uint8],
    values: npt.NDArray[np.uint8],
    type: int,
    metric: int,
    baseline: bool = False,
    graph: Graph | None = None,
    ef: int = 0,
) -> None: ...

# As `add_vectors`, of rows that are lists of vectors: `ends` has that of each one's, in vectors.
# The distance of a row is the sum over the query's vectors of that of the nearest of the row;
# vectors with NaN are passed over, as are lists without others.
def add_lists(
    nearest: Nearest,
    numbers: npt.NDArray[np.int32],
    ids: npt.NDArray[np.uint64],
    mask: npt.NDArray[np.uint8],
    ends: npt.NDArray[np.int64],
    values: npt.NDArray[np.uint8],
    type: int,
    metric: int,
    baseline: bool = False,
) -> None: ...

# --- vector_products.cpp ---

# A codebook of product codes, its values as [sub][component][code], and how they are compared;
# cosine is as l2, of queries of length one. `origin`: any point near to the queries and centroids,
# as long as they are.
class ProductBook:
    def __init__(
        self,
        values: npt.NDArray[np.float32],
        origin: npt.NDArray[np.float32],
        bits: int,
        subs: int,
        is_transposed: bool,
        metric: int,
        scale: float,
    ) -> None: ...
    # What of the distance of each row of a partition no query changes; nothing by dot.
    def terms(
        self, codes: npt.NDArray[np.uint8], centroid: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]: ...
    # As `add_vectors`, of the rows of a partition and their terms.
    def add(
        self,
        nearest: Nearest,
        numbers: npt.NDArray[np.int32],
        ids: npt.NDArray[np.uint64],
        mask: npt.NDArray[np.uint8],
        codes: npt.NDArray[np.uint8],
        terms: npt.NDArray[np.float32],
        centroid: npt.NDArray[np.float32],
        graph: Graph | None = None,
        ef: int = 0,
        baseline: bool = False,
    ) -> None: ...

# --- vector_codes.cpp ---

def add_sq(
    nearest: Nearest,
    numbers: npt.NDArray[np.int32],
    ids: npt.NDArray[np.uint64],
    mask: npt.NDArray[np.uint8],
    codes: npt.NDArray[np.uint8],
    low: float,
    high: float,
    metric: int,
    scale: float,
    graph: Graph | None = None,
    ef: int = 0,
) -> None: ...

# --- vector_bits.cpp ---

def add_rabitq(
    nearest: Nearest,
    numbers: npt.NDArray[np.int32],
    ids: npt.NDArray[np.uint64],
    mask: npt.NDArray[np.uint8],
    signs: npt.NDArray[np.uint8],
    is_packed: bool,
    ex: int,
    extra: npt.NDArray[np.uint8],
    add: npt.NDArray[np.float32],
    factor: npt.NDArray[np.float32],
    centroid: npt.NDArray[np.float32],
    metric: int,
    scale: float,
    baseline: bool = False,
) -> None: ...

# --- points.cpp ---

# Vectors as float32: of length one by cosine, bit by bit by hamming; row after row.
def vector_points(
    values: npt.NDArray[np.uint8], type: int, dim: int, metric: int
) -> npt.NDArray[np.float32]: ...

# For each vector 1 where all its numbers are finite, else 0.
def whole_vectors(values: npt.NDArray[np.uint8], type: int, dim: int) -> npt.NDArray[np.uint8]: ...

# --- clusters.cpp ---

# The number of each vector's nearest centroid. `lanes`: of registers, 4, 8, 16; 0: the most.
def nearest_centroids(
    values: npt.NDArray[np.uint8],
    type: int,
    dim: int,
    metric: int,
    centroids: npt.NDArray[np.float32],
    lanes: int = 0,
) -> npt.NDArray[np.int64]: ...

# Rounds of k-means over the columns from `first` to `first + dim` of points of `stride` numbers.
# Threads may add different pieces at once; `update` ends the round, and gives its loss.
class KMeans:
    def __init__(
        self,
        points: npt.NDArray[np.float32],
        stride: int,
        first: int,
        dim: int,
        centroids: npt.NDArray[np.float32],
        by_angle: bool,
        pieces: int,
        lanes: int = 0,
    ) -> None: ...
    def add(self, piece: int) -> None: ...
    def update(self) -> float: ...
    def centroids(self) -> npt.NDArray[np.float32]: ...

# --- vector_encode.cpp ---

# Product codes, `subs` a vector; of what it is beside its centroid, where there are centroids.
def encode_pq(
    values: npt.NDArray[np.uint8],
    type: int,
    dim: int,
    metric: int,
    labels: npt.NDArray[np.int64],
    centroids: npt.NDArray[np.float32],
    codebook: npt.NDArray[np.float32],
    subs: int,
    bits: int,
) -> npt.NDArray[np.uint8]: ...
def encode_sq(
    values: npt.NDArray[np.uint8], type: int, dim: int, metric: int, low: float, high: float
) -> npt.NDArray[np.uint8]: ...

# --- vector_encode_bits.cpp ---

# Sign bits and further bits of what vectors are beside their centroids, rotated by four rounds of
# signs (1 or -1) and transforms; then the factors add, scale, error, and those of the further bits.
def encode_rabitq(
    values: npt.NDArray[np.uint8],
    type: int,
    dim: int,
    metric: int,
    labels: npt.NDArray[np.int64],
    centroids: npt.NDArray[np.float32],
    rotation: npt.NDArray[np.float32],
    ex: int,
    baseline: bool = False,
) -> tuple[
    npt.NDArray[np.uint8],
    npt.NDArray[np.uint8],
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
]: ...
def rotated(
    values: npt.NDArray[np.float64], signs: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]: ...

# --- text_split.cpp ---

# Texts split into tokens; each distinct one has a number, from 0 on. `kind`: 0 at what is neither
# letter nor digit, 1 at white space, 2 nowhere, 3 all sequences of `shortest` to `longest`
# characters. Tokens of `max_bytes` and more are left out, but count as places; 0: none are.
class TextSplitter:
    def __init__(
        self, kind: int, max_bytes: int, shortest: int, longest: int, prefix_only: bool
    ) -> None: ...
    # Of each document the number of its tokens; of all of these their numbers and places. Document
    # i has the texts from `rows[i]` to `rows[i + 1]`.
    def split(
        self,
        rows: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        data: npt.NDArray[np.uint8],
        valid: npt.NDArray[np.uint8],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
    # The distinct tokens that were not given yet, by number.
    def fresh(self) -> list[str]: ...
    def num_bytes(self) -> int: ...

# --- text_transducer.cpp ---

# A map of tokens to numbers, as a transducer; its bytes are kept, and its checksum is compared.
class Transducer:
    def __init__(self, content: npt.NDArray[np.uint8], num_tokens: int) -> None: ...
    # The numbers of tokens; -1 where there is none.
    def find(
        self, asked_offsets: npt.NDArray[np.int64], asked: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.int64]: ...
    # All tokens in order: offsets, bytes, and the numbers that they stand for.
    def tokens(
        self, num_bytes: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.uint32]]: ...

# The bytes of such a map: of tokens in order, and the numbers that they stand for.
def encode_transducer(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    numbers: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint8]: ...

# --- text_tokens.cpp ---

# The place of the first token that is not behind the one before it, by bytes; -1: all are.
def first_unordered(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> int: ...

# The places of tokens among others that are in order; -1 where there is none.
def find_tokens(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    asked_offsets: npt.NDArray[np.int64],
    asked: npt.NDArray[np.uint8],
) -> npt.NDArray[np.int64]: ...

# The places of the first `limit` tokens that begin as `token` does for `prefix` bytes, and differ
# from it by `distance` characters at most (Levenshtein).
def near_tokens(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    token: npt.NDArray[np.uint8],
    distance: int,
    prefix: int,
    limit: int,
) -> npt.NDArray[np.int64]: ...

# --- text_postings.cpp ---

# Posting lists, one after the other: documents, and how often each has the token. `tail`: 1 where
# the last block of a list is of varints.
def decode_postings(
    list_offsets: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    lengths: npt.NDArray[np.uint32],
    num_docs: int,
    block: int,
    tail: int,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...

# The positions of the tokens in all these documents, one after the other.
def decode_positions(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    list_offsets: npt.NDArray[np.int64],
    block_offsets: npt.NDArray[np.uint32],
    lengths: npt.NDArray[np.uint32],
    frequencies: npt.NDArray[np.uint32],
    block: int,
) -> npt.NDArray[np.uint32]: ...

# As of format 1: binary values in a list for each document.
def decode_positions_v1(
    list_offsets: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    frequencies: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint32]: ...

# --- text_search.cpp ---

# The documents of a token, ascending; `positions` of all in turn, or empty. It keeps its own copy,
# and what the token weighs in each document.
class PostingList:
    @property
    def num_bytes(self) -> int: ...

    # Of some documents, in any order; 0: not there.
    def frequencies_of(self, docs: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]: ...
    def __len__(self) -> int: ...

# Posting lists, one after the other, each in memory of its own. `positions` of all of them, or
# none: an empty array.
def posting_lists(
    starts: npt.NDArray[np.int64],
    docs: npt.NDArray[np.uint32],
    frequencies: npt.NDArray[np.uint32],
    positions: npt.NDArray[np.uint32],
) -> list[PostingList]: ...

# The documents that match a query, ascending, and their scores. `program` and `factors` are the
# query (`text_query.hpp`); phrases are seen as pylance sees them `of_index`, where with a slop some
# arrangements are passed by. `count`: the best alone, of equal scores those of smaller ids; 0: all.
# `mask`: which documents count; empty: all do. `is_ordered`: ids ascend. Documents with less than
# `floor` may be left out. Each token counts `times`. `only`: some documents, ascending, without the
# mask; empty: all.
def search_postings(
    lists: list[PostingList],
    weights: npt.NDArray[np.float32],
    program: npt.NDArray[np.int32],
    factors: npt.NDArray[np.float32],
    of_index: bool,
    doc_lengths: npt.NDArray[np.uint32],
    mean_length: float,
    times: float,
    mask: npt.NDArray[np.uint8],
    ids: npt.NDArray[np.uint64],
    is_ordered: bool,
    count: int,
    floor: float,
    only: npt.NDArray[np.uint32],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]: ...

# The documents of some lists, ascending, each once.
def documents_of(lists: list[PostingList]) -> npt.NDArray[np.uint32]: ...

# --- text_index.cpp ---

# Lists of binary values (list offsets, offsets, bytes), greatest scores, lengths, bounds (as the
# first), positions (offsets, bytes), and where those of each block begin (list offsets, values).
StoredLists: TypeAlias = tuple[
    tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.uint8]],
    npt.NDArray[np.float32],
    npt.NDArray[np.uint32],
    tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.uint8]],
    tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]],
    tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]],
]

# Posting lists of documents that come one after the other, numbered from 0 on.
class TextPostings:
    def __init__(self, with_positions: bool) -> None: ...
    def add(
        self,
        counts: npt.NDArray[np.int64],
        tokens: npt.NDArray[np.uint32],
        places: npt.NDArray[np.uint32],
    ) -> None: ...
    # The lists from `first` on that have about so many bytes, one at least, as of
    # `encode_postings`, and behind which they end. They are gone then, with the last their memory.
    def take(
        self,
        first: int,
        num_bytes: int,
        doc_lengths: npt.NDArray[np.uint32],
        mean_length: float,
    ) -> tuple[StoredLists, int]: ...
    # Of some tokens: where each list begins, documents, frequencies, positions.
    def lists(
        self, first: int, stop: int
    ) -> tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
    ]: ...
    def num_bytes(self) -> int: ...
    def num_tokens(self) -> int: ...

# Posting lists as they are stored.
def encode_postings(
    starts: npt.NDArray[np.int64],
    docs: npt.NDArray[np.uint32],
    frequencies: npt.NDArray[np.uint32],
    positions: npt.NDArray[np.uint32],
    with_positions: bool,
    doc_lengths: npt.NDArray[np.uint32],
    mean_length: float,
) -> StoredLists: ...

# --- fm_index.cpp ---

# Of bytes that end with their only zero: the Burrows-Wheeler transform, every `rate`th place of the
# suffix array, and how often each byte is there; shapes (n,), (n / rate,), (256,).
def burrows_wheeler(
    text: npt.NDArray[np.uint8], rate: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.int64]]: ...

# Texts one behind the other, a byte FF behind each; bytes 00 and FF inside of them are blanks.
def separated(
    offsets: npt.NDArray[np.int64], content: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]: ...

# The hash FNV-1a of 64 bits: of `head`, then of each row its number, its text's length, and that.
# `ends`: behind the separator of each text in `content`.
def fnv1a_rows(
    head: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    content: npt.NDArray[np.uint8],
) -> int: ...

# The bits of a wavelet tree, node after node. `children`: left and right of each node: a node, or
# -1 minus a symbol; shape (nodes, 2). `starts`: the first word of each node, and the number of all.
def wavelet_words(
    symbols: npt.NDArray[np.uint8],
    children: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]: ...

# An FM index in memory: `lengths` of each node in bits, `totals` of the symbols below each of 257,
# every `rate`th place of the suffix array of a text of `length` bytes. It holds the arrays.
class FmIndex:
    def __init__(
        self,
        words: npt.NDArray[np.uint64],
        children: npt.NDArray[np.int32],
        starts: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        totals: npt.NDArray[np.int64],
        samples: npt.NDArray[np.uint64],
        rate: int,
        length: int,
    ) -> None: ...

    # Of suffixes that begin with a pattern the first, and behind the last; none of an empty one.
    def find(self, pattern: npt.NDArray[np.uint8]) -> tuple[int, int]: ...
    # Where these suffixes begin in the text; shape (high - low,).
    def locate(self, low: int, high: int) -> npt.NDArray[np.int64]: ...
    # The text that the index is of.
    def text(self) -> npt.NDArray[np.uint8]: ...
    @property
    def num_bytes(self) -> int: ...

# --- ngrams.cpp ---

# The distinct characters of texts that are not ASCII, ascending.
def letters_of(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]: ...

# The sequences of three letters or digits of texts, as numbers, each once for a text; and the rows
# of their texts. Of letter i of `letters`, which ascend, the bytes from `starts[i]` on stand in its
# place; other ones that are not ASCII part words.
def ngrams(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.uint64],
    letters: npt.NDArray[np.uint32],
    starts: npt.NDArray[np.int64],
    pieces: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]: ...
