"""Index builds by several processes: plan, execute, merge, commit.

Tasks and parts can be pickled. Several processes may execute the tasks of one plan; each task
leaves a sorted run. One process merges the runs and commits.
"""

from __future__ import annotations

import uuid
from contextlib import aclosing
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base.calls import public
from alance.base.checks import check_count
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.index.bitmap import parse_rows, rows_bytes
from alance.format.index.text.source import TextSource
from alance.format.table.naming import INDICES
from alance.format.table.operations import CreateIndex
from alance.io.loop.readahead import grouped
from alance.ops.index.new import CheckedIndex, NewIndex, check_new
from alance.ops.index.segment_files import discard_files, discard_others, is_part
from alance.ops.index.texts.new import CheckedText, NewTextIndex, check_new_text
from alance.ops.index.texts.parts import name_partitions, write_partitions
from alance.ops.index.values.build import SegmentBuilder, run_rows, with_detected_type
from alance.ops.index.values.column_values import ColumnValues
from alance.ops.index.values.merge import RunMerger
from alance.ops.index.values.options import DEFAULT_VALUE_OPTIONS
from alance.ops.index.values.ranges import (
    cut_ranges,
    in_order,
    join_pages,
    pack_firsts,
)
from alance.ops.index.values.runs import IndexPart, run_batches, write_run
from alance.ops.index.values.sort import SORT_MEMORY_BYTES
from alance.ops.index.vectors.new import WITHOUT_GRAPHS, CheckedVectors, check_new_vectors
from alance.ops.index.vectors.parts import (
    LINKING,
    MergedGraphs,
    coded_rows,
    discard_training,
    has_training,
    merge_coded,
    write_training,
)
from alance.ops.lookup.kinds import KINDS as VALUE_KINDS
from alance.ops.version.commits import PreparedChange
from alance.ops.version.objects import discard_objects
from alance.ops.version.opening import at_version
from alance.ops.version.options import UNKNOWN_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from alance.base.arrays import Int64s
    from alance.datasets import Dataset
    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.format.table.fragment import Fragment
    from alance.ops.index.values.options import ValueOptions
    from alance.ops.index.values.ranges import IndexPages, IndexRange
    from alance.ops.index.vectors.new import NewVectorIndex
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

New: TypeAlias = "NewIndex | NewVectorIndex | NewTextIndex"
AnyChecked: TypeAlias = "CheckedIndex | CheckedVectors | CheckedText"
ROW_NUMBER_BYTES: Final = 8  # row number beside each value


@public
@dataclass(frozen=True, slots=True)
class IndexTask:
    """Fragments whose rows are sorted together. Can be pickled.

    Attributes:
        build: name of the folder of the parts; for vectors, it also holds the training.
        read_version: version of the fragments.
        fragments: records of the fragments in the manifest, in order.
        memory_bytes: bytes that are sorted at once; more are spilled to the local disk.
        texts: settings of an inverted index.
        options: options of an index of values.
    """

    column: str
    kind: str
    build: str
    read_version: int
    fragments: tuple[table_pb2.DataFragment, ...]
    memory_bytes: int
    texts: NewTextIndex | None = None
    options: ValueOptions = DEFAULT_VALUE_OPTIONS

    async def execute(self, dataset: Dataset) -> IndexPart:
        """Read the column in these fragments and write its values, sorted, with their row numbers.

        Cost: a scan of the column; an upload of the file, or of several for texts; for vectors also
        a read of the training; a GET of the version's manifest if `dataset` is another version.
        Memory: about twice `memory_bytes`, plus the batches read ahead.

        Args:
            dataset: any version of the table.

        Raises:
            NotFoundError: the version has been cleaned up.
            InvalidInputError: `dataset` is of another table.
            StoreError, CorruptFileError: reading or writing failed; the file is removed.
            OSError: the local disk is full.
        """
        return await execute(await at_version(dataset._snapshot, self.read_version), self)


