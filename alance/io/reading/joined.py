"""Batching: concurrent callers with the same kind of question get their answers together.

A batch costs hardly more than a single answer, apart from the rows that it returns. So all callers
in one turn of the event loop form one batch. If the maximum number of batches is under way, new
callers wait until one ends, and then form the next batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from alance.base.records import dataclass
from alance.io.events import trace
from alance.io.loop.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Q = TypeVar("Q")
A = TypeVar("A")
# Returns the answers to the questions of a batch, in order.
Answer: TypeAlias = "Callable[[Sequence[Q]], Awaitable[Sequence[A]]]"

CALLERS_A_TURN: Final = 64  # callers that continue in one turn: a millisecond or two of work


@dataclass(slots=True, eq=False)
class _Caller(Generic[Q, A]):
    question: Q
    weight: int
    answer: Answer[Q, A]
    part: asyncio.Future[A]
    context: Context  # the batch runs in the context of its first caller
    recorder: trace.RequestRecorder | None
    names: tuple[str, ...]  # for traces
    together: _Together[Q, A] | None = None


class Joint(Generic[Q, A]):
    """Batcher of concurrent questions of one kind, in one event loop.

    Args:
        max_weight: upper bound of the total weight of a batch; a heavier question is answered
            alone.
        max_under_way: maximum number of batches under way.

    Attributes:
        is_crowd: True if the last batch begun has several callers.
        num_giving: number of batches that are delivering answers; their callers may soon ask again.
    """

    def __init__(self, max_weight: int, max_under_way: int) -> None:
        self._max_weight = max_weight
        self._free = max_under_way
        self._waiting: deque[_Caller[Q, A]] = deque()
        self._is_called = False
        self.is_crowd = False
        self.num_giving = 0

    async def ask(self, question: Q, weight: int, answer: Answer[Q, A]) -> A:
        """Return the answer to a question, in a batch with others.

        A cancelled caller leaves the batch to the other callers; the last caller cancels it. If a
        batch fails, its halves are tried separately, so that an error reaches only its own caller.

        Args:
            weight: counts against `max_weight`.
            answer: answers a batch; all callers of this object must pass equivalent functions.
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
        """Schedule a batch for the next turn, because more callers may arrive in this one."""
        if self._waiting and self._free and not self._is_called and not self.num_giving:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin batches of waiting callers, within the limits and with one recorder each."""
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
    """A batch under way."""

    def __init__(self, joint: Joint[Q, A], callers: Sequence[_Caller[Q, A]]) -> None:
        self._joint = joint
        self._callers = callers
        self._num_waiting = len(callers)
        loop = asyncio.get_running_loop()
        context = callers[0].context
        if callers[0].recorder is not None:
            context.run(trace.work_for, [name for caller in callers for name in caller.names])
        self.task = loop.create_task(self._run(), context=context)
        for caller in callers:
            caller.together = self

    async def leave(self) -> None:
        """Leave the batch, with an answer or cancelled; the last caller ends the task."""
        self._num_waiting -= 1
        if not self._num_waiting and self.task.cancel():
            await asyncio.wait([self.task])

    async def _run(self) -> None:
        try:
            await self._answer(self._callers)
        finally:
            for caller in self._callers:
                caller.part.cancel()  # has an effect only if the batch was cancelled

    async def _answer(self, callers: Sequence[_Caller[Q, A]]) -> None:
        """Answer the callers that still wait; after a failure, answer each half separately."""
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
        """Deliver answers to callers, `CALLERS_A_TURN` in each turn of the loop."""
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
