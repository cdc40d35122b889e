"""Names of stores that are the same in every process, for what is kept of them on disk.

A location does not do: its root has a number where a bucket was opened with several options, and
the endpoint is not in it. Nothing secret is part of a name, and names are only used hashed.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final

from alance.io.store import without_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.io.profile import StoreProfile

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


def lasting_name(root: str, profile: StoreProfile, objects: object) -> str | None:
    """The name of a remote store: its root and what names its server; None for any other.

    Args:
        objects: its store object of obstore.
    """
    if not profile.is_remote:
        return None
    config: dict[str, object] = dict(getattr(objects, "config", None) or {})
    named: dict[str, object] = {key: config[key] for key in _OPTIONS if key in config}
    named["url"] = str(getattr(objects, "url", ""))
    named["prefix"] = str(getattr(objects, "prefix", None) or "")
    named["key"] = _url_in_key(config.get("service_account_key"))
    variables = {name: value for name, value in os.environ.items() if _VARIABLE.fullmatch(name)}
    parts = [profile.kind, without_number(root), named, variables]
    return json.dumps(parts, sort_keys=True, default=str)


def _url_in_key(key: object) -> str:
    """The server that a service account's key names, as those of emulators do."""
    try:
        account = json.loads(str(key))
    except ValueError:
        return ""
    return str(account.get("gcs_base_url", "")) if isinstance(account, dict) else ""
