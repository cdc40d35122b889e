"""Options of all methods that write rows, without imports of the writer."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from alance.base.checks import check_callback, check_count
from alance.base.progress import EXPECTED_PROGRESS, Reporting
from alance.base.records import dataclass
from alance.file_version import FileVersion
from alance.ops.blobs.files import BlobOptions
from alance.ops.version.options import (
    MAX_BYTES_PER_FILE,
    MAX_ROWS_PER_FILE,
    BaseOptions,
    CommitOptions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.base.progress import OnProgress
    from alance.format.proto import table_pb2
    from alance.format.table.manifest import Manifest

Mode: TypeAlias = Literal["create", "append", "overwrite"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits and contents of new data files.

    Attributes:
        statistics: True to write statistics of their zones (docs/statistics.md).
    """

    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    statistics: bool = True
    blobs: BlobOptions = field(default_factory=BlobOptions)

    def __post_init__(self) -> None:
        check_count("max_rows_per_file", self.max_rows_per_file)
        check_count("max_bytes_per_file", self.max_bytes_per_file)


@runtime_checkable
class FragmentWriteProgress(Protocol):
    """Interface of a `progress=` object that is called for each fragment, as in pylance.

    Files of failed or cancelled writes are removed, even completed ones.
    """

    def begin(self, fragment: table_pb2.DataFragment) -> object:
        """Handle a new fragment, whose record has the name of its file and no rows yet.

        Args:
            fragment: record of the fragment.
        """

    def complete(self, fragment: table_pb2.DataFragment) -> object:
        """Handle a fragment whose file is finished.

        Args:
            fragment: record of the fragment, as `write_fragments` returns it.
        """


WriteProgress: TypeAlias = "OnProgress | FragmentWriteProgress"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write; the names follow pylance.

    Attributes:
        limits: limits of a data file.
        data_storage_version: file version; None: the table's version, or 2.2 for a new table.
        stable_row_ids: for a new table: True to give rows stable ids.
        v2_manifest_paths: for a new table: True for manifest names by which one LIST finds the
            latest version.
        config: configuration of a new table.
        progress: callback for rows, or hooks for each fragment.
        commit: options of the commit.
        bases: base paths of a new table, and targets of new files.
    """

    limits: Limits = field(default_factory=Limits)
    data_storage_version: FileVersion | None = None
    stable_row_ids: bool = False
    v2_manifest_paths: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    progress: WriteProgress | None = None
    commit: CommitOptions = field(default_factory=CommitOptions)
    bases: BaseOptions = field(default_factory=BaseOptions)

    def __post_init__(self) -> None:
        progress = self.progress
        if progress is None or isinstance(progress, bool):
            return
        if isinstance(progress, FragmentWriteProgress):
            check_callback("progress.begin", progress.begin)
            check_callback("progress.complete", progress.complete)
        else:
            functions = f"{EXPECTED_PROGRESS}, or an object with `begin` and `complete`"
            check_callback("progress", progress, functions)

    @property
    def hooks(self) -> FragmentWriteProgress | None:
        """Object that is called for each fragment; None if `progress` is of another kind."""
        progress = self.progress
        if progress is None or isinstance(progress, bool):  # a look at a protocol takes long
            return None
        return progress if isinstance(progress, FragmentWriteProgress) else None

    def reporting(self) -> Reporting:
        """Return the context in which `progress` is called with events of the write.

        A `FragmentWriteProgress` is not called with events, but once per fragment; see `hooks`.
        """
        progress = self.progress
        if progress is None or isinstance(progress, bool):
            return Reporting(progress)
        return Reporting(None if isinstance(progress, FragmentWriteProgress) else progress)

    def version_for(self, base: Manifest | None) -> FileVersion:
        """Return the version of new files.

        A version that cannot be written is refused later by the writer.
        """
        if self.data_storage_version is not None:
            return self.data_storage_version
        return FileVersion.V2_2 if base is None else base.data_storage_version
