"""Requests and answers of the lab, apart from how they travel."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from alance.testing.objects import ERROR_CODES, XML_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.testing.objects import Content


class Request:
    """A request with its operation's name and what is logged of it."""

    __slots__ = ("body", "bucket", "headers", "key", "method", "op", "query", "record")

    def __init__(self, method: str, target: str, headers: dict[str, str], body: Content) -> None:
        path, _, query = target.partition("?")
        parts = path.lstrip("/").partition("/")
        self.method = method
        self.bucket = unquote(parts[0])
        self.key = unquote(parts[2])
        self.query = (
            {k: v[0] for k, v in parse_qs(query, keep_blank_values=True).items()} if query else {}
        )
        self.headers = headers
        self.body = body
        self.op = self.name()
        self.record: dict[str, Any] = {}

    @property
    def is_gcs(self) -> bool:
        """Whether the client speaks the dialect of GCS."""
        return self.headers.get("authorization", "").startswith("Bearer")

    @property
    def copy_source(self) -> str | None:
        """The object to copy from, in the S3 or GCS dialect."""
        headers = self.headers
        return headers.get("x-amz-copy-source") or headers.get("x-goog-copy-source")

    def name(self) -> str:
        """The operation, as S3 calls it in short."""
        method, query = self.method, self.query
        if not self.key:
            if method == "GET":
                return "LIST" if "list-type" in query or "prefix" in query else "BUCKET"
            if method == "POST" and "delete" in query:
                return "BULKDELETE"
            return "BUCKET"
        if method == "PUT":
            if "uploadId" in query:
                return "PART"
            return "COPY" if self.copy_source is not None else "PUT"
        if method == "POST":
            return (
                "MPCREATE"
                if "uploads" in query
                else "MPCOMPLETE"
                if "uploadId" in query
                else "POST"
            )
        if method == "DELETE":
            return "MPABORT" if "uploadId" in query else "DELETE"
        return method


class Answer:
    """Status, headers, and either bytes or a slice of a file."""

    __slots__ = ("body", "headers", "path", "start", "status", "stop")

    def __init__(
        self,
        status: int = 200,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        path: str | None = None,
        start: int = 0,
        stop: int = 0,
    ) -> None:
        self.status, self.headers, self.body = status, list(headers), body
        self.path, self.start, self.stop = path, start, stop

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return self.stop - self.start if self.path is not None else len(self.body)


def xml(body: str) -> Answer:
    """An answer of 200 with an XML document."""
    return Answer(200, [("Content-Type", "application/xml")], (XML_HEAD + body).encode())


def error(
    status: int, code: str | None = None, message: str = "", retry_after: float | None = None
) -> Answer:
    """An answer that tells of an error.

    Args:
        code: S3's name of it; None: the usual one of the status.
        retry_after: seconds.
    """
    name = code or ERROR_CODES.get(status, "Error")
    answer = xml(f"<Error><Code>{name}</Code><Message>{html.escape(message)}</Message></Error>")
    answer.status = status
    if retry_after is not None:
        answer.headers.append(("Retry-After", f"{retry_after:g}"))
    return answer
