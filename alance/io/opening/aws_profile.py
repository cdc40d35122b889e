"""Credentials of AWS's shared files, `~/.aws/credentials` and `~/.aws/config`.

They are used as the command of AWS uses them: where neither the options of a store nor the
variables of the environment have any. `AWS_PROFILE` names the profile, else it is `default`;
`AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` name other files. Keys and the output of a
`credential_process` are read here. What has to ask a service for keys (roles, single sign-on) is
botocore's job, and botocore is imported only then.
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

PROFILE_LIFETIME: Final = timedelta(minutes=15)  # files change where a login is renewed

# Options, and variables, with which a store has credentials or needs none.
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
# What a platform sets for its processes: before the profile that nobody has named.
_PLATFORM_VARIABLES: Final = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
# Keys of a profile whose credentials a service gives.
_SERVICE_KEYS: Final = frozenset(
    {"role_arn", "sso_session", "sso_start_url", "web_identity_token_file", "login_session"}
)
_LOCAL_KEYS: Final = frozenset({"aws_access_key_id", "credential_process"})
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


class ProfileCredentials:
    """A provider of the credentials of a profile; equal to others of the same profile."""

    def __init__(self, name: str, files: tuple[Path, Path]) -> None:
        self._key = name, files
        self._chain: Any = None  # of botocore, which renews what expires by itself

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileCredentials) and self._key == other._key

    def __call__(self) -> Mapping[str, Any]:
        """Credentials as `io.opening.credentials` takes them, read or asked for anew.

        Raises:
            ProviderError: there are none, or not by this machine's means.
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
    """Options of a store of S3, with the credentials and the region of the profile where neither
    they nor the environment say any. Reads two small files where they have changed.

    Raises:
        AccessError: a file that is none, or `AWS_PROFILE` names a profile that is not there.
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
    """The files of credentials and of configuration."""
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
    """The profiles of both files, by name; credentials come before configuration."""
    stamps = []
    for path in files:
        try:
            status = path.stat()
            stamps.append((str(path), status.st_mtime_ns, status.st_size))
        except OSError:  # not there, not for us, or a name that no file has
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
        except (Error, UnicodeDecodeError, OSError) as error:  # its text quotes lines
            raise AccessError(
                f"{path}: expected profiles of AWS ({type(error).__name__})"
            ) from None
        for section in parser.sections():
            name = section.removeprefix(prefix).strip()
            if section == "default" or section.startswith(prefix):
                profiles.setdefault(name, {}).update(parser.items(section))
    return profiles


def _of_process(command: str) -> Mapping[str, Any]:
    """What a program prints, in the form that AWS documents for a `credential_process`."""
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
