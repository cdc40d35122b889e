"""Azurite, Microsoft's emulator of Azure's blob storage, in a process of its own.

`make test-azure` installs it and names its folder in AZURITE_HOME.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import itertools
import os
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ACCOUNT = "devstoreaccount1"
# The emulator's own, the same on every machine and in its documentation: no secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.azure)


@dataclass
class Azurite:
    """An emulator with one container, `lab`.

    Attributes:
        log: its access log: a line for each request, with method, path, status.
    """

    port: int
    log: Path
    options: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.options = {
            "account_name": ACCOUNT,
            "account_key": KEY,
            "endpoint": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
            "allow_http": "true",
        }

    def uri(self, name: str = "table") -> str:
        """A place that nobody has used."""
        return f"az://lab/{name}-{next(_numbers)}"

    def requests(self) -> list[str]:
        """The requests so far, as `GET path?query`, once all are in the log."""
        mark = f"mark-{next(_numbers)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", f"/{mark}")
        connection.getresponse().read()
        connection.close()
        end = time.monotonic() + 20
        while mark not in (text := self.log.read_text()):
            assert time.monotonic() < end, "the emulator writes no log"
            time.sleep(0.01)
        result = re.findall(r'"([A-Z]+) (\S+) HTTP/1.1" \d+', text)
        return [f"{method} {path}" for method, path in result if "/mark-" not in path]

    @contextlib.contextmanager
    def recording(self) -> Iterator[list[str]]:
        """The requests of a block, there at its end."""
        before = len(self.requests())
        seen: list[str] = []
        yield seen
        seen += self.requests()[before:]

    def make_container(self, name: str) -> None:
        """Signed by hand, as object stores have no call for it."""
        date = email.utils.formatdate(usegmt=True)
        headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
        signed = "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
        text = f"PUT{chr(10) * 12}{signed}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        mac = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """The emulator, started once."""
    home, node = os.environ.get("AZURITE_HOME"), shutil.which("node")
    if not home or node is None:
        pytest.exit("the tests of Azure need node and Azurite: make test-azure", returncode=2)
    folder = tmp_path_factory.mktemp("azurite")
    result = Azurite(_free_port(), folder / "requests.log")
    command = [node, str(Path(home).absolute() / "node_modules/azurite/dist/src/blob/main.js")]
    command += [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(result.port),
        "--location",
        str(folder),
    ]
    command += ["--skipApiVersionCheck", "--disableTelemetry", "--disableProductStyleUrl"]
    with result.log.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    try:
        _await_port(process, result)
        result.make_container("lab")
        yield result
    finally:
        process.terminate()
        process.wait(20)


def _await_port(process: subprocess.Popen[bytes], server: Azurite) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", server.port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.exit(f"Azurite did not start: {server.log.read_text()[-500:]}", returncode=2)
