"""Transactions: the change from one version to the next.

The manifest's file and `_transactions/{name}.txn` hold the same protobuf message.
Source: docs/format/table.md, "Transactions".
"""

from __future__ import annotations

import uuid as uuids
from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.proto import copied, parsed, transaction_pb2
from alance.format.table.naming import MESSAGE_PROPERTY, transaction_name
from alance.format.table.operations import ARM_OF, OPERATION_BY_ARM, Unknown, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.table.operations import Operation

UNKNOWN_OPERATION: Final = "Unknown"
KEPT_SCHEMA: Final = frozenset(
    ("Append", "CreateIndex", "Delete", "ReserveFragments", "Rewrite", "Update")
)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Operation, with the version that it was computed from.

    Attributes:
        read_version: version that the operation was computed from; 0 for a creation.
        operation: name of the operation in the format (`Append`, `CreateIndex`, ...); `Unknown` if
            this release of alance does not know it. `change` has the operation itself.
        properties: entries recorded by the writer's user, including the commit message.
        message: the protobuf message, which must not be changed.
    """

    read_version: int
    uuid: str
    operation: str
    properties: Mapping[str, str]
    message: transaction_pb2.Transaction = field(repr=False)
    _content: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def from_protobuf(cls, message: transaction_pb2.Transaction) -> Transaction:
        """Wrap a message without a copy.

        Args:
            message: the protobuf message.
        """
        arm = message.WhichOneof("operation")
        operation = UNKNOWN_OPERATION if arm is None else OPERATION_BY_ARM[arm].__name__
        return cls(
            message.read_version,
            message.uuid,
            operation,
            dict(message.transaction_properties),
            message,
        )

    @classmethod
    def of(
        cls,
        change: Operation,
        *,
        read_version: int,
        uuid: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """Build a transaction.

        Args:
            change: the operation.
            read_version: version that the operation was computed from; 0 for a creation.
            properties: entries to record in the transaction.
            uuid: UUID of the transaction; None for a random one.

        Raises:
            InvalidInputError: a text has half of a surrogate pair.
        """
        try:
            message = transaction_pb2.Transaction(
                read_version=read_version,
                uuid=uuid or str(uuids.uuid4()),
                transaction_properties=dict(properties or {}),
            )
            _set_change(message, change)
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{type(change).__name__}: {error.object!r}: half of a surrogate pair is no text"
            ) from None
        return cls.from_protobuf(message)

    @property
    def change(self) -> Operation:
        """Operation, parsed from the message at each access."""
        arm = self.message.WhichOneof("operation")
        if arm is None:
            return Unknown(extra=unknown_fields(self.message))
        return OPERATION_BY_ARM[arm].from_protobuf(getattr(self.message, arm))

    @property
    def keeps_schema(self) -> bool:
        """True if the next version has the schema of the version before."""
        return self.operation in KEPT_SCHEMA

    @property
    def commit_message(self) -> str | None:
        """Commit message of the writer's user; None if there is none."""
        return self.properties.get(MESSAGE_PROPERTY)

    @property
    def file_name(self) -> str:
        """Name of its file inside `_transactions/`."""
        return transaction_name(self.read_version, self.uuid)

    def with_change(self, change: Operation, *, read_version: int | None = None) -> Transaction:
        """Return this transaction with another operation.

        Args:
            change: the operation.
            read_version: version that the operation was computed from; None to leave it unchanged.
        """
        message = copied(self.message)
        if read_version is not None:
            message.read_version = read_version
        _set_change(message, change)
        return Transaction.from_protobuf(message)

    def with_properties(self, properties: Mapping[str, str]) -> Transaction:
        """Return this transaction with additional properties.

        Args:
            properties: properties to add; they replace properties with the same keys.
        """
        message = copied(self.message)
        message.transaction_properties.update(properties)
        return Transaction.from_protobuf(message)

    def to_bytes(self) -> bytes:
        """Return the content of the transaction's file; serialized at the first call."""
        if not self._content:
            self._content.append(bytes(self.message.SerializeToString()))
        return self._content[0]


def _set_change(message: transaction_pb2.Transaction, change: Operation) -> None:
    arm = ARM_OF.get(type(change))
    if arm is None:
        message.MergeFromString(change.extra)
        return
    part = getattr(message, arm)
    part.Clear()  # of an earlier form
    part.SetInParent()  # mark an operation without content as present
    change._fill(part)


def parse_transaction(content: bytes | memoryview, where: str) -> Transaction:
    where = f"{where}: no transaction in its {len(content)} bytes"
    return Transaction.from_protobuf(parsed(transaction_pb2.Transaction, content, where))
