"""The lab: an S3-compatible server in a process of its own, for tests, the demo and benchmarks.

with Lab() as lab:
    lab.config(latency_ms=30)
    dataset = await alance.dataset("s3://lab/table", storage_options=lab.lance_options())
    with lab.recording() as seen:
        await dataset.take([7])
    seen.summary()                      # {"requests": .., "by_op": .., "phases": ..}
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from alance.testing.weather import Weather

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

Record: TypeAlias = dict[str, Any]


def phases(records: list[Record]) -> int:
    """The most requests no two of which overlap in time: the longest chain that may depend."""
    spans = sorted((r["t2"], r["t0"]) for r in records if r.get("t2"))
    count, last = 0, -1.0
    for end, start in spans:
        if start >= last:
            count, last = count + 1, end
    return count


def summarize(records: list[Record]) -> dict[str, Any]:
    """Numbers of requests, bytes and waves."""
    by_op: dict[str, int] = {}
    statuses: dict[str, int] = {}
    for r in records:
        by_op[r["op"]] = by_op.get(r["op"], 0) + 1
        if r.get("st", 0) >= 300:
            statuses[str(r["st"])] = statuses.get(str(r["st"]), 0) + 1
    gets = [r for r in records if r["op"] == "GET"]
    spans = [(r["t0"], 1) for r in records] + [(r["t2"], -1) for r in records if r.get("t2")]
    depth = peak = 0
    for _, step in sorted(spans):
        depth += step
        peak = max(peak, depth)
    return {
        "requests": len(records),
        "by_op": dict(sorted(by_op.items())),
        "errors": statuses,
        "bytes_out": sum(r.get("out", 0) for r in records),
        "bytes_in": sum(r.get("in", 0) for r in records),
        "get_bytes": sum(r.get("out", 0) for r in gets),
        "phases": phases(records),
        "peak_in_flight": peak,
        "connections": len({r["conn"] for r in records}),
        "span_ms": round(_span(records) * 1000, 2),
    }


def _span(records: list[Record]) -> float:
    ends = [r["t2"] for r in records if r.get("t2")]
    return max(ends) - min(r["t0"] for r in records) if ends else 0.0


class Recording:
    """The requests that the server got inside of a `with lab.recording()` block."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def summary(self) -> dict[str, Any]:
        """Numbers of requests, bytes and waves."""
        return summarize(self.records)


class Lab:
    """A server in a process of its own, as long as the `with` block lasts.

    Args:
        root: the folder whose folders are the buckets; None: a temporary one.
        buckets: made where they are not there.
        weather: settings as of `Weather`.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        buckets: tuple[str, ...] = ("lab",),
        **weather: Any,
    ) -> None:
        self._is_temporary = root is None
        self.root = Path(tempfile.mkdtemp(prefix="alance-lab-") if root is None else root)
        for name in buckets:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self._weather = weather
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.endpoint = ""

    def __enter__(self) -> Lab:
        command = [sys.executable, "-m", "alance.testing.server", "--root", str(self.root)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the lab server did not start: exit code {self._process.wait()}")
        info = json.loads(line)
        self.port, self.endpoint = info["port"], info["endpoint"]
        if self._weather:
            self.config(**self._weather)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        if self._is_temporary:
            shutil.rmtree(self.root, ignore_errors=True)

    def _call(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            content = None if body is None else json.dumps(body)
            connection.request("POST" if content else "GET", f"/_lab/{path}", body=content)
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                raise RuntimeError(answer.decode())
            return answer
        finally:
            connection.close()

    def config(self, **weather: Any) -> dict[str, Any]:
        """Change the weather; gives all settings."""
        return cast("dict[str, Any]", json.loads(self._call("config", weather)))

    def calm(self) -> None:
        """Fair weather: no latency, no limits, no faults."""
        self.config(**Weather.DEFAULTS)

    def stats(self) -> dict[str, Any]:
        """Requests so far, requests under way and their peak, connections, processor time."""
        return cast("dict[str, Any]", json.loads(self._call("stats")))

    def rescan(self) -> None:
        """Look at the folder again, after files were put there by hand."""
        self._call("rescan")

    def log(self, since: int = 0) -> list[Record]:
        """The requests from number `since` on."""
        return [json.loads(line) for line in self._call(f"log?since={since}").splitlines() if line]

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recording]:
        """Collect the requests of a block; they are there at its end."""
        start = self.stats()["requests"]
        recording = Recording()
        yield recording
        for _ in range(100):
            if self.stats()["in_flight"] <= 0:
                break
            time.sleep(0.01)
        recording.records = self.log(start)

    def gcs_options(self) -> dict[str, str]:
        """Storage options to reach the same objects as `gs://`."""
        key = {
            "gcs_base_url": self.endpoint,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return {"google_service_account_key": json.dumps(key), "allow_http": "true"}

    def lance_options(self) -> dict[str, str]:
        """Storage options for alance and pylance, to reach the objects as `s3://`."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": "lab",
            "secret_access_key": "lab",
            "region": "us-east-1",
            "allow_http": "true",
            "virtual_hosted_style_request": "false",
        }
