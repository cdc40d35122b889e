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

from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.codecs.general import SCHEMES, Scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.encode.page_inputs import Hints

PREFIX: Final = "lance-encoding:"
COMPRESSIONS: Final = ("lz4", "zstd", "fsst", "none")
# Known words by key. pylance accepts other words, too, at least in some files or pages.
WORD_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "bss": ("off", "on", "auto"),
    "dict-values-compression": ("lz4", "zstd", "none"),
}


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
        numbers = {
            key: limits.read(keys[key]) for key, limits in NUMBER_OPTIONS.items() if key in keys
        }
        ratio = numbers.get("dict-size-ratio")
        return cls(
            compression=_compression(keys),
            level=_whole(numbers.get("compression-level")),
            rle_threshold=numbers.get("rle-threshold"),
            split=SPLITS[_word(keys, "bss") or "auto"],
            chunk_bytes=_whole(numbers.get("minichunk-size")) or 4096,
            dict_divisor=_whole(numbers.get("dict-divisor")) or 2,
            dict_size_ratio=0.8 if ratio is None else ratio,
            dict_max_bytes=_whole(numbers.get("dict-max-size")),
            dict_values=Compression[(_word(keys, "dict-values-compression") or "lz4").upper()],
            dict_values_level=_whole(numbers.get("dict-values-compression-level")),
        )

    @classmethod
    def doubtful(cls, metadata: Mapping[str, str]) -> list[str]:
        """Return warnings about values that are clamped or ignored; empty if there are none."""
        keys = _keys(metadata)
        warnings: list[str] = []
        if not keys:
            return warnings
        for key, words in WORD_OPTIONS.items():
            if key in keys and _word(keys, key) is None:
                warnings.append(
                    f"{PREFIX}{key} = {keys[key]!r}: expected {' or '.join(words)}; left out"
                )
        for key, limits in NUMBER_OPTIONS.items():
            text = keys.get(key)
            if text is None or limits.has(text) or not limits.is_loose(text):
                continue
            used = limits.read(text)
            warnings.append(
                f"{PREFIX}{key} = {text!r}: expected a number from {limits.least} to "
                f"{limits.most}; {'left out' if used is None else f'{used} is used'}"
            )
        return warnings

    @property
    def scheme(self) -> Scheme | None:
        """Requested general compression; None if none is requested."""
        return SCHEMES.get(self.compression.name.lower())


def _compression(keys: Mapping[str, str]) -> Compression:
    text = keys.get("compression")
    if text is None:
        return Compression.AUTO
    if text.lower() not in COMPRESSIONS:
        expected = " or ".join(COMPRESSIONS)
        raise InvalidInputError(f"metadata {PREFIX}compression = {text!r}: expected {expected}")
    return Compression[text.upper()]


def _word(keys: Mapping[str, str], key: str) -> str | None:
    text = keys.get(key, "").lower()
    return text if text in WORD_OPTIONS[key] else None


def _keys(metadata: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(PREFIX): text for key, text in metadata.items() if key.startswith(PREFIX)
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


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

    def read(self, text: str) -> float | None:
        """Return the number to use for a value, clamped to the range; None to ignore the value."""
        value = self._parse(text)
        if not self.has(text) and not self.is_loose(text):
            raise InvalidInputError(
                f"metadata {PREFIX}{self.key} = {text!r}: expected a number from {self.least} to "
                f"{self.most}"
            )
        return None if value is None else min(max(value, self.least), self.most)

    def has(self, text: str) -> bool:
        """True if the text is a number in range."""
        value = self._parse(text)
        return value is not None and self.least <= value <= self.most

    def is_loose(self, text: str) -> bool:
        """True if a value that `has` refuses is clamped or ignored instead of an error."""
        return self.takes_text if self._parse(text) is None else self.takes_more

    def _parse(self, text: str) -> float | None:
        try:
            value = self.kind(text)
        except ValueError:
            return None
        return None if value != value else value  # NaN cannot be compared with the range


LEVEL: Final = (int, -(1 << 17), 22)
NUMBER_OPTIONS: Final = {
    limits.key: limits
    for limits in (
        PageLimits(*LEVEL, "compression-level"),
        PageLimits(float, 0.0, 1.0, "rle-threshold"),
        PageLimits(int, 1, 1 << 28, "minichunk-size"),
        PageLimits(int, 1, 1 << 31, "dict-divisor"),
        PageLimits(float, 0.0, 1.0, "dict-size-ratio", takes_more=False),
        PageLimits(int, 0, 1 << 62, "dict-max-size", takes_more=False, takes_text=False),
        PageLimits(*LEVEL, "dict-values-compression-level"),
    )
}
