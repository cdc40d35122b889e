"""The registry of open stores: one store for each place and set of options.

A location is the root of a store followed by a path inside it; the registry finds the store of a
location. The same bucket with other options is another store, with its own root (`s3://bucket#2/`).

Each session has a registry. Sessions share open stores with equal options and limits. A store lives
as long as it is used: a registry references recently opened stores, and each table its own store.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from weakref import WeakSet, WeakValueDictionary

from obstore import exceptions as obstore_errors
from obstore import store as obstore_stores

from alance.errors import AlanceError, InvalidInputError
from alance.io.cloud.endpoints import check_endpoint, endpoint_of
from alance.io.cloud.filesystem import FileSystemStore, split_place
from alance.io.cloud.remote import RemoteStore
from alance.io.cloud.resilience import Retries
from alance.io.disk.local import LocalStore
from alance.io.loop import forked, lifecycle
from alance.io.loop.limits import TimeLimits, seconds_of
from alance.io.opening.aws_profile import with_profile
from alance.io.opening.credentials import as_mapping
from alance.io.opening.options import StoreOptions, parse_options, with_environment
from alance.io.opening.s3_alike import s3_config, with_variables
from alance.io.stores import profile
from alance.io.stores.memory import MemoryStore
from alance.io.stores.s3_clouds import S3_CLOUDS
from alance.io.stores.store import translate
from alance.io.stores.uri import Address, clean_path, join, parse_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from alance.io.cloud.remote import ObjectStore
    from alance.io.opening.credentials import StorageOptions
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.store import PieceReader, Store

    Config: TypeAlias = dict[str, object]

# Retries inside obstore, which also resume broken bodies. They are few, so that alance soon learns
# of throttling.
INNER_RETRIES: Final = 3
INNER_RETRY_S: Final = 60.0
FIRST_PAUSE: Final = timedelta(milliseconds=50)
MAX_PAUSE: Final = timedelta(seconds=2)
# Retries of writes: only obstore retries a part, and a slow line may take a minute for a part.
WRITE_RETRIES: Final = 6
WRITE_RETRY_S: Final = 180.0

# Stores that a session keeps for tables that are opened again; connections are most of their cost.
MAX_OPEN_STORES: Final = 32
STORE_IDLE_S: Final = 600.0

MAX_CLIENTS: Final = 4  # clients of obstore that later stores may use
CLIENT_AGE_S: Final = 60.0  # files of credentials that changed are read soon
# Variables of the environment that a client reads when it is created, by their prefixes.
_CLIENT_VARIABLES: Final = (
    *("AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "MSI_", "IDENTITY_"),
    *("HTTP_", "HTTPS_", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD", "SSL_CERT_"),
)
READ_ONLY: Final = (
    "because file systems of fsspec are read only here; to write, open the table by its URI with "
    "storage_options, or pass a store of obstore"
)

NO_OPTIONS: Final = StoreOptions()  # of local files and of memory
USUAL_LIMITS: Final = TimeLimits()

_NUMBERED: Final = re.compile(r"(.*?)(?:#(\d+))?/")  # groups: root without number, number


class _Open:
    """The open stores of a process, by root and by options.

    Stores of local files and of memory stay open. A remote store stays open as long as it is in
    use.
    """

    _process: _Open | None = None

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users: WeakSet[StoreRegistry] = WeakSet()
        self.lasting: dict[str, Store] = {}  # local files, and memory stores: the only copy
        self._passing: WeakValueDictionary[str, Store] = WeakValueDictionary()  # by root
        self._alike: WeakValueDictionary[object, Store] = WeakValueDictionary()
        lifecycle.on_fork(self)

    @classmethod
    def of_process(cls) -> _Open:
        if cls._process is None:
            cls._process = cls()
        return cls._process

    def after_fork(self) -> None:
        """Replace the lock: another thread may have held it at the fork."""
        self.lock = threading.Lock()

    def get(self, root: str) -> Store | None:
        """Return the store with a root; None if it is not open."""
        return self.lasting.get(root) or self._passing.get(root)

    def shared(self, key: object, make: Callable[[], Store]) -> Store:
        """Return the store of a key if it is still in use; else make and add a store."""
        store = self._alike.get(key)
        if store is None:
            store = self._alike[key] = self.add(make())
        return store

    def add(self, store: Store) -> Store:
        """Add a store under its root; return it."""
        lasts = isinstance(store, LocalStore | MemoryStore)
        (self.lasting if lasts else self._passing)[store.root] = store
        return store

    def around(self, objects: object, limits: TimeLimits, base: str = "") -> Store | None:
        """Return the open store around a client or file system that the user passed.

        Clients that are equal share a store. File systems do not, because equal ones may belong to
        different event loops, or to earlier contents of an archive. Returns None if no such store
        with the same time limits is open.

        Args:
            objects: the client or file system.
            base: prefix of the paths in a file system; see `FileSystemStore`.
        """
        for store in list(self._passing.values()):
            if not isinstance(store, RemoteStore | FileSystemStore) or store.limits != limits:
                continue
            if not store.is_of_user:
                continue
            if isinstance(store, FileSystemStore):
                is_match = store.passed is objects and store.base == base
            else:
                own = store.objects
                is_match = own is objects or (type(own) is type(objects) and own == objects)
            if is_match:
                return store
        return None

    def free_root(self, root: str) -> str:
        """Return an unused root; it gets a number if an open store or a session has used `root`."""
        plain, _ = _taken_apart(root)
        numbers = [user.numbers.get(plain, 0) for user in self.users]
        numbers += [
            number
            for other, number in map(_taken_apart, [*self.lasting, *self._passing])
            if other == plain
        ]
        last = max(numbers, default=0)
        return f"{plain}#{last + 1}/" if last else f"{plain}/"


class _Clients:
    """Store objects of obstore, used again by later stores of the same place and options.

    A new one costs 5 ms, mostly for root certificates, and new connections. So sessions one after
    the other share those of the last minute.
    """

    _process: _Clients | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: OrderedDict[object, tuple[ObjectStore, float]] = OrderedDict()
        lifecycle.on_fork(self)

    @classmethod
    def of_process(cls) -> _Clients:
        if cls._process is None:
            cls._process = cls()
        return cls._process

    def after_fork(self) -> None:
        """Forget all store objects: they do not work in a child."""
        lifecycle.inherit(self._recent)
        self._lock, self._recent = threading.Lock(), OrderedDict()

    def get(self, key: object, make: Callable[[], ObjectStore]) -> ObjectStore:
        """Return the store object of a key if it is not too old; else make one."""
        key = key, _client_variables()
        with self._lock:
            now = time.monotonic()
            while self._recent and now - next(iter(self._recent.values()))[1] > CLIENT_AGE_S:
                self._recent.popitem(last=False)
            if key not in self._recent:
                self._recent[key] = make(), now
                if len(self._recent) > MAX_CLIENTS:
                    self._recent.popitem(last=False)
            return self._recent[key][0]


def _client_variables() -> tuple[tuple[str, str | None], ...]:
    """Return the environment variables that a client reads, with values that may be secret."""
    names = [name for name in os.environ if name.upper().startswith(_CLIENT_VARIABLES)]
    return tuple([(name, os.environ.get(name)) for name in names])


@lru_cache(maxsize=256)
def _taken_apart(root: str) -> tuple[str, int]:
    """Split a root into its part without number and `/`, and its number (1 if it has none)."""
    match = _NUMBERED.fullmatch(root)
    assert match is not None, root
    return match[1], int(match[2] or 1)


class StoreRegistry:
    """The stores of one session, by root. Safe to use from several threads and event loops.

    A store is used again only while the environment has the same variables for its client.

    Attributes:
        numbers: highest number of a store opened here, by the part of its root before the number.
            The second store of a bucket, with other options, has a root that ends in `#2/`; see
            `free_root`.

    Args:
        limits: time limits of requests to the opened stores.
        stores: the open stores of the process; None: this registry has its own.
    """

    def __init__(self, limits: TimeLimits | None = None, stores: _Open | None = None) -> None:
        self._limits = limits or TimeLimits()
        self._open = stores or _Open()
        self._recent: OrderedDict[str, tuple[Store, float]] = OrderedDict()  # time of use
        self.numbers: dict[str, int] = {}
        with self._open.lock:
            self._open.users.add(self)

    @classmethod
    def shared(cls, limits: TimeLimits | None = None) -> StoreRegistry:
        """Return a registry that shares the open stores of this process."""
        return cls(limits, _Open.of_process())

    def open(
        self,
        uri: str | os.PathLike[str] | Address,
        *,
        storage_options: StorageOptions | None = None,
        store: object | None = None,
    ) -> tuple[Store, str]:
        """Return the store of a URI, and the path inside it. Sends no request.

        The caller must keep a reference to the store while it uses locations in it: `resolve` finds
        only stores that are in use.

        Args:
            uri: URI or local path, or its parsed form; with `store`, a path inside that store.
            storage_options: configuration of store, client and retries, or a provider of
                credentials (`io.opening.credentials`). Missing options come from the environment,
                as in obstore, and from AWS's profiles.
            store: a store object of obstore, a file system of fsspec, or a `Store`.

        Raises:
            InvalidInputError: the URI, an option or the store object is not valid.
            UnsupportedError: the scheme is not supported.
            MissingPackageError: the scheme needs a package that is not installed.
            AccessError: the AWS profile does not exist, or its files are malformed; or another
                cloud with S3's protocol has no credentials.
        """
        if store is not None:
            if storage_options:
                raise InvalidInputError("storage_options: the given store has its own already")
            return self._adopt(store, str(uri))
        address = uri if isinstance(uri, Address) else parse_uri(uri)
        kind, mapping = address.kind, as_mapping(storage_options)
        options = parse_options(kind, mapping) if mapping else NO_OPTIONS
        limits = USUAL_LIMITS
        key: object = address.root
        if kind in ("local", "memory"):
            options = NO_OPTIONS
        else:
            options = with_variables(kind, with_environment(kind, options))
            limits = self._limits
            check_endpoint(kind, dict(options.config))
            if kind == "s3":
                options = with_profile(options)
            elif kind == "hf":
                from alance.io.opening.hub import with_hub  # only with its extra

                options = with_hub(options)
            key = address.root, options, limits, _client_variables()

        def make() -> Store:
            return _make(address._replace(root=self._open.free_root(address.root)), options, limits)

        with self._open.lock:
            opened = self._open.shared(key, make)
            return self._keep(opened), address.path

    def resolve(self, location: str) -> tuple[Store, str]:
        """Return the store of a location, and the path inside it.

        Raises:
            InvalidInputError: no store with this root is open.
        """
        end = location.find("/", location.find("://") + 3) + 1
        root = location[:end]
        store = self._open.lasting.get(root) or self._open.get(root)
        if store is None:
            raise InvalidInputError(f"location {location!r}: its store was not opened")
        return store, location[end:]

    def piece_reader(self, locations: Sequence[str]) -> tuple[PieceReader | None, list[str]]:
        """Return the reader of pieces for objects of one store, and the paths inside the store.

        The reader is None if the store has none, or the objects are in several stores.

        Raises:
            InvalidInputError: the store of the first object is not open.
        """
        store, path = self.resolve(locations[0])
        reader, root = store.pieces, store.root
        if len(locations) == 1:
            return reader, [path]
        if reader is None or not all(map(str.startswith, locations, repeat(root))):
            return None, []
        return reader, [location[len(root) :] for location in locations]

    def close(self) -> None:
        """Release all stores; a store stays open while a table references it."""
        with self._open.lock:
            self._recent.clear()
            self.numbers.clear()

    def _keep(self, store: Store) -> Store:
        """Keep a store open. Release idle stores, and the oldest beyond `MAX_OPEN_STORES`."""
        now = time.monotonic()
        plain, number = _taken_apart(store.root)
        self.numbers[plain] = max(number, self.numbers.get(plain, 0))
        self._recent.pop(store.root, None)
        self._recent[store.root] = (store, now)
        while (
            len(self._recent) > MAX_OPEN_STORES
            or now - next(iter(self._recent.values()))[1] > STORE_IDLE_S
        ):
            self._recent.popitem(last=False)
        return store

    def _adopt(self, store: object, path: str) -> tuple[Store, str]:
        # A file system was imported by whoever made it.
        fsspec = sys.modules.get("fsspec")
        if fsspec is not None and isinstance(store, fsspec.AbstractFileSystem):
            return self._adopt_files(store, path)
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

    def _adopt_files(self, files: AbstractFileSystem, path: str) -> tuple[Store, str]:
        """Return the read-only store of a file system of fsspec, and the path inside it."""
        base, inside = split_place(files, path)
        with self._open.lock:
            opened = self._open.around(files, self._limits, base)
            if opened is None:
                protocol = files.protocol if isinstance(files.protocol, str) else files.protocol[0]
                server = base.partition("://")[2].strip("/") or "store"
                root = self._open.free_root(f"fsspec+{protocol}://{server}/")
                opened = FileSystemStore(
                    root, files, base, limits=self._limits, instead=READ_ONLY, is_of_user=True
                )
                self._open.add(opened)
            return self._keep(opened), clean_path(inside)

    def _wrap(self, store: object, limits: TimeLimits) -> Store:
        for kind, (scheme, suited) in _ADOPTED_KINDS.items():
            if isinstance(store, getattr(obstore_stores, kind)):
                config = getattr(store, "config", None) or {}
                name = config.get("bucket") or config.get("container_name") or "store"
                root = self._open.free_root(f"{scheme}://{name}/")
                objects = cast("ObjectStore", store)
                wrapped = RemoteStore(root, objects, suited, limits=limits, is_of_user=True)
                return self._open.add(wrapped)
        if all(hasattr(store, name) for name in ("root", "profile", "get_ranges", "read_now")):
            own = cast("Store", store)
            other = self._open.get(own.root)
            if other is not None and other is not own:
                raise InvalidInputError(f"store: another one has the root {own.root!r}")
            return self._open.add(own)
        raise InvalidInputError(
            f"store: expected a store of obstore or a file system of fsspec, found "
            f"{type(store).__module__}.{type(store).__qualname__}"
        )


def _of_client(
    limits: TimeLimits, client: Mapping[str, object], retries: int = INNER_RETRIES
) -> TimeLimits:
    """Derive the time limits of a store from the client's limit for an attempt, if it has one."""
    seconds = seconds_of(client["timeout"]) if "timeout" in client else None
    return limits if seconds is None else replace(limits, timeout_s=seconds * (1 + retries))


