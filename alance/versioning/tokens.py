"""Notes of producers in transactions, which prevent a batch from being committed twice.

A transaction has two properties, both JSON:

  alance.tokens      list of the tokens of its batches
  alance.producers   {name: [previous, last]}: the transaction holds the producer's batches after
                     number `previous`, up to number `last`

A merged transaction has the notes of all its parts.

The configuration of each version has the last batch numbers of the most recent producers, because
versions with the batches may have been cleaned up:

  alance.producers   {name: last}, in the order of the last commits, JSON
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

TOKENS_KEY: Final = "alance.tokens"
PRODUCERS: Final = "alance.producers"
NOTES: Final = (TOKENS_KEY, PRODUCERS)
# Maximum producers in the configuration, with about 50 bytes each in every manifest.
MAX_PRODUCERS: Final = 128


@dataclass(frozen=True, slots=True)
class Notes:
    """Tokens and batch numbers that identify the batches of a transaction.

    Attributes:
        tokens: tokens of the batches.
        producers: for each producer by name, the number of its last batch before the transaction,
            and the number of its last batch in the transaction.
    """

    tokens: frozenset[str] = frozenset()
    producers: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tokens or self.producers)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Notes:
        """Parse the notes in the properties of a transaction; malformed notes are ignored."""
        tokens = _parsed(properties.get(TOKENS_KEY), list)
        producers = _parsed(properties.get(PRODUCERS), dict)
        return cls(
            frozenset(token for token in tokens if isinstance(token, str)),
            {name: (pair[0], pair[1]) for name, pair in producers.items() if _is_pair(pair)},
        )

    def properties(self) -> dict[str, str]:
        """Return the notes as properties of a transaction."""
        noted = {}
        if self.tokens:
            noted[TOKENS_KEY] = json.dumps(sorted(self.tokens))
        if self.producers:
            noted[PRODUCERS] = json.dumps(
                {name: list(producer) for name, producer in self.producers.items()}
            )
        return noted

    def clash(self, theirs: Notes) -> str | None:
        """Describe a batch of ours that the other transaction has already committed.

        Returns None if there is no such batch.
        """
        common = self.tokens & theirs.tokens
        if common:
            return f"token {min(common)!r}"
        for name, (previous, _) in self.producers.items():
            if name in theirs.producers and theirs.producers[name][1] > previous:
                return f"batch {theirs.producers[name][1]} of producer {name!r}"
        return None


def merged_notes(notes: Iterable[Notes]) -> Notes:
    """Merge the notes of transactions, in commit order; they must not clash."""
    tokens: set[str] = set()
    producers: dict[str, tuple[int, int]] = {}
    for note in notes:
        tokens |= note.tokens
        for name, (previous, last) in note.producers.items():
            first = producers.get(name, (previous, last))[0]
            producers[name] = (first, last)
    return Notes(frozenset(tokens), producers)


def last_numbers(config: Mapping[str, str]) -> dict[str, int]:
    """Return the last batch number of each producer from a table's configuration."""
    numbers = _parsed(config.get(PRODUCERS), dict)
    return {name: number for name, number in numbers.items() if isinstance(number, int)}


def noted_config(config: Mapping[str, str], notes: Notes) -> dict[str, str]:
    """Return the configuration entry with the producers' last batch numbers after a transaction.

    If there are more than `MAX_PRODUCERS`, the producers with the oldest commits are omitted.

    Args:
        config: configuration of the previous version.
        notes: notes of the transaction.
    """
    if not notes.producers:
        return {}
    numbers = last_numbers(config)
    for name, (_, last) in notes.producers.items():
        numbers.pop(name, None)
        numbers[name] = last
    return {PRODUCERS: json.dumps(dict([*numbers.items()][-MAX_PRODUCERS:]))}


def without_notes(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without the notes of producers."""
    return {key: text for key, text in properties.items() if key not in NOTES}


def _parsed(text: str | None, kind: type[Any]) -> Any:
    if text is not None:
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, kind):
            return value
    return kind()


def _is_pair(pair: object) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(number, int) for number in pair)
    )
