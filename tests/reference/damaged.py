"""Plans driven over bytes that may be damaged, and ways to damage them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lance.file import LanceFileWriter

from alance.errors import CorruptFileError
from alance.format.plans import cut
from alance.format.schema import Schema

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from alance.format.plans import Plan

LOCATION = "memory://1/file"


def run(plan: Plan[Any], content: bytes) -> Any:
    """Drive a plan over bytes in memory, as over a store.

    Raises:
        CorruptFileError: it asks for more than there is.
    """
    view = memoryview(content)
    try:
        wanted = next(plan)
        while True:
            for one in wanted:
                assert 0 <= one.start <= one.stop
                if one.stop > len(content):
                    raise CorruptFileError("beyond the end")
            wanted = plan.send([cut(one, view) for one in wanted])
    except StopIteration as done:
        return done.value


def validate(batch: pa.RecordBatch) -> None:
    """Arrow's own check; a spoiled number may be any number, of more digits than its type says."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        if "does not fit in precision" not in str(error):
            raise


def by_pylance(table: pa.Table, version: str) -> tuple[bytes, Schema]:
    """A file that pylance writes, and its schema."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.lance"
        with LanceFileWriter(str(path), table.schema, version=version) as writer:
            writer.write_batch(table)
        return path.read_bytes(), Schema.from_arrow(table.schema)


def metadata_start(content: bytes) -> int:
    """Where a file of 2.0 or later begins to describe its columns, as its footer says."""
    return int.from_bytes(content[-40:-32], "little")


def with_spoiled_bytes(rng: random.Random, content: bytes, starts: Sequence[int]) -> bytes:
    """One to five bytes, each behind one of `starts`, become random or telling ones."""
    spoiled = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5])):
        first = rng.choice(starts)
        at = rng.randrange(first, len(content))
        spoiled[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(spoiled)


def with_moved_part(rng: random.Random, content: bytes) -> bytes:
    """A piece of the file stands in the place of another too."""
    size = rng.choice([1, 8, 64, 300])
    source, target = (rng.randrange(len(content) - size) for _ in range(2))
    spoiled = bytearray(content)
    spoiled[target : target + size] = content[source : source + size]
    return bytes(spoiled)