# Scheme of the root, and profile, for each class of store objects that a user may pass.
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
    if address.kind == "hf":
        from alance.io.opening.hub import hub_store

        return hub_store(address.root, options, retries, limits)
    try:
        lifecycle.revive()
        objects, suited = _objects(address, options, limits), _profile(address)
    except AlanceError:
        raise
    except (obstore_errors.BaseError, ValueError) as error:
        # The text may quote a value, and so a secret: name the options without values.
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
        lambda: _objects(address, options, limits, _cheaper(objects, address)),
    )


def _reason(error: Exception, options: StoreOptions) -> str:
    reason = str(translate(error, "obstore"))
    for _, value in (*options.config, *options.client, *options.headers):
        if len(value) > 3:
            reason = reason.replace(value, "…")
    return reason


def _retry_config(options: StoreOptions, writes: bool) -> Config:
    usual, usual_s = (WRITE_RETRIES, WRITE_RETRY_S) if writes else (INNER_RETRIES, INNER_RETRY_S)
    limit = usual_s if options.retry_timeout_s is None else options.retry_timeout_s
    return {
        "max_retries": usual if options.max_retries is None else options.max_retries,
        "backoff": {"init_backoff": FIRST_PAUSE, "max_backoff": MAX_PAUSE},
        "retry_timeout": timedelta(seconds=limit),
    }


