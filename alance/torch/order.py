"""Order of the rows in an epoch, computed from row numbers without data.

The table is cut into chunks, which are read whole and shuffled. The shuffled sequence is cut into
equal parts, one per rank. A part is cut into windows, in which rows are shuffled, and then into
batches.

    chunks   | 3 | 0 | 6 | 5 | 1 | 7 | 2 | 4 |
    ranks    |     0         |      1        |
    windows  |   0   |   1   |   0   |   1   |
    batches  | 0| 1| 2| 3| 4 | 0| 1| 2| 3| 4 |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alance import InvalidInputError

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class Order:
    """Order of the rows of one rank in an epoch.

    Attributes:
        num_rows: number of rows of the whole table.
        batch_size: number of rows per batch; the last batch may have fewer, unless `drop_last`.
        chunk_rows: number of consecutive rows that stay together until windows are shuffled.
        window_rows: number of rows, of several chunks, that are read and shuffled together.
        seed: seed of the shuffling and the epoch; None for the order of the table.
    """

    num_rows: int
    batch_size: int
    drop_last: bool
    chunk_rows: int
    window_rows: int
    seed: int | None
    rank: int = 0
    world_size: int = 1
    epoch: int = 0

    @cached_property
    def part(self) -> range:
        """The rank's range of positions in the shuffled chunks.

        With `drop_last`, all parts have the same length, so that ranks make the same number of
        steps.
        """
        if self.drop_last:
            size = self.num_rows // self.world_size
            return range(self.rank * size, (self.rank + 1) * size)
        return range(
            self.rank * self.num_rows // self.world_size,
            (self.rank + 1) * self.num_rows // self.world_size,
        )

    @property
    def num_batches(self) -> int:
        """Number of batches of the rank."""
        size = len(self.part)
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def places(self, first: int, last: int) -> range:
        """Return the positions of some batches in the rank's part.

        Args:
            first, last: a half-open range of the rank's batches.
        """
        return range(len(self.part))[first * self.batch_size : last * self.batch_size]

    def windows(self, first: int, last: int) -> list[tuple[int, range]]:
        """Return the numbers of the windows that contain some batches, and their ranges of rows."""
        places, size = self.places(first, last), self.window_rows
        start, stop = places.start, places.stop
        return [
            (number, range(max(start - number * size, 0), min(stop - number * size, size)))
            for number in range(start // size, -(-stop // size) if places else 0)
        ]

    def window(
        self, number: int, requested: range
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
        """Return the rows of the table to read for a window, and their order.

        Args:
            number: number of the window.
            requested: requested positions in the window.

        Returns:
            Row numbers in the table, with the rows of a chunk next to each other; and for each
            requested position the index of its row among them, or None if rows are not shuffled.
        """
        start = self.part.start + number * self.window_rows
        places = np.arange(start, min(start + self.window_rows, self.part.stop), dtype=np.int64)
        if self.seed is None:
            return places[requested.start : requested.stop], None
        # Each window, like the chunks, has its own stream of random numbers.
        random = np.random.default_rng([self.seed, self.epoch, 1, self.rank, number])
        picks = random.permutation(len(places))[requested.start : requested.stop]
        if len(picks) < len(places):
            read_places = np.sort(picks)
            places, picks = places[read_places], np.searchsorted(read_places, picks)
        return self._rows_of(places), picks

    def _rows_of(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows at positions in the shuffled chunks."""
        chunks, ends = self._chunks
        of_place = np.searchsorted(ends, places, "right")
        from_end = ends[of_place] - places
        lengths = np.minimum(self.num_rows - chunks * self.chunk_rows, self.chunk_rows)
        return chunks[of_place] * self.chunk_rows + lengths[of_place] - from_end

    @cached_property
    def _chunks(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the numbers of the chunks in shuffled order, and the end of each in that order."""
        count = -(-self.num_rows // self.chunk_rows)
        chunks = np.random.default_rng([self.seed or 0, self.epoch, 0]).permutation(count)
        sizes = np.minimum(self.num_rows - chunks * self.chunk_rows, self.chunk_rows)
        return chunks, np.cumsum(sizes)


def by_turns(shares: list[int], count: int) -> list[int]:
    """Return the number of items that each share loses if `count` items are taken in turn.

    Raises:
        InvalidInputError: the shares have fewer items in total.
    """
    if count > sum(shares):
        raise InvalidInputError(f"num_batches={count}: the epoch has {sum(shares)} left")
    taken = [0] * len(shares)
    while count:
        open_shares = [number for number, size in enumerate(shares) if size > taken[number]]
        rounds = min(
            count // len(open_shares), min(shares[number] - taken[number] for number in open_shares)
        )
        for number in open_shares if rounds else open_shares[:count]:
            taken[number] += rounds or 1
        count -= rounds * len(open_shares) or count
    return taken
