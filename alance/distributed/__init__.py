"""Functions for engines that distribute work on a table, such as Spark, Ray or Dask.

They complement `alance.write_fragments`, `alance.commit`, `Compaction`, `IndexBuild` and the
methods of `DatasetFragment`:

- a version sent from a driver to tasks, which read no manifest: `version_record` and `open_record`;
a dataset usable in any event loop: `in_any_loop`;
- a scan in splits of about equal bytes: `plan_splits`, `read_split` and `member_paths`; rows that a
filter may keep, by indices and statistics: `select_rows`; least and greatest values:
`read_extremes`;
- rows that versions added, for readers that follow a table: `added_by`; columns that were renamed
or added meanwhile: `ColumnsAcross`;
- commits that take effect only once, however often a driver repeats them: `producer_properties` and
`last_sequence`; the state of a failed commit: `may_be_visible`; removal of files that no version
will name: `remove_data_files`;
- records of data files that were written singly: `create_data_file`, and
`DatasetFragment.create_from_file`;
- new columns, one task per fragment: `ColumnBackfill`, and `BackfillNotes` to continue after an
interruption;
- rows selected on executors, to delete or replace in one commit: `delete_rows`, `replace_rows`,
`RowUpdate`, `SourceGaps`; keys that concurrent merges must insert only once: `inserted_keys`; row
ids of rows that a custom transaction moves: `with_row_ids`, `row_ids_of`;
- maintenance by a policy, whose tasks `Workers` run: `maintain`;
- catalogs that are folders of tables: `list_folders`, `list_tables`, `is_table`, `move_table`,
`remove_folder`.

Everything that is sent to tasks can be pickled. All functions accept and return the objects of
`alance`.
"""

from alance.data_files import create_data_file
from alance.distributed.changes import Added, added_by, last_sequence
from alance.distributed.evolution import ColumnsAcross
from alance.distributed.folders import (
    is_table,
    list_folders,
    list_tables,
    move_table,
    remove_folder,
)
from alance.distributed.maintaining import maintain
from alance.distributed.notes import BackfillNotes
from alance.distributed.row_ids import row_ids_of, with_row_ids
from alance.distributed.selecting import SelectedRows, select_rows
from alance.distributed.splits import (
    Piece,
    check_filter,
    field_ids,
    fragment_bytes,
    fragments_of,
    in_any_loop,
    member_paths,
    open_record,
    plan_splits,
    read_extremes,
    read_split,
    version_record,
)
from alance.distributed.updates import RowUpdate
from alance.distributed.worker import WorkerLoop
from alance.distributed.writing import (
    ColumnBackfill,
    SourceGaps,
    append_schema,
    delete_rows,
    get_object,
    has_fields_of,
    inserted_keys,
    new_table,
    producer_properties,
    put_object,
    put_once,
    release_memory,
    remove_data_files,
    replace_rows,
)
from alance.io.opening.access import is_for_base
from alance.ops.index.extend import ExtensionResult, ExtensionTask
from alance.ops.maintain.run import Workers
from alance.ops.merge.inserted import InsertedKeys
from alance.ops.version.projection import META, ROW_ADDRESS, ROW_ID
from alance.ops.write.sources import conform
from alance.versioning.backoff import MAX_RETRIES
from alance.versioning.outcome import may_be_visible

__all__ = [
    "MAX_RETRIES",
    "META",
    "ROW_ADDRESS",
    "ROW_ID",
    "Added",
    "BackfillNotes",
    "ColumnBackfill",
    "ColumnsAcross",
    "ExtensionResult",
    "ExtensionTask",
    "InsertedKeys",
    "Piece",
    "RowUpdate",
    "SelectedRows",
    "SourceGaps",
    "WorkerLoop",
    "Workers",
    "added_by",
    "append_schema",
    "check_filter",
    "conform",
    "create_data_file",
    "delete_rows",
    "field_ids",
    "fragment_bytes",
    "fragments_of",
    "get_object",
    "has_fields_of",
    "in_any_loop",
    "inserted_keys",
    "is_for_base",
    "is_table",
    "last_sequence",
    "list_folders",
    "list_tables",
    "maintain",
    "may_be_visible",
    "member_paths",
    "move_table",
    "new_table",
    "open_record",
    "plan_splits",
    "producer_properties",
    "put_object",
    "put_once",
    "read_extremes",
    "read_split",
    "release_memory",
    "remove_data_files",
    "remove_folder",
    "replace_rows",
    "row_ids_of",
    "select_rows",
    "version_record",
    "with_row_ids",
]
