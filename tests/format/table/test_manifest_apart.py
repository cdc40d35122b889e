"""Manifests whose fragments are parsed where they are looked at: the same as parsed as a whole."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.format.proto import rowids_pb2, table_pb2
from alance.format.table import manifest
from alance.format.table.fragment import Fragments, Records
from alance.format.table.manifest import Manifest, parse_manifest
from alance.format.table.row_ids import parse_row_ids, row_id_segments
from tests.reference.forms import form_bytes


def grown(path: Path, **options: Any) -> list[bytes]:
    """The manifests of a table that was changed in many ways."""
    for start in range(0, 60, 20):
        rows = pa.table({"id": range(start, start + 20), "text": ["a"] * 20})
        lance.write_dataset(rows, path, mode="append", max_rows_per_file=5, **options)
    dataset = lance.dataset(path)
    dataset.delete("id % 7 = 3")
    dataset.delete("id >= 20 and id < 25")
    dataset.update({"text": "'b'"}, where="id = 44")
    dataset.add_columns({"twice": "id * 2"})
    dataset.update_config({"key": "välue"})
    dataset.create_scalar_index("id", "BTREE")
    dataset.drop_columns(["text"])
    return [file.read_bytes() for file in sorted(Path(path, "_versions").glob("*.manifest"))]


@pytest.fixture(scope="module", params=["plain", "stable row ids", "2.0"])
def manifests(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[bytes]:
    options: dict[str, Any] = {
        "plain": {},
        "stable row ids": {"enable_stable_row_ids": True},
        "2.0": {"data_storage_version": "2.0"},
    }[request.param]
    return grown(tmp_path_factory.mktemp("t") / "t.lance", **options)


def whole(content: bytes) -> Manifest:
    """The manifest with all fragments parsed at once, as if a record had unusual fields."""
    read = _kernels.manifest_fragments

    def unusual(message: bytes) -> Any:
        parts = read(message)
        return parts and (parts[0], False, *parts[2:])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest._kernels, "manifest_fragments", unusual)
        return parse_manifest(memoryview(content), "here")


def test_the_same_fragments(manifests: list[bytes]) -> None:
    for content in manifests:
        result, expected = parse_manifest(memoryview(content), "here"), whole(content)
        assert not result.head.fragments
        assert result.message == expected.message
        assert result.message is result.message
        assert result.fragments.ids.tolist() == expected.fragments.ids.tolist()
        assert result.fragments.num_rows.tolist() == expected.fragments.num_rows.tolist()
        assert result.fragments == expected.fragments
        assert result.fragments[1:3] == expected.fragments[1:3]
        assert result.config == expected.config
        assert result.timestamp == expected.timestamp
        assert result.indices == expected.indices
        assert result.schema == expected.schema
        assert abs(result.num_bytes - expected.num_bytes) <= 2 * len(content)
        slim = table_pb2.Manifest()
        slim.CopyFrom(expected.message)
        slim.ClearField("fragments")
        assert result.head == expected.head == slim
        assert result.fragments.records.content == expected.fragments.records.content
        forms = [
            [fragments.forms[number] for number in fragments.records.form_of.tolist()]
            for fragments in (result.fragments, expected.fragments)
        ]
        assert forms[0] == forms[1]
        assert result.same_as(parse_manifest(memoryview(content), "there"))
        assert result.same_as(expected)
    first, last = (
        parse_manifest(memoryview(candidate), "here") for candidate in (manifests[0], manifests[-1])
    )
    assert not first.same_as(last)


def test_numbers_of_rows() -> None:
    cases = [(5, None), (5, 2), (5, 0), (0, None), (0, 2), (5, 5), (5, 7), (1 << 32, None)]
    message = table_pb2.Manifest(version=1)
    for number, (rows, deleted) in enumerate(cases):
        item = message.fragments.add(id=number * 3, physical_rows=rows)
        if deleted is not None:
            item.deletion_file.num_deleted_rows = deleted
            item.deletion_file.id = 1
    result = _kernels.manifest_fragments(message.SerializeToString())
    assert result is not None
    rest, is_usual, *columns = result
    assert is_usual
    assert table_pb2.Manifest.FromString(rest) == table_pb2.Manifest(version=1)
    records, parsed = Records(*columns), Records.of(message.fragments)
    assert list(records) == records[:] == list(message.fragments) == list(parsed)
    assert records.content == parsed.content
    built = Fragments(records)
    assert built.num_rows.tolist() == Fragments(parsed).num_rows.tolist()
    assert built.ids.tolist() == [fragment.id for fragment in message.fragments]
    assert [built.position_of(3), built.position_of(4)] == [1, None]


def test_rows_that_no_address_can_number_are_refused() -> None:
    for rows in ((1 << 32) + 1, (1 << 64) - 1):
        records = Records.of([table_pb2.DataFragment(id=3, physical_rows=rows)])
        with pytest.raises(CorruptFileError, match=f"fragment of {rows} rows: at most 4294967296"):
            Fragments(records)


# Fields of fixed width that no release knows: number 500, of 8 and of 4 bytes.
FIXED = b"\xa1\x1f12345678\xa5\x1f1234"


@pytest.mark.parametrize(
    "fragment",
    [
        table_pb2.DataFragment(external_row_ids=table_pb2.ExternalFile(path="x")),
        table_pb2.DataFragment(column_created_at_versions={}),
        table_pb2.DataFragment(overlays=[table_pb2.DataOverlayFile()]),
        table_pb2.DataFragment(files=[table_pb2.DataFile(path="ä.lance")]),
        table_pb2.DataFragment(files=[table_pb2.DataFile.FromString(FIXED)]),
        table_pb2.DataFragment(deletion_file=table_pb2.DeletionFile.FromString(FIXED)),
        table_pb2.DataFragment(deletion_file={"num_deleted_rows": 1 << 63}),
        table_pb2.DataFragment(files=[{"file_size_bytes": (1 << 64) - 1}, {"file_size_bytes": 2}]),
        table_pb2.DataFragment.FromString(FIXED),
    ],
)
def test_what_is_unusual_is_parsed_as_a_whole(fragment: table_pb2.DataFragment) -> None:
    message = table_pb2.Manifest(fragments=[fragment])
    result = _kernels.manifest_fragments(message.SerializeToString())
    assert result is not None
    assert not result[1]
    records = Records.of([fragment])
    assert records[:] == [fragment]
    assert [table_pb2.DataFragment.FromString(form) for form in records.forms] == [
        table_pb2.DataFragment.FromString(form_bytes(fragment))
    ]
    deleted = fragment.deletion_file.num_deleted_rows if fragment.HasField("deletion_file") else -1
    assert records.deleted.tolist() == [min(deleted, (1 << 63) - 1)]
    sizes = [file.file_size_bytes for file in fragment.files]
    assert records.file_bytes.tolist() == [sum(sizes) % (1 << 64)]


def test_records_that_are_cut_short_are_refused() -> None:
    for content in (table_pb2.DataFragment(id=300).SerializeToString(), FIXED, FIXED[:10]):
        field = b"\x12" + bytes([len(content) - 1]) + content[:-1]
        assert _kernels.manifest_fragments(field) is None
        with pytest.raises(CorruptFileError, match="a record is damaged"):
            Records.read(field)


def outcome(content: bytes, parse: Any) -> Any:
    """Return the content of a manifest, or the error."""
    try:
        result: Manifest = parse(content)
        return result.message, tuple(result.fragments), result.fragments.num_rows.tolist()
    except AlanceError as error:
        return type(error), str(error)


@settings(max_examples=400)
@given(data=st.data())
def test_wrong_bytes_have_the_same_outcome_as_parsed_whole(
    manifests: list[bytes], data: st.DataObject
) -> None:
    content = bytearray(data.draw(st.sampled_from(manifests[-3:])))
    for _ in range(data.draw(st.integers(1, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    result = outcome(bytes(content), lambda item: parse_manifest(memoryview(item), "here"))
    expected = outcome(bytes(content), whole)
    assert result == expected


def test_row_ids_of_many_fragments_are_those_of_each(manifests: list[bytes]) -> None:
    num_ranges = 0
    for content in manifests:
        fragments = parse_manifest(memoryview(content), "here").fragments
        firsts, are_ranges = fragments.row_id_ranges()
        for first, is_range, fragment in zip(firsts, are_ranges, fragments, strict=True):
            inline, rows = fragment.message.inline_row_ids, fragment.message.physical_rows
            if is_range:
                num_ranges += 1
                assert not fragment.message.HasField("deletion_file")
                assert parse_row_ids(inline, rows).tolist() == [*range(first, first + rows)]
            elif inline and not fragment.message.HasField("deletion_file"):
                (segment,) = row_id_segments(inline)
                assert segment.WhichOneof("segment") != "range"
    assert bool(num_ranges) is bool(manifests and fragments[0].message.inline_row_ids)


RANGE = rowids_pb2.U64Segment(range={"start": 7, "end": 9})
UNUSUAL: list[dict[str, Any]] = [
    {},
    {"inline_row_ids": b""},
    {"inline_row_ids": b"\xff"},
    {"inline_row_ids": rowids_pb2.RowIdSequence(segments=[RANGE, RANGE]).SerializeToString()},
    {"inline_row_ids": rowids_pb2.RowIdSequence(segments=[RANGE]).SerializeToString()[:-1]},
    {
        "inline_row_ids": rowids_pb2.RowIdSequence(
            segments=[{"range": {"start": 9, "end": 7}}]
        ).SerializeToString()
    },
    {
        "inline_row_ids": rowids_pb2.RowIdSequence(
            segments=[{"range": {"start": 1, "end": 1 << 60}}]
        ).SerializeToString()
    },
    {"external_row_ids": {"path": "x"}},
    {"column_row_ids": {}},
]


@pytest.mark.parametrize("record", UNUSUAL)
def test_row_ids_that_are_no_range_are_left_to_the_record(record: dict[str, Any]) -> None:
    records = Records.of([table_pb2.DataFragment(id=3, physical_rows=2, **record)])
    assert (records.first_ids.tolist(), records.num_ids.tolist()) == ([0], [-1])


@st.composite
def based_records(draw: st.DrawFn) -> table_pb2.DataFragment:
    """A record whose files lie here or below base paths."""
    fragment = table_pb2.DataFragment(id=draw(st.integers(0, 99)), physical_rows=7)
    bases = st.none() | st.integers(0, 300)
    for path in draw(st.lists(st.sampled_from(["a.lance", "ä.lance"]), max_size=3)):
        file = fragment.files.add(path=path, fields=[1, -2], file_size_bytes=300)
        if (base := draw(bases)) is not None:
            file.base_id = base
    if draw(st.booleans()):
        fragment.deletion_file.num_deleted_rows = 2
        if (base := draw(bases)) is not None:
            fragment.deletion_file.base_id = base
    if draw(st.booleans()):
        fragment.inline_row_ids = b"\x0a\x00"
    if draw(st.booleans()):
        fragment.overlays.add()
    return fragment


@given(st.lists(based_records(), max_size=4), st.none() | st.integers(0, 300))
def test_records_of_a_clone(fragments: list[table_pb2.DataFragment], base: int | None) -> None:
    below = Fragments(Records.of(fragments)).below(base)
    for fragment in fragments:
        for file in (
            *fragment.files,
            *[fragment.deletion_file] * fragment.HasField("deletion_file"),
        ):
            if base is None:
                file.ClearField("base_id")
            elif not file.HasField("base_id"):
                file.base_id = base
    assert list(below.records) == fragments
    assert [below.forms[number] for number in below.records.form_of.tolist()] == [
        table_pb2.DataFragment.FromString(form_bytes(fragment)) for fragment in fragments
    ]


@given(st.lists(based_records(), min_size=1, max_size=3), st.data())
def test_records_that_are_damaged_are_refused_or_read(
    fragments: list[table_pb2.DataFragment], data: st.DataObject
) -> None:
    content = bytearray(Records.of(fragments).content)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptFileError, ValueError):
        _kernels.based_fragments(bytes(content), 3)
    with pytest.raises(ValueError, match="fragments"):
        _kernels.based_fragments(Records.of(fragments).content[:-1], 3)
