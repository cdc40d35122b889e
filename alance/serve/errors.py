"""Errors as statuses of HTTP."""

from __future__ import annotations

import alance

STATUSES = {  # the first that fits
    alance.BucketNotFoundError: 500,
    alance.NotFoundError: 404,
    alance.InvalidInputError: 400,
    alance.UnsupportedError: 501,
    alance.AlreadyExistsError: 409,
    alance.CommitConflictError: 409,
    alance.CommitStateUnknownError: 500,  # unlike 504: no proxy or client retries it by itself
    alance.AccessError: 500,
}

# Members of an error about rows of which nobody knows whether they were added.
UNKNOWN_OUTCOME = {
    "outcome": "unknown",
    "find_out": "send the same rows with the same Idempotency-Key: they are added unless a "
    "version has them already, and `new` is true if they were added now",
}


def status_of(error: alance.AlanceError) -> int:
    """The status that tells a caller what to do about an error; the table is in docs/service.md.

    A store's error is 503 where it may help to try again, else 502; what is nobody's fault but
    the service's or its files' is 500.
    """
    if isinstance(error, alance.StoreError) and not isinstance(error, alance.AccessError):
        return 503 if error.retryable else 502
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)
