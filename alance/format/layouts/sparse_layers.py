"""Structure of sparse pages, layer by layer from the rows to the leaf.

A layer has slots 0 to n - 1, and a set of either its null slots or its valid slots. The slots of
the first layer are the rows.

    validity          the next layer has the same slots
    list              the slots with children, and the number of children of each; other slots are
                      empty or null; the slots of the next layer are the children
    fixed-size list   the next layer has `dimension` times as many slots

The last layer is the validity of the leaf. To read rows, runs of slots are translated from layer to
layer. Slots and counts of children are sets of numbers, explicit or equally spaced. A set has one
buffer, or none if its codec has no payload.

Source: encodings_v2_3.proto, SparseStructuralLayer, SparseValiditySet and SparseListLayer;
docs/format/file.md, "Sparse structure".
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from alance.base.records import dataclass
from alance.errors import BatchTooLargeError, CorruptFileError, UnsupportedError
from alance.format.codecs.sequence import Arithmetic, sequence_codec
from alance.format.layouts.repdef import Items, Lists
from alance.format.layouts.selection import selection_of_spans
from alance.format.numbers import offsets_of
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.format.codecs.sequence import SequenceCodec
    from alance.format.layouts.repdef import Structure
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_SLOTS: Final = 1 << 48  # slots of a page; sums of slots still fit into 64 bits
MAX_READ_SLOTS: Final = 1 << 28  # maximum slots to decode at once
VALID: Final = pb3.SparseValiditySet.VALID_POSITIONS
MEANINGS: Final = (pb3.SparseValiditySet.NULL_POSITIONS, VALID)
MAX_NUMBERS: Final = 1 << 27  # maximum numbers of a set in memory: 1 GiB


class Numbers(Protocol):
    """Ascending numbers; the n-th number has the ordinal n."""

    @property
    def count(self) -> int: ...

    @property
    def num_bytes(self) -> int:
        """Memory of the numbers in bytes."""
        ...

    def at(self, ordinals: Int64s) -> Int64s:
        """Return the numbers with these ordinals, which must be below `count`."""
        ...

    def rank(self, bounds: Int64s) -> Int64s:
        """Count the numbers below each bound. There must be no duplicates among the numbers."""
        ...


@dataclass(frozen=True, slots=True)
class Explicit:
    """Numbers stored in an array."""

    numbers: Int64s

    @property
    def count(self) -> int:
        return len(self.numbers)

    @property
    def num_bytes(self) -> int:
        return self.numbers.nbytes

    def at(self, ordinals: Int64s) -> Int64s:
        return self.numbers[ordinals]

    def rank(self, bounds: Int64s) -> Int64s:
        return np.searchsorted(self.numbers, bounds)


@dataclass(frozen=True, slots=True)
class Regular:
    """Equally spaced numbers start + step * i, which take no memory."""

    start: int
    step: int  # 1 or more
    count: int

    @property
    def num_bytes(self) -> int:
        return 0

    def at(self, ordinals: Int64s) -> Int64s:
        return self.start + self.step * ordinals

    def rank(self, bounds: Int64s) -> Int64s:
        below = (bounds - self.start + self.step - 1) // self.step
        return np.clip(below, 0, self.count)


@dataclass(frozen=True, slots=True)
class SetForm:
    """Stored form of a set of numbers."""

    codec: SequenceCodec
    count: int

    @classmethod
    def from_proto(cls, encoding: pb.CompressiveEncoding, count: int) -> SetForm:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent.
            UnsupportedError: the codec is unknown, the numbers do not have 64 bits, or there are
                too many to decode.
        """
        codec = sequence_codec(encoding)
        if codec.bits != 64:
            raise UnsupportedError(f"sparse: a set of numbers of {codec.bits} bits, expected 64")
        if isinstance(codec, Arithmetic):
            codec.check(count)
        elif count > MAX_NUMBERS:
            raise UnsupportedError(f"sparse: a set of {count} numbers, at most {MAX_NUMBERS}")
        return cls(codec, count)

    def positions(self, content: memoryview | None, num_slots: int) -> Numbers:
        """Decode slot numbers, and check that they ascend and are below `num_slots`.

        Raises:
            CorruptFileError: the numbers fail this check, or the bytes contradict the description.
        """
        if isinstance(self.codec, Arithmetic):
            start, step = self.codec.start, self.codec.step
            if self.count == 0:
                return Regular(0, 1, 0)
            if self.count > 1 and step == 0:
                raise CorruptFileError(f"sparse: slot {start} listed {self.count} times")
            if (last := start + step * (self.count - 1)) >= num_slots:
                raise CorruptFileError(f"sparse: slot {last} of {num_slots}")
            return Regular(start, step if self.count > 1 else 1, self.count)
        numbers = self._decode(content)
        if len(numbers) and (
            numbers[0] < 0 or numbers[-1] >= num_slots or (numbers[1:] <= numbers[:-1]).any()
        ):
            raise CorruptFileError(f"sparse: slots that do not ascend from 0 to below {num_slots}")
        return Explicit(numbers)

    def ends(self, content: memoryview | None, total: int) -> Numbers:
        """Decode positive counts as running sums, which begin with 0 and end with `total`.

        Raises:
            CorruptFileError: a count is 0, the sum is not `total`, or the bytes contradict the
                description.
            UnsupportedError: the set has too many numbers.
        """
        if isinstance(self.codec, Arithmetic) and self.codec.step == 0:
            if self.count * self.codec.start != total or (self.count and self.codec.start == 0):
                raise CorruptFileError(
                    f"sparse: {self.count} lists of {self.codec.start} items, in all {total}"
                )
            return Regular(0, max(self.codec.start, 1), self.count + 1)
        if self.count > MAX_NUMBERS:
            raise UnsupportedError(f"sparse: a set of {self.count} numbers, at most {MAX_NUMBERS}")
        numbers = self._decode(content)
        # The first sum above 63 bits overflows, so it is smaller than the sum before.
        sums = offsets_of(numbers)
        if sums[-1] != total or (sums[1:] <= sums[:-1]).any():
            raise CorruptFileError(f"sparse: lists of {sums[-1]} items, expected {total}")
        return Explicit(sums)

    def _decode(self, content: memoryview | None) -> Int64s:
        data = np.frombuffer(content if content is not None else b"", np.uint8)
        return self.codec.decode(data, self.count)


