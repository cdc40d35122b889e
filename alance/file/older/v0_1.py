"""Fields of open 0.1 files: opening of their pages, and plans over their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CorruptFileError
from alance.file.older.v2_0 import FieldColumn
from alance.file.open.columns import kept_by, noted, recalled
from alance.file.open.files import from_end
from alance.format.plans import together
from alance.format.v0_1.dictionary import items_of, read_items
from alance.format.v0_1.fields import Tree, fields_before, page_bits, page_ends, pages_before

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.v0_1.metadata import BatchContainer, PageRun


def open_batch_fields(
    fields: Sequence[Field], columns: Mapping[int, int], container: BatchContainer, states: States
) -> Plan[list[FieldColumn]]:
    """Plan the opening of fields; fields that the file lacks are omitted.

    Cost: no round if the file's tail or a cache has the page table.

    Args:
        columns: position of each field among the file's fields, by field id.

    Raises:
        CorruptFileError: the pages contradict each other or the schema.
    """
    stored = [member for field in fields for member in field.walk() if member.id in columns]
    types = container.field_ids() or {field.id: field.logical_type for field in stored}
    own = _own_ids(stored, columns, types, container.path)
    now = {own_id: field_id for field_id, own_id in own.items()}
    before = {
        now.get(field_id, field_id): replace(field, id=now.get(field.id, field.id))
        for field_id, field in (pages_before(container.schema) if container.schema else {}).items()
    }
    field_ids = [field.id for field in stored if field.logical_type != "struct"]
    field_ids += fields_before(stored, before)
    runs = yield from _open_runs(container, list(dict.fromkeys(field_ids)), own, types, states)
    have = {field_id: run for field_id, run in runs.items() if field_id in columns}
    items = yield from _open_items(stored, own, container, states)
    tree = Tree(container.path, container.file_bytes, have, runs, before, items)
    num_rows = np.diff(container.first_rows)
    opened: list[FieldColumn] = []
    for field in fields:
        if any(member.id in columns for member in field.walk()):
            node, spans = tree.node(field, num_rows), _spans(field, tree)
            opened.append(FieldColumn(field, node, container, container.num_rows, spans))
    return opened


def _spans(field: Field, tree: Tree) -> Int64s:
    """Return the byte ranges of the pages of a field and of its descendants; shape (n, 2)."""
    spans = [np.empty((0, 2), np.int64)]
    for own in field.walk():
        run = tree.runs.get(own.id)
        if run is not None and page_bits(own) is not None:
            begins = tree.begins(own, run)
            starts = run.positions if begins is None else begins
            spans.append(np.stack([starts, page_ends(own, run)], 1))
    return np.concatenate(spans)


def _own_ids(
    fields: Sequence[Field], columns: Mapping[int, int], types: Mapping[int, str], path: str
) -> dict[int, int]:
    """Return the ids in the file, by current id, of fields whose ids were repaired later."""
    ids, own = list(types), {}
    for field in fields:
        if field.id in types:
            continue
        place = columns[field.id]
        if place >= len(ids) or types[ids[place]] != field.logical_type:
            raise CorruptFileError(
                f"{path}: no field {field.id}, the manifest says {field.name!r} is in it"
            )
        own[field.id] = ids[place]
    return own


def _open_runs(
    container: BatchContainer,
    field_ids: Sequence[int],
    own: Mapping[int, int],
    types: Mapping[int, str],
    states: States,
) -> Plan[dict[int, PageRun]]:
    by_id: dict[int, PageRun] = {}
    for field_id in field_ids:
        cached: PageRun | None = states.peek(("run", container.path, own.get(field_id, field_id)))
        if cached is not None:
            by_id[field_id] = cached
    missing = [field_id for field_id in field_ids if field_id not in by_id]
    if missing:
        retained, ids = kept_by(states), [own.get(field_id, field_id) for field_id in missing]
        runs = recalled(lambda: container.read_runs(ids, types), container.path, retained)
        if runs is None:
            runs = yield from noted(container.read_runs(ids, types), retained)
        for field_id, own_id, run in zip(missing, ids, runs, strict=True):
            by_id[field_id] = run
            states.put(("run", container.path, own_id), run, run.num_bytes)
    return by_id


def _open_items(
    fields: Sequence[Field], own_ids: Mapping[int, int], container: BatchContainer, states: States
) -> Plan[dict[int, pa.Array]]:
    """Plan the dictionary values of fields, by field id: from the table, a cache, or the file.

    Raises:
        CorruptFileError: neither the table nor the file has the values of a field.
    """
    by_id: dict[int, pa.Array] = {}
    missing = {}
    for field in fields:
        if not field.logical_type.startswith("dict:"):
            continue
        own_id = own_ids.get(field.id, field.id)
        key = ("items", container.path, own_id)
        items = items_of(field)
        if items is None:
            items = states.peek(key)
        if items is not None:
            by_id[field.id] = items
            continue
        own = None if container.schema is None else container.schema.field_by_id(own_id)
        if own is None or own.logical_type != field.logical_type:
            raise CorruptFileError(
                f"{container.path}: no values for the dictionary of field {field.name!r}"
            )
        missing[field.id] = own
    plans = [
        from_end(read_items(field, container.path, container.file_bytes), container)
        for field in missing.values()
    ]
    read = yield from together(plans)
    for (field_id, field), items in zip(missing.items(), read, strict=True):
        by_id[field_id] = items
        size = 100 + field.message.dictionary.length * 16
        states.put(("items", container.path, field.id), items, size)
    return by_id
