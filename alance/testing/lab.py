"""Lab: an S3-compatible server in a process of its own, for tests, the demo and benchmarks.

with Lab() as lab:
    lab.config(latency_ms=30)
    dataset = await alance.dataset("s3://lab/table", storage_options=lab.lance_options())
    with lab.recording() as seen:
        await dataset.take([7])
    seen.summary()                      # {"requests": .., "by_op": .., "phases": ..}

By hand, until interrupted:

    python -m alance.testing.lab serve FOLDER --port 9000 --latency-ms 30
"""

from __future__ import annotations

import argparse
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

from alance.errors import StoreError
from alance.testing.weather import Weather

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Unpack

    from alance.testing.weather import WeatherSettings

Record: TypeAlias = dict[str, Any]


def phases(records: list[Record]) -> int:
    """Return the size of the largest set of requests that do not overlap in time.

    This is the longest chain in which each request may depend on the previous answer.
    """
    spans = sorted((r["t2"], r["t0"]) for r in records if r.get("t2"))
    count, last = 0, -1.0
    for end, start in spans:
        if start >= last:
            count, last = count + 1, end
    return count


def summarize(records: list[Record]) -> dict[str, Any]:
    """Count requests, bytes, errors and phases of a log."""
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
    """Requests that the server received during a `with lab.recording()` block."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    @property
    def rounds(self) -> int:
        """Number of rounds; requests of a round do not depend on each other's answers.

        At most 1 unless the weather's `waits_for` is set.
        """
        return len({record["round"] for record in self.records})

    def summary(self) -> dict[str, Any]:
        """Count requests, bytes, errors and phases; see `summarize`."""
        return summarize(self.records)


class Lab:
    """A server in a separate process, which runs during a `with` block.

    It shares neither interpreter nor event loop with the client, so it does not slow the client.

    Args:
        root: folder whose subfolders are the buckets; None for a temporary folder.
        buckets: buckets to create if they do not exist.
        weather: settings of `WeatherSettings`: latency, bandwidth, faults.

    Raises:
        ValueError: a setting of the weather is unknown, or a fault is invalid.
        StoreError: (on entering the block) the server does not start.

    Attributes:
        endpoint: URL of the server, inside the block.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        buckets: tuple[str, ...] = ("lab",),
        **weather: Unpack[WeatherSettings],
    ) -> None:
        Weather(**weather)
        self._is_temporary = root is None
        self.root = Path("" if root is None else root)
        self._buckets = buckets
        self._weather = weather
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.endpoint = ""

    def __enter__(self) -> Lab:
        if self._is_temporary:
            self.root = Path(tempfile.mkdtemp(prefix="alance-lab-"))
        for name in self._buckets:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "alance.testing.lab", "serve", str(self.root)]
        self._process = process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise StoreError(f"the lab did not start: exit code {process.wait()}")
            info = json.loads(line)
            self.port, self.endpoint = info["port"], info["endpoint"]
            if self._weather:
                self.config(**self._weather)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
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

    def _call(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            content = None if body is None else json.dumps(body)
            connection.request("POST" if content else "GET", f"/_lab/{path}", body=content)
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                raise StoreError(f"the lab: {path}: {answer.decode()}", status=response.status)
            return answer
        finally:
            connection.close()

    def config(self, **weather: Unpack[WeatherSettings]) -> dict[str, Any]:
        """Change the weather; return all settings.

        Raises:
            StoreError: a setting or fault is unknown; nothing has changed.
        """
        return cast("dict[str, Any]", json.loads(self._call("config", weather)))

    def calm(self) -> None:
        """Reset the weather: no latency, no limits, no faults."""
        self.config(**Weather.DEFAULTS)

    def stats(self) -> dict[str, Any]:
        """Return counters of the server.

        They are: requests so far; requests under way, and their peak since the last call; open and
        accepted connections; unfinished multipart uploads; processor time in seconds.
        """
        return cast("dict[str, Any]", json.loads(self._call("stats")))

    def rescan(self) -> None:
        """Rescan the folder after files in it were changed by hand."""
        self._call("rescan")

    def log(self, since: int = 0) -> list[Record]:
        """Return the records of the requests from number `since` on; see `Server.log`."""
        return [json.loads(line) for line in self._call(f"log?since={since}").splitlines() if line]

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recording]:
        """Collect the requests of a block; the recording is filled at the end of the block.

        The end of the block waits for these requests to end, for at most a second.
        """
        start = self.stats()["requests"]
        recording = Recording()
        yield recording
        for _ in range(100):
            recording.records = self.log(start)
            if all("t2" in record for record in recording.records):
                break
            time.sleep(0.01)

    def gcs_options(self) -> dict[str, str]:
        """Return storage options with which alance accesses the objects as `gs://`."""
        key = {
            "gcs_base_url": self.endpoint,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return {"google_service_account_key": json.dumps(key), "allow_http": "true"}

    def lance_options(self) -> dict[str, str]:
        """Return storage options with which alance and pylance access the objects as `s3://`."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": "lab",
            "secret_access_key": "lab",
            "region": "us-east-1",
            "allow_http": "true",
            "virtual_hosted_style_request": "false",
        }


def main() -> None:
    """Run the command line."""
    from alance.testing.server import serve  # needed only in the server's process

    parser = argparse.ArgumentParser(prog="python -m alance.testing.lab")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("serve", help="serve a folder as S3 and GCS do")
    command.add_argument("folder", type=Path, help="its folders are the buckets")
    command.add_argument("--port", type=int, default=0, help="0: any free one")
    command.add_argument("--latency-ms", type=float, default=0.0, help="to the first byte")
    command.add_argument("--conn-mbps", type=float, default=0.0, help="MB/s of a connection")
    command.add_argument("--total-mbps", type=float, default=0.0, help="MB/s of all together")
    args = vars(parser.parse_args())
    serve(args.pop("folder"), args.pop("port"), Weather(**args))


if __name__ == "__main__":
    main()
