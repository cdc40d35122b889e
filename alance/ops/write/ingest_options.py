"""Options of a stream, and its counters."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.base.checks import check_counts
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.ops.version.options import CommitOptions
from alance.ops.write.options import Limits, WriteOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.file_version import FileVersion

INGEST_BUFFER_BYTES: Final = 64 << 20
COMMIT_INTERVAL: Final = 10.0
HISTORY: Final = 100
DEBEZIUM: Final = "debezium"  # format of change events


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of `alance.ingest`, which documents them.

    Raises:
        InvalidInputError: a size or time is not positive, a name is not text, or options exclude
            each other.
    """

    max_buffer_bytes: int = INGEST_BUFFER_BYTES
    limits: Limits = field(default_factory=Limits)
    max_file_age: float | None = None
    commit_interval: float | None = COMMIT_INTERVAL
    commit_rows: int | None = None
    commit_bytes: int | None = None
    producer: str | None = None
    history: int = HISTORY
    data_storage_version: FileVersion | None = None
    stable_row_ids: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    auto_compact: int | None = None
    on: tuple[str, ...] | None = None
    kind: str | None = None
    envelope: str | None = None

    def __post_init__(self) -> None:
        check_counts(self, "max_buffer_bytes", "commit_rows", "commit_bytes", "history")
        check_counts(self, "auto_compact", least=2)
        for name in ("max_file_age", "commit_interval"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidInputError(f"{name}={value!r}: expected a time above 0 s, or None")
        if self.producer is not None and not (isinstance(self.producer, str) and self.producer):
            raise InvalidInputError(f"producer={self.producer!r}: expected a name")
        self._check_changes()
        self.writing({})

    def _check_changes(self) -> None:
        """Check the options of a stream of changes."""
        on, kind, envelope = self.on, self.kind, self.envelope
        if on is not None and not (on and all(isinstance(name, str) and name for name in on)):
            raise InvalidInputError(f"on={on!r}: expected names of columns")
        if kind is not None and not (isinstance(kind, str) and kind):
            raise InvalidInputError(f"kind={kind!r}: expected the name of a column")
        if envelope not in (None, DEBEZIUM):
            raise InvalidInputError(f"envelope={envelope!r}: expected {DEBEZIUM!r} or None")
        if kind is not None and envelope is not None:
            raise InvalidInputError("kind and envelope: expected one of them")
        if on is None and (kind is not None or envelope is not None):
            raise InvalidInputError("kind and envelope are for streams of changes: expected `on`")
        if on is not None and self.max_file_age is not None:
            raise InvalidInputError("max_file_age: not with `on`; files begin with the commit")

    def writing(self, notes: Mapping[str, str]) -> WriteOptions:
        """Return write options whose transactions record `notes`."""
        return WriteOptions(
            limits=self.limits,
            data_storage_version=self.data_storage_version,
            stable_row_ids=self.stable_row_ids,
            commit=CommitOptions({**self.properties, **notes}),
        )


@dataclass(frozen=True, slots=True)
class IngestMetrics:
    """Counters of a sink.

    Attributes:
        num_rows: number of accepted rows, or with `on` of changes, keys to delete included.
        num_bytes: bytes of these rows and keys in memory.
        num_skipped: number of writes skipped because their batch was already accepted or committed.
        num_waits: number of writes that waited for room in the buffer.
        waited_s: total seconds of these waits.
        buffered_bytes: bytes of accepted rows that the file's writer has not yet accepted.
        num_files: number of data files in the committed versions. Of sinks that share a merge, one
            counts its files.
        num_commits: number of versions with rows of this sink; other sinks may share a version.
        committed_rows: number of this sink's rows in these versions.
        last_version: number of the last of these versions; None: there is no version yet.
    """

    num_rows: int = 0
    num_bytes: int = 0
    num_skipped: int = 0
    num_waits: int = 0
    waited_s: float = 0.0
    buffered_bytes: int = 0
    num_files: int = 0
    num_commits: int = 0
    committed_rows: int = 0
    last_version: int | None = None
