"""Print the changelog's section of a version: the notes of its release.

    python -m tools.changelog v1.2.3
    python -m tools.changelog --next

The tag has to be the version of the sources, and its section dated: `## 1.2.3 (2027-01-31)`. With
`--next`, the section may still be unreleased.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
HEADING: Final = re.compile(r"## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)\n")


def section(changelog: str, version: str, *, released: bool) -> str:
    """Return the text below a version's heading.

    Args:
        changelog: text of CHANGELOG.md.
        version: a version, such as `1.2.3`.
        released: refuse a section without a date.

    Raises:
        ValueError: there is no such section, or it has no date.
    """
    headings = list(HEADING.finditer(changelog))
    for number, heading in enumerate(headings):
        if heading[1] != version:
            continue
        if released and heading[2] == "unreleased":
            raise ValueError(f"CHANGELOG.md: {version} is unreleased: write its date instead")
        stop = headings[number + 1].start() if number + 1 < len(headings) else len(changelog)
        return changelog[heading.end() : stop].strip() + "\n"
    versions = ", ".join(heading[1] for heading in headings)
    raise ValueError(f"CHANGELOG.md: no section of {version}; it has {versions}")


def version_of(tag: str, source: str) -> str:
    """Return the version of a tag.

    Args:
        tag: name of the tag, such as `v1.2.3`; `--next` stands for the version of the sources.
        source: text of `alance/_version.py`.

    Raises:
        ValueError: the tag is not `v` with the version of the sources.
    """
    version = source.rpartition('__version__ = "')[2].partition('"')[0]
    if tag not in ("--next", f"v{version}"):
        raise ValueError(f"tag {tag}: alance/_version.py has {version}: name the tag v{version}")
    return version


def main() -> None:
    """Print the section of the tag that the command names."""
    parser = argparse.ArgumentParser(prog="python -m tools.changelog")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("tag", nargs="?", help="the release's tag: v1.2.3")
    choice.add_argument("--next", action="store_true", help="the version of the sources")
    arguments = parser.parse_args()
    try:
        tag = "--next" if arguments.next else arguments.tag
        version = version_of(tag, (ROOT / "alance/_version.py").read_text())
        text = section((ROOT / "CHANGELOG.md").read_text(), version, released=not arguments.next)
    except ValueError as error:
        sys.exit(str(error))
    print(text, end="")


if __name__ == "__main__":
    main()
