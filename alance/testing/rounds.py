"""Rounds of requests, detected by dependencies and not by the clock.

Before a client waits, it has sent all requests that depend on no pending answer. So the server
holds requests back until all threads of the client's process sleep, and then releases them all:
they are one round. A thread that waits for a processor does not sleep, so on a busy machine rounds
take longer, but their number is the same.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

CLIENT_LOOK_PAUSE_S: Final = 0.003  # seconds between two checks of the client
LOOKS: Final = 6  # consecutive checks of a sleeping client; its requests have arrived by then
MOST_LOOKS: Final = 20_000  # checks after which even a client that never sleeps gets its answers


class Rounds:
    """Held requests, and the number of their round.

    Args:
        client: returns the id of the client's process; 0 holds no requests back.
        in_flight: returns the number of requests that the client waits for, held ones included.
        spawn: runs a coroutine in the background.
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
        """Call `go` once the client sleeps; at once if requests are not held back.

        Args:
            lost: set when the client no longer waits for the request.
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
            await asyncio.sleep(CLIENT_LOOK_PAUSE_S)
        self.number += 1
        held, self._held = self._held, []
        for _, go in held:
            go()


def is_asleep(process: int) -> bool:
    """Return True if no thread of a process runs, or waits for a processor or a disk.

    Also True if the process has ended, or the system has no `/proc`.
    """
    folder = f"/proc/{process}/task"
    try:
        threads = os.listdir(folder)
    except OSError:
        return True
    return not any(_state(f"{folder}/{thread}/stat") in b"RD" for thread in threads)


def _state(path: str) -> bytes:
    """Return the letter of a thread's state, which follows its name in brackets.

    Uses system calls for speed: each look reads the state of dozens of threads.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:  # the thread has ended
        return b"Z"
    try:
        return os.read(file, 1024).rpartition(b") ")[2][:1] or b"Z"
    except OSError:
        return b"Z"
    finally:
        os.close(file)
