"""Rounds of requests, told apart by what depends on what and not by the clock.

A request that needs no answer of the others is made before the client has nothing left to do but to
wait. So the server holds requests back until the client's process sleeps with all of its threads,
and then lets all that are held go on: they are one round. On a busy machine a thread that waits for
a processor does not sleep; rounds take longer there and stay as many.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

PAUSE_S: Final = 0.003  # between two looks at the client
LOOKS: Final = 6  # that find it asleep, one after the other: what it sent has arrived by then
MOST_LOOKS: Final = 20_000  # a client that never sleeps gets its answers in the end


class Rounds:
    """Requests that are held back, and the number of the round that they belong to.

    Args:
        client: gives the number of the client's process, 0: nothing is held back.
        in_flight: gives the number of requests that a client waits for, those held back among
            them.
        spawn: runs something beside.
    """

    def __init__(
        self,
        client: Callable[[], int],
        in_flight: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.number = 0
        self._client, self._in_flight, self._spawn = client, in_flight, spawn
        self._held: list[tuple[asyncio.Event, Callable[[], None]]] = []

    def enter(self, lost: asyncio.Event, go: Callable[[], None]) -> None:
        """Call `go` once the client waits; at once where nothing is held back.

        Args:
            lost: set when nobody waits for the request any more.
        """
        if not self._client() and not self._held:
            go()
            return
        self._held.append((lost, go))
        if len(self._held) == 1:
            self._spawn(self._release())

    async def _release(self) -> None:
        seen = looks = 0
        for _ in range(MOST_LOOKS):
            client = self._client()
            num_held = sum(not lost.is_set() for lost, _ in self._held)
            waits = num_held == seen and num_held == self._in_flight() and is_asleep(client)
            seen, looks = num_held, looks + 1 if waits else 0
            if looks > LOOKS or not client:
                break
            await asyncio.sleep(PAUSE_S)
        self.number += 1
        held, self._held = self._held, []
        for _, go in held:
            go()


def is_asleep(process: int) -> bool:
    """Return True if no thread of a process uses or waits for a processor or a disk.

    True where the system does not tell (it has no `/proc`) or the process has ended.
    """
    folder = f"/proc/{process}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return True
    return not any(_state(f"{folder}/{thread}/stat") in b"RD" for thread in threads)


def _state(path: str) -> bytes:
    """The letter of a thread's state, which stands behind its name in brackets.

    By calls of the system: a process has dozens of threads, and is looked at for each round.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:  # it has ended
        return b"Z"
    try:
        return os.read(file, 1024).rpartition(b") ")[2][:1] or b"Z"
    except OSError:
        return b"Z"
    finally:
        os.close(file)
