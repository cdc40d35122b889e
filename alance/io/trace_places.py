"""Which bytes of an object are whose: so that a trace can name the columns of a request."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Span: TypeAlias = tuple[int, int]  # start and stop of a range of bytes, half-open


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same bytes in ascending spans that neither touch nor overlap."""
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return tuple(joined)


class Places:
    """Named spans of objects, worked out when they are first asked for."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Callable[[], Iterable[Span]]]] = {}
        self._sorted: dict[str, tuple[list[int], list[int], list[str]]] = {}

    def add(self, location: str, name: str, spans: Callable[[], Iterable[Span]]) -> None:
        """Tell the spans of a name; the first one to tell counts."""
        names = self._told.setdefault(location, {})
        if name not in names:
            names[name] = spans
            self._sorted.pop(location, None)

    def of(self, location: str, spans: Sequence[Span]) -> tuple[str, ...]:
        """The names whose spans overlap some of these, in the order of the object's bytes.

        None of bytes that go beyond all spans: those are the end of the file.
        """
        if location not in self._told or self.is_behind(location, spans[-1][1]):
            return ()
        starts, reach, names = self._index(location)
        ordered: dict[str, None] = {}
        for start, stop in spans:
            first, last = bisect_right(reach, start), bisect_left(starts, stop)
            ordered.update(dict.fromkeys(names[first:last]))
        return tuple(ordered)

    def is_behind(self, location: str, stop: int) -> bool:
        """Whether bytes up to `stop` go beyond all that was told of an object."""
        reach = self._index(location)[1] if location in self._told else []
        return bool(reach) and stop > reach[-1]

    def _index(self, location: str) -> tuple[list[int], list[int], list[str]]:
        index = self._sorted.get(location)
        if index is None:
            told = sorted(
                (start, stop, name)
                for name, spans in self._told[location].items()
                for start, stop in spans()
                if start < stop
            )
            index = self._sorted[location] = (
                [start for start, _, _ in told],
                list(accumulate((stop for _, stop, _ in told), max)),
                [name for _, _, name in told],
            )
        return index
