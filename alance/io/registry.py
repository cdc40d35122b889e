"""The stores of this process: one for each place and set of options.

A location is the root of a store and the path inside it; whoever has a location finds the store
here. The same bucket with other options is another store with a root of its own (`s3://bucket#2/`).
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from obstore import exceptions as obstore_errors
from obstore import store as obstore_stores

from alance.errors import InvalidInputError
from alance.io import lifecycle, profile
from alance.io.endpoints import endpoint_of
from alance.io.local import LocalStore
from alance.io.memory import MemoryStore
from alance.io.options import StoreOptions, parse_options
from alance.io.remote import RemoteStore
from alance.io.resilience import Retries
from alance.io.store import translate
from alance.io.uri import Address, clean_path, join, parse_uri

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from alance.io.profile import StoreProfile
    from alance.io.remote import ObjectStore
    from alance.io.store import Store

    Config: TypeAlias = dict[str, object]

# obstore's own retries: short, so that throttling is seen soon; they resume broken bodies.
INNER_RETRIES: Final = 3
INNER_RETRY_S: Final = 60.0
FIRST_PAUSE: Final = timedelta(milliseconds=50)
MAX_PAUSE: Final = timedelta(seconds=2)
CLIENT: Final = {
    "connect_timeout": "3s",
    "read_timeout": "5s",  # between two reads of a body; the rest is asked for again
    "timeout": "30s",  # of a request with its body
}
# Writes: a part is tried again by obstore alone, and a slow line may take a minute for it. The
# time limit of reads would count the sending of a body as silence.
WRITE_RETRIES: Final = 6
WRITE_RETRY_S: Final = 180.0
WRITING_CLIENT: Final = CLIENT | {"read_timeout": "120s", "timeout": "120s"}


class StoreRegistry:
    """Stores by root. Safe to use from several threads and event loops."""

    _shared: StoreRegistry | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[str, Store] = {}  # by root
        self._roots: dict[tuple[str, StoreOptions], str] = {}  # by plain root and options
        self._given: list[tuple[object, str]] = []  # store objects of users, and their roots
        lifecycle.on_fork(self)

    @classmethod
    def shared(cls) -> StoreRegistry:
        """The registry of this process."""
        if cls._shared is None:
            cls._shared = cls()
        return cls._shared

    def after_fork(self) -> None:
        """Make the lock anew: another thread may have held it."""
        self._lock = threading.Lock()

    def open(
        self,
        uri: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, object] | None = None,
        store: object | None = None,
    ) -> tuple[Store, str]:
        """The store of a URI, and the path inside it. Sends no request.

        Args:
            uri: URI or local path; with `store`, a path inside that store.
            storage_options: configuration of store, client and retries; what is not given is
                taken from the environment, as obstore does.
            store: a store object of obstore, or a `Store`.

        Raises:
            InvalidInputError: a wrong URI, option, or object.
            UnsupportedError: a scheme that is not supported.
        """
        if store is not None:
            if storage_options:
                raise InvalidInputError("storage_options: the given store has its own already")
            return self._adopt(store, str(uri))
        address = parse_uri(uri)
        options = parse_options(address.kind, storage_options)
        if address.kind in ("local", "memory"):
            options = StoreOptions()
        with self._lock:
            root = self._roots.get((address.root, options))
            if root is None:
                root = self._free_root(address.root)
                self._stores[root] = _make(replace(address, root=root), options)
                self._roots[address.root, options] = root
            return self._stores[root], address.path

    def resolve(self, location: str) -> tuple[Store, str]:
        """The store of a location, and the path inside it.

        Raises:
            InvalidInputError: no store with this root was opened.
        """
        end = location.find("/", location.find("://") + 3) + 1
        store = self._stores.get(location[:end])
        if store is None:
            raise InvalidInputError(f"location {location!r}: its store was not opened")
        return store, location[end:]

    def _free_root(self, root: str) -> str:
        """The root, or with a number where it is taken."""
        free, number = root, 1
        while free in self._stores:
            number += 1
            free = f"{root[:-1]}#{number}/"
        return free

    def _adopt(self, store: object, path: str) -> tuple[Store, str]:
        inside = clean_path(path)
        if isinstance(store, obstore_stores.LocalStore):
            top = str(store.prefix or "")
            local, base = self.open(top or "/")
            return local, join(base, inside)
        with self._lock:
            for known, root in self._given:
                if known is store or (type(known) is type(store) and known == store):
                    return self._stores[root], inside
            made = self._wrap(store)
            self._stores[made.root] = made
            self._given.append((store, made.root))
            return made, inside

    def _wrap(self, store: object) -> Store:
        for kind, (scheme, suited) in _GIVEN.items():
            if isinstance(store, kind):
                config = getattr(store, "config", None) or {}
                name = config.get("bucket") or config.get("container_name") or "store"
                root = self._free_root(f"{scheme}://{name}/")
                return RemoteStore(root, cast("ObjectStore", store), suited)
        if all(hasattr(store, name) for name in ("root", "profile", "get_ranges", "read_now")):
            own = cast("Store", store)
            if own.root in self._stores:
                raise InvalidInputError(f"store: another one has the root {own.root!r}")
            return own
        raise InvalidInputError(
            f"store: expected a store of obstore, found {type(store).__module__}."
            f"{type(store).__qualname__}"
        )


# The root's scheme, and the profile, of store objects that users give.
_GIVEN: Final[Mapping[type, tuple[str, StoreProfile]]] = {
    obstore_stores.S3Store: ("s3", profile.S3),
    obstore_stores.GCSStore: ("gs", profile.GCS),
    obstore_stores.AzureStore: ("az", profile.AZURE),
    obstore_stores.HTTPStore: ("http", profile.HTTP),
    obstore_stores.MemoryStore: ("memory", profile.OBSTORE_MEMORY),
}


def _make(address: Address, options: StoreOptions) -> Store:
    if address.kind == "local":
        return LocalStore(address.root)
    if address.kind == "memory":
        return MemoryStore(address.root)
    retries = Retries() if options.outer_retries is None else Retries(options.outer_retries)
    try:
        objects, suited = _objects(address, options)
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
        lambda: _objects(address, options, _cheaper(objects))[0],
    )


def _reason(error: Exception, options: StoreOptions) -> str:
    reason = str(translate(error, "obstore"))
    for _, value in (*options.config, *options.client, *options.headers):
        if len(value) > 3:
            reason = reason.replace(value, "…")
    return reason


def _objects(
    address: Address, options: StoreOptions, for_writes: Config | None = None
) -> tuple[ObjectStore, StoreProfile]:
    writes = for_writes is not None
    config: Config = {**(for_writes or {}), **dict(options.config)}
    client: Config = {**(WRITING_CLIENT if writes else CLIENT), **dict(options.client)}
    if options.headers:
        client["default_headers"] = dict(options.headers)
    usual, usual_s = (WRITE_RETRIES, WRITE_RETRY_S) if writes else (INNER_RETRIES, INNER_RETRY_S)
    inner = usual if options.max_retries is None else options.max_retries
    limit = usual_s if options.retry_timeout_s is None else options.retry_timeout_s
    given = {
        "client_options": client,
        "retry_config": {
            "max_retries": inner,
            "backoff": {"init_backoff": FIRST_PAUSE, "max_backoff": MAX_PAUSE},
            "retry_timeout": timedelta(seconds=limit),
        },
    }
    match address.kind:
        case "s3":
            suited = profile.S3
            if address.container.endswith("--x-s3"):  # the names of directory buckets
                config.setdefault("s3_express", "true")
                suited = profile.S3_EXPRESS
            return obstore_stores.S3Store(address.container, config=config, **given), suited  # type: ignore[arg-type]
        case "gcs":
            return obstore_stores.GCSStore(address.container, config=config, **given), profile.GCS  # type: ignore[arg-type]
        case "azure":
            if address.account:
                config.setdefault("account_name", address.account)
            made = obstore_stores.AzureStore(address.container, config=config, **given)  # type: ignore[arg-type]
            return made, profile.AZURE
    url = address.root.partition("#")[0]
    if url.startswith("http://"):
        client.setdefault("allow_http", "true")
    return obstore_stores.HTTPStore.from_url(url, **given), profile.HTTP  # type: ignore[arg-type]


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
