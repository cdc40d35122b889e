"""Contradictions in a manifest: findings as text. Pure, nothing is read."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import AlanceError
from alance.format.table.apply_indices import SYSTEM
from alance.format.table.flags import DELETIONS
from alance.format.table.indices import Index
from alance.format.table.lineage import is_spilled, lineage_of
from alance.format.table.row_ids import num_row_ids
from alance.versioning.row_index import runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from alance.format.table.deletions import DeletionVector
    from alance.format.table.fragment import Fragment
    from alance.format.table.lineage import Lineage
    from alance.format.table.manifest import Manifest


def findings(manifest: Manifest) -> Iterator[str]:
    """Findings in a manifest alone."""
    yield from _of_schema(manifest)
    for field_id in manifest.repaired:
        yield (
            f"field id {field_id}: data files of one fragment have it twice; it is read as another "
            f"one, and written so by the next commit"
        )
    yield from _of_fragment_ids(manifest)
    for fragment in manifest.fragments:
        yield from _of_fragment(manifest, fragment)
    yield from _of_indices(manifest)
    has_deletions = any(one.deletion_file is not None for one in manifest.fragments)
    flags = manifest.head.reader_feature_flags & manifest.head.writer_feature_flags
    if has_deletions and not flags & DELETIONS:
        yield "there are deletion files, and the flags do not say so"


def _of_schema(manifest: Manifest) -> Iterator[str]:
    ids = [one.id for one in manifest.head.fields]
    for field_id, count in Counter(ids).items():
        if count > 1:
            yield f"field id {field_id}: {count} fields have it"
    for one in manifest.head.fields:
        if one.parent_id >= 0 and one.parent_id not in ids:
            yield f"field {one.name!r}: its parent, field {one.parent_id}, is not there"
    if manifest.head.HasField("max_allocated_field_id"):
        highest = max(ids, default=-1)
        if highest > manifest.head.max_allocated_field_id:
            yield (
                f"field id {highest}: beyond the highest ever given, "
                f"{manifest.head.max_allocated_field_id}"
            )


def _of_fragment_ids(manifest: Manifest) -> Iterator[str]:
    ids = [one.id for one in manifest.fragments]
    for before, one in itertools.pairwise(ids):
        if one <= before:
            yield f"fragment {one}: follows fragment {before}, expected ascending ids"
    message = manifest.head
    # Writers of old versions did not keep the highest id.
    if ids and message.HasField("max_fragment_id") and max(ids) > message.max_fragment_id:
        yield f"fragment {max(ids)}: beyond the highest id ever given, {message.max_fragment_id}"


def _of_fragment(manifest: Manifest, fragment: Fragment) -> Iterator[str]:
    what = f"fragment {fragment.id}"
    if not fragment.files:
        yield f"{what}: it has no data file"
    fields = Counter(field for file in fragment.files for field in file.columns)
    for field, count in fields.items():
        if count > 1:
            yield f"{what}: {count} data files have field {field}"
    bases = [(f"data file {file.path!r}", file.base_id) for file in fragment.files]
    deletion = fragment.deletion_file
    if deletion is not None:
        bases.append(("deletion file", deletion.base_id))
        if fragment.physical_rows and deletion.num_deleted_rows > fragment.physical_rows:
            yield f"{what}: {deletion.num_deleted_rows} of {fragment.physical_rows} rows deleted"
    for name, base_id in bases:
        if base_id is not None and base_id not in manifest.base_paths:
            yield f"{what}: {name} is below base path {base_id}, which is not there"
    if manifest.has_stable_row_ids:
        yield from _of_row_ids(manifest, fragment)


def _of_row_ids(manifest: Manifest, fragment: Fragment) -> Iterator[str]:
    what, message = f"fragment {fragment.id}", fragment.message
    if message.WhichOneof("row_id_sequence") is None:
        yield f"{what}: it has no row ids, the table's are stable"
        return
    if is_spilled(message):
        return
    try:
        count = num_row_ids(message.inline_row_ids)
        if count != fragment.physical_rows:
            yield f"{what}: row ids of {count} rows, it has {fragment.physical_rows}"
            return
        yield from of_lineage(manifest, fragment.id, lineage_of(message))
    except AlanceError as error:
        yield f"{what}: row ids or versions of rows: {error}"


def of_lineage(manifest: Manifest, fragment_id: int, lineage: Lineage) -> Iterator[str]:
    """Findings in the row ids and versions of a fragment's rows."""
    what = f"fragment {fragment_id}"
    next_row_id, version = manifest.head.next_row_id, manifest.version
    if len(lineage.row_ids) and int(lineage.row_ids.max()) >= next_row_id:
        yield f"{what}: row id {lineage.row_ids.max()}, the next unused one is {next_row_id}"
    for name, values in (
        ("created", lineage.created_at),
        ("last updated", lineage.last_updated_at),
    ):
        if len(values) and int(values.max()) > version:
            yield f"{what}: rows {name} in version {values.max()}, this is version {version}"


