"""Objects of the lab: files of a folder, with entity tags, conditions and ranges."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import shutil
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REASONS: Final = {
    100: "Continue",
    200: "OK",
    204: "No Content",
    206: "Partial Content",
    304: "Not Modified",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    412: "Precondition Failed",
    416: "Range Not Satisfiable",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Slow Down",
    504: "Gateway Timeout",
}
ERROR_CODES: Final = {
    400: "InvalidRequest",
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    416: "InvalidRange",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
}
XML_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
XMLNS: Final = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


Content: TypeAlias = bytes | bytearray | memoryview
UploadedPart: TypeAlias = tuple[str, int, str]  # file, bytes, entity tag


class Fault(Exception):
    """Raised to answer a request with an error status."""

    def __init__(self, status: int, code: str | None = None, message: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code or ERROR_CODES.get(status, "Error")
        self.message = message


class StoredBlob:
    """Metadata of a stored object."""

    __slots__ = ("etag", "mtime", "size")

    def __init__(self, size: int, etag: str, mtime: float) -> None:
        self.size, self.etag, self.mtime = size, etag, mtime

    @property
    def generation(self) -> int:
        """Generation of the object in the GCS dialect; a write changes it."""
        return int(self.etag.strip('"').rsplit("-", 1)[-1], 16)


class Bucket:
    """Objects of a bucket, which is a folder, with their sorted keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs: dict[str, StoredBlob] = {}
        self.keys: list[str] = []

    def scan(self, tag: Callable[[], str]) -> None:
        """Read the folder; each file gets a new entity tag."""
        self.blobs.clear()
        base = str(self.folder)
        for where, _, names in os.walk(base):
            for name in names:
                path = os.path.join(where, name)
                st = os.stat(path)
                key = os.path.relpath(path, base).replace(os.sep, "/")
                self.blobs[key] = StoredBlob(st.st_size, tag(), st.st_mtime)
        self.keys = sorted(self.blobs)

    def put(self, key: str, blob: StoredBlob) -> None:
        """Add or replace an object."""
        if key not in self.blobs:
            bisect.insort(self.keys, key)
        self.blobs[key] = blob

    def drop(self, key: str) -> None:
        """Remove an object, if it exists."""
        if self.blobs.pop(key, None) is not None:
            at = bisect.bisect_left(self.keys, key)
            del self.keys[at]


