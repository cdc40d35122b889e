"""What a store of objects gives, and its failures in alance's own terms.

A path is relative to the store: `/` between its segments, none at either end. Where a message or
a trace names an object, it gives its location: the store's root followed by the path.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from obstore import exceptions as obstore_errors

from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    BucketNotFoundError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    StoreError,
    UnsupportedError,
)
from alance.records import dataclass

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from alance import _kernels
    from alance.format.plans import Pieces
    from alance.io.disk.files import OpenFile
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.upload import Upload

Span: TypeAlias = tuple[int, int]  # start and stop of a range of bytes, half-open
Body: TypeAlias = bytes | bytearray | memoryview
Names: TypeAlias = list[str]  # `list` itself is a method of the stores
MAX_PUTS: Final = 64  # of objects that are put together

MAX_METADATA_BYTES: Final = (
    2 << 30
)  # the limit of protobuf; manifests have some 100 bytes a fragment


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """What a listing says of an object."""

    path: str  # inside the store
    num_bytes: int
    last_modified: datetime | None
    e_tag: str | None


class PieceSource(Protocol):
    """Objects whose bytes the kernel reads while it decodes them, in one thread."""

    def reading(self) -> AbstractContextManager[_kernels.Source]:
        """The kernel's source.

        Raises:
            CorruptFileError: an object ends before what was to be read of it.
            StoreError: the system refuses.
        """


class PieceReader(Protocol):
    """What reads pieces of a store's objects by one call; paths are inside of the store."""

    def pieces_now(self, asked: Sequence[Pieces]) -> Sequence[memoryview] | None:
        """A buffer for each, where they can be had without waiting; else None."""

    def get_pieces(self, pieces: Pieces) -> asyncio.Future[memoryview]:
        """Start reading pieces.

        Raises:
            CorruptFileError: (in the future) an object ends before a piece does.
        """

    def get_many(
        self, asked: Sequence[tuple[str, Sequence[Span]]]
    ) -> asyncio.Future[Sequence[Sequence[memoryview]]]:
        """Start reading ranges of several objects: buffers for each, as for `Store.get_ranges`."""

    def source(self, paths: Sequence[str]) -> PieceSource:
        """What brings bytes of objects to the kernel that decodes them; blocks. For one thread.

        Raises:
            NotFoundError, StoreError: an object cannot be opened.
        """


class Store(Protocol):
    """A store of objects. May be used from several event loops at once."""

    root: str  # unique in the process, ends in "/"
    profile: StoreProfile

    @property
    def pieces(self) -> PieceReader | None:
        """What reads pieces of objects; None: they are ranges like any others."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Start reading ranges of an object, each by a request of its own.

        The buffers come in the order of `ranges`, read-only. Cancelling the future drops the
        requests.

        Raises:
            CorruptFileError: (in the future) the object ends before a range does.
        """

    def read_now(self, path: str, ranges: Sequence[Span]) -> Sequence[memoryview] | None:
        """The ranges, where they can be had without waiting; else None."""

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """The last `num_bytes` (the whole object where it is smaller), and the object's size.

        Args:
            size: the object's size where it is known; saves a request on some stores.
        """

    def open_file(self, path: str) -> OpenFile | None:
        """The object's file, where it is one that is open and still there; else None."""

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """The whole object.

        Args:
            e_tag: as a listing told it.

        Raises:
            NotFoundError: there is no such object, or it has another tag.
        """

    async def size(self, path: str) -> int:
        """Bytes of the object."""

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> None:
        """Write a whole object at once: readers see all of it or nothing.

        A store whose answer got lost may report our own object as `AlreadyExistsError`, and S3
        reports a concurrent write so: read the object back to learn who won. A cancelled or
        failed call may have written or not.

        Raises:
            AlreadyExistsError: `if_absent`, and there is such an object.
        """

    async def put_in_order(
        self, objects: Sequence[tuple[str, Body]], *, if_absent: bool = False
    ) -> None:
        """Write objects, each once those before it are there for good.

        Args:
            if_absent: of the last one; the others replace what is there.

        Raises:
            AlreadyExistsError: there is the last one already; the others are written.
        """

    async def put_many(self, objects: Sequence[tuple[str, Body]]) -> None:
        """Write objects of which all or none will be used.

        As `put`, many at once. Where it fails or is cancelled some may be there: the caller
        deletes them all.
        """

    def open_upload(
        self, path: str, *, size_hint: int | None = None, durable: bool = True
    ) -> Upload:
        """Begin an object that is written piece by piece, whatever its size.

        One PUT at the end for small ones, else a multipart upload. Nothing is asked of the store
        before the first part is full.

        Args:
            path: of no object that is there yet.
            size_hint: about the bytes to come; beyond 80 GB, parts must be larger from the start.
            durable: local files are synced to the disk; clouds always keep what they took.
        """

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Paths of the folders directly under the folder `prefix`, and of the objects; sorted."""

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; those missing are no error."""

    async def copy(self, source: str, target: str) -> None:
        """Copy an object over `target`, whether there is one or not."""

    async def unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """What was begun under the folder `prefix` and has not got its name, at any depth.

        None on stores that show objects as a whole or not at all.
        """

    async def remove_folders(self, prefix: str) -> None:
        """Remove the folder `prefix` and those in it, as far as they are empty.

        Most stores have no folders, only names with `/` in them.
        """

    def uri_of(self, path: str) -> str | None:
        """What another process opens an object or folder by; None: no URI tells."""

    def lasting_name(self) -> str | None:
        """A name without secrets that is the same in every process, and of no other store.

        None: what is read from here is not worth a copy on disk.
        """

    def heeds_conditions(self) -> bool:
        """Whether `if_absent` is heeded for sure; else it has to be tried."""

    def list(self, prefix: str, *, start_after: str | None = None) -> AsyncIterator[ObjectMeta]:
        """Objects under the folder `prefix`, at any depth.

        Pages are fetched as they are needed: stopping after the first object costs one LIST.
        Sorted by path where the profile says `lists_in_order`. A missing folder is empty.

        Args:
            start_after: leave out objects whose path is not greater than this one.
        """


