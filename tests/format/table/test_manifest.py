"""Manifests that pylance wrote, whole and spoiled."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import table_pb2
from alance.format.table.fragment import Fragment, inside
from alance.format.table.indices import Index
from alance.format.table.manifest import (
    LARGE,
    MANIFEST_FOOTER,
    MANIFEST_MAGIC,
    MET_BYTES,
    PARTS_BYTES,
    SECTION_LENGTH,
    Manifest,
    met_manifest,
    parse_manifest,
)
from alance.format.table.transaction import Transaction, parse_transaction

# docs/format/table.md, "Test vectors": an empty table, and a version with an index.
EMPTY = bytes.fromhex(
    "44000000122435333166353666632d613963342d343266302d393064342d626361353165343436613266b2061b"
    "121912016120ffffffffffffffffff012a05696e74363430013801790000000a1912016120ffffffffffffffff"
    "ff012a05696e7436343001380118013a0c088fea82d80610beb2a29c03622a302d35333166353666632d613963"
    "342d343266302d393064342d6263613531653434366132662e74786e6a0f0a056c616e6365120631342e302e32"
    "7a0c0a056c616e63651203322e32b801004800000000000000000002004c414e43"
)


def parse(content: bytes) -> Manifest:
    return parse_manifest(memoryview(content), "m")


def built(message: table_pb2.Manifest) -> bytes:
    """The file of a manifest without other sections."""
    content = message.SerializeToString()
    return (
        SECTION_LENGTH.pack(len(content)) + content + MANIFEST_FOOTER.pack(0, 0, 2, MANIFEST_MAGIC)
    )


def test_the_manifest_of_an_empty_table_is_parsed() -> None:
    manifest = parse(EMPTY)
    assert (manifest.version, manifest.fragments, manifest.indices) == (1, (), ())
    assert [(field.name, field.id) for field in manifest.schema.fields] == [("a", 0)]
    assert manifest.timestamp == datetime.fromtimestamp(1795208463, UTC).replace(microsecond=864590)
    assert manifest.data_storage_version is FileVersion.V2_2
    assert manifest.transaction is not None
    result = Transaction.from_protobuf(manifest.transaction)
    assert (result.operation, result.read_version, result.commit_message) == ("Overwrite", 0, None)
    assert result.uuid == "531f56fc-a9c4-42f0-90d4-bca51e446a2f"


def test_the_manifest_of_a_rich_table_is_parsed(rich_manifest: bytes) -> None:
    manifest = parse(rich_manifest)
    assert [fragment.id for fragment in manifest.fragments] == [0, 1, 2]
    assert [fragment.num_rows for fragment in manifest.fragments] == [8, 9, 1]
    assert manifest.has_stable_row_ids
    assert manifest.config == {"key": "value"}
    assert manifest.table_metadata == {"owner": "me"}
    assert manifest.schema.metadata == {"k": "v"}
    assert manifest.branch is None
    (index,) = [Index.from_protobuf(item) for item in manifest.indices]
    assert (index.name, index.fields, index.kind) == ("a_idx", (0,), "BTree")
    assert index.fragment_ids == frozenset({0, 1, 2})
    assert manifest.num_bytes > len(rich_manifest)
    assert manifest.transaction is not None
    assert Transaction.from_protobuf(manifest.transaction).operation == "CreateIndex"


def test_bytes_that_were_met_are_not_parsed_again(rich_manifest: bytes) -> None:
    content = memoryview(rich_manifest)
    assert parse(rich_manifest) == met_manifest(content)
    manifest, again = met_manifest(content), met_manifest(memoryview(bytes(rich_manifest)))
    assert manifest is not None
    assert again is not None
    assert again.head is manifest.head
    assert again.schema is manifest.schema
    assert again.remember is manifest.remember
    assert met_manifest(content[:-1]) is None


def test_damaged_bytes_are_not_met(rich_manifest: bytes) -> None:
    content = memoryview(rich_manifest[:-1] + b"X")
    with pytest.raises(CorruptFileError):
        parse_manifest(content, "x")
    assert met_manifest(content) is None


def test_few_of_the_manifests_that_were_met_are_kept() -> None:
    contents = []
    for number in range(2 * MET_BYTES // PARTS_BYTES):
        message = table_pb2.Manifest(version=number + 1)
        message.writer_version.library = "x"
        contents.append(memoryview(built(message)))
        parse_manifest(contents[-1], "x")
    values = [met_manifest(content) is not None for content in contents]
    assert 0 < sum(values) <= MET_BYTES // PARTS_BYTES
    assert values == sorted(values)  # the last ones
    large = memoryview(built(table_pb2.Manifest(version=1, tag="x" * LARGE)))
    parse_manifest(large, "x")
    assert met_manifest(large) is None


def test_a_manifest_truncated_anywhere_is_refused(rich_manifest: bytes) -> None:
    for end in range(len(rich_manifest)):
        with pytest.raises(CorruptFileError):
            parse(rich_manifest[:end])


def test_any_bit_flipped(rich_manifest: bytes) -> None:
    content = bytearray(rich_manifest)
    for position in range(len(content)):
        bit = 1 << (position * 5 % 8)
        content[position] ^= bit
        with contextlib.suppress(AlanceError):
            use_all(parse(bytes(content)))
        content[position] ^= bit


@settings(max_examples=200)
@given(st.data())
def test_a_manifest_with_overwritten_bytes_is_used_or_refused(
    rich_manifest: bytes, data: st.DataObject
) -> None:
    content = bytearray(rich_manifest)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(AlanceError):
        use_all(parse(bytes(content)))


def use_all(manifest: Manifest) -> None:
    """Read every part of a manifest that readers use; each may be refused separately."""
    assert manifest.timestamp is None or manifest.timestamp.tzinfo is UTC
    assert manifest.num_bytes > 0
    for fragment in manifest.fragments:
        assert fragment.num_rows is None or isinstance(fragment.num_rows, int)
    for index in manifest.indices:
        with contextlib.suppress(AlanceError):
            Index.from_protobuf(index)
    with contextlib.suppress(AlanceError):
        manifest.schema.to_arrow()
    with contextlib.suppress(AlanceError):
        assert manifest.data_storage_version


@pytest.mark.parametrize("position", [-1, 1 << 40, 73, -(1 << 63)])
def test_footer_points_elsewhere(position: int) -> None:
    with pytest.raises(CorruptFileError):
        parse(EMPTY[: -MANIFEST_FOOTER.size] + MANIFEST_FOOTER.pack(position, 0, 2, MANIFEST_MAGIC))


def test_section_beyond_the_end() -> None:
    for message in (
        table_pb2.Manifest(version=1, index_section=1 << 50),
        table_pb2.Manifest(version=1, transaction_section=1 << 50),
    ):
        with pytest.raises(CorruptFileError, match="outside"):
            parse(built(message))


def test_fragments_of_one_id_are_told() -> None:
    twice = table_pb2.Manifest(fragments=[table_pb2.DataFragment(id=n) for n in (3, 5, 3)])
    assert parse(built(twice)).fragments.repeated_id == 3
    once = table_pb2.Manifest(fragments=[table_pb2.DataFragment(id=n) for n in (3, 5, 1)])
    assert parse(built(once)).fragments.repeated_id is None


def test_contents_that_contradict_the_format_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="32 bits"):
        parse(built(table_pb2.Manifest(fragments=[table_pb2.DataFragment(id=1 << 32)])))
    uneven = table_pb2.DataFile(path="x", fields=[1], file_major_version=2, file_minor_version=1)
    with pytest.raises(CorruptFileError, match="1 fields, 0 columns"):
        use_all(
            parse(built(table_pb2.Manifest(fragments=[table_pb2.DataFragment(files=[uneven])])))
        )
    with pytest.raises(UnsupportedError, match="overlays"):
        parse(built(table_pb2.Manifest(reader_feature_flags=64, writer_feature_flags=64)))


def test_unknown_fields_are_kept() -> None:
    unknown = bytes.fromhex("a2060178")  # field 100, one byte of text
    content = table_pb2.Manifest(version=5).SerializeToString() + unknown
    manifest = parse(
        SECTION_LENGTH.pack(len(content)) + content + MANIFEST_FOOTER.pack(0, 0, 2, MANIFEST_MAGIC)
    )
    assert manifest.version == 5
    assert unknown in manifest.message.SerializeToString()


def test_absurd_timestamps_are_none() -> None:
    for seconds, nanos in [(1 << 62, 0), (-(1 << 62), 0)]:
        message = table_pb2.Manifest(version=1)
        message.timestamp.seconds, message.timestamp.nanos = seconds, nanos
        assert parse(built(message)).timestamp is None


def test_tombstones_and_lineage_columns() -> None:
    file = table_pb2.DataFile(
        path="x",
        fields=[0, -2, 2, -3],
        column_indices=[0, 1, -1, 3],
        file_major_version=2,
        file_minor_version=2,
    )
    fragment = Fragment.from_protobuf(table_pb2.DataFragment(files=[file]))
    assert fragment.files[0].columns == {0: 0, -3: 3}


@pytest.mark.parametrize(
    "path", ["", "/a", "../a", "a/../b", "a//b", "./a", "a\\b", "s3://b/a", "a\0"]
)
def test_paths_that_leave(path: str) -> None:
    with pytest.raises(CorruptFileError):
        inside(path, "file")


def test_a_transaction_of_pylance_is_parsed() -> None:
    content = bytes.fromhex(
        "0802122438373263356339372d313661322d346537352d386464662d656664666665346362643338aa06620a5b"
        "12470a3830303030313031303131313130303030303030313131313162356365623834616566396566383836"
        "393433323064666266642e6c616e63651201001a01002002280230d6021a0e100218e2e78d85b5dafd88492001"
        "20031a03613d31"
    )
    result = parse_transaction(content, "t")
    assert (result.read_version, result.operation) == (2, "Delete")
    assert result.message.delete.predicate == "a=1"
    assert parse_transaction(bytes.fromhex("0804a2070208 01"), "t").operation == "Unknown"
    for end in range(len(content)):
        with contextlib.suppress(CorruptFileError):
            parse_transaction(content[:end], "t")
    with pytest.raises(CorruptFileError, match="t: no transaction"):
        parse_transaction(b"\xff" * 9, "t")
