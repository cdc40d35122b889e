"""Sparse pages (2.3): structure as sets of slots, stored separately from the values.

    buffers of the values, see `planar_values.py`
    buffers of the sets, layer by layer from the outside; for a list: slots, counts, validity

The page's state has the sets, chunk words, indices and dictionary. With it, a read of rows takes
one round.

Source: encodings_v2_3.proto, SparseStructure; docs/format/file.md, "Sparse structure".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.layouts.base import Layer, PageValues
from alance.format.layouts.place import PagePlace, at_once, fetch
from alance.format.layouts.planar_values import (
    NULL_VALUE,
    ChunkedSlots,
    IndexedSlots,
    ZippedSlots,
    chunked_page,
    one_value,
    zipped_page,
)
from alance.format.layouts.sparse_layers import SlotRuns, parse_layers, structure
from alance.format.plans import together
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from alance.base.arrays import Int64s
    from alance.format.layouts.base import PageState
    from alance.format.layouts.fullzip import FullZipPage
    from alance.format.layouts.planar_values import SlotTask, SlotValues
    from alance.format.layouts.sparse_layers import LayerForm, LayerState
    from alance.format.plans import Plan
    from alance.format.proto import encodings_v2_3_pb2 as pb3

MAX_SCALAR_BYTES: Final = 32
LEAF_LAYERS: Final = [pb.REPDEF_ALL_VALID_ITEM]


@dataclass(frozen=True, slots=True)
class SparseState:
    """Sets of all layers, with the state of the values."""

    layers: tuple[LayerState, ...]  # outermost first
    values: PageState | None

    @property
    def num_bytes(self) -> int:
        values = 0 if self.values is None else self.values.num_bytes
        return 200 + values + sum(layer.num_bytes for layer in self.layers)


@dataclass(frozen=True, slots=True)
class SparsePage:
    """Page with sparse structure."""

    place: PagePlace
    layers: tuple[LayerForm, ...]  # outermost first
    multiplier: int  # product of the dimensions: `place.num_rows` is the number of rows times this
    values: SlotValues
    num_value_buffers: int

    @classmethod
    def from_proto(
        cls, message: pb3.SparseStructure, values: pb3.ValuePlane, place: PagePlace
    ) -> SparsePage:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent, or contradicts the buffers.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        layers, multiplier = parse_layers(message, place.num_rows)
        slots, num_buffers = _values(values, place, layers[-1].num_slots)
        page = cls(place, layers, multiplier, slots, num_buffers)
        stored = [buffer for buffer in page._set_buffers() if buffer is not None]
        place.need_buffers(num_buffers + len(stored), "a sparse page")
        return page

    @property
    def num_rows(self) -> int:
        return self.place.num_rows

    @property
    def data_buffer(self) -> int | None:
        """Number of the buffer with the values; None if no values are stored."""
        return self.values.data_buffer

    def load(self) -> Plan[PageState]:
        """Plan the sets and the state of the values, in one round."""
        return (yield from self._load())

    def take(self, state: PageState, rows: Int64s) -> Plan[SparseTask]:
        """Plan the values of single rows in one round; no round if these have no stored values."""
        own = rows[:: self.multiplier] // self.multiplier
        begins = np.ones(len(own), np.bool_)
        begins[1:] = own[1:] != own[:-1] + 1
        first = np.flatnonzero(begins)
        behind = np.append(first[1:], len(own)) if len(own) else first
        return (yield from self._read(state, SlotRuns(own[first], own[behind - 1] + 1)))

    def read(self, state: PageState, start: int, stop: int) -> Plan[SparseTask]:
        """Plan the values of a range of rows, in at most one round."""
        bounds = np.array([start, max(start, stop)], np.int64) // self.multiplier
        return (yield from self._read(state, SlotRuns(bounds[:1], bounds[1:])))

    def read_page(self) -> Plan[SparseTask]:
        """Plan all buffers in one round."""
        return (yield from at_once(self.place, self._load_and_read()))

    def _load_and_read(self) -> Plan[SparseTask]:
        state = yield from self._load()
        return (yield from self.read(state, 0, self.num_rows))

    def _load(self) -> Plan[SparseState]:
        plans: list[Plan[Any]] = [self._fetch_sets(), self.values.load()]
        loaded: list[Any] = yield from together(plans)
        sets, values = loaded
        contents = iter(sets)
        with self.place.checking():
            layers = tuple(layer.state(contents) for layer in self.layers)
            self.values.check(layers[-1])
        return SparseState(layers, values)

    def _read(self, state: PageState, rows: SlotRuns) -> Plan[SparseTask]:
        assert isinstance(state, SparseState)
        runs = [rows]
        for layer in state.layers[:-1]:
            runs.append(layer.below(runs[-1]))
        task = yield from self.values.read(state.values, state.layers[-1], runs[-1])
        return SparseTask(self, state, tuple(runs), task)

    def _set_buffers(self) -> list[int | None]:
        """Return the buffer number of each set; None for a set without payload."""
        buffers: list[int | None] = []
        number = self.num_value_buffers
        for layer in self.layers:
            for form in layer.sets:
                buffers.append(number if form.codec.has_payload else None)
                number += form.codec.has_payload
        return buffers

    def _fetch_sets(self) -> Plan[list[memoryview | None]]:
        numbers = self._set_buffers()
        ranges = [self.place.whole(number) for number in numbers if number is not None]
        fetched = iter((yield from fetch(ranges)))
        return [None if number is None else next(fetched) for number in numbers]


@dataclass(frozen=True, slots=True)
class SparseTask:
    """Rows of a sparse page: their slots in each layer, and the values of the leaf's slots."""

    page: SparsePage
    state: SparseState
    runs: tuple[SlotRuns, ...]  # slots of the rows, for each layer
    values: SlotTask

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the input, plus 8 bytes per run of rows."""
        return self.values.num_bytes + 8 * len(self.runs[0].starts)

    def decode(self) -> PageValues:
        """Decode the rows.

        Raises:
            CorruptFileError: the values contradict the description, or sets contradict each other.
        """
        with self.page.place.checking():
            layers = structure(self.state.layers, self.runs)
            num_slots = self.runs[-1].num_slots
            valid = self.state.layers[-1].mask(self.runs[-1])
            block = self.values.decode(valid, num_slots)
            if block.num_values != num_slots:
                raise CorruptFileError(f"sparse: {block.num_values} values in {num_slots} slots")
            num_rows = self.runs[0].num_slots * self.page.multiplier
            return PageValues((Layer.ALL_VALID_ITEM,), None, None, block, num_rows, layers)


def _values(message: pb3.ValuePlane, place: PagePlace, num_slots: int) -> tuple[SlotValues, int]:
    """Parse a description of values; return the values and their number of buffers."""
    match message.WhichOneof("codec"):
        case "chunked":
            chunked = message.chunked
            if chunked.HasField("levels") or chunked.num_items:
                raise CorruptFileError("sparse: chunks that describe levels or count items")
            own = _own_place(place, 2 + chunked.HasField("dictionary"), num_slots)
            return ChunkedSlots(chunked_page(LEAF_LAYERS, chunked, num_slots, own)), len(
                own.buffers
            )
        case "zipped":
            count = 2 if message.zipped.WhichOneof("addressing") == "bits_per_offset" else 1
            own = _own_place(place, count, message.zipped.num_items)
            return ZippedSlots(_zipped(message.zipped, own)), count
        case "constant":
            if not 0 < len(message.constant.scalar) <= MAX_SCALAR_BYTES:
                raise CorruptFileError(
                    f"sparse: a constant of {len(message.constant.scalar)} bytes, "
                    f"expected 1 to {MAX_SCALAR_BYTES}"
                )
            return one_value(message.constant.scalar), 0
        case "indexed":
            own = _own_place(place, 3, num_slots)
            items = message.indexed.items
            if items.WhichOneof("addressing") != "bits_per_offset":
                raise CorruptFileError("sparse: indexed values that are no strings")
            page = _zipped(items, PagePlace(place.path, own.buffers[1:], items.num_items))
            return IndexedSlots(own, message.indexed.indices, page), 3
    return NULL_VALUE, 0


def _own_place(place: PagePlace, count: int, num_rows: int) -> PagePlace:
    """Return a location with only the first `count` buffers of a page."""
    place.need_buffers(count, "a plane of values")
    return PagePlace(place.path, place.buffers[:count], num_rows)


def _zipped(message: pb3.ZippedValues, place: PagePlace) -> FullZipPage:
    if message.HasField("levels") or message.num_items != message.num_visible_items:
        raise CorruptFileError("sparse: zipped values that describe levels")
    return zipped_page(LEAF_LAYERS, message, place)
