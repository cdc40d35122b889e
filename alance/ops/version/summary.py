"""Counts of a verb's effects, for `Dataset.summary`; docs/versions.md lists the keys."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

# Former keys of single verbs, by the key that has the same fact in all verbs.
RENAMED: Final[Mapping[str, str]] = {
    "num_rows_updated": "num_updated_rows",
    "num_data_files": "files_added",
    "indices": "segments_added",
}


class SummaryEntries(TypedDict, total=False):
    """The entries of a `ChangeSummary`, as keyword arguments."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int
    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int
    segments_added: int
    warnings: Sequence[str]


class _Count:
    """Descriptor of a count in a summary; 0 if the verb does not count it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, summary: Mapping[str, Any] | None, owner: type | None = None) -> int:
        return 0 if summary is None else int(summary.get(self._name, 0))


class ChangeSummary(dict[str, Any]):
    """Counts of the effects of a change, by name; a key means the same in every verb.

    The mapping has the keys that its verb counts. Each key is also an attribute, which is 0 if the
    verb does not count it. A renamed key can still be read by its old name, with a
    `DeprecationWarning`, but iteration yields only the new name.

    Attributes:
        num_inserted_rows: new rows of an insert, a write or a merge.
        num_updated_rows: rows that got new values from an update or a merge.
        num_deleted_rows: rows that a delete or a merge removed.
        fragments_removed: fragments that a compaction replaced.
        fragments_added: fragments that a compaction wrote.
        files_removed: data files and deletion files of the removed fragments.
        files_added: data files that a write, a compaction or new columns added.
        segments_added: index segments that `optimize_indices` wrote.
        warnings: sentences about indices that lost rows, and about fragments that were not
            rewritten.
    """

    num_inserted_rows = _Count()
    num_updated_rows = _Count()
    num_deleted_rows = _Count()
    fragments_removed = _Count()
    fragments_added = _Count()
    files_removed = _Count()
    files_added = _Count()
    segments_added = _Count()

    def __init__(self, **entries: Unpack[SummaryEntries]) -> None:
        super().__init__(entries)

    @property
    def warnings(self) -> Sequence[str]:
        texts: Sequence[str] = super().get("warnings", ())
        return texts

    def __missing__(self, key: str) -> Any:
        if (new := self._new_key(key)) is None:
            raise KeyError(key)
        return self[new]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key.

        Args:
            key: old or new name of the key.
            default: returned if the summary does not have the key.
        """
        return super().get(self._new_key(key) or key, default)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self._new_key(key) is not None

    def _new_key(self, key: object) -> str | None:
        """Return the new name of an old key, with a warning; None if there is no such count."""
        new = RENAMED.get(key) if isinstance(key, str) else None
        if new is None or not super().__contains__(new):
            return None
        text = f"summary key {key!r} is now {new!r}; the next release no longer has {key!r}"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
        return new