@dataclass(frozen=True, slots=True)
class SlotRuns:
    """Runs of consecutive slots of a layer; r runs, ascending and not adjacent."""

    starts: Int64s  # shape (r,)
    stops: Int64s  # shape (r,), exclusive

    @property
    def num_slots(self) -> int:
        return int((self.stops - self.starts).sum())

    @property
    def slots(self) -> slice | Int64s:
        """All slots of the runs: a slice if they are consecutive, else an array."""
        return selection_of_spans(self.starts, self.stops)


@dataclass(frozen=True, slots=True)
class LayerForm:
    """Parsed description of a layer."""

    num_slots: int
    means_valid: bool  # True if the listed slots are valid, False if they are null
    listed: SetForm
    dimension: int = 1
    num_children: int = 0  # number of children of all lists
    non_empty: SetForm | None = None  # slots that have children; None if the layer is not a list
    counts: SetForm | None = None  # number of children of each slot in `non_empty`

    @property
    def sets(self) -> list[SetForm]:
        """Sets of the layer, in the order of their buffers."""
        lists = [form for form in (self.non_empty, self.counts) if form is not None]
        return [*lists, self.listed]

    def state(self, contents: Iterator[memoryview | None]) -> LayerState:
        """Decode the sets of the layer.

        Args:
            contents: buffers of the sets, in the order of `sets`; None for a set without payload.

        Raises:
            CorruptFileError: the sets contradict the description or each other.
        """
        non_empty = ends = None
        if self.non_empty is not None and self.counts is not None:
            non_empty = self.non_empty.positions(next(contents), self.num_slots)
            ends = self.counts.ends(next(contents), self.num_children)
        listed = self.listed.positions(next(contents), self.num_slots)
        return LayerState(self, listed, non_empty, ends)


@dataclass(frozen=True, slots=True)
class LayerState:
    """Layer with its decoded sets."""

    form: LayerForm
    listed: Numbers
    non_empty: Numbers | None  # slots that have children; None if the layer is not a list
    ends: Numbers | None  # number of children before each slot in `non_empty`, then the total

    @property
    def num_bytes(self) -> int:
        """Memory of the sets in bytes."""
        sets = (self.listed, self.non_empty, self.ends)
        return sum(numbers.num_bytes for numbers in sets if numbers is not None)

    @property
    def num_valid(self) -> int:
        """Number of slots that are not null."""
        return self.listed.count if self.form.means_valid else self._num_slots - self.listed.count

    @property
    def _num_slots(self) -> int:
        return self.form.num_slots

    def valid_before(self, slots: Int64s) -> Int64s:
        """Return the number of valid slots before each slot."""
        ranks = self.listed.rank(slots)
        return ranks if self.form.means_valid else slots - ranks

    def below(self, runs: SlotRuns) -> SlotRuns:
        """Translate slots of this layer to the slots of the next layer."""
        if self.non_empty is None or self.ends is None:
            return SlotRuns(runs.starts * self.form.dimension, runs.stops * self.form.dimension)
        starts = self.ends.at(self.non_empty.rank(runs.starts))
        return SlotRuns(starts, self.ends.at(self.non_empty.rank(runs.stops)))

    def mask(self, runs: SlotRuns) -> Mask | None:
        """Return the validity mask of slots; None if all are valid."""
        if self.num_valid == self._num_slots:
            return None
        valid = np.full(_checked(runs.num_slots), not self.form.means_valid, np.bool_)
        _, places = _in_slots(self.listed, runs)
        valid[places] = self.form.means_valid
        return None if valid.all() else valid

    def read(self, runs: SlotRuns) -> Items | Lists:
        """Return the structure of slots.

        Raises:
            BatchTooLargeError: there are too many slots for one read.
            CorruptFileError: a null list has items.
        """
        num_slots, valid = _checked(runs.num_slots), self.mask(runs)
        if self.non_empty is None or self.ends is None:
            return Items(num_slots, valid)
        ordinals, places = _in_slots(self.non_empty, runs)
        if valid is not None and not valid[places].all():
            raise CorruptFileError("sparse: a null list has items")
        sizes = np.zeros(num_slots, np.int64)
        sizes[places] = self.ends.at(ordinals + 1) - self.ends.at(ordinals)
        offsets = offsets_of(sizes)
        return Lists(offsets, valid)