def of_shared_ids(
    lineages: Mapping[int, Lineage], deletions: Mapping[int, DeletionVector]
) -> Iterator[str]:
    """Row ids that two live rows have. CPU work: sorts the runs of all ids.

    Args:
        lineages: of all fragments, by id.
        deletions: of those that have deleted rows.
    """
    parts = []
    for fragment_id, lineage in lineages.items():
        vector = deletions.get(fragment_id)
        live = None
        if vector is not None:
            mask = vector.live_mask(0, len(lineage.row_ids))
            live = None if mask is None else np.flatnonzero(mask)
        parts.append(runs_of(fragment_id, lineage.row_ids, live))
    if not parts:
        return
    ids = np.concatenate([one.ids for one in parts])
    addresses = np.concatenate([one.addresses for one in parts])
    lengths = np.concatenate([one.lengths for one in parts])
    order = np.argsort(ids, kind="stable")
    ids, addresses, lengths = ids[order], addresses[order], lengths[order]
    for place in np.flatnonzero(ids[1:] - ids[:-1] < lengths[:-1]).tolist():
        shared = int(ids[place + 1])
        first = int(addresses[place]) + shared - int(ids[place])
        places = [f"fragment {one >> 32}, row {one & 0xFFFFFFFF}" for one in
                  (first, int(addresses[place + 1]))]  # fmt: skip
        yield f"row id {shared}: two live rows have it, {places[0]} and {places[1]}"


def _of_indices(manifest: Manifest) -> Iterator[str]:
    fields = {one.id for one in manifest.head.fields}
    seen: set[object] = set()
    covered: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
    for message in manifest.indices:
        what = f"index {message.name!r}"
        try:
            index = Index.from_protobuf(message)
        except AlanceError as error:
            yield f"{what}: {error}"
            continue
        if index.uuid in seen:
            yield f"{what}: two segments have UUID {index.uuid}"
        seen.add(index.uuid)
        highest = manifest.head.max_fragment_id
        beyond = [one for one in index.fragment_ids or () if one > highest]
        if beyond and manifest.head.HasField("max_fragment_id"):
            yield f"{what}: covers fragments {_some(beyond)}, ids go up to {highest}"
        if message.name in SYSTEM:
            continue
        if gone := set(index.fields) - fields:
            yield f"{what}: fields {sorted(gone)} are not in the schema"
        repeated = covered[message.name] & (index.fragment_ids or frozenset())
        if repeated:
            yield f"{what}: two segments cover fragments {_some(repeated)}"
        covered[message.name] |= index.fragment_ids or frozenset()
        if index.dataset_version > manifest.version:
            yield f"{what}: of version {index.dataset_version}, this is {manifest.version}"
        if message.HasField("base_id") and message.base_id not in manifest.base_paths:
            yield f"{what}: below base path {message.base_id}, which is not there"


def _some(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return str(found) if len(found) < 10 else f"{found[:9]} and {len(found) - 9} more"
