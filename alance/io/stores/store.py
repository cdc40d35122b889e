"""The protocol of a store of objects, and the translation of its failures to errors of alance.

A path is relative to the store, with `/` between its segments and none at either end. Messages and
traces name an object by its location: the store's root followed by the path.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from obstore import exceptions as obstore_errors

from alance.base.records import dataclass
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
from alance.io.stores.uri import kind_at

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from alance import _kernels
    from alance.format.plans import Pieces
    from alance.io.disk.files import OpenFile
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.upload import Upload

Span: TypeAlias = tuple[int, int]  # start and stop of a range of bytes, half-open
Body: TypeAlias = bytes | bytearray | memoryview
Names: TypeAlias = list[str]  # the stores have a method `list`, which hides the type
MAX_PUTS: Final = 64  # puts under way in `put_many`

# The limit of protobuf; manifests have some 100 bytes per fragment.
MAX_METADATA_BYTES: Final = 2 << 30


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """Metadata of an object in a listing."""

    path: str  # inside the store
    num_bytes: int
    last_modified: datetime | None
    e_tag: str | None


class PieceSource(Protocol):
    """Protocol of a source of bytes for a kernel that reads and decodes in one thread."""

    def reading(self) -> AbstractContextManager[_kernels.Source]:
        """Return a context manager for the source that the kernel reads from.

        Raises:
            CorruptFileError: an object ends before the end of a piece.
            StoreError: a read fails.
        """


class PieceReader(Protocol):
    """Protocol of a reader of pieces of many objects by one call; paths are inside the store."""

    def pieces_now(self, requests: Sequence[Pieces]) -> Sequence[memoryview] | None:
        """Return a buffer for each request; None if reading any of them would block."""

    def get_pieces(self, pieces: Pieces) -> asyncio.Future[memoryview]:
        """Start reading pieces.

        Raises:
            CorruptFileError: from the returned future: an object ends before the end of a piece.
        """

    def get_many(
        self, requests: Sequence[tuple[str, Sequence[Span]]]
    ) -> asyncio.Future[Sequence[Sequence[memoryview]]]:
        """Start reading ranges of several objects; each gets buffers as from `Store.get_ranges`."""

    def source(self, paths: Sequence[str]) -> PieceSource:
        """Return a source of the objects' bytes for a kernel, for one thread. Blocks.

        Raises:
            NotFoundError, StoreError: an object cannot be opened.
        """


class Store(Protocol):
    """Protocol of a store of objects. Safe to use from several event loops."""

    root: str  # unique in the process, ends in "/"
    profile: StoreProfile

    @property
    def pieces(self) -> PieceReader | None:
        """Reader of pieces; None if pieces are read as ordinary ranges."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Start reading ranges of an object, without merging them.

        The buffers come in the order of `ranges`, read-only. Cancelling the future drops the
        requests.

        Raises:
            CorruptFileError: from the returned future: the object ends before the end of a range.
        """

    def read_now(self, path: str, ranges: Sequence[Span]) -> Sequence[memoryview] | None:
        """Return buffers of the ranges; None if reading them would block."""

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """Return the last `num_bytes`, or the whole of a smaller object; and the object's size.

        Args:
            size: the object's size, which saves a request on some stores; None if unknown.
        """

    def open_file(self, path: str) -> OpenFile | None:
        """Return the object's open file; None if it is not an open file, or was replaced."""

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """Return the whole object.

        Args:
            e_tag: the entity tag from a listing; None: any.

        Raises:
            NotFoundError: there is no such object, or it has another tag.
        """

    async def size(self, path: str) -> int:
        """Size of the object in bytes."""

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> str | None:
        """Write a whole object atomically: readers see all of it or nothing.

        If the answer to a successful put is lost, a retry may raise `AlreadyExistsError` because of
        our own object; S3 may also raise it for a concurrent write. Read the object back to learn
        which writer succeeded. A cancelled or failed call may have written the object.

        Returns:
            The entity tag that a listing would have; None if unknown.

        Raises:
            AlreadyExistsError: `if_absent` is set, and there is such an object.
        """

    async def put_in_order(
        self, objects: Sequence[tuple[str, Body]], *, if_absent: bool = False
    ) -> str | None:
        """Write objects in order, each after the previous one is durable.

        Args:
            if_absent: applies only to the last object; the others replace existing objects.

        Returns:
            The entity tag of the last object, as from `put`.

        Raises:
            AlreadyExistsError: the last object exists already; the others are written.
        """

    async def put_many(self, objects: Sequence[tuple[str, Body]]) -> None:
        """Write objects concurrently; the caller will use all of them or none.

        If the call fails or is cancelled, some objects may be written: the caller deletes them all.
        """

    def open_upload(
        self, path: str, *, size_hint: int | None = None, durable: bool = True
    ) -> Upload:
        """Begin an object that is written piece by piece and becomes visible as a whole.

        A small object is written by one PUT at the end, a larger one by a multipart upload. No
        request is sent before the first part is full.

        Args:
            path: a path at which no object exists yet.
            size_hint: approximate size in bytes; above 80 GB, parts must be larger from the start.
            durable: True to sync a local file to the disk; objects of clouds are always durable.
        """

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Return the sorted paths of the folders and of the objects directly under `prefix`.

        Both are empty for a missing folder.
        """

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; a missing object is no error."""

    async def copy(self, source: str, target: str) -> None:
        """Copy an object to `target`, replacing an existing object."""

    async def unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the unfinished objects under the folder `prefix`, at any depth.

        The result is empty for stores that never show an unfinished object.
        """

    async def remove_folders(self, prefix: str) -> None:
        """Remove the empty folders at and below `prefix`.

        Does nothing on stores without folders, whose names merely contain `/`.
        """

    def uri_of(self, path: str) -> str | None:
        """Return the URI of an object or folder for other processes; None if there is none."""

    def lasting_name(self) -> str | None:
        """Return a unique name of this store that is the same in every process and has no secrets.

        Returns None if bytes of this store are not worth a copy in the disk cache.
        """

    def heeds_conditions(self) -> bool:
        """Return True if `put` is known to obey `if_absent`; False if the store must be tested."""

    def list(self, prefix: str, *, start_after: str | None = None) -> AsyncIterator[ObjectMeta]:
        """Yield the objects under the folder `prefix`, at any depth.

        Pages are fetched as needed: stopping after the first object costs one LIST. The objects are
        sorted by path if the profile has `lists_in_order`. Yields nothing for a missing folder.

        Args:
            start_after: omit objects whose path is not greater than this.
        """


async def put_each(
    store: Store, objects: Sequence[tuple[str, Body]], *, if_absent: bool
) -> str | None:
    """Write each object by a put of its own, as `Store.put_in_order` does."""
    *others, (path, body) = objects
    for other, content in others:
        await store.put(other, content)
    return await store.put(path, body, if_absent=if_absent)


# A root has a number if a bucket was opened with several sets of options.
_ROOT_NUMBER: Final = re.compile(r"^([^/]*//[^/]*)#\d+/")


def without_number(location: str) -> str:
    """Remove the number of a root, alone or in a location: `s3://b#2/` becomes `s3://b/`."""
    return _ROOT_NUMBER.sub(r"\1/", location)


def check_spans(where: str, ranges: Sequence[Span]) -> None:
    """Raise CorruptFileError for ranges that are invalid for any object."""
    for start, stop in ranges:
        if not 0 <= start <= stop:
            raise CorruptFileError(f"{where}: bytes {start} to {stop} are no range")


def check_tag(where: str, expected: str | None, actual: str | None) -> None:
    """Check that an object has the entity tag from a listing; `expected=None` accepts any tag.

    Raises:
        NotFoundError: the object has another tag.
    """
    # Some servers list tags without the quotes.
    if expected is not None and expected.strip('"') != (actual or "").strip('"'):
        raise NotFoundError(f"{where}: it is another object by now")


def short_read(where: str, span: Span, num_bytes: int) -> CorruptFileError:
    """Return the error for a read of `span` that returned only `num_bytes`."""
    start, stop = span
    return CorruptFileError(
        f"{where}: wanted bytes {start} to {stop}, the object ends {stop - start - num_bytes} "
        f"bytes before"
    )


def check_whole(where: str, num_bytes: int) -> None:
    """Check the size of a metadata object before it is read whole.

    Raises:
        CorruptFileError: the object is larger than any protobuf message can be.
    """
    if num_bytes > MAX_METADATA_BYTES:
        raise CorruptFileError(
            f"{where}: {num_bytes} bytes; no object of metadata has more than {MAX_METADATA_BYTES}"
        )


# The text of obstore's errors is the only place with the status and the kind of a failure.
_STATUS: Final = re.compile(r"status code: (\d{3})")
_TRANSPORT: Final = re.compile(r"HttpError \{\s*kind: (\w+)")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
# The query of a URL (signatures, tokens) and its user information may contain a secret.
_QUERY: Final = re.compile(r"(\w+://[^\s?\"'<>]*)\?[^\s\"'<>,)]*")
_USER: Final = re.compile(r"(\w+://)[^\s/@\"'<>]+@")

_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound"})
_BUCKET: Final = re.compile(r"\w+://[^/#]*")
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_TRANSIENT_TRANSPORT: Final = frozenset({"Connect", "Request", "Timeout", "Interrupted"})
# Metadata servers of clouds, the last source of credentials that the client tries.
_METADATA: Final = re.compile(r"://(169\.254\.169\.254|metadata\.google\.internal|metadata)[:/]")
_STORE_HINTS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gcs": "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
    "azure": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


# Causes of errors of the Hub's file system.
_NO_REPOSITORY: Final = frozenset(
    {
        "DisabledRepoError",
        "GatedRepoError",
        "HFValidationError",
        "RepositoryNotFoundError",
        "RevisionNotFoundError",
    }
)
# Packages whose errors without a status are those of connections.
_CLIENTS: Final = frozenset({"aiohttp", "botocore", "httpcore", "httpx", "httpx2", "requests"})

# Message of obstore's client for http:// where only https:// is allowed.
_NOT_ENCRYPTED: Final = "source: BadScheme"


def _file_above(path: str) -> str:
    """Return the nearest parent of a path that is a file; the root folder if there is none."""
    while path != (above := os.path.dirname(path)) and not os.path.isfile(above):
        path = above
    return above


def _no_credentials(where: str) -> str:
    """Explain the missing credentials, with the variables and options that provide them."""
    kind = kind_at(where)
    variables = _STORE_HINTS.get(kind or "", "those of the cloud")
    profile = os.environ.get("AWS_PROFILE") if kind == "s3" else None
    hint = "" if profile is None else f"; the profile {profile!r} (AWS_PROFILE) has none"
    return (
        f"no credentials: none among the storage options, none in the environment ({variables}), "
        f"none of this machine; a bucket that is open to all needs skip_signature=true{hint}"
    )


def translate(error: BaseException, where: str) -> Exception:
    """Convert a failure of obstore or of the operating system to an error of alance.

    Failures are classified here alone. The original becomes the cause, unless its text may hold a
    secret. An error of alance is returned as it is.

    Args:
        where: location of the object, for the message.
    """
    if isinstance(error, AlanceError):
        return error
    text = str(error)
    clean = _USER.sub(r"\1…@", _QUERY.sub(r"\1?…", text))
    summary = " ".join(clean.partition("\n\nDebug source:")[0].split())[:400]
    if not summary or isinstance(error, LookupError):
        summary = f"{type(error).__name__} {summary}".rstrip()
    failure = _translated(error, where, text, summary)
    failure.__cause__ = error if clean == text else None
    return failure


class SystemErrors:
    """Context manager that converts failures of the operating system to errors of alance.

    Args:
        where: as for `translate`.
    """

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            failure = translate(error, self._where)
            raise failure from failure.__cause__


def _translated(error: BaseException, where: str, text: str, summary: str) -> AlanceError:
    status_match = _STATUS.search(text)
    status = int(status_match[1]) if status_match else _status_of(error)
    code = _CODE.search(text)
    if code is not None and code[1] in _NO_BUCKET:
        bucket = _BUCKET.match(where)
        return BucketNotFoundError(f"{where}: no such bucket", bucket[0] if bucket else where)
    if _NOT_ENCRYPTED in text:
        return InvalidInputError(
            f"{where}: the endpoint is http://, which is not encrypted; allow it by the storage "
            "option allow_http=true"
        )
    if _METADATA.search(text) and status not in _TRANSIENT_STATUS:
        return AccessError(f"{where}: {_no_credentials(where)} ({summary})", status=status)
    if is_of_repository(error):
        return _no_repository(error, where)
    if status is None and _is_of_client(error):
        return StoreError(f"{where}: {summary}", retryable=True)
    if (failure := _by_type(error, where, summary, status)) is not None:
        return failure
    if status == 416 or "Wanted range starting at" in text:
        return CorruptFileError(f"{where}: a range starts beyond the object's end")
    if status in (404, 410):
        return NotFoundError(f"{where}: no such object")
    if status in (401, 403):
        return AccessError(f"{where}: {summary}", status=status)
    transport = _TRANSPORT.search(text)
    transient = status in _TRANSIENT_STATUS or (
        transport is not None and transport[1] in _TRANSIENT_TRANSPORT
    )
    kind = f" ({transport[1].lower()})" if transport else ""
    return StoreError(f"{where}: {summary}{kind}", retryable=transient, status=status)


def is_of_repository(error: BaseException) -> bool:
    """Return True if an error is about a repository of the Hub, not about a file in it."""
    return bool(_repository_error(error))


def _repository_error(error: BaseException) -> str:
    """Return the name of the Hub's error, which may be a cause; empty if there is none."""
    names = (type(error).__name__, type(error.__cause__).__name__)
    return next((name for name in names if name in _NO_REPOSITORY), "")


