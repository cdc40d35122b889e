"""Schema: the tree of fields with their ids; conversion from protobuf, and from and to Arrow.

The format stores the tree as a depth-first list whose entries refer to their parent. A projection
keeps the ids, so that its fields can be found in files.

Source: docs/format/table.md, "Field"; docs/format/file.md, "Logical types".
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from alance.base.checks import did_you_mean, some_columns
from alance.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidInputError,
    UnsupportedError,
)
from alance.format.field import JSON_EXTENSION, Field, field_paths, set_keys
from alance.format.paths import join_path, split_path
from alance.format.proto import file_pb2
from alance.format.types import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    MAX_FIELD_DEPTH,
    SIMPLE,
    is_nested,
    leaf_type,
    logical_type,
    parameters_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from alance import _kernels

T = TypeVar("T")
MAX_REMEMBERED: Final = 256

# Names of meta columns, which reads can add; no other column may have such a name.
RESERVED_NAMES: Final = (
    "_rowid",
    "_rowaddr",
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
)


def check_not_reserved(names: Iterable[str]) -> None:
    """Check the names of new top-level columns of a table."""
    for name in names:
        if name in RESERVED_NAMES:
            raise InvalidInputError(
                f"column {name!r}: the name is reserved, reads give it beside the columns of a "
                "table; drop the column or rename it"
            )


def check_null_characters(name: str) -> None:
    """Refuse null characters in the name of a new field, because they would make pylance abort."""
    if "\0" in name:
        raise InvalidInputError(f"field {name!r}: a name has no null characters; rename it")


class UnbuiltFields:
    """Top-level fields of a wide table; each `Field` is built on first access."""

    def __init__(self, messages: Sequence[file_pb2.Field], fields: _kernels.SchemaFields) -> None:
        self.num_fields = len(fields)
        self._messages = messages
        self._fields = fields
        self._built: dict[int, Field] = {}

    def named(self, name: str) -> Field | None:
        """Return the first field with a name; None if there is none."""
        try:
            number = self._fields.find(name)
        except TypeError:  # a name of another type than text has no field
            return None
        return None if number < 0 else self._at(number)

    def all(self) -> tuple[Field, ...]:
        return tuple([self._at(number) for number in range(len(self._fields))])

    def logical_arrow(self) -> pa.Schema:
        """Return the Arrow schema of all fields; builds a `Field` only for fields with metadata."""
        parsed = self._fields
        kinds = [
            _build(file_pb2.Field(logical_type=text), {}, 0).logical_arrow()
            for text in parsed.types
        ]
        schema = parsed.arrow(kinds)
        if parsed.marked:
            fields = [*schema]
            for number in parsed.marked:
                fields[number] = self._at(number).logical_arrow()
            schema = pa.schema(fields)
        return schema

    def _at(self, number: int) -> Field:
        field = self._built.get(number)
        if field is None:
            field = self._built[number] = _build(self._messages[number], {}, 0)
        return field


class Remembered(dict[Any, Any]):
    """Memo of values derived from an immutable object. Thread-safe.

    It is cleared when it has `MAX_REMEMBERED` values. Pickled copies are empty.
    """

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the memoized value of a key; compute it if it is missing."""
        remembered: T | None = self.get(key)
        if remembered is None:
            remembered = make()
            if len(self) >= MAX_REMEMBERED:
                self.clear()
            self[key] = remembered
        return remembered

    def __reduce__(self) -> tuple[Any, ...]:
        return Remembered, ()


