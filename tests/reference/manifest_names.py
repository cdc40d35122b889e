"""Names of the files of manifests in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.table.naming import ManifestName, parse_manifest_name

if TYPE_CHECKING:
    from collections.abc import Iterable


def attached(names: Iterable[str]) -> dict[str, ManifestName]:
    """The names of manifests of attached (not detached) versions."""
    parsed = ((name, parse_manifest_name(name)) for name in names)
    return {
        name: manifest
        for name, manifest in parsed
        if manifest is not None and not manifest.is_detached
    }
