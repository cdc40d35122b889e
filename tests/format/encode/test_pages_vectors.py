"""The vectors of docs/format/file.md, "Test vectors", byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from alance.file_version import FileVersion
from alance.format.encode.arrays import leaf_values
from alance.format.encode.blobs import describe_blobs, encode_blob_page
from alance.format.encode.page_inputs import Hints
from alance.format.encode.pages import encode_pages, hints_of
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from tests.reference.pages import page as page_by_numpy
from tests.reference.pages.base import MiniBlockValues
from tests.reference.pages.values import mini_block_values
from tests.reference.written import file_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.format.blocks import FixedWidth
    from alance.format.encode.page_inputs import EncodedPage
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues


def encode_page(field: Field, values: PageValues, hints: Hints) -> EncodedPage:
    """The only page of a leaf's rows."""
    ((page,),) = encode_pages([(field, values, hints)])
    return page


def pages_of(
    array: pa.Array,
    version: str,
    metadata: dict[str, str] | None = None,
    make: Callable[[Field, PageValues, Hints], EncodedPage] = encode_page,
) -> list[EncodedPage]:
    schema = Schema.from_arrow(pa.schema([pa.field("c", array.type, metadata=metadata)]))
    (field,) = schema.fields
    result = leaf_values(field, array)
    return [
        make(
            leaf.field,
            result[leaf.field.id],
            hints_of(field, leaf.field, FileVersion.parse(version)),
        )
        for leaf in leaf_columns(field)
    ]


def check(page: EncodedPage, layout: str, *buffers: str) -> None:
    assert [buffer.tobytes().hex() for buffer in page.buffers] == [
        "".join(item.split()) for item in buffers
    ]
    result = page.layout.SerializeToString(deterministic=True).hex()
    assert result == "".join(layout.split())


FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}
LISTS = [[1, 2], None, [], [3, None]]


