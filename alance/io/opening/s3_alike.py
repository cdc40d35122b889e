"""obstore's client for S3, configured for another cloud of `stores.s3_clouds`.

The client also reads AWS's environment variables. This module therefore sets every option that
names a server or holds a secret, so that no server of AWS is used for another cloud, and no secret
of AWS is sent to it.
"""

from __future__ import annotations

import os
import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from alance.base.records import dataclass
from alance.errors import AccessError, InvalidInputError
from alance.io.opening.options import VARIABLE_PREFIXES, canonical, config_names
from alance.io.stores.s3_clouds import S3_CLOUDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.io.opening.options import StoreOptions
    from alance.io.stores.profile import Kind
    from alance.io.stores.s3_clouds import S3Cloud
    from alance.io.stores.uri import Address

_CREDENTIALS: Final = ("access_key_id", "secret_access_key", "session_token")
# Variables of AWS that put a key into headers of each request.
_ENCRYPTION: Final = re.compile(r"AWS_(SSE|SERVER_SIDE_ENCRYPTION).*")


def with_variables(kind: Kind, options: StoreOptions) -> StoreOptions:
    """Add options of the store from the cloud's own variables; `options` take precedence.

    Keys of variables are not mixed with those among the options.
    """
    if kind not in S3_CLOUDS:
        return options
    config = dict(options.config)
    has_own = not config.keys().isdisjoint(_CREDENTIALS) or options.renewed is not None
    prefixes = VARIABLE_PREFIXES[kind]
    for prefix in prefixes:  # the first has precedence
        for variable, value in os.environ.items():
            name = canonical(kind, variable) if variable.startswith(prefix) else ""
            if name in config_names(kind) and value and not (has_own and name in _CREDENTIALS):
                config.setdefault(name, value)
    return replace(options, config=tuple(sorted(config.items())))


@dataclass(frozen=True, slots=True)
class FixedCredentials:
    """Provider of credentials that do not expire, for obstore. Its `repr` shows none."""

    credential: Mapping[str, str | None] = field(repr=False)

    def __call__(self) -> dict[str, Any]:
        """Return the credentials in obstore's form."""
        return {**self.credential, "expires_at": None}


def s3_config(
    address: Address, options: StoreOptions
) -> tuple[dict[str, object], FixedCredentials | None]:
    """Return the configuration of obstore's client for S3, and fixed credentials, if it has any.

    Raises:
        InvalidInputError: no endpoint, or variables of AWS that would send a key to this cloud.
        AccessError: no credentials.
    """
    kind, config = address.kind, dict(options.config)
    cloud = S3_CLOUDS[kind]
    first = VARIABLE_PREFIXES[kind][0]
    if "endpoint" not in config:
        raise InvalidInputError(
            f"{address.root}: needs an endpoint, such as storage_options="
            f"{{'{kind}_endpoint': '{cloud.example}'}} or the variable {first}ENDPOINT"
        )
    if variables := sorted(filter(_ENCRYPTION.fullmatch, os.environ)):
        raise InvalidInputError(
            f"{address.root}: unset {', '.join(variables)}, which the client would send here, too"
        )
    credentials = {name: config.pop(name, None) for name in _CREDENTIALS}
    is_open = config.get("skip_signature") == "true"
    if not is_open and options.renewed is None and not all([*credentials.values()][:2]):
        raise AccessError(
            f"{address.root}: no credentials: neither among the storage options nor in the "
            f"environment ({first}...); a bucket that is open to all needs skip_signature=true"
        )
    endpoint = _s3_endpoint(cloud, config["endpoint"])
    host = urlsplit(endpoint).hostname or ""
    region = re.search(rf"(?:^|\.){cloud.label}[-.]([a-z]+-[a-z0-9-]+?)(?:-internal)?\.", host)
    is_cloud = host.endswith(cloud.hosts)
    by_host = config.get("virtual_hosted_style_request", str(is_cloud).lower()) == "true"
    if by_host and not host.startswith(f"{address.container}."):
        endpoint = endpoint.replace("://", f"://{address.container}.", 1)
    settings: dict[str, object] = {
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,  # else the variable would win
        "region": config.get("region") or (region[1] if region else "us-east-1"),
        "skip_signature": str(is_open).lower(),
        "virtual_hosted_style_request": str(by_host).lower(),
        # Else the variables of AWS for these would change requests to this cloud.
        "conditional_put": "etag",
        "request_payer": "false",
        "s3_express": "false",
    }
    if is_open or options.renewed is not None:
        return settings, None
    key_id, secret, token = credentials.values()
    return settings, FixedCredentials(
        {"access_key_id": key_id, "secret_access_key": secret, "token": token}
    )


def _s3_endpoint(cloud: S3Cloud, endpoint: str) -> str:
    """Return the endpoint that speaks S3's protocol, for which a cloud may have another host."""
    endpoint = endpoint.rstrip("/")
    if cloud.native_label is None:
        return endpoint
    native = re.compile(rf"://(.*\.)?(?!{cloud.label}-){cloud.native_label}-")
    return native.sub(rf"://\1{cloud.label}-", endpoint, count=1)