def _profile(address: Address) -> StoreProfile:
    if address.kind == "s3":
        # Suffixes of the names of directory buckets, and of aliases of buckets on Outposts.
        is_bucket = not address.container.endswith(("--x-s3", "--op-s3"))
        return profile.S3 if is_bucket else profile.S3_EXPRESS
    by_kind = {"gcs": profile.GCS, "azure": profile.AZURE, **profile.S3_ALIKE}
    return by_kind.get(address.kind, profile.HTTP)


def _objects(
    address: Address,
    options: StoreOptions,
    limits: TimeLimits,
    for_writes: Config | None = None,
) -> ObjectStore:
    def make() -> ObjectStore:
        return _new_objects(address, options, limits, for_writes)

    if options.renewed is not None:  # an object of the user, which goes with its store
        return make()
    place = address._replace(root=_taken_apart(address.root)[0], path="")
    more = None if for_writes is None else tuple(sorted(for_writes.items()))
    return _Clients.of_process().get((place, options, limits, more), make)


def _new_objects(
    address: Address, options: StoreOptions, limits: TimeLimits, for_writes: Config | None
) -> ObjectStore:
    writes = for_writes is not None
    config: Config = {**(for_writes or {}), **dict(options.config)}
    usual_client = limits.writing(profile.UPLOAD_PART_BYTES) if writes else limits.reading()
    client: Config = {**usual_client, **dict(options.client)}
    if options.headers:
        client["default_headers"] = dict(options.headers)
    kwargs: Config = {"client_options": client, "retry_config": _retry_config(options, writes)}
    if options.renewed is not None:
        kwargs["credential_provider"] = options.renewed
    match address.kind:
        case "s3":
            if address.container.endswith("--x-s3"):
                config.setdefault("s3_express", "true")
            return obstore_stores.S3Store(address.container, config=config, **kwargs)  # type: ignore[arg-type]
        case kind if kind in S3_CLOUDS:
            settings, fixed = s3_config(address, options)
            kwargs.setdefault("credential_provider", fixed)
            config = {**(for_writes or {}), **settings}
            return obstore_stores.S3Store(address.container, config=config, **kwargs)  # type: ignore[arg-type]
        case "gcs":
            return obstore_stores.GCSStore(address.container, config=config, **kwargs)  # type: ignore[arg-type]
        case "azure":
            if address.account:
                config.setdefault("account_name", address.account)
            return obstore_stores.AzureStore(address.container, config=config, **kwargs)  # type: ignore[arg-type]
    url = address.root.partition("#")[0]
    if url.startswith("http://"):
        client.setdefault("allow_http", "true")
    return obstore_stores.HTTPStore.from_url(url, **kwargs)  # type: ignore[arg-type]


def _cheaper(objects: ObjectStore, address: Address) -> Config:
    """Return options for writes to S3 that avoid the SHA-256 of each body, two thirds of the work.

    TLS protects the body in transit, so it need not be signed. For AWS itself the options add a
    CRC, which not every other server supports. Empty for other stores and for servers without TLS.
    """
    if not isinstance(objects, obstore_stores.S3Store) or address.kind != "s3":
        return {}
    endpoint = endpoint_of("s3", objects.config)
    if endpoint is None:
        return {"unsigned_payload": "true", "checksum_algorithm": "crc64nvme"}
    return {"unsigned_payload": "true"} if endpoint.startswith("https://") else {}
