"""Transactions as they were committed, read-only: what a version did to the one before it.

The same protobuf message lies in the manifest's file and in `_transactions/{name}.txn`.

Source: table format specification, "Transactions".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.proto import transaction_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

MESSAGE_PROPERTY: Final = "__lance_commit_message"
UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class Transaction:
    """What made a version.

    Attributes:
        read_version: the version that the operation was computed from; 0: a creation.
        operation: the operation's name as the format has it (`Append`, `CreateIndex`, ...);
            `Unknown` for one that this alance does not know.
        properties: what the writer's user noted, the commit message among it.
        message: the protobuf message as it came.
    """

    read_version: int
    uuid: str
    operation: str
    properties: Mapping[str, str]
    message: transaction_pb2.Transaction = field(repr=False)

    @classmethod
    def from_protobuf(cls, message: transaction_pb2.Transaction) -> Transaction:
        """From the message in a manifest's file."""
        arm = message.WhichOneof("operation")
        operation = UNKNOWN if arm is None else "".join(part.title() for part in arm.split("_"))
        return cls(
            message.read_version,
            message.uuid,
            operation,
            dict(message.transaction_properties),
            message,
        )

    @property
    def commit_message(self) -> str | None:
        """The message that the writer's user gave."""
        return self.properties.get(MESSAGE_PROPERTY)


def parse_transaction(content: bytes | memoryview, where: str) -> Transaction:
    """A transaction from its file.

    Raises:
        CorruptFileError: bytes that are no transaction.
    """
    try:
        message = transaction_pb2.Transaction.FromString(bytes(content))
    except DecodeError as error:
        raise CorruptFileError(
            f"{where}: no transaction in its {len(content)} bytes: {error}"
        ) from error
    return Transaction.from_protobuf(message)
