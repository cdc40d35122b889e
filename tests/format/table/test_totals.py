"""Totals of many manifests by one kernel call: as those of manifests that are parsed as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance import _kernels
from alance.errors import AlanceError, UnsupportedError
from alance.format.table.manifest import (
    MANIFEST_FOOTER,
    VersionTotals,
    parse_manifest,
    parse_totals,
)

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


def manifests(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(path.glob("_versions/*.manifest"))]


def totals_of(contents: list[bytes]) -> list[VersionTotals]:
    return parse_totals([memoryview(content) for content in contents], ["m"] * len(contents))


def kernel_rows(contents: list[bytes]) -> np.ndarray:
    import numpy as np

    stops = np.cumsum([len(content) for content in contents], dtype=np.int64)
    return _kernels.manifest_totals(b"".join(contents), stops).reshape(len(contents), -1)


@pytest.mark.parametrize("stable", [False, True])
async def test_totals_are_those_of_whole_manifests(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t"
    table = pa.table({"i": range(40), "t": ["x"] * 40})
    dataset = await alance.write_dataset(table, path, max_rows_per_file=7, stable_row_ids=stable)
    dataset = await dataset.delete("i % 5 = 0")
    await dataset.create_scalar_index("i", "BTREE")
    lance.dataset(path).delete("i = 3")
    lance.dataset(path).add_columns({"j": "i + 1"})
    lance.dataset(path).update_config({"a": "b"})
    contents = manifests(path)
    whole = [VersionTotals.of(parse_manifest(memoryview(content), "m")) for content in contents]
    assert totals_of(contents) == whole
    assert kernel_rows(contents)[:, 0].all()
    assert whole[0].num_files > whole[0].num_fragments == 6
    assert whole[0].num_rows - whole[0].num_deleted_rows == 31
    by_pylance = {entry["version"]: entry for entry in lance.dataset(path).versions()}
    for version in await (await alance.dataset(path)).versions():
        theirs = by_pylance[version.version]["metadata"]
        assert {**theirs, **version.metadata} == theirs


async def test_bytes_that_contradict_the_format_are_refused(tmp_path: Path) -> None:
    """The kernel leaves them to the parser of whole manifests, which says what is wrong."""
    await alance.write_dataset(pa.table({"i": range(9)}), tmp_path / "t", max_rows_per_file=2)
    (content,) = manifests(tmp_path / "t")
    good = VersionTotals.of(parse_manifest(memoryview(content), "m"))
    for place in range(len(content)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            damaged = content[:place] + bytes([value]) + content[place + 1 :]
            row = kernel_rows([damaged, content])
            assert row[1, 0] == 1  # its neighbour is read as ever
    for cut in range(len(content)):
        assert kernel_rows([content[cut:]])[0, 0] == (cut == 0)
    for spoiled in (content[:-1], content[1:], b"", content[:-4] + b"LANX"):
        with pytest.raises(AlanceError):
            totals_of([content, spoiled])
    assert totals_of([content, content]) == [good, good]


async def test_features_that_are_not_known_are_refused(tmp_path: Path) -> None:
    await alance.write_dataset(pa.table({"i": [1]}), tmp_path / "t")
    (content,) = manifests(tmp_path / "t")
    position = MANIFEST_FOOTER.unpack(content[-MANIFEST_FOOTER.size :])[0]
    message = (
        content[position + 4 : -MANIFEST_FOOTER.size] + b"\x48\x80\x80\x80\x01"
    )  # reader flags
    size = len(message).to_bytes(4, "little")
    changed = content[:position] + size + message + content[-MANIFEST_FOOTER.size :]
    with pytest.raises(UnsupportedError, match="features that this alance does not know"):
        totals_of([content, changed])


def test_ends_beyond_the_bytes_are_refused() -> None:
    import numpy as np

    for stops in ([5], [2, 1], [-1]):
        with pytest.raises(ValueError, match="beyond the bytes"):
            _kernels.manifest_totals(b"abc", np.array(stops, np.int64))
