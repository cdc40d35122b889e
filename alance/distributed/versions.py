"""One version of a table on its way from a driver to tasks.

A task is told what it needs and reads no manifest: the record of the version, without its
fragments, and the records of the fragments that it works on. A manifest of a million fragments is
read by the driver alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.datasets import Dataset
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.fragment import BasePath
from alance.format.table.fragments import Fragments
from alance.format.table.manifest import Manifest
from alance.ops.version.snapshot import Snapshot
from alance.session import Session
from alance.versioning.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.format.table.fragment import Fragment


def version_record(dataset: Dataset) -> bytes:
    """A version without its fragments and indices: schema, settings, base paths. Cost: none."""
    message, record = dataset._snapshot.manifest.head, table_pb2.Manifest()
    for field, value in message.ListFields():
        if field.name in ("fragments", "index_section", "transaction_section"):
            continue
        if field.is_repeated:
            getattr(record, field.name).MergeFrom(value)
        elif field.message_type is not None:
            getattr(record, field.name).CopyFrom(value)
        else:
            setattr(record, field.name, value)
    return record.SerializeToString()


def open_record(
    record: bytes,
    uri: str,
    fragments: Sequence[bytes] = (),
    *,
    storage_options: Mapping[str, str] | None = None,
    session: Session | None = None,
) -> Dataset:
    """A version with some of its fragments, or none. No request.

    Args:
        record: of the version; see `version_record`.
        uri: of the table; where the version is of a branch, of that branch or of the table.
        fragments: records of fragments, serialized.
        storage_options, session: as of `dataset`.
    """
    message = table_pb2.Manifest.FromString(record)
    manifest = Manifest(
        message.version,
        Schema.from_protobuf(message.fields, message.schema_metadata),
        Fragments([table_pb2.DataFragment.FromString(fragment) for fragment in fragments]),
        {
            base.id: BasePath(
                base.id,
                base.name if base.HasField("name") else None,
                base.is_dataset_root,
                base.path,
            )
            for base in message.base_paths
        },
        message,
        None,
        (),
    )
    session = session or Session.of_loop()
    table = open_table(session.engine.registry, uri, storage_options=storage_options)
    if manifest.branch is not None:
        table = table.seen_by(manifest.branch).on_branch(manifest.branch)
    return Dataset(Snapshot(session, table, manifest))


def fragments_of(dataset: Dataset) -> Sequence[Fragment]:
    """The fragments as the manifest has them, in row order; each is parsed where it is asked for.

    `message.SerializeToString()` of one is its record for `open_record`.
    """
    return dataset._snapshot.manifest.fragments