def chunks_of_two(values: FixedWidth, hints: Hints) -> MiniBlockValues:
    """As the reference implementation does with at most two values a chunk."""
    result = mini_block_values(values, Hints(hints.version, {"lance-encoding:compression": "none"}))
    counts = np.full(-(-values.num_values // 2), 2)
    counts[-1] = values.num_values - 2 * (len(counts) - 1)
    return MiniBlockValues(result.encoding, counts, (values.data,), (counts * 4)[np.newaxis])


def test_rows_over_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.reference.pages.miniblock.mini_block_values", chunks_of_two)
    rows = [[10, 11, 12, 13, 14], [], [15], None, [16, 17, 18], []]
    # The kernel's chunks are larger: test_pages_alike.py compares it with what is asked here.
    (page,) = pages_of(pa.array(rows, pa.list_(pa.int32())), "2.1", make=page_by_numpy)
    check(
        page,
        "0a1c0a040a02081012040a0208101a040a02082032020106380140014809",
        "3100 3100 3100 3100 3000",
        "020004000400080001000000fefefefe00000000fefefefe0a0000000b000000"
        "020004000400080000000000fefefefe00000000fefefefe0c0000000d000000"
        "0300060006000800000001000100fefe000002000000fefe0e0000000f000000"
        "0300060006000800010001000000fefe010000000000fefe1000000011000000"
        "020004000400040000000100fefefefe00000200fefefefe12000000fefefefe",
        "".join(number.to_bytes(8, "little").hex() for number in (0, 2, 0, 2, 3, 0, 1, 2, 2, 0)),
    )
    rows = [[10, 11], [], [], [12, 13], [14]]
    (page,) = pages_of(pa.array(rows, pa.list_(pa.int32())), "2.1", make=page_by_numpy)
    assert [buffer.tobytes().hex() for buffer in page.buffers] == [
        "310031003000",
        "020004000400080001000000fefefefe00000000fefefefe0a0000000b000000"
        "0400080008000800010001000100000001000100000000000c0000000d000000"
        "01000200020004000100fefefefefefe0000fefefefefefe0e000000fefefefe",
        "".join(number.to_bytes(8, "little").hex() for number in (1, 0, 3, 0, 1, 0)),
    ]


def test_a_whole_file() -> None:
    result = file_bytes(
        pa.table({"x": pa.array([1, 2, 3], pa.int32())}), "2.1", search_bytes=0
    ).hex()
    expected = (
        "2000"
        + "48" * 62
        + "00000c00 fefefefe 01000000 02000000 03000000 fefefefe"
        + "48" * 40
        + "0a1b0a1912017820ffffffffffffffffff012a05696e74333230013801 1003"
        + "0a29 1227 0a25 0a1f 2f6c616e63652e656e636f64696e67732e436f6c756d6e456e636f64696e67"
        + "1202 0a00 1240 0a02 0040 1202 0218 1803 2234 1232 0a30"
        + "0a1d 2f6c616e63652e656e636f64696e677332312e506167654c61796f7574 120f"
        + "0a0d 1a04 0a020820 3201 01 3801 4803"
        + "9f00000000000000 6d00000000000000 8000000000000000 1f00000000000000"
        + "9f00000000000000 0c01000000000000 1c01000000000000 01000000 01000000"
        + "0200 0100 4c414e43"
    )
    assert result == "".join(expected.split())
    assert len(result) == 2 * 340


def test_pages_with_nulls_have_the_bytes_of_the_page() -> None:
    array = pa.array([1, None, 3, None], pa.int32())
    body = "0000010000000100 01000000000000000300000000000000"
    (page,) = pages_of(array, "2.1")
    check(page, "0a1312040a0208101a040a02082032010338014804", "3000", "040008001000fefe" + body)
    (page,) = pages_of(array, "2.2")
    check(
        page,
        "0a1512040a0208101a040a020820320103380148045001",
        "30000000",
        "0400080010000000" + body,
    )


def test_pages_of_lists_have_the_bytes_of_the_page() -> None:
    (page,) = pages_of(pa.array(LISTS, pa.list_(pa.int32())), "2.1")
    check(
        page,
        "0a1c0a040a02081012040a0208101a040a02082032020306380140014804",
        "6000",
        "06000c000c001000 0100000001000100 01000000fefefefe 0000000002000300"
        "00000100fefefefe 01000000020000000300000000000000",
        "04000000000000000000000000000000",
    )


def test_lists_without_nulls() -> None:
    array = pa.array([[1, 2], [3]], pa.list_(pa.int32()))
    (page,) = pages_of(array, "2.1")
    check(
        page,
        "0a160a040a0208101a040a02082032020102380140014803",
        "3000",
        "030006000c00fefe 010000000100fefe 010000000200000003000000 fefefefe",
        "02000000000000000000000000000000",
    )
    (page,) = pages_of(array, "2.1", FULL_ZIP)
    check(
        page,
        "1a1208011820280330033a040a02082042020102",
        "01 01000000 00 02000000 01 03000000",
        "00 0a 0f",
    )


def test_pages_with_a_dictionary_have_the_bytes_of_the_page() -> None:
    array = pa.array(["x", None, "y", "x"]).dictionary_encode()
    (page,) = pages_of(array, "2.1")
    message = page.layout.mini_block_layout
    assert (message.num_dictionary_items, message.num_buffers, message.num_items) == (2, 2, 4)
    assert list(message.layers) == [3]
    assert [buffer.tobytes().hex() for buffer in page.buffers] == [
        "4000",
        "040008000c0003000000010000000000000000000100000000000000fefefefe020101fefefefefe",
        "20000000140000000000000001000000020000007879",
    ]


def test_lists_in_structs_in_lists() -> None:
    inner = pa.struct([("l", pa.list_(pa.int32()))])
    rows = [
        [{"l": [1, None]}, {"l": []}, None, {"l": None}],
        [],
        None,
        [{"l": [2]}],
    ]
    (page,) = pages_of(pa.array(rows, pa.list_(inner)), "2.1")
    check(
        page,
        "0a1e0a040a02081012040a0208101a040a020820320403060306380140014803",
        "6000",
        "0800100010000c00 02000000010001000100020002000200 00000100030004000200060005000000"
        "010000000000000002000000 fefefefe",
        "04000000000000000000000000000000",
    )


def test_a_fixed_size_list_of_structs() -> None:
    arrow = pa.list_(pa.struct([("a", pa.int32())]), 2)
    rows = [[{"a": 1}, {"a": 2}], None, [None, {"a": None}]]
    (page,) = pages_of(pa.array(rows, arrow), "2.2")
    assert page.num_rows == 6
    check(
        page,
        "0a2112040a0208101a0e420c0a040a02082012040a0208083203030303380248065001",
        "60000000",
        "06000c000c00000003000000fefefefe 000000000300030002000100 fefefefe"
        "010000000200000000000000 fefefefe 010104 fefefefefe",
    )


def test_fixed_size_lists_with_null_items() -> None:
    array = pa.array([[1, 2, 3], [4, None, 6], None], pa.list_(pa.int16(), 3))
    (page,) = pages_of(array, "2.1")
    check(
        page,
        "0a1b12040a0208101a0c5a0a080312040a020810180132010338024803",
        "5000",
        "0300060002001200 000000000100 fefe 2f00 fefefefefefe"
        "010002000300040000000600000000000000 fefefefefefe",
    )
    (page,) = pages_of(array, "2.1", FULL_ZIP)
    check(
        page,
        "1a1910011838280330033a0c5a0a080312040a0208101801420103",
        "00 07 010002000300 00 05 040000000600 01 00 000000000000",
    )


def test_full_zip_pages_have_the_bytes_of_the_page() -> None:
    (page,) = pages_of(pa.array([1, None, 3], pa.int32()), "2.1", FULL_ZIP)
    check(page, "1a1110011820280330033a040a020820420103", "00 01000000 01 00000000 00 03000000")
    array = pa.array([["ab", "c"], None, [], ["d", None, ""]], pa.list_(pa.string()))
    (page,) = pages_of(array, "2.1", FULL_ZIP)
    check(
        page,
        "1a18080110022020280730053a0812060a040a02082042020306",
        "04 02000000 6162 00 01000000 63 06 07 04 01000000 64 01 00 00000000",
        "00 0d 0e 0f 1b",
    )
    (page,) = pages_of(pa.array(["ab", "c", None, ""], pa.large_string()), "2.1", FULL_ZIP)
    assert [buffer.tobytes().hex() for buffer in page.buffers] == [
        "00020000000000000061620001000000000000006301000000000000000000",
        "000b15161f",
    ]


CONSTANTS: list[tuple[pa.Array, str, str, list[str]]] = [
    (pa.nulls(3, pa.int32()), "2.1", "12032a0103", []),
    (pa.nulls(3, pa.int32()), "2.2", "12032a0103", []),
    (
        pa.array([None, [], [None], None], pa.list_(pa.int32())),
        "2.1",
        "12042a020306",
        ["0100010001000100", "0200030001000200"],
    ),
    (
        pa.array([None, [], [None], None], pa.list_(pa.int32())),
        "2.2",
        "12142a0203063a040a02081042040a02081048045004",
        ["0100010001000100", "0200030001000200"],
    ),
    (pa.array([7, 7, 7], pa.int32()), "2.2", "12092a0101320407000000", []),
    (pa.array([7, None, 7], pa.int32()), "2.2", "12092a0103320407000000", ["", "000001000000"]),
    (
        pa.array(["abc", "abc"]),
        "2.2",
        "12032a0101",
        ["02000000 08000000 03000000 0000000003000000 616263"],
    ),
    (
        pa.array([["abc", "abc"], None, [], [None, "abc"]]),
        "2.2",
        "12042a020306",
        [
            "02000000 08000000 03000000 0000000003000000 616263",
            "010000000100010001000000",
            "000000000200030001000000",
        ],
    ),
]


@pytest.mark.parametrize(("array", "version", "layout", "buffers"), CONSTANTS)
def test_constant_pages_have_the_bytes_of_the_page(
    array: pa.Array, version: str, layout: str, buffers: list[str]
) -> None:
    (page,) = pages_of(array, version)
    check(page, layout, *buffers)


def test_blobs_of_version_1() -> None:
    payloads = [b"hello", None, b"", b"x" * 100]
    array = pa.array(payloads, pa.large_binary())
    schema = Schema.from_arrow(
        pa.schema([pa.field("c", array.type, metadata={"lance-encoding:blob": "true"})])
    )
    (field,) = schema.fields
    values = leaf_values(field, array)[0]
    positions = np.array([0, 0, 0, 64])
    page = encode_blob_page(
        field, values, positions, hints_of(field, field, FileVersion.parse("2.1"))
    )
    assert list(page.layout.blob_layout.layers) == [3]
    assert [buffer.tobytes().hex() for buffer in page.buffers] == [
        "8000",
        "00004000fefefefe"
        "00000000000000000500000000000000"
        "00000100000000000000000000000000"
        "00000000000000000000000000000000"
        "40000000000000006400000000000000",
    ]


def test_blobs_of_version_2() -> None:
    array = describe_blobs(
        np.array([0, 0, 0, 1, 2], np.uint8),
        np.array([0, 0, 64, 0, 0]),
        np.array([5, 0, 0, 70000, 5 << 20]),
        np.array([0, 0, 0, 1, 2]),
        valid=np.array([True, False, True, True, True]),
    )
    (page,) = pages_of(array, "2.2", {"lance-encoding:packed": "true"})
    assert list(page.layout.full_zip_layout.layers) == [3]
    assert page.layout.full_zip_layout.bits_per_offset == 32
    assert page.buffers[0].tobytes().hex() == (
        "0019000000"
        "00"
        "0000000000000000"
        "0500000000000000"
        "00000000"
        "00000000"
        "01"
        "0019000000"
        "00"
        "4000000000000000"
        "0000000000000000"
        "00000000"
        "00000000"
        "0019000000"
        "01"
        "0000000000000000"
        "7011010000000000"
        "01000000"
        "00000000"
        "0019000000"
        "02"
        "0000000000000000"
        "0000500000000000"
        "02000000"
        "00000000"
    )
    assert page.buffers[1].tobytes().hex() == "001e1f3d5b79"