class ObjectStore:
    """Buckets as the top-level folders of a root folder.

    An object is a file: unlike in S3, no key can be both an object and the folder of another.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.temp = root / ".uploads"
        shutil.rmtree(self.temp, ignore_errors=True)
        self.temp.mkdir()
        self._tags = itertools.count(1)
        self._run = f"{time.time_ns():x}"
        self.buckets: dict[str, Bucket] = {}
        self.uploads: dict[str, dict[int, UploadedPart]] = {}
        self.fds: OrderedDict[str, int] = OrderedDict()
        self.rescan()

    def tag(self) -> str:
        """Return a new entity tag, quoted."""
        return f'"{self._run}-{next(self._tags):x}"'

    def rescan(self) -> None:
        """Read all buckets again."""
        self.close()
        self.buckets.clear()
        for entry in sorted(self.root.iterdir()):
            if entry.is_dir() and not entry.name.startswith("."):
                bucket = self.buckets[entry.name] = Bucket(entry)
                bucket.scan(self.tag)

    def close(self) -> None:
        """Close all open files."""
        while self.fds:
            os.close(self.fds.popitem()[1])

    def bucket(self, name: str) -> Bucket:
        """Return a bucket.

        Raises:
            Fault: the bucket does not exist.
        """
        try:
            return self.buckets[name]
        except KeyError:
            raise Fault(404, "NoSuchBucket", name) from None

    def blob(self, bucket: Bucket, key: str) -> StoredBlob:
        """Return the metadata of an object.

        Raises:
            Fault: the object does not exist.
        """
        try:
            return bucket.blobs[key]
        except KeyError:
            raise Fault(404, "NoSuchKey", key) from None

    def path(self, bucket: Bucket, key: str) -> str:
        """Return the path of an object's file.

        Raises:
            Fault: the key is empty, or leaves the bucket's folder.
        """
        if ".." in key.split("/") or not key:
            raise Fault(400, "InvalidRequest", key)
        return f"{bucket.folder}/{key}"

    def fd(self, path: str) -> int:
        """Return the descriptor of a file; the store keeps the last 512 files open."""
        fd = self.fds.get(path)
        if fd is not None:
            self.fds.move_to_end(path)
            return fd
        fd = self.fds[path] = os.open(path, os.O_RDONLY)
        if len(self.fds) > 512:
            os.close(self.fds.popitem(last=False)[1])
        return fd

    def forget(self, path: str) -> None:
        """Close the open file at a path, because the file changes."""
        fd = self.fds.pop(path, None)
        if fd is not None:
            os.close(fd)

    def install(self, bucket: Bucket, key: str, temp: str, size: int) -> StoredBlob:
        """Move a written file to the object's path, atomically."""
        path = self.path(bucket, key)
        self.forget(path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.replace(temp, path)
        except OSError:
            os.unlink(temp)
            raise
        blob = StoredBlob(size, self.tag(), time.time())
        bucket.put(key, blob)
        return blob

    def write(self, bucket: Bucket, key: str, data: Content) -> StoredBlob:
        """Create or replace an object."""
        self.path(bucket, key)  # raises for a bad key before anything is written
        temp = f"{self.temp}/{next(self._tags):x}"
        with open(temp, "wb", buffering=0) as out:
            view = memoryview(data)
            while view:
                view = view[out.write(view) :]
        return self.install(bucket, key, temp, len(data))

    def delete(self, bucket: Bucket, key: str) -> bool:
        """Delete an object and its folders that are now empty; return False if it did not exist."""
        if key not in bucket.blobs:
            return False
        path = self.path(bucket, key)
        self.forget(path)
        bucket.drop(key)
        with contextlib.suppress(OSError):
            os.unlink(path)
            while (path := os.path.dirname(path)) != str(bucket.folder):
                os.rmdir(path)
        return True


def etags(value: str) -> list[str]:
    """Split the entity tags of a condition."""
    return [part.strip() for part in value.split(",")]


def check_write(blob: StoredBlob | None, headers: dict[str, str]) -> None:
    """Check If-None-Match, If-Match and the generation of GCS on a write.

    Args:
        blob: the current object; None if it does not exist.

    Raises:
        Fault: a condition does not hold.
        ValueError: the generation is not a number.
    """
    generation = headers.get("x-goog-if-generation-match")
    if generation is not None and int(generation) != (0 if blob is None else blob.generation):
        raise Fault(412, message="generation")
    none = headers.get("if-none-match")
    if none is not None and blob is not None and (none.strip() == "*" or blob.etag in etags(none)):
        raise Fault(412, message="At least one of the pre-conditions you specified did not hold")
    match = headers.get("if-match")
    if match is not None:
        if blob is None:
            raise Fault(404, "NoSuchKey")
        if match.strip() != "*" and blob.etag not in etags(match):
            raise Fault(
                412, message="At least one of the pre-conditions you specified did not hold"
            )


def check_read(blob: StoredBlob, headers: dict[str, str]) -> None:
    """Check If-Match and If-None-Match on a read.

    Raises:
        Fault: a condition does not hold.
    """
    match = headers.get("if-match")
    if match is not None and match.strip() != "*" and blob.etag not in etags(match):
        raise Fault(412, message="If-Match")
    none = headers.get("if-none-match")
    if none is not None and (none.strip() == "*" or blob.etag in etags(none)):
        raise Fault(304)


def parse_range(value: str, size: int) -> tuple[int, int] | None:
    """Parse `bytes=a-b`, `bytes=a-` or `bytes=-n` as a half-open range of an object.

    Returns None if the header is not a single simple range.

    Raises:
        Fault: the range is outside the object.
    """
    if not value.startswith("bytes=") or "," in value:
        return None
    first, _, last = value[6:].partition("-")
    try:
        if not first:
            want = int(last)
            if want == 0 or size == 0:
                raise Fault(416)
            return max(0, size - want), size
        start = int(first)
        stop = int(last) + 1 if last else size
    except ValueError:
        return None
    if start >= size:
        raise Fault(416)
    return (start, min(stop, size)) if stop > start else None
