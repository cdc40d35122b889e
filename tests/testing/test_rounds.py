"""Rounds of requests are told by what needs which answers, however slow the client is."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from alance.testing.rounds import is_asleep
from tests.testing.conftest import Client

if TYPE_CHECKING:
    from alance.testing.lab import Lab


def test_a_late_request_that_needs_no_answer_is_of_the_same_round(client: Client) -> None:
    lab, late = client.lab, Client(client.lab)

    def ask_late() -> None:
        end = time.thread_time() + 0.1  # of work, however much of the processor it gets
        while time.thread_time() < end:
            pass
        late.status("GET", "/late")

    lab.config(waits_for=os.getpid())
    with lab.recording() as seen:
        thread = threading.Thread(target=ask_late)
        thread.start()
        client.status("GET", "/early")
        thread.join()
        client.status("GET", "/last")
    late.http.close()
    first, second, third = (record["round"] for record in seen.records)
    assert first == second < third
    assert seen.rounds == 2


def test_requests_one_after_the_other_are_as_many_rounds(client: Client) -> None:
    client.lab.config(waits_for=os.getpid())
    with client.lab.recording() as seen:
        client.status("PUT", "/a", bytes(1 << 20))
        for _ in range(3):
            client.status("GET", "/a")
    assert seen.rounds == 4


def test_a_request_whose_client_has_gone_holds_nobody(client: Client) -> None:
    gone = Client(client.lab)
    client.lab.config(latency_ms=3_600_000)
    gone.http.request("GET", "/gone")
    while not client.lab.stats()["in_flight"]:
        time.sleep(0.001)
    gone.http.close()
    client.lab.config(latency_ms=0, waits_for=os.getpid())
    begin = time.monotonic()
    client.status("GET", "/a")
    assert time.monotonic() - begin < 30  # milliseconds; a client that never sleeps is held 60 s


def test_nothing_waits_for_a_client_that_is_not_known(client: Client) -> None:
    with client.lab.recording() as seen:
        client.status("GET", "/a")
        client.status("GET", "/b")
    assert seen.rounds == 1


def test_a_process_that_works_is_not_asleep(server: Lab) -> None:
    assert not is_asleep(os.getpid())
    assert is_asleep(1 << 30)  # there is none