def _no_repository(error: BaseException, where: str) -> AlanceError:
    repository = "/".join(where.split("/")[:5])  # hf://datasets/OWNER/NAME
    match _repository_error(error):
        case "HFValidationError":
            return InvalidInputError(f"{where}: no repository of the Hub has such a name")
        case "RevisionNotFoundError":
            return BucketNotFoundError(f"{where}: no such revision", repository)
        case "RepositoryNotFoundError":
            return BucketNotFoundError(
                f"{where}: no such repository, or a private one, which needs a token: "
                f"storage_options={{'token': ...}} or HF_TOKEN",
                repository,
            )
    return AccessError(
        f"{where}: the repository is gated or disabled; ask its owner for access, and pass your "
        f"token: storage_options={{'token': ...}} or HF_TOKEN",
        status=403,
    )


def _is_of_client(error: BaseException) -> bool:
    """Return True if an error of a Python client is about a connection: it has no status."""
    package = type(error).__module__.partition(".")[0]
    return isinstance(error, ConnectionError) or (
        package in _CLIENTS and not isinstance(error, ValueError | FileNotFoundError)
    )


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error of another client; None if it has none.

    It is in `status` (aiohttp), `code` (gcsfs) or the response (requests, httpx).
    """
    response = getattr(error, "response", None)
    for holder, name in ((error, "status"), (error, "code"), (response, "status_code")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and 400 <= status < 600:
            return status
    return None


def _by_type(
    error: BaseException, where: str, summary: str, status: int | None
) -> AlanceError | None:
    """Translate an error whose type tells the failure. Returns None for errors of other types."""
    match error:
        case FileNotFoundError():
            return NotFoundError(f"{where}: no such object")
        case NotADirectoryError():
            above = _file_above(str(error.filename or ""))
            return NotFoundError(f"{where}: {above!r} is a file, where a folder is needed")
        case IsADirectoryError():
            return NotFoundError(f"{where}: is a folder, not an object")
        case obstore_errors.PermissionDeniedError() | obstore_errors.UnauthenticatedError():
            return AccessError(f"{where}: {summary}", status=status)
        case PermissionError():
            return AccessError(f"{where}: {error.strerror or summary}")
        # Azure may answer with either status to a conditional put.
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
        case OSError() if error.errno is not None:  # an OSError of obstore's writer has no errno
            return StoreError(f"{where}: {error.strerror or summary}")
    return None
