"""Print the lower bounds of `pyproject.toml` as requirements for pip.

    python -m tools.oldest
    python -m tools.oldest spark

`make test-oldest` installs them: a lower bound that is not true fails there. The extras `torch` and
`huggingface` are left out: their packages need newer ones than alance itself. Those of `spark` are
listed alone: PySpark is hundreds of megabytes, and is installed where there is a Java.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
LEFT_OUT: Final = ("torch", "huggingface", "spark")
_REQUIREMENT: Final = re.compile(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\w.]+)(?:,<[\w.]+)?")


def oldest(project: str, extra: str | None = None) -> list[str]:
    """The requirements of a `pyproject.toml`, each at its lower bound.

    Args:
        extra: whose requirements alone are listed; None: those of alance and its other extras.

    Raises:
        ValueError: a requirement without a lower bound.
    """
    tables = tomllib.loads(project)["project"]
    extras = tables["optional-dependencies"]
    if extra is not None:
        requirements = extras[extra]
    else:
        requirements = list(tables["dependencies"])
        requirements += [text for name in extras if name not in LEFT_OUT for text in extras[name]]
    pinned = []
    for text in requirements:
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r}: expected name>=version, or name>=version,<version")
        pinned.append(f"{match[1]}=={match[2]}")
    return pinned


if __name__ == "__main__":
    print("\n".join(oldest(PROJECT.read_text(), *sys.argv[1:])))
