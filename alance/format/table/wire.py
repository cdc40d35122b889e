"""Base class of dataclasses that mirror protobuf messages and keep unknown fields.

An attribute has the name of its field in the message, or of the field in `NAMES`. Repeated fields
are tuples, maps are dicts, absent fields are None. `PARTS` names the attributes that are
dataclasses of this kind. The attribute `extra` has all other content of a message, serialized.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, Self

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from alance.base.records import dataclass

EXTRA_ATTRIBUTE = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Base class of dataclasses that mirror protobuf messages.

    Do not change messages that are attributes.

    Attributes:
        extra: serialized fields that this alance does not know.
    """

    MESSAGE: ClassVar[type[Message]]
    NAMES: ClassVar[Mapping[str, str]] = {}
    PARTS: ClassVar[Mapping[str, type[Wire]]] = {}

    extra: bytes = field(default=b"", repr=False)

    @classmethod
    def from_protobuf(cls, message: Message) -> Self:
        """Wrap a message. Messages inside are shared, not copied.

        Args:
            message: the protobuf message.
        """
        values: dict[str, Any] = {}
        for attribute in fields(cls):
            if attribute.name == EXTRA_ATTRIBUTE:
                continue
            name = cls.NAMES.get(attribute.name, attribute.name)
            values[attribute.name] = _value(
                message, name, cls.PARTS.get(attribute.name), is_optional=attribute.default is None
            )
        return cls(**values, extra=unknown_fields(message))

    def to_protobuf(self) -> Message:
        """Return a new message."""
        message = self.MESSAGE()
        if self.extra:
            message.MergeFromString(self.extra)
        for attribute in fields(self):
            value = getattr(self, attribute.name)
            if attribute.name != EXTRA_ATTRIBUTE and value is not None:
                _set(message, self.NAMES.get(attribute.name, attribute.name), value)
        return message


def unknown_fields(message: Message) -> bytes:
    """Serialize the top-level fields of a message that are unknown to its class."""
    if not message.DESCRIPTOR.fields:
        return bytes(message.SerializeToString())
    if not _has_unknown(message):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for descriptor in message.DESCRIPTOR.fields:
        rest.ClearField(descriptor.name)
    return bytes(rest.SerializeToString())


def _has_unknown(message: Message) -> bool:
    return len(UnknownFieldSet(message)) > 0


def _value(message: Message, name: str, part: type[Wire] | None, *, is_optional: bool) -> Any:
    value: Any = getattr(message, name)
    if hasattr(value, "items"):
        return {key: part.from_protobuf(value[key]) if part else value[key] for key in value}
    if hasattr(value, "extend"):
        return tuple(map(part.from_protobuf, value) if part else value)
    if is_optional and not message.HasField(name):
        return None
    return part.from_protobuf(value) if part else value


def _set(message: Message, name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        into = getattr(message, name)
        for key, item in value.items():
            if isinstance(item, Wire | Message):
                into[key].CopyFrom(_message(item))
            else:
                into[key] = item
    elif isinstance(value, tuple | list):
        is_wire = bool(value) and isinstance(value[0], Wire)
        getattr(message, name).extend(map(_message, value) if is_wire else value)
    elif isinstance(value, Wire | Message):
        getattr(message, name).CopyFrom(_message(value))
    else:
        setattr(message, name, value)


def _message(value: Any) -> Any:
    return value.to_protobuf() if isinstance(value, Wire) else value
