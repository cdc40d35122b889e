"""A new inverted index: its texts and its token settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from alance.base.checks import check_choice, unexpected
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.index.text.params import (
    ELEMENT_GRANULARITY,
    GRANULARITIES,
    ROW_GRANULARITY,
    TextParams,
    TokenArguments,
)
from alance.format.index.text.source import TextSource
from alance.ops.index.new import check_name, refuse_reuse
from alance.ops.index.values.sort import SORT_MEMORY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.field import Field
    from alance.format.index.text.params import Granularity
    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot


INVERTED: Final = "INVERTED"
TextIndexKind: TypeAlias = Literal["INVERTED", "FTS"]
TEXT_INDEX_DEFAULTS: Final[Mapping[str, Any]] = {
    "document_granularity": ROW_GRANULARITY,
    "memory_bytes": SORT_MEMORY_BYTES,
}


class TextIndexArguments(TokenArguments, total=False):
    """Keyword arguments of `create_index` for texts, besides those of `TokenArguments`.

    Attributes:
        with_position: store token positions, which phrase queries need.
        document_granularity: "row" or, for lists, "list_element": each element is a document, and a
            search returns a row for each matching element, with its position in the list.
        memory_bytes: size at which a partition of the index is written.
    """

    with_position: bool
    document_granularity: Granularity
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class NewTextIndex:
    """Description of an inverted index to create.

    Attributes:
        train: False to leave all fragments uncovered.
        of_elements: True if documents are list elements, not rows.
    """

    column: str
    name: str | None
    replace: bool
    train: bool
    params: TextParams
    memory_bytes: int
    of_elements: bool = False

    @classmethod
    def of(
        cls,
        column: str,
        name: str | None,
        arguments: Mapping[str, Any],
        *,
        replace: bool,
        train: bool = True,
    ) -> NewTextIndex:
        """Parse the arguments of `create_index` or `create_scalar_index`.

        Args:
            column, name, replace, train: as for `create_scalar_index`.
            arguments: see `TextIndexArguments`.

        Raises:
            TypeError: an unknown argument.
            InvalidInputError: an argument out of its range.
        """
        unknown = set(arguments) - set(TextIndexArguments.__annotations__)
        if unknown:
            raise unexpected(unknown, TextIndexArguments.__annotations__, "index of texts: ")
        settings = dict(arguments)
        memory = settings.pop("memory_bytes", TEXT_INDEX_DEFAULTS["memory_bytes"])
        if type(memory) is not int or memory < 1 << 16:
            raise InvalidInputError(f"memory_bytes={memory!r}: expected an integer from 65536 on")
        granularity = settings.pop(
            "document_granularity", TEXT_INDEX_DEFAULTS["document_granularity"]
        )
        check_choice("document_granularity", granularity, GRANULARITIES)
        of_elements = granularity == ELEMENT_GRANULARITY
        return cls(column, name, replace, train, TextParams.of(settings), memory, of_elements)


@dataclass(frozen=True, slots=True)
class CheckedText:
    """A new inverted index, checked against a version.

    Attributes:
        old: segments that it replaces.
    """

    column: str
    source: TextSource
    name: str
    old: tuple[table_pb2.IndexMetadata, ...]

    @property
    def leaf(self) -> Field:
        """Field of the indexed column."""
        return self.source.leaf

    @property
    def index_type(self) -> str:
        """Name of the kind, as in `Dataset.create_index`."""
        return INVERTED


def check_new_text(base: Snapshot, new: NewTextIndex) -> CheckedText:
    """Check that a version can have a new inverted index; return the index with its texts.

    Raises:
        UnsupportedError: a table with a fragment-reuse index; or element documents of lists that
            lie in structs in lists.
        InvalidInputError: an unknown column, or a column without texts.
        AlreadyExistsError: the name is in use.
    """
    refuse_reuse(base)
    column = base.schema.in_this_case(new.column)
    source = TextSource.of(base.schema, column)
    if new.of_elements:
        source.check_elements(column)
    name = new.name
    if name is None and new.of_elements:
        name = f"{'.'.join(base.schema.names_of(column))}_{ELEMENT_GRANULARITY}_idx"
    name, old = check_name(base, name, column, source.leaf, replace=new.replace)
    return CheckedText(column, source, name, old)
