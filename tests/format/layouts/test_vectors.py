"""Pages whose bytes the specification gives in full, read in every way.

Source: docs/format/file.md, "Test vectors".
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import pyarrow as pa
import pytest

from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference import encodings
from tests.reference.built_pages import PageBytes, ReadFile, built_file

INT32: Final = pa.int32()
LIST: Final = pa.list_(INT32)


def struct_of(member: pa.DataType) -> pa.StructType:
    return pa.struct({"x": member})


def page_of(layout: str, buffers: list[str], num_rows: int) -> PageBytes:
    return PageBytes(bytes.fromhex(layout), [*map(bytes.fromhex, buffers)], num_rows)


# name: (type, description, buffers, rows)
VECTORS: dict[str, tuple[pa.DataType, str, list[str], list[Any]]] = {
    "int32": (
        INT32,
        "0a0d1a040a02082032010138014803",
        ["2000", "00000c00fefefefe010000000200000003000000fefefefe"],
        [1, 2, 3],
    ),
    "nullable int32, 2.1": (
        INT32,
        "0a1312040a0208101a040a02082032010338014804",
        ["3000", "040008001000fefe000001000000010001000000000000000300000000000000"],
        [1, None, 3, None],
    ),
    "nullable int32, 2.2": (
        INT32,
        "0a1512040a0208101a040a020820320103380148045001",
        ["30000000", "0400080010000000000001000000010001000000000000000300000000000000"],
        [1, None, 3, None],
    ),
    "list": (
        LIST,
        "0a1c0a040a02081012040a0208101a040a02082032020306380140014804",
        [
            "6000",
            "06000c000c0010000100000001000100" "01000000fefefefe0000000002000300"
            "00000100fefefefe" "01000000020000000300000000000000",
            "04000000000000000000000000000000",
        ],
        [[1, 2], None, [], [3, None]],
    ),
    "list without definition levels": (
        LIST,
        "0a160a040a0208101a040a02082032020102380140014803",
        ["3000", "030006000c00fefe010000000100fefe010000000200000003000000fefefefe",
         "02000000000000000000000000000000"],
        [[1, 2], [3]],
    ),
    "full-zip list without definition levels": (
        LIST,
        "1a1208011820280330033a040a02082042020102",
        ["010100000000020000000103000000", "000a0f"],
        [[1, 2], [3]],
    ),
    "list of struct of list": (
        pa.list_(struct_of(LIST)),
        "0a1e0a040a02081012040a0208101a040a020820320403060306380140014803",
        [
            "6000",
            "0800100010000c00" "02000000010001000100020002000200"
            "00000100030004000200060005000000" "010000000000000002000000fefefefe",
            "04000000000000000000000000000000",
        ],
        [[([1, None],), ([],), None, (None,)], [], None, [([2],)]],
    ),
    "fixed-size list of struct": (
        pa.list_(struct_of(INT32), 1),
        "0a2112040a0208101a0e420c0a040a02082012040a0208083203030303380248065001",
        [
            "60000000",
            "06000c000c00000003000000fefefefe000000000300030002000100fefefefe"
            "010000000200000000000000fefefefe010104fefefefefe",
        ],
        [((1,),), ((2,),), None, None, (None,), ((None,),)],
    ),
    "rows over chunks": (
        LIST,
        "0a1c0a040a02081012040a0208101a040a02082032020106380140014809",
        [
            "31003100310031003000",
            "020004000400080001000000fefefefe00000000fefefefe0a0000000b000000"
            "020004000400080000000000fefefefe00000000fefefefe0c0000000d000000"
            "0300060006000800000001000100fefe000002000000fefe0e0000000f000000"
            "0300060006000800010001000000fefe010000000000fefe1000000011000000"
            "020004000400040000000100fefefefe00000200fefefefe12000000fefefefe",
            "".join(f"{ends:02x}{'00' * 7}{partial:02x}{'00' * 7}"
                    for ends, partial in [(0, 2), (0, 2), (3, 0), (1, 2), (2, 0)]),
        ],
        [[10, 11, 12, 13, 14], [], [15], None, [16, 17, 18], []],
    ),
    "empty lists at the start of a chunk": (
        LIST,
        "0a1c0a040a02081012040a0208101a040a02082032020105380140014805",
        [
            "310031003000",
            "020004000400080001000000fefefefe00000000fefefefe0a0000000b000000"
            "04000800080008000100010001000000" "01000100000000000c0000000d000000"
            "01000200020004000100fefefefefefe0000fefefefefefe0e000000fefefefe",
            "".join(f"{ends:02x}{'00' * 15}" for ends in (1, 3, 1)),
        ],
        [[10, 11], [], [], [12, 13], [14]],
    ),
    "full-zip int32": (
        INT32,
        "1a1110011820280330033a040a020820420103",
        ["000100000001000000000003000000"],
        [1, None, 3],
    ),
    "full-zip list of utf8": (
        pa.list_(pa.binary()),
        "1a18080110022020280730053a0812060a040a02082042020306",
        ["04020000006162" "000100000063" "06" "07" "040100000064" "01" "0000000000", "000d0e0f1b"],
        [[b"ab", b"c"], None, [], [b"d", None, b""]],
    ),
    "all null": (INT32, "12032a0103", [], [None] * 3),
    "all null lists": (
        LIST,
        "12042a020306", ["0100010001000100", "0200030001000200"], [None, [], [None], None]
    ),
    "all null lists, compressed levels": (
        LIST,
        "12142a0203063a040a02081042040a02081048045004",
        ["0100010001000100", "0200030001000200"],
        [None, [], [None], None],
    ),
    "constant": (INT32, "12092a0101320407000000", [], [7, 7, 7]),
    "constant or null": (INT32, "12092a0103320407000000", ["", "000001000000"], [7, None, 7]),
    "constant utf8": (
        pa.binary(),
        "12032a0101", ["0200000008000000030000000000000003000000616263"], [b"abc", b"abc"]
    ),
    "constant utf8 in lists": (
        pa.list_(pa.binary()),
        "12042a020306",
        ["0200000008000000030000000000000003000000616263",
         "010000000100010001000000", "000000000200030001000000"],
        [[b"abc", b"abc"], None, [], [None, b"abc"]],
    ),
}  # fmt: skip


def nested(value: Any) -> Any:
    """A row as Arrow gives it: structs of one member, which are tuples above, are dictionaries."""
    match value:
        case list():
            return [*map(nested, value)]
        case tuple():
            return {"x": nested(value[0])}
        case _:
            return value


def file_of(name: str) -> tuple[ReadFile, list[Any]]:
    """The file of a vector, and its rows."""
    arrow, layout, buffers, expected = VECTORS[name]
    rows = nested(expected)
    if name == "fixed-size list of struct":
        rows = [None if row is None else [row["x"]] for row in rows]
    return built_file(arrow, [page_of(layout, buffers, len(rows))]), rows


@pytest.mark.parametrize("name", VECTORS)
def test_a_page_gives_its_rows(name: str) -> None:
    file, expected = file_of(name)
    assert file.all_rows() == expected
    assert file.rounds == min(1, len(VECTORS[name][2]))


@pytest.mark.parametrize("name", VECTORS)
def test_any_rows_of_a_page_can_be_taken(name: str) -> None:
    file, expected = file_of(name)
    for count in range(1, len(expected) + 1):
        for numbers in combinations(range(len(expected)), count):
            for rows in file.ways(numbers):
                assert rows == [expected[number] for number in numbers]


@pytest.mark.parametrize("name", VECTORS)
def test_a_take_costs_one_round(name: str) -> None:
    file, expected = file_of(name)
    assert file.taken([0], guess=True) == expected[:1]
    assert file.rounds <= 1


def test_primitive_fixed_size_lists_keep_the_nulls_of_their_items() -> None:
    expected = [[1, 2, 3], [4, None, 6], None]
    chunk = (
        "0300060002001200000000000100fefe2f00fefefefefefe"
        "010002000300040000000600000000000000fefefefefefe"
    )
    mini_block = page_of(
        "0a1b12040a0208101a0c5a0a080312040a020810180132010338024803", ["5000", chunk], 3
    )
    full_zip = page_of(
        "1a1910011838280330033a0c5a0a080312040a0208101801420103",
        ["002f010002000300" "0005040000000600" "0100000000000000"],
        3,
    )  # fmt: skip
    for page in (mini_block, full_zip):
        file = built_file(pa.list_(pa.int16(), 3), [page])
        assert file.all_rows() == expected
        for numbers in ([0], [1], [2], [0, 2], [1, 2]):
            for rows in file.ways(numbers):
                assert rows == [expected[number] for number in numbers]


def test_large_strings_in_full_zip() -> None:
    layout = pb.PageLayout(
        full_zip_layout=pb.FullZipLayout(
            bits_def=1,
            bits_per_offset=64,
            num_items=4,
            num_visible_items=4,
            value_compression=encodings.variable(64),
            layers=[3],
        )
    )
    data = "0002000000000000006162" "00010000000000000063" "01" "000000000000000000"  # fmt: skip
    page = page_of(layout.SerializeToString().hex(), [data, "000b15161f"], 4)
    file = built_file(pa.large_binary(), [page])
    assert file.all_rows() == [b"ab", b"c", None, b""]


def test_blob_descriptions_are_read_in_every_way() -> None:
    chunk = (
        "00004000fefefefe" "00000000000000000500000000000000" "00000100000000000000000000000000"
        "00000000000000000000000000000000" "40000000000000006400000000000000"
    )  # fmt: skip
    values = encodings.packed_struct([64, 64])
    inner = pb.PageLayout(
        mini_block_layout=pb.MiniBlockLayout(
            value_compression=values, layers=[1], num_buffers=1, num_items=4
        )
    )
    layout = pb.PageLayout(blob_layout=pb.BlobLayout(inner_layout=inner, layers=[3]))
    page = page_of(layout.SerializeToString().hex(), ["8000", chunk], 4)
    field = pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    file = built_file(field, [page])
    expected = [
        None if pair is None else dict(zip(("position", "size"), pair, strict=True))
        for pair in ((0, 5), None, (0, 0), (64, 100))
    ]
    assert file.all_rows() == expected
    for numbers in ([1], [0, 3], [0, 1, 2, 3]):
        for rows in file.ways(numbers):
            assert rows == [expected[number] for number in numbers]
