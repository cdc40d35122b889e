"""Values of 2.3 pages: chunks and zipped rows of dense pages, and the values of sparse pages.

    chunked   a value for every slot, nulls included
    zipped    a value for every valid slot; its row is the rank of the slot among valid slots
    constant  all valid slots have the same value
    none      all slots are null, by themselves or by an outer layer
    indexed   an index into distinct strings for every slot, nulls included

Indexed values have three buffers. The indices are part of the page's state. The items are added to
the state if they are small, or if a read covers many slots. Otherwise, every read of items takes a
round.

    buffer 0  indices, one block of u32; empty if its codec has no payload
    buffer 1  the items, each after its length
    buffer 2  offsets of the items: num_items + 1 numbers

Source: encodings_v2_3.proto, ValuePlane and IndexedValues; docs/format/file.md, "Sparse values".
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import Block, ConstantBlock, DictionaryBlock, FixedWidth
from alance.format.codecs import block_codec
from alance.format.codecs.base import variant
from alance.format.codecs.sequence import sequence_codec
from alance.format.layouts.fullzip import ZIPPED_ROWS_BUFFER, FullZipPage
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.miniblock_chunks import CHUNKS_BUFFER
from alance.format.layouts.miniblock_task import decode_block
from alance.format.layouts.place import fetch
from alance.format.layouts.selection import block_bytes, spread
from alance.format.layouts.sparse_layers import MAX_NUMBERS, SlotRuns
from alance.format.plans import together
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from alance.base.arrays import Mask, UInt32s
    from alance.format.layouts.base import DecodeTask, PageState
    from alance.format.layouts.place import PagePlace
    from alance.format.layouts.sparse_layers import LayerState
    from alance.format.plans import Plan
    from alance.format.proto import encodings_v2_3_pb2 as pb3

    Layers = list[pb.RepDefLayer]

INDICES_BUFFER: Final = 0
ITEMS_BUFFER: Final = 1
MAX_KEPT_BYTES: Final = 1 << 20  # bytes; items up to this size are loaded with the state
# A read of at least one in this number of slots adds all items to the state.
ALL_ITEMS_DIVISOR: Final = 16
SEQUENCE_CODECS: Final = frozenset(["constant", "range", "delta", "dictionary"])
MAX_COUNT: Final = (1 << 32) - 1  # maximum entries of a zipped page


def chunked_page(
    layers: Layers, message: pb3.ChunkedValues, num_items: int, place: PagePlace
) -> MiniBlockPage:
    """Convert a description of chunked values to a mini-block page.

    Raises:
        CorruptFileError: the description is inconsistent, or contradicts the buffers.
        UnsupportedError: a codec is unknown, or not allowed here.
    """
    return MiniBlockPage.from_proto(as_mini_block(layers, message, num_items), place)


def as_mini_block(layers: Layers, message: pb3.ChunkedValues, num_items: int) -> pb.MiniBlockLayout:
    """Convert a description of chunked values to the layout of 2.1."""
    levels = message.levels
    page = pb.MiniBlockLayout(
        value_compression=message.compression,
        layers=layers,
        num_buffers=message.num_buffers,
        repetition_index_depth=levels.repetition_index_depth,
        num_items=num_items,
        num_dictionary_items=message.num_dictionary_items,
        has_large_chunk=True,
    )
    if levels.HasField("repetition"):
        page.rep_compression.CopyFrom(levels.repetition)
    if levels.HasField("definition"):
        page.def_compression.CopyFrom(levels.definition)
    if message.HasField("dictionary"):
        page.dictionary.CopyFrom(message.dictionary)
    return page


def zipped_page(layers: Layers, message: pb3.ZippedValues, place: PagePlace) -> FullZipPage:
    """Convert a description of zipped values to a full-zip page.

    Raises:
        CorruptFileError: the description is inconsistent, or contradicts the buffers.
        UnsupportedError: a codec is unknown, or not allowed here.
    """
    return FullZipPage.from_proto(as_full_zip(layers, message), place)


def as_full_zip(layers: Layers, message: pb3.ZippedValues) -> pb.FullZipLayout:
    """Convert a description of zipped values to the layout of 2.1.

    Raises:
        CorruptFileError: a number is too large.
    """
    addressing = message.WhichOneof("addressing")
    bits = 0 if addressing is None else getattr(message, addressing)
    if max(message.num_items, message.num_visible_items, bits) > MAX_COUNT:
        raise CorruptFileError(f"zipped: {message.num_items} entries of {bits} bits")
    page = pb.FullZipLayout(
        bits_rep=message.levels.bits_repetition,
        bits_def=message.levels.bits_definition,
        num_items=message.num_items,
        num_visible_items=message.num_visible_items,
        value_compression=message.compression,
        layers=layers,
    )
    if addressing is not None:
        setattr(page, addressing, bits)
    return page


class SlotTask(Protocol):
    """Bytes of the values of a leaf's slots, and how to decode them."""

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the input."""
        ...

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        """Decode a value for each slot; the values of nulls are arbitrary.

        Args:
            valid: mask of shape (num_slots,); None if all slots are valid.

        Raises:
            CorruptFileError: the bytes contradict the description.
        """
        ...


class SlotValues(Protocol):
    """Stored values of a leaf's slots, with plans that read them."""

    @property
    def data_buffer(self) -> int | None:
        """Number of the buffer with the values; None if no values are stored."""
        ...

    def check(self, leaf: LayerState) -> None:
        """Check the counts in the description against the slots.

        Raises:
            CorruptFileError: the counts disagree with the slots.
        """
        ...

    def load(self) -> Plan[PageState | None]:
        """Plan the state that locates values, in at most one round."""
        ...

    def read(self, state: Any, leaf: LayerState, runs: SlotRuns) -> Plan[SlotTask]:
        """Plan the values of slots, in at most one round.

        Args:
            state: result of `load`.
        """
        ...


