"""Files of 0.1 that lie: an error of our tree or an answer, never anything else."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import pyarrow as pa
import pytest

from alance.errors import AlanceError, CorruptFileError
from alance.file.open.files import open_file
from alance.file.rows.fragment import FileSource, open_fragment
from alance.format.schema import Schema
from tests.bad_input.samples import read, sample
from tests.reference.damaged import LOCATION, run
from tests.reference.driven import Known


@pytest.mark.parametrize("seed", range(12))
def test_lying_page_tables(seed: int) -> None:
    """Positions and lengths of pages that are others, or no numbers of this file at all."""
    rng = random.Random(seed)
    file = sample("0.1", seed % 3)
    content = file.content
    container = run(open_file(LOCATION, len(content), Known()), content)
    start, count = container.page_table_start, container.num_batches * len(file.columns) * 2
    recognized = struct.unpack_from(f"<{count}q", content, start)
    for _ in range(60):
        spoiled = bytearray(content)
        for _ in range(rng.choice([1, 1, 3])):
            value = rng.choice(
                [rng.choice(recognized), -1, 0, 1 << 31, 1 << 62, (1 << 63) - 1, len(content)]
            )
            value = min((1 << 63) - 1, value + rng.choice([0, 0, 1, 8]))
            struct.pack_into("<q", spoiled, start + 8 * rng.randrange(count), value)
        with suppress(AlanceError):
            read(file, bytes(spoiled))


def test_fields_that_the_file_does_not_have() -> None:
    """A manifest that promises more than there is, or less rows."""
    file = sample("0.1", 0)
    fields = [field.to_arrow() for field in file.schema.fields]
    wider = pa.schema(fields + [pa.field(f"more{number}", pa.int32()) for number in range(4, 10)])
    with pytest.raises(CorruptFileError, match="no field 4"):
        read(file, file.content, Schema.from_arrow(wider), {number: number for number in range(10)})
    source = FileSource(LOCATION, len(file.content), {0: 0})
    with pytest.raises(CorruptFileError, match="2500 rows, the fragment has 100"):
        run(open_fragment(file.schema, [source], 100, Known()), file.content)
