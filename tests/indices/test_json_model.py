"""Random JSON documents, changes and filters: an index never changes what a filter gives."""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.indices import IndexConfig

import alance
from alance.errors import InvalidInputError
from tests.indices.index_cases import ids

BIG = (1 << 63) - 1
# Of each type of values: the function that reads them, values, and those that are asked for.
TYPES: dict[str, tuple[str, list[Any], list[str]]] = {
    "int": (
        "json_get_int",
        [0, -1, 7, 8, (1 << 53) + 1, BIG, -BIG - 1],
        ["0", "7", "-1", str((1 << 53) + 1), str(BIG)],
    ),
    "float": ("json_get_float", [0.0, -0.0, 0.5, -2.25, 1e300, 7], ["0", "0.5", "7", "-1e300"]),
    "text": (
        "json_get_string",
        ["", "a", "Ab", "é", "été 漢字", "quote\"'\\", "a\nb", "abcabc", "7", "z" * 40],
        ["''", "'a'", "'é'", "'été 漢字'", "'7'", "'abcabc'"],
    ),
    "bool": ("json_get_bool", [True, False], ["true", "false"]),
}
OTHERS: list[Any] = [3, "text", [1, "a"], {"a": 1}, True, 2.5]
# The path of an index, what reads the values there, and documents with a value at it.
PATHS: dict[str, tuple[str, Any]] = {
    "a": ("{get}(j, 'a')", lambda value: {"b": 1, "a": value}),
    "$.c.a": ("{get}(json_get(j, 'c'), 'a')", lambda value: {"a": "x", "c": {"a": value}}),
    '$["ü v"]': ("{get}(j, 'ü v')", lambda value: {"ü v": value, "a": 0}),
    "l[1]": ("{get}(json_extract(j, '$.l'), 1)", lambda value: {"l": [[2], value, "x"]}),
}
MISSING = ["{}", '{"c": {}}', '{"l": []}', '{"c": null, "l": 3}', "[]", "3", '"a"', "null"]
CHANGES = ["delete", "update", "append", "other", "merge", "optimize", "retrain", "compact"]


@dataclass
class Model:
    """The documents of a table by id, as JSON text, and the value at the path of each."""

    path: str
    texts: dict[int, str | None] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)

    def put(self, row: int, document: str | None, value: Any) -> None:
        self.texts[row], self.values[row] = document, value

    def table(self, rows: list[int]) -> pa.Table:
        texts = pa.array([self.texts[row] for row in rows], pa.json_())
        return pa.table({"id": pa.array(rows, pa.int64()), "j": texts})


def new_document(rng: Random, kind: str, path: str) -> tuple[str | None, Any]:
    """A document, and its value at the path."""
    form = rng.choice(["value"] * 5 + ["none", "null", "missing"])
    if form == "none":
        return None, None
    if form == "missing":
        return rng.choice(MISSING), None
    value = rng.choice(TYPES[kind][1]) if form == "value" else None
    return json.dumps(PATHS[path][1](value), ensure_ascii=rng.random() < 0.5), value


@st.composite
def conditions(draw: st.DrawFn, kind: str, path: str) -> str:
    get, _, request = TYPES[kind]
    inside, literals = PATHS[path][0].format(get=get), st.sampled_from(request)
    forms = ["=", "null", "not null", "in"]
    forms += [] if kind == "bool" else ["<", ">=", "between", "not"]
    forms += ["contains", "like"] if kind == "text" else []
    form = draw(st.sampled_from(forms))
    if "null" in form:
        return f"{inside} is {form}"
    if form == "in":
        return f"{inside} in ({draw(literals)}, {draw(literals)})"
    if form == "between":
        return f"{inside} between {draw(literals)} and {draw(literals)}"
    if form == "not":
        return f"not ({inside} = {draw(literals)} or id = 3)"
    if form == "contains":
        return f"contains({inside}, '{draw(st.sampled_from(['abc', 'é', 'bca', 'zzz', '7']))}')"
    if form == "like":
        return f"{inside} like '%{draw(st.sampled_from(['abc', 'été', 'zzzz']))}%'"
    return f"{inside} {form} {draw(literals)}"


def expected(model: Model, kind: str, value: Any) -> list[int]:
    """The rows whose value is one of the index's type, and equal."""
    rows = [row for row, other in model.values.items() if other is not None and other == value]
    return sorted(row for row in rows if isinstance(model.values[row], bool) == (kind == "bool"))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_filters_of_json_values_give_the_same(data: st.DataObject) -> None:
    kind, path = data.draw(st.sampled_from(sorted(TYPES))), data.draw(st.sampled_from(list(PATHS)))
    targets = {"text": ["NGRAM"], "bool": []}.get(kind, ["ZONEMAP"])
    target = data.draw(st.sampled_from(["BTREE", "BITMAP", *targets]))
    # pylance refuses fractions behind whole numbers.
    is_theirs = kind != "float" and data.draw(st.booleans())
    stable = target in ("BITMAP", "NGRAM") and data.draw(st.booleans())
    changes = data.draw(st.lists(st.sampled_from(CHANGES), max_size=5))
    request = data.draw(st.lists(conditions(kind, path), min_size=5, max_size=5))
    value = data.draw(st.sampled_from(TYPES[kind][1]))
    seed = data.draw(st.integers(0, 1 << 32))

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "t"
        run = Run(Random(seed), Model(path), kind, target, place, is_theirs=is_theirs)
        asyncio.run(run.all(changes, request, value, stable=stable))