def parse_layers(
    message: pb3.SparseStructure, page_length: int
) -> tuple[tuple[LayerForm, ...], int]:
    """Parse the layers of a page, outermost first. Also returns the product of all dimensions.

    Raises:
        CorruptFileError: the description is inconsistent, or contradicts the length of the page.
        UnsupportedError: a layer or codec is unknown, or not allowed here.
    """
    dimensions = [
        layer.fixed_size_list.dimension
        for layer in message.layers
        if layer.WhichOneof("layer") == "fixed_size_list"
    ]
    multiplier = prod(dimensions)
    if multiplier == 0 or multiplier > MAX_SLOTS or page_length % multiplier:
        raise CorruptFileError(f"sparse: dimensions {dimensions[:20]} in {page_length} slots")
    num_slots = page_length // multiplier
    forms: list[LayerForm] = []
    for layer in message.layers:
        form = _parse_layer(layer, num_slots)
        forms.append(form)
        num_slots = form.num_slots * form.dimension if form.non_empty is None else form.num_children
        if num_slots > MAX_SLOTS:
            raise CorruptFileError(f"sparse: {num_slots} slots of a layer")
    if not message.layers or message.layers[-1].WhichOneof("layer") != "validity":
        raise CorruptFileError("sparse: the innermost layer is not the validity of the values")
    return tuple(forms), multiplier


def structure(layers: Sequence[LayerState], runs: Sequence[SlotRuns]) -> Structure:
    """Return the structure of the selected slots, outermost layer first.

    As in dense pages, a slot of a layer outside of lists is repeated for each item of the
    fixed-size lists at or below the layer.

    Raises:
        BatchTooLargeError: there are too many slots for one read.
        CorruptFileError: a null list has items.
    """
    slots = [layer.read(layer_runs) for layer, layer_runs in zip(layers, runs, strict=True)]
    outside = next((n for n, kind in enumerate(slots) if isinstance(kind, Lists)), len(slots))
    repeats = 1
    for number in range(outside - 1, -1, -1):
        repeats *= layers[number].form.dimension
        layer_slots = slots[number]
        if repeats > 1 and isinstance(layer_slots, Items):
            valid = None if layer_slots.valid is None else np.repeat(layer_slots.valid, repeats)
            slots[number] = Items(layer_slots.num_slots * repeats, valid)
    return tuple(slots)


def _parse_layer(layer: pb3.SparseStructuralLayer, num_slots: int) -> LayerForm:
    match layer.WhichOneof("layer"):
        case "validity":
            return LayerForm(num_slots, *_validity(layer.validity))
        case "fixed_size_list":
            validity = _validity(layer.fixed_size_list.validity)
            return LayerForm(num_slots, *validity, dimension=layer.fixed_size_list.dimension)
        case "list":
            lists = layer.list
            count = lists.num_non_empty_positions
            return LayerForm(
                num_slots,
                *_validity(lists.validity),
                num_children=lists.num_child_slots,
                non_empty=SetForm.from_proto(lists.non_empty_positions, count),
                counts=SetForm.from_proto(lists.counts, count),
            )
    raise UnsupportedError("sparse: a layer that is neither validity nor lists")


def _validity(message: pb3.SparseValiditySet) -> tuple[bool, SetForm]:
    """Parse a validity set. Returns True if it lists valid slots (not null slots), and the set."""
    if message.meaning not in MEANINGS:
        raise CorruptFileError(f"sparse: slots listed with meaning {message.meaning}")
    listed = SetForm.from_proto(message.positions, message.num_positions)
    return message.meaning == VALID, listed


def _in_slots(numbers: Numbers, runs: SlotRuns) -> tuple[Int64s, Int64s]:
    """Find the numbers that are slots of the runs.

    Returns:
        The positions of these numbers in `numbers`, and their positions among all slots of the
        runs.
    """
    first, behind = numbers.rank(runs.starts), numbers.rank(runs.stops)
    lengths = runs.stops - runs.starts
    shifts = np.cumsum(lengths) - lengths - runs.starts
    chosen = selection_of_spans(first, behind)
    ordinals = np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen
    places: Int64s = numbers.at(ordinals) + np.repeat(shifts, behind - first)
    return ordinals, places


def _checked(num_slots: int) -> int:
    if num_slots > MAX_READ_SLOTS:
        raise BatchTooLargeError(
            f"sparse: {num_slots} slots at once, at most {MAX_READ_SLOTS}: read fewer rows"
        )
    return num_slots
