"""Wrong keywords, and syntax that objects do not support: errors say what to write instead."""

from __future__ import annotations

import inspect
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pytest

import alance
from alance import sync
from tests.bad_input.mistakes import ROWS, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODULES: Final = ("alance", "alance.sync", "alance.indexing", "alance.observe", "alance.optimize")
# Classes whose methods are for internal use.
RECORDS: Final = ("CompactionMetrics", "CompactionOptions", "IndexPart", "RewriteResult")


def public_callables() -> Iterator[tuple[str, Any]]:
    """List functions, classes and methods of public modules without `**options`, with names."""
    seen = set()
    for module in map(import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if value in seen or not getattr(value, "__module__", "").startswith("alance"):
                continue
            seen.add(value)
            place = f"{module.__name__}.{name}"
            if inspect.isfunction(value) and is_plain(value):
                yield place, value
            elif inspect.isclass(value) and not issubclass(value, Exception | Enum):
                if "Args:" in (value.__doc__ or "") and module is not sync:
                    yield place, value
                if "Query" not in name and name not in RECORDS:
                    yield from methods_of(value, place)


def methods_of(kind: type, place: str) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers_static(kind):
        function = getattr(member, "__func__", member)
        is_own = inspect.isfunction(function) and function.__module__.startswith("alance.")
        if is_own and name[0] != "_" and is_plain(function):
            yield f"{place}.{name}", function


def is_plain(function: Any) -> bool:
    """True for a function without `**options`, whose arguments Python binds."""
    return not inspect.unwrap(function).__code__.co_flags & inspect.CO_VARKEYWORDS


class Anything:
    """Stands for the object of a method: arguments are bound before it is used."""

    _inner: Any = None


async def answer_of(call: Any) -> None:
    result = call(*[] if inspect.isclass(call) else [Anything()], colours_=1)
    assert inspect.iscoroutinefunction(call)
    await result


async def test_a_wrong_keyword_is_answered_by_the_public_call() -> None:
    calls = dict(public_callables())
    for place, call in calls.items():
        with pytest.raises((TypeError, alance.InvalidInputError)) as caught:
            await answer_of(call)
        message = str(caught.value)
        assert "'colours_'" in message or "not called by users" in message, place
        assert " got an " not in message, message
        assert "__init__" not in message, message
    assert len(calls) > 300


USES: Final[tuple[tuple[str, Callable[[Any], object], str], ...]] = (
    ("item", lambda at: at.table[0], "take([0]) for a row"),
    ("slice", lambda at: at.table[:10], "to_table(offset=0, limit=10)"),
    ("part", lambda at: at.table[2:5], "to_table(offset=2, limit=3)"),
    ("end", lambda at: at.table[-3:], "take(positions)"),
    ("column", lambda at: at.table["id"], "to_table(columns=['id'])"),
    ("columns", lambda at: at.table[["id", "day"]], "to_table(columns=['id', 'day'])"),
    ("iteration", lambda at: list(at.table), "to_batches() to iterate"),
    ("membership", lambda at: 3 in at.table, "get(key, column)"),
    ("assignment", lambda at: at.table.__setitem__("x", [1]), "add_columns, replace_columns"),
    ("deletion", lambda at: at.table.__delitem__("id"), "drop_columns(columns)"),
    ("block", lambda at: at.table.__enter__(), "it needs no end"),
    ("upkeep", lambda at: at.table.optimize(), "optimize.compact_files()"),
    ("tags", lambda at: at.table.tags(), "tags.list()"),
    ("tag", lambda at: at.table.tags["gold"], "tags.get_version(name)"),
    ("branches", lambda at: at.table.branches(), "branches.list()"),
    ("merge", lambda at: at.table.merge_insert("id")(ROWS), "execute(data)"),
    ("scan", lambda at: list(at.table.scanner()), "to_table() or to_batches()"),
    ("fragment", lambda at: at.table.fragments[0][1], "take([1])"),
    ("new table", lambda at: at.catalog.__setitem__("x", ROWS), "create_table(name, data)"),
    ("drop", lambda at: at.catalog.__delitem__("x"), "drop_table(name)"),
)
ASYNC_USES: Final[tuple[tuple[str, Callable[[Any], object], str], ...]] = (
    ("length", lambda at: len(at.table), "write count_rows()"),
    ("length of a scan", lambda at: len(at.table.scanner()), "write count_rows()"),
    ("async iteration", lambda at: at.table.__aiter__(), "`async for batch in dataset.to_batch"),
    ("block of a sink", lambda at: at.sink.__enter__(), "write `async with`"),
    ("block of a session", lambda at: at.table.session.__enter__(), "write `async with`"),
    ("table of a catalog", lambda at: at.catalog["items"], "open_table(name)"),
    ("names of a catalog", lambda at: list(at.catalog), "list_tables()"),
    ("member of a catalog", lambda at: "items" in at.catalog, "table_exists(name)"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("calls"))


@pytest.mark.parametrize(("use", "act", "hint"), USES)
async def test_unsupported_syntax_is_answered_by_a_call(
    place: Place, use: str, act: Callable[[Any], object], hint: str
) -> None:
    del use
    for objects in (place, await unblocked(place)):
        with pytest.raises(TypeError, match="object does not support") as caught:
            act(objects)
        assert hint in str(caught.value)


@pytest.mark.parametrize(("use", "act", "hint"), ASYNC_USES)
async def test_syntax_of_the_blocking_objects_alone_is_answered(
    place: Place, use: str, act: Callable[[Any], object], hint: str
) -> None:
    del use
    with pytest.raises(TypeError, match="object does not support") as caught:
        act(await unblocked(place))
    assert hint in str(caught.value)


async def unblocked(place: Place) -> Any:
    """Return the async objects of a place."""
    copy: Any = Place.__new__(Place)
    copy.table = await alance.dataset(place.uri)
    copy.catalog = await alance.connect(place.folder)
    copy.sink = alance.ingest(place.uri)
    return copy


async def test_a_blocking_sink_in_an_async_block_is_answered(place: Place) -> None:
    with pytest.raises(TypeError, match="write `with`, as for all of alance"):
        async with sync.ingest(place.uri):  # type: ignore[attr-defined]  # that is the mistake
            pass


async def test_a_dataset_is_not_made_by_its_class(place: Place) -> None:
    with pytest.raises(alance.InvalidInputError, match=r"write alance.dataset\(uri\)"):
        alance.Dataset(place.uri)  # type: ignore[arg-type]  # that is the mistake
    dataset = await alance.dataset(place.uri)
    assert bool(dataset)
    assert not sync.write_dataset({"id": []}, place.folder / "empty.lance")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ({"colums": ["id"]}, "mean 'columns'?"),
        ({"usecols": ["id"]}, "mean 'columns'?"),
        ({"rows": [1]}, "mean 'indices'?"),
        ({"shade": 1}, "its arguments are indices, columns"),
    ],
)
async def test_plain_async_methods_suggest_an_argument(
    place: Place, wrong: dict[str, Any], right: str
) -> None:
    dataset = await alance.dataset(place.uri)
    with pytest.raises(TypeError, match=r"^Dataset.take\(\): unexpected keyword") as caught:
        await dataset.take([1], **wrong)
    assert right in str(caught.value)
    assert inspect.iscoroutinefunction(dataset.take)
    assert str(inspect.signature(dataset.take)).startswith("(indices: 'object', columns")
