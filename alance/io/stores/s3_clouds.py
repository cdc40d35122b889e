"""Clouds beside AWS that speak S3's protocol, one object each; their kind is also their scheme.

Names of options and variables are those of pylance.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.io.stores.profile import Kind


@dataclass(frozen=True, slots=True)
class S3Cloud:
    """A cloud that is accessed at its S3-compatible endpoints.

    Attributes:
        prefixes: prefixes of its options; in upper case, of its environment variables. If several
            variables name the same option, the one with the first prefix is used.
        hosts: suffixes of its host names.
        example: an endpoint, for error messages.
        label: start of the host's part that names the region, as in `oss-cn-hangzhou`.
        native_label: the same in hosts that speak the cloud's own protocol instead; None if no host
            does.
        aliases: its names of options, without prefix, with the names for S3.
        refused: its options that are not supported, with what to write instead.
    """

    prefixes: tuple[str, ...]
    hosts: tuple[str, ...]
    example: str
    label: str
    native_label: str | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


S3_CLOUDS: Final[Mapping[Kind, S3Cloud]] = {
    "oss": S3Cloud(  # Alibaba
        prefixes=("oss_", "alibaba_cloud_"),
        hosts=(".aliyuncs.com",),
        example="https://oss-cn-hangzhou.aliyuncs.com",
        label="oss",
        aliases={
            "access_key_secret": "secret_access_key",
            "allow_anonymous": "skip_signature",
            "security_token": "session_token",
        },
        refused={
            "oss_role_arn": "credentials, with a function that returns them",
            "oss_sts_endpoint": "credentials, with a function that returns them",
        },
    ),
    "cos": S3Cloud(  # Tencent
        prefixes=("cos_", "tencentcloud_"),
        hosts=(".myqcloud.com",),
        example="https://cos.ap-guangzhou.myqcloud.com",
        label="cos",
        aliases={
            "secret_id": "access_key_id",
            "secret_key": "secret_access_key",
            "security_token": "session_token",
        },
        refused={
            "cos_disable_config_load": "nothing: only the options and variables of COS are read",
            "cos_enable_versioning": "nothing: versions of objects are not read",
        },
    ),
    "tos": S3Cloud(  # Volcano
        prefixes=("tos_", "volcengine_"),
        hosts=(".volces.com", ".ivolces.com"),
        example="https://tos-cn-beijing.volces.com",
        label="tos-s3",
        native_label="tos",
        aliases={"security_token": "session_token"},
    ),
}
