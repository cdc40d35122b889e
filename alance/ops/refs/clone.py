"""Clones: a version of a table becomes the first version of another table or of a branch.

The manifest of a shallow clone names the source's files by a base path; no data is copied. New
files of the clone are in its own folder. The source must retain the version, so a tag in the source
records the clone, see `clone_notes`.

A deep clone has copies of all files. An object that rows name by a base path is copied to the
folder `_bases/{id}` of the clone, which becomes the base path of the same id.

Source: docs/format/table.md, "Clones".
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from alance.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from alance.format.proto import table_pb2
from alance.format.table.changes.apply_state import Settings
from alance.format.table.manifest import parse_manifest
from alance.format.table.naming import NamingScheme
from alance.format.table.operations import Clone
from alance.format.table.transaction import Transaction
from alance.ops.refs.clone_notes import clone_noted
from alance.ops.refs.files import BASES, copy_files, named_objects
from alance.ops.version import opening
from alance.ops.version.commits import manifests_of
from alance.ops.version.snapshot import Snapshot
from alance.versioning.rules import TableRules
from alance.versioning.table import open_table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from alance.io.opening.credentials import StorageOptions
    from alance.ops.refs.files import Copied
    from alance.ops.version.opening import Reference
    from alance.ops.version.options import CommitOptions
    from alance.versioning.table import Table


async def clone(
    snapshot: Snapshot,
    target_uri: str | os.PathLike[str],
    reference: Reference | None,
    options: CommitOptions,
    *,
    is_shallow: bool,
    is_noted: bool = True,
    store: object | None = None,
    storage_options: StorageOptions | None = None,
) -> Snapshot:
    """Create a new table from a version of this one; see the module docstring.

    Cost: a GET if the version is not the snapshot's own; for a deep clone the cost of `copy_files`;
    a LIST, and the PUTs of the transaction and the manifest. The note of a shallow clone takes two
    GETs of the manifest and a PUT at the source.

    Args:
        reference: version to clone; None: the snapshot's version.
        is_noted: True to record a shallow clone in the source, see `clone_notes`; ignored for a
            deep clone.
        store, storage_options: store of the target, and options for it. If both are None, and the
            target is in the same kind of store, the source's options that apply to the target are
            used.

    Raises:
        AlreadyExistsError: the target already has versions.
        NotFoundError: no such version, tag or branch.
        InvalidInputError: a detached version; a bad URI or option.
        UnsupportedError: no URI names the source's files, or `copy_files` refuses.
        AccessError: the note cannot be written.
    """
    source = snapshot if reference is None else await opening.checkout(snapshot, reference)
    registry = snapshot.engine.registry
    target = open_table(registry, target_uri, store=store, storage_options=storage_options)
    if store is None and storage_options is None:
        access, home = snapshot.table.access, target.access.home
        assert home is not None
        target_options = access.storage_options if access.covers(home) else access.others()
        target = open_table(registry, target_uri, storage_options=target_options)
    note = is_noted and is_shallow
    return await clone_into(source, target, None, options, is_shallow=is_shallow, is_noted=note)


async def clone_into(
    source: Snapshot,
    target: Table,
    branch_name: str | None,
    options: CommitOptions,
    *,
    is_shallow: bool = True,
    is_noted: bool = False,
) -> Snapshot:
    """Make a version the first version of a new table, with the same number.

    Args:
        branch_name: name of the branch to create; None: the target is a separate table.
        is_noted: True to record the clone in the source; False for a branch, which has a record
            there.

    Raises:
        AlreadyExistsError: the target already has versions.
        InvalidInputError: a detached version.
        UnsupportedError: no URI names the source's files, or `copy_files` refuses.
    """
    if source.version >> 63:
        raise InvalidInputError(f"version {source.version} is detached, and cannot be cloned")
    session, engine = source.session, source.engine
    where = base_uri(source.table) if is_shallow else source.table.uri
    change = _change(source, where, branch_name, is_shallow=is_shallow)
    transaction = Transaction.of(change, read_version=source.version, properties=options.noted())
    objects = [] if is_shallow else await named_objects(source)
    settings = Settings(base_paths=own_bases(source, target, objects))
    rules = TableRules(engine, target, settings, source=source.manifest)
    content = await rules.next_manifest(None, transaction, source.version)
    manifests = manifests_of(session, target, NamingScheme.V2)
    await manifests.check()
    if await manifests.latest() is not None:
        raise _exists(target)
    if not is_shallow:
        await copy_files(source, target, objects)
    clone_uri = target.store.uri_of(target.key) or target.uri
    async with clone_noted(source, clone_uri) if is_noted else nullcontext():
        record = rules.transaction_bytes(transaction)
        if record is not None:
            store, path = engine.registry.resolve(target.transaction(transaction.file_name))
            await store.put(path, record)
        created = await manifests.create(source.version, content, transaction.uuid)
        if not created.is_ours:
            raise _exists(target)
    if (manifest := created.manifest) is None:
        parse = partial(parse_manifest, memoryview(content), f"version {source.version}")
        manifest = await engine.decode(parse, len(content))
    if is_shallow:
        target.know_base(where, source.table.root)
    return Snapshot(session, target, manifest)


def _change(source: Snapshot, where: str, branch_name: str | None, *, is_shallow: bool) -> Clone:
    return Clone(
        is_shallow=is_shallow,
        ref_name=source.table.branch,
        ref_version=source.version,
        ref_path=where,
        branch_name=branch_name,
    )


def own_bases(
    source: Snapshot, target: Table, objects: Iterable[Copied]
) -> tuple[table_pb2.BasePath, ...]:
    """Return base paths for a deep clone: folders in the clone, with the source's ids.

    Raises:
        UnsupportedError: no URI names the clone's folder.
    """
    ids = sorted({file.base_id for file in objects if file.base_id})
    bases = source.manifest.base_paths
    return tuple(
        table_pb2.BasePath(
            id=number, name=bases[number].name, path=f"{base_uri(target)}/{BASES}/{number}"
        )
        for number in ids
    )


def base_uri(table: Table) -> str:
    """Return the folder of a table or branch as a base path: a URI or an absolute local path.

    Raises:
        UnsupportedError: the table was opened by a store object with a prefix, which has no URI.
    """
    uri = table.store.uri_of(table.root.removeprefix(table.store.root))
    if uri is None:
        raise UnsupportedError(
            f"dataset {table.uri!r}: its store has a prefix, so that no URI names its files; open "
            f"it by a store without one"
        )
    return uri


def _exists(target: Table) -> AlreadyExistsError:
    if target.branch is None:
        return AlreadyExistsError(f"dataset {target.uri!r}: exists already")
    return AlreadyExistsError(
        f"dataset {target.uri!r}: the folder of branch {target.branch!r} has versions, perhaps of "
        f"a branch that was not made or deleted to the end; branches.delete(..., force=True) "
        f"removes them"
    )
