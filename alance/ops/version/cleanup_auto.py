"""Cleanup after a commit, where the table's configuration asks for it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.ops.upkeep.cleanup import cleanup
from alance.ops.upkeep.cleanup_policy import AutoCleanup
from alance.versioning.outcome import mark_as_open

if TYPE_CHECKING:
    from alance.format.table.manifest import Manifest
    from alance.io.engine import Engine
    from alance.versioning.table import Table

_log: Final = logging.getLogger(__name__)


async def clean_after(engine: Engine, table: Table, made: Manifest) -> None:
    """Clean up after a version that is a multiple of `lance.auto_cleanup.interval`.

    The version before it stays, whatever its age, so that who has it open can go on. Tagged
    versions stay. What fails is logged: the version is made, and the next cleanup finds the rest.

    Cost: nothing, unless a cleanup is due: then LISTs of the table's folders, and a GET for each
    version.
    """
    try:
        auto = AutoCleanup.of(made.config)
        if auto is not None and auto.is_due(made.version):
            policy = replace(auto.policy, seen_from=made.version - 1)
            # By the URI of a branch, too: the tags that name its versions are with the table.
            own = table.seen_by(made.branch)
            await cleanup(engine, own, policy, delete_rate_limit=auto.rate)
    except Exception:
        _log.warning("cleanup after version %d of %s", made.version, table.uri, exc_info=True)
    except BaseException as error:
        mark_as_open(error)  # whoever is cancelled here must not take the version for not made
        raise
