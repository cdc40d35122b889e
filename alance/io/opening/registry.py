"""The stores of this process: one for each place and set of options.

A location is the root of a store and the path inside it; whoever has a location finds the store
here. The same bucket with other options is another store with a root of its own (`s3://bucket#2/`).

A registry is a session's. Sessions share what is open with the same options and limits, and a store
goes with the last that uses it: a registry keeps what was opened lately, each table its own.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from weakref import WeakSet, WeakValueDictionary

from obstore import exceptions as obstore_errors
from obstore import store as obstore_stores

from alance.errors import InvalidInputError
from alance.io.cloud.endpoints import check_endpoint, endpoint_of
from alance.io.cloud.remote import RemoteStore
from alance.io.cloud.resilience import Retries
from alance.io.disk.local import LocalStore
from alance.io.loop import forked, lifecycle
from alance.io.loop.limits import TimeLimits, seconds_of
from alance.io.opening.aws_profile import with_profile
from alance.io.opening.credentials import as_mapping
from alance.io.opening.options import StoreOptions, parse_options, with_environment
from alance.io.stores import profile
from alance.io.stores.memory import MemoryStore
from alance.io.stores.store import translate
from alance.io.stores.uri import Address, clean_path, join, parse_uri

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from alance.io.cloud.remote import ObjectStore
    from alance.io.opening.credentials import StorageOptions
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.store import PieceReader, Store

    Config: TypeAlias = dict[str, object]

# obstore's own retries: short, so that throttling is seen soon; they resume broken bodies.
INNER_RETRIES: Final = 3
INNER_RETRY_S: Final = 60.0
FIRST_PAUSE: Final = timedelta(milliseconds=50)
MAX_PAUSE: Final = timedelta(seconds=2)
# Writes: a part is tried again by obstore alone, and a slow line may take a minute for it.
WRITE_RETRIES: Final = 6
WRITE_RETRY_S: Final = 180.0

# What a session keeps open for tables that it may open again; connections are most of its cost.
MAX_OPEN_STORES: Final = 32
STORE_IDLE_S: Final = 600.0

_NUMBERED: Final = re.compile(r"(.*?)(?:#(\d+))?/")  # a root: without its number, its number


class _Open:
    """The stores that are open in a process. Holds none but those that cannot be opened again."""

    _process: _Open | None = None

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users: WeakSet[StoreRegistry] = WeakSet()
        self._lasting: dict[str, Store] = {}  # local files, and memory, which is its own content
        self._passing: WeakValueDictionary[str, Store] = WeakValueDictionary()  # by root
        self._alike: WeakValueDictionary[object, Store] = WeakValueDictionary()
        lifecycle.on_fork(self)

    @classmethod
    def of_process(cls) -> _Open:
        if cls._process is None:
            cls._process = cls()
        return cls._process

    def after_fork(self) -> None:
        """Make the lock anew: another thread may have held it."""
        self.lock = threading.Lock()

    def get(self, root: str) -> Store | None:
        """The store with a root."""
        return self._lasting.get(root) or self._passing.get(root)

    def shared(self, key: object, make: Callable[[], Store]) -> Store:
        """The store that was made for a key, as long as it is used; else a new one."""
        store = self._alike.get(key)
        if store is None:
            store = self._alike[key] = self.add(make())
        return store

    def add(self, store: Store) -> Store:
        """Let a store be found by its root."""
        lasts = isinstance(store, LocalStore | MemoryStore)
        (self._lasting if lasts else self._passing)[store.root] = store
        return store

    def around(self, objects: object, limits: TimeLimits) -> Store | None:
        """The store of a store object that a user gave before."""
        for store in list(self._passing.values()):
            if isinstance(store, RemoteStore) and store.is_given and store.limits == limits:
                is_same = store.objects is objects
                if is_same or (type(store.objects) is type(objects) and store.objects == objects):
                    return store
        return None

    def free_root(self, root: str) -> str:
        """The root, or with a number where another store has it or a session may remember it."""
        plain, _ = _taken_apart(root)
        numbers = [user.numbers.get(plain, 0) for user in self.users]
        numbers += [
            number
            for other, number in map(_taken_apart, [*self._lasting, *self._passing])
            if other == plain
        ]
        last = max(numbers, default=0)
        return f"{plain}#{last + 1}/" if last else f"{plain}/"


def _taken_apart(root: str) -> tuple[str, int]:
    """A root without its number and `/`, and the number, which is 1 where it shows none."""
    match = _NUMBERED.fullmatch(root)
    assert match is not None, root
    return match[1], int(match[2] or 1)


class StoreRegistry:
    """Stores by root, as one session uses them. Safe to use from several threads and event loops.

    Attributes:
        numbers: by root without its number, the highest number of a store that was opened here.

    Args:
        limits: of requests to the stores that are opened.
        stores: those of the process; None: of this registry alone.
    """

    def __init__(self, limits: TimeLimits | None = None, stores: _Open | None = None) -> None:
        self._limits = limits or TimeLimits()
        self._open = stores or _Open()
        self._kept: OrderedDict[str, tuple[Store, float]] = OrderedDict()  # with the time of use
        self.numbers: dict[str, int] = {}
        with self._open.lock:
            self._open.users.add(self)

    @classmethod
    def shared(cls, limits: TimeLimits | None = None) -> StoreRegistry:
        """A registry of a session, over the stores of this process."""
        return cls(limits, _Open.of_process())

    def open(
        self,
        uri: str | os.PathLike[str] | Address,
        *,
        storage_options: StorageOptions | None = None,
        store: object | None = None,
    ) -> tuple[Store, str]:
        """The store of a URI, and the path inside it. Sends no request.

        Whoever goes on using its root keeps the store, too: `resolve` finds it no longer than that.

        Args:
            uri: URI or local path, taken apart or not; with `store`, a path inside that store.
            storage_options: configuration of store, client and retries; what is not given is
                taken from the environment, as obstore does, and from AWS's profiles. Or a provider;
                see `io.opening.credentials`.
            store: a store object of obstore, or a `Store`.

        Raises:
            InvalidInputError: a wrong URI, option, or object.
            UnsupportedError: a scheme that is not supported.
            AccessError: a profile of AWS that is not there, or files of profiles that are none.
        """
        if store is not None:
            if storage_options:
                raise InvalidInputError("storage_options: the given store has its own already")
            return self._adopt(store, str(uri))
        address = uri if isinstance(uri, Address) else parse_uri(uri)
        options = with_environment(
            address.kind, parse_options(address.kind, as_mapping(storage_options))
        )
        check_endpoint(address.kind, dict(options.config))
        limits = self._limits
        if address.kind == "s3":
            options = with_profile(options)
        if address.kind in ("local", "memory"):
            options, limits = StoreOptions(), TimeLimits()

        def make() -> Store:
            return _make(address._replace(root=self._open.free_root(address.root)), options, limits)

        with self._open.lock:
            opened = self._open.shared((address.root, options, limits), make)
            return self._keep(opened), address.path

    def resolve(self, location: str) -> tuple[Store, str]:
        """The store of a location, and the path inside it.

        Raises:
            InvalidInputError: no store with this root is open.
        """
        end = location.find("/", location.find("://") + 3) + 1
        store = self._open.get(location[:end])
        if store is None:
            raise InvalidInputError(f"location {location!r}: its store was not opened")
        return store, location[end:]

    def piece_reader(self, locations: Sequence[str]) -> tuple[PieceReader | None, list[str]]:
        """What reads pieces of objects of one store that has such a thing, and the paths inside it.

        Raises:
            InvalidInputError: no store with the first one's root is open.
        """
        store, _ = self.resolve(locations[0])
        reader, root = store.pieces, store.root
        if reader is None or not all(map(str.startswith, locations, repeat(root))):
            return None, []
        return reader, [location[len(root) :] for location in locations]

    def close(self) -> None:
        """Keep no store any more; those that tables hold go with them."""
        with self._open.lock:
            self._kept.clear()
            self.numbers.clear()

    def _keep(self, store: Store) -> Store:
        """Keep a store for a while, and drop those that were not opened for long."""
        now = time.monotonic()
        plain, number = _taken_apart(store.root)
        self.numbers[plain] = max(number, self.numbers.get(plain, 0))
        self._kept.pop(store.root, None)
        self._kept[store.root] = (store, now)
        while (
            len(self._kept) > MAX_OPEN_STORES
            or now - next(iter(self._kept.values()))[1] > STORE_IDLE_S
        ):
            self._kept.popitem(last=False)
        return store

    def _adopt(self, store: object, path: str) -> tuple[Store, str]:
        inside = clean_path(path)
        lifecycle.revive()
        store = forked.of_this_process(store)
        if isinstance(store, obstore_stores.LocalStore):
            top = str(store.prefix or "")
            local, base = self.open(top or "/")
            return local, join(base, inside)
        limits = _of_client(self._limits, getattr(store, "client_options", None) or {})
        with self._open.lock:
            opened = self._open.around(store, limits) or self._wrap(store, limits)
            return self._keep(opened), inside

    def _wrap(self, store: object, limits: TimeLimits) -> Store:
        for kind, (scheme, suited) in _ADOPTED_KINDS.items():
            if isinstance(store, getattr(obstore_stores, kind)):
                config = getattr(store, "config", None) or {}
                name = config.get("bucket") or config.get("container_name") or "store"
                root = self._open.free_root(f"{scheme}://{name}/")
                objects = cast("ObjectStore", store)
                wrapped = RemoteStore(root, objects, suited, limits=limits, is_given=True)
                return self._open.add(wrapped)
        if all(hasattr(store, name) for name in ("root", "profile", "get_ranges", "read_now")):
            own = cast("Store", store)
            other = self._open.get(own.root)
            if other is not None and other is not own:
                raise InvalidInputError(f"store: another one has the root {own.root!r}")
            return self._open.add(own)
        raise InvalidInputError(
            f"store: expected a store of obstore, found {type(store).__module__}."
            f"{type(store).__qualname__}"
        )


def _of_client(
    limits: TimeLimits, client: Mapping[str, object], retries: int = INNER_RETRIES
) -> TimeLimits:
    """The limits of a store whose client has a time limit of its own, which is an attempt's."""
    seconds = seconds_of(client["timeout"]) if "timeout" in client else None
    return limits if seconds is None else replace(limits, timeout_s=seconds * (1 + retries))


