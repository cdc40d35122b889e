"""The parser of simple filters gives the trees of `sqlglot`, or leaves the text to it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import pytest

from alance.expr.sql.grammar import _Words, read
from alance.expr.sql.lexical import SqlText
from alance.expr.sql.simple import MAX_TERMS, simple_tree

if TYPE_CHECKING:
    from alance.expr.sql.syntax import SyntaxTree

SIMPLE: Final = [
    "id >= 990",
    "a = 1 AND b <> 'x' OR NOT c < -1.5e3",
    "`net kg` > 0.2 and Size.`x y`.z LIKE 'a%'",
    "not (a in (1, 2, -3) or b not in ('it''s', null)) and c is not null",
    "a is null or a is true or a is not false",
    "a between 1 and 2 and b not between ? and ?",
    "a in ? and b = ? or c in (?, ?)",
    "tenant = :tenant and ts > :from_ and x in (:a, :b)",
    "active",
    "not active and not not other",
    "((a = 1))",
    "a not like '_\\%'",
    "true",
    "1 = 1",
    "a = null",
    "a=1 and b=2",
    "a.b.c.d = 1",
    "id\n=\t1",
]
OTHERS: Final = [
    "a = 1 is null",
    "a = b = c",
    "(a) = 1",
    "a + 1 = 2",
    "lower(a) = 'x'",
    "a like 'x' escape '!'",
    'a = "x"',
    "a = x'00ff'",
    "date = 1",
    "a = date '2020-01-01'",
    "a == 1",
    "a = .5",
    "a = 1.",
    "a -- comment\n= 1",
    "a /* = 2 */ = 1",
    "a in ((1))",
    "a in (select 1)",
    "a = 1;",
    "a.5 = 1",
    "a::int = 1",
    "s['a'] = 1",
    "a = 'x' 'y'",
    "a.b.c.d.e = 1",
    "é = 1",
    "a = ",
    "(a = 1",
    "a = 1)",
    "",
    "a in ()",
    "a = 1 b",
    "a is 1",
    "a not 1",
    "a = --1",
    "a ilike 'x'",
    "? ? ?",
    " or ".join(f"a = {n}" for n in range(MAX_TERMS + 1)),
    f"a in ({', '.join(map(str, range(MAX_TERMS + 1)))})",
    "(" * 60 + "a = 1" + ")" * 60,
]


def by_sqlglot(text: str) -> SyntaxTree:
    return read(SqlText(text, "filter"), text)


@pytest.mark.parametrize("text", SIMPLE)
def test_simple_filters_have_the_trees_of_sqlglot(text: str) -> None:
    assert simple_tree(text) == by_sqlglot(text)


@pytest.mark.parametrize("text", OTHERS)
def test_filters_that_are_not_simple_are_left_to_sqlglot(text: str) -> None:
    assert simple_tree(text) is None


def test_keywords_are_left_to_sqlglot_or_names_in_both_parsers() -> None:
    words = {word for key in _Words.KEYWORDS for word in key.split() if word.isidentifier()}
    words |= {"prior", "position", "cast", "extract", "substring", "trim", "try_cast", "interval"}
    words |= {"id", "x", "e", "n", "b", "r", "name", "value", "key", "user", "next", "final", "at"}
    for word in sorted(words):
        for text in (f"{word} = 1", f"a.{word} = 1", f"a = {word}", f"a = 1 and {word}", word):
            for cased in (text, text.lower()):
                tree = simple_tree(cased)
                assert tree is None or tree == by_sqlglot(cased), cased


class Filters:
    """Random filters, most of them simple."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def condition(self, depth: int) -> str:
        choose, draw = self._random.choice, self._random.random()
        if depth and draw < 0.5:
            parts = [self.condition(depth - 1) for _ in range(self._random.randint(2, 4))]
            joined = choose([" and ", " OR ", " And\n"]).join(parts)
            return f"({joined})" if self._random.random() < 0.5 else joined
        if depth and draw < 0.6:
            return f"not {self.condition(depth - 1)}"
        left, right, third = self.operand(), self.operand(), self.operand()
        negated = choose(["", "not ", "NOT  "])
        forms = [f"{left} {choose(['=', '<', '>=', '<>', '!=', '<=', '>'])} {right}", left]
        forms += [f"{left}{choose(['=', '<', '>='])}{right}", f"{left} is {negated}null"]
        forms += [f"{left} {negated}in ({right}, {third})", f"{left} {negated}in ?"]
        forms += [f"{left} {negated}between {right} and {third}", f"{left} {negated}like {right}"]
        forms += [f"{left} is {negated}{choose(['true', 'FALSE', 'null', '1'])}"]
        return choose(forms)

    def operand(self) -> str:
        draw = self._random.random()
        names = ["a", "Id", "s.a", "`x y`", "`a`.`b c`", "_rowid", "a1.b2.c3", "date", "x", "e"]
        literals = ["1", "-2", "1.5", "1e5", "-1E-3", "'x'", "''", "'it''s'", "'a\\'", "null"]
        literals += ["true", "?", "'%_'", "- 1", "007", "'é'", ":p", ":date", "'--'", "'\n'"]
        odd = ["a + 1", "f(a)", "(1)", '"x"', "1.", ".5", "x'ff'", "a::int", "+1", "1a", "a.1"]
        odd += ["-a", "--1", "'x'y", "`a``b`", "a[1]", "$1", "@a", "a#", "N'x'", "e'x'", "1e", "é"]
        odd += ["b'1'", "0x1F", "1_000", "a$b", "::", "= 1", "1 2", "a b", ";", "*", "a.*", "not"]
        kinds = names if draw < 0.5 else literals if draw < 0.97 else odd
        return self._random.choice(kinds)


@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_filters_have_the_trees_of_sqlglot_or_are_left_to_it(seed: int) -> None:
    filters, num_read = Filters(seed), 0
    for _ in range(1000):
        text = filters.condition(3)
        tree = simple_tree(text)
        if tree is not None:
            num_read += 1
            assert tree == by_sqlglot(text), text
    assert num_read > 200
