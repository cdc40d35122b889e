"""Plan of a compaction: groups of fragments to rewrite together, possibly in other processes.

A fragment is rewritten on its own if too many of its rows are deleted, or together with a neighbour
if it has fewer rows than the target. Runs of neighbours that are covered by the same indices are
cut into groups of about the target number of rows, so that rows keep their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, get_args

import numpy as np

from alance.base.checks import check_choice, check_counts, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.numbers import distinct, offsets_of
from alance.format.table.changes.apply_indices import SYSTEM, covered, reuse_index
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.reuse import translated
from alance.ops.version.options import MAX_BYTES_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.format.proto import table_pb2
    from alance.format.table.reuse import PastCompaction
    from alance.ops.version.snapshot import Snapshot

    Group: TypeAlias = tuple[int, int]  # positions of neighbouring fragments, half-open

COMPACTION_PREFIX: Final = "lance.compaction."
TARGET_ROWS: Final = 1 << 20
CompactionMode: TypeAlias = Literal["reencode", "try_binary_copy", "force_binary_copy"]
WRITTEN: Final = tuple(FileVersion)


class CompactionArguments(TypedDict, total=False):
    """Keyword arguments of compactions: the fields of `CompactionOptions`."""

    target_rows_per_fragment: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    num_threads: int | None
    batch_size: int | None
    io_buffer_bytes: int | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    excluded_fragment_ids: Collection[int]
    data_storage_version: str | None
    compaction_mode: CompactionMode | None
    defer_index_remap: bool | None
    uncover_indices: bool


@public_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """Options of a compaction; None: the value of the table's configuration, or the default.

    The configuration key of an option is `lance.compaction.<name>`. `num_threads`,
    `max_rows_per_group` and `compaction_mode` are not read from the configuration.

    Attributes:
        target_rows_per_fragment: approximate number of rows of a new fragment; smaller fragments
            are rewritten if a neighbour is rewritten, too. Default 1 048 576.
        max_rows_per_group: has no effect; an option of the legacy file format.
        max_bytes_per_file: size at which a new file ends; fragments then have fewer rows.
        materialize_deletions: True to rewrite fragments with many deleted rows. Default True.
        materialize_deletions_threshold: share of deleted rows above which a fragment is rewritten,
            0 to 1. Default 0.1.
        num_threads: number of concurrent tasks. Default 2; with large columns, one task can use all
            decode threads of the session.
        batch_size: number of rows that are read at once; None: a size that suits the pages.
        io_buffer_bytes: maximum bytes that a task reads ahead.
        max_source_fragments: maximum number of fragments to rewrite, in whole tasks, oldest first.
        max_source_rows: maximum number of live rows to rewrite, also in whole tasks.
        max_source_bytes: maximum bytes of data files to rewrite, also in whole tasks.
        excluded_fragment_ids: ids of fragments that are not rewritten; they separate runs of
            neighbours.
        data_storage_version: file version of new files; None: the table's version.
        compaction_mode: `reencode`, or `try_binary_copy`, which also encodes the rows again;
            `force_binary_copy` is an error.
        defer_index_remap: True to write, instead of remapped indices, a translation of old
            addresses to new ones for a later `optimize_indices`. Until then pylance uses the
            indices, alance does not. Not allowed with stable row ids. Default False.
        uncover_indices: True to also rewrite fragments of an index that cannot be remapped, which
            then no longer covers them; False to leave these fragments as they are. With
            `defer_index_remap` all fragments are rewritten, and no coverage is lost.
    """

    target_rows_per_fragment: int | None = None
    max_rows_per_group: int | None = None
    max_bytes_per_file: int | None = None
    materialize_deletions: bool | None = None
    materialize_deletions_threshold: float | None = None
    num_threads: int | None = None
    batch_size: int | None = None
    io_buffer_bytes: int | None = None
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: Collection[int] = ()
    data_storage_version: str | None = None
    compaction_mode: CompactionMode | None = None
    defer_index_remap: bool | None = None
    uncover_indices: bool = False

    def __post_init__(self) -> None:
        check_counts(
            self,
            *("target_rows_per_fragment", "max_rows_per_group", "max_bytes_per_file"),
            *("num_threads", "batch_size", "io_buffer_bytes", "max_source_fragments"),
            *("max_source_rows", "max_source_bytes"),
        )
        for name in ("materialize_deletions", "defer_index_remap"):
            if (value := getattr(self, name)) not in (None, True, False):
                raise InvalidInputError(f"{name}={value!r}: expected True or False")
        if not isinstance(self.uncover_indices, bool):
            raise InvalidInputError(
                f"uncover_indices={self.uncover_indices!r}: expected True or False"
            )
        share = self.materialize_deletions_threshold
        if share is not None and not (isinstance(share, float | int) and 0 <= share <= 1):
            raise InvalidInputError(
                f"materialize_deletions_threshold={share!r}: expected a share from 0 to 1"
            )
        if self.compaction_mode is not None:
            check_choice("compaction_mode", self.compaction_mode, get_args(CompactionMode))
        if self.compaction_mode == "force_binary_copy":
            raise UnsupportedError(
                "compaction that copies pages as they are: not done by this alance"
            )

    def resolved(
        self, config: Mapping[str, str], default_version: FileVersion
    ) -> ResolvedCompactionOptions:
        """Return the options, with missing ones from the table's configuration or the defaults.

        Args:
            config: configuration of the table.
            default_version: file version of new files, unless an option sets it.

        Raises:
            InvalidInputError: a value of the configuration cannot be parsed, or files of version
                0.1 are requested for a table of another version.
            UnsupportedError: alance does not write the file version.
        """
        values = {
            key.removeprefix(COMPACTION_PREFIX): config[key]
            for key in config
            if key.startswith(COMPACTION_PREFIX)
        }
        chosen: dict[str, Any] = {}
        for name, default, parse in _RESOLVED:
            value = getattr(self, name)
            if value is None and name in values:
                value = _parsed(name, values[name], parse)
            chosen[name] = default if value is None else value
        wished_version = self.data_storage_version or values.get("data_storage_version")
        version = FileVersion.parse(wished_version) if wished_version else default_version
        if version not in WRITTEN:
            raise UnsupportedError(
                f"compaction to files of version {version.value}: not written by this alance; "
                "data_storage_version='2.2' rewrites what it can read"
            )
        if version is FileVersion.V0_1 and default_version is not version:
            raise InvalidInputError(
                f"data_storage_version='0.1': the table has {default_version.value}, and 0.1 is "
                "for tables that begin with it"
            )
        return ResolvedCompactionOptions(**chosen, version=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCompactionOptions:
    """Options of a compaction with all defaults set; see `CompactionOptions`."""

    target_rows_per_fragment: int
    max_bytes_per_file: int
    materialize_deletions: bool
    materialize_deletions_threshold: float
    batch_size: int | None
    io_buffer_bytes: int | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    defer_index_remap: bool
    version: FileVersion


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


_RESOLVED: Final = (
    ("target_rows_per_fragment", TARGET_ROWS, int),
    ("max_bytes_per_file", MAX_BYTES_PER_FILE, int),
    ("materialize_deletions", True, _boolean),
    ("materialize_deletions_threshold", 0.1, float),
    ("batch_size", None, int),
    ("io_buffer_bytes", None, int),
    ("max_source_fragments", None, int),
    ("max_source_rows", None, int),
    ("max_source_bytes", None, int),
    ("defer_index_remap", False, _boolean),
)


def _parsed(name: str, text: str, parse: Any) -> Any:
    try:
        value = parse(text)
        CompactionOptions(**{name: value})
    except (ValueError, KeyError) as error:
        kind = {int: "an integer", float: "a number"}.get(parse, "true or false")
        cause = str(error) if isinstance(error, InvalidInputError) else f"expected {kind}"
        raise InvalidInputError(f"config {COMPACTION_PREFIX}{name}={text!r}: {cause}") from error
    return value


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidate fragments of a plan, by position; all arrays have shape (n,).

    Attributes:
        num_rows: number of live rows.
        num_bytes: bytes of the data files whose size is known.
        alone: True for a fragment that is rewritten even without a neighbour.
        runs: neighbours that may be rewritten together, as half-open ranges.
    """

    num_rows: Int64s
    num_bytes: Int64s
    alone: Mask
    runs: Sequence[Group]


