"""Parsing of storage options, with the names of Lance, object_store and obstore.

One flat mapping configures the store, the HTTP client and retries. Keys may be in any case, with or
without the provider's prefix: `aws_region`, `AWS_REGION`, `region`. Options of other places
(`base:<uri>`) are not options of the store itself; see `io.opening.access`.
"""

from __future__ import annotations

import os
import re
from dataclasses import field, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

from alance.base.checks import did_you_mean
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.io.opening.credentials import CREDENTIALS, Renewed
from alance.io.stores.s3_clouds import S3_CLOUDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.io.stores.profile import Kind

BASE_PREFIX: Final = "base:"
CHOOSER: Final = BASE_PREFIX + "*"  # option: a function from the URI of a place to its options
WITH_SECRETS: Final = "pickle_secrets"  # option: True if pickles of datasets contain secrets


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of one store by canonical names; hashable. Their `repr` shows no values."""

    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    client: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    max_retries: int | None = None  # retries of a request inside obstore
    retry_timeout_s: float | None = None  # time limit of obstore for a request with its retries
    outer_retries: int | None = None  # retries of a request by alance, after those of obstore
    renewed: Renewed | None = field(default=None, repr=False)  # credentials of a provider

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the options of store and client, for messages."""
        return tuple(key for key, _ in (*self.config, *self.client))


def parse_options(kind: Kind, options: Mapping[str, object] | None) -> StoreOptions:
    """Parse the storage options for a kind of store.

    Stores of local files, memory and plain HTTP servers have no options of their own. They ignore
    the store options of other kinds, so that the same mapping serves all URIs.

    Raises:
        InvalidInputError: a key is unknown, or a value is malformed.
    """
    config: dict[str, str] = {}
    client: dict[str, str] = {}
    headers: dict[str, str] = {}
    retries: dict[str, float] = {}
    for key, value in (options or {}).items():
        if not isinstance(key, str):
            raise InvalidInputError(f"storage option {key!r}: expected a text as key")
        if key.startswith(BASE_PREFIX) or key in (WITH_SECRETS, CREDENTIALS):
            continue
        name = canonical(kind, key)
        if name == "default_headers" and kind != "hf":
            headers.update(_headers(key, value))
        elif name in _RETRY_OPTIONS:
            retries[name] = _number(key, value)
        elif name in _CLIENT_OPTIONS and (kind != "hf" or name in _HUB_CLIENT_OPTIONS):
            _enter(client, name, key, value)
        elif kind in _CONFIG_OPTIONS and name in _CONFIG_OPTIONS[kind]:
            _enter(config, name, key, value)
        elif kind in _CONFIG_OPTIONS or not any(
            canonical(other, key) in names for other, names in _CONFIG_OPTIONS.items()
        ):
            names = (*_CONFIG_OPTIONS.get(kind, ()), *_CLIENT_OPTIONS, *_RETRY_OPTIONS)
            hint = _hint_of(kind, key) or did_you_mean(key, names) or did_you_mean(name, names)
            raise InvalidInputError(f"storage option {key!r} is not known for {kind} stores{hint}")
    outer = retries.get("download_retry_count")
    inner = retries.get("client_max_retries")
    return StoreOptions(
        config=tuple(sorted(config.items())),
        client=tuple(sorted(client.items())),
        headers=tuple(sorted(headers.items())),
        max_retries=None if inner is None else int(inner),
        retry_timeout_s=retries.get("client_retry_timeout"),
        outer_retries=None if outer is None else int(outer),
        renewed=_renewed(kind, (options or {}).get(CREDENTIALS), config),
    )


def _hint_of(kind: Kind, key: str) -> str:
    """Return a hint for an option of s3fs, gcsfs, adlfs, boto3, pyarrow or pylance; else empty."""
    names = {**_PEERS.get(kind, {}), **_PEERS_OF_ALL}
    hint = names.get(key.lower().removeprefix("aws_").removeprefix("hf_"), "")
    if hint.replace("_", "").isalpha():
        return f", did you mean {hint!r}?"
    return hint and f"; write {hint}"


