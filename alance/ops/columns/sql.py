"""New columns that are computed from others: SQL text and pyarrow expressions."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.errors import InvalidInputError
from alance.expr import computed_from_arrow, is_nullable, parse_projection
from alance.file.batches import empty_batch
from alance.ops.columns.values import OfLiveRows
from alance.ops.read.groups import file_bytes
from alance.ops.read.options import ScanOptions
from alance.ops.read.rows import ScanPlan
from alance.ops.read.scan import scan
from alance.ops.version.projection import Output, Projection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    import pyarrow.compute as pc

    from alance.format.schema import Schema
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot

WHOLE_BYTES: Final = 128 << 10  # of local files: to read one costs less than to look for columns


@dataclass(slots=True)
class Expressions(OfLiveRows):
    """Values by expression.

    Attributes:
        texts: SQL text or a pyarrow expression for each new column.
        batch_size: rows computed at once at most; None: what the pages make natural.
    """

    texts: Mapping[str, str | pc.Expression]
    batch_size: int | None = None
    _parsed: tuple[Schema, Projection] | None = field(default=None, init=False)

    def projection(self, schema: Schema) -> Projection:
        """The new columns over a version's; parsed once a schema.

        Raises:
            InvalidInputError: bad SQL, an unknown column, no name or no text.
            UnsupportedError: valid SQL that is not evaluated here.
        """
        known = self._parsed
        if known is not None and known[0] is schema:
            return known[1]
        arrow = schema.to_arrow()
        outputs = []
        for name, text in self.texts.items():
            if not isinstance(name, str):
                raise InvalidInputError(f"new column {name!r}: expected a name")
            if isinstance(text, str):
                computed = parse_projection(text, arrow)
            else:
                computed = computed_from_arrow(text, arrow)
            outputs.append(Output(name, computed=computed))
        fields = [name for one in outputs if one.computed for name in one.computed.columns]
        made = Projection(tuple(dict.fromkeys(fields)), tuple(outputs), frozenset())
        self._parsed = schema, made
        return made

    def schema(self, schema: Schema) -> pa.Schema:
        """The new columns.

        Raises:
            InvalidInputError: bad SQL, an unknown column, no name or no text.
            UnsupportedError: valid SQL that is not evaluated here.
        """
        projection = self.projection(schema)
        arrow = schema.project(projection.fields).to_arrow()
        made = projection.apply(empty_batch(arrow)).schema
        return pa.schema(
            [
                one.with_nullable(output.computed is None or is_nullable(output.computed, arrow))
                for one, output in zip(made, projection.outputs, strict=True)
            ]
        )

    def reads(self, schema: Schema) -> frozenset[int]:
        paths = self.projection(schema).fields
        return frozenset(one.id for one in schema.project(paths).walk())

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        async with aclosing(self.grouped(snapshot, [handle], ahead_bytes)) as batches:
            async for batch in batches:
                yield batch

    async def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """As of `GroupedValues`."""
        projection = self.projection(snapshot.schema)
        read = snapshot.schema.project(projection.fields)
        options = ScanOptions(batch_size=self.batch_size, io_buffer_bytes=ahead_bytes)
        plan = ScanPlan(options, projection, None, read, None, handles, {}, frozenset())
        if len(handles) > 1 and not snapshot.is_remote:
            is_small = sum(map(file_bytes, handles)) <= WHOLE_BYTES * len(handles)
            plan = replace(plan, reads_files_whole=is_small)
        async with aclosing(scan(snapshot, plan)) as batches:
            async for batch in batches:
                yield batch
