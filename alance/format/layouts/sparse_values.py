"""The values of sparse pages: what is stored for which slots of the leaf.

    chunked   one value for every slot, nulls too
    zipped    one for every valid slot; a slot is found by its rank among them
    constant  all valid slots have one value
    none      all slots are null, or what they are in is
    indexed   an index for every slot, into distinct zipped values; see `sparse_indexed.py`

Source: encodings_v2_3.proto, ValuePlane; docs/format/file.md, "Sparse values".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from alance.errors import CorruptFileError
from alance.format.blocks import Block, ConstantBlock, FixedWidth
from alance.format.layouts.fullzip import ROWS, FullZipPage
from alance.format.layouts.miniblock import CHUNKS, MiniBlockPage
from alance.format.layouts.selection import spread

if TYPE_CHECKING:
    from alance.arrays import Mask
    from alance.format.layouts.base import DecodeTask, PageState
    from alance.format.layouts.sparse_layers import LayerState, Runs
    from alance.format.plans import Plan


class SlotTask(Protocol):
    """Values of some slots of a leaf, that were read."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        ...

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        """One value a slot; those of nulls are arbitrary.

        Args:
            valid: of the slots; None: all are.

        Raises:
            CorruptFileError: the bytes contradict the description.
        """
        ...


class SlotValues(Protocol):
    """How the values of a leaf's slots are stored."""

    @property
    def data_buffer(self) -> int | None:
        """The number of the buffer that has the values; None where none are stored."""
        ...

    def check(self, leaf: LayerState) -> None:
        """Compare the counts of the description with the slots.

        Raises:
            CorruptFileError: they disagree.
        """
        ...

    def load(self) -> Plan[PageState | None]:
        """Plan what is needed to find values: at most one round."""
        ...

    def read(self, state: Any, leaf: LayerState, runs: Runs) -> Plan[SlotTask]:
        """Plan the values of slots: at most one round.

        Args:
            state: what `load` gave.
        """
        ...


@dataclass(frozen=True, slots=True)
class OneValue:
    """The same value for all valid slots, or none."""

    value: Block | None  # a block of one value; None: all slots are null

    num_bytes: ClassVar[int] = 0
    data_buffer: ClassVar[None] = None

    def check(self, leaf: LayerState) -> None:
        """Values that are missing are null: slots of a null fixed-size list may be listed so."""

    def load(self) -> Plan[None]:
        return None
        yield  # a plan, though it asks for nothing

    def read(self, state: Any, leaf: LayerState, runs: Runs) -> Plan[SlotTask]:
        return self
        yield  # a plan, though it asks for nothing

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        return ConstantBlock(num_slots, self.value)


NO_VALUE = OneValue(None)


def one_value(scalar: bytes) -> OneValue:
    """The value of a constant page, of fixed width."""
    return OneValue(FixedWidth(8 * len(scalar), 1, np.frombuffer(scalar, np.uint8)))


@dataclass(frozen=True, slots=True)
class ChunkedSlots:
    """A value for every slot, in chunks."""

    data_buffer: ClassVar[int] = CHUNKS

    page: MiniBlockPage

    def check(self, leaf: LayerState) -> None:
        """The page was told the number of slots, and checks its chunks."""

    def load(self) -> Plan[PageState]:
        return (yield from self.page.load())

    def read(self, state: PageState, leaf: LayerState, runs: Runs) -> Plan[SlotTask]:
        if runs.num_slots == 0:
            return NO_VALUE
        slots = runs.slots
        if isinstance(slots, slice):
            task: DecodeTask = yield from self.page.read(state, slots.start, slots.stop)
        else:
            task = yield from self.page.take(state, slots)
        return SomeSlots(task, only_valid=False)


@dataclass(frozen=True, slots=True)
class ZippedSlots:
    """A value for every valid slot, zipped."""

    data_buffer: ClassVar[int] = ROWS

    page: FullZipPage

    def check(self, leaf: LayerState) -> None:
        if self.page.num_rows != leaf.num_valid:
            raise CorruptFileError(
                f"sparse: {self.page.num_rows} zipped values for {leaf.num_valid} valid slots"
            )

    def load(self) -> Plan[PageState]:
        return (yield from self.page.load())

    def read(self, state: PageState, leaf: LayerState, runs: Runs) -> Plan[SlotTask]:
        task = yield from read_zipped(self.page, state, valid_runs(leaf, runs))
        return NO_VALUE if task is None else SomeSlots(task, only_valid=True)


@dataclass(frozen=True, slots=True)
class SomeSlots:
    """Values of all slots, or of the valid ones."""

    task: DecodeTask
    only_valid: bool

    @property
    def num_bytes(self) -> int:
        return self.task.num_bytes

    def decode(self, valid: Mask | None, num_slots: int) -> Block:
        block = self.task.decode().values
        return spread(block, valid) if self.only_valid and valid is not None else block


def valid_runs(leaf: LayerState, runs: Runs) -> Runs:
    """The ranks of the valid slots of the runs among all valid slots."""
    return type(runs)(leaf.valid_before(runs.starts), leaf.valid_before(runs.stops))


def read_zipped(page: FullZipPage, state: PageState, rows: Runs) -> Plan[DecodeTask | None]:
    """Plan rows of a page: one round; None where there are none."""
    chosen = rows.slots
    if rows.num_slots == 0:
        return None
    if isinstance(chosen, slice):
        return (yield from page.read(state, chosen.start, chosen.stop))
    return (yield from page.take(state, chosen))
