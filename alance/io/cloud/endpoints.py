"""Who answers for a store: the cloud itself, or another server that speaks its protocol; and a name
that says which one is meant, in later processes too.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from alance.errors import InvalidInputError
from alance.io.stores.store import without_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alance.io.stores.profile import Kind, StoreProfile

# obstore's names of the option, and of the variables of the environment that stand in for it.
_ENDPOINT_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("endpoint_url_s3", "endpoint"),
    "gcs": ("base_url",),
    "azure": ("endpoint",),
}
_ENDPOINT_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gcs": ("GOOGLE_BASE_URL",),
    "azure": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_CLOUD_HOSTS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": (".amazonaws.com", ".amazonaws.com.cn"),
    "gcs": (".googleapis.com",),
    "azure": (
        ".core.windows.net",
        ".core.usgovcloudapi.net",
        ".core.chinacloudapi.cn",
        ".fabric.microsoft.com",
    ),
}
# Options that say which server and container is meant, in the words of object_store.
_NAMING_OPTIONS: Final = (
    "account_name",
    "base_url",
    "bucket",
    "container_name",
    "endpoint",
    "object_store_emulator",
    "use_emulator",
)
_NAMING_VARIABLE: Final = re.compile(
    r"(AWS|AZURE|AZURITE|GOOGLE)_.*(ACCOUNT_NAME|EMULATOR|ENDPOINT|URL).*"
)
EMULATOR: Final = "http://127.0.0.1:10000"


def endpoint_of(kind: Kind, config: Mapping[str, object]) -> str | None:
    """The server that a store object names in the place of its cloud; None: the cloud.

    Args:
        config: of a store object of obstore.
    """
    for _, server in _named(kind, config):
        if not (urlsplit(server).hostname or "").endswith(_CLOUD_HOSTS.get(kind, ())):
            return server
        return None
    return None


def check_endpoint(kind: Kind, config: Mapping[str, object]) -> None:
    """Make sure that a server is named by a URL: obstore panics where a request has none.

    Args:
        config: as of `StoreOptions`.

    Raises:
        InvalidInputError: it is none; names the option or variable and not its value, which may
            have a password in it.
    """
    plain = {name.removeprefix("aws_"): value for name, value in config.items()}
    for name, server in _named(kind, plain):
        if not _is_url(server):
            raise InvalidInputError(f"{name}: expected a URL, such as http://127.0.0.1:9000")
        return


def _is_url(server: str) -> bool:
    try:
        parts = urlsplit(server)
        has_port = parts.port is None or parts.port > 0
    except ValueError:  # of the port, or of an address in brackets
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_web and has_port and not any(map(str.isspace, server))


def _named(kind: Kind, config: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Servers, the one that counts first, by the option or variable that names them."""
    if kind == "azure" and _is_true(
        config.get("use_emulator", os.environ.get("AZURE_STORAGE_USE_EMULATOR", ""))
    ):
        yield "storage option 'endpoint'", str(config.get("endpoint") or EMULATOR)
    for name in _ENDPOINT_OPTIONS.get(kind, ()):
        if config.get(name):
            yield f"storage option {name!r}", str(config[name])
    if kind == "gcs" and (server := _in_key(config)):
        yield "service account key, gcs_base_url", server
    for name in _ENDPOINT_VARIABLES.get(kind, ()):
        if os.environ.get(name):
            yield f"environment variable {name}", os.environ[name]


def _is_true(value: object) -> bool:
    return str(value).lower() in ("true", "1", "yes", "on", "y")


def _in_key(config: Mapping[str, object]) -> str:
    """The server that a service account's key names, as those of emulators do; else empty."""
    try:
        key = json.loads(str(config.get("service_account_key")))
    except ValueError:
        return ""
    return str(key.get("gcs_base_url", "")) if isinstance(key, dict) else ""


def lasting_name(root: str, profile: StoreProfile, objects: object) -> str | None:
    """The name of a remote store that is the same in every process, for what is kept of it on disk:
    its root and what names its server; None for any other.

    A location does not do: its root has a number where a bucket was opened with several options,
    and the endpoint is not in it. Nothing secret is part of a name, and names are only used hashed.

    Args:
        objects: its store object of obstore.
    """
    if not profile.is_remote:
        return None
    config: dict[str, object] = dict(getattr(objects, "config", None) or {})
    named: dict[str, object] = {key: config[key] for key in _NAMING_OPTIONS if key in config}
    named["url"] = str(getattr(objects, "url", ""))
    named["prefix"] = str(getattr(objects, "prefix", None) or "")
    named["key"] = _in_key(config)
    variables = {
        name: value for name, value in os.environ.items() if _NAMING_VARIABLE.fullmatch(name)
    }
    parts = [profile.kind, without_number(root), named, variables]
    return json.dumps(parts, sort_keys=True, default=str)
