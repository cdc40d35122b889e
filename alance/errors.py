"""Exceptions, grouped by the reaction of a caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from types import TracebackType


class AlanceError(Exception):
    """Base class of all errors that alance raises on purpose."""


class NotFoundError(AlanceError, FileNotFoundError):
    """No such table, version, row, bucket, index, fragment or object."""


class TableNotFoundError(NotFoundError):
    """The table does not exist.

    Attributes:
        uri: the requested URI, without credentials.
    """

    def __init__(self, message: str = "", uri: str = "") -> None:
        super().__init__(message)
        self.uri = uri


class VersionNotFoundError(NotFoundError):
    """The table exists, but has no such version, tag or branch.

    Attributes:
        version: the requested number, name of a tag or branch, or time.
    """

    def __init__(self, message: str = "", version: int | str | datetime = "") -> None:
        super().__init__(message)
        self.version = version


class BucketNotFoundError(NotFoundError):
    """The store has no such bucket or container.

    Attributes:
        bucket: URI of the bucket, without credentials.
    """

    def __init__(self, message: str = "", bucket: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket


class RowNotFoundError(NotFoundError):
    """This version has no such row.

    Attributes:
        keys: keys, row ids or row addresses of the missing rows.
    """

    def __init__(self, message: str = "", keys: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.keys = keys


class InvalidInputError(AlanceError, ValueError):
    """The caller's argument is wrong."""


class ColumnNotFoundError(InvalidInputError):
    """The table has no such column, or a column no such field.

    Attributes:
        column: the requested name or path.
    """

    def __init__(self, message: str = "", column: str = "") -> None:
        super().__init__(message)
        self.column = column


class CorruptFileError(AlanceError):
    """The bytes of a file contradict the format."""


class UnsupportedError(AlanceError, NotImplementedError):
    """The input is valid, but alance does not support it."""


class MissingPackageError(UnsupportedError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class StoreError(AlanceError, OSError):
    """The store failed: network, permission, or a server error that remained after all retries.

    Attributes:
        retryable: True if the same call may succeed later (5xx, 429, resets, timeouts).
        status: status of the HTTP response; None if there was none.
    """

    def __init__(
        self, message: str = "", *, retryable: bool = False, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status


class AccessError(StoreError, PermissionError):
    """The store refused the credentials, or there are none for a place that a table names."""


class ForkedError(AlanceError, RuntimeError):
    """The process was forked, and the stores' client does not work in the child; use spawn."""


class AlreadyExistsError(AlanceError, FileExistsError):
    """An object that was to be created already exists."""


class CommitConflictError(AlanceError):
    """A newer version rules this commit out."""


class RetryableConflictError(CommitConflictError):
    """A newer version conflicts; run the whole operation again on that version."""


class CommitStateUnknownError(AlanceError):
    """The outcome of a commit is unknown, because the store did not answer before the deadline."""


class BatchTooLargeError(UnsupportedError):
    """Arrow cannot hold the rows in one batch, as for text of more than 2 GiB.

    Scans and takes catch it and make several batches. Callers see it if a single row is too large,
    or if they need all rows in one batch.
    """


class _KernelErrors:
    """Context manager that converts kernel errors to alance's: `with kernel_errors:`."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, OverflowError):
            raise BatchTooLargeError(f"{error}: read fewer rows at once") from error
        if isinstance(error, ValueError):
            raise CorruptFileError(str(error)) from error


kernel_errors = _KernelErrors()