def _renewed(kind: Kind, provider: object, config: Mapping[str, str]) -> Renewed | None:
    """Return the credentials of a provider; None if there is none or the kind needs none.

    Raises:
        InvalidInputError: the options also have secrets, or the value is not a provider.
    """
    if provider is None or kind in ("local", "memory"):
        return None
    renewed = Renewed.of(kind, provider)
    if secrets := sorted(SECRETS.intersection(config)):
        raise InvalidInputError(
            f"storage options {', '.join(secrets)} and {CREDENTIALS!r}: expected one of them"
        )
    return renewed


def canonical_names(key: str) -> set[str]:
    """Return the canonical names of a key for all kinds of stores."""
    return {canonical(kind, key) for kind in _CONFIG_OPTIONS}


def config_names(kind: Kind) -> frozenset[str]:
    """Return the canonical names of the store options of a kind of store."""
    return _CONFIG_OPTIONS[kind]


def canonical(kind: Kind, key: str) -> str:
    """Return the canonical name of a key for a kind of store."""
    key = key.lower()
    for prefix in _PREFIXES.get(kind, ()):
        if key.startswith(prefix):
            key = key[len(prefix) :]
            break
    return _ALIASES.get(kind, {}).get(key) or _COMMON_ALIASES.get(key, key)


def with_environment(kind: Kind, options: StoreOptions) -> StoreOptions:
    """Add options of the client and of retries from the environment; `options` take precedence.

    obstore itself reads the variables of the store (`AWS_REGION`). It ignores those of the client
    (`AWS_PROXY_URL`) as soon as any client option is passed.

    Raises:
        InvalidInputError: a variable for retries is not a number, or a variable that goes into a
            header has a control character.
    """
    names = _client_variables(kind)
    if not names:
        return options
    own_config = dict(options.config)
    for variable in os.environ:
        name = canonical(kind, variable) if variable.startswith(VARIABLE_PREFIXES[kind]) else ""
        is_used = name in HEADER_OPTIONS and name not in own_config
        if is_used and not is_header_text(os.environ.get(variable, "")):
            raise InvalidInputError(f"environment variable {variable}: {NOT_HEADER_TEXT}")
    from_variables = {
        names[variable]: (variable, value)
        for variable, value in (
            (name, os.environ.get(name)) for name in os.environ if name in names
        )
        if value
    }
    if not from_variables:
        return options
    retries = {
        name: _number(*from_variables.pop(name))
        for name in _RETRY_OPTIONS
        if name in from_variables
    }
    client = dict(options.client)
    for name, (variable, value) in from_variables.items():
        if name not in client:
            _enter(client, name, variable, value)
    limit = retries.get("client_retry_timeout")
    return replace(
        options,
        client=tuple(sorted(client.items())),
        max_retries=_first(options.max_retries, retries.get("client_max_retries")),
        retry_timeout_s=limit if options.retry_timeout_s is None else options.retry_timeout_s,
        outer_retries=_first(options.outer_retries, retries.get("download_retry_count")),
    )


@cache
def _client_variables(kind: Kind) -> Mapping[str, str]:
    """Return the option of client or retries for each environment variable, for a kind of store."""
    if kind not in VARIABLE_PREFIXES:
        return {}
    spelled = {name: name for name in (*_CLIENT_OPTIONS, *_RETRY_OPTIONS)} | _COMMON_ALIASES
    return _LANCE_VARIABLES | {
        prefix + text.upper(): name
        for prefix in VARIABLE_PREFIXES[kind]
        for text, name in spelled.items()
    }


def _first(number: int | None, default: float | None) -> int | None:
    return number if number is not None or default is None else int(default)


