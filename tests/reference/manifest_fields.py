"""Fields of manifests that differ between alance and pylance after the same change."""

from __future__ import annotations

from typing import Final

FIELDS_OF_WRITER: Final = ("timestamp", "writer_version")
