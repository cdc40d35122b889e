"""HTTP statuses for errors."""

from __future__ import annotations

import alance

STATUSES = {  # the first matching class decides
    alance.BucketNotFoundError: 500,
    alance.NotFoundError: 404,
    alance.InvalidInputError: 400,
    alance.UnsupportedError: 501,
    alance.AlreadyExistsError: 409,
    alance.CommitConflictError: 409,
    alance.CommitStateUnknownError: 500,  # not 504, which proxies and clients retry
    alance.AccessError: 500,
}

# Members of an error after which it is unknown whether the rows were added.
UNKNOWN_OUTCOME = {
    "outcome": "unknown",
    "find_out": "send the same rows with the same Idempotency-Key: they are added unless a "
    "version has them already, and `new` is true if they were added now",
}


def status_of(error: alance.AlanceError) -> int:
    """Return the HTTP status of an error; docs/service.md has the table.

    Errors of a store are 503 if a retry may succeed, else 502. Credentials that a store refuses, a
    missing bucket and damaged files are faults of the service: 500.
    """
    if isinstance(error, alance.StoreError) and not isinstance(error, alance.AccessError):
        return 503 if error.retryable else 502
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)
