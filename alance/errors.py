"""The exception tree: grouped by what the caller would do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


class AlanceError(Exception):
    """Anything that alance raises on purpose."""


class NotFoundError(AlanceError, FileNotFoundError):
    """No such dataset, version, tag, branch, fragment or object."""


class RowNotFoundError(NotFoundError):
    """No such row.

    Attributes:
        keys: of the rows that are not there: keys, row ids or addresses.
    """

    def __init__(self, message: str = "", keys: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.keys = keys


class InvalidInputError(AlanceError, ValueError):
    """The caller's argument is wrong."""


class CorruptFileError(AlanceError):
    """Bytes contradict the format."""


class UnsupportedError(AlanceError, NotImplementedError):
    """Valid, but not read or written here."""


class StoreError(AlanceError, OSError):
    """The store failed: network, permission, or a server's error that outlived the retries.

    Attributes:
        retryable: the same call may succeed later (5xx, 429, resets, timeouts).
        status: status of the HTTP answer, where there was one.
    """

    def __init__(
        self, message: str = "", *, retryable: bool = False, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status


class AccessError(StoreError, PermissionError):
    """The store refused the credentials, or none were given for a place that a table names."""


class ForkedError(AlanceError, RuntimeError):
    """The process was forked after the store's runtime had started; use spawn or forkserver."""


class AlreadyExistsError(AlanceError, FileExistsError):
    """An object that was to be created is there already."""


class CommitConflictError(AlanceError):
    """A newer version rules this commit out."""


class RetryableConflictError(CommitConflictError):
    """Run the whole operation again on the newer version."""


class CommitStateUnknownError(AlanceError):
    """Whether the commit landed could not be found out before the deadline."""


class _KernelErrors:
    """Translates what kernels raise: `with kernel_errors:` around their calls."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, OverflowError):
            raise UnsupportedError(f"{error}: read fewer rows at once") from error
        if isinstance(error, ValueError):
            raise CorruptFileError(str(error)) from error


kernel_errors = _KernelErrors()
