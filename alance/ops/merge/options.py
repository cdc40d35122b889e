"""Options of a merge, independent of a table."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.ops.version.options import MERGE_BYTES, BaseOptions, CommitOptions
from alance.ops.write.options import Limits

if TYPE_CHECKING:
    from alance.file_version import FileVersion
    from alance.ops.version.conditions import Bound

WhenMatched: TypeAlias = Literal["nothing", "update", "delete", "fail"]
WriteMode: TypeAlias = Literal["auto", "rewrite_rows", "rewrite_columns"]

CONFLICT_RETRIES: Final = 10
RETRY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Plan of a merge, independent of a table.

    Attributes:
        on: key columns; None: the columns of the table's primary key.
        when_matched: action on target rows that match.
        condition: SQL text over `source.` and `target.` columns that matched rows must satisfy to
            be updated; None: all matched rows are updated.
        inserts: True if unmatched source rows are inserted.
        deletes_others: True if unmatched target rows are deleted.
        others: SQL text that unmatched target rows must satisfy to be deleted; None: all unmatched
            target rows are deleted.
        conflict_retries: number of retries after other commits changed the same rows.
        retry_seconds: time after which no retry continues; the first attempt is never stopped.
        memory_bytes: memory for keys and source rows; the rest is spilled to the disk.
        use_index: True to look up a few keys by an index of a key column instead of a scan.
        write_mode: `rewrite_columns` to write only new columns of the same fragments;
            `rewrite_rows` or `auto` to write whole rows to new fragments.
        data_storage_version: file version of new files; None: the table's version.
        commit: options of the commit.
        bases: base paths for files of new fragments.
        limits: limits of new files.
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
    use_index: bool = True
    write_mode: WriteMode = "auto"
    data_storage_version: FileVersion | None = None
    commit: CommitOptions = field(default_factory=CommitOptions)
    bases: BaseOptions = field(default_factory=BaseOptions)
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Check that the plan has an effect.

        Raises:
            InvalidInputError: the plan has no effect.
        """
        if self.when_matched == "nothing" and not self.inserts and not self.deletes_others:
            raise InvalidInputError(
                "merge_insert: nothing to do; say what happens to rows that match, or do not, by "
                "when_matched_update_all, when_not_matched_insert_all, ..."
            )
