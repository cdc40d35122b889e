"""Versions of a table on the driver, and their pickled form for tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import alance
from alance import NotFoundError
from alance.distributed import open_record, version_record
from alance.spark.worker import session_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance import Dataset, Session
    from alance.spark.options import ReadOptions, TableOptions


class TableAccess(TypedDict):
    """Keyword arguments for opening or writing a table in its store."""

    storage_options: Mapping[str, str] | None
    session: Session


def access(options: TableOptions) -> TableAccess:
    """Return the keyword arguments for a table's options, with this worker's session."""
    return {"storage_options": dict(options.storage) or None, "session": session_for(options)}


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table without its fragments, for a small pickle: schema, settings, bases."""

    options: TableOptions
    record: bytes

    @classmethod
    def of(cls, dataset: Dataset, options: TableOptions) -> Version:
        """Wrap the version of a dataset. No request."""
        return cls(options, version_record(dataset))

    def dataset(self, fragments: Sequence[bytes] = ()) -> Dataset:
        """Open the version with some of its fragments, in this worker's session. No request."""
        return open_record(self.record, self.options.path, fragments, **access(self.options))


async def open_version(options: TableOptions, version: int | str | None = None) -> Dataset:
    """Open a version by number or tag, or the latest one.

    Cost: as `alance.dataset`.

    Raises:
        NotFoundError: no such table or version.
    """
    return await alance.dataset(options.path, version=version, **access(options))


async def open_if_there(options: TableOptions) -> Dataset | None:
    """Open the latest version; None if there is no table."""
    try:
        return await open_version(options)
    except NotFoundError:
        return None


async def open_for_read(options: ReadOptions) -> Dataset:
    """Open the version that the options of a read name."""
    if options.asof is None:
        return await open_version(options, options.version or options.tag)
    return await alance.dataset(options.path, asof=options.asof, **access(options))


def pinned(options: ReadOptions, dataset: Dataset) -> ReadOptions:
    """Replace the version, tag or time of a read by the opened version's number.

    A tag on a branch stays: a number alone would name a version of the main branch.
    """
    if dataset.branch is not None and options.tag is not None:
        return options
    return replace(options, version=dataset.version, tag=None, asof=None)
