"""Credentials of AWS's shared files, `~/.aws/credentials` and `~/.aws/config`.

As in AWS's command line, they are used if neither the options of a store nor the environment have
credentials. `AWS_PROFILE` names the profile, by default `default`; `AWS_SHARED_CREDENTIALS_FILE`
and `AWS_CONFIG_FILE` name other files. Keys and the output of a `credential_process` are read here.
Keys that come from a service (roles, single sign-on) are left to botocore, which is imported only
then.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alance.errors import AccessError
from alance.io.opening.credentials import PROVIDER_ANSWER_S, ProviderError, Renewed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.io.opening.options import StoreOptions

PROFILE_LIFETIME: Final = timedelta(minutes=15)  # a login changes the files

# A store with any of these options or variables has credentials, or needs none.
_CREDENTIAL_OPTIONS: Final = frozenset(
    {
        "access_key_id",
        "secret_access_key",
        "session_token",
        "skip_signature",
        "web_identity_token_file",
        "container_credentials_full_uri",
        "container_credentials_relative_uri",
    }
)
_KEY_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SKIP_SIGNATURE")
# Set by a platform for its processes; they take precedence over the default profile.
_PLATFORM_VARIABLES: Final = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
# Keys of a profile that gets its credentials from a service.
_SERVICE_KEYS: Final = frozenset(
    {"role_arn", "sso_session", "sso_start_url", "web_identity_token_file", "login_session"}
)
_LOCAL_KEYS: Final = frozenset({"aws_access_key_id", "credential_process"})
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


class ProfileCredentials:
    """A provider of a profile's credentials; providers of the same profile are equal."""

    def __init__(self, name: str, files: tuple[Path, Path]) -> None:
        self._key = name, files
        self._chain: Any = None  # botocore's credentials, which renew themselves

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileCredentials) and self._key == other._key

    def __call__(self) -> Mapping[str, Any]:
        """Return current credentials in the form of `io.opening.credentials`. Blocks.

        Raises:
            ProviderError: the profile has no credentials now, or the tool that provides them fails
                or is not installed.
        """
        name, files = self._key
        profile = _profiles(files).get(name, {})
        if not _SERVICE_KEYS.isdisjoint(profile):
            return self._of_a_service()
        if "aws_access_key_id" in profile:
            return _answer(
                profile["aws_access_key_id"],
                profile.get("aws_secret_access_key"),
                profile.get("aws_session_token"),
            )
        if "credential_process" in profile:
            return _of_process(profile["credential_process"])
        raise ProviderError(f"the profile {name!r} has no credentials any more")

    def _of_a_service(self) -> Mapping[str, Any]:
        if self._chain is None:
            try:
                from botocore.session import Session
            except ImportError:
                raise ProviderError(
                    f"the profile {self._key[0]!r} needs botocore: pip install boto3"
                ) from None
            self._chain = Session(profile=self._key[0]).get_credentials()
        if self._chain is None:
            raise ProviderError(f"botocore finds no credentials of the profile {self._key[0]!r}")
        keys = self._chain.get_frozen_credentials()
        return _answer(keys.access_key, keys.secret_key, keys.token)


def with_profile(options: StoreOptions) -> StoreOptions:
    """Add the credentials and the region of the AWS profile to the options of an S3 store.

    Options and environment take precedence: their credentials replace the profile, and their region
    replaces the profile's region. Reads two small files if they are new or have changed.

    Raises:
        AccessError: a file is malformed, or `AWS_PROFILE` names a profile that does not exist.
    """
    own_config = dict(options.config)
    named = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    if (
        options.renewed is not None
        or not _CREDENTIAL_OPTIONS.isdisjoint(own_config)
        or _has(_KEY_VARIABLES)
    ):
        return options
    if named is None and _has(_PLATFORM_VARIABLES):
        return options
    files = _files()
    profile = _profiles(files).get(named or "default")
    if profile is None:
        if named is None:
            return options
        raise AccessError(f"AWS_PROFILE: no profile {named!r} in {files[0]} and {files[1]}")
    if "region" in profile and "region" not in own_config and not _has(_REGION_VARIABLES):
        config = {"region": profile["region"], **own_config}
        options = replace(options, config=tuple(sorted(config.items())))
    if (_SERVICE_KEYS | _LOCAL_KEYS).isdisjoint(profile):
        return options
    provider = ProfileCredentials(named or "default", files)
    return replace(options, renewed=Renewed.of("s3", provider))


def _has(variables: tuple[str, ...]) -> bool:
    return any(os.environ.get(name) for name in variables)


def _files() -> tuple[Path, Path]:
    """Return the paths of the credentials file and of the configuration file."""
    folder = Path("~/.aws")
    names = ("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")
    credentials, config = (
        Path(os.environ.get(variable) or folder / name) for variable, name in names
    )
    return _at_home(credentials), _at_home(config)


def _at_home(path: Path) -> Path:
    with suppress(RuntimeError):  # a user without a home
        return path.expanduser()
    return path


def _profiles(files: tuple[Path, Path]) -> Mapping[str, Mapping[str, str]]:
    """Return the profiles of both files by name; credentials override configuration."""
    stamps = []
    for path in files:
        try:
            status = path.stat()
            stamps.append((str(path), status.st_mtime_ns, status.st_size))
        except OSError:  # missing, not permitted, or not a possible name
            stamps.append((str(path), -1, 0))
    return _parsed(*stamps)


@lru_cache(maxsize=4)
def _parsed(
    credentials: tuple[str, int, int], config: tuple[str, int, int]
) -> Mapping[str, Mapping[str, str]]:
    from configparser import ConfigParser, Error

    profiles: dict[str, dict[str, str]] = {}
    for (path, changed, _), prefix in ((config, "profile "), (credentials, "")):
        if changed < 0:
            continue
        parser = ConfigParser(interpolation=None, strict=False, default_section="")
        try:
            parser.read_string(Path(path).read_text("utf-8"))
        except (Error, UnicodeDecodeError, OSError) as error:  # its text may quote secrets
            raise AccessError(
                f"{path}: expected profiles of AWS ({type(error).__name__})"
            ) from None
        for section in parser.sections():
            name = section.removeprefix(prefix).strip()
            if section == "default" or section.startswith(prefix):
                profiles.setdefault(name, {}).update(parser.items(section))
    return profiles


def _of_process(command: str) -> Mapping[str, Any]:
    """Run a `credential_process` and parse its output, in the form that AWS documents.

    Raises:
        ProviderError: the program fails or takes too long, or its output is malformed.
    """
    import shlex

    try:
        arguments = shlex.split(command, posix=os.name == "posix")
        ended = subprocess.run(
            arguments, capture_output=True, timeout=PROVIDER_ANSWER_S / 2, check=True
        )
        printed = json.loads(ended.stdout)
        expiry = printed.get("Expiration")
        return _answer(
            printed["AccessKeyId"],
            printed.get("SecretAccessKey"),
            printed.get("SessionToken"),
            None if expiry is None else datetime.fromisoformat(expiry),
        )
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, AttributeError) as error:
        raise ProviderError(f"its credential_process failed ({type(error).__name__})") from None


def _answer(
    key: str, secret: str | None, token: str | None, expiry: datetime | None = None
) -> Mapping[str, Any]:
    return {
        "access_key_id": key,
        "secret_access_key": secret,
        "session_token": token,
        "expires_at": expiry or datetime.now(UTC) + PROFILE_LIFETIME,
    }