# The root's scheme, and the profile, of store objects that users give.
_ADOPTED_KINDS: Final[Mapping[str, tuple[str, StoreProfile]]] = {
    "S3Store": ("s3", profile.S3),
    "GCSStore": ("gs", profile.GCS),
    "AzureStore": ("az", profile.AZURE),
    "HTTPStore": ("http", profile.HTTP),
    "MemoryStore": ("memory", profile.OBSTORE_MEMORY),
}


def _make(address: Address, options: StoreOptions, limits: TimeLimits) -> Store:
    if address.kind == "local":
        return LocalStore(address.root)
    if address.kind == "memory":
        return MemoryStore(address.root)
    retries = Retries() if options.outer_retries is None else Retries(options.outer_retries)
    inner = INNER_RETRIES if options.max_retries is None else options.max_retries
    limits = _of_client(limits, dict(options.client), max(inner, retries.max_retries))
    if options.retry_timeout_s is not None:
        limits = replace(limits, timeout_s=max(limits.timeout_s, options.retry_timeout_s))
    try:
        lifecycle.revive()
        objects, suited = _objects(address, options, limits)
    except (obstore_errors.BaseError, ValueError) as error:
        # The text may quote a value, and so a secret: the names of the options must do.
        raise InvalidInputError(
            f"{address.root}: the storage options ({', '.join(options.keys) or 'none'}) or the "
            f"environment do not make a store: {_reason(error, options)}"
        ) from None
    return RemoteStore(
        address.root,
        objects,
        suited,
        retries,
        limits,
        lambda: _objects(address, options, limits, _cheaper(objects))[0],
    )


