"""Damaged data files of all versions: an error of our tree or an answer, never anything else.

Short runs here; `make fuzz` runs the same for long.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import AlanceError
from alance.format.schema import Schema
from tests.bad_input.samples import COUNTS, VERSIONS, count_of, read, sample
from tests.reference.damaged import with_moved_part, with_spoiled_bytes
from tests.v2_3.planar import planes

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 2  # of each example: a read takes less than what hypothesis does for one
NUMBERS = st.integers(0, 14)  # of samples, whose number divides 15
RANDOMS = st.randoms(use_true_random=True)  # of a seed: to draw each number takes longer

of_each_version = pytest.mark.parametrize("version", VERSIONS)


def try_to_read(
    version: str, number: int, spoil: Callable[[bytes, tuple[int, ...]], bytes]
) -> None:
    file = sample(version, number % count_of(version))
    for _ in range(TRIES):
        with suppress(AlanceError):
            read(file, spoil(file.content, file.starts))


@pytest.mark.parametrize(
    ("version", "number"),
    [(version, number) for version in VERSIONS for number in range(count_of(version))],
)
def test_every_truncation_is_refused(version: str, number: int) -> None:
    file = sample(version, number)
    read(file, file.content)
    for length in random.Random(number).sample(range(len(file.content)), 60):
        with pytest.raises(AlanceError):
            read(file, file.content[:length])


@of_each_version
@given(NUMBERS, RANDOMS)
def test_a_file_with_flipped_bits_is_read_or_refused(
    version: str, number: int, rng: random.Random
) -> None:
    def flipped(content: bytes, starts: tuple[int, ...]) -> bytes:
        spoiled = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            spoiled[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        return bytes(spoiled)

    try_to_read(version, number, flipped)


@of_each_version
@given(NUMBERS, RANDOMS)
def test_a_file_with_spoiled_bytes_is_read_or_refused(
    version: str, number: int, rng: random.Random
) -> None:
    """Bytes anywhere, most of them in what describes the pages, of random or telling values."""
    try_to_read(version, number, lambda content, starts: with_spoiled_bytes(rng, content, starts))


@of_each_version
@given(NUMBERS, RANDOMS)
def test_a_file_with_moved_parts_is_read_or_refused(
    version: str, number: int, rng: random.Random
) -> None:
    """Pieces of the file in the place of others."""
    try_to_read(version, number, lambda content, _: with_moved_part(rng, content))


@pytest.mark.parametrize("version", [version for version in VERSIONS if version not in COUNTS])
@given(NUMBERS, NUMBERS, st.booleans())
def test_a_schema_of_another_file(version: str, first: int, second: int, is_cut: bool) -> None:
    ours = sample(version, first % count_of(version))
    theirs = sample(version, second % count_of(version))
    schema = Schema(theirs.schema.fields[:1], {}) if is_cut else theirs.schema
    with suppress(AlanceError):
        read(ours, ours.content, schema, theirs.columns)


def test_files_of_2_3_have_all_kinds_of_pages() -> None:
    kinds = set().union(*[planes(sample("2.3", n).content) for n in range(count_of("2.3"))])
    sparse = {("sparse", name) for name in ("chunked", "zipped", "constant", "none", "indexed")}
    assert kinds >= sparse | {("dense", "chunked")}
