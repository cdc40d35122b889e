"""Multipart uploads of the lab.

GCS documents that it takes no preconditions with these: there they are refused, so that nobody
comes to rely on them. Its uploads replace whatever has the name when they are completed.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import shutil
from typing import TYPE_CHECKING
from urllib.parse import unquote

from alance.testing.messages import Answer, Request, xml
from alance.testing.objects import (
    XMLNS,
    Blob,
    Bucket,
    Fault,
    ObjectStore,
    check_write,
    parse_range,
)

if TYPE_CHECKING:
    from alance.testing.objects import Part


def copy_source(store: ObjectStore, req: Request) -> tuple[Bucket, str, Blob]:
    """The object that a copy names."""
    name, _, key = unquote(req.copy_source or "").lstrip("/").partition("/")
    bucket = store.bucket(name)
    return bucket, key, store.blob(bucket, key)


def refuse_conditions(req: Request) -> None:
    """No part of a multipart upload to GCS has one."""
    if req.is_gcs and "x-goog-if-generation-match" in req.headers:
        raise Fault(400, "InvalidArgument", "multipart uploads take no preconditions")


class Multipart:
    """Uploads under way: their parts are files until the upload is complete."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def create(self, req: Request) -> Answer:
        """CreateMultipartUpload."""
        refuse_conditions(req)
        self.store.bucket(req.bucket)
        upload = self.store.tag()[1:-1]
        self.store.uploads[upload] = {}
        return xml(
            f"<InitiateMultipartUploadResult {XMLNS}><Bucket>{req.bucket}</Bucket>"
            f"<Key>{html.escape(req.key)}</Key><UploadId>{upload}</UploadId>"
            "</InitiateMultipartUploadResult>"
        )

    def upload(self, req: Request) -> dict[int, Part]:
        """The parts of the upload that a request is about, by their numbers."""
        parts = self.store.uploads.get(req.query["uploadId"])
        if parts is None:
            raise Fault(404, "NoSuchUpload")
        return parts

    def part(self, req: Request) -> Answer:
        """UploadPart and UploadPartCopy."""
        refuse_conditions(req)
        parts, number = self.upload(req), int(req.query["partNumber"])
        data = req.body
        copied = req.copy_source is not None
        if copied:
            origin, key, blob = copy_source(self.store, req)
            start, stop = parse_range(
                req.headers.get("x-amz-copy-source-range", ""), blob.size
            ) or (0, blob.size)
            with open(self.store.path(origin, key), "rb") as src:
                src.seek(start)
                data = src.read(stop - start)
        temp = f"{self.store.temp}/{req.query['uploadId']}.{number}"
        with open(temp, "wb") as out:
            out.write(data)
        tag = self.store.tag()
        parts[number] = (temp, len(data), tag)
        if copied:
            return xml(f"<CopyPartResult><ETag>{html.escape(tag)}</ETag></CopyPartResult>")
        return Answer(200, [("ETag", tag)])

    def complete(self, req: Request) -> Answer:
        """CompleteMultipartUpload, with conditions; parts that are not named are dropped."""
        refuse_conditions(req)
        bucket, parts = self.store.bucket(req.bucket), self.upload(req)
        check_write(bucket.blobs.get(req.key), req.headers)
        order = [
            int(n) for n in re.findall(r"<PartNumber>(\d+)</PartNumber>", bytes(req.body).decode())
        ]
        if not order or any(n not in parts for n in order):
            raise Fault(400, "InvalidPart")
        total, first = 0, parts[order[0]][0]
        with open(first, "ab") as out:
            for number in order:
                temp, size, _ = parts[number]
                total += size
                if temp != first:
                    with open(temp, "rb") as src:
                        shutil.copyfileobj(src, out, 1 << 20)
                    os.unlink(temp)
        for number in parts.keys() - set(order):
            os.unlink(parts[number][0])
        blob = self.store.install(bucket, req.key, first, total)
        del self.store.uploads[req.query["uploadId"]]
        return xml(
            f"<CompleteMultipartUploadResult {XMLNS}><Key>{html.escape(req.key)}</Key>"
            f"<ETag>{html.escape(blob.etag)}</ETag></CompleteMultipartUploadResult>"
        )

    def abort(self, req: Request) -> Answer:
        """AbortMultipartUpload."""
        for temp, _, _ in self.upload(req).values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temp)
        del self.store.uploads[req.query["uploadId"]]
        return Answer(204)
