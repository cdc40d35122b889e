"""Damaged files of old releases of 2.0, and schemas of other columns."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from alance.errors import AlanceError
from alance.file.older.v2_0 import number_columns
from alance.file.rows.fragment import FileSource, open_fragment
from alance.format.container import open_container
from alance.format.schema import Schema
from tests.bad_input.samples import read, sample
from tests.reference.damaged import LOCATION, metadata_start, run, validate
from tests.reference.driven import Known

GOLDEN = Path(__file__).parent.parent / "golden" / "v2_0"


@pytest.mark.parametrize("release", ["0.12.1", "0.16.1", "0.20.0", "4.0.0"])
def test_spoiled_files_of_old_releases(release: str) -> None:
    """Files with their own schemas, which may be what is spoiled."""
    rng = random.Random(release)
    paths = sorted(GOLDEN.glob(f"{release}/n*.lance/data/*.lance"))
    for path in paths:
        content = path.read_bytes()
        read_alone(content)
        metadata = metadata_start(content)
        for _ in range(25):
            spoiled = bytearray(content)
            at = rng.randrange(rng.choice([0, max(0, metadata - 600), metadata]), len(content) - 8)
            spoiled[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            with suppress(AlanceError):
                read_alone(bytes(spoiled))


def read_alone(content: bytes) -> None:
    """All rows, by the schema that the file has."""
    states = Known()
    container = run(open_container(LOCATION, len(content)), content)
    descriptor = run(container.read_descriptor(), content)
    schema = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
    columns = run(number_columns(schema.fields, container, states), content)
    source = FileSource(LOCATION, len(content), columns)
    num_rows = min(descriptor.length, 1000)
    fragment = run(open_fragment(schema, [source], num_rows, states), content)
    validate(run(fragment.read(0, num_rows, states), content).decode())


@pytest.mark.parametrize("number", range(3))
def test_columns_of_other_fields(number: int) -> None:
    """A schema that belongs to other columns."""
    file = sample("2.0", number)
    rng = random.Random(number)
    for _ in range(40):
        places = list(file.columns.values())
        rng.shuffle(places)
        with suppress(AlanceError):
            columns = dict(zip(file.columns, places, strict=True))
            read(file, file.content, columns=columns)