class Schema:
    """Top-level fields of a table or file, with the schema's metadata. Immutable.

    Attributes:
        remember: memo of values derived from this schema; a table's versions share it.
    """

    __slots__ = (
        "__weakref__",
        "_by_name",
        "_fields",
        "_num_fields",
        "_unbuilt",
        "metadata",
        "remember",
    )

    def __init__(
        self, fields: tuple[Field, ...] | UnbuiltFields, metadata: Mapping[str, str]
    ) -> None:
        self._fields = fields if isinstance(fields, tuple) else None
        self._unbuilt = fields if isinstance(fields, UnbuiltFields) else None
        self.metadata = metadata
        self._by_name: dict[str, Field] = {}
        self._num_fields = -1  # unknown
        self.remember = Remembered()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self.fields == other.fields and self.metadata == other.metadata

    def __hash__(self) -> int:
        return hash(tuple([field.id for field in self.fields]))

    def __repr__(self) -> str:
        return f"Schema(fields={self.fields!r}, metadata={self.metadata!r})"

    @property
    def fields(self) -> tuple[Field, ...]:
        if self._fields is None:
            assert self._unbuilt is not None
            self._fields = self._unbuilt.all()
        return self._fields

    def top(self, name: str) -> Field | None:
        """Return the top-level field with a name; None if there is none."""
        if self._fields is None and self._unbuilt is not None:
            return self._unbuilt.named(name)
        return self.by_name.get(name)

    @classmethod
    def of_manifest(
        cls,
        messages: Sequence[file_pb2.Field],
        metadata: Mapping[str, bytes],
        fields: _kernels.SchemaFields | None,
    ) -> Schema:
        """Build a schema as `from_protobuf`, with lazily built fields if all have common types.

        Args:
            fields: the messages as parsed by the kernel; None if the kernel refused them.
        """
        if fields is None or not all(map(_is_known, fields.types)):
            return cls.from_protobuf(messages, metadata)
        texts = {key: _text(value, key) for key, value in metadata.items()}
        return cls(UnbuiltFields(messages, fields), texts)

    @classmethod
    def from_protobuf(
        cls, fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes]
    ) -> Schema:
        """Build a schema from the depth-first list of a manifest or file.

        Accepts fields with an unknown logical type; access to their Arrow type raises
        `UnsupportedError`.
        """
        seen: set[int] = set()
        children: dict[int, list[file_pb2.Field]] = {}
        last_struct = -1
        for message in fields:
            number, parent = message.id, message.parent_id
            if number < 0:
                # Fields of blob descriptions in a file's own schema belong to the preceding struct.
                children.setdefault(last_struct, []).append(message)
                continue
            if number in seen:
                raise CorruptFileError(f"field {message.name!r}: id {number} is used twice")
            if parent != -1 and parent not in seen:
                raise CorruptFileError(
                    f"field {message.name!r}: its parent {parent} does not come before it"
                )
            seen.add(number)
            children.setdefault(parent, []).append(message)
            if is_nested(message.logical_type):
                last_struct = number
        tree = tuple(_build(message, children, 0) for message in children.get(-1, ()))
        texts = {key: _text(value, key) for key, value in metadata.items()}
        return cls(tree, texts)

    @classmethod
    def from_arrow(cls, schema: pa.Schema) -> Schema:
        """Build a schema for new files. Ids are assigned from 0, depth-first.

        Raises:
            InvalidInputError: a name is duplicate or has null characters, a top-level name has
                dots, or metadata or extension parameters are not UTF-8.
        """
        messages: list[file_pb2.Field] = []
        for name, count in Counter(field.name for field in schema).items():
            if count > 1:
                raise InvalidInputError(f"field {name!r} is there twice")
            if "." in name:
                raise InvalidInputError(f"field {name!r}: top-level names have no dots")
        for field in schema:
            _append(messages, field, -1)
        metadata = _texts(schema.metadata, "the schema")
        built = cls.from_protobuf(messages, {key: text.encode() for key, text in metadata.items()})
        for built_field in built.walk():
            if built_field.logical_type not in SIMPLE:
                built_field.arrow_type  # noqa: B018  # raises if alance could not read the type
        return built

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema of the table; memoized."""
        return self.remember(Schema, self._to_arrow)

    def _to_arrow(self) -> pa.Schema:
        metadata = dict(self.metadata) or None
        if self._fields is None and self._unbuilt is not None:
            return self._unbuilt.logical_arrow().with_metadata(metadata)
        return pa.schema([field.logical_arrow() for field in self.fields], metadata=metadata)

    def known_arrow(self) -> pa.Schema:
        """Return the Arrow schema of the fields with known types, which expressions can use."""
        try:
            return self.to_arrow()
        except UnsupportedError:
            return self.remember(Schema.known_arrow, self._known_arrow)

    def _known_arrow(self) -> pa.Schema:
        fields = []
        for field in self.fields:
            with suppress(UnsupportedError):
                fields.append(field.logical_arrow())
        return pa.schema(fields, metadata=dict(self.metadata) or None)

    def read_arrow(self) -> pa.Schema:
        """Return the Arrow schema of read batches; memoized."""
        return self.remember(
            Schema.read_arrow, lambda: pa.schema([field.to_arrow() for field in self.fields])
        )

    def walk(self) -> Iterator[Field]:
        """Yield all fields, depth-first."""
        for field in self.fields:
            if field.children:
                yield from field.walk()
            else:  # most tables have only such fields
                yield field

    @property
    def messages(self) -> tuple[file_pb2.Field, ...]:
        """Fields as in a manifest: a depth-first list with ids."""
        return tuple([field.message for field in self.walk()])

    @property
    def by_name(self) -> Mapping[str, Field]:
        """Top-level fields by name; for duplicate names, the first field."""
        if not self._by_name:  # threads see all names or none
            self._by_name = {field.name: field for field in reversed(self.fields)}
        return self._by_name

    @property
    def num_fields(self) -> int:
        """Number of fields at all depths."""
        if self._num_fields < 0:
            unbuilt = None if self._fields is not None else self._unbuilt
            self._num_fields = unbuilt.num_fields if unbuilt is not None else len([*self.walk()])
        return self._num_fields

    def field_by_id(self, field_id: int) -> Field | None:
        """Return the field with an id, at any depth; None if there is none."""
        return next((field for field in self.walk() if field.id == field_id), None)

    def field(self, path: str) -> Field:
        """Return a field by its name or by its path, in the form of `alance.format.paths`.

        Raises:
            ColumnNotFoundError: there is no such field. The message suggests similar names.
        """
        names = self.names_of(path)
        field: Field | None = None
        candidates: Sequence[Field] = ()
        for depth, name in enumerate(names):
            if depth == 0:
                field = self.top(name)
            else:
                field = next((child for child in candidates if child.name == name), None)
            if field is None:
                others = candidates if depth else self.fields
                beside = [candidate.name for candidate in others]
                hint = did_you_mean(name, beside)
                if not hint and beside:
                    hint = f"; there {'are' if len(beside) > 1 else 'is'} {some_columns(beside)}"
                below = f" in {join_path(names[:depth])!r}" if depth else ""
                message = f"column {path!r}: no field {name!r}{below}{hint}"
                raise ColumnNotFoundError(message, path)
            candidates = field.children
        assert field is not None  # because a path has at least one name
        return field

    def names_of(self, path: str) -> tuple[str, ...]:
        """Split a path into names, with the column's name first.

        A path that equals the name of a column is not split, even if it has dots or backticks.
        """
        if not isinstance(path, str):
            raise InvalidInputError(f"column {path!r}: expected a name or a path")
        if ("." in path or "`" in path) and self.top(path) is not None:
            return (path,)
        return split_path(path)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Paths of the table's primary key, in key order; empty if there is none."""
        keys = sorted(
            (field.message.unenforced_primary_key_position, field.id, path)
            for path, field in field_paths(self.fields)
            if field.message.unenforced_primary_key
        )
        return tuple(join_path(path) for _, _, path in keys)

    @property
    def paths(self) -> dict[int, str]:
        """Path of each field by id, depth-first."""
        return {field.id: join_path(path) for path, field in field_paths(self.fields)}

    def in_this_case(self, path: str) -> str:
        """Match a path case-insensitively, and return it with the case of the fields' names.

        Prefers exact matches. Returns a path unchanged if it is missing or ambiguous.
        """
        names: list[str] = []
        candidates: Sequence[Field] = self.fields
        for name in self.names_of(path):
            alike = [
                candidate for candidate in candidates if candidate.name.lower() == name.lower()
            ]
            exact = [candidate for candidate in alike if candidate.name == name]
            if len(exact or alike) != 1:
                return path
            (field,) = exact or alike
            names.append(field.name)
            candidates = field.children
        return join_path(names)

    def project(self, paths: Iterable[str], *, is_stored: bool = True) -> Schema:
        """Return the schema with only the fields at `paths`, and their ancestors.

        Top-level fields are in the order of their first path; children keep their order. The
        projection is memoized.

        Args:
            is_stored: True to keep all members of packed structs, because they share a column.

        Raises:
            ColumnNotFoundError: there is no such field.
        """
        named = tuple(paths)
        own = self._fields or ()
        is_all = len(named) == len(own) == len(self.by_name) if own else False
        if is_all and named == tuple([field.name for field in own]):
            return self
        key = (Schema.project, named, is_stored)
        return self.remember(key, lambda: self._project(named, is_stored))

    def _project(self, paths: Sequence[str], is_stored: bool) -> Schema:
        tails_of: dict[str, list[list[str]]] = {}
        for path in paths:
            self.field(path)
            top, *rest = self.names_of(path)
            tails_of.setdefault(top, []).append(rest)
        tops = [(self.top(name), tails) for name, tails in tails_of.items()]
        # `field` has checked that all exist
        fields = [_prune(top, tails, is_stored=is_stored) for top, tails in tops if top is not None]
        return Schema(tuple(fields), self.metadata)