@dataclass(frozen=True, slots=True)
class OneValue:
    """The same value for all valid slots, or nulls only."""

    value: Block | None  # block of one value; None if all slots are null

    num_bytes: ClassVar[int] = 0
    data_buffer: ClassVar[None] = None

    def check(self, leaf: LayerState) -> None:
        """Accept any slots: a valid slot without a value is read as null.

        Slots inside a null fixed-size list may be listed as valid.
        """

    def load(self) -> Plan[None]:
        return None
        yield  # makes the function a generator, without rounds

    def read(self, state: Any, leaf: LayerState, runs: SlotRuns) -> Plan[SlotTask]:
        return self
        yield  # makes the function a generator, without rounds

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        return ConstantBlock(num_slots, self.value)


NULL_VALUE = OneValue(None)


def one_value(scalar: bytes) -> OneValue:
    """Return values that are the same fixed-width value for all slots of a page."""
    return OneValue(FixedWidth(8 * len(scalar), 1, np.frombuffer(scalar, np.uint8)))


@dataclass(frozen=True, slots=True)
class ChunkedSlots:
    """Chunks with a value for every slot."""

    data_buffer: ClassVar[int] = CHUNKS_BUFFER

    page: MiniBlockPage

    def check(self, leaf: LayerState) -> None:
        """Accept any slots: the page was parsed with their count, and checks its chunks itself."""

    def load(self) -> Plan[PageState]:
        return (yield from self.page.load())

    def read(self, state: PageState, leaf: LayerState, runs: SlotRuns) -> Plan[SlotTask]:
        if runs.num_slots == 0:
            return NULL_VALUE
        slots = runs.slots
        if isinstance(slots, slice):
            task: DecodeTask = yield from self.page.read(state, slots.start, slots.stop)
        else:
            task = yield from self.page.take(state, slots)
        return SomeSlots(task, only_valid=False)


@dataclass(frozen=True, slots=True)
class ZippedSlots:
    """Zipped rows with a value for every valid slot."""

    data_buffer: ClassVar[int] = ZIPPED_ROWS_BUFFER

    page: FullZipPage

    def check(self, leaf: LayerState) -> None:
        if self.page.num_rows != leaf.num_valid:
            raise CorruptFileError(
                f"sparse: {self.page.num_rows} zipped values for {leaf.num_valid} valid slots"
            )

    def load(self) -> Plan[PageState]:
        return (yield from self.page.load())

    def read(self, state: PageState, leaf: LayerState, runs: SlotRuns) -> Plan[SlotTask]:
        task = yield from read_zipped(self.page, state, valid_runs(leaf, runs))
        return NULL_VALUE if task is None else SomeSlots(task, only_valid=True)


@dataclass(frozen=True, slots=True)
class SomeSlots:
    """Values that were read for all slots, or for the valid slots only."""

    task: DecodeTask
    only_valid: bool

    @property
    def num_bytes(self) -> int:
        return self.task.num_bytes

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        block = self.task.decode().values
        return spread(block, valid) if self.only_valid and valid is not None else block


def valid_runs(leaf: LayerState, runs: SlotRuns) -> SlotRuns:
    """Convert runs of slots to runs of valid slots, whose numbers count valid slots only."""
    return type(runs)(leaf.valid_before(runs.starts), leaf.valid_before(runs.stops))


def read_zipped(page: FullZipPage, state: PageState, rows: SlotRuns) -> Plan[DecodeTask | None]:
    """Plan rows of a full-zip page in one round. Returns None if there are no rows."""
    chosen = rows.slots
    if rows.num_slots == 0:
        return None
    if isinstance(chosen, slice):
        return (yield from page.read(state, chosen.start, chosen.stop))
    return (yield from page.take(state, chosen))


