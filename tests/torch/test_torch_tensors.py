"""Arrow batches as tensors."""

from __future__ import annotations

from typing import Any

import lance.arrow
import numpy as np
import pyarrow as pa
import pytest
import torch

import alance
import alance.sync
from alance.torch import to_tensors

NUMBERS = {
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "uint16": torch.uint16,
    "int32": torch.int32,
    "uint32": torch.uint32,
    "int64": torch.int64,
    "uint64": torch.uint64,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def only(values: pa.Array, **options: Any) -> Any:
    return to_tensors(pa.record_batch({"x": values}), **options)["x"]


def floats(values: list[float]) -> pa.Array:
    return pa.array(values, pa.float32())


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_seen_where_they_are(name: str) -> None:
    values = pa.array(np.arange(9).astype(name)).slice(2, 5)
    tensor = only(values)
    assert tensor.dtype == NUMBERS[name]
    assert tensor.tolist() == [2, 3, 4, 5, 6]
    width = tensor.element_size()
    assert tensor.data_ptr() == values.buffers()[1].address + 2 * width


def test_vectors_are_seen_where_they_are() -> None:
    values = pa.FixedSizeListArray.from_arrays(floats(list(range(12))), 3).slice(1, 2)
    tensor = only(values)
    assert tensor.tolist() == [[3, 4, 5], [6, 7, 8]]
    assert tensor.data_ptr() == values.values.buffers()[1].address + 12


def test_lists_of_lists_have_three_dimensions() -> None:
    inner = pa.FixedSizeListArray.from_arrays(floats(list(range(24))), 3)
    tensor = only(pa.FixedSizeListArray.from_arrays(inner, 2).slice(1, 2))
    assert torch.equal(tensor, torch.arange(6.0, 18).view(2, 2, 3))


def test_booleans_are_bytes() -> None:
    values = pa.array([True, False, True, True, False]).slice(1, 3)
    assert torch.equal(only(values), torch.tensor([False, True, True]))
    lists = pa.FixedSizeListArray.from_arrays(pa.array([True, False, True, True]), 2)
    assert only(lists).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("is_list", [False, True])
def test_bfloat16_of_a_table_is_that_of_torch(tmp_path: Any, is_list: bool) -> None:
    numbers = lance.arrow.bfloat16_array([1.5, -2.0, 3.0, 0.25])
    values = pa.FixedSizeListArray.from_arrays(numbers, 2) if is_list else numbers
    dataset = alance.sync.write_dataset(pa.table({"x": values}), tmp_path / "table")
    tensor = to_tensors(dataset.to_table().to_batches()[0])["x"]
    expected = torch.tensor([1.5, -2.0, 3.0, 0.25], dtype=torch.bfloat16)
    assert torch.equal(tensor, expected.view(2, 2) if is_list else expected)


def test_tensors_of_a_fixed_shape_keep_it() -> None:
    storage = pa.FixedSizeListArray.from_arrays(floats(list(range(12))), 6)
    kind = pa.fixed_shape_tensor(pa.float32(), (2, 3))
    tensor = only(pa.ExtensionArray.from_storage(kind, storage).slice(1))
    assert torch.equal(tensor, torch.arange(6.0, 12).view(1, 2, 3))
    turned = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[1, 0])
    tensor = only(pa.ExtensionArray.from_storage(turned, storage).slice(1))
    assert torch.equal(tensor, torch.arange(6.0, 12).view(1, 2, 3).mT)


@pytest.mark.parametrize(
    "values", [["a", None], [b"b"], [[1, 2], []], [{"y": 1}], [None], [pa.scalar(1.0).as_py(), 2.5]]
)
def test_an_empty_batch_has_empty_columns(values: list[Any]) -> None:
    column = only(pa.array(values).slice(0, 0))
    assert len(column) == 0
    assert len(only(pa.array(values[:1]))) == 1


def test_other_types_are_lists() -> None:
    assert only(pa.array(["a", None])) == ["a", None]
    assert only(pa.array([[1, 2], []])) == [[1, 2], []]
    assert only(pa.array([{"y": 1}])) == [{"y": 1}]


def test_empty_vectors_have_their_size() -> None:
    assert only(pa.array([], pa.list_(pa.float32(), 3))).shape == (0, 3)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 3]),
        pa.array([True, None]),
        pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        pa.array([[1.0, None]], pa.list_(pa.float32(), 2)),
        lance.arrow.bfloat16_array([1.0, None]),
    ],
)
def test_nulls_are_an_error_that_names_the_column(values: pa.Array) -> None:
    with pytest.raises(alance.InvalidInputError, match=r"column 'x' .*: 1 nulls of .* `fill=`"):
        only(values)


def test_nulls_are_filled() -> None:
    assert only(pa.array([1, None, 3]), fill=7).tolist() == [1, 7, 3]
    assert only(pa.array([True, None]), fill=False).tolist() == [True, False]
    assert only(pa.array([1.0, None]), fill=float("nan")).isnan().tolist() == [False, True]
    lists = pa.array([[1, 2], None, [None, 3]], pa.list_(pa.float32(), 2))
    assert only(lists, fill=-1).tolist() == [[1, 2], [-1, -1], [-1, 3]]
    assert only(lance.arrow.bfloat16_array([1.0, None]), fill=2).tolist() == [1, 2]


def test_fills_are_told_by_name() -> None:
    batch = pa.record_batch({"x": [1, None], "y": [None, 2.0], "t": ["a", None]})
    tensors = to_tensors(batch, fill={"x": 5, "y": 0.5})
    assert [list(values) for values in tensors.values()] == [[1, 5], [0.5, 2.0], ["a", None]]
    with pytest.raises(alance.InvalidInputError, match="column 'y'"):
        to_tensors(batch, fill={"x": 5})


@pytest.mark.parametrize(
    ("values", "fill"),
    [
        (pa.array([1, None]), 0.5),
        (pa.array([1, None], pa.int8()), 300),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), 300),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), 0.5),
        (pa.array([True, None]), 2),
    ],
)
def test_a_fill_of_another_type_is_an_error(values: pa.Array, fill: float) -> None:
    with pytest.raises(alance.InvalidInputError, match="column 'x'"):
        only(values, fill=fill)
