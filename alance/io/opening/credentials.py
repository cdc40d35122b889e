"""Credentials that expire, renewed by a provider.

A provider is passed as the storage option `credentials`, or instead of all options. obstore gets
the credentials from the store's `Renewed` object. This calls the provider once for all tasks,
threads and event loops, and for all stores that share the provider. Renewal begins before the old
credentials expire. If it fails, the old credentials are used as long as they are valid.

Values and errors of a provider never appear in a message, log or pickle.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard
from weakref import WeakValueDictionary

from alance.errors import InvalidInputError
from alance.io.loop import lifecycle
from alance.io.loop.futures import seen
from alance.io.stores.s3_clouds import S3_CLOUDS

if TYPE_CHECKING:
    from alance.io.stores.profile import Kind

CREDENTIALS: Final = "credentials"  # name of the storage option
# Renewal begins this long before the expiry, but at most a quarter of the lifetime before it.
RENEW_BEFORE_S: Final = 300.0
PROVIDER_ANSWER_S: Final = 60.0  # time limit of a provider
PROVIDER_RETRY_S: Final = 10.0  # seconds after a failure, while the last answer is valid

Answer: TypeAlias = Mapping[str, Any]
_log: Final = logging.getLogger("alance.io")


class OptionsProvider(Protocol):
    """Protocol of a provider of options, with the method of Lance's providers."""

    def fetch_storage_options(self) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]: ...


Provider: TypeAlias = Callable[[], Answer | Awaitable[Answer]] | OptionsProvider
StorageOptions: TypeAlias = Mapping[str, Any] | Provider

# By kind of store: obstore's names for the options that form credentials. Of several alternatives,
# the first complete one is used; only `session_token` may be missing.
_S3_PARTS: Final = (
    {
        "access_key_id": "access_key_id",
        "secret_access_key": "secret_access_key",
        "session_token": "token",
    },
)
_CREDENTIAL_PARTS: Final[Mapping[str, tuple[Mapping[str, str], ...]]] = {
    **dict.fromkeys(("s3", *S3_CLOUDS), _S3_PARTS),
    "gcs": ({"bearer_token": "token"},),
    "azure": ({"sas_key": "sas_token"}, {"account_key": "access_key"}, {"token": "token"}),
}
_EXPIRY: Final = ("expires_at", "expires_at_millis")


def as_mapping(options: StorageOptions | None) -> Mapping[str, Any] | None:
    """Return storage options as a mapping; a provider becomes the option `credentials`.

    Returns None for None.

    Raises:
        InvalidInputError: a text or list instead of a mapping or provider.
    """
    if options is None or isinstance(options, Mapping):
        return options
    if isinstance(options, str | list | tuple):
        raise InvalidInputError(
            f"storage_options: got {type(options).__name__}, expected a mapping, such as "
            "{'region': 'us-east-1'}, or a provider: a function without arguments, or an object "
            "with fetch_storage_options()"
        )
    return {CREDENTIALS: options}


def is_provider(value: object) -> TypeGuard[Provider]:
    """Return True if a value is a function or has `fetch_storage_options`."""
    return callable(value) or hasattr(value, "fetch_storage_options")


def goes_by_name(provider: object) -> bool:
    """Return True if a provider can be pickled by name, such as a function of a module."""
    place: object = sys.modules.get(getattr(provider, "__module__", None) or "")
    for name in getattr(provider, "__qualname__", "?").split("."):
        place = getattr(place, name, None)
    return place is provider


class ProviderError(Exception):
    """Failure of a provider, raised to obstore. Its text never quotes another error."""


