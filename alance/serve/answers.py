"""Rows as answers: JSON, or an Arrow stream where the caller accepts that."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from starlette.responses import Response, StreamingResponse

from alance.serve.gate import ARROW, JSON, Refused
from alance.serve.json_text import as_json, objects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from alance import Dataset

# Of rows that are written in one go: they keep the interpreter for 1 to 5 ms
ANSWER_STEP_BYTES = 64 << 10
VERSION = "alance-version"  # the header with the version that an answer is of


def plain_answer(dataset: Dataset, **values: Any) -> Response:
    """Values as one JSON object."""
    text = as_json({"version": dataset.version, **values})
    return Response(text, media_type=JSON, headers={VERSION: str(dataset.version)})


async def rows_answer(request: Request, dataset: Dataset, rows: pa.Table) -> Response:
    """The rows of a table: few of them in one piece."""
    if rows.nbytes <= ANSWER_STEP_BYTES:
        is_arrow = _accepts_arrow(request)
        write = _writer(is_arrow, dataset, rows.schema)
        content = b"".join(map(write, [None, *rows.to_batches(), None]))
        return Response(content, **_described(is_arrow, dataset))

    async def batches() -> AsyncGenerator[pa.RecordBatch, None]:
        for batch in rows.to_batches():
            yield batch

    return await stream_answer(request, dataset, batches(), rows.schema)


async def stream_answer(
    request: Request,
    dataset: Dataset,
    batches: AsyncGenerator[pa.RecordBatch, None],
    schema: pa.Schema | None = None,
) -> Response:
    """The rows of a stream, as they come; it is closed when the caller leaves.

    Args:
        schema: schema of the batches; None for that of the first one, which then must exist.

    Raises:
        Refused: the caller accepts neither form.
        AlanceError: the first batch failed. If a later one fails, the answer is cut off.
    """
    is_arrow = _accepts_arrow(request)
    try:
        first = await anext(batches, None)
    except BaseException:
        await batches.aclose()
        raise
    if schema is None:
        assert first is not None
        schema = first.schema
    write = _writer(is_arrow, dataset, schema)

    async def chunks() -> AsyncIterator[bytes]:
        async with aclosing(batches):
            yield write(None)
            batch = first
            while batch is not None:
                for part in _steps(batch):
                    if batch.nbytes > ANSWER_STEP_BYTES:
                        yield await asyncio.to_thread(write, part)
                    else:
                        yield write(part)
                batch = await anext(batches, None)
            yield write(None)

    return _Streamed(chunks(), **_described(is_arrow, dataset))


class _Streamed(StreamingResponse):
    """Without a watch of its own for a caller that leaves: the gate watches, and cancels."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


def _described(is_arrow: bool, dataset: Dataset) -> dict[str, Any]:
    """Returns the arguments of a response that state its media type and the version."""
    headers = {VERSION: str(dataset.version)}
    return {"media_type": ARROW if is_arrow else JSON, "headers": headers}


def _accepts_arrow(request: Request) -> bool:
    """Returns whether Arrow comes before JSON in the `Accept` header."""
    accepted = request.headers.get("accept", "*/*").lower()
    kinds = [part.partition(";")[0].strip() for part in accepted.split(",")]
    for kind in kinds:
        if kind == ARROW:
            return True
        if kind in (JSON, "application/*", "*/*"):
            return False
    raise Refused(406, "NotAcceptable", f"accept {accepted!r}: expected {JSON} or {ARROW}")


def _steps(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that are written quickly."""
    step = max(1, batch.num_rows * ANSWER_STEP_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _writer(
    is_arrow: bool, dataset: Dataset, schema: pa.Schema
) -> Callable[[pa.RecordBatch | None], bytes]:
    """Returns a function that writes rows. Its first call with None begins, the next ends."""
    return _arrow(schema) if is_arrow else _json(dataset.version)


def _json(version: int) -> Callable[[pa.RecordBatch | None], bytes]:
    """Returns a function that writes a JSON object with a version and rows, see `_writer`."""
    written = -1

    def write(batch: pa.RecordBatch | None) -> bytes:
        nonlocal written
        if batch is None:
            text = b'{"version":%d,"rows":[' % version if written < 0 else b"]}"
            written = max(written, 0)
            return text
        text = (b"," if written and batch.num_rows else b"") + objects(batch)
        written += batch.num_rows
        return text

    return write


def _arrow(schema: pa.Schema) -> Callable[[pa.RecordBatch | None], bytes]:
    """Returns a function that writes a stream of Arrow, see `_writer`."""
    sink = _AnswerChunks()
    writer: Any = None

    def write(batch: pa.RecordBatch | None) -> bytes:
        nonlocal writer
        if batch is not None:
            writer.write_batch(batch)
        elif writer is None:
            writer = pa.ipc.new_stream(sink, schema)
        else:
            writer.close()
        return sink.take()

    return write


class _AnswerChunks:
    """A file that is emptied now and then."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, content: Any) -> int:
        self._parts.append(bytes(content))
        return len(self._parts[-1])

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        """Returns the bytes written since the last call."""
        content = b"".join(self._parts)
        self._parts.clear()
        return content
