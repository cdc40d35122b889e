"""Options of a merge, before it has met a table."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from alance.errors import InvalidInputError
from alance.ops.version.options import MERGE_BYTES, BaseOptions, CommitOptions
from alance.records import dataclass

if TYPE_CHECKING:
    from alance.file_version import FileVersion
    from alance.ops.version.conditions import Bound

WhenMatched: TypeAlias = Literal["nothing", "update", "delete", "fail"]
WriteMode: TypeAlias = Literal["auto", "rewrite_rows", "rewrite_columns"]

CONFLICT_RETRIES: Final = 10
RETRY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A merge before it has met a table.

    Attributes:
        on: the key columns; None: those of the table's primary key.
        when_matched: what happens to target rows that match.
        condition: of matched rows that are updated; SQL text with `source.` and `target.`.
        inserts: source rows that do not match are added.
        deletes_others: target rows that do not match are deleted.
        others: of those, the ones for which this SQL text is true; None: all.
        conflict_retries: times that all is done again where others changed the same rows.
        retry_seconds: after that long no attempt is begun or gone on with, but for the first.
        memory_bytes: of keys, and of source rows that are held; beyond it they are on the disk.
        bases: base paths that files of new fragments go to.
    """

    on: tuple[str, ...] | None = None
    when_matched: WhenMatched = "nothing"
    condition: str | Bound | None = None
    inserts: bool = False
    deletes_others: bool = False
    others: str | Bound | None = None
    conflict_retries: int = CONFLICT_RETRIES
    retry_seconds: float = RETRY_SECONDS
    memory_bytes: int = MERGE_BYTES
    write_mode: WriteMode = "auto"
    data_storage_version: FileVersion | None = None
    commit: CommitOptions = field(default_factory=CommitOptions)
    bases: BaseOptions = field(default_factory=BaseOptions)

    def check(self) -> None:
        """
        Raises:
            InvalidInputError: it does nothing.
        """
        if self.when_matched == "nothing" and not self.inserts and not self.deletes_others:
            raise InvalidInputError(
                "merge_insert: nothing to do; say what happens to rows that match, or do not, by "
                "when_matched_update_all, when_not_matched_insert_all, ..."
            )
