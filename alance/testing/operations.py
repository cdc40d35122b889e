"""Operations of S3 and GCS on an `ObjectStore`: objects, listings, uploads. No timing here.

GCS documents that multipart uploads take no preconditions, so the lab refuses them. A completed
upload of GCS replaces any object with its name.
"""

from __future__ import annotations

import bisect
import contextlib
import email.utils
import html
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from alance.testing.connection import Answer, Request, error, xml
from alance.testing.objects import (
    XMLNS,
    Bucket,
    Fault,
    ObjectStore,
    StoredBlob,
    check_read,
    check_write,
    parse_range,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alance.testing.objects import UploadedPart

PAGE_OBJECTS: Final = 1000  # maximum entries per page, as in S3
LAST: Final = "\U0010ffff"  # sorts after any character of a key


def entries(
    bucket: Bucket, prefix: str, delimiter: str, after: str
) -> Iterator[tuple[str, StoredBlob | None]]:
    """Yield objects and common prefixes in order, all greater than `after`; prefixes have no blob.

    Args:
        delimiter: keys that are equal up to the first delimiter after `prefix` become one common
            prefix; empty: there are no common prefixes.
    """
    keys = bucket.keys
    at = max(bisect.bisect_left(keys, prefix), bisect.bisect_right(keys, after) if after else 0)
    if delimiter and after.endswith(delimiter):
        at = max(at, bisect.bisect_left(keys, after + LAST))
    while at < len(keys) and keys[at].startswith(prefix):
        key = keys[at]
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            yield key, bucket.blobs[key]
            at += 1
        else:
            group = key[: cut + len(delimiter)]
            yield group, None
            at = bisect.bisect_left(keys, group + LAST, at)


def list_objects(bucket: Bucket, req: Request) -> Answer:
    """Answer ListObjectsV2.

    Raises:
        ValueError: `max-keys` is not a number.
    """
    query = req.query
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    limit = min(PAGE_OBJECTS, int(query.get("max-keys", PAGE_OBJECTS)))
    after = unquote(query.get("continuation-token", "")) or query.get("start-after", "")
    is_url = query.get("encoding-type") == "url"

    def encode(text: str) -> str:
        return quote(text) if is_url else html.escape(text)

    out: list[str] = []
    last, token = "", ""
    for name, blob in entries(bucket, prefix, delimiter, after):
        if len(out) >= limit:
            token = f"<NextContinuationToken>{quote(last, safe='')}</NextContinuationToken>"
            break
        out.append(_entry(encode(name), blob))
        last = name
    req.record["listed"] = len(out)
    req.record["prefix"] = prefix
    return xml(
        f"<ListBucketResult {XMLNS}><Name>{html.escape(req.bucket)}</Name>"
        f"<Prefix>{encode(prefix)}</Prefix><KeyCount>{len(out)}</KeyCount>"
        f"<MaxKeys>{limit}</MaxKeys><IsTruncated>{'true' if token else 'false'}</IsTruncated>"
        f"{token}{''.join(out)}</ListBucketResult>"
    )


def unending(answer: Answer, req: Request, *, is_hollow: bool) -> Answer:
    """Give the last page of a listing a next page.

    The next page is the same page again; with `is_hollow`, an empty page.
    """
    query = req.query
    again = query.get("continuation-token", "") or quote(query.get("start-after", "") or "\0")
    token = quote(LAST) if is_hollow else again
    more = (
        "<IsTruncated>true</IsTruncated>"
        f"<NextContinuationToken>{quote(unquote(token), safe='')}</NextContinuationToken>"
    )
    answer.body = answer.body.replace(b"<IsTruncated>false</IsTruncated>", more.encode())
    return answer


def _entry(name: str, blob: StoredBlob | None) -> str:
    if blob is None:
        return f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(blob.mtime))
    return (
        f"<Contents><Key>{name}</Key><LastModified>{when}</LastModified>"
        f"<ETag>{html.escape(blob.etag)}</ETag><Size>{blob.size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def copy_source(store: ObjectStore, req: Request) -> tuple[Bucket, str, StoredBlob]:
    """Return the bucket, key and metadata of a copy's source.

    Raises:
        Fault: the source does not exist.
    """
    name, _, key = unquote(req.copy_source or "").lstrip("/").partition("/")
    bucket = store.bucket(name)
    return bucket, key, store.blob(bucket, key)


def refuse_conditions(req: Request) -> None:
    """Refuse preconditions of multipart uploads to GCS.

    Raises:
        Fault: the request has a precondition.
    """
    if req.is_gcs and "x-goog-if-generation-match" in req.headers:
        raise Fault(400, "InvalidArgument", "multipart uploads take no preconditions")


class Multipart:
    """Multipart uploads; their parts are files until the upload is complete."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def create(self, req: Request) -> Answer:
        """Answer CreateMultipartUpload."""
        refuse_conditions(req)
        self.store.bucket(req.bucket)
        upload = self.store.tag()[1:-1]
        self.store.uploads[upload] = {}
        return xml(
            f"<InitiateMultipartUploadResult {XMLNS}><Bucket>{req.bucket}</Bucket>"
            f"<Key>{html.escape(req.key)}</Key><UploadId>{upload}</UploadId>"
            "</InitiateMultipartUploadResult>"
        )

    def upload(self, req: Request) -> dict[int, UploadedPart]:
        """Return the parts of a request's upload, by their numbers.

        Raises:
            Fault: the upload does not exist.
        """
        parts = self.store.uploads.get(req.query["uploadId"])
        if parts is None:
            raise Fault(404, "NoSuchUpload")
        return parts

    def part(self, req: Request) -> Answer:
        """Answer UploadPart and UploadPartCopy."""
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
        """Answer CompleteMultipartUpload, with conditions; drops parts that it does not name."""
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
        """Answer AbortMultipartUpload."""
        for temp, _, _ in self.upload(req).values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temp)
        del self.store.uploads[req.query["uploadId"]]
        return Answer(204)


class StoreService:
    """Handlers of the S3 operations."""

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
        """Apply a request to the store, and return its answer, which may be an error."""
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
            # A key below an object or above others, or files that were moved by hand.
            return error(400, message=f"{req.op} {req.key}: the folder: {problem.strerror}")

    def get(self, req: Request) -> Answer:
        """Answer GetObject and HeadObject, with conditions and one range."""
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
        self.store.fd(path)  # raises before the answer begins if the file is missing
        return Answer(status, headers, path=path, start=start, stop=stop)

    def put(self, req: Request) -> Answer:
        """Answer PutObject, with conditions."""
        bucket = self.store.bucket(req.bucket)
        check_write(bucket.blobs.get(req.key), req.headers)
        blob = self.store.write(bucket, req.key, req.body)
        return Answer(200, [("ETag", blob.etag), ("x-goog-generation", str(blob.generation))])

    def copy(self, req: Request) -> Answer:
        """Answer CopyObject, with conditions on the target."""
        origin, key, source = copy_source(self.store, req)
        bucket = self.store.bucket(req.bucket)
        check_write(bucket.blobs.get(req.key), req.headers)
        temp = f"{self.store.temp}/copy-{self.store.tag()[1:-1]}"
        shutil.copyfile(self.store.path(origin, key), temp)
        blob = self.store.install(bucket, req.key, temp, source.size)
        return xml(f"<CopyObjectResult><ETag>{html.escape(blob.etag)}</ETag></CopyObjectResult>")

    def delete(self, req: Request) -> Answer:
        """Answer DeleteObject; a missing object is an error in GCS, but not in S3."""
        bucket = self.store.bucket(req.bucket)
        if "if-match" in req.headers or "x-goog-if-generation-match" in req.headers:
            check_write(bucket.blobs.get(req.key), req.headers)
        if not self.store.delete(bucket, req.key) and req.is_gcs:
            raise Fault(404, "NoSuchKey", req.key)
        return Answer(204)

    def bulk_delete(self, req: Request) -> Answer:
        """Answer DeleteObjects."""
        bucket = self.store.bucket(req.bucket)
        keys = re.findall(r"<Key>(.*?)</Key>", bytes(req.body).decode(), re.S)
        for key in keys:
            self.store.delete(bucket, html.unescape(key))
        done = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return xml(f"<DeleteResult {XMLNS}>{done}</DeleteResult>")

    def list_objects(self, req: Request) -> Answer:
        """Answer ListObjectsV2."""
        return list_objects(self.store.bucket(req.bucket), req)

    def on_bucket(self, req: Request) -> Answer:
        """Answer requests about buckets: create, list, head, location."""
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