def _enter(into: dict[str, str], name: str, key: str, value: object) -> None:
    """Store an option's value as text; numbers of seconds get a unit."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, timedelta):
        text = f"{round(value.total_seconds() * 1000)}ms"
    elif isinstance(value, int | float) and name in _DURATIONS:
        text = f"{round(value * 1000)}ms"
    elif isinstance(value, str | int | float):
        text = str(value)
        if name in _DURATIONS and text.isdecimal():
            text += "s"
    else:
        raise InvalidInputError(
            f"storage option {key!r}: expected a text, found {type(value).__name__}"
        )
    if name in HEADER_OPTIONS and not is_header_text(text):
        raise InvalidInputError(f"storage option {key!r}: {NOT_HEADER_TEXT}")
    if into.setdefault(name, text) != text:
        raise InvalidInputError(f"storage option {key!r}: given twice, with different values")


def is_header_text(text: str) -> bool:
    """Return True if a text can be in a header: it has no line break or control character."""
    return _CONTROLS.search(text) is None


def _number(key: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise InvalidInputError(f"storage option {key!r}: expected a number, zero or greater")
    return number


def _headers(key: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(item, str) for pair in value.items() for item in pair
    ):
        raise InvalidInputError(f"storage option {key!r}: expected a dict of texts")
    if not all(is_header_text(item) for pair in value.items() for item in pair):
        raise InvalidInputError(f"storage option {key!r}: {NOT_HEADER_TEXT}")
    return value


_PREFIXES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "s3": ("aws_",),
    "gcs": ("google_", "gcs_"),
    "azure": ("azure_storage_", "azure_"),
    "hf": ("hf_",),
    **{kind: cloud.prefixes for kind, cloud in S3_CLOUDS.items()},
}

# Prefixes of the environment variables for a kind of store.
VARIABLE_PREFIXES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "s3": ("AWS_",),
    "gcs": ("GOOGLE_",),
    "azure": ("AZURE_STORAGE_", "AZURE_"),
    **{kind: tuple(map(str.upper, cloud.prefixes)) for kind, cloud in S3_CLOUDS.items()},
}
_LANCE_VARIABLES: Final[dict[str, str]] = {  # variables of Lance, for all clouds
    "OBJECT_STORE_CLIENT_MAX_RETRIES": "client_max_retries",
    "OBJECT_STORE_CLIENT_RETRY_TIMEOUT": "client_retry_timeout",
}

# Secret options, which are not pickled; see `io.opening.secrets`.
SECRETS: Final = frozenset(
    {
        "access_key_id",  # not secret, but useless without its secret
        "account_key",
        "bearer_token",
        "client_secret",
        "default_headers",
        "fabric_session_token",
        "sas_key",
        "secret_access_key",
        "service_account_key",
        "session_token",
        "sse_customer_key_base64",
        "token",
    }
)

# Options that go into headers or signatures. Others, such as certificates, may have several lines.
HEADER_OPTIONS: Final = (SECRETS - {"default_headers", "service_account_key"}) | {
    "account_name",
    "region",
}
NOT_HEADER_TEXT: Final = "has a line break, or another control character, in its value"
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")

_COMMON_ALIASES: Final[dict[str, str]] = {
    "request_timeout": "timeout",
    "use_http": "allow_http",
    "max_retries": "client_max_retries",
    "retry_timeout": "client_retry_timeout",
}

# Names of options in other libraries, with what to write here.
_PEERS_OF_ALL: Final[dict[str, str]] = {
    "cert": "root_certificate, with the text of the certificate",
    "verify": "allow_invalid_certificates=true to check no certificate",
}
_PEERS: Final[Mapping[Kind, Mapping[str, str]]] = {
    "s3": {
        "access_key": "access_key_id",
        "anon": "skip_signature=true",
        "anonymous": "skip_signature=true",
        "client_kwargs": "its members as options, such as endpoint and region",
        "config_kwargs": "its members as options, such as virtual_hosted_style_request",
        "credentials_provider": "credentials, with a function that returns them",
        "endpoint_override": "endpoint",
        "host": "endpoint, with http:// or https:// before it",
        "key": "access_key_id",
        "password": "secret_access_key",
        "profile": "credentials, with a function that returns them (docs/stores.md)",
        "region_name": "region",
        "role_arn": "credentials, with a function that returns them (docs/stores.md)",
        "s3_additional_kwargs": "its members as options",
        "scheme": "allow_http=true for http",
        "secret": "secret_access_key",
        "secret_key": "secret_access_key",
        "use_ssl": "allow_http=true beside an endpoint of http://",
        "username": "access_key_id",
    },
    "gcs": {
        "access": "nothing: the credentials say what is allowed",
        "anon": "skip_signature=true",
        "credentials_path": "service_account, with the path of a JSON file",
        "keyfile": "service_account, with the path of a JSON file",
        "project": "nothing: a bucket needs no project",
        "project_id": "nothing: a bucket needs no project",
    },
    "azure": {
        "anon": "skip_signature=true",
        "connection_string": "its parts, account_name and account_key",
        "credential": "account_key, sas_token, or credentials with a function",
        "endpoint_url": "endpoint",
    },
    "hf": {
        "download_mode": "nothing: files are read by ranges over HTTP",
        "enable_resolve_cache": "nothing: each read asks the Hub where the file is",
        "repo_id": "the repository in the URI, hf://datasets/OWNER/NAME",
        "revision": "the revision in the URI, hf://datasets/OWNER/NAME@REVISION/path",
        "root": "the folder in the URI, hf://datasets/OWNER/NAME/FOLDER",
        "proxy_url": "nothing: the variable HTTPS_PROXY names a proxy",
        "use_auth_token": "token",
    },
    **{kind: cloud.refused for kind, cloud in S3_CLOUDS.items()},
}

_ALIASES: Final[Mapping[Kind, Mapping[str, str]]] = {
    "s3": {
        "token": "session_token",
        "endpoint_url": "endpoint",
        "sts_endpoint": "endpoint_url_sts",
        "endpoint_url_s3": "aws_endpoint_url_s3",
        "aws_endpoint_url_s3": "aws_endpoint_url_s3",
        "metadata_endpoint_url": "metadata_endpoint",
        "sse_kms_key_arn": "sse_kms_key_id",
    },
    "gcs": {
        "service_account_path": "service_account",
        "storage_token": "bearer_token",
        "token": "bearer_token",
    },
    "azure": {
        "access_key": "account_key",
        "master_key": "account_key",
        "authority_id": "tenant_id",
        "sas_token": "sas_key",
        "bearer_token": "token",
        "identity_endpoint": "msi_endpoint",
    },
    **{kind: cloud.aliases for kind, cloud in S3_CLOUDS.items()},
}

_S3_CLOUD_OPTIONS: Final = frozenset(
    {
        "access_key_id",
        "endpoint",
        "region",
        "secret_access_key",
        "session_token",
        "skip_signature",
        "virtual_hosted_style_request",
    }
)
_CONFIG_OPTIONS: Final[Mapping[Kind, frozenset[str]]] = {
    "s3": frozenset(
        {
            "access_key_id",
            "aws_endpoint_url_s3",
            "checksum_algorithm",
            "conditional_put",
            "container_authorization_token_file",
            "container_credentials_full_uri",
            "container_credentials_relative_uri",
            "copy_if_not_exists",
            "default_region",
            "disable_bulk_delete",
            "disable_tagging",
            "endpoint",
            "endpoint_url_sts",
            "imdsv1_fallback",
            "metadata_endpoint",
            "region",
            "request_payer",
            "role_arn",
            "role_session_name",
            "s3_express",
            "secret_access_key",
            "server_side_encryption",
            "session_token",
            "skip_signature",
            "sse_bucket_key_enabled",
            "sse_customer_key_base64",
            "sse_kms_key_id",
            "unsigned_payload",
            "virtual_hosted_style_request",
            "web_identity_token_file",
        }
    ),
    "gcs": frozenset(
        {
            "application_credentials",
            "base_url",
            "bearer_token",
            "service_account",
            "service_account_key",
            "skip_signature",
        }
    ),
    "azure": frozenset(
        {
            "account_key",
            "account_name",
            "authority_host",
            "client_id",
            "client_secret",
            "disable_tagging",
            "endpoint",
            "fabric_cluster_identifier",
            "fabric_session_token",
            "fabric_token_service_url",
            "fabric_workload_host",
            "federated_token_file",
            "msi_endpoint",
            "msi_resource_id",
            "object_id",
            "sas_key",
            "skip_signature",
            "tenant_id",
            "token",
            "use_azure_cli",
            "use_emulator",
            "use_fabric_endpoint",
        }
    ),
    "hf": frozenset({"endpoint", "skip_signature", "token"}),
    **dict.fromkeys(S3_CLOUDS, _S3_CLOUD_OPTIONS),
}

_HUB_CLIENT_OPTIONS: Final = frozenset({"allow_http", "timeout"})  # the Hub's client has its own
_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)

_DURATIONS: Final = frozenset(
    {
        "connect_timeout",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "pool_idle_timeout",
        "read_timeout",
        "timeout",
    }
)

_RETRY_OPTIONS: Final = frozenset(
    {"client_max_retries", "client_retry_timeout", "download_retry_count"}
)
