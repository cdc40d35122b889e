"""Metadata of fields that ask for what there is not: what pylance takes, alance takes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

TAKEN = [
    ("rle-threshold", "2", "1.0 is used"),
    ("rle-threshold", "-1", "0.0 is used"),
    ("rle-threshold", "nan", "left out"),
    ("bss", "0.5", "left out"),
    ("compression-level", "99", "22 is used"),
    ("compression-level", "high", "left out"),
    ("dict-divisor", "0", "1 is used"),
    ("dict-divisor", "x", "left out"),
    ("dict-size-ratio", "x", "left out"),
    ("minichunk-size", "0", "1 is used"),
    ("dict-values-compression-level", "99", "22 is used"),
    ("dict-values-compression", "brotli", "left out"),
]


def table(key: str, text: str) -> pa.Table:
    metadata = {"lance-encoding:compression": "zstd", f"lance-encoding:{key}": text}
    arrays = [
        pa.array(np.repeat(np.arange(40), 100)),
        pa.array([f"s{n % 9}" for n in range(4000)]),
        pa.array(np.linspace(0, 1, 4000), pa.float32()),
    ]
    names = ["a", "s", "f"]
    fields = [
        pa.field(name, item.type, metadata=metadata)
        for name, item in zip(names, arrays, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields))


# pylance refuses it in files of 2.2, and there where dictionaries of values are compressed alone.
@pytest.mark.parametrize(
    ("version", "key", "text", "used"),
    [
        (version, *item)
        for version in ("2.0", "2.1", "2.2")
        for item in TAKEN
        if (version, item[0]) != ("2.2", "dict-values-compression")
    ],
)
async def test_a_warning_and_the_nearest_value(
    tmp_path: Path, version: str, key: str, text: str, used: str
) -> None:
    data = table(key, text)
    lance.write_dataset(data, tmp_path / "theirs", data_storage_version=version)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await alance.write_dataset(data, tmp_path / "ours", data_storage_version=version)
    texts = [str(item.message) for item in caught]
    for name in data.column_names:
        message = f"field '{name}': metadata lance-encoding:{key} = '{text}'"
        assert any(item.startswith(message) and item.endswith(used) for item in texts)
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        assert lance.dataset(path).to_table().equals(data)
        assert (await (await alance.dataset(path)).to_table()).equals(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await (await alance.dataset(tmp_path / "theirs")).insert(data)
    assert lance.dataset(tmp_path / "theirs").count_rows() == 8000


@pytest.mark.parametrize(
    ("key", "text"), [("compression", "snappy"), ("dict-size-ratio", "7"), ("dict-max-size", "x")]
)
async def test_what_pylance_refuses_is_refused(tmp_path: Path, key: str, text: str) -> None:
    data = table(key, text)
    with pytest.raises(BaseException, match="Invalid"):  # it panics
        lance.write_dataset(data, tmp_path / "theirs", data_storage_version="2.2")
    with pytest.raises(InvalidInputError, match=f"{key} = '{text}'"):
        await alance.write_dataset(data, tmp_path / "ours", data_storage_version="2.2")