async def put_each(store: Store, objects: Sequence[tuple[str, Body]], *, if_absent: bool) -> None:
    """Write objects by a put each, as for `Store.put_in_order`."""
    *others, (path, body) = objects
    for other, content in others:
        await store.put(other, content)
    await store.put(path, body, if_absent=if_absent)


# A root has a number where a bucket was opened with several options.
_ROOT_NUMBER: Final = re.compile(r"^([^/]*//[^/]*)#\d+/")


def without_number(location: str) -> str:
    """A location, or a root, as a URI has it."""
    return _ROOT_NUMBER.sub(r"\1/", location)


def check_spans(where: str, ranges: Sequence[Span]) -> None:
    """Refuse ranges that no object can have."""
    for start, stop in ranges:
        if not 0 <= start <= stop:
            raise CorruptFileError(f"{where}: bytes {start} to {stop} are no range")


def check_tag(where: str, expected: str | None, actual: str | None) -> None:
    """Check that an object has the entity tag that a listing told; None: any will do.

    Raises:
        NotFoundError: it has another one.
    """
    # Some servers list tags without the quotes.
    if expected is not None and expected.strip('"') != (actual or "").strip('"'):
        raise NotFoundError(f"{where}: it is another object by now")


def short_read(where: str, span: Span, num_bytes: int) -> CorruptFileError:
    """The error of a read that met the object's end."""
    start, stop = span
    return CorruptFileError(
        f"{where}: wanted bytes {start} to {stop}, the object ends {stop - start - num_bytes} "
        f"bytes before"
    )


def check_whole(where: str, num_bytes: int) -> None:
    """Check the size of an object that is to be read whole, before anything is read.

    Raises:
        CorruptFileError: larger than any protobuf message, and so than any object of that kind.
    """
    if num_bytes > MAX_METADATA_BYTES:
        raise CorruptFileError(
            f"{where}: {num_bytes} bytes; no object of metadata has more than {MAX_METADATA_BYTES}"
        )


# obstore tells the status and the kind of a failure in the text of its errors only.
_STATUS: Final = re.compile(r"status code: (\d{3})")
_TRANSPORT: Final = re.compile(r"HttpError \{\s*kind: (\w+)")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
# What may hold a secret: the query of a URL (signatures, tokens) and its user information.
_QUERY: Final = re.compile(r"(\w+://[^\s?\"'<>]*)\?[^\s\"'<>,)]*")
_USER: Final = re.compile(r"(\w+://)[^\s/@\"'<>]+@")

