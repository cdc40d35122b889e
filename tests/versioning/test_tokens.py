"""Notes of producers in transactions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.versioning.tokens import (
    MAX_PRODUCERS,
    PRODUCERS,
    TOKENS_KEY,
    Notes,
    last_numbers,
    merged_notes,
    noted_config,
    without_notes,
)

NAMES = st.text(max_size=8)
NUMBERS = st.integers(0, 50)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair) + 1))
NOTES = st.builds(
    Notes, st.frozensets(NAMES, max_size=4), st.dictionaries(NAMES, PAIRS, max_size=3)
)


@given(NOTES)
def test_notes_come_back_from_properties(notes: Notes) -> None:
    properties = {"mine": "kept", **notes.properties()}
    assert Notes.of(properties) == notes
    assert without_notes(properties) == {"mine": "kept"}
    assert bool(notes) == (len(properties) > 1)


@given(st.lists(NOTES, max_size=4))
def test_merged_notes_clash_with_what_each_clashes_with(parts: list[Notes]) -> None:
    merged = merged_notes(parts)
    for part in parts:
        assert part.tokens <= merged.tokens
        if part.tokens:
            assert merged.clash(Notes(part.tokens)) is not None
    assert not Notes().clash(merged)


@pytest.mark.parametrize(
    ("ours", "theirs", "clashes"),
    [
        ((0, 3), (0, 3), True),
        ((0, 3), (0, 1), True),
        ((3, 5), (0, 3), False),
        ((3, 5), (0, 4), True),
        ((3, 5), (5, 9), True),
        ((5, 9), (0, 2), False),
    ],
)
def test_numbers_that_clash(ours: tuple[int, int], theirs: tuple[int, int], clashes: bool) -> None:
    clash = Notes(producers={"p": ours}).clash(Notes(producers={"p": theirs}))
    assert (clash is not None) is clashes
    assert Notes(producers={"p": ours}).clash(Notes(producers={"q": theirs})) is None


@pytest.mark.parametrize(
    "text", ["", "{", "7", "[1, 2]", '{"p": 3}', '{"p": [1]}', '{"p": ["a", 2]}']
)
def test_what_others_wrote_under_these_names_is_left_out(text: str) -> None:
    assert not Notes.of({TOKENS_KEY: text, PRODUCERS: text})


def test_notes_follow_one_another() -> None:
    first, second = Notes(producers={"p": (2, 5)}), Notes(producers={"p": (5, 6), "q": (0, 1)})
    assert merged_notes([first, second]) == Notes(producers={"p": (2, 6), "q": (0, 1)})


def test_a_configuration_has_the_last_numbers_of_those_that_committed_last() -> None:
    config: dict[str, str] = {"mine": "kept", PRODUCERS: '{"old": 4, "text": "x"}'}
    for number in range(MAX_PRODUCERS + 3):
        config |= noted_config(config, Notes(producers={f"p{number}": (0, number)}))
        config |= noted_config(config, Notes(producers={"old": (4, number + 5)}))
    numbers = last_numbers(config)
    assert len(numbers) == MAX_PRODUCERS
    assert numbers["old"] == MAX_PRODUCERS + 7
    assert "p3" not in numbers
    assert numbers["p4"] == 4
    assert config["mine"] == "kept"
    assert noted_config(config, Notes(frozenset(["a token"]))) == {}