def _prune(field: Field, tails: list[list[str]], *, is_stored: bool) -> Field:
    if (is_stored and field.is_packed) or any(not tail for tail in tails):
        return field
    retained = []
    for child in field.children:
        below = [tail[1:] for tail in tails if tail[0] == child.name]
        if below:
            retained.append(_prune(child, below, is_stored=is_stored))
    return replace(field, children=tuple(retained))


def _is_known(logical_type: str) -> bool:
    """True for a known type without child fields."""
    if logical_type in SIMPLE:
        return True
    try:
        return not is_nested(logical_type) and leaf_type(logical_type) is not None
    except UnsupportedError:
        return False


def _build(
    message: file_pb2.Field, children: Mapping[int, Sequence[file_pb2.Field]], depth: int
) -> Field:
    if depth > MAX_FIELD_DEPTH:
        raise CorruptFileError(f"field {message.name!r}: more than {MAX_FIELD_DEPTH} levels deep")
    metadata: dict[str, str] = {}
    if len(message.metadata):  # usually empty, and slow to access
        metadata = {key: _text(value, message.name) for key, value in message.metadata.items()}
    number = message.id
    below = children.get(number) if number >= 0 else None
    built = Field(
        message.name,
        number,
        message.parent_id,
        message.logical_type,
        message.nullable,
        metadata,
        tuple([_build(child, children, depth + 1) for child in below]) if below else (),
        message,
    )
    if built.logical_type in SIMPLE:
        return built
    try:
        built.arrow_type  # noqa: B018  # raises on an unknown type
    except UnsupportedError:
        pass  # raised again when this column is read; other columns stay readable
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise CorruptFileError(f"field {message.name!r}: {error}") from error
    return built


