"""S3's operations over an `ObjectStore`; no timing in here."""

from __future__ import annotations

import bisect
import email.utils
import html
import re
import shutil
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from alance.testing.messages import Answer, Request
from alance.testing.multipart import Multipart, copy_source
from alance.testing.objects import (
    XML_HEAD,
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
    """What each operation does to the store and answers."""

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
        try:
            handler = self.table.get(req.op)
            if handler is None:
                raise Fault(405, "MethodNotAllowed")
            return handler(req)
        except Fault as fault:
            if fault.status == 304 or req.method == "HEAD":
                return Answer(fault.status)
            body = (
                f"{XML_HEAD}<Error><Code>{fault.code}</Code><Message>{html.escape(fault.message)}</Message>"
                f"<Resource>{html.escape(req.key)}</Resource></Error>"
            ).encode()
            return Answer(fault.status, [("Content-Type", "application/xml")], body)

    def get(self, req: Request) -> Answer:
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
        wanted = req.headers.get("range")
        if wanted:
            span = parse_range(wanted, blob.size)
            if span is not None:
                (start, stop), status = span, 206
                headers.append(("Content-Range", f"bytes {start}-{stop - 1}/{blob.size}"))
        req.record["range"] = [start, stop]
        return Answer(
            status, headers, path=self.store.path(bucket, req.key), start=start, stop=stop
        )

    def put(self, req: Request) -> Answer:
        bucket = self.store.bucket(req.bucket)
        check_write(bucket.blobs.get(req.key), req.headers)
        blob = self.store.write(bucket, req.key, req.body)
        return Answer(200, [("ETag", blob.etag), ("x-goog-generation", str(blob.generation))])

    def copy(self, req: Request) -> Answer:
        origin, key, source = copy_source(self.store, req)
        bucket = self.store.bucket(req.bucket)
        check_write(bucket.blobs.get(req.key), req.headers)
        temp = f"{self.store.temp}/copy-{self.store.tag()[1:-1]}"
        shutil.copyfile(self.store.path(origin, key), temp)
        blob = self.store.install(bucket, req.key, temp, source.size)
        body = (
            f"{XML_HEAD}<CopyObjectResult><ETag>{html.escape(blob.etag)}</ETag></CopyObjectResult>"
        )
        return Answer(200, [("Content-Type", "application/xml")], body.encode())

    def delete(self, req: Request) -> Answer:
        bucket = self.store.bucket(req.bucket)
        if "if-match" in req.headers:
            check_write(bucket.blobs.get(req.key), req.headers)
        self.store.delete(bucket, req.key)
        return Answer(204)

    def bulk_delete(self, req: Request) -> Answer:
        bucket = self.store.bucket(req.bucket)
        keys = [
            html.unescape(k)
            for k in re.findall(r"<Key>(.*?)</Key>", bytes(req.body).decode(), re.S)
        ]
        for key in keys:
            self.store.delete(bucket, key)
        done = "".join(f"<Deleted><Key>{html.escape(k)}</Key></Deleted>" for k in keys)
        return Answer(
            200,
            [("Content-Type", "application/xml")],
            f"{XML_HEAD}<DeleteResult {XMLNS}>{done}</DeleteResult>".encode(),
        )

    def on_bucket(self, req: Request) -> Answer:
        if req.method == "PUT":
            folder = self.store.root / req.bucket
            folder.mkdir(exist_ok=True)
            self.store.buckets.setdefault(req.bucket, Bucket(folder))
            return Answer(200)
        if not req.bucket:
            names = "".join(f"<Bucket><Name>{n}</Name></Bucket>" for n in self.store.buckets)
            return Answer(
                200,
                [("Content-Type", "application/xml")],
                f"{XML_HEAD}<ListAllMyBucketsResult {XMLNS}><Buckets>{names}</Buckets>"
                "</ListAllMyBucketsResult>".encode(),
            )
        self.store.bucket(req.bucket)
        if req.method == "GET" and "location" in req.query:
            return Answer(
                200,
                [("Content-Type", "application/xml")],
                f"{XML_HEAD}<LocationConstraint {XMLNS}/>".encode(),
            )
        return Answer(200, [("x-amz-bucket-region", "us-east-1")])

    def list_objects(self, req: Request) -> Answer:
        bucket, query = self.store.bucket(req.bucket), req.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        limit = min(1000, int(query.get("max-keys", 1000)))
        after = unquote(query.get("continuation-token", "")) or query.get("start-after", "")
        enc = quote if query.get("encoding-type") == "url" else html.escape
        keys = bucket.keys
        at = max(bisect.bisect_left(keys, prefix), bisect.bisect_right(keys, after) if after else 0)
        out: list[str] = []
        last, count, truncated = after, 0, False
        seen = after if delimiter and after.endswith(delimiter) else None
        while at < len(keys) and keys[at].startswith(prefix):
            key = keys[at]
            group = None
            if delimiter:
                cut = key.find(delimiter, len(prefix))
                group = key[: cut + len(delimiter)] if cut >= 0 else None
            if group is not None and group == seen:
                at = bisect.bisect_left(keys, group + "\U0010ffff", at)
                continue
            if count >= limit:
                truncated = True
                break
            if group is not None:
                out.append(f"<CommonPrefixes><Prefix>{enc(group)}</Prefix></CommonPrefixes>")
                seen = last = group
                at = bisect.bisect_left(keys, group + "\U0010ffff", at)
            else:
                blob = bucket.blobs[key]
                when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(blob.mtime))
                out.append(
                    f"<Contents><Key>{enc(key)}</Key><LastModified>{when}</LastModified>"
                    f"<ETag>{html.escape(blob.etag)}</ETag><Size>{blob.size}</Size>"
                    "<StorageClass>STANDARD</StorageClass></Contents>"
                )
                last = key
                at += 1
            count += 1
        token = (
            f"<NextContinuationToken>{quote(last, safe='')}</NextContinuationToken>"
            if truncated
            else ""
        )
        body = (
            f"{XML_HEAD}<ListBucketResult {XMLNS}><Name>{req.bucket}</Name>"
            f"<Prefix>{enc(prefix)}</Prefix>"
            f"<KeyCount>{count}</KeyCount><MaxKeys>{limit}</MaxKeys>"
            f"<IsTruncated>{'true' if truncated else 'false'}</IsTruncated>{token}{''.join(out)}"
            "</ListBucketResult>"
        )
        req.record["listed"] = count
        req.record["prefix"] = prefix
        return Answer(200, [("Content-Type", "application/xml")], body.encode())
