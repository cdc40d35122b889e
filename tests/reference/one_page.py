"""A file of one column with one page, read by the kernel in every way that there is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from alance import _kernels
from alance.errors import AlanceError
from alance.file.rows.fragment import FileSource, open_fragment
from alance.file_version import FileVersion
from alance.format.container import Container
from alance.format.layouts import PAGE_LAYOUT
from alance.format.layouts.base import Layer
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from tests.reference.damaged import LOCATION, run
from tests.reference.driven import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alance.file.rows.fragment import OpenFragment
    from alance.format.proto import encodings_v2_1_pb2 as pb


def type_of(layers: Sequence[int], leaf: pa.DataType) -> pa.DataType:
    """The type of a column whose pages have layers; structs have one member."""
    arrow = leaf
    for layer in map(Layer, filter(None, layers[1:])):
        arrow = pa.list_(arrow) if layer.is_list else pa.struct([("s", arrow)])
    return arrow


class OnePage(NamedTuple):
    """A page, and the type of its column."""

    layout: pb.PageLayout
    buffers: Sequence[bytes]
    num_rows: int
    arrow: pa.DataType

    def opened(self) -> tuple[OpenFragment, Known, bytes]:
        """A fragment that knows nothing of its page, its cache, and the bytes of the file."""
        content, places = b"", []
        for buffer in self.buffers:
            places.append((len(content), len(buffer)))
            content += buffer + b"H" * (-len(buffer) % 64)
        value = self.layout.SerializeToString()
        encoding = AnyMessage(type_url=PAGE_LAYOUT, value=value).SerializeToString()
        columns = _kernels.FileColumns([0, 0], len(content), 64)
        columns.add(0, _kernels.ColumnPages([(tuple(places), self.num_rows, encoding)]))
        states, end = Known(), len(content)
        states.put(
            ("file", LOCATION),
            Container(
                LOCATION,
                end,
                FileVersion.V2_1,
                columns,
                np.empty((0, 2), np.int64),
                memoryview(b""),
                max(1, end),
            ),
            0,
        )
        schema = Schema.from_arrow(pa.schema([("c", self.arrow)]))
        (leaf,) = leaf_columns(schema.fields[0])
        source = FileSource(LOCATION, end, {leaf.field.id: 0})
        return run(open_fragment(schema, [source], self.num_rows, states), content), states, content

    def take(self, rows: Sequence[int], *, guess: bool) -> list[Any]:
        """Single rows."""
        opened, states, content = self.opened()
        task = run(opened.take(np.array(rows, np.int64), states, guess=guess), content)
        return self._values(task.decode())

    def read(self, start: int, stop: int) -> list[Any]:
        """A range of rows."""
        opened, states, content = self.opened()
        return self._values(run(opened.read(start, stop, states), content).decode())

    def _values(self, batch: pa.RecordBatch) -> list[Any]:
        batch.validate(full=True)
        values: list[Any] = batch.column(0).to_pylist()
        return values

    def ways(self) -> Iterator[Callable[[], list[Any]]]:
        """Calls that give all rows, or rows one by one."""
        every = range(self.num_rows)
        yield lambda: self.read(0, self.num_rows)
        for guess in (True, False):
            yield lambda guess=guess: self.take(every, guess=guess)
            yield lambda guess=guess: [self.take([row], guess=guess)[0] for row in every]
        yield lambda: [self.read(row, row + 1)[0] for row in every]

    def check_refused(self, message: str) -> None:
        """Check that every way raises an error that matches, and that names the file and field."""
        for read in self.ways():
            with pytest.raises(AlanceError) as error:
                read()
            texts = [str(error.value), *getattr(error.value, "__notes__", [])]
            assert any(re.search(message, text) for text in texts), texts
            assert any(LOCATION in text for text in texts), texts
            assert any("in field '" in text for text in texts), texts