class Renewed:
    """Renewed credentials of a provider for one kind of store. Safe in all threads and loops."""

    _shared: Final[WeakValueDictionary[tuple[str, object], Renewed]] = WeakValueDictionary()

    def __init__(self, kind: Kind, provider: Provider) -> None:
        self._kind = kind
        self._provider = provider
        self._lock = threading.Lock()
        self._last: dict[str, Any] | None = None
        self._fresh_until = self._good_until = 0.0  # Unix time
        self._under_way: concurrent.futures.Future[None] | None = None
        self._call: concurrent.futures.Future[object] | None = None  # of a blocking function
        self._tasks: set[asyncio.Task[None]] = set()
        lifecycle.on_fork(self)

    @classmethod
    def of(cls, kind: Kind, provider: object) -> Renewed:
        """Return the credentials of a provider: the same object while any store uses it.

        Raises:
            InvalidInputError: the value is not a provider, or the kind of store has no credentials
                that expire.
        """
        if not is_provider(provider):
            raise InvalidInputError(
                f"storage option {CREDENTIALS!r}: expected a function without arguments, or an "
                f"object with fetch_storage_options(), found {type(provider).__name__}"
            )
        if kind not in _CREDENTIAL_PARTS:
            raise InvalidInputError(
                f"storage option {CREDENTIALS!r}: {kind} stores have no credentials that expire; "
                f"give {'token' if kind == 'hf' else 'default_headers'}"
            )
        try:
            key: tuple[str, object] = kind, provider
            hash(key)
        except TypeError:  # the id is unique, because the cached value references the provider
            key = kind, id(provider)
        renewed = cls._shared.get(key)
        if renewed is None:
            renewed = cls._shared[key] = cls(kind, provider)
        return renewed

    def after_fork(self) -> None:
        """Replace the lock, and forget calls under way, whose threads exist only in the parent."""
        self._lock = threading.Lock()
        self._under_way = self._call = None

    async def __call__(self) -> dict[str, Any]:
        """Return credentials in obstore's form, renewed if they are due.

        Raises:
            ProviderError: the provider failed, and there are no valid old credentials.
        """
        while (good := self._good(fresh=True)) is None:
            under_way = self._ask()
            answered = asyncio.wrap_future(under_way)
            answered.add_done_callback(seen)
            try:
                async with asyncio.timeout(PROVIDER_ANSWER_S):
                    await asyncio.shield(answered)
            except TimeoutError:
                self._forget(under_way)
                raise _no_answer() from None
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not under_way.cancelled() or task is None or task.cancelling():
                    raise  # this caller was cancelled; else the loop of the call has ended
            except ProviderError:
                if (good := self._good(fresh=False)) is None:
                    raise
                return good
        return good

    def _good(self, *, fresh: bool) -> dict[str, Any] | None:
        now = time.time()
        with self._lock:
            until = self._fresh_until if fresh else self._good_until
            if self._last is None or now >= until:
                return None
            # obstore calls again at the time in `expires_at`.
            until = self._fresh_until if fresh else min(now + PROVIDER_RETRY_S, self._good_until)
            expiry = None if until == float("inf") else datetime.fromtimestamp(until, UTC)
            return {**self._last, "expires_at": expiry}

    def _ask(self) -> concurrent.futures.Future[None]:
        """Return the renewal under way; begin one if there is none."""
        with self._lock:
            if self._under_way is not None:
                return self._under_way
            under_way = self._under_way = concurrent.futures.Future()
        # A separate task: the caller may be cancelled while others wait for it.
        task = asyncio.get_running_loop().create_task(self._fetch(under_way))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return under_way

    def _forget(self, under_way: concurrent.futures.Future[None]) -> None:
        with self._lock:
            if self._under_way is under_way:
                self._under_way = None

    async def _fetch(self, under_way: concurrent.futures.Future[None]) -> None:
        error: ProviderError | None = None
        limit = asyncio.timeout(PROVIDER_ANSWER_S)
        try:
            async with limit:
                answer = await self._answer()
            self._take(answer)
        except ProviderError as failure:
            error = failure
        except (Exception, SystemExit) as failure:  # its text may hold a secret
            raised = ProviderError(f"it raised {type(failure).__name__}")
            error = _no_answer() if limit.expired() else raised
        except BaseException:
            self._forget(under_way)
            under_way.cancel()
            raise
        self._forget(under_way)
        if error is None:
            under_way.set_result(None)
            return
        _log.warning("the provider of credentials of %s stores failed: %s", self._kind, error)
        under_way.set_exception(error)

    async def _answer(self) -> object:
        provider: Any = self._provider
        ask = getattr(provider, "fetch_storage_options", provider)
        waits = inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(
            getattr(ask, "__call__", None)  # noqa: B004  # an object whose call is async
        )
        if waits:
            answer: object = ask()
        else:
            called = asyncio.wrap_future(self._called(ask))
            called.add_done_callback(seen)
            try:
                answer = await asyncio.shield(called)
            finally:
                if called.done():
                    self._call = None
        return await answer if inspect.isawaitable(answer) else answer

    def _called(self, ask: Callable[[], object]) -> concurrent.futures.Future[object]:
        """Call a function in a thread, because it may block, or join the call under way.

        The thread is a separate daemon: a call that never returns blocks no pool, and does not keep
        the program from ending.
        """
        with self._lock:
            if self._call is None:
                call = self._call = concurrent.futures.Future()
                run = contextvars.copy_context().run
                name = "alance-credentials"
                threading.Thread(target=run, args=(_run, call, ask), name=name, daemon=True).start()
            return self._call

    def _take(self, answer: object) -> None:
        """Check and store the answer of a provider.

        Raises:
            ProviderError: the answer is malformed or has expired.
        """
        if not isinstance(answer, Mapping):
            raise ProviderError(f"it gave {type(answer).__name__}; expected a mapping")
        credential = _credential(self._kind, answer)
        now, expiry = time.time(), _expiry(answer)
        if expiry <= now:
            raise ProviderError("its credentials had expired already")
        with self._lock:
            self._last = credential
            self._good_until = expiry
            self._fresh_until = expiry - min(RENEW_BEFORE_S, (expiry - now) / 4)


