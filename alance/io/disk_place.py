"""Names of stores that are the same in every process, for what is kept of them on disk.

A location does not do: its root has a number where a bucket was opened with several options, and
the endpoint is not in it. Nothing secret is part of a name, and names are only used hashed.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final

from alance.io.remote import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.io.store import Store

# Options that say which server and container is meant, in the words of object_store.
_OPTIONS: Final[Sequence[str]] = (
    "account_name",
    "base_url",
    "bucket",
    "container_name",
    "endpoint",
    "object_store_emulator",
    "use_emulator",
)
_VARIABLE: Final = re.compile(
    r"(AWS|AZURE|AZURITE|GOOGLE)_.*(ACCOUNT_NAME|EMULATOR|ENDPOINT|URL).*"
)

_NUMBER: Final = re.compile(r"#\d+/$")


def place_of(store: Store) -> str | None:
    """The name of a remote store: its root and what names its server; None for any other."""
    if not isinstance(store, RemoteStore) or store.profile.kind in ("local", "memory"):
        return None
    objects = store.objects
    config: dict[str, object] = dict(getattr(objects, "config", None) or {})
    named: dict[str, object] = {key: config[key] for key in _OPTIONS if key in config}
    named["url"] = str(getattr(objects, "url", ""))
    named["prefix"] = str(getattr(objects, "prefix", None) or "")
    named["key"] = _url_in_key(config.get("service_account_key"))
    found = {name: value for name, value in os.environ.items() if _VARIABLE.fullmatch(name)}
    root = _NUMBER.sub("/", store.root)
    return json.dumps([store.profile.kind, root, named, found], sort_keys=True, default=str)


def _url_in_key(key: object) -> str:
    """The server that a service account's key names, as those of emulators do."""
    try:
        found = json.loads(str(key))
    except ValueError:
        return ""
    return str(found.get("gcs_base_url", "")) if isinstance(found, dict) else ""
