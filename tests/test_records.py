"""Dataclasses of `alance.base.records` equal those of `dataclasses`, and are made on first use."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from alance.base import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]

# Every kind of field and class.
SOURCE = '''
from __future__ import annotations
from abc import ABC, abstractmethod
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")

@dataclass(frozen=True, slots=True)
class Point:
    """A point."""
    x: int
    y: float = 1.5
    tags: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    unit: ClassVar[str] = "m"

    @property
    def double(self) -> int:
        return 2 * self.x

@dataclass(frozen=True, slots=True)
class Point3(Point):
    """A point in a room."""
    z: int = 0
    y: float = 2.5

@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A record whose fields are named."""
    extra: bytes = b""
    id: int

@dataclass(frozen=True, slots=True)
class Change(Named):
    """Fields by place before those that are named."""
    rows: tuple[int, ...]
    label: str | None = field(default=None, kw_only=True)

@dataclass(slots=True)
class Counter:
    """A record that changes."""
    count: int = 0
    total: int = field(init=False)
    parts: list[int] = field(init=False, default_factory=list)
    limit: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        self.total = 10 * self.count

@dataclass(slots=True, eq=False)
class Handle(Generic[T]):
    """A record that is equal to itself alone."""
    value: T
    key: Any = None

@dataclass(slots=True, repr=False)
class Quiet:
    """A record with functions of its own."""
    value: int

    def __repr__(self) -> str:
        return f"<{self.value}>"

@dataclass(frozen=True, slots=True)
class Fold:
    """A record that compares by itself."""
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fold) and other.text.lower() == self.text.lower()

@dataclass(frozen=True, slots=True)
class Key:
    """A record with a hash of its own."""
    text: str

    def __hash__(self) -> int:
        return 7

@dataclass(slots=True)
class Shape(ABC):
    """A record that is not made itself."""
    name: str

    @abstractmethod
    def area(self) -> float: ...

@dataclass(slots=True)
class Square(Shape):
    """A record that is made."""
    side: float

    def area(self) -> float:
        return self.side**2

class Plain(Point):
    """No dataclass, with attributes of its own."""

@dataclass(frozen=True)
class Open:
    """A record without slots."""
    value: int
