"""Makes files as the first alance wrote them: lengths of 32 bits where the type has 64.

Compressed values of `large_string` in full-zip pages had such lengths, which pylance refuses; the
description of the codec beside them says 64. Run it with an alance before that was mended:

    python tests/golden/v2_1_narrow_lengths/make_narrow_lengths.py

It writes a file of each version beside itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

FOLDER: Final = Path(__file__).parent
VERSIONS: Final = ("2.1", "2.2")


def rows() -> pa.Table:
    """Return the rows of the files."""
    texts = [f"row {row} " + "the quick brown fox " * 16 if row % 5 else None for row in range(200)]
    metadata = {"lance-encoding:compression": "zstd"}
    field = pa.field("text", pa.large_string(), metadata=metadata)
    return pa.table([pa.array(texts, field.type)], schema=pa.schema([field]))


if __name__ == "__main__":
    from tests.reference.written import file_bytes

    for version in VERSIONS:
        (FOLDER / f"{version}.lance").write_bytes(file_bytes(rows(), version))
