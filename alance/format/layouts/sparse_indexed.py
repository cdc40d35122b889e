"""Indexed values of sparse pages: an index a slot, nulls too, into distinct strings.

    buffer 0  indices, one block of u32; empty where its codec has no payload
    buffer 1  the items, each with its length in front
    buffer 2  where the items begin: num_items + 1 numbers

The indices are state, and the items where they are few bytes or many slots are read; else items
cost a round.

Source: encodings_v2_3.proto, IndexedValues; docs/format/file.md, "Sparse values".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import Block, ConstantBlock, DictionaryBlock, FixedWidth
from alance.format.codecs import block_codec
from alance.format.codecs.base import ChunkBuffers, variant
from alance.format.codecs.sequence import sequence_codec
from alance.format.layouts.miniblock_task import decode_block
from alance.format.layouts.place import fetch
from alance.format.layouts.selection import block_bytes
from alance.format.layouts.sparse_layers import Runs
from alance.format.layouts.sparse_sets import MAX_NUMBERS
from alance.format.layouts.sparse_values import NO_VALUE, SlotTask, read_zipped
from alance.format.plans import together

if TYPE_CHECKING:
    from alance.arrays import Mask, UInt32s
    from alance.format.layouts.base import DecodeTask, PageState
    from alance.format.layouts.fullzip import FullZipPage
    from alance.format.layouts.place import PagePlace
    from alance.format.layouts.sparse_layers import LayerState
    from alance.format.plans import Plan
    from alance.format.proto import encodings_v2_1_pb2 as pb


INDICES: Final = 0
ITEMS: Final = 1
MAX_KEPT_BYTES: Final = 1 << 20  # of items that are state
MANY: Final = 16  # a read of this part of the slots, or more, makes all items state
SEQUENCES: Final = frozenset(["constant", "range", "delta", "dictionary"])


@dataclass(slots=True)
class IndexedState:
    """The indices of all slots, and what is known of the items."""

    indices: UInt32s  # shape (slots,)
    page: PageState
    task: DecodeTask | None  # of all items; None: they are not kept
    _items: Block | None = field(default=None, repr=False)

    @property
    def num_bytes(self) -> int:
        """Memory that the state holds."""
        items = 0 if self.task is None else self.task.num_bytes
        if self._items is not None:
            items += block_bytes(self._items)
        return 100 + self.indices.nbytes + self.page.num_bytes + items

    def items(self, task: DecodeTask) -> Block:
        """All items, decoded when first used; two threads that do so get the same ones."""
        if self._items is None:
            self._items = task.decode().values
        return self._items


@dataclass(frozen=True, slots=True)
class IndexedSlots:
    """An index for every slot."""

    data_buffer: ClassVar[int] = ITEMS

    place: PagePlace  # its rows are the slots
    indices: pb.CompressiveEncoding
    items: FullZipPage

    def check(self, leaf: LayerState) -> None:
        """Indices are checked where their slots are valid."""
        if leaf.num_valid and self.items.num_rows == 0:
            raise CorruptFileError(f"sparse: no items for {leaf.num_valid} valid slots")

    def load(self) -> Plan[IndexedState]:
        """Plan indices, index of the items, and the items if they are few: one round."""
        keeps_items = self.items.place.num_bytes <= MAX_KEPT_BYTES
        plans: list[Plan[Any]] = [self._fetch_indices(), self.items.load()]
        if keeps_items:
            plans.append(self.items.read_page())
        loaded: list[Any] = yield from together(plans)
        indices, page, *task = loaded
        return IndexedState(self._decode(indices), page, task[0] if task else None)

    def read(self, state: IndexedState, leaf: LayerState, runs: Runs) -> Plan[SlotTask]:
        """Plan the items that slots show: one round, none where they are kept."""
        indices = state.indices[runs.slots]
        valid = leaf.mask(runs)
        if len(indices) == 0 or (valid is not None and not valid.any()):
            return NO_VALUE
        shown = indices if valid is None else indices[valid]
        if int(shown.max()) >= self.items.num_rows:
            raise self.place.corrupt(f"index {shown.max()} of {self.items.num_rows} items")
        if valid is not None:
            indices = np.where(valid, indices, 0).astype(np.uint32)
        if state.task is None and len(indices) * MANY >= self.place.num_rows:
            # A scan goes on to the next rows, which show the same items.
            state.task = yield from self.items.read_page()
        if state.task is not None:
            return IndexedTask(indices, state.task, state)
        used, back = np.unique(shown, return_inverse=True)
        renumbered = np.zeros(len(indices), np.uint32)
        renumbered[slice(None) if valid is None else valid] = back
        rows = used.astype(np.int64)
        task = yield from read_zipped(self.items, state.page, Runs(rows, rows + 1))
        assert task is not None
        return IndexedTask(renumbered, task, None)

    def _fetch_indices(self) -> Plan[memoryview]:
        (content,) = yield from fetch([self.place.whole(INDICES)])
        return content

    def _decode(self, content: memoryview) -> UInt32s:
        count = self.place.num_rows
        if count > MAX_NUMBERS:
            raise UnsupportedError(f"sparse: {count} indices, at most {MAX_NUMBERS}")
        data = np.frombuffer(content, np.uint8)
        with self.place.checking():
            if variant(self.indices) in SEQUENCES:
                codec = sequence_codec(self.indices, bits=32)
                blocks = ChunkBuffers.of_one(data, count)
                if not codec.has_payload:
                    none = blocks.starts[:0]
                    blocks = ChunkBuffers(data, none, none, blocks.counts)
                numbers = codec.decode(blocks)
                if codec.bits != 32:
                    raise CorruptFileError(f"sparse: indices of {codec.bits} bits, expected 32")
                return numbers.astype(np.uint32)
            block = decode_block(block_codec(self.indices), data, count)
        if not isinstance(block, FixedWidth) or block.bits_per_value != 32:
            raise self.place.corrupt("indices of 32 bits expected")
        return np.frombuffer(block.data.tobytes(), "<u4")


@dataclass(frozen=True, slots=True)
class IndexedTask:
    """Indices, and the items that they number."""

    indices: UInt32s
    task: DecodeTask
    keeper: IndexedState | None  # that keeps the decoded items; None: nobody

    @property
    def num_bytes(self) -> int:
        return self.indices.nbytes + self.task.num_bytes

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        items = self.task.decode().values if self.keeper is None else self.keeper.items(self.task)
        if items.num_values == 0:
            return ConstantBlock(num_slots, None)
        indices = FixedWidth(32, num_slots, self.indices.view(np.uint8))
        return DictionaryBlock(indices, items)
