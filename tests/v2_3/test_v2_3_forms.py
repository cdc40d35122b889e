"""Dense pages of 2.3 are learned by the kernel, many in one call, as those of 2.2 are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from alance.format import layouts
from alance.format.container import open_container
from alance.format.plans import run
from tests.reference.types import column
from tests.v2_3.planar import planes_of

if TYPE_CHECKING:
    from pathlib import Path


def encodings(path: Path) -> list[bytes]:
    """Descriptions of all pages of a file."""
    content = path.read_bytes()
    container, _ = run(open_container("memory://1/file", len(content)), content)
    columns, _ = run(container.read_columns([*range(container.num_columns)]), content)
    return [page.encoding for own in columns for page in own.pages]


@pytest.mark.parametrize(
    ("name", "nulls", "kind"),
    [
        ("double", 0.0, "chunked"),
        ("long string", 0.3, "zipped"),
        ("wide vector", 0.0, "zipped"),
        ("constant", 0.0, "constant"),
        ("list of strings", 0.0, "chunked"),
    ],
)
def test_dense_pages_have_a_form_in_the_kernel(
    tmp_path: Path, name: str, nulls: float, kind: str
) -> None:
    table = pa.table({"x": column(name, 300, nulls)})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.3")
    planes = planes_of(tmp_path / "t")
    assert ("dense", kind) in planes, planes
    (path,) = (tmp_path / "t" / "data").glob("*.lance")
    forms = [layouts.page_form(encoding) for encoding in encodings(path)]
    assert None not in forms