@dataclass(slots=True)
class IndexedState:
    """Indices of all slots; and the items, if they have been read."""

    indices: UInt32s  # shape (slots,)
    page: PageState
    task: DecodeTask | None  # decodes all items; None if the state does not have their bytes
    _items: Block | None = field(default=None, repr=False)

    @property
    def num_bytes(self) -> int:
        items = 0 if self.task is None else self.task.num_bytes
        if self._items is not None:
            items += block_bytes(self._items)
        return 100 + self.indices.nbytes + self.page.num_bytes + items

    def items(self, task: DecodeTask) -> Block:
        """Return all items; the first call decodes them.

        Two threads may decode at the same time.
        """
        if self._items is None:
            self._items = task.decode().values
        return self._items


@dataclass(frozen=True, slots=True)
class IndexedSlots:
    """Index for every slot into distinct strings."""

    data_buffer: ClassVar[int] = ITEMS_BUFFER

    place: PagePlace  # `num_rows` is the number of slots
    indices: pb.CompressiveEncoding
    items: FullZipPage

    def check(self, leaf: LayerState) -> None:
        """Check that there are items if any slot is valid; `read` checks the indices."""
        if leaf.num_valid and self.items.num_rows == 0:
            raise CorruptFileError(f"sparse: no items for {leaf.num_valid} valid slots")

    def load(self) -> Plan[IndexedState]:
        """Plan the indices, the offsets of the items, and small items, in one round."""
        keeps_items = self.items.place.num_bytes <= MAX_KEPT_BYTES
        plans: list[Plan[Any]] = [self._fetch_indices(), self.items.load()]
        if keeps_items:
            plans.append(self.items.read_page())
        loaded: list[Any] = yield from together(plans)
        indices, page, *task = loaded
        return IndexedState(self._decode(indices), page, task[0] if task else None)

    def read(self, state: IndexedState, leaf: LayerState, runs: SlotRuns) -> Plan[SlotTask]:
        """Plan the items of slots: one round, or none if the state has the items."""
        indices = state.indices[runs.slots]
        valid = leaf.mask(runs)
        if len(indices) == 0 or (valid is not None and not valid.any()):
            return NULL_VALUE
        shown = indices if valid is None else indices[valid]
        if int(shown.max()) >= self.items.num_rows:
            raise self.place.corrupt(f"index {shown.max()} of {self.items.num_rows} items")
        if valid is not None:
            indices = np.where(valid, indices, 0).astype(np.uint32)
        if state.task is None and len(indices) * ALL_ITEMS_DIVISOR >= self.place.num_rows:
            # Read all items, because the next rows of a scan need them, too.
            state.task = yield from self.items.read_page()
        if state.task is not None:
            return IndexedTask(indices, state.task, state)
        used, back = np.unique(shown, return_inverse=True)
        renumbered = np.zeros(len(indices), np.uint32)
        renumbered[slice(None) if valid is None else valid] = back
        rows = used.astype(np.int64)
        task = yield from read_zipped(self.items, state.page, SlotRuns(rows, rows + 1))
        assert task is not None
        return IndexedTask(renumbered, task, None)

    def _fetch_indices(self) -> Plan[memoryview]:
        (content,) = yield from fetch([self.place.whole(INDICES_BUFFER)])
        return content

    def _decode(self, content: memoryview) -> UInt32s:
        count = self.place.num_rows
        if count > MAX_NUMBERS:
            raise UnsupportedError(f"sparse: {count} indices, at most {MAX_NUMBERS}")
        data = np.frombuffer(content, np.uint8)
        with self.place.checking():
            if variant(self.indices) in SEQUENCE_CODECS:
                codec = sequence_codec(self.indices, bits=32)
                numbers = codec.decode(data, count)
                if codec.bits != 32:
                    raise CorruptFileError(f"sparse: indices of {codec.bits} bits, expected 32")
                return numbers.astype(np.uint32)
            block = decode_block(block_codec(self.indices), data, count)
        if not isinstance(block, FixedWidth) or block.bits_per_value != 32:
            raise self.place.corrupt("indices of 32 bits expected")
        return np.frombuffer(block.data.tobytes(), "<u4")


@dataclass(frozen=True, slots=True)
class IndexedTask:
    """Indices of slots, and the items that they refer to."""

    indices: UInt32s
    task: DecodeTask
    keeper: IndexedState | None  # caches the decoded items; None if they are not cached

    @property
    def num_bytes(self) -> int:
        return self.indices.nbytes + self.task.num_bytes

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        items = self.task.decode().values if self.keeper is None else self.keeper.items(self.task)
        if items.num_values == 0:
            return ConstantBlock(num_slots, None)
        indices = FixedWidth(32, num_slots, self.indices.view(np.uint8))
        return DictionaryBlock(indices, items)
