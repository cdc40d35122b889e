"""Pickled snapshots: location of the table, storage options and manifest.

The receiving process or event loop requests nothing that the pickle contains. It reads through the
session of its own event loop; another process uses its own credentials.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alance.errors import InvalidInputError
from alance.io.opening.registry import StoreRegistry
from alance.io.opening.secrets import portable, portable_store
from alance.ops.version.snapshot import Snapshot
from alance.session import Session
from alance.versioning.keepers import is_dynamodb
from alance.versioning.table import open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.table.manifest import Manifest
    from alance.io.opening.credentials import StorageOptions
    from alance.ops.version.summary import ChangeSummary
    from alance.versioning.keepers import Keeper
    from alance.versioning.table import Table


def taken_apart(snapshot: Snapshot) -> tuple[Any, ...]:
    """Return the arguments of `put_together`, all of which can be pickled.

    Raises:
        InvalidInputError: the table is in a store object that cannot be rebuilt.
    """
    table = snapshot.table
    store = None if table.access.home is not None else portable_store(table.store) or table.store
    keeper = None if is_dynamodb(table.main_uri) else table.keeper
    place = _lasting_uri(table), table.branch, store, portable(table.access.storage_options), keeper
    return *place, snapshot.manifest, snapshot.summary


def in_any_loop(snapshot: Snapshot, options: StorageOptions | None = None) -> Snapshot:
    """Return the version with a session for any event loop of this process and its forked children.

    No request.

    Args:
        snapshot: snapshot of any session.
        options: storage options; None: those with which the table was opened.

    Raises:
        InvalidInputError: an unknown option, or options for a table in a given store object.
    """
    table = snapshot.table
    if options is not None:
        if table.access.home is None:
            raise InvalidInputError("storage_options: the given store has its own already")
        table = open_table(StoreRegistry.shared(), _lasting_uri(table), storage_options=options)
        if not is_dynamodb(table.main_uri):
            table = replace(table, keeper=snapshot.table.keeper)
        table = table.on_branch(snapshot.table.branch)
    return Snapshot(Session.of_any_loop(), table, snapshot.manifest, snapshot.summary)


def put_together(
    uri: str,
    branch: str | None,
    store: tuple[Callable[..., object], tuple[Any, ...]] | object | None,
    options: Mapping[str, object] | None,
    keeper: Keeper | None,
    manifest: Manifest,
    summary: ChangeSummary,
) -> Snapshot:
    """Rebuild a snapshot from the result of `taken_apart`. No request.

    Raises:
        InvalidInputError: an option that is unknown here.
    """
    if isinstance(store, tuple):
        make, arguments = store
        store = make(*arguments)
    table = open_table(StoreRegistry.shared(), uri, store=store, storage_options=options)
    if keeper is not None:
        table = replace(table, keeper=keeper)
    return Snapshot(Session.of_any_loop(), table.on_branch(branch), manifest, summary)


def _lasting_uri(table: Table) -> str:
    """Return the URI of the main branch's folder; a local path is made absolute."""
    home = table.access.home
    if home is None or home.kind != "local" or table.main_uri.startswith(("/", "file:")):
        return table.main_uri
    return f"/{table.path}"