def grouped(candidates: Candidates, target_rows: int) -> list[Group]:
    """Cut runs of candidates into groups of at least `target_rows` rows; short runs are one group.

    A fragment that is only worth rewriting with a neighbour is never a group on its own.
    """
    before = offsets_of(candidates.num_rows)  # rows before each fragment
    groups: list[Group] = []
    for start, end in candidates.runs:
        while start < end:
            stop = int(np.searchsorted(before, before[start] + target_rows))
            if stop >= end or before[end] - before[stop] < target_rows:
                stop = end
            groups.append((start, stop))
            start = stop
    return [
        (start, stop) for start, stop in groups if stop - start > 1 or bool(candidates.alone[start])
    ]


def check_compactable(snapshot: Snapshot, *, defers: bool) -> None:
    """Check that this release of alance can rewrite a version.

    Args:
        defers: True if the remap of indices is deferred.

    Raises:
        UnsupportedError: the remap is deferred, but the table has stable row ids; or it is not
            deferred, but the table has a fragment-reuse index from earlier compactions.
    """
    if defers and snapshot.has_stable_row_ids:
        raise UnsupportedError(
            "defer_index_remap=True: not on a table with stable row ids, whose indices follow "
            "without being written anew, but for B-trees"
        )
    if not defers and reuse_index(snapshot.manifest.indices) is not None:
        raise UnsupportedError(
            f"compaction: the table has an index {FRAGMENT_REUSE!r}; have optimize_indices bring "
            "its indices up to date before, or compact with defer_index_remap=True"
        )


