"""Optional packages: the extras that install them, for messages of errors."""

from __future__ import annotations


def installing(extra: str) -> str:
    """Return the command that installs the packages of an extra, for the message of an error.

    The packages are named, not `alance[extra]`: this is right however alance was installed, from an
    index, a wheel or a clone, and leaves alance as it is.
    """
    from importlib.metadata import PackageNotFoundError, requires  # only errors pay for it

    try:
        lines = requires("alance") or []
    except PackageNotFoundError:  # its sources are on the path, and nothing is installed
        lines = []
    mark = f'extra == "{extra}"'
    packages = [line.partition(";")[0].strip() for line in lines if mark in line.replace("'", '"')]
    if not packages:
        return f"install the packages of alance's extra `{extra}`"
    quoted = " ".join(f"'{package}'" for package in packages)
    return f"`pip install {quoted}` (alance's extra `{extra}`)"