def _text(value: bytes, where: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"metadata of {where!r}: no UTF-8: {error}") from error


def _texts(metadata: Mapping[bytes, bytes] | None, where: str) -> dict[str, str]:
    """Decode the metadata of a schema or field to write, because the format stores text."""
    texts = {}
    for key, value in (metadata or {}).items():
        try:
            texts[key.decode()] = value.decode()
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"metadata of {where}: {key!r} or its value is no UTF-8; encode bytes, as base64"
            ) from error
    return texts


_TEXTS: Final = ("string", "large_string", "binary", "large_binary", "json")
_ENCODINGS: Final = {
    **dict.fromkeys(("struct", "null"), file_pb2.NONE),
    **dict.fromkeys(_TEXTS, file_pb2.VAR_BINARY),
}


def _append(
    messages: list[file_pb2.Field], field: pa.Field, parent_id: int, depth: int = 0
) -> None:
    if depth > MAX_FIELD_DEPTH:
        raise InvalidInputError(f"field {field.name!r}: more than {MAX_FIELD_DEPTH} levels deep")
    check_null_characters(field.name)
    metadata = _texts(field.metadata, f"field {field.name!r}")
    arrow = field.type
    if isinstance(arrow, pa.BaseExtensionType):
        is_json = arrow.extension_name == "arrow.json"
        metadata[EXTENSION_NAME] = JSON_EXTENSION if is_json else arrow.extension_name
        parameters = {EXTENSION_METADATA.encode(): parameters_of(arrow)}
        metadata |= _texts(parameters, f"field {field.name!r}")
        arrow = arrow.storage_type
    name = "json" if metadata.get(EXTENSION_NAME) == JSON_EXTENSION else logical_type(arrow)
    message = file_pb2.Field(
        name=field.name,
        id=len(messages),
        parent_id=parent_id,
        logical_type=name,
        nullable=field.nullable,
        encoding=file_pb2.DICTIONARY
        if name.startswith("dict:")
        else _ENCODINGS.get(name, file_pb2.PLAIN),
    )
    if metadata:  # few fields have metadata
        message.extension_name = metadata.get(EXTENSION_NAME, "")
        message.metadata.update({key: text.encode() for key, text in metadata.items()})
        set_keys(message)
    if name.startswith("dict:"):
        message.dictionary.SetInParent()  # required by older readers, even if empty
    messages.append(message)
    if not is_nested(name):
        return
    below = [arrow.field(i) for i in range(arrow.num_fields)]
    for child in below:
        _append(messages, child, message.id, depth + 1)
