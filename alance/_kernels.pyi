"""Inner loops in C++: contiguous buffers in and out, every bound checked, no GIL in long loops."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_UInt16s: TypeAlias = npt.NDArray[np.uint16]
_Int32s: TypeAlias = npt.NDArray[np.int32]
_UInt32s: TypeAlias = npt.NDArray[np.uint32]
_Int64s: TypeAlias = npt.NDArray[np.int64]
_UInt64s: TypeAlias = npt.NDArray[np.uint64]
_Floats: TypeAlias = npt.NDArray[np.float32]
_Doubles: TypeAlias = npt.NDArray[np.float64]
_Offsets: TypeAlias = _Int32s | _Int64s
_Reals: TypeAlias = _Floats | _Doubles

# --- bitpacking.cpp ---

# Unpack `count` values of `bits` bits, bit-packed in blocks of 1024. `baseline`: without the
# processor's wide instructions.
def unpack_blocks(
    data: _Bytes, count: int, bits: int, width: int, baseline: bool = False
) -> _Bytes: ...

# --- fsst.cpp ---

# Decode strings from their offsets and codes: offsets, bytes, True if all bytes are ASCII.
def decode_fsst(
    offsets: _Offsets, data: _Bytes, symbols: _UInt64s, lengths: _Bytes
) -> tuple[_Offsets, _Bytes, bool]: ...

# --- lz4.cpp ---

# Content of an LZ4 unit, of at most `most` bytes.
def decode_lz4(unit: _Bytes, most: int) -> _Bytes: ...

# --- strings.cpp ---

# Concatenate values by their positions: offsets, bytes.
def concat_spans(data: _Bytes, starts: _Int64s, sizes: _Int64s) -> tuple[_Int64s, _Bytes]: ...

# --- utf8.cpp ---

# Number of the first string that is not UTF-8, or -1; `valid` has a byte a string, or none.
def first_bad_utf8(offsets: _Offsets, data: _Bytes, valid: _Bytes) -> int: ...

# --- jsonb.cpp ---

# JSON text of JSONB values; empty where `valid` is 0.
def jsonb_to_text(offsets: _Offsets, data: _Bytes, valid: _Bytes) -> tuple[_Int32s, _Bytes]: ...

# JSONB of JSON texts: offsets, bytes.
def text_to_jsonb(offsets: _Offsets, data: _Bytes, valid: _Bytes) -> tuple[_Int64s, _Bytes]: ...

# --- json_find.cpp ---

# Text of the value at a path in each JSON text, and its kind: 0 nothing, 1 null, 2 boolean, 3
# number, 4 text, 5 array, 6 object. A step takes the member of a name (if `has_name`) or the item
# of an index (-1: no item, -2 - n: the n-th before the last; the least int64: all items, or the
# value itself if it is no array; the least plus one: all members). `has_name` 2: alternative to the
# step before. `plain`: texts without quotes and escapes. `answer`: of several values 0 an array, 1
# the first; 2 always an array.
def json_find(
    offsets: _Int64s,
    data: _Bytes,
    name_ends: _Int64s,
    names: _Bytes,
    indices: _Int64s,
    has_name: _Bytes,
    plain: bool,
    answer: int = 0,
) -> tuple[_Int64s, _Bytes, _Bytes]: ...

# The same for JSONB values; values that are not `valid` may be any bytes (empty: all are valid).
def jsonb_find(
    offsets: _Int64s,
    data: _Bytes,
    valid: _Bytes,
    name_ends: _Int64s,
    names: _Bytes,
    indices: _Int64s,
    has_name: _Bytes,
    plain: bool,
    answer: int = 0,
) -> tuple[_Int64s, _Bytes, _Bytes]: ...

# Numbers in texts of some kinds, booleans as 1 and 0, nothing and null as 0; then the first row
# whose text is no such number, or -1. Integers are rounded, half away from zero.
def json_whole(offsets: _Int64s, data: _Bytes, kinds: _Bytes) -> tuple[_Int64s, int]: ...
def json_real(offsets: _Int64s, data: _Bytes, kinds: _Bytes) -> tuple[_Doubles, int]: ...

# Number of items of each JSON array; 0 for other values.
def json_lengths(offsets: _Int64s, data: _Bytes) -> _Int64s: ...

# 1 for each JSON array that has an array with an item of exactly this text.
def json_has(offsets: _Int64s, data: _Bytes, item: _Bytes) -> _Bytes: ...

# --- coalesce.cpp ---

# Spans that cover ranges, and the number of the span of each range; see `format.plans`.
def coalesce(
    ranges: Sequence[tuple[int, int]] | _Int64s, max_gap_bytes: int, max_bytes: int
) -> tuple[list[tuple[int, int]], list[int]]: ...

# --- memory.cpp ---

# Uninitialised bytes, from the block cache if they are many.
def blank(num_bytes: int) -> _Bytes: ...

# Set the limit of the block cache, and return unused memory to the system.
def release_memory(num_bytes: int) -> None: ...

# Free cached blocks until at most `num_bytes` remain; the limit stays.
def trim_memory(num_bytes: int) -> None: ...

# Error: a call would exceed the thread's allowance.
class OverAllowance(Exception): ...

# Limit the memory that calls in this thread take for their results from now on, in all; negative:
# no limit.
def set_allowance(num_bytes: int) -> None: ...

# --- pieces.cpp ---

# Source of the bytes of files while they are decoded; kernels do not know what it reads.
class Source: ...

# Files on disk. For `alance.io` alone, as are the next functions: other kernels get bytes or a
# source.
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

# Start the write-back of a file without waiting.
def begin_sync(fd: int) -> None: ...

# 0 or an error number; (name, size, last change in nanoseconds, inode) of the first `most` entries
# of a folder with names greater than `after`. A folder's name ends with `/`; only files have a
# size, others -1.
def list_folder(
    path: bytes, after: bytes, most: int
) -> tuple[int, list[tuple[str, int, int, int]]]: ...

# Text of each variable of the environment; None if it is not set.
def environment(names: Sequence[str]) -> list[str | None]: ...

# Open file: descriptor, name, device, inode. Without a name (b"") it is read whatever its name is.
_OpenFile: TypeAlias = tuple[int, bytes, int, int]

# Read ranges of a file from the page cache: status (as of `read_pieces`, also for a file system
# that cannot tell whether a read would wait), and a buffer for each range, at an address that is
# congruent to its start modulo 64.
def read_ranges(file: _OpenFile, ranges: Sequence[tuple[int, int]]) -> tuple[int, list[_Bytes]]: ...

# Read pieces of files: status (0; -1: not in the page cache and `nowait`; -2: a file is too short;
# -3: its name is that of another file; else an error number), file where it occurred, bytes. The
# pieces of file f end at `ends[f]`.
def read_pieces(
    files: Sequence[_OpenFile],
    ends: Sequence[int],
    starts: _Int64s,
    stops: _Int64s,
    max_gap_bytes: int,
    nowait: bool,
) -> tuple[int, int, _Bytes]: ...

# --- held.cpp ---

# Bytes of a file in memory: buffer i holds those from `begins[i]` on.
class HeldFile:
    def __init__(self, begins: Sequence[int], buffers: Sequence[memoryview]) -> None: ...
    # `block_bytes`: size of the memory block that the buffer is a part of.
    def add(self, begin: int, buffer: memoryview, block_bytes: int = 0) -> None: ...
    def cut(self, start: int, stop: int) -> _Bytes: ...
    # `buffer` has the bytes of the pieces, one after the other.
    def add_pieces(self, starts: _Int64s, stops: _Int64s, buffer: memoryview) -> None: ...

class HeldSource(Source):
    def __init__(self, files: Sequence[HeldFile]) -> None: ...

# Concatenate pieces of held files; the pieces of file f end at number `ends[f]`.
def gather(
    files: Sequence[HeldFile], ends: Sequence[int], starts: _Int64s, stops: _Int64s
) -> _Bytes: ...

# --- pages_levels.cpp ---

# Set `level` in the entries whose slot is null; entries above `closed_above` have no slot.
def mark_nulls(definition: _UInt16s, closed_above: int, nulls: _Bytes, level: int) -> None: ...

# Repetition and definition levels after a list layer is opened.
def expand_lists(
    rep: _UInt16s,
    definition: _UInt16s,
    closed_above: int,
    offsets: _Int64s,
    nulls: _Bytes,
    rep_level: int,
    null_level: int,
    empty_level: int,
) -> tuple[_UInt16s, _UInt16s]: ...

# --- pages_chunks.cpp ---

# Strings at `starts` of a buffer of `total` bytes, `filler` in between.
def place_strings(
    offsets: _Offsets, data: _Bytes, starts: _Int64s, total: int, filler: int
) -> _Bytes: ...

# --- column_metadata.cpp ---

class ColumnPages:
    def __init__(self, pages: Sequence[tuple[tuple[tuple[int, int], ...], int, bytes]]) -> None: ...
    # Store a page of 2.0 whose rows are values of `bits` bits in one of its buffers.
    def set_plain(self, number: int, buffer: int, bits: int) -> None: ...
    def __len__(self) -> int: ...
    def page(self, number: int) -> tuple[tuple[tuple[int, int], ...], int, bytes]: ...
    def first_rows(self) -> bytes: ...
    @property
    def num_rows(self) -> int: ...
    # Rows of the column a row of the table.
    def set_times(self, times: int) -> None: ...
    @property
    def buffer_bytes(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...

# Columns of a file that were opened. `spans`: starts and stops of the metadata of all columns.
class FileColumns:
    def __init__(self, spans: Sequence[int], file_bytes: int, alignment: int) -> None: ...
    def __len__(self) -> int: ...
    @property
    def open(self) -> list[int]: ...
    @property
    def num_bytes(self) -> int: ...
    def absent(self, columns: Sequence[int]) -> list[int]: ...
    # Metadata that begin before a byte of the file, as coalesced spans.
    def far(self, columns: Sequence[int], stop: int) -> list[tuple[int, int]]: ...
    def span(self, column: int) -> tuple[int, int]: ...
    def add(self, column: int, pages: ColumnPages) -> None: ...
    def column(self, number: int) -> ColumnPages: ...
    # A copy, which does not share page states that are loaded later.
    def copy(self) -> FileColumns: ...
    def grow(self, num_bytes: int) -> None: ...

# (number of the file, column) of each column that is left to the protobuf parser.
def open_columns(
    files: Sequence[FileColumns], columns: Sequence[Sequence[int]], held: Sequence[HeldFile]
) -> list[tuple[int, int]]: ...

# Page tables of the leaves of a fragment; `usable`: the kernel can take their rows.
class LeafTables:
    # Leaf i is column `columns[f][i]` of the last file f that has the leaf. The column has
    # `times[i]` rows for each row of the fragment.
    @overload
    def __init__(
        self,
        files: Sequence[FileColumns],
        columns: Sequence[Sequence[int | None]],
        times: Sequence[int],
    ) -> None: ...
    # Table of each leaf; or None for pages whose rows the kernel cannot take, their bytes, memory.
    @overload
    def __init__(self, tables: Sequence[tuple[ColumnPages | None, int, int]]) -> None: ...
    def __len__(self) -> int: ...
    # Numbers of the leaves that are in a file, and the number of the file of each.
    @property
    def leaves(self) -> list[int]: ...
    @property
    def files(self) -> list[int]: ...
    @property
    def placed(self) -> list[int]: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def state_bytes(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def column(self, at: int) -> ColumnPages | None: ...
    def number(self, at: int) -> int: ...
    # A copy, which does not share page states that are loaded later.
    def copy(self) -> LeafTables: ...
    # Place and rows of a leaf with another number of rows.
    def misfit(self, num_rows: int) -> tuple[int, int] | None: ...
    def row_bytes(self, num_rows: int, fixed: Sequence[float]) -> float: ...

# --- new_pages.cpp ---

# Set the decoder of ZSTD units: it returns the content, of at most so many bytes, or raises
# ValueError.
def set_zstd(decoder: Callable[[bytes, int], bytes]) -> None: ...

# Encoding, bits, start or packed width, step, True if the description has no number, compression.
_Numbers: TypeAlias = tuple[int, int, int, int, bool, int]
_Set: TypeAlias = tuple[tuple[int, _Numbers, _Numbers, int], int]

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
    # Zipped rows of any length. `width`: bytes of a value, or minus the bytes of the length before
    # it; `bits`: bits of the repetition and definition level in a control word; `strings`: symbols
    # with their lengths, and compression scheme; `members`: for each member of packed structs of
    # any length its width, its strings in the same form, its masks, and the number of its own
    # members, which follow it; `num_members`: members of the structs themselves.
    @staticmethod
    def zipped(
        width: int,
        bits: tuple[int, int],
        maxima: tuple[int, int, int],
        masks: Sequence[int],
        strings: tuple[tuple[_UInt64s, _Bytes] | None, int],
        members: Sequence[
            tuple[int, tuple[tuple[_UInt64s, _Bytes] | None, int], Sequence[int], int]
        ],
        num_members: int,
        num_items: int,
        most_index_bytes: int,
    ) -> PageForm: ...
    def ignore_buffers(self) -> None: ...
    # Layers, innermost first: the first sixteen as four bits each of `inner`, the others as bytes.
    def set_layers(self, inner: int, outer: bytes = b"") -> None: ...
    # Values, or the items of the dictionary, are fixed-size lists. `masks`: number of items of a
    # value at each depth, outermost first; 0 at a depth without validity.
    def set_masks(self, masks: Sequence[int]) -> None: ...
    # All items of fixed-size lists are null, so rows have no bytes for them.
    def set_null_items(self) -> None: ...
    # The first buffer of values of each chunk is compressed; 0: it is not, 1: LZ4, 2: ZSTD.
    def set_scheme(self, scheme: int) -> None: ...
    def set_symbols(self, symbols: _UInt64s, lengths: _Bytes) -> None: ...
    # Values are descriptions of blobs, of 16 bytes; nulls among them have levels up to this one.
    def set_blobs(self, max_level: int) -> None: ...
    # `bits`: bits of an item, or of an offset of strings; `scheme`: 1 for LZ4, 2 for ZSTD.
    def set_items(self, strings: bool, bits: int, count: int, scheme: int = 0) -> None: ...
    # The offsets of strings in chunks are a sequence: encoding, items or values, indices or
    # lengths, base or number of items.
    def set_offsets(self, offsets: tuple[int, _Numbers, _Numbers, int]) -> None: ...
    # Chunks have runs. `runs`: encodings of their values and of their lengths.
    def set_runs(self, runs: tuple[_Numbers, _Numbers]) -> None: ...
    # The pages are sparse, and this is the form of their values. `values`: 0: one for each slot, 1:
    # one for each valid slot, 2: distinct strings, to which slots have indices. `layers`: outermost
    # first, for each: True if the listed slots are valid; the listed slots; dimension; number of
    # children, or -1; slots with children; their counts. A set is a sequence and its count.
    def set_sparse(
        self,
        layers: Sequence[tuple[bool, _Set, int, int, _Set, _Set]],
        values: int,
        num_value_buffers: int,
        indices: tuple[int, _Numbers, _Numbers, int] | None,
        index_runs: tuple[_Numbers, _Numbers] | None,
    ) -> None: ...
    # Levels, or items of a dictionary, are encoded as numbers or as runs.
    def set_coded_levels(
        self, words: tuple[_Numbers | None, tuple[_Numbers, _Numbers] | None], reps: bool
    ) -> None: ...
    def set_coded_items(
        self, words: tuple[_Numbers | None, tuple[_Numbers, _Numbers] | None], count: int
    ) -> None: ...

class NewPages:
    # Pages `unknown[i][1]` of `tables[unknown[i][0]]`. Table i is of a column of `files[i]`.
    @overload
    def __init__(
        self,
        tables: Sequence[ColumnPages | None],
        unknown: Sequence[tuple[int, int]],
        files: Sequence[int],
    ) -> None: ...
    # All unknown pages of some leaves of a fragment, which count as pages of file 0.
    @overload
    def __init__(self, fragment: LeafTables, leaves: Sequence[int]) -> None: ...
    @property
    def descriptions(self) -> list[bytes]: ...
    # Number of the first page with this description.
    def described_by(self, description: int) -> int: ...
    # Pages that are not learned, and the bytes that they need.
    @property
    def missing(self) -> list[int]: ...
    def spans(self) -> tuple[list[int], list[int], _Int64s, _Int64s, int]: ...
    @property
    def page(self) -> int: ...
    def find(self, forms: Sequence[PageForm]) -> None: ...
    # Number of bytes that are needed to learn a page.
    def num_bytes(self, number: int) -> int: ...
    # Ranges (start, stop) that probably hold rows of a missing page.
    def guess(self, number: int, rows: _Int64s) -> list[tuple[int, int]]: ...
    # Missing pages inside of ascending spans of rows, of at most `most_bytes` bytes each.
    def small(self, spans: Sequence[tuple[int, int]], most_bytes: int) -> list[int]: ...
    # Ranges (file, start, stop) of the other bytes of pages, which learning does not need.
    def rest(
        self, numbers: Sequence[int], max_gap_bytes: int, max_bytes: int
    ) -> list[tuple[int, int, int]]: ...
    # Learn all missing pages whose needed bytes are held; (file, bytes of memory) for each file
    # with learned pages.
    def learn(self, files: Sequence[HeldFile]) -> list[tuple[int, int]]: ...
    # The same for all missing pages, from the concatenated bytes of the latest `spans`.
    def learn_read(self, content: memoryview) -> list[tuple[int, int]]: ...

# --- row_lookup.cpp ---

# Locate rows of a table: fragments that are hit, rows in them, their offsets, positions of the
# targets; see `row_lookup.cpp`.
def place_rows(
    targets: _Int64s, firsts: _Int64s
) -> tuple[list[int], _Int64s, list[int], _Int64s | None]: ...

# Stored roaring bitmap of 64 bits, for look-ups by any thread.
class RowLookup:
    def __init__(self, content: bytes) -> None: ...

# Nonzero for each row that is in `rows`, not in `without`, and in one of the fragments (ascending
# upper halves of rows); None restricts nothing.
def rows_mask(
    ids: _UInt64s,
    rows: RowLookup | None,
    without: RowLookup | None = None,
    fragments: _Int64s | None = None,
) -> _Bytes: ...

# The address of each row id, -1 where no run has it; `lengths` may be empty: all are 1.
def find_row_ids(
    ids: _UInt64s,
    highs: _UInt64s,
    bounds: _Int64s,
    lows: _UInt32s,
    addresses: _UInt64s,
    lengths: _UInt32s,
) -> _Int64s: ...

# --- row_table.cpp ---

class RowPlan:
    @property
    def is_ranges(self) -> bool: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def unknown(self) -> list[tuple[int, int]]: ...
    # Rows of a page of `unknown`, counted from the page's first row.
    def unknown_rows(self, number: int) -> _Int64s: ...
    @property
    def num_groups(self) -> int: ...
    # True if entries of pages' indices must be read; then the rows are planned again.
    @property
    def lacks_places(self) -> bool: ...
    @property
    def column_bytes(self) -> list[int]: ...
    # First page whose values do not fit its field: leaf, a part with the page, and what is wrong.
    # None if all pages fit.
    def misfit(
        self,
        trees: Sequence[int],
        columns: Sequence[int],
        widths: Sequence[int],
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> tuple[int, int, str] | None: ...
    # The table of the page of a part, and where the page begins in its file.
    def place(self, number: int, /) -> tuple[int, int]: ...
    def groups(self, column: int) -> tuple[int, int]: ...
    def pieces(
        self, first: int, last: int, /
    ) -> tuple[list[int], list[int], _Int64s, _Int64s, int]: ...
    def num_bytes(self, first: int, last: int, /) -> int: ...
    # Pieces of the plan that are not held, or with `places` the index entries that it lacks: the
    # end of each file's pieces, starts, stops. `files`: for each table of the plan, the number of
    # its file in `held`.
    def missing(
        self,
        held: Sequence[HeldFile],
        files: Sequence[int],
        max_gap_bytes: int,
        places: bool = False,
    ) -> tuple[list[int], _Int64s, _Int64s]: ...

# The rows of fragment f end at `ends[f]`. The plan has a table for each leaf of each fragment.
# `held`: held bytes of the file of each table, or none. `is_partial`: also plan the rows of known
# pages that follow an unknown page.
def plan_rows(
    fragments: Sequence[LeafTables],
    leaves: Sequence[int],
    rows: _Int64s,
    ends: Sequence[int],
    held: Sequence[HeldFile] = (),
    is_partial: bool = False,
) -> RowPlan: ...

# The spans (start, stop) of fragment f end at `ends[f]`. Pages that are not known are left out.
def plan_spans(
    fragments: Sequence[LeafTables],
    leaves: Sequence[int],
    spans: Sequence[tuple[int, int]],
    ends: Sequence[int],
    held: Sequence[HeldFile] = (),
) -> RowPlan: ...

# Join the tables of fragments, as if these were one fragment in one file. `begins`: for each leaf
# of each fragment, leaf by leaf, where its file begins in the joined file.
def joined_tables(fragments: Sequence[LeafTables], begins: Sequence[int]) -> LeafTables: ...

# Ranges (file, start, stop) of the pages of joined tables that are not held, coalesced. `begins`:
# start of each file, ascending.
def page_spans(
    tables: LeafTables, begins: Sequence[int], held: HeldFile, max_gap_bytes: int
) -> list[tuple[int, int, int]]: ...

# --- row_batch.cpp ---

class RowBatch:
    def __init__(
        self,
        trees: Sequence[int],
        columns: Sequence[int],
        widths: Sequence[int],
        texts: Sequence[bool],
        order: _Int64s | None = None,
        shares: int = 1,
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def num_probes(self) -> int: ...
    def place(self, share: int = 0) -> tuple[int, int]: ...
    def decode(self, plan: RowPlan, content: memoryview) -> None: ...
    def read(self, plan: RowPlan, source: Source, share: int = 0) -> int: ...

# --- encode_bitpacking.cpp ---

# Bit-pack `count` values as one chunk, in blocks of 1024 values.
def pack_blocks(
    data: _Bytes, count: int, bits: int, width: int, baseline: bool = False
) -> _Bytes: ...

# --- encode_streams.cpp ---

# Zip fixed-width columns into rows.
def zip_columns(columns: list[_Bytes], bits: _Int64s, num_rows: int) -> _Bytes: ...

# --- encode_lz4.cpp ---

# LZ4 unit of bytes.
def encode_lz4(data: _Bytes) -> _Bytes: ...

# --- encode_pages.cpp ---

NewPage: TypeAlias = tuple[bytes, tuple[_Bytes, ...], tuple[int, ...]]
PageResult: TypeAlias = int | NewPage | tuple[bytes | None]

# Encode pages, in order: description, buffers and numbers of the buffers in the search cache;
# (value or None,) of a sparse constant; or the number of the reason why there is no page. Buffers
# may be views of the inputs.
def encode_pages(
    inputs: Sequence[tuple[object, ...]], zstd: Callable[[bytes, int], bytes]
) -> list[PageResult]: ...

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
        buffers: Sequence[_Bytes],
        search: Sequence[int],
        num_rows: int,
        priority: int,
    ) -> list[int]: ...
    def add_buffer(self, size: int) -> int: ...
    def end(self, descriptor: bytes) -> bytes: ...

# --- zones.cpp ---

class Zones:
    def __init__(self, column: int, kind: str, zone_rows: int, max_zones: int) -> None: ...
    # Add the next rows: values as in the inputs of `encode_pages`; a byte a row, None: all valid.
    def add(self, values: tuple[object, ...], valid: _Bytes | None = None) -> None: ...

# Statistics buffer of a file; empty if no column has zones.
def statistics_buffer(columns: list[Zones], compress: Callable[[bytes, int], bytes]) -> bytes: ...

# --- encode_fsst.cpp ---

# Learn FSST symbols from a sample of about `most` bytes: symbols, lengths, bytes before, bytes
# after.
def learn_fsst(offsets: _Offsets, data: _Bytes, most: int) -> tuple[_UInt64s, _Bytes, int, int]: ...

# Encode strings by FSST symbols: offsets, codes.
def encode_fsst(
    offsets: _Offsets, data: _Bytes, symbols: _UInt64s, lengths: _Bytes
) -> tuple[_Offsets, _Bytes]: ...

# --- encode_distinct.cpp ---

# Index of each string, offsets and bytes of the distinct strings; None if there are too many.
def distinct_strings(
    offsets: _Offsets, data: _Bytes, most: int, most_bytes: int
) -> tuple[_UInt32s, _Offsets, _Bytes] | None: ...

# --- keys.cpp ---

# Keys of rows: the values of one column, or of several columns `beside` each other.
class Keys:
    @overload
    def __init__(self, data: _Bytes, width: int) -> None: ...
    @overload
    def __init__(
        self,
        offsets: npt.NDArray[np.signedinteger[Any]],  # of 32 or 64 bits
        data: _Bytes,
    ) -> None: ...
    @staticmethod
    def beside(columns: list[Keys]) -> Keys: ...
    def hashes(self, seed: int) -> _UInt64s: ...

# Values of all columns in a row as one value: offsets, bytes.
def joined_keys(columns: list[Keys]) -> tuple[_Int64s, _Bytes]: ...

# Hash table of keys; equal keys have one number.
class KeyTable:
    def __init__(self, keys: Keys, seed: int) -> None: ...
    def __len__(self) -> int: ...
    def numbers(self) -> _UInt32s: ...
    def find(self, others: Keys) -> tuple[_Int64s, _Int64s]: ...
    # A bit for each key, LSB first: 1 if the table has it.
    def contains(self, others: Keys) -> _Bytes: ...

# --- floats.cpp ---

# Bytes of floats with one zero, 0.0, and one NaN; None if they are canonical already.
def canonical_floats(values: _Bytes, bits: int) -> _Bytes | None: ...

# --- row_order.cpp ---

# Numbers in ascending order, and their positions before; equal numbers stay in their order.
def order_of(keys: _UInt64s) -> tuple[_UInt64s, _UInt32s]: ...

# --- digests.cpp ---

# Digests of values by a method: MD5 (0, 16 bytes a value), SHA-224 (1, 28), SHA-256 (2, 32),
# SHA-384 (3, 48), SHA-512 (4, 64), BLAKE2b (5, 64), BLAKE2s (6, 32) or BLAKE3 (7, 32). `baseline`:
# without the processor's instructions for SHA-256.
def digests(offsets: _Int64s, content: _Bytes, method: int, baseline: bool = False) -> _Bytes: ...

# --- patterns.cpp ---

# 1 for each text that matches a LIKE pattern: byte FE stands for any text, FF for any character.
# `baseline`: without the processor's wide instructions.
def like(offsets: _Int64s, content: _Bytes, pattern: _Bytes, baseline: bool = False) -> _Bytes: ...

# --- pairs.cpp ---

# Edit distance of each pair of texts; text i lies between `ends[i]` and `ends[i + 1]`.
def edit_distances(
    ends: _Int64s, codes: _UInt32s, other_ends: _Int64s, other_codes: _UInt32s
) -> _Int64s: ...

# Edit distances of all prefixes of a text to another text, from those to a prefix of the other text
# (`row`) and the characters that follow it.
def edit_row(row: _Int64s, codes: _UInt32s, other_codes: _UInt32s) -> _Int64s: ...

# Three sums over each pair of vectors of equal length, float64, shape (3 * rows,): of products, of
# squares of the first, of squares of the second; or, `apart`, of squared differences, shape
# (rows,). A single vector stands for every row. `present`: a byte a row, 0 to skip it; or no byte.
# ValueError: lengths differ.
def vector_sums(
    ends: _Int64s,
    values: _Reals,
    other_ends: _Int64s,
    other_values: _Reals,
    present: _Bytes,
    apart: bool,
) -> _Doubles: ...

# Positions of items in a set operation of pairs of lists, and their number for each pair: of either
# list (kind 0), of the longer list that both have (1), of the first list alone (2), without
# repetition. Items of the other lists are numbered behind `keys`. A single list stands for every
# row. `present`: as above.
def item_sets(
    kind: int,
    ends: _Int64s,
    keys: _Int64s,
    other_ends: _Int64s,
    other_keys: _Int64s,
    present: _Bytes,
) -> tuple[_Int64s, _Int64s]: ...

# --- bloom.cpp ---

# XXH64 of values; value i lies between `offsets[i]` and `offsets[i + 1]`.
def bloom_hashes(offsets: _Int64s, content: _Bytes) -> _UInt64s: ...

# Add values to a filter of blocks of 32 bytes, in place.
def bloom_add(hashes: _UInt64s, filter: _Bytes) -> None: ...

# 1 for each filter that may have any of the values, else 0.
def bloom_hits(offsets: _Int64s, filters: _Bytes, hashes: _UInt64s) -> _Bytes: ...

# --- masks.cpp ---

# Bit for each of `count` integers of `bits` bits, from number `first` on: 1 if it is at most `span`
# above `low`, modulo its width. Bits behind the last are undefined.
def within(values: _Bytes, first: int, count: int, bits: int, low: int, span: int) -> _Bytes: ...

# Numbers of the rows, counted from bit `first`, whose bit is 1 in `values` and, unless it is empty,
# in `valid`; ascending.
def true_rows(values: _Bytes, valid: _Bytes, first: int, count: int) -> _Int64s: ...

# --- bitmaps.cpp ---

# Values of a roaring bitmap of 32 bits, ascending. ValueError for bytes without a bitmap, for
# containers that do not hold what they state, and for values from `limit` on.
def bitmap_values(content: _Bytes, limit: int) -> _Int64s: ...

# Number of bytes of the bitmap at the beginning of bytes, all of it checked likewise.
def bitmap_end(content: _Bytes) -> int: ...

# The bitmaps of a row set of an index, checked likewise: upper half of the rows, place, size. A
# size of 0 stands for all rows.
def address_parts(content: _Bytes) -> list[tuple[int, int, int]]: ...

# Stored roaring bitmap of 64 bits of rows, not negative, in any order.
def row_set(rows: _Int64s) -> bytes: ...

# The same rows as indices store them: the bitmap of each upper half is behind its size.
def address_set(rows: _Int64s) -> bytes: ...

# A stored roaring bitmap of values of 32 bits, in any order.
def roaring_bitmap(values: _Int64s) -> bytes: ...

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
        compress: Callable[[bytes, int], bytes],
        frame: Callable[[bytes, int], bytes],
    ) -> None: ...
    def encode(self, batch: object, statistics: bool, page_bytes: int) -> bytes | None: ...

# --- file_ends.cpp ---

# Fault of each file's footer, or (major, minor, fault of its tables, the tables, start of the
# column metadata, start of the first table); tables: (of columns, of buffers, position to keep
# from).
def file_ends(
    tails: list[memoryview], file_bytes: _Int64s
) -> list[str | tuple[int, int, str | None, tuple[FileColumns, _Int64s, int] | None, int, int]]: ...

# Tables of fragments whose files are completely in memory, as if they were one fragment in one
# file, in which file i begins at `begins[i]`. Files are ordered by set; a set has a file of each
# fragment. `owners`: set and column of each leaf. `times`: for each leaf, rows of its column per
# row. None: the files must be opened one by one.
def whole_tables(
    contents: list[memoryview],
    begins: Sequence[int],
    owners: Sequence[tuple[int, int]],
    times: Sequence[int],
    num_rows: Sequence[int],
) -> LeafTables | None: ...

# --- schema_fields.cpp ---

# Top-level fields of a schema without other fields, from the message of a manifest; None if they
# are unusual.
class SchemaFields:
    def __len__(self) -> int: ...
    @property
    def key(self) -> bytes: ...
    @property
    def types(self) -> list[str]: ...
    # Numbers of the fields that have metadata.
    @property
    def marked(self) -> list[int]: ...
    # All fields as one Arrow schema, without metadata; `kinds` has an Arrow field for each type.
    def arrow(self, kinds: Sequence[object]) -> Any: ...
    def find(self, name: str) -> int: ...

def schema_fields(manifest: bytes) -> SchemaFields | None: ...

# --- manifest_fragments.cpp ---

# 14 numbers for each manifest, whose bytes end at `stops`: 1 (0: parse the manifest as a whole),
# version, 1 if there is a time, its seconds and nanoseconds, flags of readers and writers, 1 if
# there is a highest field id; number of fragments, of files, bytes of files, deletion files,
# deleted rows, rows.
def manifest_totals(content: bytes, stops: _Int64s) -> _Int64s: ...

# The message without its fragments; True unless a record has fields that few have; the fragments as
# fields of the message; for each fragment the end of its field, the bytes of its record, id,
# physical rows, deleted rows (0: not recorded, -1: no deletion file), bytes of its files, number of
# its form, first row id and number of row ids if they are one range (-1: they are not); the forms:
# records without what differs between fragments of the same columns. None: the message is damaged.
def manifest_fragments(
    message: bytes,
) -> (
    tuple[
        *tuple[bytes, bool, bytes, _Int64s, _Int64s, _UInt64s, _UInt64s, _Int64s, _UInt64s],
        *tuple[_Int32s, _UInt64s, _Int64s, list[bytes]],
    ]
    | None
): ...

# Records of fragments with base path `base` in all files that have none; None: without base paths.
def based_fragments(content: bytes, base: int | None) -> bytes: ...

# --- graph.cpp ---

# Checked links of a partition's rows. `rows` on each level, `starts` of their links; `levels`:
# start of each level in `rows`, and the end.
class Graph:
    def __init__(
        self,
        rows: _UInt32s,
        starts: _Int32s,
        links: _UInt32s,
        levels: _Int64s,
        entry: int,
        num_rows: int,
    ) -> None: ...
    @property
    def num_bytes(self) -> int: ...

# --- graph_build.cpp ---

# Rows of a partition, compared with each other by what is stored of them, which is held.
class GraphRows: ...

# Uncompressed vectors. By cosine a vector of length 0 is at distance 1 from all others.
class GraphVectors(GraphRows):
    def __init__(self, values: _Bytes, type: int, dim: int, metric: int) -> None: ...

# Scaled bytes, row after row.
class GraphBytes(GraphRows):
    def __init__(
        self, codes: _Bytes, dim: int, low: float, high: float, by_product: bool
    ) -> None: ...

# Product codes, row after row, as `encode_pq` returns them, and the distances of their values.
class GraphProducts(GraphRows):
    def __init__(self, codes: _Bytes, distances: _Floats, parts: int, bits: int) -> None: ...

# Distances between the values of a codebook: [sub][code][other code]; by product they add up to 1 -
# product.
def code_distances(codebook: _Floats, parts: int, bits: int, by_product: bool) -> _Floats: ...

# Builder of a graph, row by row. `m`: links of a row above level 0, where it has twice as many;
# `ef`: near rows from which links are chosen; `levels`: most levels.
class GraphBuilder:
    def __init__(self, rows: GraphRows, m: int, ef: int, levels: int, seed: int) -> None: ...
    # Link `count` more rows; True if all rows are linked.
    def grow(self, count: int) -> bool: ...
    # Rows on each level, starts of their links, links, distances of the linked rows, starts of the
    # levels, entry point.
    def finish(self) -> tuple[_UInt32s, _Int32s, _UInt32s, _Floats, _Int64s, int]: ...

# --- vectors.cpp ---

# The k nearest rows of each query so far, with distances in [lower, upper); by distance, then by
# id.
class Nearest:
    # A query is a vector, or `width` vectors, one after the other: then rows are lists of vectors.
    # Of the rows below the range, the `below` farthest of each query are kept as well.
    def __init__(
        self,
        queries: _Doubles,
        dim: int,
        k: int,
        lower: float,
        upper: float,
        width: int = 1,
        below: int = 0,
    ) -> None: ...
    # Number of rows of each query; distances and ids of all rows, nearest first.
    def result(self) -> tuple[_Int64s, _Floats, _UInt64s]: ...
    # The same for the rows below the range, farthest first, with negated distances.
    def below(self) -> tuple[_Int64s, _Floats, _UInt64s]: ...

# Add the rows whose `mask` is not zero (empty: all rows) to the queries of these numbers; with a
# graph, the `ef` nearest rows that it leads to. With `lists`, rows are lists of vectors with these
# offsets. The distance of a row is then the sum, over the query's vectors, of the distance of the
# nearest vector in the row; vectors with NaN are skipped, and so are lists without others.
def add_vectors(
    nearest: Nearest,
    numbers: _Int32s,
    ids: _UInt64s,
    mask: _Bytes,
    values: _Bytes,
    type: int,
    metric: int,
    lists: _Int64s | None = None,
    baseline: bool = False,
    graph: Graph | None = None,
    ef: int = 0,
) -> None: ...

# --- vector_products.cpp ---

# Codebook of product codes, its values as [sub][component][code], and their comparison; cosine is
# as l2, with queries of length one. `origin`: any point near the queries and centroids, of their
# dimension.
class ProductBook:
    def __init__(
        self,
        values: _Floats,
        origin: _Floats,
        bits: int,
        subs: int,
        is_transposed: bool,
        metric: int,
        scale: float,
    ) -> None: ...
    # Part of the distance of each row that does not depend on the query; empty by dot.
    def terms(self, codes: _Bytes, centroid: _Floats) -> _Floats: ...
    # `add_vectors` for the rows of a partition and their terms.
    def add(
        self,
        nearest: Nearest,
        numbers: _Int32s,
        ids: _UInt64s,
        mask: _Bytes,
        codes: _Bytes,
        terms: _Floats,
        centroid: _Floats,
        graph: Graph | None = None,
        ef: int = 0,
        baseline: bool = False,
    ) -> None: ...

# --- vector_codes.cpp ---

# `add_vectors` for scaled bytes.
def add_sq(
    nearest: Nearest,
    numbers: _Int32s,
    ids: _UInt64s,
    mask: _Bytes,
    codes: _Bytes,
    low: float,
    high: float,
    metric: int,
    scale: float,
    graph: Graph | None = None,
    ef: int = 0,
) -> None: ...

# `add_vectors` for RaBitQ codes, without a graph.
def add_rabitq(
    nearest: Nearest,
    numbers: _Int32s,
    ids: _UInt64s,
    mask: _Bytes,
    signs: _Bytes,
    is_packed: bool,
    ex: int,
    extra: _Bytes,
    add: _Floats,
    factor: _Floats,
    centroid: _Floats,
    metric: int,
    scale: float,
    baseline: bool = False,
) -> None: ...

# --- clusters.cpp ---

# Vectors as float32: of length one by cosine, bit by bit by hamming; row after row.
def vector_points(values: _Bytes, type: int, dim: int, metric: int) -> _Floats: ...

# Number of each vector's nearest centroid. `lanes`: floats in a register, 4, 8 or 16; 0: the most.
def nearest_centroids(
    values: _Bytes, type: int, dim: int, metric: int, centroids: _Floats, lanes: int = 0
) -> _Int64s: ...

# Rounds of k-means over the columns from `first` to `first + dim` of points of `stride` numbers.
# Threads may add different pieces at once; `update` ends the round and returns its loss.
class KMeans:
    def __init__(
        self,
        points: _Floats,
        stride: int,
        first: int,
        dim: int,
        centroids: _Floats,
        by_angle: bool,
        pieces: int,
        lanes: int = 0,
    ) -> None: ...
    def add(self, piece: int) -> None: ...
    def update(self) -> float: ...
    def centroids(self) -> _Floats: ...

# --- vector_encode.cpp ---

# Product codes, `subs` a vector; with centroids, of the residuals.
def encode_pq(
    values: _Bytes,
    type: int,
    dim: int,
    metric: int,
    labels: _Int64s,
    centroids: _Floats,
    codebook: _Floats,
    subs: int,
    bits: int,
) -> _Bytes: ...

# Sign bits and further bits of residuals, rotated by four rounds of signs (1 or -1) and transforms;
# then the factors add, scale, error, and the factors add and scale of the further bits.
def encode_rabitq(
    values: _Bytes,
    type: int,
    dim: int,
    metric: int,
    labels: _Int64s,
    centroids: _Floats,
    rotation: _Floats,
    ex: int,
    baseline: bool = False,
) -> tuple[_Bytes, _Bytes, _Floats, _Floats, _Floats, _Floats, _Floats]: ...

# Vectors after four rounds of signs and transforms.
def rotated(values: _Doubles, signs: _Doubles) -> _Doubles: ...

# --- text_split.cpp ---

# Splitter of texts into tokens, which numbers distinct tokens from 0 on. `kind`: 0 at characters
# that are neither letter nor digit, 1 at white space, 2 nowhere, 3 all sequences of `shortest` to
# `longest` characters. Tokens of at least `max_bytes` bytes are left out, but count as positions;
# 0: no limit.
class TextSplitter:
    def __init__(
        self, kind: int, max_bytes: int, shortest: int, longest: int, prefix_only: bool
    ) -> None: ...
    # Number of tokens of each document; numbers and positions of all tokens. Document i has the
    # texts from `rows[i]` to `rows[i + 1]`.
    def split(
        self, rows: _Int64s, offsets: _Int64s, data: _Bytes, valid: _Bytes
    ) -> tuple[_Int64s, _UInt32s, _UInt32s]: ...
    # Distinct tokens that were not returned before, by number.
    def fresh(self) -> list[str]: ...
    def num_bytes(self) -> int: ...

# Distinct characters of texts that are not ASCII, ascending.
def letters_of(data: _Bytes) -> _UInt32s: ...

# Sequences of three letters or digits of texts, as numbers, without repetition in a text; and the
# rows of their texts. Letter i of `letters`, which ascend, is replaced by the bytes from
# `starts[i]` on; other characters that are not ASCII separate words.
def ngrams(
    offsets: _Int64s,
    data: _Bytes,
    rows: _UInt64s,
    letters: _UInt32s,
    starts: _Int64s,
    pieces: _Bytes,
) -> tuple[_UInt32s, _UInt64s]: ...

# --- text_transducer.cpp ---

# Map of tokens to numbers, as a transducer; holds its bytes and checks their checksum.
class Transducer:
    def __init__(self, content: _Bytes, num_tokens: int) -> None: ...
    # Number of each token; -1 if there is none.
    def find(self, query_offsets: _Int64s, query_data: _Bytes) -> _Int64s: ...
    # All tokens in order: offsets, bytes, numbers.
    def tokens(self, num_bytes: int) -> tuple[_Int64s, _Bytes, _UInt32s]: ...

# Bytes of such a map, from tokens in order and their numbers.
def encode_transducer(offsets: _Int64s, data: _Bytes, numbers: _UInt32s) -> _Bytes: ...

# --- text_tokens.cpp ---

# Number of the first token that is not greater than the one before it, by bytes; -1 if all ascend.
def first_unordered(offsets: _Int64s, data: _Bytes) -> int: ...

# Positions of the first `limit` tokens that begin as `token` does for `prefix` bytes, and differ
# from it by at most `distance` characters (Levenshtein).
def near_tokens(
    offsets: _Int64s, data: _Bytes, token: _Bytes, distance: int, prefix: int, limit: int
) -> _Int64s: ...

# --- text_postings.cpp ---

# Posting lists, one after the other: documents, and the token's frequency in each. `tail` 1: the
# last block of a list is of varints.
def decode_postings(
    list_offsets: _Int64s,
    offsets: _Int64s,
    data: _Bytes,
    lengths: _UInt32s,
    num_docs: int,
    block: int,
    tail: int,
) -> tuple[_UInt32s, _UInt32s]: ...

# Positions of the tokens in all these documents, one after the other.
def decode_positions(
    offsets: _Int64s,
    data: _Bytes,
    list_offsets: _Int64s,
    block_offsets: _UInt32s,
    lengths: _UInt32s,
    frequencies: _UInt32s,
    block: int,
) -> _UInt32s: ...

# The same of format 1: binary values in a list for each document.
def decode_positions_v1(
    list_offsets: _Int64s, offsets: _Int64s, data: _Bytes, frequencies: _UInt32s
) -> _UInt32s: ...

# --- text_search.cpp ---

# Documents of a token, ascending; positions of all documents in turn, or none. Holds its own copy,
# and the token's weight in each document.
class PostingList:
    @property
    def num_bytes(self) -> int: ...

    # Frequency in some documents, in any order; 0 if a document lacks the token.
    def frequencies_of(self, docs: _Int64s) -> _UInt32s: ...
    def __len__(self) -> int: ...

# Posting lists, each in memory of its own. `positions` of all lists in turn, or empty.
def posting_lists(
    starts: _Int64s, docs: _UInt32s, frequencies: _UInt32s, positions: _UInt32s
) -> list[PostingList]: ...

# Documents that match a query, ascending, and their scores. `program` and `factors` are the query
# (text_query.hpp). `of_index`: phrases match as in pylance's indices, which miss some arrangements
# with a slop. `count`: number of best documents, of equal scores those of smaller ids; 0: all.
# `mask`: documents that count; empty: all. `is_ordered`: ids ascend. Documents with less than
# `floor` may be left out. Each token counts `times`. `only`: some documents, ascending, regardless
# of the mask; empty: all.
def search_postings(
    lists: list[PostingList],
    weights: _Floats,
    program: _Int32s,
    factors: _Floats,
    of_index: bool,
    doc_lengths: _UInt32s,
    mean_length: float,
    times: float,
    mask: _Bytes,
    ids: _UInt64s,
    is_ordered: bool,
    count: int,
    floor: float,
    only: _UInt32s,
) -> tuple[_UInt32s, _Floats]: ...

# Documents of some lists, ascending, without repetition.
def documents_of(lists: list[PostingList]) -> _UInt32s: ...

# --- text_index.cpp ---

# Posting lists of documents that come in order, numbered from 0 on.
class TextPostings:
    def __init__(self, with_positions: bool) -> None: ...
    def add(self, counts: _Int64s, tokens: _UInt32s, places: _UInt32s) -> None: ...
    # Lists of some tokens: start of each list, documents, frequencies, positions. The lists after
    # the first `num_bytes` bytes are left out, but for the first list.
    def lists(
        self, first: int, stop: int, num_bytes: int = ...
    ) -> tuple[_Int64s, _UInt32s, _UInt32s, _UInt32s]: ...
    def num_bytes(self) -> int: ...
    def num_tokens(self) -> int: ...

# Posting lists as stored: blocks (list offsets, offsets, bytes), greatest scores, lengths, bounds
# (as the blocks), positions (offsets, bytes), starts of each block's positions (list offsets,
# values).
def encode_postings(
    starts: _Int64s,
    docs: _UInt32s,
    frequencies: _UInt32s,
    positions: _UInt32s,
    with_positions: bool,
    doc_lengths: _UInt32s,
    mean_length: float,
) -> tuple[
    tuple[_Int32s, _Int64s, _Bytes],
    _Floats,
    _UInt32s,
    tuple[_Int32s, _Int64s, _Bytes],
    tuple[_Int64s, _Bytes],
    tuple[_Int32s, _UInt32s],
]: ...

# --- fm_index.cpp ---

# Burrows-Wheeler transform of bytes that end with their only zero, every `rate`th entry of the
# suffix array, and the count of each byte; shapes (n,), (n / rate,), (256,).
def burrows_wheeler(text: _Bytes, rate: int) -> tuple[_Bytes, _UInt64s, _Int64s]: ...

# Texts, each followed by a byte FF; bytes 00 and FF inside of texts become blanks.
def separated(offsets: _Int64s, content: _Bytes) -> _Bytes: ...

# Hash FNV-1a of 64 bits: of `head`, then of each row its number, the length of its text, and the
# text. Each text in `content` has a separator behind it.
def fnv1a_rows(head: _Bytes, rows: _Int64s, offsets: _Int64s, content: _Bytes) -> int: ...

# Words of a wavelet tree, node after node, and the bits of each node. `children`: left and right of
# each node: a node, or -1 minus a symbol; shape (nodes, 2).
def wavelet_words(symbols: _Bytes, children: _Int32s) -> tuple[_UInt64s, _Int64s]: ...

# FM index in memory: `lengths` of the nodes in bits, `totals` of the symbols below each of 257,
# every `rate`th entry of the suffix array of a text of `length` bytes. Holds the arrays.
class FmIndex:
    def __init__(
        self,
        words: _UInt64s,
        children: _Int32s,
        starts: _Int64s,
        lengths: _Int64s,
        totals: _Int64s,
        samples: _UInt64s,
        rate: int,
        length: int,
    ) -> None: ...

    # Range of the suffixes that begin with a pattern, [first, stop); (0, 0) for an empty pattern.
    def find(self, pattern: _Bytes) -> tuple[int, int]: ...
    # Positions of these suffixes in the text; shape (high - low,).
    def locate(self, low: int, high: int) -> _Int64s: ...
    # The indexed text.
    def text(self) -> _Bytes: ...
    @property
    def num_bytes(self) -> int: ...
