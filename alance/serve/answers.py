"""Answers with rows: JSON, or an Arrow stream if the caller prefers it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from starlette.responses import Response, StreamingResponse

from alance.serve.gate import ARROW_MEDIA_TYPE, JSON_MEDIA_TYPE, Refused
from alance.serve.json_text import as_json, objects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from alance import Dataset

# Bytes of rows that are serialized in one step, which blocks the interpreter for 1 to 5 ms.
ANSWER_STEP_BYTES = 64 << 10
VERSION_HEADER = "alance-version"  # header with the table version of an answer


def plain_answer(dataset: Dataset, **values: Any) -> Response:
    """Answer with values as one JSON object."""
    text = as_json({"version": dataset.version, **values})
    return Response(
        text, media_type=JSON_MEDIA_TYPE, headers={VERSION_HEADER: str(dataset.version)}
    )


async def rows_answer(request: Request, dataset: Dataset, rows: pa.Table) -> Response:
    """Answer with the rows of a table: at once if they are few, else as a stream.

    Raises:
        Refused: the caller accepts neither JSON nor Arrow.
    """
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
    """Answer with rows as they arrive; `batches` is closed if the caller disconnects.

    Args:
        schema: schema of the batches; None: that of the first batch, which must exist.

    Raises:
        Refused: the caller accepts neither JSON nor Arrow.
        AlanceError: the first batch fails. If a later batch fails, the answer is truncated.
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
    """Streaming response that does not watch for a disconnect, because the gate does so."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


def _described(is_arrow: bool, dataset: Dataset) -> dict[str, Any]:
    """Return the arguments of a response for its media type and version."""
    headers = {VERSION_HEADER: str(dataset.version)}
    return {"media_type": ARROW_MEDIA_TYPE if is_arrow else JSON_MEDIA_TYPE, "headers": headers}


def _accepts_arrow(request: Request) -> bool:
    """Return True if Arrow comes before JSON in the `Accept` header.

    Raises:
        Refused: the header accepts neither.
    """
    accepted = request.headers.get("accept", "*/*").lower()
    kinds = [part.partition(";")[0].strip() for part in accepted.split(",")]
    for kind in kinds:
        if kind == ARROW_MEDIA_TYPE:
            return True
        if kind in (JSON_MEDIA_TYPE, "application/*", "*/*"):
            return False
    raise Refused(
        406,
        "NotAcceptable",
        f"accept {accepted!r}: expected {JSON_MEDIA_TYPE} or {ARROW_MEDIA_TYPE}",
    )


def _steps(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about `ANSWER_STEP_BYTES`."""
    step = max(1, batch.num_rows * ANSWER_STEP_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _writer(
    is_arrow: bool, dataset: Dataset, schema: pa.Schema
) -> Callable[[pa.RecordBatch | None], bytes]:
    """Return a function that serializes batches.

    Its first call with None returns the beginning of the answer, the second its end.
    """
    return _arrow(schema) if is_arrow else _json(dataset.version)


def _json(version: int) -> Callable[[pa.RecordBatch | None], bytes]:
    """Return a writer of a JSON object with a version and rows; see `_writer`."""
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
    """Return a writer of an Arrow stream; see `_writer`."""
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
    """File object whose content is removed after each batch."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, content: Any) -> int:
        self._parts.append(bytes(content))
        return len(self._parts[-1])

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        """Remove and return the bytes written since the last call."""
        content = b"".join(self._parts)
        self._parts.clear()
        return content
