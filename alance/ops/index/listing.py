"""Indices listed from the manifest in hand: nothing of it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.format.paths import join_path
from alance.format.table.apply_indices import SYSTEM
from alance.format.table.indices import Index
from alance.ops.lookup.segments import struct_paths

if TYPE_CHECKING:
    from alance.ops.version.snapshot import Snapshot


def list_indices(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The segments of indices by name. See `Dataset.list_indices`."""
    paths = {number: join_path(path) for number, path in struct_paths(snapshot.schema.fields)}
    listed = []
    for message in sorted(snapshot.manifest.indices, key=lambda entry: entry.name):
        if message.name in SYSTEM:
            continue
        index = Index.from_protobuf(message)
        listed.append(
            {
                "name": index.name,
                "type": index.kind or "Unknown",
                "uuid": str(index.uuid),
                "fields": [paths.get(number, str(number)) for number in index.fields],
                "version": index.dataset_version,
                "fragment_ids": set(index.fragment_ids or ()),
                "base_id": message.base_id if message.HasField("base_id") else None,
            }
        )
    return listed
