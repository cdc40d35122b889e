"""The oldest versions of other packages that `pyproject.toml` allows, as requirements of pip.

    python -m tools.oldest

`make test-oldest` installs them: a lower bound that is not true fails there. The extras `torch` and
`huggingface` are left out: their packages need newer ones than alance itself.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
LEFT_OUT: Final = ("torch", "huggingface")
_REQUIREMENT: Final = re.compile(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\w.]+)(?:,<[\w.]+)?")


def oldest(project: str) -> list[str]:
    """The requirements of a `pyproject.toml`, each at its lower bound.

    Raises:
        ValueError: a requirement without such a bound.
    """
    tables = tomllib.loads(project)["project"]
    extras = tables["optional-dependencies"]
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
    print("\n".join(oldest(PROJECT.read_text())))
