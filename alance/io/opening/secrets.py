"""Storage options that a pickle may contain: all options except secrets.

A process that unpickles a dataset uses its own credentials, from the environment. Secrets are
pickled only with the option `pickle_secrets`. Functions that return credentials are pickled by
name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from alance.errors import InvalidInputError
from alance.io.cloud.filesystem import FileSystemStore
from alance.io.cloud.remote import RemoteStore
from alance.io.opening.credentials import CREDENTIALS, goes_by_name, is_provider
from alance.io.opening.options import BASE_PREFIX, CHOOSER, SECRETS, WITH_SECRETS, canonical_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.io.stores.store import Store


# Options of a file system that are no secrets, for sure.
_PLAIN_OPTIONS: Final = frozenset({"anon", "asynchronous", "auto_mkdir", "use_listings_cache"})


def portable(options: Mapping[str, object] | None) -> dict[str, object] | None:
    """Remove secrets from options, also from entries for other places.

    With the option `pickle_secrets` all options are returned. Returns None for None.
    """
    if options is None:
        return None
    if _is_true(options.get(WITH_SECRETS)):
        return dict(options)
    safe: dict[str, object] = {}
    for key, value in options.items():
        if key.startswith(BASE_PREFIX):
            safe[key] = value if key == CHOOSER else _of_base(value)
        elif key == CREDENTIALS:
            if goes_by_name(value):
                safe[key] = value
        elif not _is_secret(key, value):
            safe[key] = value
    return safe


def _of_base(value: object) -> object:
    """Remove secrets from the value of a `base:<uri>` option.

    The value is a mapping, JSON text of a mapping, or a provider of credentials.
    """
    if isinstance(value, str):
        value = json.loads(value or "{}")
    if is_provider(value):
        return value if goes_by_name(value) else {}
    return portable(value) if isinstance(value, Mapping) else value


def _is_secret(key: str, value: object) -> bool:
    if SECRETS.intersection(canonical_names(key)):
        return True
    text = str(value)
    return "://" in text and "@" in text  # user and password of an endpoint or proxy


def _is_true(value: object) -> bool:
    return value is True or str(value).lower() in ("true", "1", "yes")


def portable_store(store: Store) -> tuple[Callable[..., object], tuple[Any, ...]] | None:
    """Return a function and its arguments that rebuild a user's store object, without secrets.

    Returns None if the store is neither an object of obstore nor a file system of fsspec.

    Raises:
        InvalidInputError: the store object cannot be pickled: it is in memory, or a file system
            with options, any of which may be a secret.
    """
    if isinstance(store, FileSystemStore):
        files: Any = store.objects
        if files.storage_args or not _PLAIN_OPTIONS.issuperset(files.storage_options):
            raise InvalidInputError(
                f"store {store.uri!r}: a pickle would contain the options of the file system, "
                f"secrets perhaps; open the table where it is read, with a file system made there"
            )
        return _make, (type(files), (), files.storage_options)
    if not isinstance(store, RemoteStore):
        return None
    objects: Any = store.objects
    if not hasattr(objects, "__getnewargs_ex__"):
        raise InvalidInputError(f"store {store.root!r}: it cannot be pickled")
    args, named = objects.__getnewargs_ex__()
    named = {key: value for key, value in named.items() if value is not None}
    if "config" in named:
        named["config"] = portable(named["config"])
    if "client_options" in named:
        named["client_options"] = portable(named["client_options"])
    return _make, (type(objects), args, named)


def _make(kind: Callable[..., object], args: tuple[Any, ...], named: dict[str, Any]) -> object:
    return kind(*args, **named)
