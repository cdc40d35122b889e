"""Cleanup after a commit, for tables whose configuration enables it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.base.deferred import Deferred
from alance.versioning.outcome import mark_as_open

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest
    from alance.ops.cleanup import cleanup, policy
    from alance.session import Session
    from alance.versioning.table import Table
else:
    cleanup = Deferred("alance.ops.cleanup.cleanup")
    policy = Deferred("alance.ops.cleanup.policy")

AUTO: Final = "lance.auto_cleanup."  # prefix of configuration keys
CLEANUP_INTERVAL: Final = f"{AUTO}interval"
_log: Final = logging.getLogger(__name__)


async def clean_after(session: Session, table: Table, manifest: Manifest) -> None:
    """Clean up if the version's number is a multiple of `lance.auto_cleanup.interval`.

    The version before the committed one is retained, whatever its age, because readers may have it
    open. Tagged versions are retained. Errors are only logged, because the version has been
    committed; the next cleanup removes the rest.

    Cost: no request, unless a cleanup is due; then that of `cleanup`.
    """
    if CLEANUP_INTERVAL not in manifest.config:
        return
    try:
        await session.engine.pool.load(cleanup, policy)
        auto = policy.AutoCleanup.of(manifest.config)
        if auto is not None and auto.is_due(manifest.version):
            chosen = replace(auto.policy, seen_from=manifest.version - 1)
            # Also for a branch that was opened by its own URI: its tags are in the table's folder.
            own = table.seen_by(manifest.branch)
            objects = await session._object_reader(own)
            await cleanup.cleanup(
                session.engine, own, chosen, objects=objects, delete_rate_limit=auto.rate
            )
    except Exception:
        _log.warning("cleanup after version %d of %s", manifest.version, table.uri, exc_info=True)
    except BaseException as error:
        mark_as_open(error)  # the caller must not conclude that the version was not committed
        raise
