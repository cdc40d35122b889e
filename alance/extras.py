"""Installation hints for the optional packages of alance's extras."""

from __future__ import annotations

from alance.errors import MissingPackageError


def missing(what: str, extra: str) -> MissingPackageError:
    """Return the error of something that needs the packages of an extra; `what` says it."""
    return MissingPackageError(f"{what}: {installing(extra)}")


def installing(extra: str) -> str:
    """Return how to install the packages of an extra, for error messages.

    The hint names the packages instead of `alance[extra]`. So it is right however alance was
    installed (index, wheel or clone), and does not change alance itself.
    """
    from importlib.metadata import PackageNotFoundError, requires  # only errors need it

    try:
        lines = requires("alance") or []
    except PackageNotFoundError:  # alance is not installed; its sources are on the path
        lines = []
    mark = f'extra == "{extra}"'
    packages = [line.partition(";")[0].strip() for line in lines if mark in line.replace("'", '"')]
    if not packages:
        return f"install the packages of alance's extra `{extra}`"
    quoted = " ".join(f"'{package}'" for package in packages)
    return f"`pip install {quoted}` (alance's extra `{extra}`)"
