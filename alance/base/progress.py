"""Progress of long operations: one event, one way to report it.

A verb opens `Reporting(progress)` around its work. The code that does the work, however deep it is,
opens a `Stage` and counts what is done. Without a callback a stage costs one look-up.

Reports are bounded: an event when a stage begins, at most one per `INTERVAL_S` while it runs, and
one at its end unless it fails. An error of the callback ends the work.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias

from alance.base.checks import check_callback
from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from types import TracebackType
    from typing import Self

    from alance.base.bars import Bar

OnProgress: TypeAlias = "Callable[[Progress], object] | bool"

INTERVAL_S = 0.1  # seconds between two events of a stage: quick enough for eyes
EXPECTED_PROGRESS: Final = "a function or True"


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a stage of a long operation.

    The last event of a stage that is completed has `done == total`.

    Attributes:
        stage: name of the stage, such as "write" or "centroids"; see docs/progress.md.
        done: amount of finished work.
        total: amount of all work of the stage; None: unknown.
        unit: name of what is counted, in the plural, such as "rows" or "files".
    """

    stage: str
    done: int
    total: int | None
    unit: str

    def __str__(self) -> str:
        of_all = "" if self.total is None else f" of {self.total:,}"
        return f"{self.stage}: {self.done:,}{of_all} {self.unit}"


class Reporter:
    """Receiver of the events of one operation.

    Attributes:
        error: first error of the callback; it is raised by each later report as well, so that all
            tasks of the operation end. None if the callback has not failed.
    """

    __slots__ = ("_bar", "_callback", "_is_closed", "error")

    def __init__(self, callback: Callable[[Progress], object] | None) -> None:
        self._callback = callback
        self._bar: Bar | None = None
        self._is_closed = False
        self.error: BaseException | None = None

    @classmethod
    def of(cls, progress: OnProgress | None) -> Reporter | None:
        """Return the reporter of an argument `progress=`; None if nothing is to be reported.

        Raises:
            InvalidInputError: `progress` is not a function, a bool or None.
        """
        if progress is None or isinstance(progress, bool):
            return cls(None) if progress else None
        check_callback("progress", progress, EXPECTED_PROGRESS)
        return cls(progress)

    def report(self, event: Progress) -> None:
        """Pass an event to the callback, or show it."""
        if self._is_closed:
            return
        if self.error is not None:
            raise self.error
        try:
            if self._callback is None:
                self._callback = self._bar = _new_bar()
            self._callback(event)
        except BaseException as error:
            self.error = error
            raise

    def close(self) -> None:
        """End the bar, if there is one; later events are dropped."""
        self._is_closed = True
        if self._bar is not None:
            self._bar.close()


def _new_bar() -> Bar:
    from alance.base.bars import new_bar

    return new_bar()


_current: Final[ContextVar[Reporter | None]] = ContextVar("alance_progress", default=None)


class Reporting:
    """Report the stages inside of a `with` block to the caller's callback.

    Tasks that the block starts report as well, until the block ends.

    Args:
        progress: callback; True: a bar on the error output; None or False: nothing is reported.

    Raises:
        InvalidInputError: `progress` is not a function, a bool or None; raised before the block.
    """

    __slots__ = ("_reporter", "_token")
    _token: Token[Reporter | None]

    def __init__(self, progress: OnProgress | None) -> None:
        self._reporter = Reporter.of(progress)

    def __enter__(self) -> Self:
        self._token = _current.set(self._reporter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        _current.reset(self._token)
        reporter = self._reporter
        if reporter is None:
            return
        reporter.close()
        if error is None and reporter.error is not None:  # work that notes errors and goes on
            raise reporter.error


def is_watched() -> bool:
    """True if anything receives events: totals that cost work are computed only then."""
    return _current.get() is not None


class Stage:
    """Stage of an operation, as a `with` block; several tasks may count in it.

    Args:
        name: name of the stage.
        total: amount of all work; None: unknown. A stage without work reports nothing.
        unit: plural name of the counted things, such as `rows`.
        reporter: receiver of the events; None for that of the enclosing `Reporting`. Generators
            pass a receiver, because they run in the context of their consumer.
    """

    __slots__ = ("_done", "_name", "_next", "_reporter", "_total", "_unit")

    def __init__(
        self, name: str, total: int | None, unit: str, reporter: Reporter | None = None
    ) -> None:
        self._reporter = (reporter or _current.get()) if total != 0 else None
        self._name, self._total, self._unit = name, total, unit
        self._done = 0
        self._next = 0.0  # time of the next event

    def __enter__(self) -> Self:
        self._report()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._total = self._done
            self._report()

    def add(self, count: int) -> None:
        """Add to the amount of finished work."""
        self.at(self._done + count)

    def at(self, done: int) -> None:
        """Set the amount of finished work."""
        self._done = done
        if self._reporter is not None and time.monotonic() >= self._next:
            self._report()

    def _report(self) -> None:
        if self._reporter is not None:
            self._next = time.monotonic() + INTERVAL_S
            self._reporter.report(Progress(self._name, self._done, self._total, self._unit))
