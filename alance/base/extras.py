"""Installation hints for the optional packages of alance's extras."""

from __future__ import annotations

from alance.errors import MissingPackageError


def missing(what: str, extra: str) -> MissingPackageError:
    """Return the error for a feature (`what`) that needs the packages of an extra."""
    return MissingPackageError(f"{what}: {installing(extra)}")


def installing(extra: str) -> str:
    """Return the command that installs the packages of an extra, for error messages.

    The command names the packages instead of `alance[extra]`. So it is correct however alance was
    installed (index, wheel or clone), and does not change alance itself.
    """
    from importlib.metadata import PackageNotFoundError, requires  # needed only for errors

    try:
        lines = requires("alance") or []
    except PackageNotFoundError:  # alance is not installed; only its sources are on the path
        lines = []
    mark = f'extra == "{extra}"'
    packages = [line.partition(";")[0].strip() for line in lines if mark in line.replace("'", '"')]
    if not packages:
        return f"install the packages of alance's extra `{extra}`"
    quoted = " ".join(f"'{package}'" for package in packages)
    return f"`pip install {quoted}` (alance's extra `{extra}`)"