@public
@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Independent tasks that together build an index. Can be pickled.

    Attributes:
        new: the index: column, kind, name.
        build: name of the folder of the parts.
        parts: parts of an earlier plan that are still valid.
    """

    read_version: int
    new: NewIndex | NewVectorIndex | NewTextIndex
    build: str
    tasks: tuple[IndexTask, ...]
    parts: tuple[IndexPart, ...] = ()

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """A merged index that is not yet committed. Can be pickled.

    Attributes:
        record: its future entry in the manifest.
        parts: parts from which it was merged.
        runs: intermediate runs of the merge: ranges of a bitmap index, or graphs of vectors.
    """

    record: table_pb2.IndexMetadata
    parts: tuple[IndexPart, ...]
    runs: tuple[IndexPart, ...] = ()


async def plan(
    snapshot: Snapshot,
    new: New,
    *,
    task_bytes: int,
    max_tasks: int,
    memory_bytes: int = SORT_MEMORY_BYTES,
    done: Sequence[IndexPart] = (),
) -> IndexPlan:
    """Split an index build into tasks of about equal bytes; see `IndexBuild.plan`."""
    check_count("task_bytes", task_bytes)
    check_count("max_tasks", max_tasks)
    checked = _checked(snapshot, new)
    new = replace(new, column=checked.column)
    place, reused = await _reused(snapshot, new, checked, done)

    def split() -> IndexPlan:
        had = {fragment.id for part in reused for fragment in part.fragments}
        pending = [fragment for fragment in snapshot.manifest.fragments if fragment.id not in had]
        sizes = [_work_bytes(fragment, checked.leaf) for fragment in pending]
        target = max(task_bytes, -(-sum(sizes) // max(1, max_tasks - len(reused))))
        version = snapshot.version
        tasks = [
            IndexTask(
                new.column,
                checked.index_type,
                place,
                version,
                tuple(fragment.message for fragment, _ in group),
                memory_bytes,
                new if isinstance(new, NewTextIndex) else None,
                _options_of(checked),
            )
            for group in grouped(zip(pending, sizes, strict=True), itemgetter(1), target * 5 // 4)
        ]
        return IndexPlan(version, new, place, tuple(tasks), tuple(reused))

    plan = await snapshot.engine.pool.run(split)
    if isinstance(checked, CheckedVectors) and not reused:
        await write_training(snapshot, checked, place)
    return plan


def _checked(snapshot: Snapshot, new: New) -> AnyChecked:
    if isinstance(new, NewTextIndex):
        return check_new_text(snapshot, new)
    if isinstance(new, NewIndex):
        return check_new(snapshot, new)
    return check_new_vectors(snapshot, new)


async def _reused(
    snapshot: Snapshot, new: New, checked: AnyChecked, done: Sequence[IndexPart]
) -> tuple[str, list[IndexPart]]:
    """Return the folder of the build, and the parts of earlier plans that are still valid in it."""
    kind, options = checked.index_type, _options_of(checked)
    reused = [part for part in done if _holds(snapshot, part, new.column, kind)]
    reused = [part for part in reused if part.options == options]
    place = str(uuid.uuid4())
    if kind in WITHOUT_GRAPHS:
        # All codes of a segment need the same training: reuse that of the first valid part.
        if reused and await has_training(snapshot, reused[0].build, checked.leaf):
            place = reused[0].build
        reused = [part for part in reused if part.build == place]
    if isinstance(new, NewTextIndex):
        # All partitions of a segment lie in its folder and have the same token settings.
        details = new.params.details()
        reused = [part for part in reused if part.details == details]
        place = reused[0].build if reused else place
        reused = [part for part in reused if part.build == place]
    return place, reused


def _options_of(checked: AnyChecked) -> ValueOptions:
    return checked.options if isinstance(checked, CheckedIndex) else DEFAULT_VALUE_OPTIONS


async def execute(snapshot: Snapshot, task: IndexTask) -> IndexPart:
    """Run a task on the version for which it was planned; see `IndexTask.execute`."""
    for message in task.fragments:
        present = snapshot.handle(message.id).fragment.message
        if not _equal_files(present, message):
            raise InvalidInputError(
                f"index task: fragment {message.id} has other files in version "
                f"{snapshot.version} of {snapshot.uri!r}; the task is of another dataset"
            )
    ids = [message.id for message in task.fragments]
    if task.texts is not None:
        return await _text_part(snapshot, task, task.texts, ids)
    leaf = snapshot.schema.field(task.column)
    if task.kind in WITHOUT_GRAPHS:
        return await _vector_part(snapshot, task, leaf, ids)
    return await _value_part(snapshot, task, leaf, ids)


async def _value_part(
    snapshot: Snapshot, task: IndexTask, leaf: Field, ids: Sequence[int]
) -> IndexPart:
    kind = VALUE_KINDS[task.kind]

    async def attempt(values: ColumnValues) -> IndexPart:
        source = kind.source(values.type, task.options.zones, task.memory_bytes)
        rows = run_rows(snapshot, kind, values, source, ids, task.memory_bytes)
        async with aclosing(rows):
            part = await _run_part(snapshot, task, rows)
        nulls = [np.empty(0, np.int64), *source.null_rows]
        content = await snapshot.engine.pool.run(lambda: rows_bytes(np.concatenate(nulls)))
        type_ = values.type if values.has_type else None
        return replace(part, null_rows=content, type=type_, schema=source.run_schema)

    at = ColumnValues.at(task.column, leaf.arrow_type, task.options.path)
    part = await with_detected_type(kind, at, attempt)
    num_rows = await snapshot.live_rows(await snapshot.handles_of(ids))
    return replace(part, num_rows=num_rows, options=task.options)


def _type_of(new: AnyChecked, column: str, parts: Sequence[IndexPart]) -> pa.DataType:
    """Return the common type of the values of all parts.

    Raises:
        InvalidInputError: the parts have JSON values of several types.
    """
    if not isinstance(new, CheckedIndex):
        return new.leaf.arrow_type
    values = ColumnValues.at(column, new.leaf.arrow_type, new.options.path)
    for part in parts:
        if part.type is not None:
            values = values.joined(part.type)
    return values.type


async def _vector_part(
    snapshot: Snapshot, task: IndexTask, leaf: Field, ids: Sequence[int]
) -> IndexPart:
    rows = await coded_rows(snapshot, task.column, leaf, task.build, ids, task.memory_bytes)
    num_rows = 0

    async def counted() -> AsyncGenerator[pa.RecordBatch, None]:
        nonlocal num_rows
        async for batch in rows:
            num_rows += batch.num_rows
            yield batch

    async with aclosing(rows):
        part = await _run_part(snapshot, task, counted())
    return replace(part, num_rows=num_rows)


async def _run_part(
    snapshot: Snapshot, task: IndexTask, batches: AsyncGenerator[pa.RecordBatch, None]
) -> IndexPart:
    """Write batches as the run of a part; the part's `num_rows` is not set yet."""
    path, blocks, values = await write_run(snapshot, task.build, batches)
    firsts, stride = pack_firsts(values)
    return IndexPart(
        task.column,
        task.kind,
        task.read_version,
        task.fragments,
        path,
        0,
        blocks,
        firsts=firsts,
        stride=stride,
    )


