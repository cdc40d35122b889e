"""The fragments of a version in the making: the same as of a list of messages."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.proto import table_pb2
from alance.format.table.changes.apply_state import DraftedFragments
from alance.format.table.fragment import Fragments, Records
from tests.reference.forms import form_bytes

if TYPE_CHECKING:
    import pytest

IDS = st.lists(st.integers(0, 40), unique=True, max_size=25)
MANY = 5000


def record(number: int, kind: int) -> table_pb2.DataFragment:
    """A fragment of one of six kinds."""
    fragment = table_pb2.DataFragment(id=number, physical_rows=number * 3 + 1)
    for part in range(1 + kind % 2):
        fragment.files.add(
            path=f"{number}-{part}.lance",
            fields=[part, 7] if part else [0],
            column_indices=[0, 1] if part else [0],
            file_major_version=2,
            file_minor_version=part,
            file_size_bytes=1000 + number,
        )
    if kind % 3 == 1:
        fragment.deletion_file.id = number
        fragment.deletion_file.num_deleted_rows = 1
    if kind % 3 == 2:
        fragment.inline_row_ids = bytes([number])
    return fragment


def parsed(content: bytes) -> list[table_pb2.DataFragment]:
    return list(table_pb2.Manifest.FromString(content).fragments)


@given(ids=IDS, data=st.data())
def test_a_draft_is_as_a_list_of_messages(ids: list[int], data: st.DataObject) -> None:
    model = {number: record(number, number % 6) for number in ids}
    draft = DraftedFragments(Fragments(Records.of(model.values())))
    for _ in range(data.draw(st.integers(0, 8))):
        what = data.draw(st.sampled_from(["remove", "replace", "change", "add", "files"]))
        sample = sorted(data.draw(st.sets(st.sampled_from(sorted(model))))) if model else []
        if what == "remove":
            draft.remove(sample)
            for number in sample:
                del model[number]
        elif what == "add":
            number = data.draw(st.integers(41, 60).filter(lambda entry: entry not in model))
            model[number] = record(number, number % 6)
            assert draft.add(model[number]) is not model[number]
        elif what == "files":
            for fragment in draft.all_like(lambda form: len(form.files) == 2):
                del fragment.files[1]
            for fragment in model.values():
                del fragment.files[1:]
        for number in sample:
            if what == "replace":
                model[number] = record(number, (number + 1) % 6)
                draft.replace(model[number])
            elif what == "change":
                draft.get(number).physical_rows += 1
                model[number].physical_rows += 1
    expected = [model[number] for number in sorted(model)]
    assert sorted(draft.ids.tolist()) == sorted(model)
    assert draft.missing([*model, 99, 77]) == [77, 99]
    assert parsed(draft.content()) == expected
    assert {form_bytes(form) for form in draft.forms} == {form_bytes(item) for item in expected}


def test_the_kernel_finds_the_forms_that_the_messages_have() -> None:
    fragments = [record(number, number % 6) for number in range(100)]
    message = table_pb2.Manifest(version=3, fragments=fragments)
    parts = _kernels.manifest_fragments(message.SerializeToString())
    assert parts is not None
    records = Records(*parts[2:])
    assert records.form_of.tolist() == [number % 6 for number in range(100)]
    assert records.content == table_pb2.Manifest(fragments=fragments).SerializeToString()
    sizes = [fragment.ByteSize() for fragment in fragments]
    assert records.sizes.tolist() == sizes
    assert records.stops.tolist() == [*accumulate(size + 2 for size in sizes)]
    forms = [form.SerializeToString(deterministic=True) for form in Fragments(records).forms]
    assert forms == [form_bytes(fragment) for fragment in fragments[:6]]


def test_forms_have_no_part_that_differs_between_fragments() -> None:
    for kind in range(6):
        assert form_bytes(record(5, kind)) == form_bytes(record(17, kind))
    external = [
        table_pb2.DataFragment(external_row_ids=table_pb2.ExternalFile(path=path, offset=len(path)))
        for path in ("a", "bcd")
    ]
    assert form_bytes(external[0]) == form_bytes(external[1])
    form = table_pb2.DataFragment.FromString(form_bytes(external[0]))
    assert form.WhichOneof("row_id_sequence") == "external_row_ids"


def test_what_does_not_change_is_copied_in_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    draft = DraftedFragments(Fragments(Records.of(record(number, 0) for number in range(MANY))))
    draft.remove([10])
    draft.get(2000).physical_rows = 1
    draft.add(record(MANY, 0))
    copied, fields = [], Records.fields

    def counted(records: Records, first: int, last: int) -> bytes:
        copied.append(last - first + 1)
        return fields(records, first, last)

    monkeypatch.setattr(Records, "fields", counted)
    assert len(parsed(draft.content())) == MANY
    assert copied == [10, 1989, 2999]