_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound"})
_BUCKET: Final = re.compile(r"\w+://[^/#]*")
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_TRANSIENT_TRANSPORT: Final = frozenset({"Connect", "Request", "Timeout", "Interrupted"})
# Where a cloud's machines have credentials, which is asked last.
_METADATA: Final = re.compile(r"://(169\.254\.169\.254|metadata\.google\.internal|metadata)[:/]")
_HINTS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def _no_credentials(where: str) -> str:
    """What to do where neither options nor environment have credentials."""
    variables = _HINTS.get(where.partition("://")[0], "those of the cloud")
    profile = os.environ.get("AWS_PROFILE") if where.startswith("s3:") else None
    told = "" if profile is None else f"; the profile {profile!r} (AWS_PROFILE) has none"
    return (
        f"no credentials: none among the storage options, none in the environment ({variables}), "
        f"none of this machine; a bucket that is open to all needs skip_signature=true{told}"
    )


def translate(error: BaseException, where: str) -> Exception:
    """A failure of obstore or the operating system as an error of ours.

    The one place where failures are classified. The original becomes the cause, unless its text
    may hold a secret.

    Args:
        where: location of the object, for the message.
    """
    if isinstance(error, AlanceError):
        return error
    text = str(error)
    clean = _USER.sub(r"\1…@", _QUERY.sub(r"\1?…", text))
    summary = " ".join(clean.partition("\n\nDebug source:")[0].split())[:400]
    failure = _translated(error, where, text, summary)
    failure.__cause__ = error if clean == text else None
    return failure


@contextmanager
def system_errors(where: str) -> Iterator[None]:
    """Tell failures of the operating system as errors of ours; `where` is that of `translate`."""
    try:
        yield
    except OSError as error:
        failure = translate(error, where)
        raise failure from failure.__cause__


def _translated(error: BaseException, where: str, text: str, summary: str) -> AlanceError:
    status_match = _STATUS.search(text)
    status = int(status_match[1]) if status_match else None
    code = _CODE.search(text)
    if code is not None and code[1] in _NO_BUCKET:
        bucket = _BUCKET.match(where)
        return BucketNotFoundError(f"{where}: no such bucket", bucket[0] if bucket else where)
    if _METADATA.search(text) and status not in _TRANSIENT_STATUS:
        return AccessError(f"{where}: {_no_credentials(where)} ({summary})", status=status)
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return NotFoundError(f"{where}: no such object")
        case IsADirectoryError():
            return NotFoundError(f"{where}: is a folder, not an object")
        case obstore_errors.PermissionDeniedError() | obstore_errors.UnauthenticatedError():
            return AccessError(f"{where}: {summary}", status=status)
        case PermissionError():
            return AccessError(f"{where}: {error.strerror or summary}")
        # Azure may answer either to a conditional put.
        case obstore_errors.AlreadyExistsError() | obstore_errors.PreconditionError():
            return AlreadyExistsError(f"{where}: exists already")
        case FileExistsError():
            return AlreadyExistsError(f"{where}: exists already")
        case obstore_errors.NotSupportedError() | NotImplementedError():
            return UnsupportedError(f"{where}: the store cannot do this: {summary}")
        case obstore_errors.InvalidPathError() | ValueError():
            return InvalidInputError(f"{where}: {summary}")
        case OSError() if error.errno == errno.ENAMETOOLONG:
            return InvalidInputError(f"{where}: the name, or one of its parts, is too long")
        case TimeoutError():
            return StoreError(f"{where}: {summary}", retryable=True)
        case OSError() if error.errno is not None:  # without: what a writer of obstore says
            return StoreError(f"{where}: {error.strerror or summary}")
        case _ if status == 416 or "Wanted range starting at" in text:
            return CorruptFileError(f"{where}: a range starts beyond the object's end")
        case _ if status in (401, 403):
            return AccessError(f"{where}: {summary}", status=status)
    transport = _TRANSPORT.search(text)
    transient = status in _TRANSIENT_STATUS or (
        transport is not None and transport[1] in _TRANSIENT_TRANSPORT
    )
    kind = f" ({transport[1].lower()})" if transport else ""
    return StoreError(f"{where}: {summary}{kind}", retryable=transient, status=status)