async def _text_part(
    snapshot: Snapshot, task: IndexTask, new: NewTextIndex, ids: Sequence[int]
) -> IndexPart:
    memory = min(task.memory_bytes, new.memory_bytes)
    source = TextSource.of(snapshot.schema, task.column)
    numbers, files, num_rows = await write_partitions(
        snapshot, new, source, task.build, ids, memory
    )
    return IndexPart(
        task.column,
        task.kind,
        task.read_version,
        task.fragments,
        f"{INDICES}/{task.build}/",
        num_rows,
        (),
        numbers,
        files,
        new.params.details(),
    )


def _in_order(
    base: Snapshot, plan: IndexPlan, new: AnyChecked, parts: Sequence[IndexPart]
) -> tuple[list[IndexPart], list[int]]:
    """Return all parts in the order of their fragments, and the ids of these fragments.

    Raises:
        InvalidInputError: the parts do not cover each fragment once, or belong to another plan.
    """
    all_parts = [*plan.parts, *parts]
    ids = [fragment.id for part in all_parts for fragment in part.fragments]
    expected = base.handles.ids
    if sorted(ids) != sorted(expected):
        raise InvalidInputError(
            f"index parts: of {len(set(ids))} fragments, {len(ids)} counted twice where they are; "
            f"expected each of the {len(expected)} fragments of version {base.version} once"
        )
    if any(part.kind != new.index_type or part.column != plan.new.column for part in all_parts):
        raise InvalidInputError(
            f"index parts: not all are of {new.index_type} on {plan.new.column!r}"
        )
    options = _options_of(new)
    if any(part.options != options for part in all_parts):
        raise InvalidInputError("index parts: not all are made with the options of the plan")
    is_of_build = new.index_type in WITHOUT_GRAPHS or isinstance(plan.new, NewTextIndex)
    if is_of_build and any(part.build != plan.build for part in all_parts):
        raise InvalidInputError("index parts: not all are coded as those of the plan")
    position = {number: place for place, number in enumerate(expected)}
    all_parts.sort(key=lambda part: min(position[fragment.id] for fragment in part.fragments))
    return all_parts, ids


