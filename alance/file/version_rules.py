"""Limits of file versions: what their files cannot hold, and what to warn of."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.encode.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.format.field import Field


def check_version(version: FileVersion, leaves: Iterable[Field]) -> None:
    """Check the leaves of a file that is begun.

    Warns where later releases may not read it, and of metadata that are not used as they are.

    Raises:
        InvalidInputError: blobs of a version that these files do not have.
    """
    for leaf in leaves:
        for text in Options.doubtful(leaf.metadata):
            warnings.warn(f"field {leaf.name!r}: metadata {text}", stacklevel=4)
        if leaf.is_blob_v2 and version < FileVersion.V2_2:
            raise InvalidInputError(
                f"field {leaf.name!r}: blobs of version 2 in a file of {version.value}; "
                "expected version 2.2 or later"
            )
        if leaf.is_blob_v1 and version >= FileVersion.V2_3:
            raise InvalidInputError(
                f"field {leaf.name!r}: blobs of version 1 in a file of {version.value}, "
                "which has those of version 2 alone"
            )
    if version >= FileVersion.V2_3:
        warnings.warn(
            f"file version {version.value} is unstable: later releases of Lance may not read it",
            stacklevel=4,  # who makes the writer
        )
