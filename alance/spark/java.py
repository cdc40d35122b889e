"""Search for the Java that Spark needs. Imports no pyspark, starts no JVM of Spark.

python -m alance.spark.java     prints its folder, or installation advice, with status 1
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LEAST_JAVA: Final = 17
JAVA_FOLDERS: Final = (
    "/usr/lib/jvm/*",
    "/usr/local/openjdk*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
)
MISSING: Final = (
    f"no Java {LEAST_JAVA} or later in JAVA_HOME, in PATH or in the usual places; Spark needs one: "
    "apt-get install openjdk-17-jre-headless, brew install openjdk@17, or https://adoptium.net"
)


def find_java(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the JAVA_HOME of the first Java that is recent enough; None if there is none.

    Cost: runs `java -version` of candidates, 50 ms each, until one is recent enough.
    """
    for home in _candidates(os.environ if environ is None else environ):
        if (version := _version(home)) is not None and version >= LEAST_JAVA:
            return home
    return None


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home)
    if program := shutil.which("java", path=environ.get("PATH")):
        yield Path(program).resolve().parent.parent
    for pattern in JAVA_FOLDERS:
        root, _, rest = pattern[1:].partition("*")
        folder, _, stem = root.rpartition("/")
        yield from sorted(Path("/", folder).glob(f"{stem}*{rest}"), reverse=True)


def _version(home: Path) -> int | None:
    """Return the major version of a Java; None if it does not run."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match and done.returncode == 0 else None


def main() -> int:
    """Print the folder of Java and return 0; return 1 if there is none."""
    home = find_java()
    print(home or MISSING, file=sys.stdout if home else sys.stderr)
    return 0 if home else 1


if __name__ == "__main__":
    sys.exit(main())
