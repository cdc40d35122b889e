"""The metastores that `connect` knows, by their URIs and clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alance.catalogs.glue import SCHEME, Glue, glue_of_uri, is_client
from alance.catalogs.unity import SCHEMES, unity_of_uri
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.catalogs.metastore import Metastore


async def open_metastore(
    uri: object, headers: Mapping[str, str]
) -> tuple[Metastore, str | None] | None:
    """Return a metastore, and the root of its tables; None if `uri` is another kind of catalog.

    Raises:
        InvalidInputError: a malformed URI, or headers for Glue.
        MissingPackageError: the client's package is not installed.
    """
    is_glue = is_client(uri) or (isinstance(uri, str) and uri.startswith(SCHEME))
    if is_glue and headers:
        raise InvalidInputError("headers: of a server; Glue has none")
    if not isinstance(uri, str):
        return (Glue(uri), None) if is_glue else None
    if is_glue:  # in a thread: the client reads a megabyte of descriptions
        return await asyncio.to_thread(glue_of_uri, uri)
    if uri.startswith(SCHEMES):
        return unity_of_uri(uri, headers)
    return None