'''

MAKE: dict[str, Callable[[Any], Any]] = {
    "Point": lambda c: c.Point(3, tags=["a"]),
    "Point3": lambda c: c.Point3(3, z=4),
    "Named": lambda c: c.Named(id=3),
    "Change": lambda c: c.Change((1, 2), id=3, label="x"),
    "Counter": lambda c: c.Counter(4),
    "Handle": lambda c: c.Handle("v"),
    "Quiet": lambda c: c.Quiet(3),
    "Fold": lambda c: c.Fold("aB"),
    "Key": lambda c: c.Key("k"),
    "Square": lambda c: c.Square("s", 2.0),
    "Plain": lambda c: c.Plain(1, 2.0),
    "Open": lambda c: c.Open(1),
}


@pytest.fixture
def ours() -> Iterator[ModuleType]:
    yield from classes("ours_of_records", records.dataclass)


@pytest.fixture
def theirs() -> Iterator[ModuleType]:
    yield from classes("theirs_of_records", dataclasses.dataclass)


def classes(name: str, decorator: Callable[..., Any]) -> Iterator[ModuleType]:
    """A module of `SOURCE`, which functions and pickles find by its name."""
    module = ModuleType(name)
    vars(module)["dataclass"] = decorator
    sys.modules[name] = module
    exec(SOURCE, vars(module))
    yield module
    del sys.modules[name]


@pytest.mark.parametrize("name", MAKE)
def test_records_are_made_shown_and_compared_as_dataclasses(
    name: str, ours: ModuleType, theirs: ModuleType
) -> None:
    ways: list[Callable[[Any], object]] = [
        lambda c: repr(MAKE[name](c)),
        lambda c: MAKE[name](c) == MAKE[name](c),
        lambda c: MAKE[name](c) == 3,
        lambda c: hash(MAKE[name](c)) == hash(MAKE[name](c)),
        lambda c: repr(copy.copy(MAKE[name](c))),
        lambda c: repr(copy.deepcopy(MAKE[name](c))),
        lambda c: repr(pickle.loads(pickle.dumps(MAKE[name](c)))),
        lambda c: dataclasses.asdict(MAKE[name](c)),
        lambda c: repr(dataclasses.replace(MAKE[name](c))),
        lambda c: str(inspect.signature(getattr(c, name))),
        lambda c: str(inspect.signature(getattr(c, name).__init__)),
        lambda c: getattr(c, name).__match_args__,
        lambda c: [str(part) for part in dataclasses.fields(getattr(c, name))],
        lambda c: getattr(c, name)(),
        lambda c: getattr(c, name)(1, 2, 3, 4, 5, 6, 7),
        lambda c: getattr(c, name)(nothing=1),
        lambda c: set_first(MAKE[name](c)),
        lambda c: delattr(MAKE[name](c), dataclasses.fields(getattr(c, name))[0].name),
    ]
    for number, way in enumerate(ways):
        assert outcome(way, ours) == outcome(way, theirs), number


def set_first(record: Any) -> object:
    setattr(record, dataclasses.fields(record)[0].name, 1)
    return record


def outcome(way: Callable[[Any], object], module: ModuleType) -> object:
    """Return the result or error of a call as text, without addresses and the module's name."""
    try:
        answer = way(module)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    text = str(answer).replace("theirs_of_records", "ours_of_records")
    return text if " at 0x" not in text else text[: text.index(" at 0x")]


def test_a_field_that_is_frozen_is_not_set(ours: ModuleType) -> None:
    point = ours.Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(dataclasses.FrozenInstanceError, match="'nothing'"):
        point.nothing = 2
    plain = ours.Plain(1)
    plain.more = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.x = 2
    assert (plain.x, plain.more, point.tags is ours.Point(1).tags) == (1, 3, False)


def test_a_class_is_extended_by_dataclasses(ours: ModuleType) -> None:
    @dataclasses.dataclass(frozen=True)
    class More(ours.Point):  # type: ignore[misc, name-defined]
        w: int = 9

    assert repr(More(1)).endswith("More(x=1, y=1.5, tags=[], w=9)")
    with pytest.raises(TypeError, match="non-frozen"):

        @dataclasses.dataclass
        class Loose(ours.Point):  # type: ignore[misc, name-defined]
            w: int = 9


def test_a_class_of_patterns_gives_its_fields(ours: ModuleType) -> None:
    point_class = ours.Point
    match ours.Point(5, 6.0):
        case point_class(x, y):
            assert (x, y) == (5, 6.0)
        case _:
            raise AssertionError


DESCRIBE = """
import dataclasses, importlib, inspect, pkgutil, sys
_replace_
import alance

lines = []
for module in pkgutil.walk_packages(alance.__path__, "alance."):
    if module.name.startswith(("alance.ray", "alance.spark", "alance.torch", "alance.huggingface")):
        continue
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in sorted(name for name in sys.modules if name.startswith("alance")):
    for cls in vars(sys.modules[name]).values():
        if isinstance(cls, type) and cls.__module__ == name and "__slots__" in vars(cls):
            if "__dataclass_fields__" in vars(cls):
                frozen = cls.__dataclass_params__.frozen
                fields = [str(part) for part in dataclasses.fields(cls)]
                hashes = cls.__hash__ is None or cls.__hash__ is object.__hash__
                about = [cls.__qualname__, inspect.signature(cls), fields, frozen, hashes]
                print(name, *about, cls.__slots__, cls.__match_args__, sorted(vars(cls)))
"""


def test_each_class_of_the_package_is_as_dataclasses_make_it() -> None:
    standard = "sys.modules['alance.base.records'] = dataclasses"
    ours, theirs = (described(DESCRIBE.replace("_replace_", by)) for by in ("", standard))
    assert len(ours) > 400
    for actual, other in zip(ours, theirs, strict=True):
        assert actual == other


def described(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return [line.split(" at 0x")[0] for line in done.stdout.splitlines()]
