"""Versions of a table on the driver, and on their way from it to the tasks."""

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
    from alance.spark.options import Options, ReadOptions


class Access(TypedDict):
    """The keyword arguments for opening or writing a table in its store."""

    storage_options: Mapping[str, str] | None
    session: Session


def access(options: Options) -> Access:
    """By the options of a table and the session of this worker."""
    return {"storage_options": dict(options.storage) or None, "session": session_for(options)}


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table without its fragments: schema, settings, base paths. Pickled small."""

    options: Options
    record: bytes

    @classmethod
    def of(cls, dataset: Dataset, options: Options) -> Version:
        """The version of a dataset. Cost: none."""
        return cls(options, version_record(dataset))

    def dataset(self, fragments: Sequence[bytes] = ()) -> Dataset:
        """The version with some of its fragments, for the session of this worker. No request."""
        return open_record(self.record, self.options.path, fragments, **access(self.options))


async def open_version(options: Options, version: int | str | None = None) -> Dataset:
    """The version of a number or tag, or the latest one. Cost: one LIST and one GET.

    Raises:
        NotFoundError: no such table or version.
    """
    return await alance.dataset(options.path, version=version, **access(options))


async def open_if_there(options: Options) -> Dataset | None:
    """The latest version; None where there is no table."""
    try:
        return await open_version(options)
    except NotFoundError:
        return None


async def open_for_read(options: ReadOptions) -> Dataset:
    """The version that the options of a read ask for."""
    if options.asof is None:
        return await open_version(options, options.version or options.tag)
    return await alance.dataset(options.path, asof=options.asof, **access(options))


def pinned(options: ReadOptions, dataset: Dataset) -> ReadOptions:
    """The same read of the version that was found for it.

    A tag on a branch stays one: a number alone would be of the main branch.
    """
    if dataset.branch is not None and options.tag is not None:
        return options
    return replace(options, version=dataset.version, tag=None, asof=None)
