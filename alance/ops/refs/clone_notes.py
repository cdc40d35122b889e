"""Notes of shallow clones: tags in the source table, so that the cloned version is retained.

A note is an ordinary tag, so cleanups of all writers retain the version. The tag's metadata has the
URI of the clone. The note is put before the clone's first manifest, so that no clone exists without
a note. Then the manifest of the version is checked once more: a concurrent cleanup has either
deleted it already, or lists the tag before it removes files. A process killed in between leaves a
note without a clone, which retains the version until somebody deletes the tag.

A clone of a clone is recorded only in the clone that it was created from. That record retains a
version there, so the first clone still needs its own note in its source.
"""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from alance.errors import AccessError, UnsupportedError
from alance.format.table.refs import CLONE
from alance.ops.refs.records import delete_all, put_new, target_of
from alance.versioning.outcome import may_be_visible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from alance.ops.version.snapshot import Snapshot


@asynccontextmanager
async def clone_noted(source: Snapshot, clone_uri: str) -> AsyncIterator[None]:
    """Put a note of a clone into its source before the block that creates the clone.

    If the block fails, the note is removed, unless the clone may exist.

    Cost: a PUT of the tag, and a GET of the manifest before and after it.

    Raises:
        NotFoundError: the version has been removed.
        AccessError, UnsupportedError: the source cannot be written to.
    """
    engine, table = source.engine, source.table
    name = f"clone-{uuid.uuid4().hex}"
    target = await target_of(source, None)
    content = target.tag({CLONE: clone_uri})
    location = table.tag(name)
    try:
        try:
            await put_new(source, location, content, f"tag {name!r}")
        except (AccessError, UnsupportedError) as error:
            raise type(error)(
                f"dataset {table.uri!r}: the tag that notes a shallow clone, so that no cleanup "
                f"removes its files, could not be written: {error}; where nobody removes versions "
                "of the source, clone it with note_at_source=False"
            ) from error
        await target_of(source, None)
        yield
    except BaseException as error:
        if not may_be_visible(error):
            await engine.background.discard(delete_all(source, [location]), table.store)
        raise
