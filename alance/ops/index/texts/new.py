"""An inverted index that is to be made: of what texts, and how they become tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.checks import check_choice, unexpected
from alance.errors import InvalidInputError
from alance.format.index.text.params import (
    GRANULARITIES,
    LIST_ELEMENT,
    ROW,
    TextParams,
    TokenArguments,
)
from alance.format.index.text.source import TextSource
from alance.ops.index.new import check_name, refuse_reuse
from alance.ops.index.values.sort import MEMORY
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.ops.version.snapshot import Snapshot


INVERTED: Final = "INVERTED"


class TextIndexArguments(TokenArguments, total=False):
    """Keyword arguments of `create_index` for texts, besides those of `TokenArguments`.

    Attributes:
        with_position: store the positions of words, which phrases need.
        document_granularity: unit of the search: "row"; for lists also "list_element": each element
            is a document, and a search gives a row for each matching element, with its place in the
            list.
        memory_bytes: of a partition of the index before it is written.
    """

    with_position: bool
    document_granularity: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class NewTextIndex:
    """Description of an inverted index to be made.

    Attributes:
        train: False: it does not cover any fragment yet.
        of_elements: its documents are the elements of lists, not rows.
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
        told = dict(arguments)
        memory = told.pop("memory_bytes", MEMORY)
        if type(memory) is not int or memory < 1 << 16:
            raise InvalidInputError(f"memory_bytes={memory!r}: expected an integer from 65536 on")
        granularity = told.pop("document_granularity", ROW)
        check_choice("document_granularity", granularity, GRANULARITIES)
        of_elements = granularity == LIST_ELEMENT
        return cls(column, name, replace, train, TextParams.of(told), memory, of_elements)


@dataclass(frozen=True, slots=True)
class CheckedText:
    """A new inverted index on a version that it can be made of.

    Attributes:
        old: the segments that it replaces.
    """

    column: str
    source: TextSource
    name: str
    old: tuple[table_pb2.IndexMetadata, ...]

    @property
    def leaf(self) -> Field:
        """The field that the index is on."""
        return self.source.leaf

    @property
    def index_type(self) -> str:
        """As `Dataset.create_index` names it."""
        return INVERTED


def check_new_text(base: Snapshot, new: NewTextIndex) -> CheckedText:
    """The index as it would be made of a version.

    Raises:
        UnsupportedError: a table whose indices are translated late; elements of lists in structs in
            lists as documents.
        InvalidInputError: an unknown column, or one without texts.
        AlreadyExistsError: the name is in use.
    """
    refuse_reuse(base)
    column = base.schema.in_this_case(new.column)
    source = TextSource.of(base.schema, column)
    if new.of_elements:
        source.check_elements(column)
    name = new.name
    if name is None and new.of_elements:
        name = f"{'.'.join(base.schema.names_of(column))}_{LIST_ELEMENT}_idx"
    name, old = check_name(base, name, column, source.leaf, replace=new.replace)
    return CheckedText(column, source, name, old)
