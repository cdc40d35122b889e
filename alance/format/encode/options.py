"""What the metadata of a field asks of its compression: the `lance-encoding:*` keys.

compression                  lz4, zstd, fsst or none
compression-level            integer
rle-threshold                0 to 1: runs must be fewer than this part of the values
bss                          off, on, or auto: by the entropy of the bytes
minichunk-size               bytes of a chunk of strings, 4096 by default
dict-divisor                 distinct values are at most 1 of so many, 2 by default
dict-size-ratio              what a dictionary page may take of the raw values, 0.8 by default
dict-max-size                bytes of the distinct values
dict-values-compression      lz4 (by default), zstd or none; from 2.2 on
dict-values-compression-level
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from alance.errors import InvalidInputError
from alance.format.codecs.compression import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.encode.base import Hints

N = TypeVar("N", int, float)

PREFIX: Final = "lance-encoding:"
COMPRESSIONS: Final = ("lz4", "zstd", "fsst", "none")
SCHEMES: Final = {"lz4": Scheme.LZ4, "zstd": Scheme.ZSTD}
SPLITS: Final = ("off", "on", "auto")


@dataclass(frozen=True, slots=True)
class Options:
    """The keys of a field, checked; the defaults where it has none."""

    compression: str | None  # of COMPRESSIONS
    level: int | None
    rle_threshold: float | None
    split: str  # of SPLITS
    chunk_bytes: int
    dict_divisor: int
    dict_size_ratio: float
    dict_max_bytes: int | None
    dict_values: str  # lz4, zstd or none
    dict_values_level: int | None

    @classmethod
    def of(cls, hints: Hints) -> Options:
        """What a field asks for.

        Raises:
            InvalidInputError: a value that its key does not have.
        """
        keys = {
            key.removeprefix(PREFIX): text
            for key, text in hints.metadata.items()
            if key.startswith(PREFIX)
        }
        ratio = _number(keys, "dict-size-ratio", float, 0.0, 1.0)
        return cls(
            compression=_choice(keys, "compression", COMPRESSIONS),
            level=_number(keys, "compression-level", int, -(1 << 17), 22),
            rle_threshold=_number(keys, "rle-threshold", float, 0.0, 1.0),
            split=_choice(keys, "bss", SPLITS) or "auto",
            chunk_bytes=_number(keys, "minichunk-size", int, 1, 1 << 28) or 4096,
            dict_divisor=_number(keys, "dict-divisor", int, 1, 1 << 31) or 2,
            dict_size_ratio=0.8 if ratio is None else ratio,
            dict_max_bytes=_number(keys, "dict-max-size", int, 0, 1 << 62),
            dict_values=_choice(keys, "dict-values-compression", (*SCHEMES, "none")) or "lz4",
            dict_values_level=_number(keys, "dict-values-compression-level", int, -(1 << 17), 22),
        )

    @property
    def scheme(self) -> Scheme | None:
        """The general compression that is asked for."""
        return SCHEMES.get(self.compression or "")


def _choice(keys: Mapping[str, str], key: str, allowed: tuple[str, ...]) -> str | None:
    text = keys.get(key)
    if text is None:
        return None
    if text.lower() not in allowed:
        raise InvalidInputError(
            f"metadata {PREFIX}{key} = {text!r}: expected {' or '.join(allowed)}"
        )
    return text.lower()


def _number(
    keys: Mapping[str, str], key: str, kind: Callable[[str], N], least: N, most: N
) -> N | None:
    text = keys.get(key)
    if text is None:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise InvalidInputError(
            f"metadata {PREFIX}{key} = {text!r}: expected a number from {least} to {most}"
        )
    return value
