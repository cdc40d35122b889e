"""Appends of a queue come to stand on the newest version that is known."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from alance.errors import CommitConflictError
from alance.versioning.manifest_store import VersionsGoneError, is_made_by, newest_for
from alance.versioning.outcome import clash_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.versioning.known_versions import KnownVersions
    from alance.versioning.manifest_store import ManifestStore
    from alance.versioning.rules import Rules
    from alance.versioning.waiting_append import WaitingAppend


async def on_one_base(
    group: Sequence[WaitingAppend],
    versions: KnownVersions,
    manifests: ManifestStore,
    rules: Rules,
    *,
    looks: bool,
) -> list[WaitingAppend]:
    """Rebase each onto the newest version known; those that cannot follow are told.

    Args:
        looks: for newer versions, even where the commit itself would.
    """
    group = [waiter for waiter in group if not waiter.made.done()]
    if not group:
        return []
    oldest = min(group, key=lambda waiter: waiter.base.version).base
    last = max(waiter.base.version for waiter in group)
    if any(versions.contradicts(waiter.base) for waiter in group):
        versions.forget()
    newest = versions.newest
    if newest is None or not versions.covers(oldest.version) or newest.version < last:
        if not looks and last == oldest.version:
            versions.begin([oldest])
        else:
            try:
                later = await manifests.versions_after(oldest.version)
                versions.begin([oldest, *later])
            except VersionsGoneError as error:
                group = await _stepped_over(group, versions, manifests, error)
    ready = []
    for waiter in group:
        try:
            if await _follow(waiter, versions, manifests, rules):
                ready.append(waiter)
        except Exception as error:
            waiter.fail(error)
    return ready


async def _stepped_over(
    group: Sequence[WaitingAppend],
    versions: KnownVersions,
    manifests: ManifestStore,
    error: VersionsGoneError,
) -> list[WaitingAppend]:
    """Those that go on top of the latest version, though versions in between are gone."""
    able = []
    for waiter in group:
        newest = None
        if not waiter.notes:
            newest = await newest_for(manifests, waiter.transaction, waiter.base)
        if newest is None:
            waiter.fail(copy.copy(error))
            continue
        versions.begin([newest])
        waiter.base = newest
        able.append(waiter)
    return able


async def _follow(
    waiter: WaitingAppend, versions: KnownVersions, manifests: ManifestStore, rules: Rules
) -> bool:
    """Rebase one onto the newest version known; False where it is committed already."""
    transaction = waiter.transaction
    appends, first = versions.appends_after(waiter.base.version)
    for seen in appends:
        if transaction.uuid in seen.makers:
            committed = await manifests.version(seen.version)
            waiter.succeed(committed or first)
            return False
        if clash := waiter.notes.clash(seen.notes):
            raise CommitConflictError(f"version {seen.version} has {clash} already")
    newer = versions.after(waiter.base.version)
    for manifest in newer:
        if is_made_by(manifest, transaction.uuid):
            waiter.succeed(manifest)
            return False
        if text := clash_with(manifest, waiter.notes):
            raise CommitConflictError(text)
    if appends:
        waiter.base = first  # nothing but appends up to there, which an append can follow
        newer = newer[1:]
    for manifest in newer:
        rebased = await rules.rebase(waiter.transaction, manifest, waiter.base)
        waiter.transaction, waiter.base = rebased.transaction, manifest
    return True
