"""Jobs of threads that clean up run even if their task is cancelled before they begin."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from alance.io.loop.futures import in_thread
from alance.io.loop.tasks import whole


@pytest.mark.parametrize("is_needed", [False, True])
async def test_a_needed_job_that_has_not_begun_outlives_cancellations(*, is_needed: bool) -> None:
    free, ran = threading.Event(), []
    with ThreadPoolExecutor(1) as executor:
        executor.submit(free.wait)  # the only thread
        loop = asyncio.get_running_loop()
        job = in_thread(executor, lambda: ran.append(1), loop)
        task = asyncio.ensure_future(whole(job, is_needed=is_needed))
        for _ in range(2):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        free.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert bool(ran) == is_needed
