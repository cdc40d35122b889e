"""The messages of the format, as protoc makes them of `protos/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")


def copied(message: M) -> M:
    """A copy, to be changed. `copy.deepcopy` does the same in four times as long."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