def candidates(
    snapshot: Snapshot,
    stored: Int64s,
    counts: Int64s,
    options: ResolvedCompactionOptions,
    excluded: Collection[int],
    compactions: Sequence[PastCompaction] = (),
) -> Candidates:
    """Return the fragments that may be rewritten. CPU work.

    Args:
        stored: number of rows of each fragment, including deleted rows.
        counts: number of live rows of each fragment.
        compactions: earlier compactions whose remap of indices is still deferred.
    """
    fragments = snapshot.manifest.fragments
    ids, records = fragments.ids, fragments.records
    # 0.1 files are not mixed with others: a rewrite to another version includes all of them.
    leaves = np.array([_is_old(form, options) for form in fragments.forms], np.bool_)
    alone = leaves[records.form_of]
    if options.materialize_deletions:
        deleted_share = (stored - counts) / np.maximum(stored, 1)
        alone = alone | (deleted_share > options.materialize_deletions_threshold)
    stays = ~(alone | (stored < options.target_rows_per_fragment)) | _among(ids, excluded)
    coverage = np.zeros(len(ids), np.int64)  # equal for fragments that the same indices cover
    for index in snapshot.manifest.indices:
        if index.name not in SYSTEM:
            is_covered = _among(ids, translated(covered(index) or (), compactions))
            _, coverage = distinct(2 * coverage + is_covered)
    parts = np.append(True, stays[1:] | stays[:-1] | (coverage[1:] != coverage[:-1]))
    starts = np.flatnonzero(parts[: len(ids)])
    ends = np.append(starts[1:], len(ids))[: len(starts)]
    is_apart = ~stays[starts]
    runs = [*zip(starts[is_apart].tolist(), ends[is_apart].tolist(), strict=True)]
    return Candidates(counts, records.file_bytes.astype(np.int64), alone, runs)


def _among(ids: Int64s, numbers: Collection[int]) -> Mask:
    """Return the mask of ids that are in a collection."""
    among = np.array(sorted(number for number in numbers if 0 <= number < 1 << 32), np.int64)
    places = np.searchsorted(among, ids)
    places[places == len(among)] = 0
    return among[places] == ids if len(among) else np.zeros(len(ids), np.bool_)


def _is_old(form: table_pb2.DataFragment, options: ResolvedCompactionOptions) -> bool:
    """True if fragments of a form have 0.1 files, but are to be rewritten in another version."""
    return options.version is not FileVersion.V0_1 and any(
        FileVersion.from_footer(file.file_major_version, file.file_minor_version)
        is FileVersion.V0_1
        for file in form.files
    )


def within(
    groups: Sequence[Group],
    candidates: Candidates,
    options: CompactionOptions | ResolvedCompactionOptions,
) -> list[Group]:
    """Return as many of the first groups as the limits of `options` allow."""
    first_groups: list[Group] = []
    used = [0, 0, 0]
    limits = (options.max_source_fragments, options.max_source_rows, options.max_source_bytes)
    for start, stop in groups:
        used[0] += stop - start
        used[1] += int(candidates.num_rows[start:stop].sum())
        used[2] += int(candidates.num_bytes[start:stop].sum())
        if any(
            limit is not None and count > limit for count, limit in zip(used, limits, strict=True)
        ):
            break
        first_groups.append((start, stop))
    return first_groups
