"""Roaring bitmaps: from bytes that nobody has checked, and to bytes.

pyroaring trusts the cardinalities that a bitmap states, so that spoiled bytes could write outside
of its arrays; here every container is checked against its bytes before it is used. A run of four
bytes may stand for 65536 values: how many there are is checked before any are made.

    u32 cookie: 12346, then u32 number of containers; or 12347 | (number - 1) << 16, then a bit for
    each container: whether it holds runs
    containers x (u16 key, u16 cardinality - 1)
    containers x u32 position, unless there are runs and fewer than 4 containers
    container: cardinality x u16 sorted; over 4096 values 8192 bytes of bits; runs: u16 number,
    then (u16 first, u16 length - 1) each

Source: the Roaring bitmap serialization format, 32 bit, portable.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.arrays import Int64s, Mask, UInt16s

NO_RUNS: Final = 12346
WITH_RUNS: Final = 12347
ARRAY_MAX: Final = 4096
OFFSETS_FROM: Final = 4  # containers; a smaller bitmap with runs has no table of positions
BITS_BYTES: Final = 8192
ARRAY, BITS, RUNS = range(3)  # forms of containers


def parse_roaring(content: memoryview, limit: int = 1 << 32) -> Int64s:
    """The values of a bitmap, ascending. Memory: 16 bytes a value, at most `16 * limit` and 1 MiB.

    Args:
        limit: what all values are smaller than.

    Raises:
        CorruptFileError: bytes that are no roaring bitmap, or values from the limit on.
    """
    try:
        heads, has_runs, position = _heads(content, limit)
        if not has_runs.any() and (heads[:, 1] < ARRAY_MAX).all():
            return _within(_arrays(content, position, heads)[0], limit)
        parts = []
        for key, form, container in _containers(content, heads, has_runs, position):
            parts.append(_values(form, container) + (key << 16))
        return _within(np.concatenate(parts), limit) if parts else np.empty(0, np.int64)
    except (struct.error, ValueError) as error:
        raise CorruptFileError(f"roaring bitmap of {len(content)} bytes: {error}") from error


def check_roaring(content: memoryview) -> None:
    """Check that bytes are a bitmap and no more, so that pyroaring may have them.

    Raises:
        CorruptFileError: they are not.
    """
    if (end := end_of_roaring(content)) != len(content):
        raise CorruptFileError(f"roaring bitmap of {len(content)} bytes: it ends at {end}")


def end_of_roaring(content: memoryview) -> int:
    """The bytes of the bitmap that bytes begin with, which pyroaring may have.

    Raises:
        CorruptFileError: they begin with none.
    """
    try:
        heads, has_runs, position = _heads(content, 1 << 32)
        if not has_runs.any() and (heads[:, 1] < ARRAY_MAX).all():
            return _arrays(content, position, heads)[1]
        end = position
        for _, form, container in _containers(content, heads, has_runs, position):
            end += container.nbytes + (2 if form == RUNS else 0)
        return end
    except (struct.error, ValueError) as error:
        raise CorruptFileError(f"roaring bitmap of {len(content)} bytes: {error}") from error


def _heads(content: memoryview, limit: int) -> tuple[Int64s, Mask, int]:
    """Key and cardinality - 1 of each container, which of them hold runs, where they begin."""
    (cookie,) = struct.unpack_from("<I", content)
    position = 4
    if cookie & 0xFFFF == WITH_RUNS:
        number = (cookie >> 16) + 1
        flags = np.frombuffer(content, np.uint8, (number + 7) // 8, position)
        has_runs = np.unpackbits(flags, count=number, bitorder="little").astype(np.bool_)
        position += len(flags)
    elif cookie == NO_RUNS:
        (number,) = struct.unpack_from("<I", content, position)
        position += 4
        if number > 1 << 16:
            raise ValueError(f"{number} containers, at most {1 << 16} are possible")
        has_runs = np.zeros(number, np.bool_)
    else:
        raise ValueError(f"cookie {cookie}, expected {NO_RUNS} or {WITH_RUNS}")
    heads = np.frombuffer(content, "<u2", 2 * number, position).reshape(-1, 2).astype(np.int64)
    position += 4 * number
    if (np.diff(heads[:, 0]) <= 0).any():
        raise ValueError("keys do not ascend")
    _check_heads(heads, limit)
    if cookie == NO_RUNS or number >= OFFSETS_FROM:
        position += 4 * number  # positions: containers follow each other anyway
    return heads, has_runs, position


def _check_heads(heads: Int64s, limit: int) -> None:
    """Check what containers state against the values that are possible, before any are made."""
    stated = int((heads[:, 1] + 1).sum())
    if stated > limit:
        raise ValueError(f"{stated} values, all of them smaller than {limit}")
    if len(heads) and int(heads[-1, 0]) << 16 >= limit:
        raise ValueError(f"values from {int(heads[-1, 0]) << 16}, expected smaller than {limit}")


def _within(values: Int64s, limit: int) -> Int64s:
    if len(values) and int(values[-1]) >= limit:
        raise ValueError(f"value {values[-1]}, expected smaller than {limit}")
    return values


def _arrays(content: memoryview, position: int, heads: Int64s) -> tuple[Int64s, int]:
    """The values of containers that are all arrays, at once; and where they end."""
    counts = heads[:, 1] + 1
    low = np.frombuffer(content, "<u2", int(counts.sum()), position)
    values = low + np.repeat(heads[:, 0] << 16, counts)
    wrong = np.flatnonzero(np.diff(values) <= 0)
    if len(wrong):
        raise ValueError(f"values {values[wrong[0]]}, {values[wrong[0] + 1]} do not ascend")
    return values, position + low.nbytes


def _containers(
    content: memoryview,
    heads: Int64s,
    has_runs: Mask,
    position: int,
) -> Iterator[tuple[int, int, UInt16s]]:
    """Key, form and bytes of each container, checked: what it states is what it holds."""
    for (key, most), is_runs in zip(heads.tolist(), has_runs.tolist(), strict=True):
        if is_runs:
            (number,) = struct.unpack_from("<H", content, position)
            container = np.frombuffer(content, "<u2", 2 * number, position + 2).reshape(-1, 2)
            form, count = RUNS, _count_of_runs(container)
            position += 2
        elif most < ARRAY_MAX:
            container = np.frombuffer(content, "<u2", most + 1, position)
            form, count = ARRAY, most + 1
            if (container[1:] <= container[:-1]).any():
                raise ValueError(f"container {key}: values do not ascend")
        else:
            container = np.frombuffer(content, "<u2", BITS_BYTES // 2, position)
            form, count = BITS, int(np.bitwise_count(container).sum())
        if count != most + 1:
            raise ValueError(f"container {key}: {count} values, told {most + 1}")
        position += container.nbytes
        yield key, form, container


def _count_of_runs(runs: UInt16s) -> int:
    """The number of values in runs, each the first value and the length - 1."""
    first, length = runs[:, 0].astype(np.int64), runs[:, 1].astype(np.int64) + 1
    stop = first + length
    if (stop > 1 << 16).any() or (first[1:] < stop[:-1]).any():
        raise ValueError("runs overlap or leave their container")
    return int(length.sum())


def _values(form: int, container: UInt16s) -> Int64s:
    """The values of a container, ascending."""
    if form == BITS:
        return np.flatnonzero(np.unpackbits(container.view(np.uint8), bitorder="little"))
    if form == ARRAY:
        return np.array(container, np.int64)
    first, length = container[:, 0].astype(np.int64), container[:, 1].astype(np.int64) + 1
    ends = np.cumsum(length)
    values: Int64s = np.arange(ends[-1]) + np.repeat(first - (ends - length), length)
    return values


def roaring_bytes(values: Int64s) -> bytes:
    """A bitmap without runs.

    Args:
        values: 0 to 2^32 - 1, in any order; shape (n,).
    """
    is_ascending = len(values) < 2 or bool((values[1:] > values[:-1]).all())
    unique = values if is_ascending else np.unique(values)
    if len(unique) and (unique[0] < 0 or unique[-1] >> 32):
        raise ValueError(f"roaring bitmap of {unique[0]} to {unique[-1]}: expected 32 bits")
    keys, starts, counts = np.unique(unique >> 16, return_index=True, return_counts=True)
    heads = np.stack([keys, counts - 1], axis=1).astype("<u2").tobytes()
    first = 8 + 8 * len(counts)
    if not len(counts) or counts.max() <= ARRAY_MAX:
        body = (unique & 0xFFFF).astype("<u2").tobytes()
        offsets = (first + 2 * starts).astype("<u4").tobytes()
        return b"".join((struct.pack("<II", NO_RUNS, len(counts)), heads, offsets, body))
    containers = []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        low = (unique[start : start + count] & 0xFFFF).astype("<u2")
        if count > ARRAY_MAX:
            bits = np.zeros(1 << 16, np.bool_)
            bits[low] = True
            containers.append(np.packbits(bits, bitorder="little").tobytes())
        else:
            containers.append(low.tobytes())
    sizes = [len(container) for container in containers]
    places = (first + np.cumsum([0, *sizes])[:-1]).astype("<u4").tobytes()
    return b"".join((struct.pack("<II", NO_RUNS, len(containers)), heads, places, *containers))
