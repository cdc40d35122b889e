"""Choice of the inverted index for a search, and of the fragments that it covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import UnsupportedError
from alance.format.index.text.metadata import TEXT_METADATA_FILE
from alance.format.index.text.params import is_of_elements, lacks_positions
from alance.format.index.text.source import TextSource, text_paths
from alance.format.paths import join_path
from alance.format.table.indices import TEXT_KIND, Index, kind_of
from alance.ops.read.plan import chosen
from alance.ops.search.segments import Way, best_way

if TYPE_CHECKING:
    from alance.format.field import Field
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.snapshot import Snapshot

REMEDY: Final = "create the index again, or search all texts, as plain words, by use_index=False"
TEXT_VERSIONS: Final = (0, 1, 2, 3)  # 0: an index of token rows that pylance extended


@dataclass(frozen=True, slots=True)
class TextWay(Way):
    """Plan of a text search in a column: index segments to search, and fragments to scan.

    Attributes:
        of_elements: True if documents are list elements, not rows.
        segments: index segments to search; empty if all texts are read.
        uncovered: fragments whose texts are all read, because no segment covers them.
        lines: texts for `explain`.
        words: index whose token settings apply if no segment is searched; None if there is no
            index.
        without_positions: name of the column's index if no fragment is searched and the index has
            no token positions, so that a phrase query is refused; else empty.
    """

    column: str
    of_elements: bool
    words: Index | None = None
    without_positions: str = ""


def indexed_columns(snapshot: Snapshot) -> list[str]:
    """Return the columns with an inverted index of rows, in the order of the schema."""
    granularities = indexed_granularities(snapshot)
    return [column for column, granularity in granularities.items() if False in granularity]


def indexed_granularities(snapshot: Snapshot) -> dict[str, set[bool]]:
    """Return the granularities of each indexed column's indices: True for list elements."""
    return snapshot.remember(indexed_granularities, lambda: _indexed_granularities(snapshot))


def _indexed_granularities(snapshot: Snapshot) -> dict[str, set[bool]]:
    fields: dict[int, set[bool]] = {}
    for message in snapshot.manifest.indices:
        if len(message.fields) == 1 and kind_of(message) == TEXT_KIND:
            of_elements = is_of_elements(message.index_details.value)
            fields.setdefault(message.fields[0], set()).add(of_elements)
    paths = text_paths(snapshot.schema.fields)
    return {join_path(path): fields[number] for number, path in paths.items() if number in fields}


def text_way(
    snapshot: Snapshot,
    column: str,
    options: ScanOptions,
    *,
    of_elements: bool = False,
    use_index: bool = True,
) -> TextWay:
    """Choose the segments and fragments of a column's search, without I/O. Memoized.

    Args:
        of_elements: True if documents are list elements, not rows.

    Raises:
        InvalidInputError: a fragment does not exist.
        UnsupportedError: the column has segments, but this release cannot read any of them.
        CorruptFileError: index metadata contradicts the format.
    """
    fragments = None if options.fragments is None else tuple(options.fragments)
    key = (text_way, column, fragments, options.fast_search, of_elements, use_index)
    return snapshot.remember(
        key, lambda: _text_way(snapshot, column, options, of_elements, use_index)
    )


def _text_way(
    snapshot: Snapshot, column: str, options: ScanOptions, of_elements: bool, use_index: bool
) -> TextWay:
    def metric_of(index: Index) -> str | None:
        return "" if is_of_elements(index.message.index_details.value) == of_elements else None

    leaf = TextSource.of(snapshot.schema, column).leaf
    way = best_way(snapshot, options, leaf, TEXT_KIND, _fault, metric_of, [], use_index=use_index)
    lines = list(way.lines)
    if way.uncovered:
        lines.append(f"every text of {len(way.uncovered)} fragments is read")
    words, lacking = None, ""
    if use_index and not way.segments:
        # The index covers none of these rows, but its token settings still apply to them.
        others = _others(snapshot, leaf, of_elements)
        words = others[-1] if others else None
        if not chosen(snapshot, options):
            lack = [lacks_positions(index.message.index_details.value) for index in others]
            lacking = others[0].name if lack and all(lack) else ""
    if words is not None:
        lines.append(f"index {words.name}: its settings split texts into words")
    parts = (way.metric, way.segments, way.uncovered, tuple(lines))
    return TextWay(*parts, column, of_elements, words, lacking)


def _others(snapshot: Snapshot, leaf: Field, of_elements: bool) -> list[Index]:
    """Return the readable segments of a column's text indices, sorted by index name, Z to A.

    The segments of an index stay in the order of the manifest.

    Raises:
        UnsupportedError: there are text indices, but none is readable.
    """
    indices = [
        index
        for index in map(Index.from_protobuf, snapshot.manifest.indices)
        if list(index.message.fields) == [leaf.id]
        and index.kind == TEXT_KIND
        and is_of_elements(index.message.index_details.value) == of_elements
    ]
    readable = [index for index in indices if not _fault(index)]
    if indices and not readable:
        raise UnsupportedError(f"index {indices[0].name}: {_fault(indices[0])}; {REMEDY}")
    return sorted(readable, key=lambda index: index.name, reverse=True)


def _fault(index: Index) -> str:
    message = index.message
    if message.index_version not in TEXT_VERSIONS:
        return f"version {message.index_version} of inverted indices"
    if message.files and TEXT_METADATA_FILE not in {file.path for file in message.files}:
        return f"its files are {sorted(file.path for file in message.files)}"
    return ""
