"""Rows that wait for pages: how many bytes of them a writer holds unless told."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from alance.file.budgets import buffer_bytes_for
from alance.file.write.page_writer import PageWriter
from alance.file.write.writer import BufferUpload
from alance.file_version import FileVersion
from alance.format.schema import Schema
from alance.io.reading.pool import DecodePool

MIB = 1 << 20


def test_many_columns_may_hold_more() -> None:
    budgets = [buffer_bytes_for(count) for count in (1, 40, 41, 100, 128, 5000)]
    assert budgets == [size * MIB for size in (40, 40, 41, 100, 128, 128)]


async def test_a_writer_of_few_columns_holds_40_mib() -> None:
    columns = [pa.array(np.arange(n, n + (1 << 16))) for n in range(8)]  # half a MiB each
    batch = pa.record_batch(columns, [f"c{n}" for n in range(8)])
    writer = PageWriter(
        BufferUpload(), Schema.from_arrow(batch.schema), FileVersion.V2_2, DecodePool(1)
    )
    held = []
    for _ in range(14):
        await writer.write(batch)
        held.append(sum(column.num_bytes for column in writer._columns))
    assert held[:10] == [4 * count * MIB for count in range(1, 11)]
    assert max(held) == 40 * MIB
    assert (await writer.finish()).num_rows == 14 << 16
