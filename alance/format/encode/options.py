"""Compression options in the metadata of a field: the `lance-encoding:*` keys.

compression                  lz4, zstd, fsst or none
compression-level            integer
rle-threshold                0 to 1: runs must be fewer than this fraction of the values
bss                          off, on, or auto: by the entropy of the bytes
minichunk-size               bytes of a chunk of strings, 4096 by default
dict-divisor                 least values per distinct value, 2 by default
dict-size-ratio              largest dictionary page as a fraction of the raw values, 0.8 by default
dict-max-size                largest size of the distinct values in bytes
dict-values-compression      lz4 (by default), zstd or none; from 2.2 on
dict-values-compression-level

If pylance accepts a value that is out of range, it is accepted here, too: it is clamped or ignored,
and `doubtful` returns a warning.
"""

from __future__ import annotations

import math
from contextlib import suppress
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.codecs.general import SCHEMES, Scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.encode.page_inputs import Hints

PREFIX: Final = "lance-encoding:"


class Compression(IntEnum):
    """Kinds of compression, by the kernel's numbers."""

    AUTO = 0
    NONE = 1
    FSST = 2
    LZ4 = 3
    ZSTD = 4


SPLITS: Final = {"off": 0, "on": 1, "auto": 2}


class FieldOptions(NamedTuple):
    """Checked options of a field, in the kernel's form (kernels/encode/encode_page.hpp)."""

    compression: Compression
    level: int | None
    rle_threshold: float | None
    split: int  # one of SPLITS
    chunk_bytes: int
    dict_divisor: int
    dict_size_ratio: float
    dict_max_bytes: int | None
    dict_values: Compression  # LZ4, ZSTD or NONE
    dict_values_level: int | None

    @classmethod
    def of(cls, hints: Hints) -> FieldOptions:
        """Parse the options of a field."""
        return cls._of(tuple(_keys(hints.metadata).items()))

    @classmethod
    @lru_cache(maxsize=256)
    def _of(cls, items: tuple[tuple[str, str], ...]) -> FieldOptions:
        keys = dict(items)
        values = {key: option.read(keys[key])[0] for key, option in OPTIONS.items() if key in keys}
        ratio = values.get("dict-size-ratio")
        return cls(
            compression=Compression[(values.get("compression") or "auto").upper()],
            level=values.get("compression-level"),
            rle_threshold=values.get("rle-threshold"),
            split=SPLITS[values.get("bss") or "auto"],
            chunk_bytes=values.get("minichunk-size") or 4096,
            dict_divisor=values.get("dict-divisor") or 2,
            dict_size_ratio=0.8 if ratio is None else ratio,
            dict_max_bytes=values.get("dict-max-size"),
            dict_values=Compression[(values.get("dict-values-compression") or "lz4").upper()],
            dict_values_level=values.get("dict-values-compression-level"),
        )

    @classmethod
    def doubtful(cls, metadata: Mapping[str, str]) -> list[str]:
        """Return warnings about values that are clamped or ignored; empty if there are none."""
        keys, warnings = _keys(metadata), list[str]()
        for key, option in OPTIONS.items() if keys else ():
            if key in keys:
                with suppress(InvalidInputError):
                    warnings.append(option.read(keys[key])[1])
        return [*filter(None, warnings)]

    @property
    def scheme(self) -> Scheme | None:
        """Requested general compression; None if none is requested."""
        return SCHEMES.get(self.compression.name.lower())


def _keys(metadata: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(PREFIX): text for key, text in metadata.items() if key.startswith(PREFIX)
    }


class KnownWords(NamedTuple):
    """Words of a key.

    Attributes:
        takes_others: True to ignore other words, which pylance accepts at least in some files or
            pages; False to refuse them.
    """

    key: str
    words: tuple[str, ...]
    takes_others: bool = True

    def read(self, text: str) -> tuple[Any, str]:
        """Return the word, None to ignore the value; and a warning if the value is ignored."""
        if text.lower() in self.words:
            return text.lower(), ""
        wrong = f"{PREFIX}{self.key} = {text!r}: expected {' or '.join(self.words)}"
        if not self.takes_others:
            raise InvalidInputError(f"metadata {wrong}")
        return None, f"{wrong}; left out"


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Allowed range of a numeric key.

    Attributes:
        takes_more: True to clamp numbers that are out of range, False to refuse them.
        takes_text: True to ignore text that is not a number, False to refuse it.
    """

    kind: type[int] | type[float]
    least: float
    most: float
    key: str
    takes_more: bool = True
    takes_text: bool = True

    def read(self, text: str) -> tuple[Any, str]:
        """Return the number to use for a value, clamped to the range; None to ignore the value.

        Also returns a warning if the value is clamped or ignored; else an empty text.
        """
        try:
            value = self.kind(text)
        except ValueError:
            value = math.nan
        if self.least <= value <= self.most:
            return value, ""
        wrong = f"{PREFIX}{self.key} = {text!r}: expected a number from {self.least} to {self.most}"
        is_number = value == value  # NaN cannot be compared with the range
        if not (self.takes_more if is_number else self.takes_text):
            raise InvalidInputError(f"metadata {wrong}")
        used = min(max(value, self.least), self.most) if is_number else None
        return used, f"{wrong}; {f'{used} is used' if is_number else 'left out'}"


LEVEL: Final = (int, -(1 << 17), 22)
OPTIONS: Final = {
    option.key: option
    for option in (
        KnownWords("bss", ("off", "on", "auto")),
        KnownWords("dict-values-compression", ("lz4", "zstd", "none")),
        PageLimits(*LEVEL, "compression-level"),
        PageLimits(float, 0.0, 1.0, "rle-threshold"),
        PageLimits(int, 1, 1 << 28, "minichunk-size"),
        PageLimits(int, 1, 1 << 31, "dict-divisor"),
        PageLimits(float, 0.0, 1.0, "dict-size-ratio", takes_more=False),
        PageLimits(int, 0, 1 << 62, "dict-max-size", takes_more=False, takes_text=False),
        PageLimits(*LEVEL, "dict-values-compression-level"),
        KnownWords("compression", ("lz4", "zstd", "fsst", "none"), takes_others=False),
    )
}
