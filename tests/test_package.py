"""The package as a whole."""

from __future__ import annotations

import tomllib
from pathlib import Path

import alance

ROOT = Path(__file__).parents[1]


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert alance.__version__ == project["version"]


def test_all_public_names_are_there_and_documented() -> None:
    for name in alance.__all__:
        public = getattr(alance, name)
        if name != "__version__":
            assert public.__doc__, name
            assert public.__doc__.strip()


def test_files_are_short() -> None:
    """Up to 300 lines: a longer one holds two ideas."""
    for path in [*ROOT.glob("alance/**/*.py"), *ROOT.glob("alance/**/*.cpp")]:
        if "_pb2" not in path.name:
            assert len(path.read_text().splitlines()) <= 300, path
