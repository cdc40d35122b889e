"""validate: tables of both writers are sound; whatever is spoiled is found and named."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, TypeAlias

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import CorruptFileError
from alance.format.proto import table_pb2
from alance.format.table.roaring import roaring_bytes
from alance.format.table.row_ids import row_ids_bytes, versions_bytes
from tests.changing.both_ways import Twins, rows
from tests.upkeep.edited import edit, lose_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alance.testing.lab import Lab

Change: TypeAlias = "Callable[[table_pb2.Manifest, list[table_pb2.IndexMetadata]], object]"


def make(path: Path) -> None:
    """Four fragments with stable row ids: two with deleted rows, one of them moved; an index."""
    twins = Twins.make(path.parent, enable_stable_row_ids=True)
    shutil.move(twins.ours, path)
    lance.dataset(path).delete("id in (1, 2, 6)")
    lance.dataset(path).update({"v": "v + 1"}, where="id = 12")
    lance.dataset(path).add_columns({"w": "id + 1"})
    lance.dataset(path).create_scalar_index("id", "BTREE")


async def error_of(path: Path) -> str:
    """Return the findings of `validate`, which must raise."""
    async with alance.Session() as session:
        dataset = await alance.dataset(path, session=session)
        with pytest.raises(CorruptFileError) as error:
            await dataset.validate()
        return str(error.value)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "t.lance"
    make(path)
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "t.lance")


async def test_sound_tables_have_no_findings(path: Path, tmp_path: Path, golden: Path) -> None:
    dataset = await alance.dataset(path)
    for info in await dataset.versions():
        await (await dataset.checkout_version(info.version)).validate()
    compacted = await (await dataset.delete("id = 3")).optimize.compact_files()
    await compacted.validate()
    lance.dataset(path).validate()
    await (await alance.dataset(golden / "lineitem.lance")).validate()
    nested = pa.table(
        {
            "f": pa.array([[1.0, 2.0]] * 9, pa.list_(pa.float32(), 2)),
            "l": [[{"x": n, "y": [str(n)] * n}] * n for n in range(9)],
        }
    )
    written = await alance.write_dataset(nested, tmp_path / "nested")
    await written.validate()
    clone = tmp_path / "clone.lance"
    lance.dataset(path).shallow_clone(str(clone), compacted.version)
    await (await alance.dataset(clone)).validate()
    branch = lance.dataset(path).create_branch("b", compacted.version)
    lance.write_dataset(branch.head(2), branch, mode="append")
    await (await compacted.checkout_branch("b")).validate()


def _other_segment(indices: list[table_pb2.IndexMetadata]) -> None:
    """A segment of the index, for fragment 1 that the first one covers as well."""
    other = table_pb2.IndexMetadata()
    other.CopyFrom(indices[0])
    other.uuid.uuid = bytes(16)
    other.ClearField("files")
    other.fragment_bitmap = roaring_bytes(np.array([1]))
    indices.append(other)


CHANGES: dict[str, tuple[Change, str]] = {
    "rows": (
        lambda m, _: setattr(m.fragments[0], "physical_rows", 6),
        r"fragment 0: row ids of 5 rows, it has 6\n.*: column 0 has 5 rows, expected 6",
    ),
    "a missing file": (
        lambda m, _: setattr(m.fragments[1].files[0], "path", "none.lance"),
        r"fragment 1: data file 'none.lance': .*no such object",
    ),
    "the size of a file": (
        lambda m, _: setattr(m.fragments[1].files[1], "file_size_bytes", 77),
        r"1 finding\n- fragment 1: data file",
    ),
    "the version of a file": (
        lambda m, _: setattr(m.fragments[2].files[0], "file_minor_version", 2),
        r"fragment 2: .*file version 2.1, the manifest says 2.2",
    ),
    "a column": (
        lambda m, _: m.fragments[0].files[0].column_indices.__setitem__(0, 99),
        r"no column 99, it has",
    ),
    "a field twice": (
        lambda m, _: m.fragments[0].files.add().CopyFrom(m.fragments[0].files[0]),
        r"fragment 0: 2 data files have field 0",
    ),
    "no files": (lambda m, _: m.fragments[0].ClearField("files"), "fragment 0: it has no data"),
    "order": (
        lambda m, _: (
            setattr(m.fragments[0], "id", 3), setattr(m.fragments[3], "id", 0),
            [fragment.ClearField("deletion_file") for fragment in m.fragments],
        ),
        r"fragment 1: follows fragment 3.*\n.*fragment 0: follows fragment 2",
    ),
    "the highest id": (
        lambda m, _: setattr(m, "max_fragment_id", 2),
        r"fragment 4: beyond the highest id ever given, 2\n.*: covers fragments \[3, 4\]",
    ),
    "a base": (
        lambda m, _: setattr(m.fragments[0].files[0], "base_id", 7),
        r"data file .* is below base path 7, which is not there",
    ),
    "deleted rows, too many": (
        lambda m, _: setattr(m.fragments[0].deletion_file, "num_deleted_rows", 9),
        r"fragment 0: 9 of 5 rows deleted\n.*deletion file .*: 2 rows, the manifest says 9",
    ),
    "no deletion file": (
        lambda m, _: setattr(m.fragments[0].deletion_file, "id", 9),
        r"fragment 0: deletion file '0-\d+-9.arrow': .*no such object",
    ),
    "deleted rows beyond the end": (
        lambda m, _: m.fragments[3].deletion_file.CopyFrom(m.fragments[2].deletion_file),
        r"fragment 3: deletion file .*no such object",
    ),
    "row ids that two rows have": (
        lambda m, _: setattr(m.fragments[1], "inline_row_ids", m.fragments[3].inline_row_ids),
        r"2 findings\n- row id 15: two live rows have it, fragment 1, row 0 and fragment 3, row 0",
    ),
    "no row ids": (
        lambda m, _: m.fragments[1].ClearField("inline_row_ids"),
        r"fragment 1: it has no row ids",
    ),
    "row ids beyond": (
        lambda m, _: setattr(m.fragments[0], "inline_row_ids",
                             row_ids_bytes(np.arange(900, 905, dtype=np.uint64))),
        r"fragment 0: row id 904, the next unused one is 20",
    ),
    "row ids too few": (
        lambda m, _: setattr(m.fragments[0], "inline_row_ids",
                             row_ids_bytes(np.arange(4, dtype=np.uint64))),
        r"fragment 0: row ids of 4 rows, it has 5",
    ),
    "row ids that are none": (
        lambda m, _: setattr(m.fragments[0], "inline_row_ids", b"\xff\xff"),
        r"fragment 0: row ids or versions of rows: ",
    ),
    "versions to come": (
        lambda m, _: setattr(m.fragments[0], "inline_created_at_versions",
                             versions_bytes(np.full(5, 50, np.uint64))),
        r"fragment 0: rows created in version 50, this is version 5",
    ),
    "an index beyond": (
        lambda m, i: setattr(i[0], "fragment_bitmap", roaring_bytes(np.array([1, 70]))),
        r"index 'id_idx': covers fragments \[70\], ids go up to 4",
    ),
    "an index of no field": (
        lambda m, i: i[0].fields.append(88), r"index 'id_idx': fields \[88\] are not in the schema"
    ),
    "an index of no bitmap": (
        lambda m, i: setattr(i[0], "fragment_bitmap", b"nonsense"), r"index 'id_idx': "
    ),
    "an index without UUID": (
        lambda m, i: setattr(i[0].uuid, "uuid", b"short"), r"index 'id_idx': UUID of 5 bytes"
    ),
    "an index twice": (lambda m, i: i.append(i[0]), r"two segments have UUID"),
    "indices that cover a fragment twice": (
        lambda m, i: _other_segment(i), r"index 'id_idx': two segments cover fragments \[1\]"
    ),
    "an index of a version to come": (
        lambda m, i: setattr(i[0], "dataset_version", 9), r"of version 9, this is 5"
    ),
    "an index file's size": (
        lambda m, i: setattr(i[0].files[0], "size_bytes", 3), r"index 'id_idx': .* expected 3"
    ),
    "an index file": (
        lambda m, i: setattr(i[0].files[0], "path", "none"), r"index 'id_idx': .*no such object"
    ),
    "an index without files": (
        lambda m, i: lose_files(i[0]), r"index 'id_idx': no file in '_indices/00010203-"
    ),
    "flags": (
        lambda m, _: (setattr(m, "reader_feature_flags", 2), setattr(m, "writer_feature_flags", 2)),
        "there are deletion files, and the flags do not say so",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
async def test_what_is_wrong_is_named(path: Path, what: str) -> None:
    change, message = CHANGES[what]
    edit(path, change)
    text = await error_of(path)
    assert re.search(message, text, re.DOTALL), text


@pytest.mark.parametrize("folder", ["data", "_deletions"])
async def test_spoiled_files_are_named(path: Path, folder: str) -> None:
    for file in (path / folder).iterdir():
        content = file.read_bytes()
        for spoiled in (content[:-1], content[: len(content) // 2], b"", content + b"x"):
            file.write_bytes(spoiled)
            assert file.name in await error_of(path)
        file.write_bytes(content)
    await (await alance.dataset(path)).validate()


async def test_all_findings_are_told(path: Path) -> None:
    for file in (path / "data").iterdir():
        file.unlink()
    text = await error_of(path)
    assert text.count("no such object") == 10
    assert "version 5: 10 findings" in text


async def test_a_store_in_trouble_is_no_finding(lineitem_lab: Lab) -> None:
    lab = lineitem_lab
    options = lab.lance_options() | {"client_max_retries": "0"}
    async with alance.Session() as session:
        dataset = await alance.dataset(
            "s3://lab/lineitem.lance", storage_options=options, session=session
        )
        with lab.recording() as seen:
            await dataset.validate()
        files = sum(len(fragment.metadata.files) for fragment in dataset.fragments)
        assert seen.summary()["requests"] <= 2 * files + 4
        lab.config(faults=[{"op": "GET", "key": "data/", "action": "status", "status": 403}])
        with pytest.raises(alance.StoreError):
            await dataset.validate()
        lab.calm()
        written = await alance.write_dataset(
            rows(0, 4), "s3://lab/sound.lance", storage_options=options, session=session
        )
        await written.validate()
