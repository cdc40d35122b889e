"""Pages of 2.3 whose bytes the specification gives, read in every way.

Source: docs/format/file.md, "Sparse pages, 2.3".
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from alance.errors import CorruptFileError
from alance.file_version import FileVersion
from alance.format.proto import encodings_v2_3_pb2 as pb3
from tests.reference import encodings
from tests.reference.built_pages import PageBytes, ReadFile, built_file

INT32, LIST = pa.int32(), pa.list_(pa.int32())

# name: (type, description, buffers, rows)
VECTORS: dict[str, tuple[pa.DataType, str, list[str], list[Any]]] = {
    "dense int32": (
        INT32,
        "0a050a030a0101120e0a0c0a040a020820120028013003",
        ["20000000", "00000c000000fefe010000000200000003000000fefefefe"],
        [1, 2, 3],
    ),
    "dense list": (
        LIST,
        "0a060a040a020306121c0a1a0a040a020820120e0a040a02081012040a020810180128013004",
        [
            "70000000",
            "06000c000c0010000000fefefefefefe" "0100000001000100" "01000000fefefefe"
            "0000000002000300" "00000100fefefefe" "01000000020000000300000000000000",
            "04000000000000000000000000000000",
        ],
        [[1, 2], None, [], [3, None]],
    ),
    "all null": (INT32, "0a0c120a0a080a06080212021a0012022200", [], [None] * 3),
    "nullable constant": (
        INT32,
        "0a1212100a0e0a0c08021206720408401802180212081a060a0407000000",
        [],
        [7, None, 7],
    ),
    "list": (
        LIST,
        "0a4612440a2c122a0808120a7a0808401a040a020840180422040a0208402a120801120c1a0a0a08"
        "010000000000000018010a140a120801120c1a0a0a0803000000000000001801"
        "120a0a080a040a0208202801",
        [
            "40000000",
            "000020000000fefe0100000002000000030000000000000004000000050000000600000007000000",
            "030000000000000001000000000000000200000000000000",
            "0200000000000000020000000000000003000000000000000100000000000000",
        ],
        [[1, 2], None, [], [3, None], [4, 5, 6], [], [7]],
    ),
}  # fmt: skip
NAMES = list(VECTORS)


def file_of(arrow: pa.DataType, description: bytes, buffers: list[str], num_rows: int) -> ReadFile:
    page = PageBytes(description, [*map(bytes.fromhex, buffers)], num_rows)
    return built_file(arrow, [page], FileVersion.V2_3)


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_the_specification_are_read_in_every_way(name: str) -> None:
    arrow, description, buffers, expected = VECTORS[name]
    file = file_of(arrow, bytes.fromhex(description), buffers, len(expected))
    assert file.all_rows() == expected
    assert file.rounds <= 1
    for start in range(len(expected)):
        for stop in range(start + 1, len(expected) + 1):
            assert file.range(start, stop, warm=True) == expected[start:stop]
            assert file.rounds <= 1
    for count in range(1, len(expected) + 1):
        for numbers in combinations(range(len(expected)), count):
            for rows in file.ways(numbers):
                assert rows == [expected[number] for number in numbers]


NO_SET = encodings.empty_constant()
FLAT = encodings.flat(64)
VALIDITY = pb3.SparseValiditySet(meaning=1, positions=NO_SET)
LEAF = pb3.SparseStructuralLayer(validity=VALIDITY)
NONE = pb3.ValuePlane(none=pb3.NoValues())


def sparse(*layers: pb3.SparseStructuralLayer) -> pb3.StructuralPlane:
    return pb3.StructuralPlane(sparse=pb3.SparseStructure(layers=layers))


def dense(*layers: int) -> pb3.StructuralPlane:
    return pb3.StructuralPlane(dense=pb3.DenseStructure(layers=layers))


def null_at(*positions: int, meaning: int = 1) -> pb3.SparseStructuralLayer:
    return pb3.SparseStructuralLayer(
        validity=pb3.SparseValiditySet(
            meaning=meaning, positions=FLAT, num_positions=len(positions)
        )
    )


def constant(scalar: bytes) -> pb3.ValuePlane:
    return pb3.ValuePlane(constant=pb3.ConstantValue(scalar=scalar))


def words(*numbers: int) -> str:
    return np.array(numbers, "<u8").tobytes().hex()


def lists(children: int, count: int) -> pb3.SparseStructuralLayer:
    return pb3.SparseStructuralLayer(
        list=pb3.SparseListLayer(
            num_child_slots=children,
            non_empty_positions=FLAT,
            num_non_empty_positions=count,
            counts=FLAT,
            validity=VALIDITY,
        )
    )


BAD: dict[str, tuple[pb3.PlanarLayout, list[str]]] = {
    "no structure": (pb3.PlanarLayout(values=NONE), []),
    "no values": (pb3.PlanarLayout(structure=sparse(LEAF)), []),
    "dense constant of nullable items": (
        pb3.PlanarLayout(structure=dense(3), values=constant(b"1234")),
        [],
    ),
    "dense none of lists": (pb3.PlanarLayout(structure=dense(3, 6), values=NONE), []),
    "dense chunks without levels": (
        pb3.PlanarLayout(structure=dense(1), values=pb3.ValuePlane(chunked=pb3.ChunkedValues())),
        [],
    ),
    "dense indexed": (
        pb3.PlanarLayout(structure=dense(1), values=pb3.ValuePlane(indexed=pb3.IndexedValues())),
        [],
    ),
    "no layers": (pb3.PlanarLayout(structure=sparse(), values=NONE), []),
    "no leaf": (pb3.PlanarLayout(structure=sparse(lists(0, 0)), values=NONE), ["", ""]),
    "no meaning": (
        pb3.PlanarLayout(structure=sparse(null_at(meaning=0)), values=constant(b"1234")),
        [""],
    ),
    "no buffer of a set": (
        pb3.PlanarLayout(structure=sparse(null_at(1)), values=constant(b"1234")),
        [],
    ),
    "a slot beyond the last": (
        pb3.PlanarLayout(structure=sparse(null_at(4)), values=constant(b"1234")),
        [words(4)],
    ),
    "slots that do not ascend": (
        pb3.PlanarLayout(structure=sparse(null_at(1, 1)), values=constant(b"1234")),
        [words(1, 1)],
    ),
    "a long constant": (
        pb3.PlanarLayout(structure=sparse(LEAF), values=constant(b"1" * 33)),
        [],
    ),
    "counts that do not add up": (
        pb3.PlanarLayout(structure=sparse(lists(5, 2), LEAF), values=constant(b"1234")),
        [words(0, 1), words(2, 2)],
    ),
    "a list of no items": (
        pb3.PlanarLayout(structure=sparse(lists(2, 2), LEAF), values=constant(b"1234")),
        [words(0, 1), words(2, 0)],
    ),
    "a dimension of 3 in 4 slots": (
        pb3.PlanarLayout(
            structure=sparse(
                pb3.SparseStructuralLayer(
                    fixed_size_list=pb3.SparseFixedSizeListLayer(dimension=3, validity=VALIDITY)
                ),
                LEAF,
            ),
            values=constant(b"1234"),
        ),
        [],
    ),
    "counted items": (
        pb3.PlanarLayout(
            structure=sparse(LEAF),
            values=pb3.ValuePlane(
                chunked=pb3.ChunkedValues(
                    compression=encodings.flat(32),
                    num_buffers=1,
                    num_items=4,
                )
            ),
        ),
        ["", ""],
    ),
    "fewer zipped values than valid slots": (
        pb3.PlanarLayout(
            structure=sparse(LEAF),
            values=pb3.ValuePlane(
                zipped=pb3.ZippedValues(
                    compression=encodings.flat(32),
                    bits_per_value=32,
                    num_items=1,
                    num_visible_items=1,
                )
            ),
        ),
        ["01000000"],
    ),
}


def is_nested(message: pb3.PlanarLayout) -> bool:
    """True if the layers have lists."""
    structure = message.structure
    return 6 in structure.dense.layers or any(
        layer.HasField("list") for layer in structure.sparse.layers
    )


@pytest.mark.parametrize("name", BAD)
def test_pages_that_contradict_themselves_are_refused(name: str) -> None:
    message, buffers = BAD[name]
    arrow: pa.DataType = LIST if is_nested(message) else INT32
    if "dimension" in name:
        arrow = pa.list_(pa.struct({"x": INT32}), 3)
    file = file_of(arrow, message.SerializeToString(), buffers, 4)
    with pytest.raises(CorruptFileError):
        file.all_rows()


def test_a_null_list_with_items_is_refused() -> None:
    message = pb3.PlanarLayout(
        structure=sparse(
            pb3.SparseStructuralLayer(
                list=pb3.SparseListLayer(
                    num_child_slots=2,
                    non_empty_positions=FLAT,
                    num_non_empty_positions=1,
                    counts=FLAT,
                    validity=pb3.SparseValiditySet(meaning=1, positions=FLAT, num_positions=1),
                )
            ),
            LEAF,
        ),
        values=constant(b"1234"),
    )
    file = file_of(LIST, message.SerializeToString(), [words(1), words(2), words(1)], 4)
    with pytest.raises(CorruptFileError, match="null list"):
        file.all_rows()
