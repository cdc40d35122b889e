"""Rules of a commit for tables of nothing but appends, for tests of the commit loop alone."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from alance.errors import CommitConflictError
from alance.format.proto import table_pb2, transaction_pb2
from alance.format.table.changes.conflicts import Rebased
from alance.format.table.manifest import MANIFEST_FOOTER, MANIFEST_MAGIC, SECTION_LENGTH, Manifest
from alance.format.table.naming import transaction_name
from alance.format.table.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence


def append(read_version: int, paths: Sequence[str]) -> Transaction:
    """A transaction that adds a fragment of one row for each path."""
    message = transaction_pb2.Transaction(read_version=read_version, uuid=str(uuid.uuid4()))
    for path in paths:
        fragment = message.append.fragments.add(physical_rows=1)
        fragment.files.add(path=path, fields=[0], column_indices=[0], file_major_version=2)
    message.append.SetInParent()
    return Transaction.from_protobuf(message)


def paths_of(manifest: Manifest) -> list[str]:
    """The paths of a version's data files, in order."""
    return [file.path for fragment in manifest.fragments for file in fragment.files]


class AppendRules:
    """Appends get along; what adds a path that begins with "!" conflicts with everything."""

    def transaction_bytes(self, transaction: Transaction) -> bytes:
        """The message."""
        return bytes(transaction.message.SerializeToString())

    async def rebase(self, ours: Transaction, newer: Manifest, base: Manifest) -> Rebased:
        """The same transaction."""
        assert newer.version == base.version + 1
        for fragment in ours.message.append.fragments:
            if fragment.files[0].path.startswith("!"):
                raise CommitConflictError(f"version {newer.version}: rules ours out")
        return Rebased(ours)

    async def next_manifest(
        self, previous: Manifest | None, transaction: Transaction, version: int
    ) -> bytes:
        """The fragments of before, and the new ones."""
        message = table_pb2.Manifest()
        if previous is None:
            field = message.fields.add(name="a", parent_id=-1, logical_type="int64", nullable=True)
            field.id = 0
            message.data_format.file_format = "lance"
            message.data_format.version = "2.0"
        else:
            message.CopyFrom(previous.message)
        message.version = version
        for added in transaction.message.append.fragments:
            fragment = message.fragments.add()
            fragment.CopyFrom(added)
            fragment.id = len(message.fragments) - 1
            message.max_fragment_id = fragment.id
        message.transaction_file = transaction_name(transaction.read_version, transaction.uuid)
        inline = self.transaction_bytes(transaction)
        message.transaction_section = 0
        body = message.SerializeToString()
        start = SECTION_LENGTH.size + len(inline)
        footer = MANIFEST_FOOTER.pack(start, 0, 2, MANIFEST_MAGIC)
        return b"".join(
            (SECTION_LENGTH.pack(len(inline)), inline, SECTION_LENGTH.pack(len(body)), body, footer)
        )
