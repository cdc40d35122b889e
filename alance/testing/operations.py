"""The operations of S3 and GCS over an `ObjectStore`; no timing in here."""

from __future__ import annotations

import email.utils
import html
import re
import shutil
from typing import TYPE_CHECKING, Final

from alance.testing.listing import list_objects
from alance.testing.messages import Answer, Request, error, xml
from alance.testing.multipart import Multipart, copy_source
from alance.testing.objects import (
    XMLNS,
    Bucket,
    Fault,
    ObjectStore,
    check_read,
    check_write,
    parse_range,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Service:
    """The S3 operations: their effect on the store, and their answers."""

    WRITES: Final = frozenset(
        {"PUT", "COPY", "MPCREATE", "MPCOMPLETE", "MPABORT", "PART", "DELETE", "BULKDELETE"}
    )

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        parts = Multipart(store)
        self.table: dict[str, Callable[[Request], Answer]] = {
            "GET": self.get,
            "HEAD": self.get,
            "PUT": self.put,
            "LIST": self.list_objects,
            "DELETE": self.delete,
            "COPY": self.copy,
            "MPCREATE": parts.create,
            "PART": parts.part,
            "MPCOMPLETE": parts.complete,
            "MPABORT": parts.abort,
            "BULKDELETE": self.bulk_delete,
            "BUCKET": self.on_bucket,
        }

    def __call__(self, req: Request) -> Answer:
        """Do what is asked; failures are answers, too."""
        try:
            handler = self.table.get(req.op)
            if handler is None:
                return error(405, "MethodNotAllowed")
            return handler(req)
        except Fault as fault:
            if fault.status == 304 or req.method == "HEAD":
                return Answer(fault.status)
            return error(fault.status, fault.code, fault.message)
        except (ValueError, KeyError) as problem:
            return error(400, message=f"{req.op} {req.key}: {problem!r}")
        except OSError as problem:
            # A key below an object or above others, or files moved by hand.
            return error(400, message=f"{req.op} {req.key}: the folder: {problem.strerror}")

    def get(self, req: Request) -> Answer:
        """GetObject and HeadObject, with conditions and one range."""
        bucket = self.store.bucket(req.bucket)
        blob = self.store.blob(bucket, req.key)
        check_read(blob, req.headers)
        headers = [
            ("ETag", blob.etag),
            ("x-goog-generation", str(blob.generation)),
            ("Last-Modified", email.utils.formatdate(blob.mtime, usegmt=True)),
            ("Accept-Ranges", "bytes"),
            ("Content-Type", "application/octet-stream"),
        ]
        start, stop, status = 0, blob.size, 200
        span = parse_range(req.headers.get("range", ""), blob.size)
        if span is not None:
            (start, stop), status = span, 206
            headers.append(("Content-Range", f"bytes {start}-{stop - 1}/{blob.size}"))
        req.record["range"] = [start, stop]
        path = self.store.path(bucket, req.key)
        self.store.fd(path)  # fails here, where it can be told, if the file is gone
        return Answer(status, headers, path=path, start=start, stop=stop)

    def put(self, req: Request) -> Answer:
        """PutObject, with conditions."""
        bucket = self.store.bucket(req.bucket)
        check_write(bucket.blobs.get(req.key), req.headers)
        blob = self.store.write(bucket, req.key, req.body)
        return Answer(200, [("ETag", blob.etag), ("x-goog-generation", str(blob.generation))])

    def copy(self, req: Request) -> Answer:
        """CopyObject, with conditions on the target."""
        origin, key, source = copy_source(self.store, req)
        bucket = self.store.bucket(req.bucket)
        check_write(bucket.blobs.get(req.key), req.headers)
        temp = f"{self.store.temp}/copy-{self.store.tag()[1:-1]}"
        shutil.copyfile(self.store.path(origin, key), temp)
        blob = self.store.install(bucket, req.key, temp, source.size)
        return xml(f"<CopyObjectResult><ETag>{html.escape(blob.etag)}</ETag></CopyObjectResult>")

    def delete(self, req: Request) -> Answer:
        """DeleteObject: a missing one is an error for GCS, and none for S3."""
        bucket = self.store.bucket(req.bucket)
        if "if-match" in req.headers or "x-goog-if-generation-match" in req.headers:
            check_write(bucket.blobs.get(req.key), req.headers)
        if not self.store.delete(bucket, req.key) and req.is_gcs:
            raise Fault(404, "NoSuchKey", req.key)
        return Answer(204)

    def bulk_delete(self, req: Request) -> Answer:
        """DeleteObjects."""
        bucket = self.store.bucket(req.bucket)
        found = re.findall(r"<Key>(.*?)</Key>", bytes(req.body).decode(), re.S)
        for key in found:
            self.store.delete(bucket, html.unescape(key))
        done = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in found)
        return xml(f"<DeleteResult {XMLNS}>{done}</DeleteResult>")

    def list_objects(self, req: Request) -> Answer:
        """ListObjectsV2."""
        return list_objects(self.store.bucket(req.bucket), req)

    def on_bucket(self, req: Request) -> Answer:
        """What is asked about buckets: create, list, head, location."""
        if req.method == "PUT":
            if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", req.bucket):
                raise Fault(400, "InvalidBucketName", req.bucket)
            folder = self.store.root / req.bucket
            folder.mkdir(exist_ok=True)
            self.store.buckets.setdefault(req.bucket, Bucket(folder))
            return Answer(200)
        if not req.bucket:
            names = "".join(f"<Bucket><Name>{name}</Name></Bucket>" for name in self.store.buckets)
            return xml(
                f"<ListAllMyBucketsResult {XMLNS}><Buckets>{names}</Buckets>"
                "</ListAllMyBucketsResult>"
            )
        self.store.bucket(req.bucket)
        if req.method == "GET" and "location" in req.query:
            return xml(f"<LocationConstraint {XMLNS}/>")
        return Answer(200, [("x-amz-bucket-region", "us-east-1")])
