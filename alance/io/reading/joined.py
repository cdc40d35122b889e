"""Answers callers together if they ask for the same kind of thing at the same time.

Apart from its rows, an answer costs the same for one caller as for many. So the callers of one turn
of the event loop become one question. If enough questions are under way already, callers wait, and
become one question when one of these ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from alance.io.events import trace
from alance.io.loop.tasks import all_of
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Q = TypeVar("Q")
A = TypeVar("A")
# Gives the answers to the questions of some callers, in their order.
Answer: TypeAlias = "Callable[[Sequence[Q]], Awaitable[Sequence[A]]]"

CALLERS_A_TURN: Final = 64  # that go on with their answers: a millisecond or two of their work


@dataclass(slots=True, eq=False)
class _Caller(Generic[Q, A]):
    question: Q
    weight: int
    answer: Answer[Q, A]
    part: asyncio.Future[A]
    context: Context  # a trace is that of all who go together
    recorder: trace.Recorder | None
    names: tuple[str, ...]  # for traces
    together: _Together[Q, A] | None = None


class Joint(Generic[Q, A]):
    """Questions of one kind, in one event loop.

    Args:
        max_weight: of the questions that go together; more where one alone has more.
        max_under_way: answers that are made at once.

    Attributes:
        is_crowd: whether the last answer that was begun is one to several callers.
        num_giving: answers that callers get just now: they may ask again.
    """

    def __init__(self, max_weight: int, max_under_way: int) -> None:
        self._max_weight = max_weight
        self._free = max_under_way
        self._waiting: deque[_Caller[Q, A]] = deque()
        self._is_called = False
        self.is_crowd = False
        self.num_giving = 0

    async def ask(self, question: Q, weight: int, answer: Answer[Q, A]) -> A:
        """The answer to one caller.

        A cancelled caller leaves the work to the others; that of the last one ends with it.

        Args:
            answer: alike for all who ask here.
        """
        loop = asyncio.get_running_loop()
        part: asyncio.Future[A] = loop.create_future()
        recorder = trace.current()
        names = () if recorder is None else trace.callers()
        caller = _Caller(question, weight, answer, part, copy_context(), recorder, names)
        self._waiting.append(caller)
        self.begin_soon()
        try:
            return await part
        finally:
            if caller.together is not None:
                await caller.together.leave()

    def begin_soon(self) -> None:
        """Begin with those who wait, in the next turn: others may still come in this one."""
        if self._waiting and self._free and not self._is_called and not self.num_giving:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin all who wait, as far as they go together."""
        self._is_called = False
        while self._free and self._waiting:
            callers: list[_Caller[Q, A]] = []
            total = 0
            while self._waiting:
                caller = self._waiting[0]
                if callers and (
                    total + caller.weight > self._max_weight
                    or caller.recorder is not callers[0].recorder
                ):
                    break
                self._waiting.popleft()
                if not caller.part.done():
                    callers.append(caller)
                    total += caller.weight
            if callers:
                self.is_crowd = len(callers) > 1
                self._free -= 1
                _Together(self, callers).task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._free += 1
        self.begin_soon()


class _Together(Generic[Q, A]):
    """The question of several callers, under way."""

    def __init__(self, joint: Joint[Q, A], callers: Sequence[_Caller[Q, A]]) -> None:
        self._joint = joint
        self._callers = callers
        self._left = len(callers)
        loop = asyncio.get_running_loop()
        context = callers[0].context
        if callers[0].recorder is not None:
            context.run(trace.work_for, [name for caller in callers for name in caller.names])
        self.task = loop.create_task(self._run(), context=context)
        for caller in callers:
            caller.together = self

    async def leave(self) -> None:
        """A caller has what it asked for, or does not wait for it any more."""
        self._left -= 1
        if not self._left and self.task.cancel():
            await asyncio.wait([self.task])

    async def _run(self) -> None:
        try:
            await self._answer(self._callers)
        finally:
            for caller in self._callers:
                caller.part.cancel()  # those that have no part: the work was cancelled

    async def _answer(self, callers: Sequence[_Caller[Q, A]]) -> None:
        """Answer callers that are still there; what is wrong may be the matter of one alone, which
        halves of halves tell.
        """
        callers = [caller for caller in callers if not caller.part.done()]
        if not callers:
            return
        try:
            answers = await callers[0].answer([caller.question for caller in callers])
        except Exception as error:
            if len(callers) == 1:
                if not callers[0].part.done():
                    callers[0].part.set_exception(error)
                return
        else:
            await self._give(callers, answers)
            return
        middle = len(callers) // 2
        await all_of(self._answer(half) for half in (callers[:middle], callers[middle:]))

    async def _give(self, callers: Sequence[_Caller[Q, A]], answers: Sequence[A]) -> None:
        """Let callers go on, some of them in each turn of the loop."""
        self._joint.num_giving += 1
        try:
            for number, (caller, part) in enumerate(zip(callers, answers, strict=True), 1):
                if not caller.part.done():
                    caller.part.set_result(part)
                if number % CALLERS_A_TURN == 0 and number < len(callers):
                    await asyncio.sleep(0)
        finally:
            self._joint.num_giving -= 1
            self._joint.begin_soon()