@dataclass
class Run:
    """One table, what is done to it, and what it is asked."""

    rng: Random
    model: Model
    kind: str
    target: str
    place: Path
    is_theirs: bool
    is_mixed: bool = False
    next_id: int = 0

    async def all(self, changes: list[str], names: list[str], value: Any, *, stable: bool) -> None:
        options = {"max_rows_per_file": 12, "enable_stable_row_ids": stable}
        theirs = lance.write_dataset(self.more(30), self.place, **options)
        async with alance.Session() as session:
            dataset = await alance.dataset(self.place, session=session)
            if self.is_theirs:
                message = {"target_index_type": self.target.lower(), "path": self.model.path}
                theirs.create_scalar_index("j", IndexConfig("json", message))
            else:
                await dataset.create_scalar_index(
                    "j", "JSON", path=self.model.path, target_index_type=self.target
                )
            for change in changes:
                dataset = await alance.dataset(self.place, session=session)
                await self.change(dataset, change)
            dataset = await alance.dataset(self.place, session=session)
            everything = await dataset.to_table(["id"])
            assert sorted(everything["id"].to_pylist()) == sorted(self.model.values)
            for condition in names:
                await self.ask(dataset, condition)
            if self.is_mixed:
                return
            get = TYPES[self.kind][0]
            literal = "'" + value.replace("'", "''") + "'" if self.kind == "text" else str(value)
            equal = f"{PATHS[self.model.path][0].format(get=get)} = {literal}"
            assert sorted(await ids(dataset, equal)) == expected(self.model, self.kind, value), (
                equal
            )

    async def ask(self, dataset: alance.Dataset, condition: str) -> None:
        retained = await self.matching(dataset, condition)
        assert retained == await self.matching(dataset, condition, use_scalar_index=False), (
            condition
        )
        if retained is None:
            return
        assert await dataset.count_rows(condition) == len(retained), condition
        if "(json_" not in condition and not self.is_mixed:  # pylance reads one step
            theirs = lance.dataset(self.place)
            for is_used in (False, True):
                answer = theirs.to_table(["id"], filter=condition, use_scalar_index=is_used)
                assert sorted(answer["id"].to_pylist()) == retained, (condition, is_used)

    async def matching(
        self, dataset: alance.Dataset, condition: str, **options: Any
    ) -> list[int] | None:
        """The rows; None: it is refused, as a value cannot be read as what is asked for."""
        try:
            return sorted(await ids(dataset, condition, **options))
        except InvalidInputError:
            if not self.is_mixed:
                raise
            return None

    def more(self, count: int) -> pa.Table:
        """New rows of the model."""
        rows = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        for row in rows:
            self.model.put(row, *new_document(self.rng, self.kind, self.model.path))
        return self.model.table(rows)

    async def change(self, dataset: alance.Dataset, change: str) -> None:
        model = self.model
        if change == "delete":
            await dataset.delete("id % 7 = 2")
            for row in [row for row in model.values if row % 7 == 2]:
                del model.values[row], model.texts[row]
        elif change == "update":
            await dataset.update({"id": "id + 1000"}, where="id % 5 = 1 and id < 1000")
            for row in [row for row in model.values if row % 5 == 1 and row < 1000]:
                model.put(row + 1000, model.texts.pop(row), model.values.pop(row))
        elif change == "append":
            await dataset.insert(self.more(9))
        elif change == "other":
            other = self.rng.choice(OTHERS)
            document = json.dumps(PATHS[model.path][1](other))
            model.put(self.next_id, document, None)
            self.next_id += 1
            self.is_mixed = True
            await dataset.insert(model.table([self.next_id - 1]))
        elif change == "merge":
            rows = sorted(model.values)[::4]
            for row in rows:
                model.put(row, *new_document(self.rng, self.kind, model.path))
            source = pa.concat_tables([model.table(rows), self.more(3)])
            merge = dataset.merge_insert("id").when_matched_update_all()
            await merge.when_not_matched_insert_all().execute(source)
        elif change == "compact":
            await dataset.optimize.compact_files(target_rows_per_fragment=40)
        else:
            try:
                await dataset.optimize.optimize_indices(retrain=change == "retrain")
            except InvalidInputError:
                assert self.is_mixed
