"""Which fragments the versions of a table added: what a stream that follows it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance import NotFoundError, UnsupportedError, distributed

if TYPE_CHECKING:
    from alance import Dataset
    from alance.distributed import Added
    from alance.spark.options import StreamOptions


async def added_by(dataset: Dataset, version: int, options: StreamOptions) -> Added:
    """What a version added to the one before it; cost as of `alance.distributed.added_by`.

    Raises:
        NotFoundError: the version was cleaned up.
        UnsupportedError: it replaced rows, and the options do not say `skip`.
    """
    try:
        added = await distributed.added_by(dataset, version)
    except NotFoundError as error:
        error.add_note("the stream has to read it: clean up only what all streams have read")
        raise
    if added.replaced_by is not None and options.on_change != "skip":
        raise UnsupportedError(
            f"dataset {dataset.uri!r}: version {version} ({added.replaced_by}) replaces"
            " rows, which a stream of new rows does not show; option on_change=skip passes it"
        )
    return added
