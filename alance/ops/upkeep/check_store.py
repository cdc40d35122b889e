"""Whether a place is good for tables, found out by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.io.conformance import examine
from alance.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from alance.io.store_report import StoreReport


async def check_store(
    uri: str | os.PathLike[str],
    *,
    store: object | None = None,
    storage_options: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> StoreReport:
    """Try on a store what reading, writing and committing need of it.

    For servers that speak a cloud's protocol, before tables are entrusted to one: some overwrite
    where they were asked to create, so that of two concurrent commits one is lost. Commits to S3
    find that out by themselves, and refuse; this tells all that is wrong, in one go. It needs the
    rights to read, list, write and delete.

    Cost: about 100 requests and, twice, an upload of 8 MiB. All objects are in one folder with a
    random name below the URI, and are deleted.

    Args:
        uri: a path or URI of a folder, with or without a table in it.

    Returns:
        A report: `print` it, or look at `failures` and `is_fit_for("commits")`.

    Raises:
        AccessError: a right is missing.
        StoreError: nothing can be written there.
        InvalidInputError: a bad URI or option.
    """
    session = session or Session.of_loop()
    place, folder = session.engine.registry.open(uri, storage_options=storage_options, store=store)
    return await examine(place, folder)
