"""A segment of an index answers for the fragments of its bitmap alone.

Its files keep the rows of fragments whose values were changed in place. A search must not return
them, nor rows of fragments that another segment covers by now.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
import pytest

import alance
from alance.ops.index.values import carried as carried_values
from tests.indices.scalar_kinds import TEXT_KINDS
from tests.reference.thinned import thinned
from tests.stateful.in_place import KEY, OurChanges, TheirChanges

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from alance import Dataset

NUM_ROWS: Final = 60
OF_FRAGMENT: Final = 20
KINDS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "flat": ("vector", "IVF_FLAT", {"num_partitions": 2}),
    "pq": ("vector", "IVF_PQ", {"num_partitions": 2, "num_sub_vectors": 2, "num_bits": 4}),
    "graphs": ("vector", "IVF_HNSW_SQ", {"num_partitions": 2}),
    "words": ("text", "INVERTED", {}),
    **{kind: ("text", kind, {}) for kind in TEXT_KINDS},
}
UPKEEP: Final[list[tuple[str, dict[str, Any]]]] = [
    ("optimize", {"num_indices_to_merge": 0}),
    ("optimize", {"num_indices_to_merge": 10}),
    ("compact", {"target_rows_per_fragment": 100}),
]


def columns(keys: range, word: str, away: float) -> dict[str, pa.Array]:
    vectors = [[key + away, away] for key in keys]
    return {
        "text": pa.array([f"{word} n{key}" for key in keys]),
        "vector": pa.array(vectors, pa.list_(pa.float32(), 2)),
    }


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OurChanges]:
    with asyncio.Runner() as runner:

        async def opened() -> alance.Session:
            return alance.Session()

        session = runner.run(opened())
        yield OurChanges(runner, session, f"{tmp_path}/table")
        runner.run(session.aclose())


async def written(uri: str, *, stable: bool) -> None:
    """Write a table whose columns of texts and of vectors are in separate files."""
    keys = range(NUM_ROWS)
    rows = pa.table({KEY: keys})
    dataset = await alance.write_dataset(
        rows, uri, max_rows_per_file=OF_FRAGMENT, stable_row_ids=stable
    )
    for name, values in columns(keys, "oldword", 0).items():
        dataset = await dataset.add_columns(pa.table({name: values}))


async def check(dataset: Dataset, column: str, changed: range) -> None:
    """Check that the rows in `changed`, and no others, are far away and have another word."""
    unchanged = [key for key in range(NUM_ROWS) if key not in changed]
    ways: list[dict[str, Any]] = [{}, {"filter": "key >= 0", "prefilter": True}]
    for way in ways:
        if column == "vector":
            middle = changed[len(changed) // 2]
            query, all_rows = [float(middle), 0.0], {"nprobes": 2, "refine_factor": 20}
            table = await dataset.nearest(column, query, 3, columns=[KEY], **all_rows, **way)
            nearest = sorted(unchanged, key=lambda key: abs(key - middle))[:3]
            assert sorted(table[KEY].to_pylist()) == sorted(nearest)
        else:
            for word, expected in (("oldword", unchanged), ("newword", list(changed))):
                query = alance.MatchQuery(word, column)
                table = await dataset.search_text(query, 1000, columns=[KEY], **way)
                assert sorted(table[KEY].to_pylist()) == expected
    if column == "text":
        for condition, expected in (
            ("contains(text, 'oldword')", unchanged),
            ("text >= 'oldword'", unchanged),
            (f"text = 'oldword n{changed[0]}'", []),
            (f"text = 'newword n{changed[0]}'", [changed[0]]),
        ):
            assert await dataset.count_rows(condition) == len(expected), condition
            table = await dataset.to_table([KEY], filter=condition)
            assert table[KEY].to_pylist() == expected, condition


@pytest.mark.parametrize(
    ("kind", "way", "by_whom", "stable"),
    thinned(
        [*KINDS],
        ["merge", "update_fragment", "replace_file"],
        ["alance", "pylance"],
        [False, True],
        part=3,
    ),
)
def test_rows_changed_in_place_are_not_found_by_their_old_values(
    ours: OurChanges,
    tmp_path: Path,
    kind: str,
    way: str,
    by_whom: str,
    stable: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carried_values, "RESCANNED_ROWS", 0)  # so that rows are carried over
    uri, (column, index_type, options) = f"{tmp_path}/table", KINDS[kind]
    asyncio.run(written(uri, stable=stable))
    make = ours.index if column == "vector" else ours.index_values
    make(column, index_type, options)
    by = ours if by_whom == "alance" else TheirChanges(uri, ours)
    changed = range(OF_FRAGMENT)
    new = pa.table({KEY: changed, column: columns(changed, "newword", 1000)[column]})
    if way == "merge":
        by.merge(new)
    elif way == "update_fragment":
        by.update_fragment(0, new)
    else:
        by.replace_file(0, new.select([column]))
    ours.do(lambda dataset: check(dataset, column, changed))
    for verb, arguments in UPKEEP:
        getattr(ours, verb)(arguments)
        ours.do(lambda dataset: check(dataset, column, changed))


@pytest.mark.parametrize("kind", ["BITMAP", "LABEL_LIST"])
async def test_pylance_reads_a_single_segment_right_with_stable_row_ids(
    tmp_path: Path, kind: str
) -> None:
    """pylance 14 takes the rows of all segments, and so finds moved rows by old values, too."""
    values = [["a"]] * 10 if kind == "LABEL_LIST" else ["a"] * 10
    rows, old = pa.table({KEY: range(10), "v": values}), list(range(3, 10))
    dataset = await alance.write_dataset(rows, tmp_path / "t", stable_row_ids=True)
    dataset = await dataset.create_scalar_index("v", kind)
    dataset = await dataset.update(
        {"v": "['b']" if kind == "LABEL_LIST" else "'b'"}, where="key < 3"
    )
    condition = "array_has_any(v, ['a'])" if kind == "LABEL_LIST" else "v = 'a'"
    for options in ({"num_indices_to_merge": 0}, {"retrain": True}):
        dataset = await dataset.optimize.optimize_indices(**options)
        assert (await dataset.to_table([KEY], filter=condition))[KEY].to_pylist() == old
    theirs = lance.dataset(tmp_path / "t")
    assert theirs.to_table([KEY], filter=condition)[KEY].to_pylist() == old
    theirs.delete(condition)
    assert lance.dataset(tmp_path / "t").count_rows() == 3
