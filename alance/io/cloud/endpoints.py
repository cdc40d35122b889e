"""Endpoints of stores: the cloud itself, or another server with the same protocol.

The lasting name of a store, which is the same in every process, is made from its endpoint.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from alance.errors import InvalidInputError
from alance.io.stores.s3_clouds import S3_CLOUDS
from alance.io.stores.store import without_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alance.io.stores.profile import Kind, StoreProfile

# obstore's name of the endpoint option, and the environment variables for it.
_ENDPOINT_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("endpoint_url_s3", "endpoint"),
    "gcs": ("base_url",),
    "azure": ("endpoint",),
    "hf": ("endpoint",),
    **dict.fromkeys(S3_CLOUDS, ("endpoint",)),
}
_ENDPOINT_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gcs": ("GOOGLE_BASE_URL",),
    "azure": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "hf": ("HF_ENDPOINT",),
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
# Options that identify the server and the container, by their names in object_store.
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
    """Return the URL of the server that replaces a store's cloud; None if the cloud itself is used.

    Args:
        config: configuration of a store object of obstore.
    """
    for _, server in _named(kind, config):
        if not (urlsplit(server).hostname or "").endswith(_CLOUD_HOSTS.get(kind, ())):
            return server
        return None
    return None


def names_server(kind: Kind, config: Mapping[str, object]) -> bool:
    """True if options or the environment name a server, even if it belongs to the cloud.

    Some endpoints of a cloud, such as those of S3 on Outposts, lack features of the cloud.
    """
    return any(True for _ in _named(kind, config))


def check_endpoint(kind: Kind, config: Mapping[str, object]) -> None:
    """Check that an endpoint is a URL. Without the check obstore would panic at a request.

    Args:
        config: as in `StoreOptions`.

    Raises:
        InvalidInputError: the endpoint is not a URL. The message names the option or variable, but
            not its value, which may contain a password.
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
    except ValueError:  # a bad port, or a bad address in brackets
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_web and has_port and not any(map(str.isspace, server))


def _named(kind: Kind, config: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield candidate servers, each with the name of its option or variable; the first is used."""
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
    """Return the server named in an emulator's service account key; empty if there is none."""
    try:
        key = json.loads(str(config.get("service_account_key")))
    except ValueError:
        return ""
    return str(key.get("gcs_base_url", "")) if isinstance(key, dict) else ""


def lasting_name(root: str, profile: StoreProfile, objects: object) -> str | None:
    """Return the name of a remote store in the disk cache: its root and the identity of its server.

    The name is the same in every process. A location is not: its root has a number if a bucket was
    opened with several sets of options, and it does not contain the endpoint. A name has no
    secrets, and is only used hashed. Returns None if the store is not remote.

    Args:
        objects: the store object of obstore.
    """
    if not profile.is_remote:
        return None
    config: dict[str, object] = dict(getattr(objects, "config", None) or {})
    named: dict[str, object] = {key: config[key] for key in _NAMING_OPTIONS if key in config}
    named["url"] = str(getattr(objects, "url", ""))
    named["prefix"] = str(getattr(objects, "prefix", None) or "")
    named["key"] = _in_key(config)
    names = [name for name in os.environ if _NAMING_VARIABLE.fullmatch(name)]
    variables = {name: os.environ.get(name) for name in names}
    parts = [profile.kind, without_number(root), named, variables]
    return json.dumps(parts, sort_keys=True, default=str)
