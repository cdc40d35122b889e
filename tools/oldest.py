"""Print the lower bounds of `pyproject.toml` as requirements for pip.

    python -m tools.oldest
    python -m tools.oldest spark

`make test-oldest` installs these versions, so that a bound that is too low fails. The extras
`torch`, `ray` and `huggingface` are omitted: their packages need newer versions than alance itself.
The extra `spark` is listed separately: PySpark is hundreds of megabytes, and is installed only
where there is a Java.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
OMITTED: Final = ("torch", "ray", "huggingface", "spark")
_REQUIREMENT: Final = re.compile(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\w.]+)(?:,<[\w.]+)?")


def oldest(project: str, extra: str | None = None) -> list[str]:
    """Return the requirements of a `pyproject.toml`, each pinned to its lower bound.

    Args:
        extra: an extra whose requirements alone are returned. None returns those of alance and of
            all other extras.

    Raises:
        ValueError: a requirement without a lower bound.
    """
    tables = tomllib.loads(project)["project"]
    extras = tables["optional-dependencies"]
    if extra is not None:
        requirements = extras[extra]
    else:
        requirements = list(tables["dependencies"])
        requirements += [text for name in extras if name not in OMITTED for text in extras[name]]
    pinned = []
    for text in requirements:
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r}: expected name>=version, or name>=version,<version")
        pinned.append(f"{match[1]}=={match[2]}")
    return pinned


if __name__ == "__main__":
    print("\n".join(oldest(PROJECT.read_text(), *sys.argv[1:])))
