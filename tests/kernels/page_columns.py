"""Columns of small pages, and the form of their pages, for tests of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from google.protobuf.any_pb2 import Any

from alance import _kernels
from alance.format.proto import file2_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

ENCODING = Any(type_url="/lance.encodings.ColumnEncoding", value=b"v").SerializeToString()


def column(rows: Sequence[int], size: int) -> _kernels.ColumnPages:
    """The metadata of pages of so many rows: chunk words, and chunks behind them."""
    message = file2_pb2.ColumnMetadata()
    for number, count in enumerate(rows):
        page = message.pages.add(length=count)
        page.buffer_offsets.extend([128 * number, 128 * number + 64])
        page.buffer_sizes.extend([2, size])
        page.encoding.direct.encoding = b"same"
    message.encoding.direct.encoding = ENCODING
    content = memoryview(message.SerializeToString())
    file = _kernels.FileColumns([0, len(content)], 1 << 20, 64)
    assert _kernels.open_columns([file], [[0]], [_kernels.HeldFile([0], [content])]) == []
    return file.column(0)


def form(num_items: int) -> _kernels.PageForm:
    """Flat values of 8 bits."""
    flat = _kernels.PageForm((0, 8, 0, 0, 0, False), None, num_items, False)
    flat.set_layers(1)
    return flat


def learned(
    form: _kernels.PageForm, sizes: Sequence[int], num_rows: int, content: bytes
) -> _kernels.ColumnPages:
    """A column of one page, which is learned.

    Args:
        sizes: bytes of each buffer; the first begins at 0.
        content: the bytes of the buffers from which such a page is learned.
    """
    places = tuple((1024 * number, size) for number, size in enumerate(sizes))
    pages = _kernels.ColumnPages([(places, num_rows, b"page")])
    new = _kernels.NewPages([pages], [(0, 0)], [0])
    new.find([form])
    learn(new, content)
    return pages


def learn(pages: _kernels.NewPages, content: bytes = b"") -> list[tuple[int, int]]:
    """Learn pages from all bytes that they need, one after the other."""
    pages.spans()
    return pages.learn_read(memoryview(content))


class Chunks(NamedTuple):
    """Chunks of a page: where they begin in the file, and the rows and bytes of each.

    The rows of all chunks but the last are powers of two, and the bytes are multiples of eight.
    """

    start: int
    rows: Sequence[int]
    sizes: Sequence[int]


def chunked(
    pages: Sequence[Chunks],
    more_rows: Sequence[int] = (),
    *,
    bits: int = 8,
    layers: int = 1,
    large: bool = False,
) -> _kernels.ColumnPages:
    """A column of pages of flat values, which are learned, before further pages, which are not."""
    listed, words = [], []
    for number, (start, rows, sizes) in enumerate(pages):
        logs = [count.bit_length() - 1 for count in rows[:-1]]
        own = [size // 8 - 1 << 4 | log for size, log in zip(sizes, [*logs, 0], strict=True)]
        words.append(np.array(own, "<u4" if large else "<u2").tobytes())
        places = (number << 32, len(words[-1])), (start, sum(sizes))
        listed.append((places, sum(rows), b"%d" % sum(rows)))
    column = _kernels.ColumnPages([*listed, *[((), count, b"") for count in more_rows]])
    new = _kernels.NewPages([column], [(0, number) for number in range(len(pages))], [0])
    forms = []
    for description in new.descriptions:
        forms.append(_kernels.PageForm((0, bits, 0, 0, 0, large), None, int(description), False))
        forms[-1].set_layers(layers)
    new.find(forms)
    learn(new, b"".join(words))
    return column


def unknown_of(pages: _kernels.ColumnPages) -> list[int]:
    """The numbers of the pages that are not known."""
    tables = _kernels.LeafTables([(pages, 0, 0)])
    plan = _kernels.plan_spans([tables], [0], [(0, pages.num_rows)], [1])
    return [page for _, page in plan.unknown]