def _reason(error: Exception, options: StoreOptions) -> str:
    reason = str(translate(error, "obstore"))
    for _, value in (*options.config, *options.client, *options.headers):
        if len(value) > 3:
            reason = reason.replace(value, "…")
    return reason


def _objects(
    address: Address,
    options: StoreOptions,
    limits: TimeLimits,
    for_writes: Config | None = None,
) -> tuple[ObjectStore, StoreProfile]:
    writes = for_writes is not None
    config: Config = {**(for_writes or {}), **dict(options.config)}
    usual_client = limits.writing(profile.UPLOAD_PART_BYTES) if writes else limits.reading()
    client: Config = {**usual_client, **dict(options.client)}
    if options.headers:
        client["default_headers"] = dict(options.headers)
    usual, usual_s = (WRITE_RETRIES, WRITE_RETRY_S) if writes else (INNER_RETRIES, INNER_RETRY_S)
    inner = usual if options.max_retries is None else options.max_retries
    limit = usual_s if options.retry_timeout_s is None else options.retry_timeout_s
    kwargs: dict[str, object] = {
        "client_options": client,
        "retry_config": {
            "max_retries": inner,
            "backoff": {"init_backoff": FIRST_PAUSE, "max_backoff": MAX_PAUSE},
            "retry_timeout": timedelta(seconds=limit),
        },
    }
    if options.renewed is not None:
        kwargs["credential_provider"] = options.renewed
    match address.kind:
        case "s3":
            suited = profile.S3
            if address.container.endswith("--x-s3"):  # the names of directory buckets
                config.setdefault("s3_express", "true")
                suited = profile.S3_EXPRESS
            return obstore_stores.S3Store(address.container, config=config, **kwargs), suited  # type: ignore[arg-type]
        case "gcs":
            return obstore_stores.GCSStore(address.container, config=config, **kwargs), profile.GCS  # type: ignore[arg-type]
        case "azure":
            if address.account:
                config.setdefault("account_name", address.account)
            store = obstore_stores.AzureStore(address.container, config=config, **kwargs)  # type: ignore[arg-type]
            return store, profile.AZURE
    url = address.root.partition("#")[0]
    if url.startswith("http://"):
        client.setdefault("allow_http", "true")
    return obstore_stores.HTTPStore.from_url(url, **kwargs), profile.HTTP  # type: ignore[arg-type]


def _cheaper(objects: ObjectStore) -> Config:
    """Options for writes to S3 without a SHA-256 of each body, two thirds of the work of sending.

    TLS protects the body on its way, so it need not be signed. AWS itself also compares a
    checksum, which not every other server knows.
    """
    if not isinstance(objects, obstore_stores.S3Store):
        return {}
    endpoint = endpoint_of("s3", objects.config)
    if endpoint is None:
        return {"unsigned_payload": "true", "checksum_algorithm": "crc64nvme"}
    return {"unsigned_payload": "true"} if endpoint.startswith("https://") else {}
