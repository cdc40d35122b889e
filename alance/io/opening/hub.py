"""Tables in datasets of the Hugging Face Hub (`hf://datasets/OWNER/NAME[@REVISION]/path`).

They are read by the file system of `huggingface_hub`. The token of the environment (`HF_TOKEN`, or
that of a login) goes to the Hub of the environment alone (`HF_ENDPOINT`, else huggingface.co): an
endpoint among the storage options gets only the token beside it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.base.extras import missing
from alance.errors import InvalidInputError
from alance.io.cloud.filesystem import FileSystemStore
from alance.io.stores.profile import HUB

if TYPE_CHECKING:
    from alance.io.cloud.resilience import Retries
    from alance.io.loop.limits import TimeLimits
    from alance.io.opening.options import StoreOptions

DATASETS: Final = "datasets/"
INSTEAD: Final = (
    "because datasets of the Hub are read only here; write the table to a folder, and upload that "
    "by huggingface_hub.upload_folder(..., repo_type='dataset')"
)


def with_hub(options: StoreOptions) -> StoreOptions:
    """Fill in the endpoint and the token from the environment, or from the Hub's token file.

    Raises:
        MissingPackageError: huggingface_hub is not installed.
        InvalidInputError: the endpoint is not encrypted, and `allow_http` is not set.
    """
    try:
        from huggingface_hub import constants, get_token
    except ImportError as error:
        raise missing("hf:// needs huggingface_hub", "hf") from error
    config = dict(options.config)
    usual = constants.ENDPOINT.rstrip("/")
    endpoint = config["endpoint"] = config.get("endpoint", usual).rstrip("/")
    if endpoint.startswith("http://") and dict(options.client).get("allow_http") != "true":
        raise InvalidInputError(
            "the Hub's endpoint is http://, which is not encrypted; allow it by the storage option "
            "allow_http=true"
        )
    if config.pop("skip_signature", "") == "true":
        config.pop("token", None)
    elif "token" not in config and endpoint == usual:
        token = get_token() or os.environ.get("HUGGINGFACE_TOKEN")  # the variable of pylance
        config |= {"token": token} if token else {}
    return replace(options, config=tuple(sorted(config.items())))


def hub_store(
    root: str, options: StoreOptions, retries: Retries, limits: TimeLimits
) -> FileSystemStore:
    """Return the store of the datasets of a Hub, for options of `with_hub`. Sends no request."""
    from huggingface_hub import HfFileSystem

    config = dict(options.config)
    # An instance of our own: fsspec keeps shared ones, and their tokens, for ever.
    files = HfFileSystem(
        endpoint=config["endpoint"], token=config.get("token", False), skip_instance_cache=True
    )
    return FileSystemStore(root, files, DATASETS, HUB, retries, limits, instead=INSTEAD)