async def ranges(
    snapshot: Snapshot,
    plan: IndexPlan,
    parts: Sequence[IndexPart],
    *,
    range_bytes: int,
    memory_bytes: int = SORT_MEMORY_BYTES,
) -> list[IndexRange]:
    """Split the merge of an index into ranges of values; see `IndexBuild.ranges`."""
    check_count("range_bytes", range_bytes)
    base = await at_version(snapshot, plan.read_version)
    new = _checked(base, plan.new)
    all_parts, _ = _in_order(base, plan, new, parts)
    type_ = _type_of(new, plan.new.column, all_parts)
    if isinstance(new, CheckedVectors) and new.has_graphs:
        type_, range_bytes = pa.int64(), -(-range_bytes // LINKING)  # sorted by partition number
    elif not isinstance(new, CheckedIndex) or not new.kind.has_ranges:
        return []
    return await base.engine.pool.run(
        lambda: cut_ranges(
            plan.new.column,
            new.index_type,
            plan.read_version,
            type_,
            all_parts,
            range_bytes=range_bytes,
            memory_bytes=memory_bytes,
            links=new.links if isinstance(new, CheckedVectors) else None,
        )
    )


async def merge(
    snapshot: Snapshot,
    plan: IndexPlan,
    parts: Sequence[IndexPart],
    pages: Sequence[IndexPages] = (),
    *,
    memory_bytes: int = SORT_MEMORY_BYTES,
    on_rows: Callable[[int], object] | None = None,
) -> IndexSegment:
    """Merge the parts of all tasks into the files of an index; see `IndexBuild.merge`."""
    base = await at_version(snapshot, plan.read_version)
    new = _checked(base, plan.new)
    all_parts, ids = _in_order(base, plan, new, parts)

    pages = in_order(pages, all_parts) if pages else ()
    runs = tuple(part.run for part in pages if part.run is not None)

    def merged(schema: pa.Schema) -> AsyncGenerator[pa.RecordBatch, None]:
        sources = all_parts if isinstance(new, CheckedVectors) else runs or all_parts
        return RunMerger(base, schema, memory_bytes, on_rows).merged(sources)

    if isinstance(new, CheckedText):
        assert isinstance(plan.new, NewTextIndex)
        record = await name_partitions(base, plan.new, new, plan.build, all_parts, ids)
        return IndexSegment(record, tuple(all_parts))
    if isinstance(new, CheckedVectors):
        graphs = MergedGraphs(base, pages, new.links, memory_bytes) if pages and new.links else None
        record = await merge_coded(base, new, plan.build, merged, ids, graphs)
        return IndexSegment(record, tuple(all_parts), runs)
    type_ = _type_of(new, plan.new.column, all_parts)
    builder = SegmentBuilder(base, plan.new.column, new.leaf, new.name, new.kind, new.options)
    if pages and not runs:
        builder.files = await join_pages(base, pages, type_)
        return IndexSegment(builder.of_files(ids), tuple(all_parts))
    try:
        source = new.kind.source(type_, new.options.zones, memory_bytes)
        schema = source.run_schema
        source.null_rows += await base.engine.pool.run(lambda: _null_rows(all_parts))
        rows = merged(schema) if new.kind.is_sorted else run_batches(base, all_parts, schema)
        record = await builder.build_from(rows, source, ids)
    except BaseException:
        await builder.discard()
        raise
    return IndexSegment(record, tuple(all_parts), runs)


def _null_rows(parts: Sequence[IndexPart]) -> list[Int64s]:
    return [parse_rows(memoryview(part.null_rows)).to_numpy() for part in parts]


async def commit(
    snapshot: Snapshot, plan: IndexPlan, segment: IndexSegment, options: CommitOptions
) -> Snapshot:
    """Commit a merged index; see `IndexBuild.commit`."""
    base = await at_version(snapshot, plan.read_version)
    old = [message for message in base.manifest.indices if message.name == segment.record.name]

    of_parts = {name for part in segment.parts for name, _ in part.files}

    async def forget() -> None:
        record = segment.record
        files = [file for file in record.files if file.path not in of_parts]
        await discard_files(base, uuid.UUID(bytes=record.uuid.uuid), files)
        await discard(base, segment.runs)

    change = CreateIndex(new_indices=(segment.record,), removed_indices=tuple(old))
    committed = await PreparedChange(base, change, options, discard=forget).commit()
    if any(is_part(file.path) for file in segment.record.files):
        await discard_others(committed, segment.record)
    if isinstance(plan.new, NewTextIndex):
        return committed  # its partitions are files of the index
    await discard(committed, [*segment.parts, *segment.runs])
    if not isinstance(plan.new, NewIndex):
        await discard_training(committed, plan.build)
    return committed


async def discard(snapshot: Snapshot, parts: Sequence[IndexPart]) -> None:
    """Remove the files of parts. Errors of the store are ignored."""
    places = [snapshot.table.folder(path) for part in parts for path in part.paths]
    await discard_objects(snapshot.engine, places)


def _holds(snapshot: Snapshot, part: IndexPart, column: str, kind: str) -> bool:
    """Return True if a part is still valid for a version; rows deleted since do not matter."""
    if (part.column, part.kind) != (column, kind):
        return False
    fragments = snapshot.manifest.fragments
    # An updated row keeps its row id but moves to another fragment. So a part of row ids is valid
    # only if its fragments, including their deletion files, have not changed.
    of_values = VALUE_KINDS.get(kind)
    has_ids = snapshot.has_stable_row_ids and not (of_values and of_values.has_addresses)
    equals = _equal if has_ids else _equal_files
    for message in part.fragments:
        place = fragments.position_of(message.id)
        if place is None or not equals(fragments[place].message, message):
            return False
    return True


def _equal_files(fragment: table_pb2.DataFragment, other: table_pb2.DataFragment) -> bool:
    paths = [[file.path for file in owner.files] for owner in (fragment, other)]
    return paths[0] == paths[1] and list(fragment.overlays) == list(other.overlays)


def _equal(fragment: table_pb2.DataFragment, other: table_pb2.DataFragment) -> bool:
    return bool(fragment == other)


def _work_bytes(fragment: Fragment, leaf: Field) -> int:
    """Estimate, from the manifest, the number of bytes to sort for a fragment."""
    numbers = fragment.physical_rows * ROW_NUMBER_BYTES
    try:
        return numbers + fragment.physical_rows * int(leaf.arrow_type.bit_width) // 8
    except ValueError:  # variable width: estimate from the column's share of the encoded file
        pass
    for file in fragment.files:
        if leaf.id in file.columns:
            return numbers + 2 * (file.num_bytes or UNKNOWN_FILE_BYTES) // len(file.columns)
    return numbers