def _credential(kind: Kind, answer: Answer) -> dict[str, Any]:
    """Convert the answer of a provider to credentials in obstore's form.

    Raises:
        ProviderError: the answer is malformed.
    """
    from alance.io.opening.options import NOT_HEADER_TEXT, canonical, is_header_text

    parameters = {
        canonical(kind, str(key)): value
        for key, value in answer.items()
        if key not in _EXPIRY and value is not None
    }
    for parts in _CREDENTIAL_PARTS[kind]:
        needed = [name for name in parts if name != "session_token"]
        if all(name in parameters for name in needed):
            break
    else:
        choices = " or ".join(", ".join(parts) for parts in _CREDENTIAL_PARTS[kind])
        raise ProviderError(f"it did not give {choices}")
    if other := sorted(set(parameters) - set(parts)):
        raise ProviderError(
            f"it gave {', '.join(other)} besides {', '.join(parts)}: pass options that do not "
            f"expire as storage options"
        )
    for name, value in parameters.items():
        if not isinstance(value, str):
            raise ProviderError(f"{name} is a {type(value).__name__}: expected a text")
        if not is_header_text(value):
            raise ProviderError(f"{name} {NOT_HEADER_TEXT}")
    credential = {parts[name]: value for name, value in parameters.items()}
    if "access_key_id" in credential:
        credential.setdefault("token", None)
    return credential


def _run(call: concurrent.futures.Future[object], ask: Callable[[], object]) -> None:
    call.set_running_or_notify_cancel()  # from now on it cannot be cancelled
    try:
        answer = ask()
    except BaseException as error:
        call.set_exception(error)
    else:
        call.set_result(answer)


def _no_answer() -> ProviderError:
    return ProviderError(f"it gave no answer within {PROVIDER_ANSWER_S:.0f} s")


def _expiry(answer: Answer) -> float:
    """Unix time at which an answer expires; infinite if it never does."""
    millis, moment = answer.get("expires_at_millis"), answer.get("expires_at")
    if millis is not None:
        try:
            return float(millis) / 1000
        except (TypeError, ValueError):
            moment = millis
    if moment is None:
        return float("inf")
    if not isinstance(moment, datetime):
        raise ProviderError(
            f"expires_at is a {type(moment).__name__}: expected a datetime, or expires_at_millis"
        )
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def apart(kind: Kind, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into constant ones, and credentials with their expiry.

    For sources that return both together, as catalogs do.
    """
    from alance.io.opening.options import canonical

    names = {name for parts in _CREDENTIAL_PARTS.get(kind, ()) for name in parts}
    expiring = {
        key: value
        for key, value in options.items()
        if key in _EXPIRY or canonical(kind, key) in names
    }
    return {key: value for key, value in options.items() if key not in expiring}, expiring
