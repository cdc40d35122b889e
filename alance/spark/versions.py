"""One version of a table on its way from the driver to the tasks.

A task is told what it needs and reads no manifest: the schema and settings of the version with the
reader, and in its partition the records of the fragments that it reads. A manifest of a million
fragments is read by the driver alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from alance.errors import NotFoundError
from alance.format.proto import table_pb2
from alance.format.schema import Schema
from alance.format.table.fragment import BasePath
from alance.format.table.fragments import Fragments
from alance.format.table.manifest import Manifest
from alance.ops.version import opening
from alance.ops.version.snapshot import Snapshot
from alance.spark.worker import session_for
from alance.versioning.table import open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.spark.options import Options, ReadOptions
    from alance.versioning.table import Table


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table without its fragments: schema, settings, base paths. Pickled small."""

    options: Options
    message: bytes

    @classmethod
    def of(cls, snapshot: Snapshot, options: Options) -> Version:
        """The version of a snapshot. Cost: none."""
        message, slim = snapshot.manifest.head, table_pb2.Manifest()
        for field, value in message.ListFields():
            if field.name in ("fragments", "index_section", "transaction_section"):
                continue
            if field.is_repeated:
                getattr(slim, field.name).MergeFrom(value)
            elif field.message_type is not None:
                getattr(slim, field.name).CopyFrom(value)
            else:
                setattr(slim, field.name, value)
        return cls(options, slim.SerializeToString())

    def snapshot(self, fragments: Sequence[bytes] = ()) -> Snapshot:
        """The version with some of its fragments, for the session of this worker. No request."""
        session = session_for(self.options)
        message = table_pb2.Manifest.FromString(self.message)
        manifest = Manifest(
            message.version,
            Schema.from_protobuf(message.fields, message.schema_metadata),
            Fragments([table_pb2.DataFragment.FromString(one) for one in fragments]),
            {
                one.id: BasePath(
                    one.id,
                    one.name if one.HasField("name") else None,
                    one.is_dataset_root,
                    one.path,
                )
                for one in message.base_paths
            },
            message,
            None,
            (),
        )
        return Snapshot(session, table_of(self.options, manifest.branch), manifest)


def table_of(options: Options, branch: str | None = None) -> Table:
    """The table that options name, on a branch. No request."""
    registry = session_for(options).engine.registry
    table = open_table(registry, options.path, storage_options=dict(options.storage) or None)
    if branch is not None:
        table = table.seen_by(branch).on_branch(branch)
    return table


async def open_version(options: Options, version: int | str | None = None) -> Snapshot:
    """The version of a number or tag, or the latest one. Cost: one LIST and one GET.

    Raises:
        NotFoundError: no such table or version.
    """
    return await opening.open_snapshot(
        options.path,
        version=version,
        storage_options=dict(options.storage) or None,
        session=session_for(options),
    )


async def open_if_there(options: Options) -> Snapshot | None:
    """The latest version; None where there is no table."""
    try:
        return await open_version(options)
    except NotFoundError:
        return None


async def open_for_read(options: ReadOptions) -> Snapshot:
    """The version that the options of a read ask for."""
    if options.asof is None:
        return await open_version(options, options.version or options.tag)
    return await opening.open_snapshot(
        options.path,
        asof=options.asof,
        storage_options=dict(options.storage) or None,
        session=session_for(options),
    )


def pinned(options: ReadOptions, snapshot: Snapshot) -> ReadOptions:
    """The same read of the version that was found for it.

    A tag on a branch stays one: a number alone would be of the main branch.
    """
    if snapshot.manifest.branch is not None and options.tag is not None:
        return options
    return replace(options, version=snapshot.version, tag=None, asof=None)
